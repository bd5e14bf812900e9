"""Convergence of chains on theta, and when it is enough; a thin layer over arviz-stats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._typing import FloatArray

__all__ = ["MIN_ESS", "ConvergenceSummary", "StoppingRule", "summarize_convergence"]

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
    r_hat, ess_bulk = np.full(p, np.inf), np.zeros(p)
    ess_tail, mcse_mean = np.zeros(p), np.full(p, np.nan)
    if samples.shape[0] == 1:
        half = samples.shape[1] // 2
        samples = np.stack([samples[0, :half], samples[0, half : 2 * half]])
    if samples.shape[1] < 4:
        return ConvergenceSummary(r_hat, ess_bulk, ess_tail, mcse_mean)
    usable = np.isfinite(samples).all(axis=(0, 1)) & (np.ptp(samples, axis=1) > 0.0).all(axis=0)
    if usable.any():
        x = samples[:, :, usable]
        axes = {"chain_axis": 0, "draw_axis": 1}
        r_hat[usable] = array_stats.rhat(x, **axes)
        ess_bulk[usable] = array_stats.ess(x, method="bulk", **axes)
        ess_tail[usable] = array_stats.ess(x, method="tail", prob=(0.05, 0.95), **axes)
        mcse_mean[usable] = array_stats.mcse(x, method="mean", **axes)
    return ConvergenceSummary(r_hat, ess_bulk, ess_tail, mcse_mean)


@dataclass(frozen=True)
class StoppingRule:
    """When the draws of all models are enough.

    Attributes
    ----------
    target_ess : float
        Bulk effective sample size that every hyper-parameter must reach.
    max_rhat : float
        R-hat that none may exceed.
    """

    target_ess: float
    max_rhat: float

    def met(self, thetas: Sequence[FloatArray]) -> bool:
        """Whether draws of shape (n_chains, n_draws, p), one array per model, are enough."""
        summaries = [summarize_convergence(theta) for theta in thetas]
        return all(
            bool(np.all(s.ess_bulk >= self.target_ess) and np.all(s.r_hat <= self.max_rhat))
            for s in summaries
        )
