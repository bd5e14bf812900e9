"""Riemannian manifold Hamiltonian Monte Carlo: the metric depends on the position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..parameterizations import Conditional, Geometry, LatentPoint, Point
from .base import metropolis_accepts
from .operators import HamiltonianOperator, Outcome


@dataclass(eq=False)
class GeneralizedLeapfrog:
    """Integrator of Hamilton's equations for a metric G that depends on the position.

    ``H(v, p) = -log density + 1/2 log|G(v)| + 1/2 p'G(v)^-1 p``. A step is reversible and keeps
    volume if its two implicit equations are solved; they are solved by fixed-point iteration.

    Attributes
    ----------
    at : callable
        Returns the point at a position, or None without a density.
    step : float
        Step size.
    tolerance : float
        Iterations stop when no component changes by more, relative to one plus its size.
    max_iterations : int
        Maximum number of iterations, after which the step fails.
    n_points : int
        Number of points at which the metric was computed.

    References
    ----------
    Girolami & Calderhead (2011), (16) to (18); Paquet & Fraccaro, (13) to (15) and algorithm 1.
    """

    at: Callable[[FloatArray], Any]
    step: float
    tolerance: float
    max_iterations: int
    n_points: int = 0

    def follow(
        self, point: LatentPoint, momentum: FloatArray, n_steps: int
    ) -> tuple[LatentPoint, FloatArray] | None:
        """Make steps; None if an iteration does not converge, or a point has no metric."""
        here: tuple[LatentPoint, FloatArray] | None = (point, momentum)
        for _ in range(n_steps):
            here = None if here is None else self._stepped(*here)
        return here

    def _stepped(
        self, point: LatentPoint, momentum: FloatArray
    ) -> tuple[LatentPoint, FloatArray] | None:
        half = self._solved(lambda p: momentum + self._kick(point, p), momentum)
        if half is None:
            return None
        begun = 0.5 * self.step * _metric(point).velocity(half)

        def drifted(position: FloatArray) -> FloatArray | None:
            """Return the right-hand side of the implicit equation for the position."""
            geometry = self._point(position).geometry
            if geometry is None:
                return None
            return point.position + begun + 0.5 * self.step * geometry.velocity(half)

        position = self._solved(drifted, point.position + 2.0 * begun)
        end = None if position is None else self._point(position)
        if end is None or end.geometry is None:
            return None
        return end, half + self._kick(end, half)

    def _kick(self, point: LatentPoint, momentum: FloatArray) -> FloatArray:
        """Half a step times minus the gradient of H in v."""
        slope = point.gradient - _metric(point).gradient(momentum)
        return np.asarray(0.5 * self.step * slope)

    def _point(self, position: FloatArray) -> LatentPoint:
        self.n_points += 1
        found: LatentPoint = self.at(position)
        return found

    def _solved(
        self, update: Callable[[FloatArray], FloatArray | None], start: FloatArray
    ) -> FloatArray | None:
        """Return the fixed point of `update`, or None."""
        here = start
        for _ in range(self.max_iterations):
            there = update(here)
            if there is None or not np.isfinite(there).all():
                return None
            change = np.abs(there - here).max()
            if change <= self.tolerance * (1.0 + np.abs(there).max()):
                return there
            here = there
        return None


def _metric(point: LatentPoint) -> Geometry:
    """Return the metric of a point that has one."""
    assert point.geometry is not None
    return point.geometry


@dataclass(frozen=True)
class RiemannianTrajectory(HamiltonianOperator):
    """A trajectory of f with the metric K^-1 + P(f), where P is a curvature of the likelihood.

    P is `Likelihood.curvature`: minus the second derivative of log p(y | f), or zero where this is
    negative; a likelihood that is not log-concave may use the Fisher information instead. If an
    iteration of the integrator does not converge, the trajectory is rejected and counts as failed.

    **Invariant:** leaves the conditional distribution of v = L^-1 f unchanged, up to the tolerance
    of the integrator.

    Attributes
    ----------
    log_scale, target_acceptance, max_steps : as in `HamiltonianOperator`
    tolerance : float, default=1e-9
        Tolerance for solving the implicit equations.
    max_iterations : int, default=50
        Maximum number of iterations for each of them.

    References
    ----------
    Girolami & Calderhead (2011); Paquet & Fraccaro, algorithm 1.
    """

    tolerance: float = 1e-9
    max_iterations: int = 50
    name = "Riemannian trajectory"

    def move(self, conditional: Conditional, point: Point, rng: np.random.Generator) -> Outcome:
        """Follow one trajectory, and accept or reject its end."""
        assert isinstance(point, LatentPoint)  # whose metric is known
        n_steps, step = self.steps(rng)
        flow = GeneralizedLeapfrog(conditional.at, step, self.tolerance, self.max_iterations)
        z, end = rng.standard_normal(len(point.position)), None
        if point.geometry is not None:
            begun = point.geometry.momentum(z)
            end = flow.follow(point, begun, n_steps)
        # A point with a metric costs what an evaluation with another theta does.
        cost = flow.n_points * len(point.position)
        if end is None:
            return Outcome(point, False, 0.0, cost, failed=True)
        log_ratio = _log_density(*end) - _log_density(point, begun)
        accepted, probability = metropolis_accepts(log_ratio, rng)
        return Outcome(end[0] if accepted else point, accepted, probability, cost)


def _log_density(point: LatentPoint, momentum: FloatArray) -> float:
    """Minus the Hamiltonian."""
    return point.log_density - _metric(point).energy(momentum)
