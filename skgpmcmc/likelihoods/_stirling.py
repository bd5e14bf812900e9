"""Logarithms of factorials, without the cancellation of their large parts.

A log probability of a count y is a difference of numbers of the size of y log y. Where y, or the
shape of a negative binomial, is large, nothing is left of it but rounding, unless the large parts
are taken away by hand (Loader, 2000, Fast and accurate computation of binomial probabilities).
"""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln, xlogy

from .._typing import FloatArray

_HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
#: From here on both series have the precision of doubles.
_LARGE = 15.0
_STIRLING = (1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0)
_DIGAMMA = (-1.0 / 12.0, 1.0 / 120.0, -1.0 / 252.0, 1.0 / 240.0, -1.0 / 132.0)


def stirling_remainder(x: FloatArray | float) -> FloatArray:
    """``log Gamma(x) - [(x - 1/2) log x - x + log(2 pi) / 2]`` for x > 0."""
    x = np.asarray(x, dtype=float)
    small, large = np.minimum(x, _LARGE), np.maximum(x, _LARGE)
    direct = gammaln(small) - ((small - 0.5) * np.log(small) - small + _HALF_LOG_TWO_PI)
    return np.where(x < _LARGE, direct, _odd_powers(_STIRLING, 1.0 / large))


def digamma_remainder(x: FloatArray | float) -> FloatArray:
    """``x (digamma(x) - log x)`` for x > 0."""
    x = np.asarray(x, dtype=float)
    small, large = np.minimum(x, _LARGE), np.maximum(x, _LARGE)
    direct = small * (digamma(small) - np.log(small))
    return np.where(x < _LARGE, direct, -0.5 + _odd_powers(_DIGAMMA, 1.0 / large))


def log_factorial_gap(y: FloatArray) -> FloatArray:
    """``y log c - y - log y!`` with c = max(y, 1), for y >= 0."""
    small, large = np.minimum(y, _LARGE), np.maximum(y, _LARGE)
    direct = xlogy(small, np.maximum(small, 1.0)) - small - gammaln(small + 1.0)
    series = -_HALF_LOG_TWO_PI - 0.5 * np.log(large) - stirling_remainder(large)
    return np.where(y < _LARGE, direct, series)


def _odd_powers(coefficients: tuple[float, ...], x: FloatArray) -> FloatArray:
    """``sum_j coefficients[j] x^(2 j + 1)``."""
    return np.asarray(x * np.polynomial.polynomial.polyval(x * x, coefficients))
