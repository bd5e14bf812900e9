"""Operators: moves of coordinates under a conditional distribution.

The same operators move f given theta, and theta given what a parameterization holds fixed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..numerics.dynamics import IDENTITY, DensityPoint, P, Path, Root, leapfrog
from ..numerics.linalg import DenseRoot
from ..parameterizations import Conditional, Point
from .base import metropolis_accepts, shrinking

#: With a larger step the drift of a Langevin move would go beyond the mode of a Gaussian target.
_LARGEST_STEP = np.sqrt(2.0)


class Outcome(NamedTuple):
    """Result of a move by an operator."""

    point: Any  # of the class of the point at which it began
    accepted: bool
    acceptance_probability: float
    n_evaluations: int  # of the conditional density
    lost: FloatArray | None = None  # a visited position without density, if any
    failed: bool = False  # rejected because an iteration did not converge, or has no way back

    @classmethod
    def rejected(cls, point: Any, n_evaluations: int, lost: FloatArray | None) -> Outcome:
        """Return a rejection, because the proposal has no density."""
        return cls(point, False, 0.0, n_evaluations, lost)


class Operator(ABC):
    """A Markov kernel on the coordinates of a conditional distribution; frozen, settings only.

    Attributes
    ----------
    name : str
        Name in diagnostics.
    log_scale : float
        Log of the scale of its steps.
    target_acceptance : float or None
        Acceptance rate to which warm-up tunes the scale; None leaves it as it is.
    follows_gradient : bool
        Whether it uses the gradient of the density.
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
        """Return the log scale that suits a standard normal target, as a start for tuning."""

    def reversed(self) -> Self:
        """Return the operator of the reverse moves; by default itself, as most are reversible."""
        return self

    def by_coordinate(self, dim: int) -> list[Self]:
        """Return operators whose moves in turn make up this one; by default only itself."""
        return [self]

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same operator with another scale."""
        return self._with(log_scale=log_scale)

    def with_target(self, target_acceptance: float) -> Self:
        """Return the same operator, to be tuned to another acceptance rate."""
        return self._with(target_acceptance=target_acceptance)

    def with_root(self, root: Root) -> Self:
        """Return the same operator with steps of another shape; by default unchanged."""
        return self

    def with_covariance(self, covariance: FloatArray) -> Self:
        """Return the operator with steps in the shape of a covariance, and a scale to suit it."""
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
        """Return the same random walk with steps of another shape."""
        return self._with(root=root)


@dataclass(frozen=True)
class HamiltonianOperator(Operator):
    """An operator that follows Hamilton's equations.

    The number of steps is drawn from `fewest_steps`, ..., `max_steps`, and the step size varies by
    a tenth, both independently of the point. This avoids trajectory lengths that match a period of
    the target.

    Attributes
    ----------
    log_scale : float
        Log of the step size.
    target_acceptance : float or None, default=0.7
    max_steps : int, default=10
    fewest_steps : int, default=1
    """

    log_scale: float = -1.0
    target_acceptance: float | None = 0.7
    max_steps: int = 10
    fewest_steps: int = 1
    follows_gradient = True

    def n_steps(self, rng: np.random.Generator) -> int:
        """Draw the number of steps."""
        return int(rng.integers(self.fewest_steps, self.max_steps + 1))

    def step_sizes(self, rng: np.random.Generator, size: int | tuple[int, ...]) -> FloatArray:
        """Draw step sizes."""
        return np.asarray(np.exp(self.log_scale) * rng.uniform(0.9, 1.1, size=size))

    def typical_log_scale(self, dim: int) -> float:
        """Return log(0.8 dim^-1/4) (Neal, 2011)."""
        return float(np.log(0.8) - 0.25 * np.log(max(dim, 1)))


#: Radians, in the metric of a trajectory, that it covers at least and at most. After a quarter of a
#: period a Gaussian is forgotten, its mean and its spread.
TRAVEL = (0.3 * np.pi, 0.7 * np.pi)
#: Most steps of a trajectory whose length is given by its travel.
_MOST_STEPS = 20


@dataclass(frozen=True)
class Trajectory(HamiltonianOperator):
    """A leapfrog trajectory with the mass matrix (B B')^-1.

    **Invariant:** leaves the conditional distribution unchanged, for any root B that does not
    depend on x, as step size and number of steps are drawn independently of x.

    Attributes
    ----------
    log_scale, target_acceptance, max_steps, fewest_steps : as in `HamiltonianOperator`
    root : Root
        B.

    References
    ----------
    Filippone, Zhong & Girolami (2013), algorithms 1 and 4; Neal (1993, 2011). The Hamiltonian is
    that of the momenta B' p, which have the covariance I.
    """

    root: Root = IDENTITY
    name = "trajectory"

    @classmethod
    def quarter(cls, root: FloatArray, log_scale: float) -> Self:
        """Return trajectories that cover about a quarter of a period.

        Parameters
        ----------
        root : ndarray of shape (p, p)
            B, where B B' is close to the covariance of the target.
        log_scale : float
            Log of the step size.
        """
        fewest, most = (
            int(np.clip(np.rint(travel / np.exp(log_scale)), 1, _MOST_STEPS)) for travel in TRAVEL
        )
        return cls(log_scale, max_steps=most, fewest_steps=fewest, root=DenseRoot(root))

    def flown(
        self, at: Callable[[FloatArray], P | None], point: P, rng: np.random.Generator
    ) -> tuple[Path[P], Any]:
        """Follow one trajectory, or one from each point of a batch, all of as many steps.

        Also returned is the log ratio of its acceptance probability; (m,) for a batch.
        """
        n_steps = self.n_steps(rng)
        step = self.step_sizes(rng, np.shape(point.log_density))[..., None]
        begun = rng.standard_normal(point.position.shape)
        path = leapfrog(at, point, begun, step, self.root, n_steps)
        if path.end is None:
            return path, -np.inf
        with np.errstate(invalid="ignore"):  # of a batch, where some have left the support
            return path, _energy(path.end, path.momentum) - _energy(point, begun)

    def move(self, conditional: Any, point: Any, rng: np.random.Generator) -> Outcome:
        """Follow one trajectory, and accept or reject its end.

        All that it asks for is the `DensityPoint` at a position.
        """

        def at(position: FloatArray) -> Any:
            """Return the point at a finite position, else None."""
            return conditional.at(position) if math.isfinite(position.sum()) else None

        path, log_ratio = self.flown(at, point, rng)
        if path.end is None:
            return Outcome.rejected(point, path.n_evaluations, path.position)
        accepted, probability = metropolis_accepts(float(log_ratio), rng)
        end = path.end if accepted else point
        return Outcome(end, accepted, probability, path.n_evaluations)

    def with_root(self, root: Root) -> Self:
        """Return the same trajectory with momenta of another shape."""
        return self._with(root=root)


def _energy(point: DensityPoint, momentum: FloatArray) -> Any:
    """Minus the Hamiltonian."""
    return point.log_density - 0.5 * np.einsum("...r,...r->...", momentum, momentum)


@dataclass(frozen=True)
class Langevin(Operator):
    """x' ~ N(x + step^2/2 G^-1 gradient, step^2 G^-1), with the metric G at x (SMMALA).

    **Invariant:** leaves the conditional distribution unchanged, for any metric that is a function
    of x: the density of the reverse proposal uses the metric and the drift at x'.

    Attributes
    ----------
    log_scale : float
        Log of the step.
    target_acceptance : float or None, default=0.6

    References
    ----------
    Girolami & Calderhead (2011); Filippone, Zhong & Girolami (2013), (10) and algorithm 2.
    """

    log_scale: float = -0.5
    target_acceptance: float | None = 0.6
    name = "manifold Langevin"
    follows_gradient = True

    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Propose along the gradient, and accept or reject."""
        z = rng.standard_normal(len(point.position))
        position = self._mean(point) + self._step * point.metric_root.apply(z)
        candidate = conditional.at(position) if np.isfinite(position).all() else None
        if candidate is None:
            return Outcome.rejected(point, 1, position)
        back = candidate.metric_root.undo(point.position - self._mean(candidate)) / self._step
        log_ratio = (
            candidate.log_density
            - point.log_density
            + 0.5 * (z @ z - back @ back)
            + point.metric_root.log_det
            - candidate.metric_root.log_det
        )
        accepted, probability = metropolis_accepts(float(log_ratio), rng)
        return Outcome(candidate if accepted else point, accepted, probability, 1)

    def with_log_scale(self, log_scale: float) -> Self:
        """Return the same operator with another scale, limited to the largest useful one."""
        return super().with_log_scale(min(log_scale, float(np.log(_LARGEST_STEP))))

    def typical_log_scale(self, dim: int) -> float:
        """Return the log of dim^-1/6, as the metric has the scale of the target."""
        return -float(np.log(max(dim, 1))) / 6.0

    @property
    def _step(self) -> float:
        return float(min(np.exp(self.log_scale), _LARGEST_STEP))

    def _mean(self, point: Point) -> FloatArray:
        root = point.metric_root
        drift = root.apply(root.pull(point.gradient))
        return np.asarray(point.position + 0.5 * self._step**2 * drift)


@dataclass(frozen=True)
class UnivariateSlice(Operator):
    """Univariate slice sampling of each coordinate in turn, by stepping out and shrinkage.

    **Invariant:** leaves the conditional distribution unchanged; each coordinate's update is
    reversible. It never rejects, and needs no tuning.

    Attributes
    ----------
    log_scale : float
        Log of the width of the first bracket.
    max_widths : int, default=8
        Maximum number of widths that are stepped out.
    backwards : bool, default=False
        Update the coordinates in the opposite order, the last one first.
    spreads : tuple of float or None
        Standard deviation of each coordinate, to which the width is proportional; None is one.
    axes : tuple of int or None
        The coordinates to update, in this order; None is all.

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

    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Update every coordinate once, or those of `axes`."""
        line = _Line(conditional)
        widths = np.diag(self.spreads or np.ones(len(point.position)))
        axes = range(len(widths)) if self.axes is None else self.axes
        for axis in widths[list(axes)[:: -1 if self.backwards else 1]]:
            point = self._moved_along(line, axis, point, rng)
        return Outcome(point, True, 1.0, line.n_evaluations, line.lost)

    def reversed(self) -> Self:
        """Return the same updates in the opposite order, as each is reversible."""
        return self._with(backwards=not self.backwards)

    def by_coordinate(self, dim: int) -> list[Self]:
        """Return the updates of single coordinates."""
        axes = range(dim) if self.axes is None else self.axes
        return [self._with(axes=(axis,)) for axis in axes] or [self]

    def typical_log_scale(self, dim: int) -> float:
        """Return the present scale."""
        return self.log_scale

    def with_spreads_of(self, covariance: FloatArray) -> UnivariateSlice:
        """Return the same updates with widths from the variance of each coordinate."""
        return self._with(spreads=tuple(np.sqrt(covariance.diagonal()).tolist()))

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
        for shift in shrinking(low, high, rng):
            found = line.above(level, point, shift * axis)
            if found is not None:
                return found
        return point


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
