"""Gaussian approximations of p(f | y, theta), with the log evidence and its gradient."""

from .base import (
    Approximation,
    ApproximationFit,
    Evaluation,
    GaussianApproximation,
    LatentDraws,
    Sites,
)
from .cheap import (
    CheapApproximation,
    CheapPosterior,
    EigenExact,
    Nystrom,
    SubsetOfData,
    evidence_cost,
)
from .classwise import ClasswiseApproximation, averaged
from .ep import EP
from .exact import Exact
from .hyperposterior import HyperPosterior, PosteriorPoint, mean_of
from .importance import (
    Density,
    ImportanceEstimate,
    ReferenceDensity,
    importance_estimate,
    log_importance_weights,
)
from .interpolated import InterpolatedSites, Quadratic, density_from
from .laplace import Laplace
from .modes import Mode, climb, find_mode
from .sequential import SequentialApproximation, rows_in_turn

__all__ = [
    "APPROXIMATIONS",
    "CHEAP",
    "EP",
    "Approximation",
    "ApproximationFit",
    "CheapApproximation",
    "CheapPosterior",
    "ClasswiseApproximation",
    "Density",
    "EigenExact",
    "Evaluation",
    "Exact",
    "GaussianApproximation",
    "HyperPosterior",
    "ImportanceEstimate",
    "InterpolatedSites",
    "Laplace",
    "LatentDraws",
    "Mode",
    "Nystrom",
    "PosteriorPoint",
    "Quadratic",
    "ReferenceDensity",
    "SequentialApproximation",
    "Sites",
    "SubsetOfData",
    "averaged",
    "climb",
    "density_from",
    "evidence_cost",
    "find_mode",
    "importance_estimate",
    "log_importance_weights",
    "mean_of",
    "rows_in_turn",
]

#: The approximations that have a name in the estimators.
APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}

#: The cheap posteriors of theta that have a name in the estimators.
CHEAP: dict[str, type[CheapApproximation]] = {
    "sod": SubsetOfData,
    "nystrom": Nystrom,
    "eigen": EigenExact,
}
