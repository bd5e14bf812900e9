"""Moves of theta by temporary mapping: proposals from cheap posteriors, accepted by the exact one.

Both schemes leave the exact target unchanged, whatever the cheap posterior pi* is; with a poor pi*
more proposals are rejected. Another transition evaluates the exact target, or estimates it with
fresh particles.

References
----------
Wang & Neal (2013), *MCMC methods for Gaussian process models using fast approximations for the
likelihood*, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..hyperposterior.cheap import CheapPosterior
from ..model.joint import LatentGP
from ..numerics.dynamics import DensityPoint
from .base import S, StepInfo, Transition
from .compose import Mixture, Sweep
from .metropolis import EvaluatedState, MetropolisHastings, metropolis_accepts, rejection_info
from .operator import Operator, OperatorUpdate
from .slice import UnivariateSlice


@dataclass(frozen=True, eq=False)
class Layer:
    """A cheap posterior, and the operator that moves theta on it.

    Attributes
    ----------
    target : CheapPosterior
        pi*, one fixed function of theta.
    operator : Operator
        R, which leaves pi* unchanged.
    n_updates : int
        Number of updates by R on the way up, and by its reverse on the way down.
    """

    target: CheapPosterior
    operator: Operator
    n_updates: int = 1

    def by_coordinate(self, dim: int) -> list[Layer]:
        """Return layers that move one coordinate of theta each, if the operator allows it."""
        return [replace(self, operator=own) for own in self.operator.by_coordinate(dim)]


class CheapState(NamedTuple):
    """State of a chain on a cheap posterior of theta, without f."""

    theta: FloatArray  # (p,), natural logs
    f: FloatArray  # (0,), empty


@dataclass(frozen=True, eq=False)
class MappingInfo(StepInfo):
    """Information on a mapping for diagnostics, and the positions of the mark.

    Attributes
    ----------
    marked : ndarray of shape (r, p)
        theta after each move of the mark; all rows are draws of theta.
    """

    marked: FloatArray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(frozen=True, eq=False)
class TemperedProposal:
    """Proposal of theta by moves up and down through layers of ever cheaper posteriors.

    In every layer theta moves by its R on the way up, and by the reverse of R on the way down. The
    Hastings ratio consists of the densities of the layers at the points where theta passes from one
    layer to the next.

    Attributes
    ----------
    layers : sequence of Layer
        From the layer closest to the target to the cheapest one.

    References
    ----------
    Wang & Neal (2013), (15); Neal (1996), *Sampling from multimodal distributions using tempered
    transitions*.
    """

    layers: Sequence[Layer]

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and the log Hastings ratio, which is (15) without the values of the target.

        The ratio is minus infinity if theta reaches a point without density in some layer.
        """
        up = ((layer, layer.operator) for layer in self.layers)
        down = ((layer, layer.operator.reverse()) for layer in reversed(self.layers))
        log_hastings = 0.0
        for layer, operator in chain(up, down):
            point = layer.target.at(theta)
            if point is None:
                return theta, -np.inf
            log_hastings += point.log_density
            for _ in range(layer.n_updates):
                point = operator.move(layer.target, point, rng).point
            log_hastings -= point.log_density
            theta = point.position
        return theta, float(log_hastings)


@dataclass(frozen=True, eq=False)
class CheapUpdate(OperatorUpdate[CheapState]):
    """A move by R on pi* itself, which tunes R in warm-up.

    **Invariant:** leaves pi* unchanged. The state is theta alone.

    Attributes
    ----------
    target : CheapPosterior
    operator : Operator
    """

    target: CheapPosterior
    operator: Operator

    @property
    def name(self) -> str:  # type: ignore[override]
        """What diagnostics call it."""
        return f"{self.operator.name} on a cheap posterior"

    def with_covariance(self, covariance: FloatArray) -> CheapUpdate:
        """Return the update with steps in the shape of a covariance, or widths for slices."""
        if isinstance(self.operator, UnivariateSlice):
            return self._with_operator(self.operator.with_spreads_of(covariance))
        return super().with_covariance(covariance)

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> CheapState | None:
        """Return the state at theta."""
        return None if self.target.at(theta) is None else CheapState(theta, np.empty(0))

    def step(
        self, model: LatentGP, state: CheapState, rng: np.random.Generator
    ) -> tuple[CheapState, StepInfo]:
        """Move theta by R."""
        outcome = self.operator.move(self.target, self.target.at(state.theta), rng)
        info = self._info(outcome, failed=False)
        return CheapState(outcome.point.position, state.f), info


@dataclass(eq=False)
class _Realization:
    """A chain on pi* through one point: to the right by R, to the left by its reverse.

    The chain is extended on demand, always from its ends.
    """

    layer: Layer
    rng: np.random.Generator
    right: list[DensityPoint]  # the first point, and its successors by R
    left: list[DensityPoint] = field(default_factory=list)  # its predecessors, nearest first

    def at(self, position: int) -> DensityPoint:
        """Return the point `position` transitions after the first; before it if negative."""
        while len(self.right) <= position:
            self.right.append(self._repeat_operator(self.layer.operator, self.right[-1]))
        while len(self.left) < -position:
            nearest = self.left[-1] if self.left else self.right[0]
            self.left.append(self._repeat_operator(self.layer.operator.reverse(), nearest))
        return self.right[position] if position >= 0 else self.left[-position - 1]

    def _repeat_operator(self, operator: Operator, point: DensityPoint) -> DensityPoint:
        for _ in range(self.layer.n_updates):
            point = operator.move(self.layer.target, point, self.rng).point  # type: ignore[arg-type]
        return point


@dataclass(frozen=True, eq=False)
class DiscretizingMap(Transition[S]):
    """Mapping to a discretizing chain: moves of a mark along a temporary chain on pi*.

    In each step a chain on pi* is run through the present theta, in both directions. A mark starts
    at this point and moves along the chain; a move is accepted by the change of pi / pi*. Then the
    chain is discarded.

    **Invariant:** leaves the target of `exact` unchanged, whatever pi* is. If `exact` estimates its
    target, the space is that of (theta, particles): each point of the chain has one estimate, with
    fresh particles, and the first point keeps the estimate of the state.

    Attributes
    ----------
    exact : MetropolisHastings
        Transition that evaluates or estimates the target pi, and starts chains.
    layer : Layer
        pi* and R; a transition of the temporary chain consists of `n_updates` updates by R.
    n_moves : int
        Number r of moves of the mark in each step. The points after all moves have equal weights as
        draws of theta.
    jump : int
        Number s of transitions that a move of the mark covers, to the right or to the left.

    References
    ----------
    Wang & Neal (2013), section 3, (13); with r = 1, a reversible R and s = 2 k it is a
    `TemperedProposal` with one layer of k updates.
    """

    exact: MetropolisHastings[S]
    layer: Layer
    n_moves: int = 1
    jump: int = 1
    name: str = "mapping to a discretizing chain"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, **particles: Any
    ) -> S | None:
        """Return a state of `exact` at theta; `particles` are further arguments of its `start`.

        The result is None if the target or pi* has no density at theta.
        """
        if self.layer.target.at(theta) is None:
            return None
        return self.exact.start(model, theta, rng, **particles)

    def step(self, model: LatentGP, state: S, rng: np.random.Generator) -> tuple[S, StepInfo]:
        """Map theta to a chain, move the mark, and map back."""
        begin = self.layer.target.at(state.theta)
        if begin is None:
            return self._reject(model, state, state.theta, rng)
        realization = _Realization(self.layer, rng, [begin])
        evaluated: dict[int, EvaluatedState[S] | None] = {
            0: EvaluatedState(state, self.exact.log_target(state))
        }
        mark = 0
        probabilities = []
        marked = []
        for _ in range(self.n_moves):
            there = mark + (self.jump if rng.uniform() < 0.5 else -self.jump)
            log_ratio = self._ratio(model, realization, there, evaluated) - self._ratio(
                model, realization, mark, evaluated
            )
            accepted, probability = metropolis_accepts(log_ratio, rng)
            mark = there if accepted else mark
            probabilities.append(probability)
            marked.append(realization.at(mark).position)
        ended = evaluated[mark] if mark else None
        moved = self.exact.stay(state, rng) if ended is None else self.exact.complete(ended, rng)
        if moved is None:  # a later factorization has failed
            return self._reject(model, state, marked[-1], rng)
        rate = float(np.mean(probabilities))
        n_evaluations = float(len(evaluated) - 1)
        info = MappingInfo(self.name, mark != 0, rate, n_evaluations, marked=np.array(marked))
        return moved, info

    def _ratio(
        self,
        model: LatentGP,
        realization: _Realization,
        position: int,
        evaluated: dict[int, EvaluatedState[S] | None],
    ) -> float:
        """Log of pi / pi* at a point of the chain; pi is evaluated once per point."""
        point = realization.at(position)
        if position not in evaluated:
            evaluated[position] = self.exact.evaluate(model, point.position, realization.rng)
        found = evaluated[position]
        return -np.inf if found is None else float(found.log_target - point.log_density)

    def _reject(
        self, model: LatentGP, state: S, theta: FloatArray, rng: np.random.Generator
    ) -> tuple[S, StepInfo]:
        """Reject all moves of the mark, because `theta` has no density."""
        info = rejection_info(self.name, model, theta)
        still = np.tile(state.theta, (self.n_moves, 1))
        return self.exact.stay(state, rng), MappingInfo(**vars(info), marked=still)


def count_marked(transition: Transition[Any]) -> int:
    """Count the draws of theta that each step of a transition marks, besides its last theta."""
    if isinstance(transition, DiscretizingMap):
        return transition.n_moves
    if isinstance(transition, Mixture):  # its other moves mark their theta as often
        return count_marked(transition.moves[0])
    if isinstance(transition, Sweep):
        pairs = zip(transition.moves, transition.repeats, strict=True)
        return sum(n * count_marked(move) for move, n in pairs)
    return 0


def find_marked(info: StepInfo) -> FloatArray | None:
    """Find the draws of theta that a step has marked, (r, p); None if there are none."""
    found = [step.marked for step in info.steps if isinstance(step, MappingInfo)]
    return np.concatenate(found) if found else None
