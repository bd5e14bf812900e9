"""The joint model: covariance, hyper-priors, observations."""

from .classwise import ClasswiseGP, ClasswisePrior
from .composite import Composite
from .covariance import Covariance, CrossCovariance, make_covariance
from .hyperpriors import HyperPrior
from .joint import GPState, LatentGP
from .kernels import (
    check_gradient,
    check_kernel,
    check_matrix,
    default_hyperprior,
    default_kernel,
    default_prior,
    length_bounds,
    paper_prior,
    variance_position,
)
from .low_rank import EigenGP, LowRankPrior, NystromGP
from .observations import Further, Observations
from .prior import Conditional, GaussianPrior, LatentMoments

__all__ = [
    "ClasswiseGP",
    "ClasswisePrior",
    "Composite",
    "Conditional",
    "Covariance",
    "CrossCovariance",
    "EigenGP",
    "Further",
    "GPState",
    "GaussianPrior",
    "HyperPrior",
    "LatentGP",
    "LatentMoments",
    "LowRankPrior",
    "NystromGP",
    "Observations",
    "check_gradient",
    "check_kernel",
    "check_matrix",
    "default_hyperprior",
    "default_kernel",
    "default_prior",
    "length_bounds",
    "make_covariance",
    "paper_prior",
    "variance_position",
]
