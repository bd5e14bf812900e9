"""The time limit of a set-up: after it, the set-up goes on with the results so far.

The caller of a set-up applies a limit by `apply_limit`. The set-up asks `time_is_over` between
batches of work, and a long task asks between two evaluations. No evaluation is interrupted.
`TimeLimit.was_noticed` tells whether a result depends on the limit, because such a result cannot be
reproduced by another run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ..model.joint import LatentGP

#: Clock in seconds since the epoch, which all processes share.
clock = time.time


@dataclass(eq=False)
class TimeLimit:
    """The time at which work must end, and whether any work has ended early.

    Attributes
    ----------
    end : float
        End by `clock`, in seconds; infinite without a limit.
    seconds : float
        Seconds from the beginning of the fit to the end.
    spent : float
        Total seconds of all tasks of the last batch.
    was_noticed : bool
        Whether `time_is_over` has returned True under this limit.
    """

    end: float = math.inf
    seconds: float = math.inf
    spent: float = 0.0
    was_noticed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.end < math.inf and clock() > self.end


#: The limit outside of `apply_limit`.
_NO_LIMIT = TimeLimit()
#: The limit that applies now.
_active: ContextVar[TimeLimit] = ContextVar("time_limit", default=_NO_LIMIT)


@contextmanager
def apply_limit(limit: TimeLimit) -> Iterator[TimeLimit]:
    """Apply a copy of a limit to all work inside the context.

    Yields
    ------
    TimeLimit
        The copy, whose `was_noticed` is False at the beginning.
    """
    own = replace(limit, was_noticed=False)
    token = _active.set(own)
    try:
        yield own
    finally:
        _active.reset(token)


def time_is_over() -> bool:
    """Whether the time is over; a caller must then end with the results so far."""
    limit = _active.get()
    over = limit.is_over
    if over:
        limit.was_noticed = True
    return over


class OutOfTimeError(Exception):
    """Ends a step whose result is of no use unless it is complete."""


def check_time() -> None:
    """Raise an `OutOfTimeError` if the time is over."""
    if time_is_over():
        raise OutOfTimeError


def require_time(n_evaluations: float, model: LatentGP) -> None:
    """Raise an error if the limit is too short for a single evaluation.

    Parameters
    ----------
    n_evaluations : float
        Number of evaluations in the first batch of tasks, which has just been done.
    model : LatentGP
        Model whose likelihood was evaluated.

    Raises
    ------
    RuntimeError
        If one evaluation takes longer than the whole limit; the message has its duration.
    """
    limit = _active.get()
    each = limit.spent / max(n_evaluations, 1.0)
    if limit.is_over and each > limit.seconds:
        raise RuntimeError(
            f"max_time={limit.seconds:g} seconds are over before anything is known: an evaluation "
            f"of the likelihood, of which a fit needs hundreds, takes about {each:.2g} seconds "
            f"with n = {model.n_inputs} inputs. Use a larger max_time, or fewer rows."
        )
