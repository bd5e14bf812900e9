"""Counts with rate exp(f)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import BoolArray, FloatArray
from ..numerics.quadrature import Bend
from ._stirling import log_factorial_gap
from .base import Derivatives, Likelihood, PredictiveMoments

#: exp of this is the largest rate that is drawn from; NumPy refuses means near 2^63.
_MOST_LOG_RATE = 40.0


@dataclass(frozen=True)
class Poisson(Likelihood):
    """Poisson counts with mean exp(f); an exposure E enters as an offset log E of f.

    Parameters
    ----------
    fractional : bool, default=False
        Let targets be any number >= 0: log p is then y f - exp(f) - log Gamma(y + 1), as if y were
        an average of counts.
    """

    fractional: bool = False

    name: ClassVar[str] = "poisson"
    log_concave: ClassVar[bool] = True
    steep: ClassVar[bool] = True
    targets: ClassVar[str] = "counts: integers >= 0"

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is a count, or with `fractional` any number >= 0."""
        possible = np.isfinite(y) & (y >= 0.0)
        return possible if self.fractional else possible & (y == np.floor(y))

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return y f - exp(f) - log y!; minus infinity where exp(f) overflows.

        In terms of f - log y, so that nothing cancels however large the count.
        """
        y = np.asarray(y, dtype=float)
        c = np.maximum(y, 1.0)
        constant = (y - c) + log_factorial_gap(y)
        h = f - np.log(c)
        with np.errstate(over="ignore"):
            return np.asarray(y * h - c * np.expm1(h) + constant)

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return y - mu, -mu and -mu, mu = exp(f)."""
        with np.errstate(over="ignore"):
            mu = np.exp(f)
        curvature = np.asarray(np.broadcast_to(-mu, np.broadcast_shapes(np.shape(y), np.shape(f))))
        return Derivatives(np.asarray(y - mu), curvature, curvature)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return exp(f)."""
        with np.errstate(over="ignore"):  # as in `derivatives`
            return np.asarray(np.exp(f))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw counts."""
        return rng.poisson(np.exp(np.minimum(f, _MOST_LOG_RATE))).astype(float)

    def bend(self, y: FloatArray) -> Bend:
        """Where the rate meets the count; exp(f) falls off where the imaginary part is below pi/2.

        An empty cell bends where the rate is one.
        """
        return Bend(np.log(np.maximum(y, 1.0)), np.asarray(3.0))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a count over f ~ N(mean, var)."""
        rate = np.exp(mean + 0.5 * var)
        return PredictiveMoments(rate, rate + rate * rate * np.expm1(var))
