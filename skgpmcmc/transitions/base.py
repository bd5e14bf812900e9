"""The contract of a transition: one move of a Markov chain with a known invariant distribution."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, Self, TypeVar, final

import numpy as np

from .._typing import FloatArray
from ..model.joint import GPState, LatentGP
from ..numerics.linalg import NotPositiveDefiniteError


class ChainState(Protocol):
    """The part of a chain's state that is recorded; states are immutable."""

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""

    @property
    def f(self) -> FloatArray:
        """Latent values at the training inputs; (n,)."""


S = TypeVar("S", bound=ChainState)


def drop_factors(model: LatentGP, state: S) -> S:
    """Return a copy of a state of the model without factors and other matrices.

    The matrices are computed again when the chain moves on. An object keeps what it pickles, so
    that a chain continues in the same way whether or not its state was sent to another process.
    """
    shared = (model, model.covariance, model.likelihood, model.hyperprior, model.observations)
    return copy.deepcopy(state, {id(part): part for part in shared})


@dataclass(frozen=True)
class StepInfo:
    """Information on a step for diagnostics.

    Attributes
    ----------
    move : str
        Name of the transition that moved.
    accepted : bool
        Whether the proposal was accepted.
    acceptance_probability : float
        ``min(1, ratio)``; 0 if the proposal failed.
    n_evaluations : float
        Evaluations of a (marginal) likelihood; m / n for m fresh particles at the same theta.
    failed : bool
        Whether the proposal could not be evaluated, for example because a factorization failed.
    """

    move: str
    accepted: bool
    acceptance_probability: float
    n_evaluations: float = 1.0
    failed: bool = False

    @property
    def steps(self) -> tuple[StepInfo, ...]:
        """The steps of a compound step in their order; by default the step itself."""
        return (self,)

    @property
    def tuning_probability(self) -> float:
        """Acceptance probability whose mean warm-up tunes to the target acceptance rate."""
        return self.acceptance_probability


class Transition(ABC, Generic[S]):
    """A Markov kernel on states of type S; objects are frozen and hold settings only.

    Attributes
    ----------
    name : str
        Name in diagnostics.
    moves_theta : bool
        Whether the transition may change theta, which costs a factorization of K.
    """

    name: str
    moves_theta: ClassVar[bool] = True

    @abstractmethod
    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> S | None:
        """Return a state at theta, or None if the density there is not finite and positive."""

    @abstractmethod
    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Make one move; `state` itself is never changed."""

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Make one move of each of several independent chains.

        Every chain moves as `step` moves it, to the last bit. By default one chain moves after the
        other; a `BatchedTransition` shares work between the chains.
        """
        pairs = zip(states, rngs, strict=True)
        return [self.step(model, state, rng) for state, rng in pairs]


class BatchedTransition(Transition[S]):
    """A transition that moves several chains together faster than one after the other.

    A subclass overrides `step_many`, which `step` calls with one chain.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in vars(cls):
            raise TypeError(
                f"{cls.__name__} overrides step, which a BatchedTransition does not call for "
                "several chains: override step_many."
            )

    @abstractmethod
    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Make one move of each of several independent chains."""

    @final
    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Make one move; `state` itself is never changed."""
        return self.step_many(model, [state], [rng])[0]


class Tunable(Transition[S]):
    """A transition whose steps have a scale, and perhaps a shape, that warm-up may tune.

    Attributes
    ----------
    log_scale : float
        Natural log of the scale.
    target_acceptance : float or None
        Acceptance rate to which the scale is tuned; None for a move that needs no tuning.
    """

    log_scale: float
    target_acceptance: float | None

    @abstractmethod
    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same transition with another scale."""

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return it with steps of theta shaped by a covariance (p, p); by default unchanged."""
        return self


class PriorStart(Transition[GPState]):
    """A transition on (theta, f) whose chains start with f from the prior given theta."""

    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> GPState | None:
        """Return the state at theta with f from the prior; None without a finite density."""
        if not np.isfinite(model.hyperprior.log_prob(theta)):
            return None
        try:
            prior = model.prior_at(theta)
            state = model.state_in(prior, prior.sample(rng))
        except NotPositiveDefiniteError:
            return None
        return state if np.isfinite(state.log_lik) else None
