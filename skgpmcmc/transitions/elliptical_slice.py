"""Elliptical slice sampling of the latent function."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model import GPState, LatentGP
from .base import FromPrior, StepInfo

#: The bracket shrinks by about a third each time: 200 shrinks reach the resolution of doubles.
_MAX_SHRINKS = 200


@dataclass(frozen=True)
class EllipticalSlice(FromPrior):
    """Move f on an ellipse through the current point and a draw from the prior.

    **Invariant:** leaves p(f | y, theta) unchanged; does not touch theta. It has no settings and
    never rejects.

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
        """One elliptical slice update of f."""
        nu = state.prior.sample(rng)
        log_level = state.log_lik + np.log1p(-rng.uniform())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        lower, upper = angle - 2.0 * np.pi, angle
        for n_evaluations in range(1, _MAX_SHRINKS + 1):
            candidate = model.moved(state, state.f * np.cos(angle) + nu * np.sin(angle))
            if candidate.log_lik > log_level:
                return candidate, StepInfo(self.name, True, 1.0, n_evaluations, False)
            if angle < 0.0:
                lower = angle
            else:
                upper = angle
            angle = rng.uniform(lower, upper)
        # The slice holds the current point, so this happens only where rounding decides (level
        # equal to log_lik to the last bit): staying put is then the exact move.
        return state, StepInfo(self.name, False, 0.0, _MAX_SHRINKS, False)
