"""Averages over the posterior draws."""

from .densities import find_density_arrays
from .draws import WeightedDraws
from .predictor import Predictor
from .strategy import ImportanceLatent, Integrated, LatentStrategy, OwnLatent
from .subset import (
    adapt_to_draws,
    choose_spread_subset,
    count_enough_draws,
    typical_values,
)

__all__ = [
    "ImportanceLatent",
    "Integrated",
    "LatentStrategy",
    "OwnLatent",
    "Predictor",
    "WeightedDraws",
    "adapt_to_draws",
    "choose_spread_subset",
    "count_enough_draws",
    "find_density_arrays",
    "typical_values",
]
