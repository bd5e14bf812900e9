"""Fully Bayesian Gaussian-process models by MCMC, as scikit-learn estimators."""

from .estimators import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)

__version__ = "0.1.0"

__all__ = [
    "BayesianGPClassifier",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
    "__version__",
]
