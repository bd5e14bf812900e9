"""Runs of chains: set-up, sampling, convergence, cost, and estimates from the draws."""

from .advice import draws_wanted, remedy
from .convergence import (
    ConvergenceGoal,
    ConvergenceSummary,
    min_draws,
    rank_r_hat,
    summarize_convergence,
)
from .diagnostics import Diagnostics
from .scale_reduction import ScaleReduction, autocorrelation, gelman_rubin

__all__ = [
    "ConvergenceGoal",
    "ConvergenceSummary",
    "Diagnostics",
    "ScaleReduction",
    "autocorrelation",
    "draws_wanted",
    "gelman_rubin",
    "min_draws",
    "rank_r_hat",
    "remedy",
    "summarize_convergence",
]
