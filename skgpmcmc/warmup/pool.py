"""Many short chains at once under a cheap density: for scales, candidates and starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..transitions import CheapDensity, CheapPoint, Leapfrog

__all__ = ["Pool", "Tempered", "run_pool"]

_TARGET_ACCEPTANCE = 0.9
#: A trajectory goes about a quarter of a period, after which a Gaussian is forgotten.
_TRAVEL = 0.5 * np.pi
_MAX_LEAPFROG = 20


@dataclass(frozen=True, eq=False)
class Tempered:
    """A density to a power below one: wider tails."""

    target: CheapDensity
    power: float

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density (...) and its gradient (..., p)."""
        value, gradient = self.target.value_and_gradient(theta)
        return self.power * value, self.power * gradient


class Pool(NamedTuple):
    """Where the chains of a pool were in its second half."""

    theta: FloatArray  # (n_kept, m, p)
    leapfrog: Leapfrog  # as tuned in the first half


def run_pool(
    target: CheapDensity,
    theta: FloatArray,
    root: FloatArray,
    n_moves: int,
    rng: np.random.Generator,
) -> Pool:
    """Move chains from theta (m, p) by trajectories in the metric `root`, tuning their step."""
    point = CheapPoint.at(target, theta)
    log_step = np.log(0.5)
    kept = []
    for i in range(n_moves):
        leapfrog = _leapfrog(root, float(np.exp(log_step)))
        point, probability = leapfrog.move(target, point, rng)
        if i < n_moves // 2:
            gain = 1.5 / (i + 2.0) ** 0.6
            log_step += gain * (float(probability.mean()) - _TARGET_ACCEPTANCE)
        else:
            kept.append(point.theta)
    return Pool(np.array(kept), leapfrog)


def _leapfrog(root: FloatArray, step: float) -> Leapfrog:
    step = min(step, 1.0)
    return Leapfrog(root, step, int(np.clip(np.ceil(_TRAVEL / step), 1, _MAX_LEAPFROG)))
