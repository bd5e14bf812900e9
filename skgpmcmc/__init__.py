"""Fully Bayesian Gaussian-process models by MCMC, as scikit-learn estimators."""

from ._version import __version__
from .estimators.classification import BayesianGPClassifier
from .estimators.counts import BayesianGPPoissonRegressor
from .estimators.ordinal import BayesianGPOrdinalClassifier
from .estimators.regression import BayesianGPRegressor
from .estimators.volatility import BayesianGPVolatilityRegressor

__all__ = [
    "BayesianGPClassifier",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
    "__version__",
]
