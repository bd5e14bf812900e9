"""Counts of the steps, evaluations and O(n^3) operations of chains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..numerics.linalg import OperationCount


@dataclass(eq=False)
class ChainCounts:
    """Counts over some iterations of a chain."""

    n_steps: Counter[str] = field(default_factory=Counter)  # by the name of the move
    n_accepted: Counter[str] = field(default_factory=Counter)  # by the name of the move
    n_evaluations: float = 0.0  # evaluations of a (marginal) likelihood
    n_failed: int = 0  # proposals rejected because a factorization failed
    operations: OperationCount = field(default_factory=OperationCount)


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
