"""Metropolis-Hastings on theta: the accept-reject step, its proposals, and its target.

The target may be the marginal posterior by an approximate evidence, which is here, or an unbiased
estimate (`PseudoMarginalMetropolis`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, Self

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation
from ..model.joint import LatentGP
from ..numerics.dynamics import IDENTITY, Root
from ..numerics.linalg import NotPositiveDefiniteError
from ..parameterizations.base import ConditionalDensity, Point
from .base import BatchedTransition, S, StepInfo
from .operator import Operator, OperatorUpdate, Outcome


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


class Proposal(Protocol):
    """A distribution of theta' given theta, with the Hastings ratio that it asks for."""

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi(theta | theta') - log pi(theta' | theta)``."""


@dataclass(frozen=True)
class RandomWalk(Operator):
    """x' = x + scale B z with z ~ N(0, I).

    As a proposal of theta it is symmetric: its log Hastings ratio is zero.

    **Invariant:** leaves the conditional distribution unchanged, for any root B that does not
    depend on x. In whitened coordinates of f with B = I it is the move "MH v1".

    Attributes
    ----------
    log_scale : float
    target_acceptance : float or None, default=0.25
    root : Root
        B.

    References
    ----------
    Filippone, Zhong & Girolami (2013), section 3.1 and (11); Neal (1999).
    """

    log_scale: float = 0.0
    target_acceptance: float | None = 0.25
    root: Root = IDENTITY
    name = "random walk"

    def propose(self, x: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return x' and 0."""
        step = self.root.apply(rng.standard_normal(len(x)))
        return x + np.exp(self.log_scale) * step, 0.0

    def move(
        self, conditional: ConditionalDensity, point: Point, rng: np.random.Generator
    ) -> Outcome:
        """Propose a step, and accept or reject it."""
        position, _ = self.propose(point.position, rng)
        candidate = conditional.at(position)
        if candidate is None:
            return Outcome.rejected(point, 1, position)
        log_ratio = candidate.log_density - point.log_density
        accepted, probability = metropolis_accepts(log_ratio, rng)
        return Outcome(candidate if accepted else point, accepted, probability, 1)

    def typical_log_scale(self, dim: int) -> float:
        """Return log(2.38 / sqrt(dim)) (Gelman, Roberts & Gilks, 1996)."""
        return float(np.log(2.38 / np.sqrt(max(dim, 1))))

    def with_root(self, root: Root) -> Self:
        """Return the same random walk with steps of another shape."""
        return self._with(root=root)


#: Factors of a period. Each is there with its inverse: a step is as likely as the step back.
PERIOD_FACTORS = (1.0 / 3.0, 0.5, 2.0, 3.0)


@dataclass(frozen=True, eq=False)
class PeriodMultiples:
    """theta' with a multiple or a fraction of a period, and a length-scale divided by as much.

    The covariance ``exp(-2 sin^2(pi d / period) / length_scale^2)`` of near inputs stays what it
    was, so that theta' may explain the data about as well.

    **Invariant:** as a proposal of theta it is symmetric, and shifts of a log keep volumes: its log
    Hastings ratio is zero.

    Attributes
    ----------
    places : sequence of tuple
        Where theta has each period, and the length-scale of its kernel, or None if that is fixed.
    """

    places: Sequence[tuple[int, int | None]]

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and 0."""
        place = self.places[int(rng.integers(len(self.places)))]
        return multiply_period(theta, place, PERIOD_FACTORS[rng.integers(len(PERIOD_FACTORS))]), 0.0


def multiply_period(theta: FloatArray, place: tuple[int, int | None], factor: float) -> FloatArray:
    """Return theta (p,) with the period at a place multiplied, and its length-scale divided."""
    period, length = place
    moved = theta.copy()
    moved[period] += np.log(factor)
    if length is not None:
        moved[length] -= np.log(factor)
    return moved


class EvaluatedState(NamedTuple, Generic[S]):
    """A state at which the target of theta was evaluated, or estimated."""

    state: S
    log_target: float  # of theta, up to the constant of the transition
    source: Any = None  # what the state is completed from


class MetropolisHastings(BatchedTransition[S]):
    """Metropolis-Hastings on theta with a target that is known only where it is evaluated.

    Attributes
    ----------
    proposal : Proposal
    """

    proposal: Proposal

    @abstractmethod
    def evaluate(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> EvaluatedState[S] | None:
        """Evaluate the target at theta, or make a fresh estimate; None without a density."""

    def evaluate_many(
        self,
        model: LatentGP,
        thetas: Sequence[FloatArray],
        rngs: Sequence[np.random.Generator],
    ) -> list[EvaluatedState[S] | None]:
        """Evaluate the target for several chains; here, for one after the other."""
        pairs = zip(thetas, rngs, strict=True)
        return [self.evaluate(model, theta, rng) for theta, rng in pairs]

    @abstractmethod
    def log_target(self, state: S) -> float:
        """Return what the target was evaluated to when the chain came to the state."""

    @abstractmethod
    def complete(self, found: EvaluatedState[S], rng: np.random.Generator) -> S | None:
        """Return the state to move to, f drawn; None where only now it shows to be impossible."""

    def stay(self, state: S, rng: np.random.Generator) -> S:
        """Return the state after a rejection; here, as it is."""
        return state

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Propose theta', evaluate the target there, accept or reject.

        A proposal that has stayed at theta needs no evaluation: staying leaves any target as it is.
        """
        pairs = zip(states, rngs, strict=True)
        proposed = [self.proposal.propose(state.theta, rng) for state, rng in pairs]
        leaving = [i for i, (theta, _) in enumerate(proposed) if theta is not states[i].theta]
        found = self.evaluate_many(
            model, [proposed[i][0] for i in leaving], [rngs[i] for i in leaving]
        )
        evaluated = dict(zip(leaving, found, strict=True))
        return [
            self._decide(model, state, *proposed[i], evaluated[i], rngs[i])
            if i in evaluated
            else (self.stay(state, rngs[i]), StepInfo(self.name, False, 0.0, 0.0))
            for i, state in enumerate(states)
        ]

    def _decide(
        self,
        model: LatentGP,
        state: S,
        theta: FloatArray,
        log_hastings: float,
        found: EvaluatedState[S] | None,
        rng: np.random.Generator,
    ) -> tuple[S, StepInfo]:
        """Accept or reject theta', at which the target was evaluated."""
        if found is None:
            return self.stay(state, rng), rejected_proposal(self.name, model, theta)
        log_ratio = found.log_target - self.log_target(state) + log_hastings
        accepted, probability = metropolis_accepts(log_ratio, rng)
        if not accepted:
            return self.stay(state, rng), StepInfo(self.name, False, probability)
        moved = self.complete(found, rng)
        if moved is None:
            return self.stay(state, rng), rejected_proposal(self.name, model, theta)
        return moved, StepInfo(self.name, True, probability)


class MarginalState(NamedTuple):
    """A point of the chain on theta, with a draw of f given theta."""

    theta: FloatArray  # (p,), natural logs
    log_target: float  # log q(y | theta) + log p(theta)
    f: FloatArray  # (n,), a draw from q(f | y, theta), or its mean; empty where neither is wanted
    direction: int = 0  # see `DirectedPair`


@dataclass(frozen=True, eq=False)
class MarginalMetropolis(MetropolisHastings[MarginalState]):
    """Metropolis-Hastings on theta with an approximate evidence; f from its Gaussian.

    **Invariant:** leaves the density proportional to q(y | theta) p(theta) q(f | y, theta)
    unchanged: the approximate posterior, *not* the posterior, unless the approximation is exact.

    Attributes
    ----------
    approximation : Approximation
    proposal : Proposal
    with_latent : bool
        Draw f for every accepted theta. Warm-up does not, which saves a factorization.
    with_mean : bool
        Record the mean of f instead, which needs no factorization.
    name : str
        Name of the move in diagnostics.

    References
    ----------
    Filippone & Girolami (2014), section 5.2 ("MCMC EP") and the adaptive phase of section 4.4.
    """

    approximation: Approximation
    proposal: Proposal
    with_latent: bool = True
    with_mean: bool = False
    name: str = "random walk on the approximate marginal"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> MarginalState | None:
        """Return the state at theta with f from q."""
        found = self.evaluate(model, theta, rng)
        return None if found is None else self.complete(found, rng)

    def evaluate(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> EvaluatedState[MarginalState] | None:
        """Return theta with its approximate evidence."""
        log_hyperprior = model.hyperprior.log_prob(theta)
        if not np.isfinite(log_hyperprior):
            return None
        try:
            q, log_evidence, _, _ = self.approximation.fit(model, theta)
        except NotPositiveDefiniteError:
            return None
        log_target = log_evidence + log_hyperprior
        if not np.isfinite(log_target):
            return None
        return EvaluatedState(MarginalState(theta, log_target, np.empty(0)), log_target, q)

    def log_target(self, state: MarginalState) -> float:
        """Log of the approximate posterior of theta, up to a constant."""
        return state.log_target

    def complete(
        self, found: EvaluatedState[MarginalState], rng: np.random.Generator
    ) -> MarginalState | None:
        """Add f to the state; None if K is singular, which the evidence alone does not notice.

        Such a theta never belongs to the target, so that rejecting it is exact.
        """
        if self.with_mean:
            return found.state._replace(f=found.source.mean)
        if not self.with_latent:
            return found.state
        try:
            return found.state._replace(f=found.source.sample(rng, 1).f[:, 0])
        except NotPositiveDefiniteError:
            return None


@dataclass(frozen=True, eq=False)
class MarginalWalk(MarginalMetropolis, OperatorUpdate[MarginalState]):
    """`MarginalMetropolis` with a random walk, whose scale and shape warm-up tunes.

    **Invariant:** that of `MarginalMetropolis`.
    """

    proposal: RandomWalk

    @property
    def operator(self) -> RandomWalk:  # type: ignore[override]
        """The random walk."""
        return self.proposal

    def _with_operator(self, operator: Any) -> Self:
        return replace(self, proposal=operator)
