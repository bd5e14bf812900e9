"""Random-walk Metropolis-Hastings on any coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..parameterizations import Conditional, Point, Root
from .base import metropolis_accepts
from .operators import Operator, Outcome


@dataclass(frozen=True)
class RandomWalk(Operator):
    """x' = x + scale B z with z ~ N(0, I).

    **Invariant:** leaves the conditional distribution unchanged, for any root B that does not
    depend on x. In whitened coordinates of f with B = I it is the move "MH v1".

    Attributes
    ----------
    log_scale : float
    target_acceptance : float or None, default=0.25

    References
    ----------
    Filippone, Zhong & Girolami (2013), section 3.1 and (11); Neal (1999).
    """

    log_scale: float = 0.0
    target_acceptance: float | None = 0.25
    name = "random walk"

    def move(
        self, conditional: Conditional, point: Point, root: Root, rng: np.random.Generator
    ) -> Outcome:
        """Propose a step, and accept or reject it."""
        step = root.apply(rng.standard_normal(len(point.position)))
        position = point.position + np.exp(self.log_scale) * step
        candidate = conditional.at(position)
        if candidate is None:
            return Outcome.rejected(point, 1, position)
        log_ratio = candidate.log_density - point.log_density
        accepted, probability = metropolis_accepts(log_ratio, rng)
        return Outcome(candidate if accepted else point, accepted, probability, 1)

    def typical_log_scale(self, dim: int) -> float:
        """Return log(2.38 / sqrt(dim)) (Gelman, Roberts & Gilks, 1996)."""
        return float(np.log(2.38 / np.sqrt(max(dim, 1))))
