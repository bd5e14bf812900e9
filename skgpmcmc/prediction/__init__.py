"""Averages over the posterior draws."""

from .integrated import Integrated
from .own_latent import OwnLatent
from .particles import Particles
from .predictor import Predictor
from .strategy import LatentStrategy, parts_of, spread_subset

__all__ = [
    "Integrated",
    "LatentStrategy",
    "OwnLatent",
    "Particles",
    "Predictor",
    "parts_of",
    "spread_subset",
]
