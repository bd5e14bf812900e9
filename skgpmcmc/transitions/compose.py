"""Transitions made of others: one of several at random, a directed pair, or one after another."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from .base import BatchedTransition, S, StepInfo, Transition, Tunable
from .metropolis import MetropolisHastings


@dataclass(frozen=True, eq=False)
class Mixture(BatchedTransition[S]):
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

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of the first move at theta; `particles` is what that one understands."""
        return self.moves[0].start(model, theta, rng, **particles)

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Make one of the moves, and the last."""
        edges = list(accumulate(self.probabilities))
        chosen = [bisect(edges, rng.uniform() * edges[-1]) for rng in rngs]
        moves = [min(index, len(self.moves) - 1) for index in chosen]
        made = _step_chosen(self.moves, moves, model, states, rngs)
        if self.last is None:
            return made
        followed = self.last.step_many(model, [state for state, _ in made], rngs)
        return [
            (state, replace(info, n_evaluations=info.n_evaluations + more.n_evaluations))
            for (_, info), (state, more) in zip(made, followed, strict=True)
        ]


def _step_chosen(
    moves: Sequence[Transition[S]],
    chosen: Sequence[int],
    model: LatentGP,
    states: Sequence[S],
    rngs: Sequence[np.random.Generator],
) -> list[tuple[S, StepInfo]]:
    """Make the chosen move of each chain; chains with the same move step together."""
    made: dict[int, tuple[S, StepInfo]] = {}
    for index in sorted(set(chosen)):
        chains = [chain for chain, own in enumerate(chosen) if own == index]
        own_states = [states[chain] for chain in chains]
        own_rngs = [rngs[chain] for chain in chains]
        stepped = moves[index].step_many(model, own_states, own_rngs)
        made.update(zip(chains, stepped, strict=True))
    return [made[chain] for chain in range(len(chosen))]


@dataclass(frozen=True, eq=False)
class DirectedPair(BatchedTransition[S]):
    """A chain that keeps its direction while it is accepted, and turns around where it is not.

    **Invariant:** the target of its moves, with either direction equally likely whatever the state.
    Ahead and back propose in opposite ways, from theta to theta' as from theta' to theta: what
    leaves a state by a rejection is what arrives there in the other direction. Where another move
    has led, a state has no direction yet (0), and is given one at random.

    Attributes
    ----------
    ahead, back : MetropolisHastings
        The same but for their proposals, of which one undoes the other.

    References
    ----------
    Gustafson (1998), *A guided walk Metropolis algorithm*.
    """

    ahead: MetropolisHastings[S]
    back: MetropolisHastings[S]

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of its moves."""
        return self.ahead.name

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state at theta; `particles` is what the moves understand."""
        return self.ahead.start(model, theta, rng, **particles)

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Go on, or turn around."""
        directions = [
            state.direction or (1 if rng.uniform() < 0.5 else -1)  # type: ignore[attr-defined]
            for state, rng in zip(states, rngs, strict=True)
        ]
        chosen = [0 if direction > 0 else 1 for direction in directions]
        made = _step_chosen((self.ahead, self.back), chosen, model, states, rngs)
        return [
            (state._replace(direction=direction if info.accepted else -direction), info)  # type: ignore[attr-defined]
            for (state, info), direction in zip(made, directions, strict=True)
        ]


@dataclass(frozen=True)
class SweepInfo(StepInfo):
    """What a diagnostic wants to know of all moves of a sweep.

    Attributes
    ----------
    moves : tuple of StepInfo
        One for each move, in their order.
    """

    moves: tuple[StepInfo, ...] = ()

    @property
    def steps(self) -> tuple[StepInfo, ...]:
        """All moves."""
        return self.moves


@dataclass(frozen=True, eq=False)
class Sweep(BatchedTransition[S]):
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
    def tunable_moves(self) -> list[tuple[int, float, float]]:
        """Position, log scale and target acceptance rate of every move that can be tuned."""
        return [
            (position, move.log_scale, move.target_acceptance)
            for position, move in enumerate(self.moves)
            if isinstance(move, Tunable) and move.target_acceptance is not None
        ]

    def with_log_scales(self, log_scales: Sequence[float]) -> Sweep[S]:
        """Return the sweep with other scales of the moves that can be tuned, in their order."""
        moves: list[Any] = list(self.moves)
        for (position, _, _), log_scale in zip(self.tunable_moves, log_scales, strict=True):
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

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of the first move at theta; `particles` is what that one understands."""
        return self.moves[0].start(model, theta, rng, **particles)

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Make all moves."""
        infos: list[list[StepInfo]] = [[] for _ in states]
        costs = [0.0] * len(states)
        for move, repeat in zip(self.moves, self.repeats, strict=True):
            for _ in range(repeat):
                made = move.step_many(model, states, rngs)
                states = [state for state, _ in made]
                for chain, (state, info) in enumerate(made):
                    infos[chain].append(info)
                    # An evaluation of p(y | f) alone is O(n) where another is O(n^3) or O(n^2).
                    costs[chain] += info.n_evaluations / (1 if move.moves_theta else len(state.f))
        together = zip(states, infos, costs, strict=True)
        return [(state, self._whole(own, cost)) for state, own, cost in together]

    def _whole(self, infos: Sequence[StepInfo], cost: float) -> SweepInfo:
        """Report all moves of a sweep as one step."""
        return SweepInfo(
            self.name,
            any(info.accepted for info in infos),
            float(np.mean([info.acceptance_probability for info in infos])),
            cost,
            any(info.failed for info in infos),
            tuple(infos),
        )
