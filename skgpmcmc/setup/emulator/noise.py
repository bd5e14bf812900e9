"""The noise of estimates of p(y | theta), and the number of importance draws that it requires."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._typing import FloatArray
from ...importance.density import ReferenceDensity
from ...importance.estimate import importance_estimate
from ...model.joint import LatentGP
from ...model.prior import RankError
from ...numerics.linalg import NotPositiveDefiniteError
from ...numerics.quadratic import Quadratic
from ...transitions.pseudo_marginal import DrawCount
from ..report import EmulatorSettings
from .options import EmulatorOptions


class TrialEstimate(NamedTuple):
    """An importance estimate that shows how noisy estimates are."""

    log_likelihood: float  # log of the estimate; natural log
    log_variance: float  # log of the relative variance of one weight
    noise: float  # standard deviation of the log estimate


def estimate_at(
    model: LatentGP,
    reference: ReferenceDensity,
    theta: FloatArray,
    settings: EmulatorSettings,
    n_draws: int,
    seed: np.random.SeedSequence,
) -> TrialEstimate | None:
    """Estimate p(y | theta), and measure the variance of their weights.

    The result is None if K has no root, or if no draw has a positive likelihood.
    """
    rng = np.random.default_rng(seed)
    try:
        density = reference.at(model, theta).factorize()
        found = importance_estimate(model, density, n_draws, rng, defensive=settings.defensive)
    except (NotPositiveDefiniteError, RankError):
        return None
    if np.isneginf(found.log_likelihood):
        return None
    weights = np.exp(found.log_weights - found.log_weights.max())
    log_variance = float(np.log(max(weights.var(ddof=1) / weights.mean() ** 2, 1e-6)))
    noise = float(np.exp(0.5 * log_variance) / np.sqrt(n_draws))
    return TrialEstimate(found.log_likelihood, log_variance, noise)


def calibrate_draw_count(
    theta: FloatArray,
    log_variance: FloatArray,
    center: FloatArray,
    scale: FloatArray,
    n_latent: int,
    noise: float,
    fewest: int,
    options: EmulatorOptions,
) -> DrawCount:
    """Fit the number of draws at any theta that gives log estimates this noise.

    Parameters
    ----------
    theta : ndarray of shape (m, p)
        Theta of the trial estimates, natural logs.
    log_variance : ndarray of shape (m,)
        Log of the relative variance of one weight in each trial estimate.
    center, scale : ndarray of shape (p,)
        Mode and standard deviations of the posterior.
    n_latent : int
        Number of latent values. As many draws are always allowed: they take as much memory as K.
    noise : float
        Target standard deviation of the log estimate.
    fewest : int
        Least number of draws.
    options : EmulatorOptions
        Tuning constants of the set-up.
    """
    # Theta in the tails count as much as typical ones: chains stay long where estimates are noisier
    # than the law says.
    law = Quadratic.fit(theta, log_variance, center, scale)
    return DrawCount(law, noise, fewest, max(n_latent, options.most_draws))
