"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient."""

from .base import (
    Approximation,
    ApproximationFit,
    GaussianApproximation,
    Reference,
    Sites,
)
from .ep import EP
from .interpolated import InterpolatedSites
from .laplace import Laplace

__all__ = [
    "APPROXIMATIONS",
    "EP",
    "Approximation",
    "ApproximationFit",
    "GaussianApproximation",
    "InterpolatedSites",
    "Laplace",
    "Reference",
    "Sites",
]

#: The approximations that have a name in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}
