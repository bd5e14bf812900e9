"""The sparse prior of length-scales: nearly all are long, and a few may be short.

Eriksson & Jankowiak (2021), *High-dimensional Bayesian optimization with sparse axis-aligned
subspaces*. With the length-scale l of a feature in units of its width w, 1 / l^2 given tau is
half-Cauchy(tau), and tau, which all length-scales share, is half-Cauchy(0.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats
from scipy.optimize import elementwise

from .._typing import FloatArray

#: Name of the hyper-parameter tau.
SHRINKAGE = "shrinkage"
#: Scale of the half-Cauchy distribution of tau, as published; in units of 1 / width^2.
_TAU_SCALE = 0.1
#: Largest absolute value of the log of a product of two half-Cauchy variables, in doubles.
_LARGEST_LOG_PRODUCT = 700.0
#: Argument below which three terms of the series of Legendre's chi function give full precision.
_SERIES_BELOW = 1e-3


class ShrunkLength(stats.rv_continuous):
    """Distribution of a length-scale with the sparse prior, tau integrated out.

    1 / l^2 is 0.1 times the product of two independent half-Cauchy variables. The log s of such a
    product has the density 2 s / (pi^2 sinh(s)). The scale of the distribution is the width of the
    feature.
    """

    def _logpdf(self, x: Any, *args: Any) -> Any:
        s = np.abs(_log_product(x))
        with np.errstate(divide="ignore", invalid="ignore"):
            log_ratio = np.log(2.0 * s) - s - np.log(-np.expm1(-2.0 * s))  # of s / sinh(s)
        log_ratio = np.where(s == 0.0, 0.0, log_ratio)
        return np.log(4.0 / np.pi**2) + log_ratio - np.log(x)

    def _pdf(self, x: Any, *args: Any) -> Any:
        return np.exp(self._logpdf(x))

    def _cdf(self, x: Any, *args: Any) -> Any:
        return _share_above(_log_product(x))

    def _sf(self, x: Any, *args: Any) -> Any:
        return _share_above(-_log_product(x))

    def _ppf(self, q: Any, *args: Any) -> Any:
        def excess(s: FloatArray, q: FloatArray) -> FloatArray:
            """Return the mass above s, less q."""
            return _share_above(s) - q

        s = elementwise.find_root(
            excess, (-_LARGEST_LOG_PRODUCT, _LARGEST_LOG_PRODUCT), args=(q,)
        ).x
        return np.exp(-0.5 * s) / np.sqrt(_TAU_SCALE)


def _log_product(length: FloatArray) -> FloatArray:
    """Log of the product of half-Cauchy variables that a length-scale stands for."""
    return np.asarray(-2.0 * np.log(length) - np.log(_TAU_SCALE))


def _share_above(s: FloatArray) -> FloatArray:
    """Mass of the density 2 s / (pi^2 sinh(s)) above s."""
    size = np.abs(s)
    x = np.exp(-size)
    # Legendre's chi function of order two; scipy's spence(z) is the dilogarithm of 1 - z.
    chi = 0.5 * (special.spence(1.0 - x) - special.spence(1.0 + x))
    chi = np.where(x < _SERIES_BELOW, x + x**3 / 9.0 + x**5 / 25.0, chi)
    above = 4.0 / np.pi**2 * (size * np.arctanh(np.minimum(x, 1.0 - 1e-16)) + chi)
    return np.asarray(np.where(s < 0.0, 1.0 - above, above))


#: The family, which scipy freezes with the width of a feature as scale.
_SHRUNK_LENGTH = ShrunkLength(a=0.0, name="shrunk_length")


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Joint prior of the logs of m length-scales and of log tau, which comes last.

    Given tau, ``z = log(w^2 / l^2) - log tau`` of each length-scale l, and ``log tau - log 0.1``,
    have the density 1 / (pi cosh z), that of the log of a standard half-Cauchy variable.

    Attributes
    ----------
    log_width : ndarray of shape (m,)
        Natural log of the width w of each length-scale's feature.
    """

    log_width: FloatArray

    @property
    def laws(self) -> list[Any]:
        """Marginal distributions on the natural scale, tau last."""
        lengths = [_SHRUNK_LENGTH(scale=float(width)) for width in np.exp(self.log_width)]
        return [*lengths, stats.halfcauchy(scale=_TAU_SCALE)]

    @property
    def start(self) -> float:
        """Start of chains for log tau: its median."""
        return float(np.log(_TAU_SCALE))

    def log_density(self, u: FloatArray) -> FloatArray:
        """Return terms whose sum is the log density at u; both of shape (..., m + 1)."""
        z = self._standardize_logs(u)
        log_density = np.log(2.0 / np.pi) - np.logaddexp(z, -z)
        log_density[..., :-1] += np.log(2.0)  # |dz / du| = 2
        return np.asarray(log_density)

    def slope(self, u: FloatArray) -> FloatArray:
        """Return the gradient of the log density; (..., m + 1)."""
        slope = np.tanh(self._standardize_logs(u))
        slope[..., -1] = slope[..., :-1].sum(axis=-1) - slope[..., -1]
        slope[..., :-1] *= 2.0
        return np.asarray(slope)

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return minus the second derivatives of the log density; (..., m + 1)."""
        curvature = 1.0 - np.tanh(self._standardize_logs(u)) ** 2
        curvature[..., -1] = curvature.sum(axis=-1)
        curvature[..., :-1] *= 4.0
        return np.asarray(curvature)

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """One draw of u; (m + 1,)."""
        logs = np.log(stats.halfcauchy.rvs(size=len(self.log_width) + 1, random_state=rng))
        log_tau = np.log(_TAU_SCALE) + logs[-1]
        return np.append(self.log_width - 0.5 * (logs[:-1] + log_tau), log_tau)

    def _standardize_logs(self, u: FloatArray) -> FloatArray:
        """Return z of every length-scale, then log tau - log 0.1; (..., m + 1)."""
        log_tau = u[..., -1:]
        of_lengths = -2.0 * (u[..., :-1] - self.log_width) - log_tau
        return np.concatenate([of_lengths, log_tau - np.log(_TAU_SCALE)], axis=-1)
