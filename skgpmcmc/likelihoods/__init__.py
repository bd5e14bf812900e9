"""Likelihoods: how targets and latent values relate, point by point."""

from ..numerics.quadrature import Bend, Ceiling, Cuts
from .base import (
    Derivatives,
    Likelihood,
    Parameter,
    ParameterDerivatives,
    PredictiveMoments,
    TiltedMoments,
)
from .bernoulli import Logit, Probit
from .binomial import BetaBinomial, Binomial
from .counts import NegativeBinomial, Poisson
from .gaussian import Gaussian, Volatility
from .ordinal import OrdinalProbit
from .softmax import Softmax
from .student_t import StudentT

__all__ = [
    "BERNOULLI_LIKELIHOODS",
    "Bend",
    "BetaBinomial",
    "Binomial",
    "Ceiling",
    "Cuts",
    "Derivatives",
    "Gaussian",
    "Likelihood",
    "Logit",
    "NegativeBinomial",
    "OrdinalProbit",
    "Parameter",
    "ParameterDerivatives",
    "Poisson",
    "PredictiveMoments",
    "Probit",
    "Softmax",
    "StudentT",
    "TiltedMoments",
    "Volatility",
]

#: Likelihoods of two classes by their names in the estimators.
BERNOULLI_LIKELIHOODS: dict[str, type[Likelihood]] = {"probit": Probit, "logit": Logit}
