"""Markov transitions on (theta, f); each says what it leaves invariant."""

from .base import ChainState, Sites, StepInfo, Transition
from .elliptical_slice import EllipticalSlice
from .marginal import MarginalMetropolis, MarginalState
from .proposals import GaussianRandomWalk, Proposal
from .pseudo_marginal import PseudoMarginalMetropolis, PseudoMarginalState

__all__ = [
    "ChainState",
    "EllipticalSlice",
    "GaussianRandomWalk",
    "MarginalMetropolis",
    "MarginalState",
    "Proposal",
    "PseudoMarginalMetropolis",
    "PseudoMarginalState",
    "Sites",
    "StepInfo",
    "Transition",
]
