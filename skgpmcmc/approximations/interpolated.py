"""An importance density as a smooth function of theta, frozen before sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import linalg

from .._typing import FloatArray
from ..model import LatentGP
from .base import Approximation, GaussianApproximation, Shape, Sites, gaussian_family
from .importance import Density, SkewedApproximation, asymmetry_of

#: Variance of the residuals around the trend that is taken for noise, relative to the process.
_NUGGET = 1e-6
#: Length-scale of the interpolation, in units of `scale`.
_LENGTH_SCALE = 3.0
#: Site precisions below this share of the largest are not told apart.
_SMALLEST_PRECISION = 1e-12


@dataclass(frozen=True, eq=False)
class InterpolatedSites:
    """A density of f at any theta from the sites that an approximation has at design points.

    Each site is interpolated over theta: a linear trend and a Gaussian process with the covariance
    1 / (1 + r^2 / 2) on its residuals, for the log of the precision and for the shift over the root
    of the precision, which stay of order one when the kernel's variance grows. The standard
    deviations and skewnesses of the margins are interpolated in the same way. The result is a
    function of (y, theta) alone, and nothing is iterated: where the design is dense it is as good a
    density as the approximation itself, for one Cholesky factorization.

    Attributes
    ----------
    approximation : Approximation
        What the sites come from; improves them `n_sweeps` times more at every theta.
    n_sweeps : int
    strength : float
        Share of the skewness that the density has; with 0 it is Gaussian.
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``.
    low, high : ndarray of shape (p,)
        Box of the design in natural logs; outside it the sites are those of the nearest edge.
    nodes : ndarray of shape (D, p)
        Design points in coordinates z.
    trend : ndarray of shape (p + 1, k n)
        Of log precision, shift over root precision and, unless `strength` is 0, the logs of the
        standard deviations and the skewnesses.
    coefficients : ndarray of shape (D, k n)
        Of the Gaussian process.
    least, most : ndarray of shape (k n,)
        Range over the design of what is interpolated, which no interpolation leaves.
    whitened : bool
        Make the Gaussian by the factors that many draws want, see `GaussianApproximation`.
    """

    approximation: Approximation
    n_sweeps: int
    strength: float
    center: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray
    nodes: FloatArray
    trend: FloatArray
    coefficients: FloatArray
    least: FloatArray
    most: FloatArray
    whitened: bool = True

    @classmethod
    def fit(
        cls,
        approximation: Approximation,
        theta: FloatArray,
        sites: Sequence[Sites],
        shapes: Sequence[Shape | None],
        center: FloatArray,
        scale: FloatArray,
        *,
        n_sweeps: int = 0,
        strength: float = 0.0,
    ) -> Self:
        """Interpolate the sites, and the shapes if they matter, at theta of shape (D, p)."""
        scale = scale * _LENGTH_SCALE
        nodes = (theta - center) / scale
        targets = np.stack([_coordinates(s) for s in sites])
        if strength > 0.0:
            known = [m for m in shapes if m is not None]
            margins = np.stack([np.concatenate([np.log(m.sd), m.skewness]) for m in known])
            targets = np.concatenate([targets, margins], axis=1)
        features = np.concatenate([np.ones((len(nodes), 1)), nodes], axis=1)
        K = _covariance(nodes, nodes)
        K.flat[:: len(K) + 1] += _NUGGET
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True)
        gram = features.T @ linalg.cho_solve(factor, features)
        # A ridge too small to matter, unless there are fewer design points than trend terms.
        gram.flat[:: len(gram) + 1] += 1e-8
        trend = linalg.solve(gram, features.T @ linalg.cho_solve(factor, targets), assume_a="pos")
        coefficients = linalg.cho_solve(factor, targets - features @ trend)
        box, limits = ((a.min(axis=0), a.max(axis=0)) for a in (theta, targets))
        fields = (center, scale, *box, nodes, trend, coefficients, *limits)
        return cls(approximation, n_sweeps, strength, *fields)

    def with_strength(self, strength: float) -> InterpolatedSites:
        """Return the same interpolation with another share, more than 0 before, of skewness."""
        if strength > 0.0:
            return replace(self, strength=strength)
        half = self.trend.shape[1] // 2
        names = ("trend", "coefficients", "least", "most")
        sites_alone = {name: getattr(self, name)[..., :half].copy() for name in names}
        return replace(self, strength=0.0, **sites_alone)

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""
        return self.skewed(self.gaussian_at(model, theta).made())

    def gaussian_at(self, model: LatentGP, theta: FloatArray) -> GaussianApproximation:
        """Return the Gaussian that the density at theta is made of."""
        prior, whitened = model.prior_at(theta), self.whitened and self.n_sweeps == 0
        q = gaussian_family(prior)(prior, self.sites_at(theta), whitened)
        for _ in range(self.n_sweeps):
            q = self.approximation.improved(model, q)
        return q

    def skewed(self, q: GaussianApproximation) -> Density:
        """Return the density that is made of q."""
        if self.strength == 0.0:
            return q
        log_sd, skewness = np.split(self._interpolated(q.prior.theta), 4)[2:]
        return SkewedApproximation(q, np.exp(log_sd), asymmetry_of(self.strength * skewness))

    def sites_at(self, theta: FloatArray) -> Sites:
        """Interpolated sites at theta of shape (p,), before any sweep."""
        n = self.trend.shape[1] // (4 if self.strength else 2)
        log_precision, ratio = np.split(self._interpolated(theta)[: 2 * n], 2)
        root = np.exp(0.5 * log_precision)
        return Sites(ratio * root, root * root)

    def _interpolated(self, theta: FloatArray) -> FloatArray:
        z = (np.clip(theta, self.low, self.high) - self.center) / self.scale
        smooth = _covariance(z[None], self.nodes)[0] @ self.coefficients
        values = self.trend[0] + z @ self.trend[1:] + smooth
        return np.clip(values, self.least, self.most)


def _covariance(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a[:, None, :] - b
    return np.asarray(1.0 / (1.0 + 0.5 * np.einsum("ijr,ijr->ij", gap, gap)))


def _coordinates(sites: Sites) -> FloatArray:
    """Log precision, then shift over root precision; (2 n,)."""
    # Rows of next to no weight leave no precision at all.
    least = max(_SMALLEST_PRECISION * sites.precision.max(), np.finfo(float).tiny)
    precision = np.maximum(sites.precision, least)
    return np.concatenate([np.log(precision), sites.shift / np.sqrt(precision)])
