"""One BLAS thread at a time: chains are what runs in parallel."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


@cache
def _controller() -> ThreadpoolController:
    # Looking for the libraries of a process takes milliseconds, and all of ours are loaded by now.
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Limit the thread pools of this process to one thread each while the context lasts."""
    return _controller().limit(limits=1)
