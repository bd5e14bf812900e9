"""Markov transitions on (theta, f); each says what it leaves invariant."""

from .base import ChainState, StepInfo, Transition, at_rest
from .conjugate_variance import ConjugateVariance
from .crank_nicolson import CrankNicolson
from .elliptical_slice import EllipticalSlice
from .hamiltonian import (
    CheapDensity,
    CheapPoint,
    IndependenceMetropolis,
    Leapfrog,
    TMixture,
    leapfrog,
)
from .hyper_update import HyperUpdate
from .joint_update import JointUpdate
from .langevin import Langevin
from .latent_update import CurvatureShape, LatentShape, LatentUpdate, MassShape, PriorShape
from .marginal import MarginalMetropolis, MarginalState, MarginalWalk
from .mixture import Mixture
from .operators import Operator, Outcome
from .pseudo_marginal import (
    ParticleRefresh,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
)
from .random_walk import RandomWalk
from .surrogate import GaussianRandomWalk, Proposal, SurrogateProposal
from .sweep import Sweep
from .trajectory import Trajectory
from .tunable import Tunable
from .univariate_slice import UnivariateSlice

__all__ = [
    "ChainState",
    "CheapDensity",
    "CheapPoint",
    "ConjugateVariance",
    "CrankNicolson",
    "CurvatureShape",
    "EllipticalSlice",
    "GaussianRandomWalk",
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
