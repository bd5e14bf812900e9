"""Fully Bayesian Gaussian-process models by MCMC, as scikit-learn estimators."""

from importlib import import_module
from types import ModuleType

from ._version import __version__
from .estimators.binomial import BayesianGPBinomialRegressor
from .estimators.classification import BayesianGPClassifier
from .estimators.counts import BayesianGPCountRegressor, BayesianGPPoissonRegressor
from .estimators.ordinal import BayesianGPOrdinalClassifier
from .estimators.regression import BayesianGPRegressor
from .estimators.volatility import BayesianGPVolatilityRegressor

__all__ = [
    "BayesianGPBinomialRegressor",
    "BayesianGPClassifier",
    "BayesianGPCountRegressor",
    "BayesianGPOrdinalClassifier",
    "BayesianGPPoissonRegressor",
    "BayesianGPRegressor",
    "BayesianGPVolatilityRegressor",
    "__version__",
]

#: Public modules. They are attributes of the package, and imported when they are used.
_MODULES = (
    "approximations",
    "baselines",
    "displays",
    "kernels",
    "likelihoods",
    "metrics",
    "model_selection",
    "samplers",
    "testing",
)


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
