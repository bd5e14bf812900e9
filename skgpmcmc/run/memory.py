"""Memory: what work takes, and what the machine has."""

from __future__ import annotations

import os

_DOUBLE = 8
_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def machine_bytes() -> int | None:
    """Return the main memory of this machine, or None if it is unknown."""
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
        Name of the work, in terms of n.
    n : int
        Number of rows.
    n_matrices : float
        Number of n x n matrices of doubles that are held at once.
    n_doubles : int, default=0
        Number of other doubles that are held.
    remedy : str, default=""
        What else the user can do, besides using fewer rows.

    Returns
    -------
    float
        Approximate number of bytes needed.

    Raises
    ------
    MemoryError
        The message says n, the required and the available memory, and how many rows would fit.
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
    """Return a number of bytes as text with a suitable unit."""
    power = 0
    while n_bytes >= 1000.0 and power < len(_BYTE_UNITS) - 1:
        n_bytes = n_bytes / 1000.0
        power = power + 1
    return f"{n_bytes:.3g} {_BYTE_UNITS[power]}"
