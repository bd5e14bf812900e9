"""Counts of the steps, evaluations and O(n^3) operations of chains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._typing import FloatArray
from ..numerics.linalg import OperationCount
from ..transitions.base import StepInfo


@dataclass(eq=False)
class ChainCounts:
    """Counts over some iterations of a chain."""

    n_steps: Counter[str] = field(default_factory=Counter)  # by the name of the move
    n_accepted: Counter[str] = field(default_factory=Counter)  # by the name of the move
    n_evaluations: float = 0.0  # evaluations of a (marginal) likelihood
    n_failed: int = 0  # proposals rejected because a factorization failed
    operations: OperationCount = field(default_factory=OperationCount)

    def add_step(self, info: StepInfo) -> None:
        """Count a step, with the moves that it consists of."""
        for step in info.steps:
            self.n_steps[step.move] += 1
            self.n_accepted[step.move] += step.accepted
            self.n_failed += step.failed
        self.n_evaluations += info.n_evaluations


def sum_counts(every: Iterable[ChainCounts]) -> ChainCounts:
    """Add up counts."""
    total = ChainCounts()
    for counts in every:
        total.operations.add(counts.operations)
        total.n_steps.update(counts.n_steps)
        total.n_accepted.update(counts.n_accepted)
        total.n_evaluations += counts.n_evaluations
        total.n_failed += counts.n_failed
    return total


def acceptance_rates(chains: Sequence[ChainCounts]) -> dict[str, FloatArray]:
    """Return the acceptance rate of every move in each chain; NaN if the move was never made."""
    moves = dict.fromkeys(move for counts in chains for move in counts.n_steps)
    with np.errstate(invalid="ignore"):
        return {
            move: np.divide([c.n_accepted[move] for c in chains], [c.n_steps[move] for c in chains])
            for move in moves
        }
