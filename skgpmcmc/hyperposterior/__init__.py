"""The posterior of theta, f integrated out: with gradient, its modes, and cheap versions of it."""

from .cheap import CheapApproximation, CheapPosterior, evidence_cost
from .modes import find_mode
from .posterior import HyperPosterior

__all__ = [
    "CheapApproximation",
    "CheapPosterior",
    "HyperPosterior",
    "evidence_cost",
    "find_mode",
]
