"""Draws from the emulated posterior, and what is made of them.

They come off a grid where that is possible, and elsewhere from chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._typing import FloatArray
from ...numerics.linalg import cholesky
from ...transitions import CheapDensity, CheapPoint, GridDensity, Leapfrog, TMixture

#: Acceptance rate of trajectories. They go about a quarter of a period, after which a Gaussian is
#: forgotten, in so many steps at most.
_TARGET_ACCEPTANCE, _TRAVEL, _MAX_LEAPFROG = 0.9, 0.5 * np.pi, 20
#: Draws off a grid, for each that a chain of a pool would end with.
_N_KEPT = 10


def root_of(draws: FloatArray, shrink: float = 1.0, correlated: float = 0.98) -> FloatArray:
    """Cholesky factor of the covariance of draws (..., p), the correlations shrunk a little."""
    flat = draws.reshape(-1, draws.shape[-1])
    covariance = np.atleast_2d(np.cov(flat, rowvar=False)) * shrink
    diagonal = np.maximum(covariance.diagonal(), 1e-6)
    covariance = correlated * covariance + (1.0 - correlated) * np.diag(diagonal)
    covariance.flat[:: len(covariance) + 1] += 1e-8
    return cholesky(np.asfortranarray(covariance))


class Pool(NamedTuple):
    """Where the chains of a pool were in its second half."""

    theta: FloatArray  # (n_kept, m, p)
    leapfrog: Leapfrog  # as tuned in the first half


def run_pool(
    target: CheapDensity,
    theta: FloatArray,
    root: FloatArray,
    n_moves: int,
    rng: np.random.Generator,
) -> Pool:
    """Move chains from theta (m, p) by trajectories in the metric `root`, tuning their step."""
    point = CheapPoint.at(target, theta)
    log_step = np.log(0.5)
    kept = []
    for i in range(n_moves):
        leapfrog = _leapfrog(root, float(np.exp(log_step)))
        point, probability = leapfrog.move(target, point, rng)
        if i < n_moves // 2:
            gain = 1.5 / (i + 2.0) ** 0.6
            log_step += gain * (float(probability.mean()) - _TARGET_ACCEPTANCE)
        else:
            kept.append(point.position)
    return Pool(np.array(kept), leapfrog)


def _leapfrog(root: FloatArray, step: float) -> Leapfrog:
    step = min(step, 1.0)
    return Leapfrog(root, step, int(np.clip(np.ceil(_TRAVEL / step), 1, _MAX_LEAPFROG)))


def pool_of(grid: GridDensity, root: FloatArray, size: int, rng: np.random.Generator) -> Pool:
    """Draw independently off a grid, as many as a pool of `size` chains would keep.

    The trajectory, in a metric by the root (p, p), is not tuned.
    """
    draws = grid.sample(rng, _N_KEPT * size)
    return Pool(draws.reshape(_N_KEPT, size, -1), _leapfrog(root, 0.5))


def mixture_of(draws: FloatArray, modes: FloatArray, scale: FloatArray) -> TMixture:
    """One t per mode with the moments of the draws around it, and a wide one over all."""
    nearest = np.linalg.norm((draws[:, None, :] - modes) / scale, axis=2).argmin(axis=1)
    groups = [draws[nearest == k] for k in range(len(modes))]
    groups = [group for group in groups if len(group) > 2 * draws.shape[1] + 10] or [draws]
    shares = np.array([len(group) for group in groups], dtype=float)
    return TMixture(
        means=np.array([*(group.mean(axis=0) for group in groups), draws.mean(axis=0)]),
        roots=np.array([*(root_of(group) for group in groups), 2.5 * root_of(draws)]),
        shares=np.array([*(0.85 * shares / shares.sum()), 0.15]),
    )
