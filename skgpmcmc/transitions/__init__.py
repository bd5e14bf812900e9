"""Markov transitions on (theta, f); each says what it leaves invariant."""

from .base import (
    ChainState,
    Mixture,
    Proposal,
    StepInfo,
    Sweep,
    Transition,
    Tunable,
    at_rest,
)
from .conjugate_variance import ConjugateVariance
from .crank_nicolson import CrankNicolson
from .elliptical_slice import EllipticalSlice
from .joint_update import JointUpdate
from .langevin import Langevin
from .marginal import MarginalMetropolis, MarginalState, MarginalWalk
from .operators import Operator, Outcome, RandomWalk
from .pseudo_marginal import (
    ParticleRefresh,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
)
from .surrogate import (
    CheapDensity,
    CheapPoint,
    IndependenceMetropolis,
    Leapfrog,
    SurrogateProposal,
    TMixture,
    leapfrog,
)
from .trajectory import Trajectory
from .univariate_slice import UnivariateSlice
from .updates import (
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
    "ConjugateVariance",
    "CrankNicolson",
    "CurvatureShape",
    "EllipticalSlice",
    "HyperUpdate",
    "IndependenceMetropolis",
    "JointUpdate",
    "Langevin",
    "LatentShape",
    "LatentUpdate",
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
    "StepInfo",
    "SurrogateProposal",
    "Sweep",
    "TMixture",
    "Trajectory",
    "Transition",
    "Tunable",
    "UnivariateSlice",
    "at_rest",
    "leapfrog",
]
