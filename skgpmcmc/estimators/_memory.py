"""Whether the memory of the machine suffices, asked before anything large is allocated."""

from __future__ import annotations

import os

__all__ = ["machine_bytes", "readable", "require_memory"]

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
