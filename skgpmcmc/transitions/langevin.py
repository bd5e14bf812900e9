"""Langevin moves: a step along the gradient, in a metric that may depend on the position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .._typing import FloatArray
from ..parameterizations.base import ConditionalDensity, Point
from .metropolis import metropolis_accepts
from .operator import Operator, Outcome

#: Largest step in units of the metric: beyond it the drift overshoots the mode of a Gaussian.
_LARGEST_STEP = np.sqrt(2.0)


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

    def move(
        self, conditional: ConditionalDensity, point: Point, rng: np.random.Generator
    ) -> Outcome:
        """Propose along the gradient, and accept or reject."""
        z = rng.standard_normal(len(point.position))
        position = self._mean(point) + self._step * point.metric_root.apply(z)
        candidate = conditional.at(position) if np.isfinite(position).all() else None
        if candidate is None:
            return Outcome.rejected(point, 1, position)
        back = candidate.metric_root.solve(point.position - self._mean(candidate)) / self._step
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
        drift = root.apply(root.apply_transpose(point.gradient))
        return np.asarray(point.position + 0.5 * self._step**2 * drift)
