"""Fully Bayesian Gaussian-process models by MCMC, as scikit-learn estimators."""

from ._version import __version__
from .estimators import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)

__all__ = [
    "BayesianGPClassifier",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
    "__version__",
]
