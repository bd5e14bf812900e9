"""Pseudo-marginal Metropolis-Hastings: an exact chain from an unbiased likelihood estimate.

Its particles move as f alone does, by an elliptical slice, or are drawn anew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations import (
    Density,
    ImportanceEstimate,
    Quadratic,
    ReferenceDensity,
    importance_estimate,
)
from ..approximations.importance import estimating, weighing
from ..model import GPState, LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..numerics.threads import Asking, alone
from .base import (
    Evaluated,
    Evaluating,
    FromPrior,
    InStep,
    Moving,
    Proposal,
    StepInfo,
    Transition,
    shrinking,
)


class PseudoMarginalState(NamedTuple):
    """A point of the extended space: theta and the particles that estimated p(y | theta)."""

    theta: FloatArray  # (p,), natural logs
    log_hyperprior: float
    density: Density  # what the particles were drawn from, a function of theta
    estimate: ImportanceEstimate  # replaced only together with all but one of its particles
    f: FloatArray  # (n,), one particle, drawn by weight at every step
    direction: int = 0  # see `Directed`


@dataclass(frozen=True, eq=False)
class DrawCount:
    """How many importance draws an estimate takes: a fixed function of theta.

    With N draws the log of the estimate has a variance of about v(theta) / N, where v is the
    relative variance of a single weight. N keeps that near a target all over the posterior.

    Attributes
    ----------
    log_variance : Quadratic
        Log of v.
    target_sd : float
        Standard deviation of the log estimate that is aimed at.
    lowest, highest : int
        Bounds of N.
    """

    log_variance: Quadratic
    target_sd: float
    lowest: int
    highest: int

    def at(self, theta: FloatArray) -> int:
        """N at theta of shape (p,)."""
        log_n = float(self.log_variance.value(theta)) - 2.0 * math.log(self.target_sd)
        return min(max(math.ceil(math.exp(min(log_n, 50.0))), self.lowest), self.highest)


@dataclass(frozen=True, eq=False)
class PseudoMarginalMetropolis(Evaluating[PseudoMarginalState]):
    """MH on theta in which an unbiased estimate stands for p(y | theta).

    **Invariant:** leaves the extended target p(theta) prod_i g(f_i | theta) * estimate unchanged,
    whose marginal in (theta, f), with f a particle drawn by weight, is p(theta, f | y) exactly,
    for any number of draws N(theta) >= 1. The estimate at the current theta stays what it was when
    theta was accepted: recomputing it would break this.

    Attributes
    ----------
    reference : ReferenceDensity
        Gives the importance density, a function of theta alone.
    proposal : Proposal
    n_importance : int or DrawCount
        Draws per estimate, N: a number, or a function of theta alone.
    defensive : float
        Share of the draws taken from the prior, see `importance_estimate`.
    name : str
        What diagnostics call the move.

    References
    ----------
    Filippone & Girolami (2014), algorithm 1 and (25); Andrieu & Roberts (2009). Unlike section 3.3
    of the paper, f is not carried along and refreshed, which is not exact: it is drawn from the
    particles.
    """

    reference: ReferenceDensity
    proposal: Proposal
    n_importance: int | DrawCount
    defensive: float = 0.0
    name: str = "pseudo-marginal random walk"

    def start(
        self,
        model: LatentGP,
        theta: FloatArray,
        rng: np.random.Generator,
        *,
        retained: FloatArray | None = None,
    ) -> PseudoMarginalState | None:
        """Return a state at theta with fresh particles.

        With `retained`, a draw from p(f | y, theta), the particles have their law under the
        extended target: the state is then a draw from it if theta is one from p(theta | y).
        """
        found = alone(self.evaluating(model, theta, rng, retained=retained))
        return None if found is None else found.state

    def evaluated(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> Evaluated[PseudoMarginalState] | None:
        """Return theta with fresh particles."""
        return alone(self.evaluating(model, theta, rng))

    def evaluating(
        self,
        model: LatentGP,
        theta: FloatArray,
        rng: np.random.Generator,
        *,
        retained: FloatArray | None = None,
    ) -> Asking[Evaluated[PseudoMarginalState] | None]:
        """Return `evaluated`, in step with other chains; for `retained` see `start`."""
        log_hyperprior = model.hyperprior.log_prob(theta)
        if not np.isfinite(log_hyperprior):
            return None
        try:
            density = self.reference.at(model, theta)
            _ = density.made()  # all factors: this is where a K that is no covariance shows
            n_draws = self._n_draws(theta)
            estimate = yield from estimating(
                model, density, n_draws, rng, defensive=self.defensive, retained=retained
            )
        except NotPositiveDefiniteError:
            return None
        if not np.isfinite(estimate.log_likelihood):
            return None
        f = estimate.draw(rng)
        state = PseudoMarginalState(theta, log_hyperprior, density, estimate, f)
        return Evaluated(state, self.log_target(state))

    def log_target(self, state: PseudoMarginalState) -> float:
        """Log of the estimate times p(theta)."""
        return state.log_hyperprior + state.estimate.log_likelihood

    def completed(
        self, found: Evaluated[PseudoMarginalState], rng: np.random.Generator
    ) -> PseudoMarginalState:
        """Draw f by weight."""
        return self.stayed(found.state, rng)

    def stayed(self, state: PseudoMarginalState, rng: np.random.Generator) -> PseudoMarginalState:
        """Draw f by weight."""
        return state._replace(f=state.estimate.draw(rng))

    def log_likelihood_sd(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator, n_replicates: int = 30
    ) -> float:
        """Standard deviation of the log estimate at theta, over fresh particles.

        NaN if K is no covariance at theta, and infinite if an estimate there is zero.
        """
        try:
            density, n = self.reference.at(model, theta).made(), self._n_draws(theta)
            estimates = np.array(
                [
                    importance_estimate(
                        model, density, n, rng, defensive=self.defensive
                    ).log_likelihood
                    for _ in range(n_replicates)
                ]
            )
        except NotPositiveDefiniteError:
            return float("nan")
        if not np.isfinite(estimates).all():
            return float("inf")
        with np.errstate(over="ignore"):  # a spread beyond 1e154 counts as infinite
            return float(np.std(estimates, ddof=1))

    def _n_draws(self, theta: FloatArray) -> int:
        count = self.n_importance
        return count if isinstance(count, int) else count.at(theta)


class _OfParticles(Transition[PseudoMarginalState]):
    """A move of particles that others have drawn."""

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> PseudoMarginalState | None:
        """Refuse: particles come from a `PseudoMarginalMetropolis`."""
        raise TypeError("Particles are started by a PseudoMarginalMetropolis.")


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
        first = rng.uniform(0.0, 2.0 * np.pi)
        angles = chain([first], shrinking(first - 2.0 * np.pi, first, rng))
        for n_evaluations, angle in enumerate(angles, start=1):
            candidate = model.moved(state, state.f * np.cos(angle) + nu * np.sin(angle))
            if candidate.log_lik > log_level:
                return candidate, StepInfo(self.name, True, 1.0, n_evaluations)
        return state, StepInfo(self.name, False, 0.0, n_evaluations)


@dataclass(frozen=True, eq=False)
class RetainedParticle(_OfParticles, InStep[PseudoMarginalState]):
    """Move one particle within p(f | y, theta): the cheap half of a refresh.

    **Invariant:** leaves the extended target of `PseudoMarginalMetropolis` unchanged, with the same
    importance density and defensive share. The particle that is drawn by weight is an exact draw
    from p(f | y, theta) and stays one under elliptical slice steps; the others keep their law. So a
    single particle with a huge weight, which is what makes a chain stay, does not last, for the
    cost of a few matrix-vector products.

    Attributes
    ----------
    defensive : float
        That of the estimates.
    n_steps : int
        Elliptical slice steps. One alone moves too slowly where the importance density is far too
        low: a chain would stay there for long.
    """

    defensive: float = 0.0
    n_steps: int = 2
    name = "retained particle"

    def moving(
        self, model: LatentGP, state: PseudoMarginalState, rng: np.random.Generator
    ) -> Moving[PseudoMarginalState]:
        """Draw a particle, move it, and put it back with its new weight."""
        _ = state.density.made()  # all factors that a state at rest has lost
        index = state.estimate.draw_index(rng)
        latent = model.state_in(state.density.q.prior, state.estimate.particles[:, index])
        for _ in range(self.n_steps):
            latent, _ = EllipticalSlice().step(model, latent, rng)
        column = latent.f[:, None]
        (log_weight,) = yield from weighing(model, state.density, column, self.defensive)
        estimate = state.estimate.with_particle(index, latent.f, log_weight)
        info = StepInfo(self.name, True, 1.0, 1.0 / len(latent.f))
        return state._replace(estimate=estimate, f=latent.f), info


@dataclass(frozen=True, eq=False)
class ParticleRefresh(_OfParticles, InStep[PseudoMarginalState]):
    """New particles at the same theta.

    **Invariant:** leaves the extended target of `PseudoMarginalMetropolis` unchanged, with the same
    importance density, number of draws and defensive share; it is always accepted. One particle,
    drawn by weight, is kept, and all the others are drawn anew (conditional importance sampling;
    Andrieu, Doucet & Holenstein, 2010).

    Attributes
    ----------
    defensive : float
        That of the estimates.
    """

    defensive: float = 0.0
    name = "refresh"

    def moving(
        self, model: LatentGP, state: PseudoMarginalState, rng: np.random.Generator
    ) -> Moving[PseudoMarginalState]:
        """Keep one particle and replace the others."""
        _ = state.density.made()  # all factors that a state at rest has lost
        n_draws = len(state.estimate.log_weights)
        kept = state.estimate.draw(rng)
        estimate = yield from estimating(
            model, state.density, n_draws, rng, defensive=self.defensive, retained=kept
        )
        info = StepInfo(self.name, True, 1.0, n_draws / len(state.f))
        return state._replace(estimate=estimate, f=estimate.draw(rng)), info
