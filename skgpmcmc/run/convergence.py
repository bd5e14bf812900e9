"""When chains have converged: R-hat, effective sample sizes, and the rule by which they end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from arviz_stats.base.array import array_stats

from .._typing import BoolArray, FloatArray

#: Below this effective sample size the Monte Carlo error of a posterior mean exceeds a tenth of
#: the posterior standard deviation, and R-hat itself is unreliable.
MIN_ESS = 100.0


@dataclass(frozen=True, eq=False)
class ConvergenceSummary:
    """Rank-normalized split R-hat, effective sample sizes and errors of the mean; each (p,)."""

    r_hat: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    mcse_mean: FloatArray


def summarize_convergence(samples: FloatArray) -> ConvergenceSummary:
    """Compute convergence diagnostics of draws of shape (n_chains, n_draws, p).

    A single chain is split, and its halves are compared. Chains that are constant, not finite or
    shorter than four draws (eight for a single chain) count as not converged: R-hat is infinite,
    the effective sample size 0 and the error NaN.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), *Rank-normalization, folding, and
    localization: an improved R-hat*.
    """
    p = samples.shape[2]
    r_hat = rank_r_hat(samples)
    ess_bulk = np.zeros(p)
    ess_tail = np.zeros(p)
    mcse_mean = np.full(p, np.nan)
    samples, usable = comparable(samples)
    if usable.any():
        x = samples[:, :, usable]
        axes = {"chain_axis": 0, "draw_axis": 1}
        ess_bulk[usable] = array_stats.ess(x, method="bulk", **axes)
        ess_tail[usable] = array_stats.ess(x, method="tail", prob=(0.05, 0.95), **axes)
        mcse_mean[usable] = array_stats.mcse(x, method="mean", **axes)
    return ConvergenceSummary(r_hat, ess_bulk, ess_tail, mcse_mean)


def rank_r_hat(samples: FloatArray) -> FloatArray:
    """Rank-normalized split R-hat of draws of shape (n_chains, n_draws, p); (p,).

    A single chain, constant chains and chains too short are treated as in `summarize_convergence`.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter & Burkner (2021), *Rank-normalization, folding, and
    localization: an improved R-hat*.
    """
    r_hat = np.full(samples.shape[2], np.inf)
    samples, usable = comparable(samples)
    if usable.any():
        with np.errstate(divide="ignore", invalid="ignore"):  # halves of chains that do not move
            values = array_stats.rhat(samples[:, :, usable], chain_axis=0, draw_axis=1)
        r_hat[usable] = np.where(np.isnan(values), np.inf, values)
    return r_hat


def min_draws(n_chains: int) -> int:
    """Return the minimum number of draws per chain for these diagnostics."""
    return 8 if n_chains == 1 else 4


def comparable(samples: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return at least two chains, and a mask of the p components that can be compared."""
    n_chains, n_draws, p = samples.shape
    if n_draws < min_draws(n_chains):
        return samples, np.zeros(p, dtype=bool)
    if n_chains == 1:
        half = n_draws // 2
        samples = np.stack([samples[0, :half], samples[0, half : 2 * half]])
    moves = (np.ptp(samples, axis=1) > 0.0).all(axis=0)
    return samples, np.isfinite(samples).all(axis=(0, 1)) & moves


def least_ess(target_ess: float | None) -> float:
    """Return the effective sample size that both bulk and tail must reach."""
    return MIN_ESS if target_ess is None else max(target_ess, MIN_ESS)


def enough(
    r_hat: FloatArray,
    ess_bulk: FloatArray,
    ess_tail: FloatArray,
    max_rhat: float,
    target_ess: float | None = None,
) -> BoolArray:
    """Whether the draws are enough, for each quantity; all arrays (p,).

    R-hat has to be at most `max_rhat`, and the effective sample sizes of bulk and tail at least
    `target_ess` and at least MIN_ESS. Both the end of sampling and the warnings use this rule.
    """
    least = least_ess(target_ess)
    return (r_hat <= max_rhat) & (np.minimum(ess_bulk, ess_tail) >= least)


@dataclass(frozen=True)
class StoppingRule:
    """Criterion by which sampling of a model stops.

    Attributes
    ----------
    target_ess : float
        Effective sample size that every quantity must reach, in bulk and tail; see `enough`.
    max_rhat : float
        Largest R-hat of any quantity.
    """

    target_ess: float
    max_rhat: float

    def missing(self, samples: FloatArray) -> float:
        """Estimate how many more draws are needed, as a fraction of the present ones.

        For draws of shape (n_chains, n_draws, p): 0 if they are enough, and infinity if that cannot
        be told; see `times_as_many`.
        """
        s = summarize_convergence(samples)
        if enough(s.r_hat, s.ess_bulk, s.ess_tail, self.max_rhat, self.target_ess).all():
            return 0.0
        ess = float(np.minimum(s.ess_bulk, s.ess_tail).min())
        return times_as_many(float(s.r_hat.max()), ess, self.max_rhat, self.target_ess) - 1.0


def times_as_many(r_hat: float, ess: float, max_rhat: float, target_ess: float | None) -> float:
    """Return how many times as many draws are needed; infinite if that cannot be told.

    Effective sample sizes grow with the number of draws. Where chains agree, R-hat exceeds 1 by
    chance, and falls towards it as one over that number.
    """
    if not (ess > 0.0 and max_rhat > 1.0):
        return np.inf
    return max(least_ess(target_ess) / ess, (r_hat - 1.0) / (max_rhat - 1.0))
