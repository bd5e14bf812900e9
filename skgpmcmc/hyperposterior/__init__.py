"""The posterior of theta with f integrated out: its gradient, its modes, cheap posteriors."""

from .cheap import CheapPosterior, evidence_cost
from .modes import find_mode
from .posterior import HyperPosterior

__all__ = [
    "CheapPosterior",
    "HyperPosterior",
    "evidence_cost",
    "find_mode",
]
