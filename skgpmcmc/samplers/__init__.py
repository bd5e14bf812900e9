"""Named combinations of transitions: the only place that knows recipes.

A sampler is configuration (scikit-learn can clone it and search over its fields); from it, an
approximation and a model it makes the set-up that prepares the chains.
"""

from .base import Sampler
from .in_turn import (
    Ancillary,
    Augmented,
    Interweaving,
    InTurn,
    KnorrHeldRue,
    Sufficient,
    Surrogate,
)
from .integrated import Collapsed, Marginal, PseudoMarginal

__all__ = [
    "IN_TURN",
    "SAMPLERS",
    "Ancillary",
    "Augmented",
    "Collapsed",
    "InTurn",
    "Interweaving",
    "KnorrHeldRue",
    "Marginal",
    "PseudoMarginal",
    "Sampler",
    "Sufficient",
    "Surrogate",
]

#: The samplers that have a name in the estimators.
SAMPLERS: dict[str, type[Sampler]] = {
    "pm": PseudoMarginal,
    "marginal": Marginal,
    "collapsed": Collapsed,
    "sa": Sufficient,
    "aa": Ancillary,
    "asis": Interweaving,
    "surr": Surrogate,
    "khr": KnorrHeldRue,
}

#: Those in which f and theta move in turn, which any likelihood allows.
IN_TURN = ("sa", "aa", "asis", "surr", "khr")
