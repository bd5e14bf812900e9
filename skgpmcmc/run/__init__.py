"""Runs of chains: set-up, sampling, convergence, cost, and estimates from the draws."""

from .advice import convergence_message, draws_wanted, remedy
from .chains import continue_chains, n_rounds, sample_chains
from .convergence import (
    ConvergenceGoal,
    ConvergenceSummary,
    min_draws,
    rank_r_hat,
    summarize_convergence,
)
from .diagnostics import Diagnostics, diagnose
from .leave_one_out import (
    LOO_METHODS,
    GivenRows,
    LeaveOneOut,
    average_densities,
    leave_one_out,
    leave_one_out_of_classes,
)
from .records import Draws, MarkedSamples, ModelRun, SamplingRun, with_latent_draws
from .scale_reduction import ScaleReduction, autocorrelation, gelman_rubin

__all__ = [
    "LOO_METHODS",
    "ConvergenceGoal",
    "ConvergenceSummary",
    "Diagnostics",
    "Draws",
    "GivenRows",
    "LeaveOneOut",
    "MarkedSamples",
    "ModelRun",
    "SamplingRun",
    "ScaleReduction",
    "autocorrelation",
    "average_densities",
    "continue_chains",
    "convergence_message",
    "diagnose",
    "draws_wanted",
    "gelman_rubin",
    "leave_one_out",
    "leave_one_out_of_classes",
    "min_draws",
    "n_rounds",
    "rank_r_hat",
    "remedy",
    "sample_chains",
    "summarize_convergence",
    "with_latent_draws",
]
