"""Averages over the posterior draws."""

from .predictor import Predictor
from .strategy import (
    Integrated,
    Kept,
    LatentStrategy,
    OwnLatent,
    Particles,
    density_arrays_at,
    spread_subset,
)

__all__ = [
    "Integrated",
    "Kept",
    "LatentStrategy",
    "OwnLatent",
    "Particles",
    "Predictor",
    "density_arrays_at",
    "spread_subset",
]
