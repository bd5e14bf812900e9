"""Segments of a chain: their computation, counts, executors and time limits."""

from .executor import Executor, InProcessExecutor
from .segment import Segment, sample, switch

__all__ = ["Executor", "InProcessExecutor", "Segment", "sample", "switch"]
