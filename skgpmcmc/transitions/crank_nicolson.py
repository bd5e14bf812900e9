"""Metropolis-Hastings on f with a proposal that keeps its prior ("MH v2")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..model import GPState, LatentGP
from .base import FromPrior, StepInfo, Tunable, metropolis_accepts


@dataclass(frozen=True)
class CrankNicolson(FromPrior, Tunable[GPState]):
    """f' = sqrt(1 - a^2) f + a u with u ~ N(0, K), accepted by the likelihood alone.

    The scale s that is tuned is any positive number: a = s / sqrt(1 + s^2).

    **Invariant:** leaves p(f | y, theta) unchanged; does not touch theta.

    Attributes
    ----------
    log_scale : float
        Log of s.
    target_acceptance : float or None, default=0.25

    References
    ----------
    Neal (1999); Filippone, Zhong & Girolami (2013), (12).
    """

    log_scale: float = -1.0
    target_acceptance: float | None = 0.25
    name = "prior-preserving walk on f"
    moves_theta = False

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Propose f', and accept or reject it."""
        scale = np.exp(self.log_scale)
        f = (state.f + scale * state.prior.sample(rng)) / np.hypot(1.0, scale)
        candidate = model.moved(state, f)
        accepted, probability = metropolis_accepts(candidate.log_lik - state.log_lik, rng)
        return candidate if accepted else state, StepInfo(
            self.name, accepted, probability, 1, False
        )

    def with_log_scale(self, log_scale: float) -> CrankNicolson:
        """Return the same move with another scale."""
        return replace(self, log_scale=log_scale)
