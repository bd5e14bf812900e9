"""The contract of a transition, one move of a Markov chain with a known invariant distribution.

`Mixture` and `Sweep` put transitions together: one of several at random, or one after the other.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar, final

import numpy as np

from .._typing import FloatArray
from ..model import GPState, LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..numerics.threads import Asking, alone


class ChainState(Protocol):
    """What is recorded of any chain; states are immutable."""

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""

    @property
    def f(self) -> FloatArray:
        """Latent values at the training inputs; (n,)."""


S = TypeVar("S", bound=ChainState)


def at_rest(model: LatentGP, state: S) -> S:
    """Return a copy of a state of the model without factors and other matrices.

    They are made again when the chain moves on. What an object keeps is what it pickles, so that a
    chain is continued alike wherever its state has been meanwhile.
    """
    shared = (model, model.covariance, model.likelihood, model.hyperprior, model.observations)
    return copy.deepcopy(state, {id(part): part for part in shared})


#: A bracket shrinks by about a third each time: 200 shrinks reach the resolution of doubles.
_MAX_SHRINKS = 200


class StepInfo(NamedTuple):
    """What only a diagnostic wants to know of a step."""

    move: str  # the name of the transition that moved
    accepted: bool
    acceptance_probability: float  # min(1, ratio); 0 where the proposal failed
    n_evaluations: float = 1.0  # of a (marginal) likelihood; m / n for m fresh particles alone
    failed: bool = False  # the proposal could not be made: a factorization failed, or the like
    steps: tuple[StepInfo, ...] = ()  # of a step that consists of several, in their order
    tuning: float | None = None  # what warm-up tunes instead of the acceptance probability
    marked: FloatArray | None = None  # (r, p), where a mark was that is a draw of theta each time

    @property
    def tuning_probability(self) -> float:
        """What warm-up brings to the target acceptance rate."""
        return self.acceptance_probability if self.tuning is None else self.tuning


#: A move that is being made.
Moving: TypeAlias = Asking[tuple[S, StepInfo]]


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

    @property
    def n_marked(self) -> int:
        """Draws of theta that each step reports besides where it ends, see `StepInfo.marked`."""
        return 0

    @abstractmethod
    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> S | None:
        """Return a state at theta, or None if the density there is not finite and positive."""

    @abstractmethod
    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Make one move; `state` itself is never changed."""

    def moving(self, model: LatentGP, state: S, rng: np.random.Generator) -> Moving[S]:
        """Make the same move in step with other chains; here, nothing of it is done for all."""
        yield from ()
        return self.step(model, state, rng)


class InStep(Transition[S]):
    """A transition of which much can be done for several chains at once.

    Its move is `moving`, which is what to override: chains in step do not call `step`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "step" in vars(cls):
            raise TypeError(f"{cls.__name__} goes in step with others: override moving, not step.")

    @abstractmethod
    def moving(self, model: LatentGP, state: S, rng: np.random.Generator) -> Moving[S]:
        """Make one move, in step with other chains."""

    @final
    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Make one move; `state` itself is never changed."""
        return alone(self.moving(model, state, rng))


class Tunable(Transition[S]):
    """A transition with a scale, and perhaps with a shape, of its steps, which warm-up may tune.

    Attributes
    ----------
    log_scale : float
        Log of the scale.
    target_acceptance : float or None
        Acceptance rate to which the scale is tuned; None for a move that needs no tuning.
    """

    log_scale: float
    target_acceptance: float | None

    @abstractmethod
    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same transition with another scale."""

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return it with steps of theta in the shape of a covariance (p, p); here, as it is."""
        return self


class FromPrior(Transition[GPState]):
    """A transition on (theta, f) whose chains begin with f from its prior."""

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


class Proposal(Protocol):
    """A distribution of theta' given theta, with the Hastings ratio that it asks for."""

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi(theta | theta') - log pi(theta' | theta)``."""


class Evaluated(NamedTuple, Generic[S]):
    """A state at which the target of theta was evaluated, or estimated."""

    state: S
    log_target: float  # of theta, up to the constant of the transition
    source: Any = None  # what the state is completed from


class Evaluating(InStep[S]):
    """Metropolis-Hastings on theta with a target that is known only where it is evaluated.

    Attributes
    ----------
    proposal : Proposal
    """

    proposal: Proposal

    @abstractmethod
    def evaluated(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> Evaluated[S] | None:
        """Evaluate the target at theta, or make a fresh estimate; None without a density."""

    def evaluating(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> Asking[Evaluated[S] | None]:
        """Return `evaluated` in step with other chains; here, nothing of it is done for all."""
        yield from ()
        return self.evaluated(model, theta, rng)

    @abstractmethod
    def log_target(self, state: S) -> float:
        """Return what the target was evaluated to when the chain came to the state."""

    @abstractmethod
    def completed(self, found: Evaluated[S], rng: np.random.Generator) -> S | None:
        """Return the state to move to, f drawn; None where only now it shows to be impossible."""

    def stayed(self, state: S, rng: np.random.Generator) -> S:
        """Return the state after a rejection; here, as it is."""
        return state

    def moving(self, model: LatentGP, state: S, rng: np.random.Generator) -> Moving[S]:
        """Propose theta', evaluate the target there, accept or reject.

        A proposal that has stayed at theta needs no evaluation: staying leaves any target as it is.
        """
        theta, log_hastings = self.proposal.propose(state.theta, rng)
        if theta is state.theta:
            return self.stayed(state, rng), StepInfo(self.name, False, 0.0, 0.0)
        found = yield from self.evaluating(model, theta, rng)
        if found is None:
            return self.stayed(state, rng), rejected_proposal(self.name, model, theta)
        log_ratio = found.log_target - self.log_target(state) + log_hastings
        accepted, probability = metropolis_accepts(log_ratio, rng)
        if not accepted:
            return self.stayed(state, rng), StepInfo(self.name, False, probability)
        moved = self.completed(found, rng)
        if moved is None:
            return self.stayed(state, rng), rejected_proposal(self.name, model, theta)
        return moved, StepInfo(self.name, True, probability)


def metropolis_accepts(log_ratio: float, rng: np.random.Generator) -> tuple[bool, float]:
    """Accept with probability min(1, exp(log_ratio)), NaN counting as a rejection.

    Returns the decision and the probability.
    """
    log_uniform = np.log1p(-rng.uniform())  # uniform() can be 0 but not 1
    if np.isnan(log_ratio):
        return False, 0.0
    return bool(log_uniform < log_ratio), float(np.exp(min(log_ratio, 0.0)))


def shrinking(low: float, high: float, rng: np.random.Generator) -> Iterator[float]:
    """Try points of a bracket around 0, uniform, and shrink it to those that are turned down.

    The caller stops at the first one inside the slice, which 0 is. That none is found happens only
    where rounding decides: staying at 0 is then the exact move.

    Yields
    ------
    float
        The next point.

    References
    ----------
    Neal (2003), *Slice sampling*, figure 5.
    """
    for _ in range(_MAX_SHRINKS):
        shift = rng.uniform(low, high)
        yield shift
        low, high = (shift, high) if shift < 0.0 else (low, shift)


def rejected_proposal(move: str, model: LatentGP, theta: FloatArray) -> StepInfo:
    """Report a proposal that has no state: outside the prior's support, or a failed evaluation."""
    failed = bool(np.isfinite(model.hyperprior.log_prob(theta)))
    return StepInfo(move, False, 0.0, float(failed), failed)


@dataclass(frozen=True, eq=False)
class Mixture(InStep[S]):
    """At every step one of the moves is made, chosen with fixed probabilities, and then the last.

    **Invariant:** what all its moves leave unchanged, as no choice looks at the state.

    Attributes
    ----------
    moves : sequence of Transition
        All on the same states; the first one starts chains.
    probabilities : sequence of float
        One per move, with sum 1.
    last : Transition or None
        Made after the move, whichever it was.
    """

    moves: Sequence[Transition[S]]
    probabilities: Sequence[float]
    last: Transition[S] | None = None
    name = "mixture"

    @property
    def n_marked(self) -> int:
        """That of the first move; where another is made, theta is marked as often."""
        return self.moves[0].n_marked

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of the first move at theta; `particles` is what that one understands."""
        return self.moves[0].start(model, theta, rng, **particles)

    def moving(self, model: LatentGP, state: S, rng: np.random.Generator) -> Moving[S]:
        """Make one of the moves, and the last."""
        edges = list(accumulate(self.probabilities))
        index = bisect(edges, rng.uniform() * edges[-1])
        move = self.moves[min(index, len(self.moves) - 1)]
        state, info = yield from move.moving(model, state, rng)
        if self.last is None:
            return state, info
        state, more = yield from self.last.moving(model, state, rng)
        return state, info._replace(n_evaluations=info.n_evaluations + more.n_evaluations)


@dataclass(frozen=True, eq=False)
class Directed(InStep[S]):
    """A chain that keeps its direction while it is accepted, and turns around where it is not.

    **Invariant:** the target of its moves, with either direction equally likely whatever the state.
    Ahead and back propose in opposite ways, from theta to theta' as from theta' to theta: what
    leaves a state by a rejection is what arrives there in the other direction. Where another move
    has led, a state has no direction yet (0), and is given one at random.

    Attributes
    ----------
    ahead, back : Evaluating
        The same but for their proposals, of which one undoes the other.

    References
    ----------
    Gustafson (1998), *A guided walk Metropolis algorithm*.
    """

    ahead: Evaluating[S]
    back: Evaluating[S]

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of its moves."""
        return self.ahead.name

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state at theta; `particles` is what the moves understand."""
        return self.ahead.start(model, theta, rng, **particles)

    def moving(self, model: LatentGP, state: S, rng: np.random.Generator) -> Moving[S]:
        """Go on, or turn around."""
        direction = state.direction or (1 if rng.uniform() < 0.5 else -1)  # type: ignore[attr-defined]
        move = self.ahead if direction > 0 else self.back
        moved, info = yield from move.moving(model, state, rng)
        direction = direction if info.accepted else -direction
        return moved._replace(direction=direction), info  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False)
class Sweep(InStep[S]):
    """At every step all moves are made in their order, each as often as it is repeated.

    **Invariant:** what all its moves leave unchanged.

    Attributes
    ----------
    moves : sequence of Transition
        All on the same states; the first one starts chains.
    repeats : sequence of int
        How often each is made.
    """

    moves: Sequence[Transition[S]]
    repeats: Sequence[int]
    name = "sweep"

    @property
    def tuned(self) -> list[tuple[int, float, float]]:
        """Position, log scale and target acceptance rate of every move that can be tuned."""
        return [
            (position, move.log_scale, move.target_acceptance)
            for position, move in enumerate(self.moves)
            if isinstance(move, Tunable) and move.target_acceptance is not None
        ]

    def with_log_scales(self, log_scales: Sequence[float]) -> Sweep[S]:
        """Return the sweep with other scales of the moves that can be tuned, in their order."""
        moves: list[Any] = list(self.moves)
        for (position, _, _), log_scale in zip(self.tuned, log_scales, strict=True):
            moves[position] = moves[position].with_log_scale(float(log_scale))
        return Sweep(tuple(moves), self.repeats)

    def with_covariance(self, covariance: FloatArray) -> Sweep[S]:
        """Return the sweep with steps of theta in the shape of a covariance (p, p)."""
        moves = (
            move.with_covariance(covariance) if isinstance(move, Tunable) else move
            for move in self.moves
        )
        return Sweep(tuple(moves), self.repeats)

    def mean_probabilities(self, info: StepInfo) -> list[float]:
        """Return the mean of what is tuned of each move, in one step."""
        ends = np.cumsum([0, *self.repeats])
        probabilities = [step.tuning_probability for step in info.steps]
        return [float(np.mean(probabilities[a:b])) for a, b in pairwise(ends)]

    @property
    def n_marked(self) -> int:
        """As many as all its moves have together."""
        return sum(n * move.n_marked for move, n in zip(self.moves, self.repeats, strict=True))

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of the first move at theta; `particles` is what that one understands."""
        return self.moves[0].start(model, theta, rng, **particles)

    def moving(self, model: LatentGP, state: S, rng: np.random.Generator) -> Moving[S]:
        """Make all moves."""
        infos: list[StepInfo] = []
        cost = 0.0
        for move, repeat in zip(self.moves, self.repeats, strict=True):
            for _ in range(repeat):
                state, info = yield from move.moving(model, state, rng)
                infos.append(info)
                # An evaluation of p(y | f) alone is O(n) where another is O(n^3) or O(n^2).
                cost += info.n_evaluations / (1 if move.moves_theta else len(state.f))
        marked = [info.marked for info in infos if info.marked is not None]
        whole = StepInfo(
            self.name,
            any(info.accepted for info in infos),
            float(np.mean([info.acceptance_probability for info in infos])),
            cost,
            any(info.failed for info in infos),
            tuple(infos),
            marked=np.concatenate(marked) if marked else None,
        )
        return state, whole
