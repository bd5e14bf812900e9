"""The unbiased importance-sampling estimate of p(y | theta)."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from .._typing import FloatArray
from ..model import LatentGP
from ..numerics.linalg import log_mean
from ..numerics.threads import Asking, alone, done
from .base import GaussianApproximation, LatentDraws
from .sequential import SequentialApproximation


class Density(Protocol):
    """A density of f at one theta that can be drawn from, near p(f | y, theta)."""

    @property
    def q(self) -> GaussianApproximation:
        """The Gaussian it is made of; itself if it is Gaussian."""

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays of shape (n,) that make it again, with the prior; see `density_from`."""

    def made(self) -> Density:
        """Return itself, all factors made now: this is where a K that is no covariance shows."""

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log density relative to N(f; 0, K) for each column of f of shape (n, m); (m,)."""


class ReferenceDensity(Protocol):
    """Gives an importance density at any theta, a deterministic function of (model, theta)."""

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""


class ImportanceEstimate(NamedTuple):
    """An estimate of p(y | theta) and the weighted draws of f that it was made of."""

    log_likelihood: float  # log of the unbiased estimate, natural log
    particles: FloatArray  # (n, N): draws of f, one per column
    log_weights: FloatArray  # (N,)

    def draw_index(self, rng: np.random.Generator) -> int:
        """Position of one particle, with probability proportional to its weight.

        Under the extended target of the pseudo-marginal chain that particle is an exact draw from
        p(f | y, theta) (Andrieu, Doucet & Holenstein, 2010).
        """
        cumulative = np.cumsum(np.exp(self.log_weights - self.log_weights.max()))
        index = np.searchsorted(cumulative, rng.uniform() * cumulative[-1], side="right")
        return min(int(index), len(cumulative) - 1)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One particle with probability proportional to its weight; (n,)."""
        return self.particles[:, self.draw_index(rng)]

    def with_particle(self, index: int, f: FloatArray, log_weight: float) -> ImportanceEstimate:
        """Return the estimate with another f of shape (n,) in the place of one particle."""
        particles, log_weights = self.particles.copy(order="K"), self.log_weights.copy()
        particles[:, index] = f
        log_weights[index] = log_weight
        return ImportanceEstimate(log_mean(log_weights), particles, log_weights)


def importance_estimate(
    model: LatentGP,
    density: Density,
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float = 0.0,
    retained: FloatArray | None = None,
) -> ImportanceEstimate:
    """Estimate p(y | theta) = E_g[p(y | f) p(f | theta) / g(f)] without bias.

    Parameters
    ----------
    model : LatentGP
        Gives p(y | f).
    density : Density
        The density g(f) at the theta in question. Any g is valid; a good one has little variance.
    n_draws : int
        Number of independent draws N.
    rng : numpy.random.Generator
        For the draws.
    defensive : float in [0, 1), default=0.0
        Probability with which a draw is taken from the prior instead of g. A positive value
        bounds the weights of a bounded likelihood by max p(y | f) / defensive; with 0, as in
        the paper, their variance can be infinite.
    retained : ndarray of shape (n,), optional
        Put this f in place of the first draw. If it comes from p(f | y, theta), the particles
        have their law under the extended target (conditional importance sampling), instead of
        their law under g.

    Returns
    -------
    ImportanceEstimate
        The log of the estimate, and the weighted draws.

    References
    ----------
    Filippone & Girolami (2014), (25)-(27); Owen & Zhou (2000) for the defensive mixture.
    """
    return alone(estimating(model, density, n_draws, rng, defensive=defensive, retained=retained))


def estimating(
    model: LatentGP,
    density: Density,
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float = 0.0,
    retained: FloatArray | None = None,
) -> Asking[ImportanceEstimate]:
    """Make an `importance_estimate`, in step with others."""
    own = rng.uniform(size=n_draws) >= defensive  # the others come from the prior
    if retained is not None:
        own[0] = False
    prior = density.q.prior
    f, log_ratio = np.empty((prior.size, n_draws), order="F"), np.empty(n_draws)
    if own.any():
        f[:, own], log_ratio[own] = yield from _drawing(density, rng, int(own.sum()))
    if not own.all():
        others = prior.sample(rng, int((~own).sum()))
        if retained is not None:
            others[:, 0] = retained
        f[:, ~own], log_ratio[~own] = others, (yield from _comparing(density, others))
    log_weights = model.observations_at(prior.theta).totals(f) - mixed(log_ratio, defensive)
    return ImportanceEstimate(log_mean(log_weights), f, log_weights)


def _drawing(density: Density, rng: np.random.Generator, size: int) -> Asking[LatentDraws]:
    if isinstance(density, SequentialApproximation):
        return density.drawing(rng, size)
    return done(density.sample(rng, size))


def _comparing(density: Density, f: FloatArray) -> Asking[FloatArray]:
    if isinstance(density, SequentialApproximation):
        return density.comparing(f)
    return done(density.log_ratio_to_prior(f))


def log_importance_weights(
    model: LatentGP, density: Density, f: FloatArray, *, defensive: float = 0.0
) -> FloatArray:
    """``log [p(y | f) N(f; 0, K) / g(f)]`` for each column of f of shape (n, N); (N,).

    With `defensive` = c the denominator is the mixture (1 - c) g + c N(0, K).
    """
    return alone(weighing(model, density, f, defensive))


def weighing(
    model: LatentGP, density: Density, f: FloatArray, defensive: float
) -> Asking[FloatArray]:
    """Compute `log_importance_weights`, in step with others."""
    log_ratio = yield from _comparing(density, f)
    totals = model.observations_at(density.q.prior.theta).totals(f)
    return totals - mixed(log_ratio, defensive)


def mixed(log_ratio: FloatArray, defensive: float) -> FloatArray:
    """Log of the density relative to the prior, a share of the draws being from that."""
    if defensive == 0.0:
        return log_ratio
    return np.asarray(np.logaddexp(np.log1p(-defensive) + log_ratio, np.log(defensive)))
