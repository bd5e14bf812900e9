"""The unbiased importance-sampling estimate of p(y | theta)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from ..numerics.linalg import log_mean
from .density import Density
from .sequential import draw_many, log_ratio_many


class ImportanceEstimate(NamedTuple):
    """An estimate of p(y | theta), and the weighted draws of f (particles) it is computed from."""

    log_likelihood: float  # log of the unbiased estimate, natural log
    particles: FloatArray  # (n, N): draws of f, one per column
    log_weights: FloatArray  # (N,)

    def draw_index(self, rng: np.random.Generator) -> int:
        """Draw the position of a particle, with probability proportional to its weight.

        Under the extended target of the pseudo-marginal chain this particle is an exact draw from
        p(f | y, theta) (Andrieu, Doucet & Holenstein, 2010).
        """
        cumulative = np.cumsum(np.exp(self.log_weights - self.log_weights.max()))
        index = np.searchsorted(cumulative, rng.uniform() * cumulative[-1], side="right")
        return min(int(index), len(cumulative) - 1)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw a particle with probability proportional to its weight; (n,)."""
        return self.particles[:, self.draw_index(rng)]


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
        Model whose likelihood p(y | f) is used.
    density : Density
        The importance density g(f) at one theta. Any g is valid; a good g gives little variance.
    n_draws : int
        Number of independent draws N.
    rng : numpy.random.Generator
        Random stream of the draws.
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

    Sequential rows are drawn for all densities in one call. The result for a density does not
    depend on the other densities, to the last bit.
    """
    keeps = [None] * len(densities) if retained is None else retained
    # Draws that do not come from the density come from the prior (defensive mixture).
    from_density = [rng.uniform(size=n) >= defensive for n, rng in zip(n_draws, rngs, strict=True)]
    for mask, keep in zip(from_density, keeps, strict=True):
        if keep is not None:
            mask[0] = False
    drawn = draw_many(densities, rngs, [int(mask.sum()) for mask in from_density])
    prior_draws = []
    for density, mask, keep, rng in zip(densities, from_density, keeps, rngs, strict=True):
        size = int(np.count_nonzero(~mask))
        prior = density.q.prior
        f = prior.sample(rng, size) if size else np.empty((prior.size, 0))
        if keep is not None:
            f[:, 0] = keep
        prior_draws.append(f)
    ratios = log_ratio_many(densities, prior_draws)
    estimates = []
    parts = zip(densities, from_density, drawn, prior_draws, ratios, strict=True)
    for density, mask, own, of_prior, ratio_of_prior in parts:
        prior = density.q.prior
        f = np.empty((prior.size, len(mask)), order="F")
        log_ratio = np.empty(len(mask))
        f[:, mask], log_ratio[mask] = own
        f[:, ~mask] = of_prior
        log_ratio[~mask] = ratio_of_prior
        log_weights = _weigh(model, density, f, log_ratio, defensive)
        estimates.append(ImportanceEstimate(log_mean(log_weights), f, log_weights))
    return estimates


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
    """Compute `log_importance_weights` for several densities, each with its own f."""
    ratios = log_ratio_many(densities, fs)
    return [
        _weigh(model, density, f, log_ratio, defensive)
        for density, f, log_ratio in zip(densities, fs, ratios, strict=True)
    ]


def _weigh(
    model: LatentGP, density: Density, f: FloatArray, log_ratio: FloatArray, defensive: float
) -> FloatArray:
    """Return the log weights of f (n, N), from the log ratios of the density to the prior; (N,)."""
    if defensive > 0.0:
        log_ratio = np.logaddexp(np.log1p(-defensive) + log_ratio, np.log(defensive))
    return model.observations_at(density.q.prior.theta).totals(f) - log_ratio
