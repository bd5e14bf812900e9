"""The scikit-learn skin: validation, chains, fitted attributes; no mathematics."""

from .classification import BayesianGPClassifier
from .counts import BayesianGPPoissonRegressor
from .ordinal import BayesianGPOrdinalClassifier
from .regression import BayesianGPRegressor
from .volatility import BayesianGPVolatilityRegressor

__all__ = [
    "BayesianGPClassifier",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
]
