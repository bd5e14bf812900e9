"""Compound transitions: a random choice of moves, a directed pair, and a sweep over moves."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from .base import BatchedTransition, ChainState, S, StepInfo, Transition, Tunable
from .metropolis import MetropolisHastings


@dataclass(frozen=True)
class SweepInfo(StepInfo):
    """Information on all moves of a sweep for diagnostics.

    Attributes
    ----------
    moves : tuple of StepInfo
        Information on each move, in their order.
    """

    moves: tuple[StepInfo, ...] = ()

    @property
    def steps(self) -> tuple[StepInfo, ...]:
        """Information on each move, in their order."""
        return self.moves


@dataclass(frozen=True, eq=False)
class Mixture(BatchedTransition[S]):
    """A mixture of moves: every step makes one move, chosen with fixed probabilities.

    **Invariant:** leaves any distribution unchanged that all its moves leave unchanged, because the
    choice of the move does not depend on the state.

    Attributes
    ----------
    moves : sequence of Transition
        Moves on the same states; the first move starts chains.
    probabilities : sequence of float
        Probability of each move, with sum 1.
    last : Transition or None
        Transition that follows the chosen move in every step.
    """

    moves: Sequence[Transition[S]]
    probabilities: Sequence[float]
    last: Transition[S] | None = None
    name = "mixture"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of the first move at theta; `particles` are arguments of its `start`."""
        return self.moves[0].start(model, theta, rng, **particles)

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Make one of the moves in each chain, and then `last`."""
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


class DirectedState(ChainState, Protocol):
    """What `DirectedPair` needs of a state, besides what its moves need; named tuples have it."""

    @property
    def direction(self) -> int:
        """1 or -1, or 0 in a state that has none yet."""

    def _replace(self, *, direction: int) -> Self: ...


D = TypeVar("D", bound=DirectedState)


@dataclass(frozen=True, eq=False)
class DirectedPair(BatchedTransition[D]):
    """A pair of opposite moves: a chain keeps its direction until a rejection reverses it.

    **Invariant:** leaves the target of its moves unchanged, times the uniform distribution of the
    direction. The proposals ahead and back are opposite: the density of theta' given theta of one
    is that of theta given theta' of the other. Hence the probability of leaving a state by a
    rejection equals that of arriving there with the other direction. After another move a state has
    no direction (0), and gets a random one.

    Attributes
    ----------
    ahead, back : MetropolisHastings
        Equal moves except for their proposals, which are opposite.

    References
    ----------
    Gustafson (1998), *A guided walk Metropolis algorithm*.
    """

    ahead: MetropolisHastings[D]
    back: MetropolisHastings[D]

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of its moves in diagnostics."""
        return self.ahead.name

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> D | None:
        """Return a state at theta; `particles` are arguments of the moves' `start`."""
        return self.ahead.start(model, theta, rng, **particles)

    def step_many(
        self, model: LatentGP, states: Sequence[D], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[D, StepInfo]]:
        """Move in the direction of each state; a rejection reverses the direction."""
        directions = [
            state.direction or (1 if rng.uniform() < 0.5 else -1)
            for state, rng in zip(states, rngs, strict=True)
        ]
        chosen = [0 if direction > 0 else 1 for direction in directions]
        made = _step_chosen((self.ahead, self.back), chosen, model, states, rngs)
        return [
            (state._replace(direction=direction if info.accepted else -direction), info)
            for (state, info), direction in zip(made, directions, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Sweep(BatchedTransition[S]):
    """A sweep: every step makes all moves in their order, with repetitions.

    **Invariant:** leaves any distribution unchanged that all its moves leave unchanged.

    Attributes
    ----------
    moves : sequence of Transition
        Moves on the same states; the first move starts chains.
    repeats : sequence of int
        Number of times that each move is made in a step.
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
        """Return the mean tuning probability of each move over its repetitions in one step."""
        ends = np.cumsum([0, *self.repeats])
        probabilities = [step.tuning_probability for step in info.steps]
        return [float(np.mean(probabilities[a:b])) for a, b in pairwise(ends)]

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of the first move at theta; `particles` are arguments of its `start`."""
        return self.moves[0].start(model, theta, rng, **particles)

    def step_many(
        self, model: LatentGP, states: Sequence[S], rngs: Sequence[np.random.Generator]
    ) -> list[tuple[S, StepInfo]]:
        """Make all moves in each chain."""
        infos: list[list[StepInfo]] = [[] for _ in states]
        costs = [0.0] * len(states)
        for move, repeat in zip(self.moves, self.repeats, strict=True):
            for _ in range(repeat):
                made = move.step_many(model, states, rngs)
                states = [state for state, _ in made]
                for chain, (state, info) in enumerate(made):
                    infos[chain].append(info)
                    # At fixed theta an evaluation of p(y | f) costs O(n), not O(n^2) or O(n^3).
                    costs[chain] += info.n_evaluations / (1 if move.moves_theta else len(state.f))
        wholes = [
            SweepInfo(
                self.name,
                any(info.accepted for info in own),
                float(np.mean([info.acceptance_probability for info in own])),
                cost,
                any(info.failed for info in own),
                tuple(own),
            )
            for own, cost in zip(infos, costs, strict=True)
        ]
        return list(zip(states, wholes, strict=True))


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
