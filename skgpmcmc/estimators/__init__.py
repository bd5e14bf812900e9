"""The scikit-learn skin: validation, chains, fitted attributes; no mathematics."""

from .binomial import BayesianGPBinomialRegressor
from .classification import BayesianGPClassifier
from .counts import BayesianGPCountRegressor, BayesianGPPoissonRegressor
from .ordinal import BayesianGPOrdinalClassifier
from .regression import BayesianGPRegressor
from .volatility import BayesianGPVolatilityRegressor

__all__ = [
    "BayesianGPBinomialRegressor",
    "BayesianGPClassifier",
    "BayesianGPCountRegressor",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
]
