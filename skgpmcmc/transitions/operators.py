"""What an operator is: a way to move some coordinates, whatever they stand for; and the simplest.

The same operators move f given theta and theta given what a parameterization keeps still.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..numerics.roots import IDENTITY, DenseRoot, Root
from ..parameterizations import Conditional, Point
from .base import metropolis_accepts


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
    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Make one move."""

    @abstractmethod
    def typical_log_scale(self, dim: int) -> float:
        """Return the log scale that suits a standard normal target, where tuning may begin."""

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same operator with another scale."""
        return self._with(log_scale=log_scale)

    def with_target(self, target_acceptance: float) -> Self:
        """Return the same operator, to be tuned to another acceptance rate."""
        return self._with(target_acceptance=target_acceptance)

    def with_root(self, root: Root) -> Self:
        """Return the same operator with steps of another shape; here, as it is."""
        return self

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return it with steps in the shape of a covariance, and the scale that goes with it."""
        shaped = self.with_root(DenseRoot.of_covariance(covariance))
        return shaped.with_log_scale(self.typical_log_scale(len(covariance)))

    def _with(self, **changes: Any) -> Self:
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True)
class RandomWalk(Operator):
    """x' = x + scale B z with z ~ N(0, I).

    As a proposal of theta it is symmetric: its log Hastings ratio is zero.

    **Invariant:** leaves the conditional distribution unchanged, for any root B that does not
    depend on x. In whitened coordinates of f with B = I it is the move "MH v1".

    Attributes
    ----------
    log_scale : float
    target_acceptance : float or None, default=0.25
    root : Root
        B.

    References
    ----------
    Filippone, Zhong & Girolami (2013), section 3.1 and (11); Neal (1999).
    """

    log_scale: float = 0.0
    target_acceptance: float | None = 0.25
    root: Root = IDENTITY
    name = "random walk"

    def propose(self, x: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return x' and 0."""
        step = self.root.apply(rng.standard_normal(len(x)))
        return x + np.exp(self.log_scale) * step, 0.0

    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Propose a step, and accept or reject it."""
        position, _ = self.propose(point.position, rng)
        candidate = conditional.at(position)
        if candidate is None:
            return Outcome.rejected(point, 1, position)
        log_ratio = candidate.log_density - point.log_density
        accepted, probability = metropolis_accepts(log_ratio, rng)
        return Outcome(candidate if accepted else point, accepted, probability, 1)

    def typical_log_scale(self, dim: int) -> float:
        """Return log(2.38 / sqrt(dim)) (Gelman, Roberts & Gilks, 1996)."""
        return float(np.log(2.38 / np.sqrt(max(dim, 1))))

    def with_root(self, root: Root) -> Self:
        """Return the same walk with steps of another shape."""
        return self._with(root=root)
