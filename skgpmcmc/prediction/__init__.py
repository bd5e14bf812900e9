"""Averages over the posterior draws."""

from .averages import (
    Particles,
    Predictor,
    parts_of,
    spread_subset,
)

__all__ = [
    "Particles",
    "Predictor",
    "parts_of",
    "spread_subset",
]
