"""STAND-IN until the importance density is one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...numerics.linalg import NotPositiveDefiniteError, log_sum
from ...transitions import DrawCount
from ...transitions.pseudo_marginal import fresh_particles

N_DRAWS, _NOISE, _MOST_DRAWS = 256, 0.1, 4096
FEWEST_DRAWS, _MOST_NUMBERS = 16, 4_000_000


class Probe(NamedTuple):
    log_likelihood: float
    log_variance: float
    noise: float


def _log_variance(log_weights):
    if np.isneginf(log_weights.max()):
        return np.inf
    weights = np.exp(log_weights - log_weights.max())
    return float(np.log(max(weights.var(ddof=1) / weights.mean() ** 2, 1e-6)))


def take_probe(model, reference, theta, settings, seed):
    rng = np.random.default_rng(seed)
    from types import SimpleNamespace

    how = SimpleNamespace(defensive=settings.defensive, annealing=None)
    try:
        density = reference.at(model, theta).made()
        first = fresh_particles(model, density, N_DRAWS, rng, how).log_weights
        if np.isneginf(first.max()):
            return None
        enough = int(np.clip(np.exp(_log_variance(first)) / _NOISE**2, N_DRAWS, _MOST_DRAWS))
        more = [
            fresh_particles(model, density, 512, rng, how).log_weights
            for _ in range(-(-(enough - N_DRAWS) // 512))
        ]
    except NotPositiveDefiniteError:
        return None
    log_weights = np.concatenate([first, *more])
    log_variance, size = _log_variance(log_weights), len(log_weights)
    noise = float(np.exp(0.5 * log_variance) / np.sqrt(size))
    return Probe(float(log_sum(log_weights)) - float(np.log(size)), log_variance, noise)


def draw_count(log_variance, draws, n, noise):
    most = max(FEWEST_DRAWS, min(max(4 * n, 1000), _MOST_NUMBERS // n))
    count = DrawCount(log_variance, noise, FEWEST_DRAWS, most)
    return count.raised(draws, _MOST_NUMBERS // n)


def n_turns(points, noise, probit):
    if not probit or points[0].shape is None:
        return 0
    g = np.sort(np.mean([abs(p.shape.skewness) for p in points], axis=0))[::-1]
    rest = np.append(np.cumsum((g**2)[::-1])[::-1], 0.0) / 6.0
    return int(np.argmax(rest < noise**2))
