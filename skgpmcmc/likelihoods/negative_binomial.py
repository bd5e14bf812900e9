"""Counts that vary more than Poisson counts do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit

from .._typing import BoolArray, FloatArray
from ..numerics.quadrature import Bend
from ._stirling import digamma_remainder, log_factorial_gap, stirling_remainder
from .base import Derivatives, Likelihood, Parameter, ParameterDerivatives, PredictiveMoments

_MOST_LOG_RATE = 40.0
#: Largest size of the log of a shape.
_FARTHEST = 700.0


@dataclass(frozen=True)
class NegativeBinomial(Likelihood):
    """Negative binomial counts with mean mu = exp(f) and variance mu + mu^2 / shape.

    An exposure E enters as an offset log E of f. As `shape` grows, counts become Poisson.

    Parameters
    ----------
    shape : float, default=1.0
        Positive. Where chains may start, unless `fixed`.
    fixed : bool, default=False
        Keep `shape` as it is instead of inferring it (as ``"shape"``).
    fractional : bool, default=False
        Let targets be any number >= 0.
    """

    shape: float = 1.0
    fixed: bool = False
    fractional: bool = False

    name: ClassVar[str] = "negative_binomial"
    log_concave: ClassVar[bool] = True
    steep: ClassVar[bool] = True
    targets: ClassVar[str] = "counts: integers >= 0"

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is a count, or with `fractional` any number >= 0."""
        possible = np.isfinite(y) & (y >= 0.0)
        return possible if self.fractional else possible & (y == np.floor(y))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The shape, unless it is fixed."""
        return () if self.fixed else (Parameter("shape", True, self.shape),)

    def with_parameters(self, values: FloatArray) -> NegativeBinomial:
        """Return the likelihood with the shape exp(values[0]).

        It is kept where doubles are, long after counts have become Poisson, or all zero.
        """
        if not len(values):
            return self
        return replace(self, shape=float(np.exp(np.clip(values[0], -_FARTHEST, _FARTHEST))))

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log probability of the count y."""
        y, k = np.asarray(y, dtype=float), self.shape
        c = np.maximum(y, 1.0)
        total = y + k
        # log [Gamma(y + k) / (Gamma(k) y!)] + y log c + k log k - (y + k) log(c + k)
        constant = log_factorial_gap(y) + total * _log_of(total / (k + c), (y - c) / (k + c))
        constant -= 0.5 * np.log1p(y / k)
        constant += stirling_remainder(total) - stirling_remainder(k)
        # y h - (y + k) log(v + w exp(h)), which for large counts would cancel as it stands
        h, w, v = f - np.log(c), c / (k + c), k / (k + c)
        return np.asarray(constant - k * _log_mixed(h, w, v) - y * _log_mixed(-h, v, w))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return y - c p, -c p q and -c p q (q - p), c = y + shape, p + q = 1."""
        p, q, c = self._parts(y, f)
        second = -c * p * q
        return Derivatives(y * q - self.shape * p, second, second * (q - p))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return shape p, p = mu / (mu + shape)."""
        return np.asarray(self.shape * expit(self._log_odds(f)))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw counts, by way of a gamma-distributed rate."""
        rate = np.exp(np.minimum(f, _MOST_LOG_RATE))
        rate = rate * (rng.standard_gamma(self.shape, np.shape(f)) / self.shape)
        return rng.poisson(np.minimum(rate, np.exp(_MOST_LOG_RATE))).astype(float)

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log shape; k = 1, or 0 where it is fixed."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        p, q, c = self._parts(y, f)
        k = self.shape
        bernoulli = c * p * q
        slope = np.log1p(y / k) + log_expit(-self._log_odds(f))
        slope = k * slope - (y * q - k * p)
        slope += k * digamma_remainder(c) / c - digamma_remainder(k)
        first = bernoulli - k * p
        second = bernoulli * (q - p) - k * p * q
        return ParameterDerivatives(slope[None], first[None], second[None])

    def bend(self, y: FloatArray) -> Bend:
        """Where the mean equals the shape; the nearest poles are at plus and minus pi times i."""
        return Bend(np.asarray(np.log(self.shape)), np.asarray(6.0))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a count over f ~ N(mean, var)."""
        rate = np.exp(mean + 0.5 * var)
        square = rate * rate * np.exp(var)
        excess = rate * rate * np.expm1(var)
        return PredictiveMoments(rate, rate + square / self.shape + excess)

    def _log_odds(self, f: FloatArray) -> FloatArray:
        return np.asarray(f - np.log(self.shape))

    def _parts(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        g = self._log_odds(f)
        return expit(g), expit(-g), np.asarray(y + self.shape)


def _log_mixed(h: FloatArray, w: FloatArray, v: FloatArray) -> FloatArray:
    """Return log(v + w exp(h)) for v + w = 1."""
    inside = np.minimum(h, _FARTHEST)  # beyond, nothing but w exp(h) matters
    return _log_of(v + w * np.exp(inside), w * np.expm1(inside)) + (h - inside)


def _log_of(x: FloatArray, excess: FloatArray) -> FloatArray:
    """Return log x, from the excess x - 1 where x is near one."""
    near = np.abs(excess) < 0.5
    return np.asarray(np.where(near, np.log1p(np.where(near, excess, 0.0)), np.log(x)))
