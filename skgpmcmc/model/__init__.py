"""The joint model: covariance, hyper-priors, observations."""

from .classwise import ClasswiseGP
from .composite import CompositeCovariance
from .covariance import Covariance, CrossCovariance, make_covariance
from .default_priors import default_hyperprior, default_priors, paper_prior
from .hyperpriors import HyperPrior
from .joint import GPState, LatentGP
from .kernels import smooth_kernel
from .lengths import column_widths, length_bounds, period_bounds
from .low_rank import EigenGP, LowRankPrior, NystromGP
from .observations import Observations
from .prior import Conditional, GaussianPrior, LatentMoments
from .prior_table import PriorTable
from .shrinkage import Shrinkage

__all__ = [
    "ClasswiseGP",
    "CompositeCovariance",
    "Conditional",
    "Covariance",
    "CrossCovariance",
    "EigenGP",
    "GPState",
    "GaussianPrior",
    "HyperPrior",
    "LatentGP",
    "LatentMoments",
    "LowRankPrior",
    "NystromGP",
    "Observations",
    "PriorTable",
    "Shrinkage",
    "column_widths",
    "default_hyperprior",
    "default_priors",
    "length_bounds",
    "make_covariance",
    "paper_prior",
    "period_bounds",
    "smooth_kernel",
]
