"""Elliptical slice sampling of f."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model.joint import GPState, LatentGP
from .base import PriorStart, StepInfo
from .slice import shrink_bracket


@dataclass(frozen=True)
class EllipticalSlice(PriorStart):
    """Move f on an ellipse through the current point and a draw from the prior.

    **Invariant:** leaves p(f | y, theta) unchanged; theta does not change. The move has no
    settings, and is never rejected.

    References
    ----------
    Murray, Adams & MacKay (2010); Filippone, Zhong & Girolami (2013), algorithm 3 (whose bracket
    must shrink to the rejected angle, not to 0 as printed).
    """

    name = "elliptical slice"
    moves_theta = False

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Make one elliptical slice update of f."""
        nu = state.prior.sample(rng)
        log_level = state.log_lik + np.log1p(-rng.uniform())
        first = rng.uniform(0.0, 2.0 * np.pi)
        n_evaluations = 0

        def within(angle: float) -> GPState | None:
            """Return the state at an angle; None where its likelihood is too low."""
            nonlocal n_evaluations
            n_evaluations += 1
            candidate = model.with_latent(state, state.f * np.cos(angle) + nu * np.sin(angle))
            return candidate if candidate.log_lik > log_level else None

        moved = shrink_bracket(within, first - 2.0 * np.pi, first, rng, first)
        if moved is None:
            return state, StepInfo(self.name, False, 0.0, n_evaluations)
        return moved, StepInfo(self.name, True, 1.0, n_evaluations)
