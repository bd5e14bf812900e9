"""Convergence of chains: R-hat, effective sample sizes, and the goal at which sampling stops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from arviz_stats.base.array import array_stats

from .._typing import BoolArray, FloatArray

#: Below this effective sample size the Monte Carlo error of a posterior mean exceeds a tenth of
#: the posterior standard deviation, and R-hat itself is unreliable.
MIN_ESS = 100.0
#: Pareto shape k of the tail of importance weights above which averages with them, and the standard
#: errors of these averages, are unreliable (Vehtari, Simpson, Gelman, Yao & Gabry, 2024).
MAX_PARETO_K = 0.7


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
    samples, usable = split_and_screen(samples)
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
    samples, usable = split_and_screen(samples)
    if usable.any():
        with np.errstate(divide="ignore", invalid="ignore"):  # a half of a chain may not move
            values = array_stats.rhat(samples[:, :, usable], chain_axis=0, draw_axis=1)
        r_hat[usable] = np.where(np.isnan(values), np.inf, values)
    return r_hat


def min_draws(n_chains: int) -> int:
    """Return the minimum number of draws per chain for these diagnostics."""
    return 8 if n_chains == 1 else 4


def split_and_screen(samples: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return at least two chains, and a mask of the p components that can be compared.

    A single chain is split into halves. A component can be compared if it is finite and moves in
    every chain, and the chains have `min_draws` draws.
    """
    n_chains, n_draws, p = samples.shape
    if n_draws < min_draws(n_chains):
        return samples, np.zeros(p, dtype=bool)
    if n_chains == 1:
        half = n_draws // 2
        samples = np.stack([samples[0, :half], samples[0, half : 2 * half]])
    moves = (np.ptp(samples, axis=1) > 0.0).all(axis=0)
    return samples, np.isfinite(samples).all(axis=(0, 1)) & moves


@dataclass(frozen=True)
class ConvergenceGoal:
    """The convergence that sampling aims at: sampling stops there, and a fit warns short of it.

    Attributes
    ----------
    max_rhat : float
        Largest R-hat of any quantity.
    target_ess : float or None, default=None
        Effective sample size that every quantity must reach, in bulk and tail; None asks for no
        more than `MIN_ESS`, which is the least in any case.
    """

    max_rhat: float
    target_ess: float | None = None

    @property
    def min_ess(self) -> float:
        """Effective sample size that bulk and tail of every quantity must reach."""
        return MIN_ESS if self.target_ess is None else max(self.target_ess, MIN_ESS)

    def is_met(self, r_hat: FloatArray, ess_bulk: FloatArray, ess_tail: FloatArray) -> BoolArray:
        """Whether each quantity has reached the goal; all arrays (p,)."""
        return (r_hat <= self.max_rhat) & (np.minimum(ess_bulk, ess_tail) >= self.min_ess)

    def growth_needed(self, r_hat: float, ess: float) -> float:
        """Return how many times as many draws are needed; infinite if the draws do not tell.

        Effective sample sizes grow with the number of draws. Where chains agree, R-hat exceeds 1 by
        chance, and falls towards 1 as one over the number of draws.
        """
        if not (ess > 0.0 and self.max_rhat > 1.0):
            return np.inf
        return max(self.min_ess / ess, (r_hat - 1.0) / (self.max_rhat - 1.0))

    def estimate_missing(self, samples: FloatArray) -> float:
        """Estimate how many more draws are needed, as a fraction of the present ones.

        Parameters
        ----------
        samples : ndarray of shape (n_chains, n_draws, p)
            The present draws.

        Returns
        -------
        float
            0 if the goal is met; infinite if the draws do not tell, see `growth_needed`.
        """
        s = summarize_convergence(samples)
        if self.is_met(s.r_hat, s.ess_bulk, s.ess_tail).all():
            return 0.0
        ess = float(np.minimum(s.ess_bulk, s.ess_tail).min())
        return self.growth_needed(float(s.r_hat.max()), ess) - 1.0
