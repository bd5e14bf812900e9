"""Convergence measures of the papers' figures: Gelman and Rubin's factor, autocorrelations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from arviz_stats.base.array import array_stats
from scipy import stats

from .._typing import FloatArray
from .convergence import split_and_screen

#: Least relative variance of a variance, so that its degrees of freedom are finite.
_CHAIN_VARIANCE_ROUNDING = 1e-15


class ScaleReduction(NamedTuple):
    """Gelman and Rubin's potential scale reduction factor; each (p,)."""

    estimate: FloatArray
    upper: FloatArray  # upper confidence limit


def gelman_rubin(samples: FloatArray, level: float = 0.975) -> ScaleReduction:
    """Compute the potential scale reduction factor of draws of shape (n_chains, n_draws, p).

    With V the variance estimated from the pooled chains and W the mean variance within chains, the
    factor is ``sqrt((d + 3) / (d + 1) V / W)``, where d is the degrees of freedom of V. In the
    upper confidence limit, the part of V / W that comes from the variance between the chains is
    multiplied by the `level` quantile of an F distribution. A single chain, constant chains and
    chains too short are treated as in `summarize_convergence`.

    References
    ----------
    Gelman & Rubin (1992), *Inference from iterative simulation using multiple sequences*; Brooks &
    Gelman (1998), *General methods for monitoring convergence of iterative simulations*, for the
    degrees of freedom.
    """
    p = samples.shape[2]
    estimate = np.full(p, np.inf)
    upper = np.full(p, np.inf)
    samples, usable = split_and_screen(samples)
    if not usable.any():
        return ScaleReduction(estimate, upper)
    x = samples[:, :, usable]
    m, n = x.shape[:2]
    variance = x.var(axis=1, ddof=1)
    mean = x.mean(axis=1)
    W = variance.mean(axis=0)
    B = n * mean.var(axis=0, ddof=1)
    rest, share = (n - 1) / n, (1 + 1 / m) / n  # V = rest W + share B
    V = rest * W + share * B
    # The variance of V follows from the variances of W and B and from their covariance.
    var_W = variance.var(axis=0, ddof=1) / m
    var_B = 2.0 * B**2 / (m - 1)
    deviation = (mean - mean.mean(axis=0)) ** 2
    cov_WB = n / m * ((variance - W) * (deviation - deviation.mean(axis=0))).sum(axis=0) / (m - 1)
    var_V = rest**2 * var_W + share**2 * var_B + 2.0 * rest * share * cov_WB
    d_V = 2.0 * V**2 / np.maximum(var_V, _CHAIN_VARIANCE_ROUNDING * V**2)
    d_W = 2.0 * W**2 / np.maximum(var_W, _CHAIN_VARIANCE_ROUNDING * W**2)
    inflation = (d_V + 3.0) / (d_V + 1.0)
    quantile = stats.f.ppf(level, m - 1, d_W)
    estimate[usable] = np.sqrt(inflation * V / W)
    upper[usable] = np.sqrt(inflation * (rest + quantile * share * B / W))
    return ScaleReduction(estimate, upper)


def autocorrelation(samples: FloatArray) -> FloatArray:
    """Compute the autocorrelation of finite draws, (n_chains, n_draws, p), at the lags 0, 1, ...

    Deviations are from the mean of each chain. The result has the shape of the draws, and is one
    everywhere for a chain that never moves.
    """
    moves = np.ptp(samples, axis=1, keepdims=True) > 0.0
    varying = np.where(moves, samples, np.arange(samples.shape[1])[:, None])
    return np.where(moves, array_stats.autocorr(varying, axis=1), 1.0)
