"""Pools of workers that are replaced when a worker is lost."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import chain, pairwise
from typing import Any, Protocol, Self

import joblib

from .._warnings import warn

#: Most chains that move together in one call: more chains take memory and save no more time.
_MOST_CHAINS_PER_CALL = 16
#: A call that a worker makes, as `joblib.delayed` writes it.
Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


#: Losses in a row, with the same calls, after which these are not attempted again.
MAX_LOSSES = 3
#: Names of the errors with which joblib's backends (loky, dask and ray) report a lost worker.
_LOSS_ERRORS = {
    "BrokenProcessPool",
    "KilledWorker",
    "CancelledError",
    "FutureCancelledError",
    "CommClosedError",
    "WorkerCrashedError",
    "ActorDiedError",
}


def make_pool(n_jobs: int | None) -> Any:
    """Return a pool of joblib's workers, which takes calls and returns their results.

    A fit in a task of dask, as a search makes many, stays in its task unless it asks for more than
    one worker. The default of joblib's backend is to send its calls to all workers of the cluster.
    These have fits of their own, and the messages took as long as the fits.
    """
    if _stays_in_task(n_jobs):
        return joblib.Parallel(n_jobs=1, backend="sequential")
    return joblib.Parallel(n_jobs=n_jobs)


def count_workers(n_jobs: int | None) -> int:
    """Return the number of workers of a pool."""
    return 1 if _stays_in_task(n_jobs) else int(joblib.effective_n_jobs(n_jobs))


def _stays_in_task(n_jobs: int | None) -> bool:
    """Whether this code runs in a task of dask, and asks for no other worker."""
    distributed = sys.modules.get("distributed")
    if distributed is None or n_jobs not in (None, 1):
        return False
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


class LostWorkersError(RuntimeError):
    """Workers were lost several times in a row with the same work."""


class Journal(Protocol):
    """Stores the results of a run, and returns them when the run is repeated."""

    def find_missing(self, calls: list[Call], name: str) -> list[Call]:
        """Return the calls of a named batch whose results are not stored."""

    def fill_in(self, done: list[Any]) -> list[Any]:
        """Store the results that were computed, and return the results of all calls."""

    @property
    def replays(self) -> bool:
        """Whether some stored results have not been returned yet."""

    @property
    def n_replayed(self) -> int:
        """Number of stored draws of a chain that have been returned."""


class Workers(ExitStack):
    """A pool of workers, which is replaced when a worker is lost.

    Calls return new objects and have no side effects. If a worker is lost, the calls of its batch
    are made again, with the same results.

    Parameters
    ----------
    n_jobs : int or None
        Number of workers, as in joblib; joblib's active backend does the work.
    journal : Journal, optional
        Stores results.
    """

    def __init__(self, n_jobs: int | None, journal: Journal | None = None) -> None:
        super().__init__()
        self._n_jobs = n_jobs
        self._journal = journal
        self._pool: Any = None

    def __enter__(self) -> Self:
        self._pool = self.enter_context(make_pool(self._n_jobs))
        return self

    def run(
        self,
        calls: list[Call],
        name: str = "",
        run_together: Callable[[list[tuple[Any, ...]]], list[Any]] | None = None,
    ) -> list[Any]:
        """Make a batch of calls, and return their results in the same order.

        Parameters
        ----------
        calls : list of Call
            The batch.
        name : str, default=""
            The name by which a journal knows the batch.
        run_together : callable, optional
            It returns the results of several calls, from a list of their arguments. Every worker
            gets equally many. It is not used with a journal, which stores the result of each call.

        Raises
        ------
        LostWorkersError
            If workers are lost three times in a row.

        Warns
        -----
        UserWarning
            If a worker is lost.
        """
        if self._journal is not None:
            missing = self._journal.find_missing(calls, name)
            return self._journal.fill_in(self._compute(missing) if missing else [])
        if run_together is None or not calls:
            return self._compute(calls)
        n_workers = min(count_workers(self._n_jobs), len(calls))
        n = n_workers * -(-len(calls) // (n_workers * _MOST_CHAINS_PER_CALL))
        ends = [len(calls) * i // n for i in range(n + 1)]
        jobs = [arguments for _, arguments, _ in calls]
        parts = [joblib.delayed(run_together)(jobs[a:b]) for a, b in pairwise(ends)]
        return list(chain.from_iterable(self._compute(parts)))

    @property
    def replays(self) -> bool:
        """Whether the next results come from the journal."""
        return self._journal is not None and self._journal.replays

    @property
    def n_replayed(self) -> int:
        """Number of draws of a chain that have come from the journal."""
        return 0 if self._journal is None else self._journal.n_replayed

    def leave_journal(self) -> None:
        """Go on without the journal: a repeated run would not make the same calls from here on."""
        self._journal = None

    def _compute(self, calls: list[Call]) -> list[Any]:
        """Make a batch of calls, and repeat it if a worker is lost."""
        n_lost = 0
        while True:
            try:
                return list(self._pool(calls))
            except BaseException as error:
                if not _is_loss(error):
                    raise
                n_lost += 1
                if n_lost == MAX_LOSSES:
                    raise LostWorkersError(
                        f"Workers were lost {n_lost} times in a row with the same work, most "
                        f"likely because they ran out of memory ({type(error).__name__}). Use "
                        "fewer workers (n_jobs), fewer rows, or machines with more memory."
                    ) from error
                self._replace_pool(n_lost)

    def _replace_pool(self, n_lost: int) -> None:
        """Close the pool and open another."""
        warn(
            f"A worker was lost (attempt {n_lost} of {MAX_LOSSES}): its work is done again, and no "
            "result depends on that. If it happens often, the machine is short of memory: use "
            "fewer workers (n_jobs).",
        )
        self.close()
        self.__enter__()


def _is_loss(error: BaseException) -> bool:
    """Whether an error means that a worker is lost, and not that a call has failed."""
    if isinstance(error, TypeError):  # joblib mistakes dask's CancelledError for a result
        return "CancelledError' object" in str(error)
    return not _LOSS_ERRORS.isdisjoint(kind.__name__ for kind in type(error).__mro__)
