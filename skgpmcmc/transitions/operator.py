"""Operators: Markov kernels on the coordinates of a conditional distribution.

The same operators move f given theta, and theta given a parameterization's auxiliary variables.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..numerics.dynamics import DenseRoot, Root
from ..parameterizations.base import ConditionalDensity, Point
from .base import S, StepInfo, Tunable


class Outcome(NamedTuple):
    """Result of a move by an operator.

    `lost` is a visited position at which the conditional density has no point, as its ``at``
    returns None: the last such position if there are several, and None if there is none.
    Diagnostics count the move as a failure if the prior of theta is positive at this position.
    """

    point: Any  # after the move, of the class of the point before; if rejected, the very same point
    accepted: bool
    acceptance_probability: float
    n_evaluations: int  # evaluations of the conditional density
    lost: FloatArray | None = None
    failed: bool = False  # rejected because an iteration did not converge, or was not reversible

    @classmethod
    def rejected(cls, point: Any, n_evaluations: int, lost: FloatArray | None) -> Outcome:
        """Return the outcome of a proposal at a position without density, which is `lost`."""
        return cls(point, False, 0.0, n_evaluations, lost)


class Operator(ABC):
    """A Markov kernel on the coordinates of a conditional distribution; it holds settings only.

    Attributes
    ----------
    name : str
        Name in diagnostics.
    log_scale : float
        Natural log of the scale of its steps.
    target_acceptance : float or None
        Acceptance rate to which warm-up tunes the scale; None if the scale is not tuned.
    follows_gradient : bool
        Whether the operator uses the gradient of the density.
    """

    follows_gradient: ClassVar[bool] = False

    name: str
    log_scale: float
    target_acceptance: float | None

    @abstractmethod
    def move(
        self, conditional: ConditionalDensity, point: Point, rng: np.random.Generator
    ) -> Outcome:
        """Make one move."""

    @abstractmethod
    def typical_log_scale(self, dim: int) -> float:
        """Return the log scale that suits a standard normal target, as a start for tuning."""

    def reverse(self) -> Self:
        """Return the operator of the reverse moves; by default itself, as most are reversible."""
        return self

    def by_coordinate(self, dim: int) -> list[Self]:
        """Return operators whose successive moves make up this one; by default only itself."""
        return [self]

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same operator with another scale."""
        return replace(self, log_scale=log_scale)  # type: ignore[type-var]

    def with_target(self, target_acceptance: float) -> Self:
        """Return the same operator, to be tuned to another acceptance rate."""
        return replace(self, target_acceptance=target_acceptance)  # type: ignore[type-var]

    def with_root(self, root: Root) -> Self:
        """Return the same operator with steps of another shape; by default unchanged."""
        return self

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return the operator with steps in the shape of a covariance, and a scale to suit it."""
        shaped = self.with_root(DenseRoot(np.asarray(np.linalg.cholesky(covariance), dtype=float)))
        return shaped.with_log_scale(self.typical_log_scale(len(covariance)))


class OperatorUpdate(Tunable[S]):
    """Base class of transitions by an operator, which has scale, target acceptance and shape.

    Attributes
    ----------
    operator : Operator
    """

    operator: Operator

    @property
    def log_scale(self) -> float:  # type: ignore[override]
        """Log scale of the operator."""
        return self.operator.log_scale

    @property
    def target_acceptance(self) -> float | None:  # type: ignore[override]
        """Target acceptance rate of the operator."""
        return self.operator.target_acceptance

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same update with another scale."""
        return self._with_operator(self.operator.with_log_scale(log_scale))

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return the update with steps in the shape of a covariance, and a scale to suit it."""
        return self._with_operator(self.operator.with_covariance(covariance))

    def _with_operator(self, operator: Operator) -> Self:
        return replace(self, operator=operator)  # type: ignore[type-var]

    def _info(self, outcome: Outcome, *, failed: bool) -> StepInfo:
        """Return the information on a move of the operator."""
        _, accepted, probability, n_evaluations, *_ = outcome
        return StepInfo(self.name, accepted, probability, n_evaluations, failed)
