"""Averages over the posterior draws."""

from .predictor import Predictor
from .strategy import FactorCache, ImportanceLatent, Integrated, LatentStrategy, OwnLatent
from .subset import density_arrays_at, enough_draws, for_draws, spread_subset, typical_values

__all__ = [
    "FactorCache",
    "ImportanceLatent",
    "Integrated",
    "LatentStrategy",
    "OwnLatent",
    "Predictor",
    "density_arrays_at",
    "enough_draws",
    "for_draws",
    "spread_subset",
    "typical_values",
]
