"""One BLAS thread per process, whatever contexts overlap."""

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
def _controller() -> ThreadpoolController:
    # Looking for the libraries of a process takes milliseconds, and all of ours are loaded by now.
    return ThreadpoolController()


def _free_control() -> None:
    """Let any thread change limits.

    From threadpoolctl 3.8 on that is up to the first thread that does, and what others ask for is
    silently ignored as long as that one lives.
    """
    for library in _controller().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)


class _OneThread:
    """The limit of a process, which all who want it share.

    The number of BLAS threads belongs to the process: were every context to restore what it found,
    those that overlap would restore one another's limits. So the first to come sets the limit and
    the last to leave lifts it, in whatever order they come and leave.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limiter: Any = None
        self._n_open = 0
        self._own = threading.local()  # its `n`: how many of them this thread has open

    def forget_other_threads(self) -> None:
        """Drop what a forked process does not have: other threads, and a lock that they hold.

        The limit stays as it is: the next context to leave lifts it.
        """
        self._lock = threading.Lock()
        self._n_open = getattr(self._own, "n", 0)

    def enter(self) -> None:
        """Set the limit, unless it is set."""
        with self._lock:
            if self._limiter is None:
                _free_control()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            self._n_open += 1
        self._own.n = getattr(self._own, "n", 0) + 1

    def leave(self) -> None:
        """Lift the limit, if nobody wants it any more."""
        self._own.n -= 1
        with self._lock:
            self._n_open -= 1
            if self._n_open == 0 and self._limiter is not None:
                _free_control()
                self._limiter.restore_original_limits()
                _free_control()
                self._limiter = None


_SHARED = _OneThread()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SHARED.forget_other_threads)


#: Bytes of an array after whose release the C library of Linux keeps as much memory for the
#: process: just below the largest for which that works.
_KEPT_MEMORY = 31 * 2**20


@cache
def _keep_memory() -> None:
    """Let memory that is free be used again, and not be given back and asked for anew.

    Matrices of a few hundred rows come and go at every evaluation. Without this page faults take a
    fifth of the time. The array is never written to, and thus takes no memory.
    """
    np.empty(_KEPT_MEMORY, dtype=np.uint8)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit the BLAS of this process to one thread while the context lasts.

    Yields
    ------
    None
        Nothing.
    """
    _keep_memory()
    _SHARED.enter()
    try:
        yield
    finally:
        _SHARED.leave()
