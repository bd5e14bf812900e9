"""The unbiased importance-sampling estimate of p(y | theta) from a Gaussian approximation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ._typing import FloatArray
from .approximations import GaussianApproximation
from .emulator import DiagonalQuadratic
from .model import LatentGP

__all__ = ["DrawCount", "ImportanceEstimate", "importance_estimate", "log_importance_weights"]


@dataclass(frozen=True, eq=False)
class DrawCount:
    """How many importance draws an estimate takes: a fixed function of theta.

    With N draws the log of the estimate has a variance of about v(theta) / N, where v is the
    relative variance of a single weight. N keeps that near a target all over the posterior.

    Attributes
    ----------
    log_variance : DiagonalQuadratic
        Log of v.
    target_sd : float
        Standard deviation of the log estimate that is aimed at.
    lowest, highest : int
        Bounds of N.
    """

    log_variance: DiagonalQuadratic
    target_sd: float
    lowest: int
    highest: int

    def at(self, theta: FloatArray) -> int:
        """N at theta of shape (p,)."""
        log_n = float(self.log_variance.value_and_gradient(theta)[0]) - 2.0 * np.log(self.target_sd)
        return int(np.clip(np.ceil(np.exp(min(log_n, 50.0))), self.lowest, self.highest))


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
        return ImportanceEstimate(_log_mean(log_weights), particles, log_weights)


def _log_mean(log_weights: FloatArray) -> float:
    return float(logsumexp(log_weights) - np.log(len(log_weights)))


def importance_estimate(
    model: LatentGP,
    q: GaussianApproximation,
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float = 0.0,
    retained: FloatArray | None = None,
) -> ImportanceEstimate:
    """Estimate p(y | theta) = E_q[p(y | f) p(f | theta) / q(f)] without bias.

    Parameters
    ----------
    model : LatentGP
        Gives p(y | f).
    q : GaussianApproximation
        At the theta in question. Any q is valid; a good one has little variance.
    n_draws : int
        Number of independent draws N.
    rng : numpy.random.Generator
        For the draws.
    defensive : float in [0, 1), default=0.0
        Probability with which a draw is taken from the prior instead of q. A positive value
        bounds the weights of a bounded likelihood by max p(y | f) / defensive; with 0, as in
        the paper, their variance can be infinite.
    retained : ndarray of shape (n,), optional
        Put this f in place of the first draw. If it comes from p(f | y, theta), the particles
        have their law under the extended target (conditional importance sampling), instead of
        their law under q.

    Returns
    -------
    ImportanceEstimate
        The log of the estimate, and the weighted draws.

    References
    ----------
    Filippone & Girolami (2014), (25)-(27); Owen & Zhou (2000) for the defensive mixture.
    """
    deviations, prior_draws = q.sample_deviations(rng, n_draws)
    particles = q.mean[:, None] + deviations
    if defensive > 0.0:
        from_prior = rng.uniform(size=n_draws) < defensive
        particles[:, from_prior] = prior_draws[:, from_prior]
    if retained is not None:
        particles[:, 0] = retained
    log_weights = log_importance_weights(model, q, particles, defensive=defensive)
    return ImportanceEstimate(_log_mean(log_weights), particles, log_weights)


def log_importance_weights(
    model: LatentGP, q: GaussianApproximation, f: FloatArray, *, defensive: float = 0.0
) -> FloatArray:
    """``log [p(y | f) N(f; 0, K) / q(f)]`` for each column of f of shape (n, N); (N,).

    The quadratic forms in K^-1 cancel between numerator and denominator: with f = K a + delta,
    ``log [q(f) / N(f; 0, K)] = 1/2 log |B| + 1/2 mu'a + delta'a - 1/2 delta'W delta``.
    With `defensive` = c the denominator is the mixture (1 - c) q + c N(0, K).
    """
    delta = f - q.mean[:, None]
    log_ratio = (
        q.half_log_det_B
        + 0.5 * float(q.mean @ q.weights)
        + q.weights @ delta
        - 0.5 * np.einsum("i,ij,ij->j", q.precision, delta, delta)
    )
    if defensive > 0.0:
        log_ratio = np.logaddexp(np.log1p(-defensive) + log_ratio, np.log(defensive))
    return model.log_lik_columns(f) - log_ratio
