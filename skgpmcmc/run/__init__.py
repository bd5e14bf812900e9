"""Chains in rounds, their convergence, and what they cost."""

from .chains import continue_chains, n_rounds, sample_chains
from .diagnostics import (
    ConvergenceSummary,
    Diagnostics,
    StoppingRule,
    convergence_message,
    diagnose,
    min_draws,
    rank_r_hat,
    summarize_convergence,
)
from .effort import Effort
from .leave_one_out import GivenRows, LeaveOneOut, leave_one_out
from .records import Draws, MarkedSamples, ModelRun, SamplingRun, with_latent_draws
from .scale_reduction import ScaleReduction, autocorrelation, gelman_rubin

__all__ = [
    "ConvergenceSummary",
    "Diagnostics",
    "Draws",
    "Effort",
    "GivenRows",
    "LeaveOneOut",
    "MarkedSamples",
    "ModelRun",
    "SamplingRun",
    "ScaleReduction",
    "StoppingRule",
    "autocorrelation",
    "continue_chains",
    "convergence_message",
    "diagnose",
    "gelman_rubin",
    "leave_one_out",
    "min_draws",
    "n_rounds",
    "rank_r_hat",
    "sample_chains",
    "summarize_convergence",
    "with_latent_draws",
]
