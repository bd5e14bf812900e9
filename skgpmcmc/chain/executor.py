"""Executors of the work of a set-up: the process itself, or workers.

A set-up is a function with an executor as an argument. A batch of work consists of calls of one
function. Their results are returned in order, and do not depend on the executor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ..numerics.linalg import OperationCount
from .segment import count_work
from .time_limit import TimeLimit, apply_limit, time_is_over

#: Iterations of a chain that take about as long as one evaluation with gradient; for progress.
ITERATIONS_PER_EVALUATION = 2.5


class Executor(Protocol):
    """An executor of batches of work."""

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
            The function, which can be pickled as the items can. A long call ends early if the time
            is over.
        items : sequence of tuple
            Arguments of each call; the first argument is a model, or holds one.
        stage : str
            Description of the work for progress reports.
        n_needed : int, default=0
            Number of first calls that are made even if the time is over.
        iterations : float, default=0.0
            Iterations of a chain that take as long as a call; 0 if this is not known.

        Returns
        -------
        list
            Results of the calls in order; None for a call for which there was no time.
        """


class InProcessExecutor:
    """An executor that makes all calls in its own process, one after the other."""

    def map(
        self, function: Callable[..., Any], items: Sequence[tuple[Any, ...]], stage: str, **how: Any
    ) -> list[Any]:
        """See `Executor`."""
        limit = TimeLimit()
        return [perform(function, item, limit).value for item in items]


class TaskResult(NamedTuple):
    """Result of a call, with its cost."""

    value: Any
    operations: OperationCount
    seconds: float
    cut: bool = False  # whether the call ended early, or was left out, because the time was over


def perform(
    function: Callable[..., Any], item: tuple[Any, ...], limit: TimeLimit, needed: bool = False
) -> TaskResult:
    """Make a call on one BLAS thread, unless the time is over and the call is not needed."""
    begin = time.perf_counter()
    with apply_limit(limit) as own, count_work() as operations:
        left_out = not needed and time_is_over()
        value = None if left_out else function(*item)
    return TaskResult(value, operations, time.perf_counter() - begin, own.was_noticed)
