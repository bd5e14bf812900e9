"""Convergence of chains on theta, and when it is enough; a thin layer over arviz-stats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from .._typing import BoolArray, FloatArray

#: Below this effective sample size the Monte Carlo error of a posterior mean exceeds a tenth of
#: the posterior standard deviation, and R-hat itself is unreliable.
MIN_ESS = 100.0


@dataclass(frozen=True, eq=False)
class ConvergenceSummary:
    """Rank-normalized split R-hat, effective sample sizes and errors; each (p,)."""

    r_hat: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    mcse_mean: FloatArray


def summarize_convergence(samples: FloatArray) -> ConvergenceSummary:
    """Diagnose draws of shape (n_chains, n_draws, p).

    A single chain is compared with itself, half against half. Chains that are constant, not
    finite or shorter than four draws (eight for a single chain) have not converged: R-hat is
    infinite, the effective sample size 0 and the error NaN.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), *Rank-normalization, folding, and
    localization: an improved R-hat*.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import

    p = samples.shape[2]
    r_hat, ess_bulk = rank_r_hat(samples), np.zeros(p)
    ess_tail, mcse_mean = np.zeros(p), np.full(p, np.nan)
    samples, usable = _comparable(samples)
    if usable.any():
        x = samples[:, :, usable]
        axes = {"chain_axis": 0, "draw_axis": 1}
        ess_bulk[usable] = array_stats.ess(x, method="bulk", **axes)
        ess_tail[usable] = array_stats.ess(x, method="tail", prob=(0.05, 0.95), **axes)
        mcse_mean[usable] = array_stats.mcse(x, method="mean", **axes)
    return ConvergenceSummary(r_hat, ess_bulk, ess_tail, mcse_mean)


def rank_r_hat(samples: FloatArray) -> FloatArray:
    """Rank-normalized split R-hat of draws of shape (n_chains, n_draws, p); (p,).

    A single chain, and chains that say nothing, are treated as in `summarize_convergence`.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), *Rank-normalization, folding, and
    localization: an improved R-hat*.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import

    r_hat = np.full(samples.shape[2], np.inf)
    samples, usable = _comparable(samples)
    if usable.any():
        with np.errstate(divide="ignore", invalid="ignore"):  # halves of chains that do not move
            values = array_stats.rhat(samples[:, :, usable], chain_axis=0, draw_axis=1)
        r_hat[usable] = np.where(np.isnan(values), np.inf, values)
    return r_hat


def min_draws(n_chains: int) -> int:
    """Length of the shortest chains that can be compared."""
    return 8 if n_chains == 1 else 4


def _comparable(samples: FloatArray) -> tuple[FloatArray, BoolArray]:
    """At least two chains, and which of the p components they can be compared by."""
    n_chains, n_draws, p = samples.shape
    if n_draws < min_draws(n_chains):
        return samples, np.zeros(p, dtype=bool)
    if n_chains == 1:
        half = n_draws // 2
        samples = np.stack([samples[0, :half], samples[0, half : 2 * half]])
    moves = (np.ptp(samples, axis=1) > 0.0).all(axis=0)
    return samples, np.isfinite(samples).all(axis=(0, 1)) & moves


class ScaleReduction(NamedTuple):
    """Gelman and Rubin's potential scale reduction factor; each (p,)."""

    estimate: FloatArray
    upper: FloatArray  # confidence limit


#: Relative variance below which that of a chain's variance is taken for rounding.
_ROUNDING = 1e-15


def gelman_rubin(samples: FloatArray, level: float = 0.975) -> ScaleReduction:
    """Compare draws of shape (n_chains, n_draws, p) as the papers do, with an upper limit.

    With V the variance that the pooled chains suggest and W the mean variance within them, the
    factor is ``sqrt((d + 3) / (d + 1) V / W)``, d being the degrees of freedom of V. In the limit,
    the part of V / W that comes from between the chains is multiplied by the `level` quantile of an
    F distribution. A single chain, and chains that say nothing, are treated as in
    `summarize_convergence`.

    References
    ----------
    Gelman & Rubin (1992), *Inference from iterative simulation using multiple sequences*; Brooks &
    Gelman (1998), *General methods for monitoring convergence of iterative simulations*, for the
    degrees of freedom.
    """
    p = samples.shape[2]
    estimate, upper = np.full(p, np.inf), np.full(p, np.inf)
    samples, usable = _comparable(samples)
    if not usable.any():
        return ScaleReduction(estimate, upper)
    x = samples[:, :, usable]
    m, n = x.shape[:2]
    variance, mean = x.var(axis=1, ddof=1), x.mean(axis=1)
    W, B = variance.mean(axis=0), n * mean.var(axis=0, ddof=1)
    rest, share = (n - 1) / n, (1 + 1 / m) / n  # V = rest W + share B
    V = rest * W + share * B
    # The variance of V, by those of W and B and their covariance.
    var_W = variance.var(axis=0, ddof=1) / m
    var_B = 2.0 * B**2 / (m - 1)
    deviation = (mean - mean.mean(axis=0)) ** 2
    cov_WB = n / m * ((variance - W) * (deviation - deviation.mean(axis=0))).sum(axis=0) / (m - 1)
    var_V = rest**2 * var_W + share**2 * var_B + 2.0 * rest * share * cov_WB
    d_V = 2.0 * V**2 / np.maximum(var_V, _ROUNDING * V**2)
    d_W = 2.0 * W**2 / np.maximum(var_W, _ROUNDING * W**2)
    inflation = (d_V + 3.0) / (d_V + 1.0)
    quantile = stats.f.ppf(level, m - 1, d_W)
    estimate[usable] = np.sqrt(inflation * V / W)
    upper[usable] = np.sqrt(inflation * (rest + quantile * share * B / W))
    return ScaleReduction(estimate, upper)


def autocorrelation(samples: FloatArray) -> FloatArray:
    """Autocorrelation at the lags 0, 1, ... of finite draws of shape (n_chains, n_draws, p).

    Each chain is taken about its own mean; the result has the shape of the draws. A chain that
    never moves has one everywhere.
    """
    from arviz_stats.base.array import array_stats  # takes a second to import

    moves = np.ptp(samples, axis=1, keepdims=True) > 0.0
    varying = np.where(moves, samples, np.arange(samples.shape[1])[:, None])
    return np.where(moves, array_stats.autocorr(varying, axis=1), 1.0)


def least_ess(target_ess: float | None) -> float:
    """Return the effective sample size that bulk and tail must reach."""
    return MIN_ESS if target_ess is None else max(target_ess, MIN_ESS)


def enough(
    r_hat: FloatArray,
    ess_bulk: FloatArray,
    ess_tail: FloatArray,
    max_rhat: float,
    target_ess: float | None = None,
) -> BoolArray:
    """Whether chains suffice, quantity by quantity, each (p,).

    R-hat has to be at most `max_rhat`, and the effective sample sizes of bulk and tail at least
    `target_ess` and at least MIN_ESS. Sampling stops, and is reported, by this rule alone.
    """
    least = least_ess(target_ess)
    return (r_hat <= max_rhat) & (np.minimum(ess_bulk, ess_tail) >= least)


@dataclass(frozen=True)
class StoppingRule:
    """When the draws of all models are enough.

    Attributes
    ----------
    target_ess : float
        Effective sample size that every quantity must reach, in bulk and tail; see `enough`.
    max_rhat : float
        R-hat that none may exceed.
    """

    target_ess: float
    max_rhat: float

    def met(self, thetas: Sequence[FloatArray]) -> bool:
        """Whether draws of shape (n_chains, n_draws, p), one array per model, are enough."""
        summaries = [summarize_convergence(theta) for theta in thetas]
        return all(
            bool(enough(s.r_hat, s.ess_bulk, s.ess_tail, self.max_rhat, self.target_ess).all())
            for s in summaries
        )
