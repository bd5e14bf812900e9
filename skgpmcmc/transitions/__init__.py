"""Markov transitions on (theta, f); each says what it leaves invariant."""

from .base import (
    BatchedTransition,
    ChainState,
    StepInfo,
    Transition,
    Tunable,
    at_rest,
)
from .compose import Directed, Mixture, Sweep
from .elliptical_slice import EllipticalSlice
from .gibbs import (
    ConjugateVariance,
    CrankNicolson,
    CurvatureShape,
    HyperUpdate,
    LatentShape,
    LatentUpdate,
    MassShape,
    PriorShape,
)
from .hmc import HamiltonianOperator, MarginalTrajectory, Trajectory, TrajectoryState
from .joint_update import JointUpdate
from .langevin import Langevin
from .mapping import CheapUpdate, DiscretizingMap, Layer, TemperedTransitions
from .metropolis import (
    MarginalMetropolis,
    MarginalState,
    MarginalWalk,
    MetropolisHastings,
    Multiples,
    Proposal,
    RandomWalk,
    metropolis_accepts,
)
from .operator import Operator, Outcome
from .particles import ParticleRefresh, RetainedParticle
from .pseudo_marginal import DrawCount, PseudoMarginalMetropolis, PseudoMarginalState
from .riemannian import GeneralizedLeapfrog, RiemannianTrajectory
from .rotation import MOST_ROTATED, GridDensity, Rotation
from .slice import UnivariateSlice
from .surrogate import (
    CheapDensity,
    CheapPoint,
    IndependenceMetropolis,
    SurrogateProposal,
    TMixture,
    independence_acceptance,
    root_of,
    run_pool,
)

__all__ = [
    "MOST_ROTATED",
    "BatchedTransition",
    "ChainState",
    "CheapDensity",
    "CheapPoint",
    "CheapUpdate",
    "ConjugateVariance",
    "CrankNicolson",
    "CurvatureShape",
    "Directed",
    "DiscretizingMap",
    "DrawCount",
    "EllipticalSlice",
    "GeneralizedLeapfrog",
    "GridDensity",
    "HamiltonianOperator",
    "HyperUpdate",
    "IndependenceMetropolis",
    "JointUpdate",
    "Langevin",
    "LatentShape",
    "LatentUpdate",
    "Layer",
    "MarginalMetropolis",
    "MarginalState",
    "MarginalTrajectory",
    "MarginalWalk",
    "MassShape",
    "MetropolisHastings",
    "Mixture",
    "Multiples",
    "Operator",
    "Outcome",
    "ParticleRefresh",
    "PriorShape",
    "Proposal",
    "PseudoMarginalMetropolis",
    "PseudoMarginalState",
    "RandomWalk",
    "RetainedParticle",
    "RiemannianTrajectory",
    "Rotation",
    "StepInfo",
    "SurrogateProposal",
    "Sweep",
    "TMixture",
    "TemperedTransitions",
    "Trajectory",
    "TrajectoryState",
    "Transition",
    "Tunable",
    "UnivariateSlice",
    "at_rest",
    "independence_acceptance",
    "metropolis_accepts",
    "root_of",
    "run_pool",
]
