"""Moves of the particles of a pseudo-marginal chain at fixed theta.

Either one particle moves by elliptical slice sampling, or all particles but one are drawn anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..importance.estimate import ImportanceEstimate, estimate_many, weigh_many
from ..model.joint import LatentGP
from ..numerics.linalg import log_mean
from .base import BatchedTransition, StepInfo
from .elliptical_slice import EllipticalSlice
from .pseudo_marginal import PseudoMarginalState


class _ParticleMove(BatchedTransition[PseudoMarginalState]):
    """Base class of moves of the particles of a `PseudoMarginalMetropolis`."""

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> PseudoMarginalState | None:
        """Raise a TypeError: chains are started by a `PseudoMarginalMetropolis`."""
        raise TypeError("Particles are started by a PseudoMarginalMetropolis.")


@dataclass(frozen=True, eq=False)
class RetainedParticle(_ParticleMove):
    """Move one particle, drawn by weight, by steps that leave p(f | y, theta) unchanged.

    **Invariant:** leaves the extended target of `PseudoMarginalMetropolis` unchanged, with the same
    importance density and defensive share. The particle that is drawn by weight is an exact draw
    from p(f | y, theta), and elliptical slice steps preserve this; the other particles keep their
    law. The move removes a single particle with a huge weight, at which a chain would stay for
    long, for the cost of a few matrix-vector products.

    Attributes
    ----------
    defensive : float
        Defensive share of the estimates.
    n_steps : int
        Number of elliptical slice steps. A single step is too small in regions where the importance
        density is far too low: a chain would stay there for long.
    """

    defensive: float = 0.0
    n_steps: int = 2
    name = "retained particle"

    def step_many(
        self,
        model: LatentGP,
        states: Sequence[PseudoMarginalState],
        rngs: Sequence[np.random.Generator],
    ) -> list[tuple[PseudoMarginalState, StepInfo]]:
        """Draw a particle, move it, and put it back with its new weight."""
        chosen = []
        columns = []
        for state, rng in zip(states, rngs, strict=True):
            _ = state.density.factorize()  # a stored state has no factors
            index = state.estimate.draw_index(rng)
            latent = model.state_in(state.density.q.prior, state.estimate.particles[:, index])
            for _ in range(self.n_steps):
                latent, _ = EllipticalSlice().step(model, latent, rng)
            chosen.append(index)
            columns.append(latent.f[:, None])
        densities = [state.density for state in states]
        weights = weigh_many(model, densities, columns, defensive=self.defensive)
        made = []
        for state, index, f, log_weight in zip(states, chosen, columns, weights, strict=True):
            particles = state.estimate.particles.copy(order="K")
            log_weights = state.estimate.log_weights.copy()
            particles[:, index] = f[:, 0]
            log_weights[index] = log_weight[0]
            estimate = ImportanceEstimate(log_mean(log_weights), particles, log_weights)
            info = StepInfo(self.name, True, 1.0, 1.0 / len(f))
            made.append((state._replace(estimate=estimate, f=f[:, 0]), info))
        return made


@dataclass(frozen=True, eq=False)
class ParticleRefresh(_ParticleMove):
    """Draw new particles at the same theta.

    **Invariant:** leaves the extended target of `PseudoMarginalMetropolis` unchanged, with the same
    importance density, number of draws and defensive share; the move is always accepted. One
    particle, drawn by weight, is kept, and all other particles are drawn anew (conditional
    importance sampling; Andrieu, Doucet & Holenstein, 2010).

    Attributes
    ----------
    defensive : float
        Defensive share of the estimates.
    """

    defensive: float = 0.0
    name = "refresh"

    def step_many(
        self,
        model: LatentGP,
        states: Sequence[PseudoMarginalState],
        rngs: Sequence[np.random.Generator],
    ) -> list[tuple[PseudoMarginalState, StepInfo]]:
        """Keep one particle and replace the others."""
        estimates = estimate_many(
            model,
            [state.density.factorize() for state in states],  # a stored state has none
            [len(state.estimate.log_weights) for state in states],
            rngs,
            defensive=self.defensive,
            retained=[state.estimate.draw(rng) for state, rng in zip(states, rngs, strict=True)],
        )
        made = []
        for state, estimate, rng in zip(states, estimates, rngs, strict=True):
            info = StepInfo(self.name, True, 1.0, len(estimate.log_weights) / len(state.f))
            made.append((state._replace(estimate=estimate, f=estimate.draw(rng)), info))
        return made
