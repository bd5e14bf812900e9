"""Coordinates in which a part of (theta, f) moves, and what stays still meanwhile."""

from ..numerics.roots import DenseRoot, FactorRoot, IdentityRoot, MassRoot, Root
from .ancillary import Ancillary
from .base import Conditional, DensityPoint, HyperConditional, HyperPoint, Parameterization, Point
from .latent import LatentConditional, LatentPoint
from .sufficient import Sufficient
from .surrogate_data import SurrogateData

__all__ = [
    "Ancillary",
    "Conditional",
    "DenseRoot",
    "DensityPoint",
    "FactorRoot",
    "HyperConditional",
    "HyperPoint",
    "IdentityRoot",
    "LatentConditional",
    "LatentPoint",
    "MassRoot",
    "Parameterization",
    "Point",
    "Root",
    "Sufficient",
    "SurrogateData",
]
