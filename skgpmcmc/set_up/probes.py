"""Probes of the likelihood estimate: how noisy it is, and how many draws that takes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from .._linalg import NotPositiveDefiniteError
from .._typing import FloatArray
from ..approximations import Density, InterpolatedSites, Reference
from ..importance import importance_estimate
from ..model import LatentGP

__all__ = [
    "FEWEST_DRAWS",
    "N_DRAWS",
    "VARIANTS",
    "Plan",
    "Probe",
    "cheapest_plan",
    "long_enough",
    "most_draws",
    "plan_for",
    "take_long_probe",
    "take_probes",
]

#: Importance draws of a probe.
N_DRAWS = 256
#: Noise at which a probe is long enough, and most draws of one, in all and at once.
_NOISE, _MOST_DRAWS, _MOST_AT_ONCE = 0.05, 4096, 512
#: Importance densities to choose from: sweeps that improve the interpolated sites, and the share of
#: the skewness of the margins that the density has. All of it is best where the latent variance is
#: large, and none where f is smooth: bent neighbors then do not move together.
_SWEEPS = (0, 1)
_STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
VARIANTS = tuple((n_sweeps, strength) for n_sweeps in _SWEEPS for strength in _STRENGTHS)
#: Fewest importance draws of a chain's estimate.
FEWEST_DRAWS = 16
#: Most numbers in the particles of one estimate (32 MB); sampling holds several such arrays.
_MOST_NUMBERS = 4_000_000
#: Most O(n^3) operations of an evaluation, on average over the posterior.
_MOST_OPERATIONS = 5.4


class Probe(NamedTuple):
    """An importance estimate with many draws."""

    log_likelihood: float
    log_variance: float  # log of the relative variance of one weight
    noise: float  # standard deviation of the log estimate


def take_probes(
    model: LatentGP,
    reference: InterpolatedSites,
    theta: FloatArray,
    defensive: float,
    seed: np.random.SeedSequence,
) -> list[Probe] | None:
    """Estimate p(y | theta) with each of the VARIANTS of a reference; None where K is singular."""
    rng = np.random.default_rng(seed)
    densities = [reference.with_strength(strength) for strength in _STRENGTHS]
    try:
        probes = []
        for n_sweeps in _SWEEPS:
            q = replace(reference, n_sweeps=n_sweeps).gaussian_at(model, theta)
            probes += [
                _probe(model, density.bent(q), N_DRAWS, defensive, rng) for density in densities
            ]
    except NotPositiveDefiniteError:
        return None
    return probes


def take_long_probe(
    model: LatentGP,
    reference: Reference,
    theta: FloatArray,
    n_draws: int,
    defensive: float,
    seed: np.random.SeedSequence,
) -> Probe:
    """Estimate p(y | theta) with the reference that was chosen, where K is not singular."""
    rng = np.random.default_rng(seed)
    return _probe(model, reference.at(model, theta), n_draws, defensive, rng)


def _probe(
    model: LatentGP, density: Density, n_draws: int, defensive: float, rng: np.random.Generator
) -> Probe:
    log_weights, log_likelihood = [], []
    for start in range(0, n_draws, _MOST_AT_ONCE):
        size = min(n_draws - start, _MOST_AT_ONCE)
        estimate = importance_estimate(model, density, size, rng, defensive=defensive)
        log_weights.append(estimate.log_weights)
        log_likelihood.append(estimate.log_likelihood + np.log(size / n_draws))
    all_weights = np.concatenate(log_weights)
    weights = np.exp(all_weights - all_weights.max())
    log_variance = float(np.log(max(weights.var(ddof=1) / weights.mean() ** 2, 1e-6)))
    noise = np.exp(0.5 * log_variance) / np.sqrt(n_draws)
    return Probe(float(logsumexp(log_likelihood)), log_variance, float(noise))


def long_enough(probe: Probe) -> int:
    """Importance draws with which the noise of a probe does not matter; 0 if they were taken."""
    if probe.noise < _NOISE:
        return 0
    return int(np.clip(np.exp(probe.log_variance) / _NOISE**2, 2 * N_DRAWS, _MOST_DRAWS))


class Plan(NamedTuple):
    """How estimates are made."""

    variant: int  # position among VARIANTS
    noise: float  # standard deviation of the log estimate that N aims at
    most: int  # largest N
    score: float  # the smaller the better


def cheapest_plan(log_variance: FloatArray, n: int, noise: float) -> Plan:
    """Choose the variant whose plan has little cost and few rejections.

    Parameters
    ----------
    log_variance : ndarray of shape (m, k)
        Log of the relative variance of one weight, at m points of the posterior, for k VARIANTS.
    n : int
        Number of rows.
    noise : float
        Standard deviation of the log estimate that is aimed at.

    Returns
    -------
    Plan
        See `plan_for`.
    """
    plans = [plan_for(k, column, n, noise) for k, column in enumerate(log_variance.T)]
    return min(plans, key=lambda plan: plan.score)


def plan_for(variant: int, log_variance: FloatArray, n: int, noise: float) -> Plan:
    """Choose the number of draws for a variant.

    Parameters
    ----------
    variant : int
        Position among VARIANTS.
    log_variance : ndarray of shape (m,)
        Log of the relative variance of one weight at m points of the posterior.
    n : int
        Number of rows. An evaluation takes two factorizations, two operations a sweep, and
        4 N / n for N draws, 5 N / n for skewed ones.
    noise : float
        What is aimed at if it can be had for _MOST_OPERATIONS on average.

    Returns
    -------
    Plan
        With its score.
    """
    n_sweeps, strength = VARIANTS[variant]
    variance = np.exp(log_variance)
    per_draw = (5.0 if strength else 4.0) / n
    for target, most in _noise_and_most(noise, n):
        counts = np.clip(variance / target**2, FEWEST_DRAWS, most)
        cost = 2.0 + 2.0 * n_sweeps + per_draw * float(counts.mean())
        if cost <= _MOST_OPERATIONS:
            break
    # Acceptance rate of proposals that only the noise of the estimates can reject, where the
    # noise is large: that is where chains stay.
    accepted = 2.0 * float(np.quantile(ndtr(-np.sqrt(variance / counts / 2.0)), 0.1))
    # Squared, for few draws do not show the rarest weights: less noise is the safer choice.
    return Plan(variant, target, most, cost / accepted**2)


def _noise_and_most(noise: float, n: int) -> list[tuple[float, int]]:
    """Noise and largest N, from the dearest to the cheapest.

    More noise everywhere comes before a smaller bound: it is where the noise is larger than
    elsewhere that chains stay.
    """
    largest = most_draws(n)
    even = [(noise * factor, largest) for factor in np.geomspace(1.0, 2.5, 6)]
    capped = [(2.5 * noise, min(most, largest)) for most in np.geomspace(4.0, 0.25, 12) * n]
    return [(float(target), max(int(most), FEWEST_DRAWS)) for target, most in [*even, *capped]]


def most_draws(n: int, times: float = 1.0) -> int:
    """Most importance draws for n rows: `times` 4 n, if that many fit in memory."""
    return max(FEWEST_DRAWS, min(int(4 * n * times), _MOST_NUMBERS // n))
