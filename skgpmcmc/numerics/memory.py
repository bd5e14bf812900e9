"""The main memory of the machine, and the matrices that fit in it."""

from __future__ import annotations

import os

#: Bytes of a double.
DOUBLE = 8


def machine_bytes() -> int | None:
    """Return the main memory of this machine in bytes, or None if it is unknown."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX, or these names are unknown to it
        return None
    return total if total > 0 else None


def most_columns(n: int, n_matrices: int) -> int:
    """Return the most columns k for which some (n, k) matrices of doubles fit in memory."""
    available = machine_bytes()
    if available is None:
        return n
    return available // (DOUBLE * n * n_matrices)
