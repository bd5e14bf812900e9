"""Sites of a Gaussian approximation as a smooth function of theta, frozen before sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import linalg

from .._typing import FloatArray
from ..model import LatentGP
from .base import Approximation, GaussianApproximation, Sites

__all__ = ["InterpolatedSites"]

#: Variance of the residuals around the trend that is taken for noise, relative to the process.
_NUGGET = 1e-6
#: Length-scale of the interpolation, in units of `scale`.
_LENGTH_SCALE = 3.0
#: Site precisions below this share of the largest are not told apart.
_SMALLEST_PRECISION = 1e-12


@dataclass(frozen=True, eq=False)
class InterpolatedSites:
    """q(f) at any theta from the sites that an approximation has at design points.

    Each site is interpolated over theta: a linear trend and a Gaussian process with the covariance
    1 / (1 + r^2 / 2) on its residuals, for the log of the precision and for the shift over the root
    of the precision, which stay of order one when the kernel's variance grows. The result is a
    function of (y, theta) alone, and nothing is iterated: where the design is dense it is as good a
    density as the approximation itself, for one Cholesky factorization.

    Attributes
    ----------
    approximation : Approximation
        What the sites come from; improves them `n_sweeps` times more at every theta.
    n_sweeps : int
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``.
    low, high : ndarray of shape (p,)
        Box of the design in natural logs; outside it the sites are those of the nearest edge.
    nodes : ndarray of shape (D, p)
        Design points in coordinates z.
    trend : ndarray of shape (p + 1, 2 n)
    weights : ndarray of shape (D, 2 n)
    least, most : ndarray of shape (2 n,)
        Range over the design of what is interpolated, which no interpolation leaves.
    """

    approximation: Approximation
    n_sweeps: int
    center: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray
    nodes: FloatArray
    trend: FloatArray
    weights: FloatArray
    least: FloatArray
    most: FloatArray

    @classmethod
    def fit(
        cls,
        approximation: Approximation,
        theta: FloatArray,
        sites: Sequence[Sites],
        center: FloatArray,
        scale: FloatArray,
        n_sweeps: int = 0,
    ) -> Self:
        """Interpolate the sites at theta of shape (D, p)."""
        scale = scale * _LENGTH_SCALE
        nodes = (theta - center) / scale
        targets = np.stack([_coordinates(s) for s in sites])
        features = np.concatenate([np.ones((len(nodes), 1)), nodes], axis=1)
        K = _covariance(nodes, nodes)
        K.flat[:: len(K) + 1] += _NUGGET
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True)
        gram = features.T @ linalg.cho_solve(factor, features)
        # A ridge too small to matter, unless there are fewer design points than trend terms.
        gram.flat[:: len(gram) + 1] += 1e-8
        trend = linalg.solve(gram, features.T @ linalg.cho_solve(factor, targets), assume_a="pos")
        weights = linalg.cho_solve(factor, targets - features @ trend)
        low, high = theta.min(axis=0), theta.max(axis=0)
        return cls(
            approximation,
            n_sweeps,
            center,
            scale,
            low,
            high,
            nodes,
            trend,
            weights,
            targets.min(axis=0),
            targets.max(axis=0),
        )

    def at(self, model: LatentGP, theta: FloatArray) -> GaussianApproximation:
        """Return q at theta."""
        q = GaussianApproximation.from_sites(model.prior_at(theta), self.sites_at(theta))
        for _ in range(self.n_sweeps):
            q = self.approximation.improved(model, q)
        return q

    def sites_at(self, theta: FloatArray) -> Sites:
        """Interpolated sites at theta of shape (p,), before any sweep."""
        z = (np.clip(theta, self.low, self.high) - self.center) / self.scale
        both = (
            self.trend[0] + z @ self.trend[1:] + _covariance(z[None], self.nodes)[0] @ self.weights
        )
        log_precision, ratio = np.split(np.clip(both, self.least, self.most), 2)
        root = np.exp(0.5 * log_precision)
        return Sites(ratio * root, root * root)


def _covariance(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a[:, None, :] - b
    return np.asarray(1.0 / (1.0 + 0.5 * np.einsum("ijr,ijr->ij", gap, gap)))


def _coordinates(sites: Sites) -> FloatArray:
    """Log precision, then shift over root precision; (2 n,)."""
    precision = np.maximum(sites.precision, _SMALLEST_PRECISION * sites.precision.max())
    return np.concatenate([np.log(precision), sites.shift / np.sqrt(precision)])
