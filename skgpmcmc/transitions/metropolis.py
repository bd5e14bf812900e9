"""Metropolis-Hastings on theta: accept-reject step, proposals, approximate marginal targets.

`PseudoMarginalMetropolis`, whose target is an unbiased estimate, is in a file of its own.
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

#: Factors of a period, with their inverses: a step and the step back are equally likely.
PERIOD_FACTORS = (1.0 / 3.0, 0.5, 2.0, 3.0)


class EvaluatedState(NamedTuple, Generic[S]):
    """A state with the evaluated or estimated target at its theta."""

    state: S  # may lack f, which `complete` adds
    log_target: float  # log density of theta, up to a constant of the transition
    source: Any = None  # the approximation from which `complete` draws f


class MarginalState(NamedTuple):
    """State of a chain on theta, with a draw of f given theta."""

    theta: FloatArray  # (p,), natural logs
    log_target: float  # log q(y | theta) + log p(theta)
    f: FloatArray  # (n,), draw from q(f | y, theta), or its mean; empty during warm-up
    direction: int = 0  # see `DirectedPair`


def rejection_info(move: str, model: LatentGP, theta: FloatArray) -> StepInfo:
    """Return the information on a proposal outside the prior's support, or that has failed."""
    failed = bool(np.isfinite(model.hyperprior.log_prob(theta)))
    return StepInfo(move, False, 0.0, float(failed), failed)


def metropolis_accepts(log_ratio: float, rng: np.random.Generator) -> tuple[bool, float]:
    """Accept with probability min(1, exp(log_ratio)); NaN is a rejection.

    Returns the decision and the probability.
    """
    log_uniform = np.log1p(-rng.uniform())  # uniform() can be 0 but not 1
    if np.isnan(log_ratio):
        return False, 0.0
    return bool(log_uniform < log_ratio), float(np.exp(min(log_ratio, 0.0)))


class Proposal(Protocol):
    """A distribution of theta' given theta, with its Hastings ratio."""

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
        return replace(self, root=root)


@dataclass(frozen=True, eq=False)
class PeriodMultiples:
    """Proposal of a multiple or fraction of a period, with a length-scale divided by the factor.

    The covariance ``exp(-2 sin^2(pi d / period) / length_scale^2)`` of near inputs hardly changes,
    so that theta' may explain the data about as well as theta.

    As a proposal of theta it is symmetric, and shifts of a log preserve volume: its log Hastings
    ratio is zero.

    Attributes
    ----------
    places : sequence of tuple
        Positions in theta of each period, and of the length-scale of its kernel (None if fixed).
    """

    places: Sequence[tuple[int, int | None]]

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and 0."""
        place = self.places[int(rng.integers(len(self.places)))]
        return multiply_period(theta, place, PERIOD_FACTORS[rng.integers(len(PERIOD_FACTORS))]), 0.0


def multiply_period(theta: FloatArray, place: tuple[int, int | None], factor: float) -> FloatArray:
    """Return theta (p,) with the period at `place` multiplied, and its length-scale divided."""
    period, length = place
    moved = theta.copy()
    moved[period] += np.log(factor)
    if length is not None:
        moved[length] -= np.log(factor)
    return moved


class MetropolisHastings(BatchedTransition[S]):
    """Base class of Metropolis-Hastings on theta, with an evaluated or an estimated target.

    Attributes
    ----------
    proposal : Proposal
        Proposal of theta.
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
        """Evaluate the target for several chains; by default, for one after the other."""
        pairs = zip(thetas, rngs, strict=True)
        return [self.evaluate(model, theta, rng) for theta, rng in pairs]

    @abstractmethod
    def log_target(self, state: S) -> float:
        """Return the log target that was evaluated, or estimated, when the state was accepted."""

    @abstractmethod
    def complete(self, found: EvaluatedState[S], rng: np.random.Generator) -> S | None:
        """Return the accepted state with f drawn; None if a factorization for f fails."""

    def stay(self, state: S, rng: np.random.Generator) -> S:
        """Return the state after a rejection; by default unchanged."""
        return state

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Propose theta', evaluate the target there, and accept or reject.

        A proposal that returns theta itself is not evaluated: staying leaves any target invariant.
        """
        pairs = zip(states, rngs, strict=True)
        proposed = [self.proposal.propose(state.theta, rng) for state, rng in pairs]
        leaving = [i for i, (theta, _) in enumerate(proposed) if theta is not states[i].theta]
        found = self.evaluate_many(
            model, [proposed[i][0] for i in leaving], [rngs[i] for i in leaving]
        )
        evaluated = dict(zip(leaving, found, strict=True))
        made = []
        steps = enumerate(zip(states, proposed, rngs, strict=True))
        for i, (state, (theta, log_hastings), rng) in steps:
            there = evaluated.get(i)
            moved = None
            if i not in evaluated:
                info = StepInfo(self.name, False, 0.0, 0.0)
            elif there is None:
                info = rejection_info(self.name, model, theta)
            else:
                log_ratio = there.log_target - self.log_target(state) + log_hastings
                info = StepInfo(self.name, *metropolis_accepts(log_ratio, rng))
                if info.accepted:
                    moved = self.complete(there, rng)
                    if moved is None:
                        info = rejection_info(self.name, model, theta)
            made.append((self.stay(state, rng) if moved is None else moved, info))
        return made


@dataclass(frozen=True, eq=False)
class MarginalMetropolis(MetropolisHastings[MarginalState]):
    """Metropolis-Hastings on theta with an approximate evidence, and f from its Gaussian.

    **Invariant:** leaves the density proportional to q(y | theta) p(theta) q(f | y, theta)
    unchanged: the approximate posterior, *not* the posterior, unless the approximation is exact.

    Attributes
    ----------
    approximation : Approximation
    proposal : Proposal
    with_latent : bool
        Whether f is drawn for every accepted theta. Warm-up does not, which saves a factorization.
    with_mean : bool
        Whether the state has the mean of f instead, which needs no factorization.
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
        """Add f to the state; None if K is singular, which the evidence may not reveal.

        The target excludes such a theta always, so that rejecting it is exact.
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

    **Invariant:** leaves the target of `MarginalMetropolis` unchanged.
    """

    proposal: RandomWalk

    @property
    def operator(self) -> RandomWalk:  # type: ignore[override]
        """The random walk."""
        return self.proposal

    def _with_operator(self, operator: Any) -> Self:
        return replace(self, proposal=operator)
