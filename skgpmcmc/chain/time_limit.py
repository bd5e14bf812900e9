"""The time limit of a set-up: when it is over, the set-up goes on with what it knows.

Who drives a set-up says until when it may learn, by `apply_limit`, and whoever works for it asks whether
that time is over, by `time_is_over`: the set-up between batches of work, and a long task between
two evaluations. Nothing is cut off. What has been returned in time for a reason of time is known
by `TimeLimit.was_noticed`, as no other run would have done the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from ..model.joint import LatentGP

#: Seconds since the epoch: a clock that all processes share.
clock = time.time


@dataclass(eq=False)
class TimeLimit:
    """When work is to end, and whether that has made a difference.

    Attributes
    ----------
    end : float
        By `clock`; infinite without a limit.
    seconds : float
        How long that is after the beginning of the fit.
    spent : float
        Seconds that the tasks of the last batch took, all together.
    was_noticed : bool
        Whether somebody was told that the time is over.
    """

    end: float = math.inf
    seconds: float = math.inf
    spent: float = 0.0
    was_noticed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return self.end < math.inf and clock() > self.end


_NO_LIMIT = TimeLimit()
_active: ContextVar[TimeLimit] = ContextVar("time_limit", default=_NO_LIMIT)


@contextmanager
def apply_limit(limit: TimeLimit) -> Iterator[TimeLimit]:
    """Let what is done meanwhile end by a limit of its own.

    Yields
    ------
    TimeLimit
        A copy, which notes whether it was noticed.
    """
    own = replace(limit, was_noticed=False)
    token = _active.set(own)
    try:
        yield own
    finally:
        _active.reset(token)


def time_is_over() -> bool:
    """Whether to end with what there is; who asks does so if it is."""
    limit = _active.get()
    over = limit.is_over
    if over:
        limit.was_noticed = True
    return over


class OutOfTimeError(Exception):
    """Ends a step that is worth nothing unless it is complete."""


def check_time() -> None:
    """Raise an `OutOfTimeError` if the time is over."""
    if time_is_over():
        raise OutOfTimeError


def require_time(n_evaluations: float, model: LatentGP) -> None:
    """Refuse to go on where the limit would not do for a single evaluation.

    Parameters
    ----------
    n_evaluations : float
        Those of the batch of tasks that has just been done, the first one.
    model : LatentGP
        What was evaluated.

    Raises
    ------
    RuntimeError
        The message says how long an evaluation takes.
    """
    limit = _active.get()
    each = limit.spent / max(n_evaluations, 1.0)
    if limit.is_over and each > limit.seconds:
        raise RuntimeError(
            f"max_time={limit.seconds:g} seconds are over before anything is known: an evaluation "
            f"of the likelihood, of which a fit needs hundreds, takes about {each:.2g} seconds "
            f"with n = {model.n_inputs} inputs. Use a larger max_time, or fewer rows."
        )
