"""The contract of a transition: one move of a Markov chain with a known invariant distribution."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from .._typing import FloatArray
from ..model import GPState, LatentGP
from ..numerics.linalg import NotPositiveDefiniteError


class ChainState(Protocol):
    """What is recorded of any chain; states are immutable."""

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""

    @property
    def f(self) -> FloatArray:
        """Latent values at the training inputs; (n,)."""


C = TypeVar("C", bound=ChainState)


def at_rest(model: LatentGP, state: C) -> C:
    """Return a copy of a state of the model without factors and other matrices.

    They are made again when the chain moves on. What an object keeps is what it pickles, so that a
    chain is continued alike wherever its state has been meanwhile.
    """
    shared = (model, model.covariance, model.likelihood, model.hyperprior, model.observations)
    return copy.deepcopy(state, {id(part): part for part in shared})


class StepInfo(NamedTuple):
    """What only a diagnostic wants to know of a step."""

    move: str  # the name of the transition that moved
    accepted: bool
    acceptance_probability: float  # min(1, ratio); 0 where the proposal failed
    n_evaluations: float  # of a (marginal) likelihood; m / n for m fresh particles alone
    failed: bool  # the proposal was rejected because its factorization failed
    parts: tuple[StepInfo, ...] = ()  # of a step that consists of several, in their order
    tuning: float | None = None  # what warm-up tunes instead of the acceptance probability

    @property
    def tuning_probability(self) -> float:
        """What warm-up brings to the target acceptance rate."""
        return self.acceptance_probability if self.tuning is None else self.tuning


S = TypeVar("S", bound=ChainState)


class Transition(ABC, Generic[S]):
    """A Markov kernel on states of type S; objects are frozen and hold settings only.

    Attributes
    ----------
    name : str
        What diagnostics call it.
    moves_theta : bool
        Whether it may change theta, which costs a factorization of K.
    """

    name: str
    moves_theta: ClassVar[bool] = True

    @abstractmethod
    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> S | None:
        """Return a state at theta, or None if the density there is not finite and positive."""

    @abstractmethod
    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Make one move; `state` itself is never changed."""


def metropolis_accepts(log_ratio: float, rng: np.random.Generator) -> tuple[bool, float]:
    """Accept with probability min(1, exp(log_ratio)), NaN counting as a rejection.

    Returns the decision and the probability.
    """
    log_uniform = np.log1p(-rng.uniform())  # uniform() can be 0 but not 1
    if np.isnan(log_ratio):
        return False, 0.0
    return bool(log_uniform < log_ratio), float(np.exp(min(log_ratio, 0.0)))


def rejected_proposal(move: str, model: LatentGP, theta: FloatArray) -> StepInfo:
    """Report a proposal that has no state: outside the prior's support, or a failed evaluation."""
    failed = bool(np.isfinite(model.hyperprior.log_prob(theta)))
    return StepInfo(move, False, 0.0, float(failed), failed)


def start_from_prior(
    model: LatentGP, theta: FloatArray, rng: np.random.Generator
) -> GPState | None:
    """Return the state at theta with f from the prior; None without a finite density."""
    if not np.isfinite(model.hyperprior.log_prob(theta)):
        return None
    try:
        prior = model.prior_at(theta)
        state = model.state_in(prior, prior.sample(rng))
    except NotPositiveDefiniteError:
        return None
    return state if np.isfinite(state.log_lik) else None
