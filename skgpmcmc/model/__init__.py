"""The joint model: covariance, hyper-priors, observations."""

from .classwise import ClasswiseGP, ClasswisePrior
from .covariance import Covariance, CrossCovariance
from .hyperpriors import HyperPrior, default_prior
from .joint import GPState, LatentGP, Observations, default_hyperprior
from .kernels import check_gradient, check_kernel, check_matrix, default_kernel, make_covariance
from .prior import GaussianPrior, LatentMoments

__all__ = [
    "ClasswiseGP",
    "ClasswisePrior",
    "Covariance",
    "CrossCovariance",
    "GPState",
    "GaussianPrior",
    "HyperPrior",
    "LatentGP",
    "LatentMoments",
    "Observations",
    "check_gradient",
    "check_kernel",
    "check_matrix",
    "default_hyperprior",
    "default_kernel",
    "default_prior",
    "make_covariance",
]
