"""Proposals of theta that need no evaluation of the likelihood, and where chains begin."""

from __future__ import annotations

import numpy as np

from .._typing import FloatArray
from ..transitions import (
    GaussianRandomWalk,
    IndependenceMetropolis,
    Proposal,
    SurrogateProposal,
    TMixture,
)
from .emulator import EmulatedPosterior
from .learner import Learner, Pool, Tempered, root_of, run_pool
from .trajectories import Trajectories

__all__ = ["overdispersed_starts", "probabilities", "proposals_by_name"]

#: Independence candidates of a surrogate chain: for few hyper-parameters, and for many.
_N_CANDIDATES = (64, 16)
#: A surrogate chain is nothing but independence candidates if it stays where it is this rarely,
#: judged by so many draws.
_MAY_STAY, _N_COMPARED = 0.02, 400
#: Probabilities of the moves: surrogate, random walk, and whatever else there is.
_MOVES = (0.98, 0.01, 0.01)
#: The same where the emulator is poor, and with trajectories on the approximate posterior first.
_CAUTIOUS_MOVES = (0.85, 0.05, 0.05, 0.05)


def probabilities(trajectories: Trajectories | None) -> tuple[float, ...]:
    """Return the probability of each of `proposals_by_name`, and of one move more."""
    return _MOVES if trajectories is None else _CAUTIOUS_MOVES


def proposals_by_name(
    learner: Learner, target: EmulatedPosterior, pool: Pool, trajectories: Trajectories | None
) -> dict[str, Proposal]:
    """Make proposals of theta by name, the main one first.

    With `trajectories` the emulator is poor: its moves are rare, and short to stay near.
    """
    walk = GaussianRandomWalk.isotropic(learner.dim, 1.0).with_covariance(
        learner.root @ learner.root.T
    )
    if trajectories is not None:
        return {
            "trajectory": SurrogateProposal(trajectories.target, (trajectories.leapfrog,)),
            "surrogate": SurrogateProposal(target, (pool.leapfrog,)),
            "random walk": walk,
        }
    draws = pool.theta.reshape(-1, learner.dim)
    mixture = _mixture_of(draws, learner.modes(), learner.scale)
    independence = IndependenceMetropolis(mixture, _N_CANDIDATES[0 if learner.few else 1])
    stays = independence.probability_of_staying(target, draws[-_N_COMPARED:], learner.rng)
    moves = (independence,) if stays < _MAY_STAY else (pool.leapfrog, independence, pool.leapfrog)
    return {"surrogate": SurrogateProposal(target, moves), "random walk": walk}


def _mixture_of(draws: FloatArray, modes: FloatArray, scale: FloatArray) -> TMixture:
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


def overdispersed_starts(
    learner: Learner, target: EmulatedPosterior, trajectories: Trajectories | None, n_chains: int
) -> list[FloatArray]:
    """Return one start per chain: from the tempered emulated posterior, if that is good."""
    if trajectories is not None:
        return list(trajectories.ends)
    wide = run_pool(
        Tempered(target, 1.0 / learner.temperature),
        learner.pool_starts(),
        learner.root,
        20,
        learner.rng,
    )
    return list(wide.theta[-1, :n_chains])
