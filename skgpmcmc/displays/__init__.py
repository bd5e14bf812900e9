"""Plots, as scikit-learn display classes.

matplotlib is imported when something is drawn, not before.
"""

from .abstention import AbstentionCurveDisplay
from .autocorrelation import AutocorrelationDisplay
from .prediction import PredictionDisplay
from .relevance import RelevanceDisplay
from .scale_reduction import PSRFDisplay
from .traces import TraceDisplay

__all__ = [
    "AbstentionCurveDisplay",
    "AutocorrelationDisplay",
    "PSRFDisplay",
    "PredictionDisplay",
    "RelevanceDisplay",
    "TraceDisplay",
]
