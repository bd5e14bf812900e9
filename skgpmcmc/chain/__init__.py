"""One chain: segments, what is counted of them, who computes them, and the time they have."""

from .executor import Executor, InProcessExecutor
from .segment import Segment, sample, switch

__all__ = ["Executor", "InProcessExecutor", "Segment", "sample", "switch"]
