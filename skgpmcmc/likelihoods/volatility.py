"""Zero-mean targets whose scale is what matters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import FloatArray
from ..numerics.quadrature import Bend
from .base import Derivatives, Likelihood, PredictiveMoments

_LOG_TWO_PI = float(np.log(2.0 * np.pi))
_LOG_SMALLEST = -300.0


@dataclass(frozen=True)
class Volatility(Likelihood):
    """Normal targets with mean zero and standard deviation exp(f).

    Notes
    -----
    Filippone, Zhong & Girolami (2013), appendix B.3. log p is concave in f; it is linear where
    y = 0.
    """

    name: ClassVar[str] = "volatility"
    log_concave: ClassVar[bool] = True
    steep: ClassVar[bool] = True

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return -log(2 pi) / 2 - f - q / 2, q = y^2 exp(-2 f)."""
        return np.asarray(-0.5 * _LOG_TWO_PI - f - 0.5 * _square(y, f))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return q - 1, -2 q and 4 q."""
        q = _square(y, f)
        with np.errstate(over="ignore"):
            return Derivatives(q - 1.0, -2.0 * q, 4.0 * q)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return 2 everywhere."""
        return np.full(np.shape(f), 2.0)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw normal variables of standard deviation exp(f)."""
        return np.asarray(np.exp(f) * rng.standard_normal(np.shape(f)))

    def bend(self, y: FloatArray) -> Bend:
        """Where exp(f) = abs(y); q falls off where the imaginary part is below pi/4."""
        with np.errstate(divide="ignore"):
            return Bend(np.maximum(np.log(np.abs(y)), _LOG_SMALLEST), np.asarray(1.5))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean (zero) and variance of a target over f ~ N(mean, var)."""
        return PredictiveMoments(np.zeros(np.shape(mean)), np.exp(2.0 * (mean + var)))


def _square(y: FloatArray, f: FloatArray) -> FloatArray:
    """y^2 exp(-2 f), which is zero for y = 0 whatever f."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.exp(2.0 * (np.log(np.abs(y)) - f))
