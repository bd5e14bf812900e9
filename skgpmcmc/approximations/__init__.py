"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient.

The cheap posteriors of theta, by which the samplers "discretizing" and "tempered" move, can also be
imported from here.
"""

from typing import Any

from .base import Approximation, ApproximationFit, GaussianApproximation, Sites
from .ep import EP
from .exact import Exact
from .laplace import Laplace

__all__ = [
    "APPROXIMATIONS",
    "EP",
    "Approximation",
    "ApproximationFit",
    "CheapApproximation",
    "EigenExact",
    "Exact",
    "GaussianApproximation",
    "Laplace",
    "Nystrom",
    "Sites",
    "SubsetOfData",
]

#: Approximations by their names in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}

#: Names of the cheap posteriors, which are imported on demand.
_CHEAP_POSTERIORS = ("CheapApproximation", "EigenExact", "Nystrom", "SubsetOfData")


def __getattr__(name: str) -> Any:
    """Import a cheap posterior on demand, as its module imports this one."""
    if name not in _CHEAP_POSTERIORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..hyperposterior import cheap

    return getattr(cheap, name)


def __dir__() -> list[str]:
    return __all__
