"""Means of a logistic function and of its square over normal distributions, many at once.

With s(f) = 1 / (1 + exp(-f)), and any tilt t between zero and one,

    E s(f) = exp(t mean + t^2 var / 2) E exp(-t g) s(g),   g ~ N(mean + t var, var).

The tilt is the one that brings the mean of g as near to zero as it can. The function of g has
values between zero and one, and at the mean of g at least one half, so that nodes within a few
standard deviations of this mean give the integral to the last digits, however small it is. No
search for the mode of the integrand is needed. The square has its mass at a tilt of up to two,
which is farther up, where some nodes are added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from .linalg import LOG_TWO_PI
from .quadrature import GAUSSIAN_STEP

#: Distance of the last nodes from the mean, in standard deviations.
_REACH = 8.5
#: Width of the bend of the function of g at zero, whose nearest poles are at pi times i.
_BEND_WIDTH = 6.0
#: Step of the nodes on the scale on which they are equally spaced around a bend.
_BEND_STEP = 0.08
#: Largest distance and width of a bend, in standard deviations: beyond, nodes are equally spaced.
_LARGEST_BEND = 20.0
#: Distributions that are handled at once: their nodes stay in the processor's cache.
_AT_ONCE = 512


class LogisticMeans(NamedTuple):
    """The means over f ~ N(mean, var)."""

    log_mean: FloatArray  # natural log of that of s(f)
    mean_square: FloatArray  # that of s(f)^2


def average_logistic(mean: FloatArray, var: FloatArray) -> LogisticMeans:
    """Return means of s(f) and of s(f)^2 over f ~ N(mean, var); relative errors are below 1e-12.

    Parameters
    ----------
    mean, var : ndarray, of shapes that broadcast
        A variance of zero is allowed.

    Returns
    -------
    LogisticMeans
        Fields of the common shape; NaN where the variance is negative, or an argument is not
        finite.
    """
    mean, var = np.broadcast_arrays(np.asarray(mean, dtype=float), np.asarray(var, dtype=float))
    legal = np.isfinite(mean) & np.isfinite(var) & (var >= 0.0)
    arguments = mean[legal], var[legal]
    values = np.empty((2, len(arguments[0])))
    for start in range(0, values.shape[1], _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        values[:, rows] = _integrate(*(argument[rows] for argument in arguments))
    found = np.full((2, *mean.shape), np.nan)
    found[:, legal] = values
    return LogisticMeans(*found)


def _integrate(mean: FloatArray, var: FloatArray) -> FloatArray:
    """Return the log of the first mean, and the second, for some distributions (m,); (2, m)."""
    tiny = np.finfo(float).tiny
    sd = np.maximum(np.sqrt(var), tiny)
    with np.errstate(over="ignore"):
        best = -mean / np.maximum(var, tiny)
    tilt, tilt_of_square = (np.clip(best, 0.0, power) for power in (1.0, 2.0))
    center = mean + tilt * var

    # Nodes x = b + a sinh(u) in standard deviations from the center, u equally spaced.
    with np.errstate(over="ignore"):
        bend = np.clip(-center / sd, -_LARGEST_BEND, _LARGEST_BEND)
        width = np.minimum(_BEND_WIDTH / sd, _LARGEST_BEND)
    ends = -_REACH, _REACH + (tilt_of_square - tilt) * sd
    low, high = (np.arcsinh((end - bend) / width) for end in ends)
    largest_step = np.minimum(_BEND_STEP, GAUSSIAN_STEP / np.hypot(width, bend))
    n_steps = int(np.ceil(np.max((high - low) / largest_step)))
    step = (high - low) / n_steps
    growth = np.exp(low[:, None] + step[:, None] * np.arange(n_steps + 1))
    inverse = 1.0 / growth
    half = 0.5 * width[:, None]
    x = bend[:, None] + half * (growth - inverse)

    g = center[:, None] + sd[:, None] * x
    size = np.abs(g)
    positive = g > 0.0
    # exp(-t g) s(g) is exp(-r |g|) / (1 + exp(-|g|)), with r = t or 1 - t.
    rate = np.where(positive, tilt[:, None], 1.0 - tilt[:, None])
    tail = np.exp(-size)
    larger = 1.0 / (1.0 + tail)
    values = np.exp(-0.5 * x * x - rate * size) * larger * (half * (growth + inverse))
    first = values.sum(axis=1)
    square = np.einsum("ij,ij->i", values, np.where(positive, larger, tail * larger))
    shift = tilt * (mean + 0.5 * tilt * var) - 0.5 * LOG_TWO_PI
    log_mean = np.minimum(np.log(first * step) + shift, 0.0)  # above by rounding alone
    return np.stack([log_mean, np.exp(log_mean) * (square / first)])
