"""Averages over the posterior draws."""

from .draws import WeightedDraws
from .predictor import Predictor
from .strategy import ImportanceLatent, Integrated, LatentStrategy, OwnLatent
from .subset import density_arrays_at, enough_draws, for_draws, spread_subset, typical_values

__all__ = [
    "ImportanceLatent",
    "Integrated",
    "LatentStrategy",
    "OwnLatent",
    "Predictor",
    "WeightedDraws",
    "density_arrays_at",
    "enough_draws",
    "for_draws",
    "spread_subset",
    "typical_values",
]
