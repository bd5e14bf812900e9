"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient."""

from .base import (
    Approximation,
    ApproximationFit,
    GaussianApproximation,
    LatentDraws,
    Shape,
    Sites,
)
from .classwise import ClasswiseApproximation, averaged
from .ep import EP
from .exact import Exact
from .importance import (
    Density,
    DrawCount,
    ImportanceEstimate,
    ReferenceDensity,
    SkewedApproximation,
    density_from,
    importance_estimate,
    log_importance_weights,
)
from .interpolated import InterpolatedSites
from .laplace import Laplace
from .modes import Evaluation, Mode, evaluate, find_mode

__all__ = [
    "APPROXIMATIONS",
    "EP",
    "Approximation",
    "ApproximationFit",
    "ClasswiseApproximation",
    "Density",
    "DrawCount",
    "Evaluation",
    "Exact",
    "GaussianApproximation",
    "ImportanceEstimate",
    "InterpolatedSites",
    "Laplace",
    "LatentDraws",
    "Mode",
    "ReferenceDensity",
    "Shape",
    "Sites",
    "SkewedApproximation",
    "averaged",
    "density_from",
    "evaluate",
    "find_mode",
    "importance_estimate",
    "log_importance_weights",
]

#: The approximations that have a name in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}
