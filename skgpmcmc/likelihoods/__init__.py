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
from .binomial import BetaBinomial, Binomial, RepeatedTrials
from .censored import CensoredGaussian
from .counts import NegativeBinomial, Poisson
from .gaussian import Gaussian, Volatility
from .ordinal import OrdinalProbit
from .psychometric import PsychometricProbit
from .softmax import Softmax
from .student_t import StudentT
from .zero_inflated import ZeroInflatedNegativeBinomial, ZeroInflatedPoisson

__all__ = [
    "BERNOULLI_LIKELIHOODS",
    "Bend",
    "BetaBinomial",
    "Binomial",
    "Ceiling",
    "CensoredGaussian",
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
    "PsychometricProbit",
    "RepeatedTrials",
    "Softmax",
    "StudentT",
    "TiltedMoments",
    "Volatility",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
]

#: Likelihoods of two classes by their names in the estimators.
BERNOULLI_LIKELIHOODS: dict[str, type[Likelihood]] = {"probit": Probit, "logit": Logit}
