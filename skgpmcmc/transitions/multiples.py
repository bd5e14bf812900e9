"""Proposals for periods: the same function has a multiple of its period, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray

#: Each with its inverse, so that a step is as likely as the one back.
FACTORS = (1.0 / 3.0, 0.5, 2.0, 3.0)


@dataclass(frozen=True, eq=False)
class Multiples:
    """theta' with a multiple or a fraction of a period, and a length-scale divided by as much.

    The covariance ``exp(-2 sin^2(pi d / period) / length_scale^2)`` of near inputs stays what it
    was, so that theta' may explain the data about as well.

    **Invariant:** as a proposal of theta it is symmetric, and shifts of a log keep volumes: its log
    Hastings ratio is zero.

    Attributes
    ----------
    places : sequence of tuple
        Where theta has each period, and the length-scale of its kernel, or None if that is fixed.
    """

    places: Sequence[tuple[int, int | None]]

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and 0."""
        place = self.places[int(rng.integers(len(self.places)))]
        return multiplied(theta, place, FACTORS[rng.integers(len(FACTORS))]), 0.0


def multiplied(theta: FloatArray, place: tuple[int, int | None], factor: float) -> FloatArray:
    """Return theta (p,) with the period at a place multiplied, and its length-scale divided."""
    period, length = place
    moved = theta.copy()
    moved[period] += np.log(factor)
    if length is not None:
        moved[length] -= np.log(factor)
    return moved
