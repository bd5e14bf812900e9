"""Probes of the likelihood estimate: how noisy it is, and how many draws that takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from .._linalg import NotPositiveDefiniteError
from .._typing import FloatArray
from ..approximations import Reference
from ..importance import importance_estimate
from ..model import LatentGP

__all__ = ["FEWEST_DRAWS", "N_DRAWS", "Plan", "Probe", "cheapest_plan", "take_probes"]

#: Importance draws of a probe.
N_DRAWS = 256
#: Fewest importance draws of a chain's estimate.
FEWEST_DRAWS = 16
#: Most O(n^3) operations of an evaluation, on average over the posterior.
_MOST_OPERATIONS = 5.0


class Probe(NamedTuple):
    """An importance estimate with many draws."""

    log_likelihood: float
    log_variance: float  # log of the relative variance of one weight


def take_probes(
    model: LatentGP,
    references: Sequence[Reference],
    theta: FloatArray,
    defensive: float,
    seed: np.random.SeedSequence,
) -> list[Probe] | None:
    """Estimate p(y | theta) with each of some references; None where K is singular."""
    rng = np.random.default_rng(seed)
    probes = []
    for reference in references:
        try:
            q = reference.at(model, theta)
            estimate = importance_estimate(model, q, N_DRAWS, rng, defensive=defensive)
        except NotPositiveDefiniteError:
            return None
        weights = np.exp(estimate.log_weights - estimate.log_weights.max())
        relative = weights.var(ddof=1) / weights.mean() ** 2
        probes.append(Probe(estimate.log_likelihood, float(np.log(max(relative, 1e-6)))))
    return probes


class Plan(NamedTuple):
    """How estimates are made."""

    n_sweeps: int  # with which the interpolated sites are improved
    noise: float  # standard deviation of the log estimate that N aims at
    most: int  # largest N


def cheapest_plan(log_variance: FloatArray, n: int, noise: float) -> Plan:
    """Choose the plan with the least cost per proposal accepted where the noise is large.

    Parameters
    ----------
    log_variance : ndarray of shape (m, k)
        Log of the relative variance of one weight, at m points of the posterior, for 0 to k - 1
        sweeps.
    n : int
        Number of rows. An evaluation takes two factorizations, two operations a sweep, and
        4 N / n for N draws.
    noise : float
        What is aimed at if it can be had for _MOST_OPERATIONS on average.
    """
    costs = []
    for n_sweeps, column in enumerate(log_variance.T):
        variance = np.exp(column)
        for target, most in _noise_and_most(noise, n):
            counts = np.clip(variance / target**2, FEWEST_DRAWS, most)
            cost = 2.0 + 2.0 * n_sweeps + 4.0 * float(counts.mean()) / n
            if cost <= _MOST_OPERATIONS:
                break
        # Acceptance rate of proposals that only the noise of the estimates can reject, where the
        # noise is large: that is where chains stay.
        accepted = 2.0 * float(np.quantile(ndtr(-np.sqrt(variance / counts / 2.0)), 0.1))
        costs.append((cost / accepted, Plan(n_sweeps, target, most)))
    return min(costs)[1]


def _noise_and_most(noise: float, n: int) -> list[tuple[float, int]]:
    """Noise and largest N, from the dearest to the cheapest.

    More noise everywhere comes before a smaller bound: it is where the noise is larger than
    elsewhere that chains stay.
    """
    even = [(noise * factor, 4.0 * n) for factor in np.geomspace(1.0, 2.5, 6)]
    capped = [(2.5 * noise, most) for most in np.geomspace(4.0, 0.25, 12) * n]
    return [(float(target), max(int(most), FEWEST_DRAWS)) for target, most in [*even, *capped]]
