"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient."""

from .base import Approximation, ApproximationFit, GaussianApproximation
from .ep import EP
from .laplace import Laplace

__all__ = [
    "APPROXIMATIONS",
    "EP",
    "Approximation",
    "ApproximationFit",
    "GaussianApproximation",
    "Laplace",
]

#: The approximations that have a name in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}
