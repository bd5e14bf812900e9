"""Markov transitions on (theta, f); each states what it leaves invariant.

This module exports the base classes for a transition of your own, and the transitions and operators
that samplers take as arguments.
"""

from .base import BatchedTransition, StepInfo, Transition, Tunable
from .compose import Mixture, Sweep
from .elliptical_slice import EllipticalSlice
from .gibbs import CrankNicolson, HyperUpdate, LatentUpdate
from .hmc import Trajectory
from .langevin import Langevin
from .metropolis import (
    MetropolisHastings,
    Proposal,
    RandomWalk,
    metropolis_accepts,
    rejection_info,
)
from .operator import Operator, Outcome
from .riemannian import RiemannianTrajectory
from .slice import UnivariateSlice

__all__ = [
    "BatchedTransition",
    "CrankNicolson",
    "EllipticalSlice",
    "HyperUpdate",
    "Langevin",
    "LatentUpdate",
    "MetropolisHastings",
    "Mixture",
    "Operator",
    "Outcome",
    "Proposal",
    "RandomWalk",
    "RiemannianTrajectory",
    "StepInfo",
    "Sweep",
    "Trajectory",
    "Transition",
    "Tunable",
    "UnivariateSlice",
    "metropolis_accepts",
    "rejection_info",
]
