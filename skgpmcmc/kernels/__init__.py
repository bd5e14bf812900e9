"""Covariance functions beside those of scikit-learn."""

from .categorical import Categorical
from .linear import Linear
from .on import On
from .tanimoto import Tanimoto

__all__ = ["Categorical", "Linear", "On", "Tanimoto"]
