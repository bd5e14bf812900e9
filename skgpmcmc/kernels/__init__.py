"""Covariance functions beside those of scikit-learn, and the rank of their matrices."""

from .categorical import Categorical
from .effective_rank import effective_rank
from .linear import Linear
from .on import On
from .tanimoto import Tanimoto

__all__ = ["Categorical", "Linear", "On", "Tanimoto", "effective_rank"]
