"""The joint model: covariance, hyper-priors, observations."""

from .categorical import CategoricalCovariance
from .classwise import ClasswiseGP
from .composite import CompositeCovariance, CovarianceOnColumns
from .covariance import Covariance, CrossCovariance, make_covariance
from .default_priors import (
    default_hyperprior,
    default_priors,
    paper_prior,
    period_positions,
)
from .fixed import FixedCovariance
from .hyperpriors import HyperPrior
from .joint import GPState, LatentGP
from .kernels import check_kernel, smooth_kernel, variance_position
from .lengths import column_widths, length_bounds, period_bounds
from .linear import LinearCovariance
from .low_rank import EigenGP, LowRankPrior, NystromGP
from .observations import ExtraTargets, Observations
from .parts import complete_kernel
from .periodic import PeriodicCovariance
from .prior import Conditional, GaussianPrior, LatentMoments
from .prior_table import PriorTable
from .shrinkage import Shrinkage

__all__ = [
    "CategoricalCovariance",
    "ClasswiseGP",
    "CompositeCovariance",
    "Conditional",
    "Covariance",
    "CovarianceOnColumns",
    "CrossCovariance",
    "EigenGP",
    "ExtraTargets",
    "FixedCovariance",
    "GPState",
    "GaussianPrior",
    "HyperPrior",
    "LatentGP",
    "LatentMoments",
    "LinearCovariance",
    "LowRankPrior",
    "NystromGP",
    "Observations",
    "PeriodicCovariance",
    "PriorTable",
    "Shrinkage",
    "check_kernel",
    "column_widths",
    "complete_kernel",
    "default_hyperprior",
    "default_priors",
    "length_bounds",
    "make_covariance",
    "paper_prior",
    "period_bounds",
    "period_positions",
    "smooth_kernel",
    "variance_position",
]
