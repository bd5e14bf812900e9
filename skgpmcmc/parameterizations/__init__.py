"""Parameterizations: the coordinates that move, and the variables that are held fixed."""

from ..numerics.dynamics import DenseRoot, DensityPoint, FactorRoot, IdentityRoot, Root
from .ancillary import Ancillary
from .base import ConditionalDensity, HyperConditional, HyperPoint, Parameterization, Point
from .geometry import Geometry
from .latent import LatentConditional, LatentFactors, LatentPoint
from .sufficient import Sufficient
from .surrogate_data import SurrogateData

__all__ = [
    "Ancillary",
    "ConditionalDensity",
    "DenseRoot",
    "DensityPoint",
    "FactorRoot",
    "Geometry",
    "HyperConditional",
    "HyperPoint",
    "IdentityRoot",
    "LatentConditional",
    "LatentFactors",
    "LatentPoint",
    "Parameterization",
    "Point",
    "Root",
    "Sufficient",
    "SurrogateData",
]
