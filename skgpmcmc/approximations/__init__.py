"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient."""

from .base import (
    Approximation,
    ApproximationFit,
    Density,
    Draws,
    GaussianApproximation,
    Reference,
    Sites,
)
from .classwise import ClasswiseApproximation, averaged
from .ep import EP
from .exact import Exact
from .interpolated import InterpolatedSites
from .laplace import Laplace
from .skewed import Shape, SkewedApproximation, density_from

__all__ = [
    "APPROXIMATIONS",
    "EP",
    "Approximation",
    "ApproximationFit",
    "ClasswiseApproximation",
    "Density",
    "Draws",
    "Exact",
    "GaussianApproximation",
    "InterpolatedSites",
    "Laplace",
    "Reference",
    "Shape",
    "Sites",
    "SkewedApproximation",
    "averaged",
    "density_from",
]

#: The approximations that have a name in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}
