"""Averages over the posterior draws."""

from .predictor import Predictor
from .strategy import Integrated, Kept, LatentStrategy, OwnLatent, Particles
from .subset import density_arrays_at, enough_draws, for_draws, spread_subset, typical_values

__all__ = [
    "Integrated",
    "Kept",
    "LatentStrategy",
    "OwnLatent",
    "Particles",
    "Predictor",
    "density_arrays_at",
    "enough_draws",
    "for_draws",
    "spread_subset",
    "typical_values",
]
