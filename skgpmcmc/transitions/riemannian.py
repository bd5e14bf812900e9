"""Riemannian manifold Hamiltonian Monte Carlo: the metric depends on the position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from .._typing import FloatArray
from ..parameterizations.base import ConditionalDensity, Point
from ..parameterizations.geometry import Geometry
from ..parameterizations.latent import LatentPoint
from .hmc import HamiltonianOperator
from .metropolis import metropolis_accepts
from .operator import Outcome

#: A point with a momentum.
PhasePoint: TypeAlias = tuple[LatentPoint, FloatArray]


@dataclass(eq=False)
class GeneralizedLeapfrog:
    """Integrator of Hamilton's equations for a metric G that depends on the position.

    ``H(v, p) = -log density + 1/2 log|G(v)| + 1/2 p'G(v)^-1 p``. The two implicit equations of a
    step are solved by fixed-point iteration. A step with solved equations preserves volume. It is
    reversible only if the reverse step finds the same solutions: see `RiemannianTrajectory`.

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

    def follow(self, point: LatentPoint, momentum: FloatArray, n_steps: int) -> PhasePoint | None:
        """Make `n_steps` steps; None without convergence of an iteration, or without a metric."""
        current: PhasePoint | None = (point, momentum)
        for _ in range(n_steps):
            current = None if current is None else self._step_once(*current)
        return current

    def _step_once(self, point: LatentPoint, momentum: FloatArray) -> PhasePoint | None:
        half = self._solve_fixed_point(lambda p: momentum + self._kick(point, p), momentum)
        if half is None:
            return None
        begun = 0.5 * self.step * _require_metric(point).velocity(half)

        def drifted(position: FloatArray) -> FloatArray | None:
            """Return the right-hand side of the implicit equation for the position."""
            geometry = self._point(position).geometry
            if geometry is None:
                return None
            return point.position + begun + 0.5 * self.step * geometry.velocity(half)

        position = self._solve_fixed_point(drifted, point.position + 2.0 * begun)
        end = None if position is None else self._point(position)
        if end is None or end.geometry is None:
            return None
        return end, half + self._kick(end, half)

    def _kick(self, point: LatentPoint, momentum: FloatArray) -> FloatArray:
        """Half a step times minus the gradient of H in v."""
        slope = point.gradient - _require_metric(point).gradient(momentum)
        return np.asarray(0.5 * self.step * slope)

    def _point(self, position: FloatArray) -> LatentPoint:
        self.n_points += 1
        found: LatentPoint = self.at(position)
        return found

    def _solve_fixed_point(
        self, update: Callable[[FloatArray], FloatArray | None], start: FloatArray
    ) -> FloatArray | None:
        """Return the fixed point of `update`; None if the iteration does not converge."""
        old = start
        for _ in range(self.max_iterations):
            new = update(old)
            if new is None or not np.isfinite(new).all():
                return None
            change = np.abs(new - old).max()
            if change <= self.tolerance * (1.0 + np.abs(new).max()):
                return new
            old = new
        return None


def _require_metric(point: LatentPoint) -> Geometry:
    """Return the metric of a point, which must have one."""
    assert point.geometry is not None
    return point.geometry


@dataclass(frozen=True)
class RiemannianTrajectory(HamiltonianOperator):
    """A trajectory of f with the metric K^-1 + P(f), where P is a curvature of the likelihood.

    P is `Likelihood.curvature`: minus the second derivative of log p(y | f), or zero where this is
    negative; a likelihood that is not log-concave may use the Fisher information instead.

    An implicit equation may have several solutions, so that the reverse of a trajectory may end
    elsewhere. A trajectory is accepted only if the integrator, started at its end with the opposite
    momentum, returns to the beginning. If it does not, or if an iteration does not converge in
    either direction, the trajectory is rejected and counts as failed.

    **Invariant:** leaves the conditional distribution of v = L^-1 f unchanged, up to the two
    tolerances. The map from a position and a momentum to the end and its opposite momentum (the
    identity if the trajectory does not return) is an involution that preserves volume: accepting
    its result with probability min(1, ratio) is a Metropolis move.

    Attributes
    ----------
    log_scale, target_acceptance, max_steps : as in `HamiltonianOperator`
    tolerance : float, default=1e-9
        Tolerance for solving the implicit equations: change of a component, relative to one plus
        the largest.
    max_iterations : int, default=50
        Maximum number of iterations for each implicit equation.
    return_tolerance : float, default=1e-6
        Largest difference of a component of position or momentum from the beginning, relative to
        one plus the largest, at which the reverse trajectory counts as a return. It is far above
        the accumulated errors of `tolerance`, and far below the distances between different
        solutions.

    References
    ----------
    Girolami & Calderhead (2011); Paquet & Fraccaro, algorithm 1, which has no way back; Lelièvre,
    Santet & Stoltz (2023), *Unbiasing Hamiltonian Monte Carlo algorithms for a general Hamiltonian
    function*.
    """

    tolerance: float = 1e-9
    max_iterations: int = 50
    return_tolerance: float = 1e-6
    name = "Riemannian trajectory"

    def move(
        self, conditional: ConditionalDensity, point: Point, rng: np.random.Generator
    ) -> Outcome:
        """Follow one trajectory, and accept or reject its end."""
        assert isinstance(point, LatentPoint)  # other points have no metric
        n_steps = self.n_steps(rng)
        step = float(self.step_sizes(rng, 1)[0])
        flow = GeneralizedLeapfrog(conditional.at, step, self.tolerance, self.max_iterations)
        z = rng.standard_normal(len(point.position))
        end = None
        if point.geometry is not None:
            begun = point.geometry.momentum(z)
            end = flow.follow(point, begun, n_steps)
        moved = point
        accepted = False
        probability = 0.0
        failed = end is None
        if end is not None:
            log_ratio = _log_phase_density(*end) - _log_phase_density(point, begun)
            accepted, probability = metropolis_accepts(log_ratio, rng)
            moved = end[0] if accepted else point
            # The reverse trajectory is expensive, and only needed for an accepted proposal.
            failed = accepted and not self._returns(flow, (point, begun), end, n_steps)
        # A point with a metric costs as much as an evaluation at another theta.
        n_evaluations = flow.n_points * len(point.position)
        if failed:
            return Outcome(point, False, 0.0, n_evaluations, failed=True)
        return Outcome(moved, accepted, probability, n_evaluations)

    def _returns(
        self, flow: GeneralizedLeapfrog, begin: PhasePoint, end: PhasePoint, n_steps: int
    ) -> bool:
        """Whether the reverse trajectory returns from the end to the beginning."""
        back = flow.follow(end[0], -end[1], n_steps)
        if back is None:
            return False
        pairs = ((begin[0].position, back[0].position), (begin[1], -back[1]))
        return all(
            np.abs(found - begun).max() <= self.return_tolerance * (1.0 + np.abs(begun).max())
            for begun, found in pairs
        )


def _log_phase_density(point: LatentPoint, momentum: FloatArray) -> float:
    """Minus the Hamiltonian, which is the log density of a point and a momentum."""
    return point.log_density - _require_metric(point).energy(momentum)
