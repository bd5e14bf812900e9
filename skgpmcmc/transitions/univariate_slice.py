"""Slice sampling, one coordinate after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..parameterizations import Conditional, Point
from .operators import Operator, Outcome

#: Shrinks after which a bracket has no width left.
_MAX_SHRINKS = 200


@dataclass(frozen=True)
class UnivariateSlice(Operator):
    """Stepping out and shrinkage on each coordinate in turn.

    **Invariant:** leaves the conditional distribution unchanged; each coordinate's update is
    reversible. It never rejects, and nothing has to be tuned.

    Attributes
    ----------
    log_scale : float
        Log of the width of the first bracket.
    max_widths : int, default=8
        At most so many widths are stepped out.

    References
    ----------
    Neal (2003), *Slice sampling*, figures 3 and 5.
    """

    log_scale: float = float(np.log(1.5))
    max_widths: int = 8
    name = "univariate slice"
    target_acceptance = None

    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Update every coordinate once."""
        line = _Line(conditional)
        for axis in np.eye(len(point.position)):
            point = self._moved_along(line, axis, point, rng)
        return Outcome(point, True, 1.0, line.n_evaluations, line.lost)

    def typical_log_scale(self, dim: int) -> float:
        """Return the scale as it is."""
        return self.log_scale

    def _moved_along(
        self, line: _Line, axis: FloatArray, point: Point, rng: np.random.Generator
    ) -> Point:
        level = point.log_density + np.log1p(-rng.uniform())
        width = np.exp(self.log_scale)
        low = -width * rng.uniform()
        high = low + width
        left = int(self.max_widths * rng.uniform())
        right = self.max_widths - 1 - left
        while left > 0 and line.above(level, point, low * axis):
            low, left = low - width, left - 1
        while right > 0 and line.above(level, point, high * axis):
            high, right = high + width, right - 1
        for _ in range(_MAX_SHRINKS):
            shift = rng.uniform(low, high)
            found = line.above(level, point, shift * axis)
            if found is not None:
                return found
            if shift < 0.0:
                low = shift
            else:
                high = shift
        return point  # rounding decides: staying is then the exact move


class _Line:
    """Evaluates a conditional density, and counts."""

    def __init__(self, conditional: Conditional) -> None:
        self._conditional = conditional
        self.n_evaluations = 0
        self.lost: FloatArray | None = None

    def above(self, level: float, point: Point, shift: FloatArray) -> Point | None:
        """Return the point at a shift if its density is above the level."""
        self.n_evaluations += 1
        found = self._conditional.at(point.position + shift)
        if found is None:
            self.lost = point.position + shift
            return None
        return found if found.log_density > level else None
