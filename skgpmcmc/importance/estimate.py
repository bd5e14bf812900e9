"""The unbiased importance-sampling estimate of p(y | theta)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._typing import BoolArray, FloatArray
from ..approximations.base import LatentDraws
from ..model.joint import LatentGP
from ..numerics.linalg import log_mean
from .density import Density
from .sequential import draw_many, log_ratio_many


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
        particles = self.particles.copy(order="K")
        log_weights = self.log_weights.copy()
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
    (estimate,) = estimate_many(
        model, [density], [n_draws], [rng], defensive=defensive, retained=[retained]
    )
    return estimate


def estimate_many(
    model: LatentGP,
    densities: Sequence[Density],
    n_draws: Sequence[int],
    rngs: Sequence[np.random.Generator],
    *,
    defensive: float = 0.0,
    retained: Sequence[FloatArray | None] | None = None,
) -> list[ImportanceEstimate]:
    """Make an `importance_estimate` for each of several densities.

    Rows in turn are drawn for all densities in one call. The result of each does not depend on the
    other ones, to the last bit.
    """
    keeps = [None] * len(densities) if retained is None else retained
    # The other draws come from the prior.
    from_density = [rng.uniform(size=n) >= defensive for n, rng in zip(n_draws, rngs, strict=True)]
    for mask, keep in zip(from_density, keeps, strict=True):
        if keep is not None:
            mask[0] = False
    sizes = [int(mask.sum()) for mask in from_density]
    drawn = draw_many(densities, rngs, sizes)
    others = [
        _from_prior(density, len(mask) - size, keep, rng)
        for density, mask, size, keep, rng in zip(
            densities, from_density, sizes, keeps, rngs, strict=True
        )
    ]
    ratios = log_ratio_many(densities, others)
    return [
        _combine(model, density, mask, own, f, log_ratio, defensive)
        for density, mask, own, f, log_ratio in zip(
            densities, from_density, drawn, others, ratios, strict=True
        )
    ]


def _from_prior(
    density: Density, size: int, retained: FloatArray | None, rng: np.random.Generator
) -> FloatArray:
    """Draw f from the prior, with the retained f in place of the first draw; (n, size)."""
    prior = density.q.prior
    if size == 0:
        return np.empty((prior.size, 0))
    f = prior.sample(rng, size)
    if retained is not None:
        f[:, 0] = retained
    return f


def _combine(
    model: LatentGP,
    density: Density,
    mask: BoolArray,
    own: LatentDraws,
    others: FloatArray,
    log_ratio_of_others: FloatArray,
    defensive: float,
) -> ImportanceEstimate:
    """Weight the draws from a density, which the mask marks, and those from the prior."""
    prior = density.q.prior
    f = np.empty((prior.size, len(mask)), order="F")
    log_ratio = np.empty(len(mask))
    f[:, mask], log_ratio[mask] = own
    f[:, ~mask] = others
    log_ratio[~mask] = log_ratio_of_others
    log_weights = model.observations_at(prior.theta).totals(f) - mix_with_prior(
        log_ratio, defensive
    )
    return ImportanceEstimate(log_mean(log_weights), f, log_weights)


def log_importance_weights(
    model: LatentGP, density: Density, f: FloatArray, *, defensive: float = 0.0
) -> FloatArray:
    """``log [p(y | f) N(f; 0, K) / g(f)]`` for each column of f of shape (n, N); (N,).

    With `defensive` = c the denominator is the mixture (1 - c) g + c N(0, K).
    """
    return weigh_many(model, [density], [f], defensive=defensive)[0]


def weigh_many(
    model: LatentGP, densities: Sequence[Density], fs: Sequence[FloatArray], *, defensive: float
) -> list[FloatArray]:
    """Compute `log_importance_weights` for each of several densities, with f of its own."""
    ratios = log_ratio_many(densities, fs)
    return [
        model.observations_at(density.q.prior.theta).totals(f)
        - mix_with_prior(log_ratio, defensive)
        for density, f, log_ratio in zip(densities, fs, ratios, strict=True)
    ]


def mix_with_prior(log_ratio: FloatArray, defensive: float) -> FloatArray:
    """Log of the density relative to the prior, a share of the draws being from that."""
    if defensive == 0.0:
        return log_ratio
    return np.asarray(np.logaddexp(np.log1p(-defensive) + log_ratio, np.log(defensive)))
