"""Markov transitions on (theta, f); each says what it leaves invariant."""

from .base import (
    ChainState,
    Evaluating,
    Mixture,
    Proposal,
    StepInfo,
    Sweep,
    Transition,
    Tunable,
    at_rest,
)
from .joint_update import JointUpdate
from .mapping import CheapUpdate, DiscretizingMap, Layer, TemperedTransitions
from .marginal import MarginalMetropolis, MarginalState, MarginalWalk
from .operators import (
    Langevin,
    Operator,
    Outcome,
    RandomWalk,
    Trajectory,
    UnivariateSlice,
    leapfrog,
)
from .pseudo_marginal import (
    EllipticalSlice,
    ParticleRefresh,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
)
from .riemannian import GeneralizedLeapfrog, RiemannianTrajectory
from .surrogate import (
    CheapDensity,
    CheapPoint,
    IndependenceMetropolis,
    Leapfrog,
    SurrogateProposal,
    TMixture,
)
from .updates import (
    ConjugateVariance,
    CrankNicolson,
    CurvatureShape,
    HyperUpdate,
    LatentShape,
    LatentUpdate,
    MassShape,
    PriorShape,
)

__all__ = [
    "ChainState",
    "CheapDensity",
    "CheapPoint",
    "CheapUpdate",
    "ConjugateVariance",
    "CrankNicolson",
    "CurvatureShape",
    "DiscretizingMap",
    "EllipticalSlice",
    "Evaluating",
    "GeneralizedLeapfrog",
    "HyperUpdate",
    "IndependenceMetropolis",
    "JointUpdate",
    "Langevin",
    "LatentShape",
    "LatentUpdate",
    "Layer",
    "Leapfrog",
    "MarginalMetropolis",
    "MarginalState",
    "MarginalWalk",
    "MassShape",
    "Mixture",
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
    "StepInfo",
    "SurrogateProposal",
    "Sweep",
    "TMixture",
    "TemperedTransitions",
    "Trajectory",
    "Transition",
    "Tunable",
    "UnivariateSlice",
    "at_rest",
    "leapfrog",
]
