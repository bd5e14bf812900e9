"""Tests of samplers and of their parts, for this package and for third parties.

`prior_invariance_test` checks that a transition leaves p(theta, f | y) unchanged, for any model.
`simulation_based_calibration` checks a whole fit, including the set-up, on simulated data.
`exact_answer_test` compares long chains with results known by other means. `check_likelihood`,
`check_kernel` and `check_approximation` check single parts. The first three return reports, and the
caller chooses the thresholds; the checks raise an AssertionError that says what is wrong.
"""

from .answers import PROBABILITIES, ExactAnswerReport, Reference, exact_answer_test
from .approximations import check_approximation
from .calibration import (
    CalibrationReport,
    calibration_statistics,
    rank_p_value,
    simulation_based_calibration,
)
from .invariance import (
    InvarianceReport,
    JointDraws,
    Statistic,
    joint_statistics,
    prior_invariance_test,
    simulate_joint,
    start_at_latent,
    start_with_particles,
)
from .kernels import check_kernel
from .likelihoods import check_likelihood

__all__ = [
    "PROBABILITIES",
    "CalibrationReport",
    "ExactAnswerReport",
    "InvarianceReport",
    "JointDraws",
    "Reference",
    "Statistic",
    "calibration_statistics",
    "check_approximation",
    "check_kernel",
    "check_likelihood",
    "exact_answer_test",
    "joint_statistics",
    "prior_invariance_test",
    "rank_p_value",
    "simulate_joint",
    "simulation_based_calibration",
    "start_at_latent",
    "start_with_particles",
]
