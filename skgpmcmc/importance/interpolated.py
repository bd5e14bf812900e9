"""An importance density that is a smooth function of theta."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import linalg

from .._typing import FloatArray, IntArray
from ..approximations.base import Approximation, Sites
from ..approximations.whitened import gaussian_family
from ..model.joint import LatentGP
from ..model.prior import GaussianPrior
from ..numerics.linalg import ridge_regression
from .density import Density
from .sequential import SequentialApproximation, rank_rows

#: Noise variance of the residuals, relative to the variance of the process: for conditioning.
_NUGGET = 1e-6
#: Least length-scale in units of `scale`: longer with larger p, as draws are sqrt(2 p) apart.
_LENGTH_SCALE = 3.0
#: Least site precision that is interpolated, as a share of the largest: less does not matter.
_SMALLEST_PRECISION = 1e-12


@dataclass(frozen=True, eq=False)
class InterpolatedSites:
    """A density of f at any theta from the sites that an approximation has at design points.

    Each site is interpolated over theta: a linear trend and a Gaussian process with the covariance
    1 / (1 + r^2 / 2) on its residuals, for the log of the precision and for the shift over the root
    of the precision, which both stay of order one when the kernel's variance grows. The density is
    a function of (y, theta) alone, and costs one Cholesky factorization instead of iterations.
    Where the design is dense, it is as good as the approximation itself.

    Attributes
    ----------
    approximation : Approximation
        Approximation that found the sites at the design points.
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``.
    low, high : ndarray of shape (p,)
        Box of the design in natural logs; outside it the sites are those of the nearest edge.
    nodes : ndarray of shape (D, p)
        Design points in coordinates z.
    trend : ndarray of shape (p + 1, 2 n)
        Coefficients of the trend, for log precision and for shift over root precision.
    coefficients : ndarray of shape (D, 2 n)
        Weights of the Gaussian process at the design points.
    least, most : ndarray of shape (2 n,)
        Range of each interpolated quantity over the design, to which its values are clipped.
    turns : ndarray of shape (r,)
        Rows that are drawn sequentially (`SequentialApproximation`), the same rows for all theta.
    """

    approximation: Approximation
    center: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray
    nodes: FloatArray
    trend: FloatArray
    coefficients: FloatArray
    least: FloatArray
    most: FloatArray
    sequential_rows: IntArray

    @classmethod
    def fit(
        cls,
        approximation: Approximation,
        theta: FloatArray,
        sites: Sequence[Sites],
        center: FloatArray,
        scale: FloatArray,
        sequential_rows: IntArray | None = None,
    ) -> Self:
        """Interpolate the sites at theta of shape (D, p); by default no row is sequential."""
        scale = scale * max(_LENGTH_SCALE, theta.shape[1] ** 0.5)
        nodes = (theta - center) / scale
        targets = np.stack([_site_coordinates(s) for s in sites])
        features = np.concatenate([np.ones((len(nodes), 1)), nodes], axis=1)
        K = _rational_quadratic(nodes, nodes)
        K.flat[:: len(K) + 1] += _NUGGET
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True)
        root, _ = factor
        columns, wanted = (
            linalg.solve_triangular(root, part, lower=True) for part in (features, targets)
        )
        # The ridge matters only if there are fewer design points than terms of the trend.
        trend = ridge_regression(columns, wanted, np.full(features.shape[1], 1e-8))
        coefficients = linalg.cho_solve(factor, targets - features @ trend)
        box, limits = ((a.min(axis=0), a.max(axis=0)) for a in (theta, targets))
        rows = np.empty(0, dtype=np.intp) if sequential_rows is None else sequential_rows
        return cls(approximation, center, scale, *box, nodes, trend, coefficients, *limits, rows)

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""
        return _make_density(
            model, model.prior_at(theta), self.sites_at(theta), self.sequential_rows
        )

    def arrays_at(self, model: LatentGP, theta: FloatArray) -> tuple[FloatArray, ...]:
        """See `ReferenceDensity`."""
        sites = self.sites_at(theta)
        if not len(self.sequential_rows):
            return tuple(sites)
        return (*sites, rank_rows(len(sites.shift), self.sequential_rows))

    def sites_at(self, theta: FloatArray) -> Sites:
        """Interpolated sites at theta of shape (p,)."""
        # `np.clip` would take several times as long for few numbers.
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        z = (inside - self.center) / self.scale
        smooth = _rational_quadratic(z[None], self.nodes)[0] @ self.coefficients
        values = self.trend[0] + z @ self.trend[1:] + smooth
        log_precision, ratio = np.minimum(np.maximum(values, self.least), self.most).reshape(2, -1)
        root = np.exp(0.5 * log_precision)
        return Sites(ratio * root, root * root)


def make_density(
    model: LatentGP,
    prior: GaussianPrior,
    shift: FloatArray,
    precision: FloatArray,
    rank: FloatArray | None = None,
) -> Density:
    """Make a density from its `arrays`: the sites, and the ranks of sequential rows if any."""
    sequential_rows = np.empty(0, dtype=np.intp)
    if rank is not None:
        sequential_rows = np.argsort(rank, kind="stable")[np.count_nonzero(rank == 0.0) :]
    return _make_density(model, prior, Sites(shift, precision), sequential_rows)


def _make_density(
    model: LatentGP, prior: GaussianPrior, sites: Sites, sequential_rows: IntArray
) -> Density:
    is_sequential = len(sequential_rows) > 0
    q = gaussian_family(prior, is_sequential)(prior, sites)
    if not is_sequential:
        return q
    return SequentialApproximation(q, model.observations_at(prior.theta), sequential_rows)


def _rational_quadratic(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a[:, None, :] - b
    return np.asarray(1.0 / (1.0 + 0.5 * np.vecdot(gap, gap)))


def _site_coordinates(sites: Sites) -> FloatArray:
    """Log precision, then shift over root precision; (2 n,)."""
    # A row with hardly any weight may have a precision of zero, which has no logarithm.
    least = max(_SMALLEST_PRECISION * sites.precision.max(), np.finfo(float).tiny)
    precision = np.maximum(sites.precision, least)
    return np.concatenate([np.log(precision), sites.shift / np.sqrt(precision)])
