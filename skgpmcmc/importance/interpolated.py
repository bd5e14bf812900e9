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
from .sequential import SequentialApproximation

#: Variance of the residuals around the trend that is taken for noise, relative to the process.
_NUGGET = 1e-6
#: Least length-scale of the interpolation, in units of `scale`. Draws are about sqrt(2 p) apart: it
#: grows with that distance.
_LENGTH_SCALE = 3.0
#: Site precisions below this share of the largest are not told apart.
_SMALLEST_PRECISION = 1e-12


@dataclass(frozen=True, eq=False)
class InterpolatedSites:
    """A density of f at any theta from the sites that an approximation has at design points.

    Each site is interpolated over theta: a linear trend and a Gaussian process with the covariance
    1 / (1 + r^2 / 2) on its residuals, for the log of the precision and for the shift over the root
    of the precision, which stay of order one when the kernel's variance grows. The result is a
    function of (y, theta) alone, and nothing is iterated: where the design is dense it is as good a
    density as the approximation itself, for one Cholesky factorization.

    Attributes
    ----------
    approximation : Approximation
        What the sites come from.
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``.
    low, high : ndarray of shape (p,)
        Box of the design in natural logs; outside it the sites are those of the nearest edge.
    nodes : ndarray of shape (D, p)
        Design points in coordinates z.
    trend : ndarray of shape (p + 1, 2 n)
        Of log precision and shift over root precision.
    coefficients : ndarray of shape (D, 2 n)
        Of the Gaussian process.
    least, most : ndarray of shape (2 n,)
        Range over the design of what is interpolated, which no interpolation leaves.
    turns : ndarray of shape (r,)
        Rows whose values are drawn in turn, see `SequentialApproximation`; the same for all theta.
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
    turns: IntArray

    @classmethod
    def fit(
        cls,
        approximation: Approximation,
        theta: FloatArray,
        sites: Sequence[Sites],
        center: FloatArray,
        scale: FloatArray,
        turns: IntArray | None = None,
    ) -> Self:
        """Interpolate the sites at theta of shape (D, p); without `turns` no row is in turn."""
        scale = scale * max(_LENGTH_SCALE, theta.shape[1] ** 0.5)
        nodes = (theta - center) / scale
        targets = np.stack([_coordinates(s) for s in sites])
        features = np.concatenate([np.ones((len(nodes), 1)), nodes], axis=1)
        K = _covariance(nodes, nodes)
        K.flat[:: len(K) + 1] += _NUGGET
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True)
        root, _ = factor
        columns, wanted = (
            linalg.solve_triangular(root, part, lower=True) for part in (features, targets)
        )
        # A ridge too small to matter, unless there are fewer design points than trend terms.
        trend = ridge_regression(columns, wanted, np.full(features.shape[1], 1e-8))
        coefficients = linalg.cho_solve(factor, targets - features @ trend)
        box, limits = ((a.min(axis=0), a.max(axis=0)) for a in (theta, targets))
        turns = np.empty(0, dtype=np.intp) if turns is None else turns
        return cls(approximation, center, scale, *box, nodes, trend, coefficients, *limits, turns)

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""
        return _density(model, model.prior_at(theta), self.sites_at(theta), self.turns)

    def sites_at(self, theta: FloatArray) -> Sites:
        """Interpolated sites at theta of shape (p,)."""
        # Not `np.clip`, which takes several times as long for few numbers.
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        z = (inside - self.center) / self.scale
        smooth = _covariance(z[None], self.nodes)[0] @ self.coefficients
        values = self.trend[0] + z @ self.trend[1:] + smooth
        log_precision, ratio = np.minimum(np.maximum(values, self.least), self.most).reshape(2, -1)
        root = np.exp(0.5 * log_precision)
        return Sites(ratio * root, root * root)


def density_from(
    model: LatentGP,
    prior: GaussianPrior,
    shift: FloatArray,
    precision: FloatArray,
    turn: FloatArray | None = None,
) -> Density:
    """Make a density of its `arrays`: the sites, and the turn of each row if some have one."""
    turns = np.empty(0, dtype=np.intp)
    if turn is not None:
        turns = np.argsort(turn, kind="stable")[np.count_nonzero(turn == 0.0) :]
    return _density(model, prior, Sites(shift, precision), turns)


def _density(model: LatentGP, prior: GaussianPrior, sites: Sites, turns: IntArray) -> Density:
    in_turn = len(turns) > 0
    q = gaussian_family(prior, in_turn)(prior, sites)
    if not in_turn:
        return q
    return SequentialApproximation(q, model.observations_at(prior.theta), turns)


def _covariance(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a[:, None, :] - b
    return np.asarray(1.0 / (1.0 + 0.5 * np.vecdot(gap, gap)))


def _coordinates(sites: Sites) -> FloatArray:
    """Log precision, then shift over root precision; (2 n,)."""
    # Rows of next to no weight leave no precision at all.
    least = max(_SMALLEST_PRECISION * sites.precision.max(), np.finfo(float).tiny)
    precision = np.maximum(sites.precision, least)
    return np.concatenate([np.log(precision), sites.shift / np.sqrt(precision)])
