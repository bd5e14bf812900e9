"""A Gaussian approximation whose margins are skewed.

Where the latent variance is large, p(f | y, theta) is skewed: a class that is certain leaves f free
on one side. Importance draws from any Gaussian then have weights that vary much. Giving every
margin the skewness of the tilted distribution of expectation propagation takes some of that away,
and keeps a density that can be drawn from and evaluated exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.special import kv

from .._typing import FloatArray
from .base import GaussianApproximation, LatentDraws

#: E sqrt(1 + z^2) for a standard normal z; Jones & Pewsey (2009), P_1.
_MEAN_ROOT = float(np.exp(0.25) / np.sqrt(8.0 * np.pi) * (kv(1, 0.25) + kv(0, 0.25)))
#: E cosh(3 asinh z), P_3 of the same paper.
_P3 = float(np.exp(0.25) / np.sqrt(8.0 * np.pi) * (kv(2, 0.25) + kv(1, 0.25)))
#: Largest asymmetry; its margin has a skewness of 1.34.
_MOST = 1.5


@dataclass(frozen=True, eq=False)
class SkewedApproximation:
    """Law of ``f = mu + sd o T(delta / sd)`` for mu + delta drawn from a Gaussian q with mean mu.

    T is the sinh-arcsinh transformation ``sinh(asinh z + asymmetry)``, standardized: f has the
    means of q, and its variances if `sd` are the standard deviations of q.

    Attributes
    ----------
    q : GaussianApproximation
    sd : ndarray of shape (n,)
        Positive.
    asymmetry : ndarray of shape (n,)
        0 leaves a coordinate Gaussian; positive for a tail to the right.

    References
    ----------
    Jones & Pewsey (2009), Sinh-arcsinh distributions, Biometrika 96(4).
    """

    q: GaussianApproximation
    sd: FloatArray
    asymmetry: FloatArray

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Sites, standard deviations and asymmetries, which make it again with the prior."""
        return (*self.q.sites, self.sd, self.asymmetry)

    def made(self) -> Self:
        """Return itself, all factors made now: this is where a K that is no covariance shows."""
        _ = self.q.made()
        return self

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        if not self.asymmetry.any():
            return self.q.sample(rng, size)
        deviation = self.q.sample_white(rng, size)
        delta = self.q.prior.unwhiten(deviation)
        sd, (center, spread) = self.sd[:, None], self._moments()
        x = delta / sd
        root = _root(x)
        moved = sd * (self._sheared(x, root, 1.0) - center) / spread - delta
        white = self.q.prior.whiten(moved)
        pairing = np.einsum("ij,ij->j", white, 0.5 * white + deviation)
        log_ratio = self._log_ratio(delta, x / root, moved, pairing)
        return LatentDraws(self.q.mean[:, None] + delta + moved, log_ratio)

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        if not self.asymmetry.any():
            return self.q.log_ratio_to_prior(f)
        offset = f - self.q.mean[:, None]
        sd, (center, spread) = self.sd[:, None], self._moments()
        y = spread * offset / sd + center
        x = self._sheared(y, _root(y), -1.0)
        delta = sd * x
        moved = offset - delta
        white = self.q.prior.whiten(np.concatenate([moved, moved + 2.0 * delta], axis=1))
        m = f.shape[1]
        pairing = 0.5 * np.einsum("ij,ij->j", white[:, :m], white[:, m:])
        return self._log_ratio(delta, x / _root(x), moved, pairing)

    def _sheared(self, x: FloatArray, root: FloatArray, sign: float) -> FloatArray:
        """``sinh(asinh x + sign asymmetry)`` by the addition theorem, root^2 = 1 + x^2; (n, m)."""
        cosh, sinh = self._hyperbolic
        return x * cosh + root * (sign * sinh)

    @cached_property
    def _hyperbolic(self) -> tuple[FloatArray, FloatArray]:
        return np.cosh(self.asymmetry)[:, None], np.sinh(self.asymmetry)[:, None]

    def _log_ratio(
        self, delta: FloatArray, tangent: FloatArray, moved: FloatArray, pairing: FloatArray
    ) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] at f = mu + delta + moved, to which mu + delta was moved.

        ``g(f) = q(mu + delta) / prod T'``, with ``T' = cosh(asinh x + e) / cosh(asinh x)``, e the
        asymmetry, x = delta / sd and `tangent` = tanh asinh x; and the prior at f instead of
        mu + delta: ``moved' K^-1 (moved / 2 + delta)``, which is `pairing`, and
        ``moved' K^-1 mu = moved' a``.
        """
        cosh, sinh = self._hyperbolic
        log_slope = np.log(cosh + tangent * sinh)
        log_spread = np.log(moments_of(self.asymmetry)[1]).sum()
        return np.asarray(
            self.q.log_ratio_of_deviation(delta)
            - log_slope.sum(axis=0)
            + log_spread
            + self.q.weights @ moved
            + pairing
        )

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        center, spread = moments_of(self.asymmetry)
        return center[:, None], spread[:, None]


def _root(x: FloatArray) -> FloatArray:
    """``sqrt(1 + x^2)``, by the fast way where squares are finite."""
    return np.sqrt(1.0 + x * x) if max(x.max(), -x.min()) < 1e150 else np.hypot(1.0, x)


def moments_of(asymmetry: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of sinh(asinh z + asymmetry) for a standard normal z."""
    center = np.sinh(asymmetry) * _MEAN_ROOT
    return center, np.sqrt(1.0 + 3.0 * np.sinh(asymmetry) ** 2 - center**2)


def skewness_of(asymmetry: FloatArray) -> FloatArray:
    """Skewness of sinh(asinh z + asymmetry) for a standard normal z; increasing and odd."""
    center, spread = moments_of(asymmetry)
    third = 0.25 * (np.sinh(3.0 * asymmetry) * _P3 - 3.0 * np.sinh(asymmetry) * _MEAN_ROOT)
    second = 1.0 + 3.0 * np.sinh(asymmetry) ** 2
    return np.asarray((third - 3.0 * center * second + 2.0 * center**3) / spread**3)


_ASYMMETRIES = np.linspace(-_MOST, _MOST, 301)
_SKEWNESSES = skewness_of(_ASYMMETRIES)


def asymmetry_of(skewness: FloatArray) -> FloatArray:
    """Return the asymmetry with this skewness, from a table; at most 1.5 in size."""
    return np.interp(skewness, _SKEWNESSES, _ASYMMETRIES)
