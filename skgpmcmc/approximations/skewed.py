"""An importance density with skewed margins: a Gaussian approximation, coordinate by coordinate.

Where the latent variance is large, p(f | y, theta) is skewed: a class that is certain leaves f free
on one side. Importance draws from any Gaussian then have weights that vary much. Giving every
margin the skewness of the tilted distribution of expectation propagation takes most of that away,
and keeps a density that can be drawn from and evaluated exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import kv

from .._typing import FloatArray
from ..model import GaussianPrior
from .base import Density, Draws, GaussianApproximation, Sites, gaussian_family

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
    def parts(self) -> tuple[FloatArray, ...]:
        """Sites, standard deviations and asymmetries, which make it again with the prior."""
        return (*self.q.sites, self.sd, self.asymmetry)

    def sample(self, rng: np.random.Generator, size: int) -> Draws:
        """Independent draws of f."""
        deviations = self.q.sample_deviations(rng, size)
        mean, sd = self.q.mean[:, None], self.sd[:, None]
        center, spread = self._moments()
        z = np.arcsinh(deviations.delta / sd)
        moved = sd * (np.sinh(z + self.asymmetry[:, None]) - center) / spread - deviations.delta
        white = self.q.prior.whiten(moved)
        pairing = np.einsum("ij,ij->j", white, 0.5 * white + deviations.white)
        log_ratio = self._log_ratio(deviations.delta, z, moved, pairing)
        return Draws(mean + deviations.delta + moved, log_ratio)

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        offset = f - self.q.mean[:, None]
        sd = self.sd[:, None]
        center, spread = self._moments()
        z = np.arcsinh(spread * offset / sd + center) - self.asymmetry[:, None]
        delta = sd * np.sinh(z)
        moved = offset - delta
        white = self.q.prior.whiten(np.concatenate([moved, moved + 2.0 * delta], axis=1))
        m = f.shape[1]
        pairing = 0.5 * np.einsum("ij,ij->j", white[:, :m], white[:, m:])
        return self._log_ratio(delta, z, moved, pairing)

    def _log_ratio(
        self, delta: FloatArray, z: FloatArray, moved: FloatArray, pairing: FloatArray
    ) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] at f = mu + delta + moved, to which mu + delta was moved.

        ``g(f) = q(mu + delta) / prod T'``, and the prior at f instead of mu + delta:
        ``moved' K^-1 (moved / 2 + delta)``, which is `pairing`, and ``moved' K^-1 mu = moved' a``.
        """
        log_slope = _log_cosh(z + self.asymmetry[:, None]) - _log_cosh(z)
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


def density_from(prior: GaussianPrior, parts: tuple[FloatArray, ...]) -> Density:
    """Make a density of its `parts`: two for a Gaussian, four for a skewed one."""
    skewed = len(parts) > 2
    q = gaussian_family(prior)(prior, Sites(*parts[:2]), skewed)
    return SkewedApproximation(q, *parts[2:]) if skewed else q


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


def _log_cosh(x: FloatArray) -> FloatArray:
    size = np.abs(x)
    return np.asarray(size + np.log1p(np.exp(-2.0 * size)) - np.log(2.0))
