"""The unbiased importance-sampling estimate of p(y | theta) from a Gaussian approximation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from ._typing import FloatArray
from .approximations import GaussianApproximation
from .model import LatentGP

__all__ = ["ImportanceEstimate", "importance_estimate", "log_importance_weights"]


class ImportanceEstimate(NamedTuple):
    """An estimate of p(y | theta) and the weighted draws of f that it was made of."""

    log_likelihood: float  # log of the unbiased estimate, natural log
    particles: FloatArray  # (n, N): draws of f, one per column
    log_weights: FloatArray  # (N,)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One particle with probability proportional to its weight; (n,).

        Under the extended target of the pseudo-marginal chain this is an exact draw from
        p(f | y, theta) (Andrieu, Doucet & Holenstein, 2010).
        """
        cumulative = np.cumsum(np.exp(self.log_weights - self.log_weights.max()))
        index = np.searchsorted(cumulative, rng.uniform() * cumulative[-1], side="right")
        return self.particles[:, min(int(index), len(cumulative) - 1)]


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
    log_likelihood = float(logsumexp(log_weights) - np.log(n_draws))
    return ImportanceEstimate(log_likelihood, particles, log_weights)


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
