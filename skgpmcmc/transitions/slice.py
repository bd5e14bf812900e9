"""Univariate slice sampling of one coordinate after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, TypeVar

import numpy as np

from .._typing import FloatArray
from ..parameterizations.base import ConditionalDensity, Point
from .operator import Operator, Outcome

#: Most shrinks of a bracket: each removes about a third, so that 200 exhaust double precision.
_MAX_SHRINKS = 200

Found = TypeVar("Found")


def shrink_bracket(
    within: Callable[[float], Found | None],
    low: float,
    high: float,
    rng: np.random.Generator,
    first: float | None = None,
) -> Found | None:
    """Draw uniform points of a bracket around 0, which shrinks to every point outside the slice.

    Parameters
    ----------
    within : callable
        Returns an object for a shift from the current point; None if the shift is outside the
        slice.
    low, high : float
        Ends of the bracket.
    rng : numpy.random.Generator
        Random stream of the points.
    first : float, optional
        The first point, if the caller has drawn it.

    Returns
    -------
    object or None
        The object of the first point in the slice. As the slice contains 0, no point is found only
        because of rounding; staying at 0 is then the exact move.

    References
    ----------
    Neal (2003), *Slice sampling*, figure 5.
    """
    shift = rng.uniform(low, high) if first is None else first
    for _ in range(_MAX_SHRINKS):
        found = within(shift)
        if found is not None:
            return found
        low, high = (shift, high) if shift < 0.0 else (low, shift)
        shift = rng.uniform(low, high)
    return None


@dataclass(frozen=True)
class UnivariateSlice(Operator):
    """Univariate slice sampling of one coordinate after the other, by stepping out and shrinkage.

    **Invariant:** leaves the conditional distribution unchanged, because the update of each
    coordinate is reversible. No update is rejected, and none needs tuning.

    Attributes
    ----------
    log_scale : float
        Natural log of the width of the first bracket.
    max_widths : int, default=8
        Maximum number of widths of a bracket after stepping out.
    backwards : bool, default=False
        Whether the coordinates are updated in the opposite order, the last coordinate first.
    spreads : tuple of float or None
        Standard deviation of each coordinate, to which its width is proportional; None means 1.
    axes : tuple of int or None
        Coordinates that are updated, in this order; None means all.

    References
    ----------
    Neal (2003), *Slice sampling*, figures 3 and 5.
    """

    log_scale: float = float(np.log(1.5))
    max_widths: int = 8
    backwards: bool = False
    spreads: tuple[float, ...] | None = None
    axes: tuple[int, ...] | None = None
    name = "univariate slice"
    target_acceptance = None

    def move(
        self, conditional: ConditionalDensity, point: Point, rng: np.random.Generator
    ) -> Outcome:
        """Update every coordinate once, or those of `axes`."""
        line = _Line(conditional)
        widths = np.diag(self.spreads or np.ones(len(point.position)))
        axes = range(len(widths)) if self.axes is None else self.axes
        for axis in widths[list(axes)[:: -1 if self.backwards else 1]]:
            point = self._move_along(line, axis, point, rng)
        return Outcome(point, True, 1.0, line.n_evaluations, line.lost)

    def reverse(self) -> Self:
        """Return the same updates in the opposite order, as each is reversible."""
        return replace(self, backwards=not self.backwards)

    def by_coordinate(self, dim: int) -> list[Self]:
        """Return the updates of single coordinates."""
        axes = range(dim) if self.axes is None else self.axes
        return [replace(self, axes=(axis,)) for axis in axes] or [self]

    def typical_log_scale(self, dim: int) -> float:
        """Return the current scale, as slices need no tuning."""
        return self.log_scale

    def with_spreads_of(self, covariance: FloatArray) -> UnivariateSlice:
        """Return the same updates with widths from the variance of each coordinate."""
        return replace(self, spreads=tuple(np.sqrt(covariance.diagonal()).tolist()))

    def _move_along(
        self, line: _Line, axis: FloatArray, point: Point, rng: np.random.Generator
    ) -> Point:
        level = point.log_density + np.log1p(-rng.uniform())
        width = np.exp(self.log_scale)
        low = -width * rng.uniform()
        high = low + width
        left = int(self.max_widths * rng.uniform())
        right = self.max_widths - 1 - left
        while left > 0 and line.above(level, point, low * axis):
            low = low - width
            left = left - 1
        while right > 0 and line.above(level, point, high * axis):
            high = high + width
            right = right - 1
        found = shrink_bracket(lambda shift: line.above(level, point, shift * axis), low, high, rng)
        return point if found is None else found


class _Line:
    """A conditional density along a line, which counts its evaluations."""

    def __init__(self, conditional: ConditionalDensity) -> None:
        self._conditional = conditional
        self.n_evaluations = 0
        self.lost: FloatArray | None = None

    def above(self, level: float, point: Point, shift: FloatArray) -> Point | None:
        """Return the point at a shift; None unless its log density is above the level."""
        self.n_evaluations += 1
        found = self._conditional.at(point.position + shift)
        if found is None:
            self.lost = point.position + shift
            return None
        return found if found.log_density > level else None
