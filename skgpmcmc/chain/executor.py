"""Who does the work of a set-up: the process itself, or workers.

A set-up is a function that is handed an executor. Batches of work are calls of one function, whose
results come back in order; nothing depends on who makes them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..numerics.linalg import OperationCount
from .segment import count_work
from .time_limit import TimeLimit, apply_limit, time_is_over

#: Iterations of a chain that take as long as an evaluation with gradient, about.
ITERATIONS_PER_EVALUATION = 2.5


class Executor(Protocol):
    """Does batches of work."""

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        stage: str,
        *,
        n_needed: int = 0,
        iterations: float = 0.0,
    ) -> list[Any]:
        """Call a function for every item.

        Parameters
        ----------
        function : callable
            It and the items can be pickled. Where the time is over, a long call ends sooner.
        items : sequence of tuple
            Arguments of each call; the first is a model, or holds it.
        stage : str
            What the set-up does, for whoever waits for it.
        n_needed : int, default=0
            So many of the first calls are made even if the time is over.
        iterations : float, default=0.0
            Iterations of a chain that take as long as a call; 0 where it tells nothing of them.

        Returns
        -------
        list
            What the calls returned, in order; None for those that there was no time for.
        """


class InProcessExecutor:
    """Makes every call at once, one after the other."""

    def map(
        self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], stage: str, **how: Any
    ) -> list[Any]:
        """See `Executor`."""
        limit = TimeLimit()
        return [perform(function, item, limit).value for item in items]


class TaskResult(NamedTuple):
    """What a call returned, and what it cost."""

    value: Any
    operations: OperationCount
    seconds: float
    cut: bool = False  # whether it ended sooner, or was left out, as the time was over


def perform(
    function: Callable[..., Any], item: tuple[Any, ...], limit: TimeLimit, needed: bool = False
) -> TaskResult:
    """Make a call on one BLAS thread, unless the time is over and it is not needed."""
    begin = time.perf_counter()
    with apply_limit(limit) as own, count_work() as operations:
        left_out = not needed and time_is_over()
        value = None if left_out else function(*item)
    return TaskResult(value, operations, time.perf_counter() - begin, own.was_noticed)
