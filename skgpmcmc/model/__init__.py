"""The joint model: covariance, hyper-priors, observations.

The imports also register the fast covariances, in the order in which they are tried.
"""

from .categorical import CategoricalCovariance
from .classwise import ClasswiseGP
from .composite import CompositeCovariance, CovarianceOnColumns
from .covariance import Covariance, CrossCovariance, make_covariance
from .default_priors import default_hyperprior, default_priors, paper_prior
from .fixed import FixedCovariance
from .hyperpriors import HyperPrior
from .joint import GPState, LatentGP
from .kernels import smooth_kernel
from .lengths import column_widths, length_bounds, period_bounds
from .linear import LinearCovariance
from .low_rank import EigenGP, LowRankPrior, NystromGP
from .observations import Observations
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
    "column_widths",
    "default_hyperprior",
    "default_priors",
    "length_bounds",
    "make_covariance",
    "paper_prior",
    "period_bounds",
    "smooth_kernel",
]
