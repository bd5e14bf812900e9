"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient.

Cheap posteriors of theta, which the samplers "discretizing" and "tempered" move by, can be imported
from here too.
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

#: The approximations that have a name in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}

_CHEAP = ("CheapApproximation", "EigenExact", "Nystrom", "SubsetOfData")


def __getattr__(name: str) -> Any:
    """Return a cheap posterior, which is made of approximations and so imported on demand."""
    if name not in _CHEAP:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ..hyperposterior import cheap

    return getattr(cheap, name)


def __dir__() -> list[str]:
    return __all__
