"""Memory: the need of a computation, and the main memory of the machine."""

from __future__ import annotations

import os

#: Bytes of a double.
_DOUBLE = 8
#: Units of memory, each a thousand times the one before.
_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def machine_bytes() -> int | None:
    """Return the main memory of this machine in bytes, or None if it is unknown."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX, or these names are unknown to it
        return None
    return total if total > 0 else None


def require_memory(
    what: str, n: int, n_matrices: float, *, n_doubles: int = 0, remedy: str = ""
) -> float:
    """Raise an error where work needs more than all memory of the machine.

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
        Further advice to the user, appended to that of using fewer rows.

    Returns
    -------
    float
        Approximate number of bytes needed.

    Raises
    ------
    MemoryError
        The message says n, the required and the available memory, and how many rows would fit.
    """
    available = machine_bytes()
    draws_bytes = _DOUBLE * n_doubles
    needed = _DOUBLE * (n_matrices * n**2 + n_doubles)
    if available is None or needed <= available:
        return needed
    left = max(available - draws_bytes, 0)
    most_rows = int((left / (_DOUBLE * n_matrices)) ** 0.5)
    and_draws = f", and {format_bytes(draws_bytes)} for draws" if n_doubles else ""
    raise MemoryError(
        f"{what} needs about {format_bytes(needed)} of memory with n = {n} ({n_matrices:g} n^2 "
        f"doubles{and_draws}), and this machine has {format_bytes(available)}: use at most about "
        f"{most_rows} rows, such as a random subset{remedy}."
    )


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes as text with a suitable unit."""
    power = 0
    while n_bytes >= 1000.0 and power < len(_BYTE_UNITS) - 1:
        n_bytes = n_bytes / 1000.0
        power = power + 1
    return f"{n_bytes:.3g} {_BYTE_UNITS[power]}"
