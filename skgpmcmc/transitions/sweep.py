"""Several transitions, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..model import GPState, LatentGP
from .base import StepInfo, Transition
from .tunable import Tunable


@dataclass(frozen=True, eq=False)
class Sweep(Transition[GPState]):
    """At every step all parts move in their order, each as often as it is repeated.

    **Invariant:** what all its parts leave unchanged.

    Attributes
    ----------
    parts : sequence of Transition
        All on (theta, f); the first one starts chains.
    repeats : sequence of int
        How often each moves.
    """

    parts: Sequence[Transition[Any]]
    repeats: Sequence[int]
    name = "sweep"

    @property
    def tuned(self) -> list[tuple[int, float, float]]:
        """Position, log scale and target acceptance rate of every part that can be tuned."""
        return [
            (position, part.log_scale, part.target_acceptance)
            for position, part in enumerate(self.parts)
            if isinstance(part, Tunable) and part.target_acceptance is not None
        ]

    def with_log_scales(self, log_scales: Sequence[float]) -> Sweep:
        """Return the sweep with other scales of the parts that can be tuned, in their order."""
        parts = list(self.parts)
        for (position, _, _), log_scale in zip(self.tuned, log_scales, strict=True):
            part = parts[position]
            assert isinstance(part, Tunable)
            parts[position] = part.with_log_scale(float(log_scale))
        return Sweep(tuple(parts), self.repeats)

    def with_covariance(self, covariance: FloatArray) -> Sweep:
        """Return the sweep with steps of theta in the shape of a covariance (p, p)."""
        parts = (
            part.with_covariance(covariance) if isinstance(part, Tunable) else part
            for part in self.parts
        )
        return Sweep(tuple(parts), self.repeats)

    def mean_probabilities(self, info: StepInfo) -> list[float]:
        """Return the mean of what is tuned of each part, in one step."""
        ends = np.cumsum([0, *self.repeats])
        probabilities = [part.tuning_probability for part in info.parts]
        return [float(np.mean(probabilities[a:b])) for a, b in pairwise(ends)]

    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> GPState | None:
        """Return a state of the first part at theta."""
        return self.parts[0].start(model, theta, rng)

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Let every part move."""
        infos: list[StepInfo] = []
        cost = 0.0
        for part, repeat in zip(self.parts, self.repeats, strict=True):
            for _ in range(repeat):
                state, info = part.step(model, state, rng)
                infos.append(info)
                # An evaluation of p(y | f) alone is O(n) where another is O(n^3) or O(n^2).
                cost += info.n_evaluations / (1 if part.moves_theta else len(state.f))
        whole = StepInfo(
            self.name,
            any(info.accepted for info in infos),
            float(np.mean([info.acceptance_probability for info in infos])),
            cost,
            any(info.failed for info in infos),
            tuple(infos),
        )
        return state, whole
