"""What an operator is: a way to move some coordinates, whatever they stand for.

The same operators move f given theta and theta given what a parameterization keeps still.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..parameterizations import Conditional, Point, Root


class Outcome(NamedTuple):
    """Where an operator has led, and what it reports."""

    point: Point
    accepted: bool
    acceptance_probability: float
    n_evaluations: int  # of the conditional density
    lost: FloatArray | None = None  # a position that has no density, if one was met

    @classmethod
    def rejected(cls, point: Point, n_evaluations: int, lost: FloatArray | None) -> Outcome:
        """Stay, as the proposal has no density."""
        return cls(point, False, 0.0, n_evaluations, lost)


class Operator(ABC):
    """A Markov kernel on the coordinates of a conditional distribution; frozen, settings only.

    Attributes
    ----------
    name : str
        What diagnostics call it.
    log_scale : float
        Log of the scale of its steps.
    target_acceptance : float or None
        Acceptance rate to which warm-up tunes the scale; None leaves it as it is.
    follows_gradient : bool
        Whether it asks for the gradient of the density.
    """

    follows_gradient: ClassVar[bool] = False

    name: str
    log_scale: float
    target_acceptance: float | None

    @abstractmethod
    def move(
        self, conditional: Conditional, point: Point, root: Root, rng: np.random.Generator
    ) -> Outcome:
        """Make one move; steps have the shape of `root`, or one of the operator's own."""

    @abstractmethod
    def typical_log_scale(self, dim: int) -> float:
        """Return the log scale that suits a standard normal target, where tuning may begin."""

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same operator with another scale."""
        return self._with(log_scale=log_scale)

    def with_target(self, target_acceptance: float) -> Self:
        """Return the same operator, to be tuned to another acceptance rate."""
        return self._with(target_acceptance=target_acceptance)

    def _with(self, **changes: Any) -> Self:
        return replace(self, **changes)  # type: ignore[type-var]
