"""Memory: the need of a computation, compared with the main memory of the machine."""

from __future__ import annotations

from ..numerics.memory import DOUBLE, machine_bytes

#: Units of memory, each a thousand times the one before.
_BYTE_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def require_memory(
    what: str,
    n: int,
    n_matrices: float,
    *,
    rank: int | None = None,
    n_doubles: int = 0,
    remedy: str = "",
) -> float:
    """Raise an error where work needs more than all memory of the machine.

    Parameters
    ----------
    what : str
        Name of the work, in terms of n.
    n : int
        Number of rows.
    n_matrices : float
        Number of matrices of doubles that are held at once; (n, n), or (n, r) for a rank r.
    rank : int, optional
        The rank r.
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
    draws_bytes = DOUBLE * n_doubles
    needed = DOUBLE * (n_matrices * n * (n if rank is None else rank) + n_doubles)
    if available is None or needed <= available:
        return needed
    left = max(available - draws_bytes, 0)
    left_doubles = left / (DOUBLE * n_matrices)
    most_rows = int(left_doubles**0.5 if rank is None else left_doubles / rank)
    size = "n^2 doubles" if rank is None else f"n r doubles with the rank r = {rank}"
    and_draws = f", and {format_bytes(draws_bytes)} for draws" if n_doubles else ""
    raise MemoryError(
        f"{what} needs about {format_bytes(needed)} of memory with n = {n} ({n_matrices:g} "
        f"{size}{and_draws}), and this machine has {format_bytes(available)}: use at most about "
        f"{most_rows} rows, such as a random subset{remedy}."
    )


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes as text with a suitable unit."""
    power = 0
    while n_bytes >= 1000.0 and power < len(_BYTE_UNITS) - 1:
        n_bytes = n_bytes / 1000.0
        power = power + 1
    return f"{n_bytes:.3g} {_BYTE_UNITS[power]}"
