"""The records of a run: the draws of each model, and what is needed to continue its chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation
from ..chain.counts import ChainCounts, sum_counts
from ..chain.segment import Segment, count_work, join_segments
from ..importance.density import ReferenceDensity
from ..model.joint import LatentGP
from ..parallel.workers import Workers
from ..setup.report import EmulatorReport
from ..transitions.base import ChainState, Transition
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis

#: Most latent values by which convergence is judged where there are no hyper-parameters.
_N_LATENT_JUDGED = 10
#: Draws of theta in a task of a worker.
_DRAWS_PER_TASK = 25


@dataclass(frozen=True, eq=False)
class Draws:
    """Kept draws of one model. All chains have the same length.

    Attributes
    ----------
    theta : ndarray of shape (n_chains, n_draws, p)
        Hyper-parameters, natural logs.
    f : ndarray of shape (n_chains, n_draws, n)
        Latent values at the training inputs.
    f_is_mean : bool
        Whether `f` holds means of p(f | y, theta) instead of draws.
    chain_counts : list of Counts
        Counts of the kept iterations of each chain.
    warmup_counts : Counts
        Counts of everything before the kept iterations, all chains together.
    marked : ndarray of shape (n_chains, n_draws, r, p) or None
        Further draws of theta in each iteration, all with equal weights, for samplers that have
        them.
    """

    theta: FloatArray
    f: FloatArray
    chain_counts: list[ChainCounts]
    warmup_counts: ChainCounts
    marked: FloatArray | None = None
    f_is_mean: bool = False

    def with_rounds(self, rounds: Sequence[Sequence[Segment]]) -> Draws:
        """Append rounds of all chains of the model."""
        if not rounds:
            return self
        new = [join_segments(chain) for chain in zip(*rounds, strict=True)]
        counts = zip(self.chain_counts, (own.counts for own in new), strict=True)
        marked = self.marked
        if marked is not None:
            marked = np.concatenate([marked, [own.marked for own in new]], axis=1)
        return replace(
            self,
            theta=np.concatenate([self.theta, [own.theta for own in new]], axis=1),
            f=np.concatenate([self.f, [own.f for own in new]], axis=1),
            chain_counts=[sum_counts(pair) for pair in counts],
            marked=marked,
        )


def with_latent_draws(
    model: LatentGP,
    approximation: Approximation,
    draws: Draws,
    seed: int,
    n_jobs: int | None = None,
) -> Draws:
    """Return the draws with f drawn from the approximation at every theta.

    Parameters
    ----------
    model : LatentGP
        The model of the draws.
    approximation : Approximation
        Its Gaussian q(f) at each theta is what f is drawn from.
    draws : Draws
        Draws whose `f` is replaced.
    seed : int
        Seed of all random numbers.
    n_jobs : int, optional
        Workers of joblib; the result does not depend on it.
    """
    thetas = draws.theta.reshape(-1, draws.theta.shape[2])
    tasks = split_into_tasks(thetas)
    seeds = np.random.SeedSequence(seed).spawn(len(tasks))
    calls = [
        joblib.delayed(_draw_latent)(model, approximation, task, own)
        for task, own in zip(tasks, seeds, strict=True)
    ]
    with Workers(n_jobs) as workers:
        drawn = workers.run(calls)
    return replace(draws, f=np.concatenate(drawn).reshape(draws.f.shape), f_is_mean=False)


def split_into_tasks(thetas: FloatArray) -> list[FloatArray]:
    """Split draws of theta, (m, p), into tasks for workers, whatever the number of workers."""
    return [thetas[i : i + _DRAWS_PER_TASK] for i in range(0, len(thetas), _DRAWS_PER_TASK)]


def _draw_latent(
    model: LatentGP, approximation: Approximation, thetas: FloatArray, seed: np.random.SeedSequence
) -> FloatArray:
    """Draw f at each theta, (m, n); the approximation is fitted once for a run of equal thetas."""
    rng = np.random.default_rng(seed)
    f = np.empty((len(thetas), model.n_latent))
    begins = np.flatnonzero(np.r_[True, (thetas[1:] != thetas[:-1]).any(axis=1)])
    with count_work():
        for begin, end in zip(begins, [*begins[1:], len(thetas)], strict=True):
            q = approximation.fit(model, thetas[begin]).q
            f[begin:end] = q.sample(rng, end - begin).f.T
    return f


class MarkedSamples(NamedTuple):
    """All values of theta that a discretizing chain has marked, and their weights in averages."""

    theta: FloatArray  # (n_chains, n_draws, r, p), natural logs
    weights: FloatArray  # (n_chains, n_draws, r), with sum one in each draw

    @classmethod
    def of(cls, theta: FloatArray) -> MarkedSamples:
        """Return values of theta with equal weights."""
        return cls(theta, np.full(theta.shape[:3], 1.0 / theta.shape[2]))


def judged_quantities(model: LatentGP, draws: Draws) -> FloatArray:
    """Return the quantities whose convergence is checked; (n_chains, n_draws, k).

    These are the components of theta. Without hyper-parameters they are functions of f:
    log p(y | f), which depends on all of f, and a few latent values at evenly spread training rows.
    """
    if draws.theta.shape[2]:
        return draws.theta
    rows = np.linspace(0, draws.f.shape[2] - 1, _N_LATENT_JUDGED).round().astype(int)
    observed = model.observations_at(np.empty(0))
    log_lik = np.array([observed.totals(chain.T) for chain in draws.f])
    return np.concatenate([log_lik[..., None], draws.f[..., np.unique(rows)]], axis=2)


class PausedChain(NamedTuple):
    """A chain between two rounds, ready to be continued."""

    transition: Transition[Any]
    state: ChainState
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class ModelRun:
    """All results of a run for one model.

    Attributes
    ----------
    model : LatentGP
        The model that is sampled.
    draws : Draws
        Its kept draws.
    chains : list of PausedChain
        The chains in their present states.
    reference : ReferenceDensity or None
        The Gaussian approximation that the chains use at any theta; None if they use none.
    estimator : PseudoMarginalMetropolis or None
        The transition that estimates p(y | theta); None if the sampler does not estimate it.
    report : EmulatorReport or None
        Quality of the emulator; None if the sampler has none.
    n_discarded : int
        Iterations of each chain before the first kept one.
    """

    model: LatentGP
    draws: Draws
    chains: list[PausedChain]
    reference: ReferenceDensity | None
    estimator: PseudoMarginalMetropolis | None
    report: EmulatorReport | None
    n_discarded: int


@dataclass(frozen=True, eq=False)
class SamplingRun:
    """The results of a run of all chains, and what is needed to continue it.

    Attributes
    ----------
    models : list of ModelRun
        One per model.
    seconds_warmup, seconds_sampling : float
        Wall time.
    in_use : dict of str to str
        Settings that had an effect, by the names of the estimator's parameters.
    interrupted : bool
        Whether Ctrl-C ended the run.
    seed : tuple of int or None
        Words of the seed, if a checkpoint determines it; None if `random_state` determines it.
    """

    models: list[ModelRun]
    seconds_warmup: float
    seconds_sampling: float
    in_use: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False
    seed: tuple[int, ...] | None = None

    @property
    def n_draws(self) -> int:
        """Kept draws per chain, of the model that has the fewest."""
        return min(own.draws.theta.shape[1] for own in self.models)
