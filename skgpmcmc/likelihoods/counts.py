"""Counts with mean exp(f): Poisson and negative binomial (overdispersed) likelihoods.

The log probability of a count y is a difference of numbers of the order of y log y. For large y, or
a large shape of a negative binomial, rounding errors would dominate, so that the large terms are
canceled analytically (Loader, 2000, Fast and accurate computation of binomial probabilities).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import (
    betainc,
    betaincinv,
    digamma,
    expit,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_expit,
    xlogy,
)

from .._typing import BoolArray, FloatArray
from ..numerics.linalg import LOG_TWO_PI
from ..numerics.quadrature import DECREASING_TAIL, Bend, average_decreasing
from .base import (
    Derivatives,
    Likelihood,
    OneScaleLikelihood,
    ParameterDerivatives,
    PredictiveMoments,
)

#: Log of the largest rate with which counts are drawn; NumPy refuses means near 2^63.
_MOST_LOG_RATE = 40.0
#: Largest absolute value of the log of a shape, near which exp overflows. Long before, all counts
#: are Poisson or zero.
_LARGEST_LOG_SHAPE = 700.0
#: Argument from which on both asymptotic series have the precision of doubles.
_LARGE = 15.0
#: Coefficients of the odd powers of 1 / x in Stirling's series of log Gamma(x).
_STIRLING = (1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0)
#: Coefficients of the odd powers of 1 / x in the series of x (digamma(x) - log x).
_DIGAMMA = (-1.0 / 12.0, 1.0 / 120.0, -1.0 / 252.0, 1.0 / 240.0, -1.0 / 132.0)


class Counts(Likelihood):
    """Base class of likelihoods of counts."""

    fractional: bool

    log_concave: ClassVar[bool] = True
    steep: ClassVar[bool] = True
    counts: ClassVar[bool] = True
    targets: ClassVar[str] = "counts: integers >= 0"

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is a count, or with `fractional` any number >= 0."""
        possible = np.isfinite(y) & (y >= 0.0)
        return possible if self.fractional else possible & (y == np.floor(y))


@dataclass(frozen=True)
class Poisson(Counts):
    """Poisson counts with mean exp(f); an exposure E enters as an offset log E of f.

    Parameters
    ----------
    fractional : bool, default=False
        Allow any targets >= 0, such as averages of counts: log p(y | f) is then
        y f - exp(f) - log Gamma(y + 1).
    """

    fractional: bool = False

    name: ClassVar[str] = "poisson"

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return y f - exp(f) - log y!; minus infinity where exp(f) overflows.

        It is computed from f - log y, so that no digits are lost even for large counts.
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
        """Return the bend at f = log y, or f = 0 for a count of zero.

        exp(-exp(f)) decreases where the imaginary part of f is below pi/2.
        """
        return Bend(np.log(np.maximum(y, 1.0)), np.asarray(3.0))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a count over f ~ N(mean, var)."""
        rate = np.exp(mean + 0.5 * var)
        return PredictiveMoments(rate, rate + rate * rate * np.expm1(var))

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a count over f ~ N(mean, var) is at most y; (m, 1), (m, g), (m, 1).

        Given f, the count is at most y if a gamma variable of shape y + 1 is larger than exp(f).
        Any y > -1 is allowed.
        """
        shape = np.asarray(y + 1.0)

        def at_most(f: FloatArray) -> FloatArray:
            """Return the probability that the count is at most y given f."""
            with np.errstate(over="ignore"):
                return np.asarray(gammaincc(shape[..., None], np.exp(f)))

        with np.errstate(divide="ignore"):  # where a quantile of the gamma variable underflows
            low, high = (
                np.log(inverse(shape, DECREASING_TAIL)) for inverse in (gammaincinv, gammainccinv)
            )
        return average_decreasing(at_most, low, high, mean, var)


@dataclass(frozen=True)
class NegativeBinomial(Counts, OneScaleLikelihood):
    """Negative binomial counts with mean mu = exp(f) and variance mu + mu^2 / shape.

    An exposure E enters as an offset log E of f. For large `shape` the distribution tends to the
    Poisson distribution.

    Parameters
    ----------
    shape : float, default=1.0
        Positive. A starting value of the chains, unless `fixed`.
    fixed : bool, default=False
        Keep `shape` fixed instead of inferring it (as hyper-parameter ``"shape"``).
    fractional : bool, default=False
        Allow any targets >= 0, such as averages of counts.
    """

    shape: float = 1.0
    fixed: bool = False
    fractional: bool = False

    name: ClassVar[str] = "negative_binomial"
    scale: ClassVar[str] = "shape"
    farthest: ClassVar[float] = _LARGEST_LOG_SHAPE

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log probability of the count y."""
        y = np.asarray(y, dtype=float)
        k = self.shape
        c = np.maximum(y, 1.0)
        total = y + k
        # log [Gamma(y + k) / (Gamma(k) y!)] + y log c + k log k - (y + k) log(c + k)
        constant = log_factorial_gap(y) + total * _log_near_one(total / (k + c), (y - c) / (k + c))
        constant -= 0.5 * np.log1p(y / k)
        constant += stirling_remainder(total) - stirling_remainder(k)
        # y h - (y + k) log(v + w exp(h)), in a form that does not cancel for large counts
        h = f - np.log(c)
        w = c / (k + c)
        v = k / (k + c)
        of_shape, of_count = _log_mixtures(h, w, v)
        return np.asarray(constant - k * of_shape - y * of_count)

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return y - c p, -c p q and -c p q (q - p), c = y + shape, p + q = 1."""
        p, q, c = self._success_terms(y, f)
        second = -c * p * q
        return Derivatives(y * q - self.shape * p, second, second * (q - p))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return shape p, p = mu / (mu + shape)."""
        return np.asarray(self.shape * expit(self._log_odds(f)))

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw counts, as Poisson counts with a gamma-distributed rate."""
        rate = np.exp(np.minimum(f, _MOST_LOG_RATE))
        rate = rate * (rng.standard_gamma(self.shape, np.shape(f)) / self.shape)
        return rng.poisson(np.minimum(rate, np.exp(_MOST_LOG_RATE))).astype(float)

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log shape; k = 1, or 0 if it is fixed."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        p, q, c = self._success_terms(y, f)
        k = self.shape
        bernoulli = c * p * q
        slope = np.log1p(y / k) + log_expit(-self._log_odds(f))
        slope = k * slope - (y * q - k * p)
        slope += k * digamma_remainder(c) / c - digamma_remainder(k)
        first = bernoulli - k * p
        second = bernoulli * (q - p) - k * p * q
        return ParameterDerivatives(slope[None], first[None], second[None])

    def bend(self, y: FloatArray) -> Bend:
        """Return the bend where the mean is the shape; the nearest poles are pi times i away."""
        return Bend(np.asarray(np.log(self.shape)), np.asarray(6.0))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a count over f ~ N(mean, var)."""
        rate = np.exp(mean + 0.5 * var)
        square = rate * rate * np.exp(var)
        excess = rate * rate * np.expm1(var)
        return PredictiveMoments(rate, rate + square / self.shape + excess)

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a count over f ~ N(mean, var) is at most y; (m, 1), (m, g), (m, 1).

        Given f, this is the probability that a beta variable is below shape / (mu + shape). Any
        y > -1 is allowed.
        """
        k = self.shape
        b = np.asarray(y + 1.0)

        def at_most(f: FloatArray) -> FloatArray:
            """Return the probability that the count is at most y given f."""
            return np.asarray(betainc(k, b[..., None], expit(-self._log_odds(f))))

        with np.errstate(divide="ignore"):  # where the odds overflow
            p = betaincinv(b, k, DECREASING_TAIL)
            q = betaincinv(k, b, DECREASING_TAIL)
            low = np.log(k) + np.log(p) - np.log1p(-p)
            high = np.log(k) + np.log1p(-q) - np.log(q)
        return average_decreasing(at_most, low, high, mean, var)

    def _log_odds(self, f: FloatArray) -> FloatArray:
        """Return log(mu / shape)."""
        return np.asarray(f - np.log(self.shape))

    def _success_terms(
        self, y: FloatArray, f: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return p = mu / (mu + shape), q = 1 - p and y + shape."""
        g = self._log_odds(f)
        return expit(g), expit(-g), np.asarray(y + self.shape)


def _log_mixtures(h: FloatArray, w: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log(v + w exp(h)) and log(w + v exp(-h)) for v + w = 1."""
    # Beyond, only one of the two parts matters.
    inside = np.clip(h, -_LARGEST_LOG_SHAPE, _LARGEST_LOG_SHAPE)
    growth = np.exp(inside)
    excess = np.expm1(inside)
    upper = _log_near_one(v + w * growth, w * excess) + np.maximum(h - inside, 0.0)
    lower = _log_near_one(w + v / growth, -v * (excess / growth)) + np.maximum(inside - h, 0.0)
    return upper, lower


def _log_near_one(x: FloatArray, excess: FloatArray) -> FloatArray:
    """Return log x for x > 0, from the excess x - 1 where x is near one."""
    # To first order in the rounding error of x, which log1p would not have, but it takes longer.
    lost = np.where(np.abs(excess) < 0.5, excess - (x - 1.0), 0.0)
    return np.asarray(np.log(x) + lost / x)


def stirling_remainder(x: FloatArray | float) -> FloatArray:
    """``log Gamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2]`` for x > 0."""
    x = np.asarray(x, dtype=float)
    series = _sum_odd_powers(_STIRLING, 1.0 / np.maximum(x, _LARGE))
    near = x < _LARGE
    if not near.any():
        return series
    small = np.minimum(x, _LARGE)
    direct = gammaln(small) - ((small - 0.5) * np.log(small) - small + 0.5 * LOG_TWO_PI)
    return np.where(near, direct, series)


def digamma_remainder(x: FloatArray | float) -> FloatArray:
    """``x (digamma(x) - log x)`` for x > 0."""
    x = np.asarray(x, dtype=float)
    small = np.minimum(x, _LARGE)
    large = np.maximum(x, _LARGE)
    direct = small * (digamma(small) - np.log(small))
    return np.where(x < _LARGE, direct, -0.5 + _sum_odd_powers(_DIGAMMA, 1.0 / large))


def log_factorial_gap(y: FloatArray) -> FloatArray:
    """``y log c - y - log y!`` with c = max(y, 1), for y >= 0."""
    small = np.minimum(y, _LARGE)
    direct = xlogy(small, np.maximum(small, 1.0)) - small - gammaln(small + 1.0)
    if not np.any(y >= _LARGE):  # the usual case; the series would take most of the time
        return np.asarray(direct)
    large = np.maximum(y, _LARGE)
    series = -0.5 * LOG_TWO_PI - 0.5 * np.log(large) - _sum_odd_powers(_STIRLING, 1.0 / large)
    return np.where(y < _LARGE, direct, series)


def _sum_odd_powers(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    """``sum_j coefficients[j] x^(2 j + 1)``, by Horner's rule."""
    square = x * x
    total = coefficients[-1] * square
    for coefficient in coefficients[-2:0:-1]:
        total = (total + coefficient) * square
    return np.asarray(x * (total + coefficients[0]))
