"""Parameterizations: the coordinates that move, and the variables that are held fixed."""

from ..numerics.dynamics import DenseRoot, FactorRoot, IdentityRoot, Root
from .ancillary import AncillaryAugmentation
from .base import ConditionalDensity, HyperConditional, HyperPoint, Parameterization, Point
from .geometry import Geometry
from .latent import LatentConditional, LatentFactors, LatentPoint
from .sufficient import SufficientAugmentation
from .surrogate_data import SurrogateData

__all__ = [
    "AncillaryAugmentation",
    "ConditionalDensity",
    "DenseRoot",
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
    "SufficientAugmentation",
    "SurrogateData",
]
