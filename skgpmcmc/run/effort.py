"""How long a fit will take, about: what is planned times what was timed."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Protocol

import numpy as np

from ..numerics.linalg import cholesky, solve_lower
from ..numerics.threads import one_thread

#: O(n^3) operations of an iteration, and of an evaluation that a set-up learns from, about: they
#: are 2 to 14 and 3 to 17 with the samplers and approximations that there are.
_OF_ITERATION, _OF_LEARNING = 4.0, 10.0
#: Rows of the small problem that is timed.
_SMALL = 1000


class Plan(NamedTuple):
    """What a run is going to do."""

    n_rows: int
    n_functions: int  # latent functions of a model
    n_learned: float  # evaluations that set-ups learn from, of all models
    n_iterations: int  # of all chains of all models
    n_workers: int

    def effort(self, seconds_per_operation: float, judged_by: str) -> Effort:
        """Return the effort of all that is planned."""
        operations = _OF_ITERATION * self.n_iterations + _OF_LEARNING * self.n_learned
        seconds = seconds_per_operation * self.n_functions * operations / self.n_workers
        return Effort(self, seconds, judged_by)


class Effort(NamedTuple):
    """What is left to be done, about."""

    plan: Plan
    seconds: float
    judged_by: str

    def __str__(self) -> str:
        return f"about {_duration(self.seconds)}"


class Monitor(Protocol):
    """What the parent reports to, round by round."""

    def expect(self, left: Effort) -> None:
        """Take note of how much is left, about."""

    def begin_round(self) -> None:
        """A round of all chains starts."""

    def end_round(self) -> bool:
        """A round of all chains has ended; True asks to stop as soon as there are draws."""


class Silent:
    """The monitor of a run that nobody watches."""

    def expect(self, left: Effort) -> None:
        """Do nothing."""

    def begin_round(self) -> None:
        """Do nothing."""

    def end_round(self) -> bool:
        """Never ask to stop."""
        return False


def seconds_per_operation(n_rows: int) -> float:
    """Time an O(n^3) operation, by a factorization and a solution that are quick; in seconds."""
    size = min(n_rows, _SMALL)
    K = np.eye(size, order="F") + 1.0
    with one_thread():
        begin = time.perf_counter()
        solve_lower(cholesky(K), K)
        seconds = time.perf_counter() - begin
    return 0.5 * seconds * (n_rows / size) ** 3


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least one and a half."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} seconds"


_DOUBLE = 8
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def machine_bytes() -> int | None:
    """Return the main memory of this machine, or None where the system does not say."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system, or one without these names
        return None
    return total if total > 0 else None


def require_memory(
    what: str, n: int, n_matrices: float, *, n_doubles: int = 0, remedy: str = ""
) -> float:
    """Refuse work that needs more than all memory of the machine.

    Parameters
    ----------
    what : str
        Names the work, in terms of n.
    n : int
        Rows.
    n_matrices : float
        Matrices of n x n doubles that are held at once.
    n_doubles : int, default=0
        Other numbers that are held.
    remedy : str, default=""
        What to do beside using fewer rows.

    Returns
    -------
    float
        Bytes that it needs, about.

    Raises
    ------
    MemoryError
        It says n, what is needed and what is there, and how many rows would fit.
    """
    there = machine_bytes()
    needed = _DOUBLE * (n_matrices * n**2 + n_doubles)
    if there is None or needed <= there:
        return needed
    left = max(there - _DOUBLE * n_doubles, 0)
    fits = int((left / (_DOUBLE * n_matrices)) ** 0.5)
    raise MemoryError(
        f"{what} needs about {readable(needed)} of memory with n = {n} ({n_matrices:g} n^2 "
        f"doubles{f', and {readable(_DOUBLE * n_doubles)} for draws' if n_doubles else ''}), and "
        f"this machine has {readable(there)}: use at most about {fits} rows, such as a random "
        f"subset{remedy}."
    )


def readable(n_bytes: float) -> str:
    """Return a number of bytes in a unit that suits it."""
    power = 0
    while n_bytes >= 1000.0 and power < len(_UNITS) - 1:
        n_bytes, power = n_bytes / 1000.0, power + 1
    return f"{n_bytes:.3g} {_UNITS[power]}"
