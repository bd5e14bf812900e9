"""Importance densities of f, and the unbiased estimate of p(y | theta)."""

from .density import Density, ReferenceDensity
from .estimate import ImportanceEstimate, importance_estimate, log_importance_weights

__all__ = [
    "Density",
    "ImportanceEstimate",
    "ReferenceDensity",
    "importance_estimate",
    "log_importance_weights",
]
