"""Markov transitions on (theta, f); each says what it leaves invariant."""

from .base import ChainState, StepInfo, Transition
from .elliptical_slice import EllipticalSlice
from .hamiltonian import CheapDensity, CheapPoint, Jump, Leapfrog, TMixture
from .marginal import MarginalMetropolis, MarginalState
from .mixture import Mixture
from .proposals import GaussianRandomWalk, Proposal
from .pseudo_marginal import (
    ParticleRefresh,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
)
from .surrogate import SurrogateProposal

__all__ = [
    "ChainState",
    "CheapDensity",
    "CheapPoint",
    "EllipticalSlice",
    "GaussianRandomWalk",
    "Jump",
    "Leapfrog",
    "MarginalMetropolis",
    "MarginalState",
    "Mixture",
    "ParticleRefresh",
    "Proposal",
    "PseudoMarginalMetropolis",
    "PseudoMarginalState",
    "RetainedParticle",
    "StepInfo",
    "SurrogateProposal",
    "TMixture",
    "Transition",
]
