"""A limit of one BLAS thread per process, for contexts that may overlap."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController


@cache
def _find_libraries() -> ThreadpoolController:
    # The search takes milliseconds; once is enough, as NumPy and SciPy have loaded their libraries.
    return ThreadpoolController()


def _release_control() -> None:
    """Let any thread change limits.

    From threadpoolctl 3.8 on, only the first thread that sets a limit controls it: requests of
    others are silently ignored while that thread lives.
    """
    for library in _find_libraries().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


class _ThreadLimit:
    """The limit of a process, shared by all contexts.

    The number of BLAS threads belongs to the process: if every context restored the number that it
    found, overlapping contexts would restore one another's limits. Therefore the first context
    sets the limit and the last one lifts it, in whatever order they are entered and left.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.limiter: Any = None
        self.n_open = 0
        self.own = threading.local()  # `n` is the number of contexts that this thread has open

    def forget_other_threads(self) -> None:
        """Drop the contexts of other threads, and their lock, which a forked process lacks.

        The limit stays set, and the last context of this thread lifts it.
        """
        self.lock = threading.Lock()
        self.n_open = getattr(self.own, "n", 0)


#: The limit of this process.
_SHARED_LIMIT = _ThreadLimit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED_LIMIT.forget_other_threads)


#: Bytes of an array after whose release the C library of Linux retains as much free memory: just
#: below the largest size for which it does.
_RETAINED_BYTES = 31 * 2**20

# The C library keeps freed memory for reuse from here on, instead of returning it to the system.
# Every evaluation allocates and frees matrices of a few hundred rows, and page faults would take a
# fifth of the time. The array is never written to, and thus takes no memory.
np.empty(_RETAINED_BYTES, dtype=np.uint8)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the BLAS of this process to one thread while the context lasts.

    Yields
    ------
    None
        Nothing.
    """
    shared = _SHARED_LIMIT
    with shared.lock:
        if shared.limiter is None:
            _release_control()
            shared.limiter = _find_libraries().limit(limits=1, user_api="blas")
        shared.n_open += 1
    shared.own.n = getattr(shared.own, "n", 0) + 1
    try:
        yield
    finally:
        shared.own.n -= 1
        with shared.lock:
            shared.n_open -= 1
            if shared.n_open == 0 and shared.limiter is not None:
                _release_control()
                shared.limiter.restore_original_limits()
                _release_control()
                shared.limiter = None
