"""Parallel chains: start, warm-up, rounds of sampling, and what they leave behind.

One or several models (the classes of a one-vs-rest problem) share a pool of workers. Work goes in
rounds of fixed length: workers return states and draws, and the parent looks at progress, stop
requests and interrupts between rounds. Nothing depends on the number of workers: every chain has
its own random stream, rounds have the same length everywhere, and BLAS runs on one thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from ._linalg import NotPositiveDefiniteError
from ._typing import FloatArray
from .approximations import Approximation
from .model import LatentGP
from .samplers import Sampler
from .stretches import NO_TALLY, Stretch, Tally, sample, start, sum_tallies, switch, tune
from .transitions import GaussianRandomWalk, Sites, Transition
from .warmup import Schedule, Window, pooled_walk

__all__ = ["Draws", "Monitor", "SamplingRun", "n_rounds", "sample_chains"]

#: Iterations between two looks of the parent at the chains.
ROUND_LENGTH = 50

_MAX_JITTER = 1e-5


class Monitor(Protocol):
    """What the parent reports to, round by round."""

    def begin_round(self) -> None:
        """A round of all chains starts."""

    def end_round(self) -> bool:
        """A round of all chains has ended; True asks to stop as soon as there are draws."""


@dataclass(frozen=True, eq=False)
class Draws:
    """Kept draws of one model; chains all have the same length.

    Attributes
    ----------
    theta : ndarray of shape (n_chains, n_draws, p)
        Hyper-parameters, natural logs.
    f : ndarray of shape (n_chains, n_draws, n)
        Latent values at the training inputs.
    sites : Sites or None
        Sites of shape (n_chains, n_draws, n), where predictions use an approximation's Gaussian.
    acceptance_rate : ndarray of shape (n_chains,)
        Of the kept iterations.
    tally : Tally
        Counts over the whole run of these chains, warm-up included.
    """

    theta: FloatArray
    f: FloatArray
    sites: Sites | None
    acceptance_rate: FloatArray
    tally: Tally


@dataclass(frozen=True, eq=False)
class SamplingRun:
    """Everything a run of all chains produced.

    Attributes
    ----------
    models : list of LatentGP
        The models as sampled: with the jitter that set-up chose.
    draws : list of Draws
        One per model.
    transition_name : str
        What made the kept draws.
    seconds_warmup, seconds_sampling : float
        Wall time.
    """

    models: list[LatentGP]
    draws: list[Draws]
    transition_name: str
    seconds_warmup: float
    seconds_sampling: float


def n_rounds(n_warmup: int, n_draws: int) -> int:
    """Return how many rounds an uninterrupted run reports to its monitor, warm-up included."""
    return len(Schedule.of_length(n_warmup).windows) + len(_round_lengths(n_draws))


def _round_lengths(n_draws: int) -> list[int]:
    full, rest = divmod(n_draws, ROUND_LENGTH)
    return [ROUND_LENGTH] * full + ([rest] if rest else [])


def sample_chains(
    models: Sequence[LatentGP],
    sampler: Sampler,
    approximation: Approximation,
    *,
    n_importance: int,
    n_chains: int,
    n_warmup: int,
    n_draws: int,
    seed: np.random.SeedSequence,
    n_jobs: int | None = None,
    monitor: Monitor | None = None,
) -> SamplingRun:
    """Run `n_chains` chains for every model and return their draws.

    Parameters
    ----------
    models : sequence of LatentGP
        One per binary problem.
    sampler : Sampler
        Makes the transitions.
    approximation : Approximation
        The target of warm-up, and what the sampler builds on.
    n_importance : int
        Draws per likelihood estimate.
    n_chains, n_warmup, n_draws : int
        Chains per model, discarded and kept iterations per chain.
    seed : numpy.random.SeedSequence
        Every chain spawns its own stream from it.
    n_jobs : int, optional
        Workers of joblib; their number never changes a draw.
    monitor : Monitor, optional
        Looked at between rounds. An interrupt or a stop request keeps the complete rounds of
        draws; before the first of them an interrupt is raised again.

    Returns
    -------
    SamplingRun
        The models as sampled, and their draws.

    Raises
    ------
    RuntimeError
        If a chain finds no start with a finite density; the message names theta.
    """
    clock = [time.perf_counter()]
    rngs = [
        [np.random.default_rng(stream) for stream in model_seed.spawn(n_chains)]
        for model_seed in seed.spawn(len(models))
    ]
    starts = [
        [m.hyperprior.sample(r) for r in group] for m, group in zip(models, rngs, strict=True)
    ]
    models = [_with_safe_jitter(m, thetas) for m, thetas in zip(models, starts, strict=True)]
    monitor = monitor or _Silent()
    # Limits overlap where workers are threads, and the last to leave would lift them for all: the
    # parent's encloses theirs.
    with threadpool_limits(1), joblib.Parallel(n_jobs=n_jobs) as pool:
        chains = _ChainPool(pool, models, n_chains)
        warm, walks = _warm_up(chains, sampler, approximation, starts, rngs, n_warmup, monitor)
        transitions = [sampler.sampling_transition(approximation, w, n_importance) for w in walks]
        n_settle = Schedule.of_length(n_warmup).n_settle
        first = chains.map(switch, transitions, warm[-1], [n_settle] * len(models))
        clock.append(time.perf_counter())
        rounds = _sampling_rounds(chains, transitions, first, n_draws, monitor)
        clock.append(time.perf_counter())
    per_chain = [[stretches[c] for stretches in rounds] for c in range(len(first))]
    everything = [
        [stretches[c] for stretches in [*warm, first, *rounds]] for c in range(len(first))
    ]
    return SamplingRun(
        models=models,
        draws=[
            _gather(per_chain[i : i + n_chains], everything[i : i + n_chains])
            for i in range(0, len(first), n_chains)
        ],
        transition_name=transitions[0].name,
        seconds_warmup=clock[1] - clock[0],
        seconds_sampling=clock[2] - clock[1],
    )


class _Silent:
    """The monitor of a run that nobody watches."""

    def begin_round(self) -> None:
        """Do nothing."""

    def end_round(self) -> bool:
        """Never ask to stop."""
        return False


@dataclass(frozen=True, eq=False)
class _ChainPool:
    """All chains of all models, model after model, on one pool of workers."""

    pool: joblib.Parallel
    models: Sequence[LatentGP]
    n_chains: int

    def map(
        self,
        work: Callable[..., Stretch],
        transitions: Sequence[Transition[Any]],
        stretches: Sequence[Stretch],
        settings: Sequence[Any],
    ) -> list[Stretch]:
        """Continue every chain from its last stretch by ``work``; one transition per model."""
        of_model = [c // self.n_chains for c in range(len(stretches))]
        return list(
            self.pool(
                joblib.delayed(work)(
                    self.models[m],
                    transitions[m],
                    stretch.state,
                    stretch.rng,
                    stretch.log_scale,
                    settings[m],
                )
                for m, stretch in zip(of_model, stretches, strict=True)
            )
        )


# --- stages, in the parent ------------------------------------------------------------------------


def _with_safe_jitter(model: LatentGP, thetas: Sequence[FloatArray]) -> LatentGP:
    """Raise the relative jitter, tenfold and to 1e-5 at most, until K factors at the starts.

    The jitter is part of the model: what is chosen here holds for the whole run.
    """
    jitter = model.covariance.jitter
    with threadpool_limits(1):
        while jitter < _MAX_JITTER and not all(_factors(model, theta) for theta in thetas):
            jitter = min(10.0 * jitter, _MAX_JITTER)
            model = model.with_jitter(jitter)
    return model


def _factors(model: LatentGP, theta: FloatArray) -> bool:
    try:
        _ = model.prior_at(theta).chol
    except NotPositiveDefiniteError:
        return False
    return True


def _warm_up(
    chains: _ChainPool,
    sampler: Sampler,
    approximation: Approximation,
    starts: Sequence[Sequence[FloatArray]],
    rngs: Sequence[Sequence[np.random.Generator]],
    n_warmup: int,
    monitor: Monitor,
) -> tuple[list[list[Stretch]], list[GaussianRandomWalk]]:
    """Tune one random walk per model; returns the stretches of the chains and the walks."""
    n_models, dim = len(starts), len(starts[0][0])
    transition = sampler.warmup_transition(approximation, dim)
    walks = [transition.proposal] * n_models
    flat_starts = [theta for group in starts for theta in group]
    flat_rngs = [rng for group in rngs for rng in group]
    seeds = [
        Stretch(theta, rng, 0.0, np.empty((0, dim)), np.empty((0, 0)), None, NO_TALLY)
        for theta, rng in zip(flat_starts, flat_rngs, strict=True)
    ]
    rounds = [chains.map(start, [transition] * n_models, seeds, [None] * n_models)]
    for window in Schedule.of_length(n_warmup).windows:
        monitor.begin_round()
        transitions = [transition.with_proposal(walk) for walk in walks]
        target = (window, sampler.target_acceptance)
        rounds.append(chains.map(tune, transitions, rounds[-1], [target] * n_models))
        walks = [
            _pool_model(walk, rounds, slice(m * chains.n_chains, (m + 1) * chains.n_chains), window)
            for m, walk in enumerate(walks)
        ]
        monitor.end_round()  # a stop request waits for the first draws
    return rounds, walks


def _pool_model(
    walk: GaussianRandomWalk, rounds: Sequence[Sequence[Stretch]], where: slice, window: Window
) -> GaussianRandomWalk:
    """Next walk of one model, from the stretches of its chains."""
    history = np.concatenate(
        [np.stack([stretch.theta for stretch in stretches[where]]) for stretches in rounds], axis=1
    )
    log_scales = [stretch.log_scale for stretch in rounds[-1][where]]
    return pooled_walk(walk, log_scales, history, learns_shape=window.learns_shape)


def _sampling_rounds(
    chains: _ChainPool,
    transitions: Sequence[Transition[Any]],
    first: list[Stretch],
    n_draws: int,
    monitor: Monitor,
) -> list[list[Stretch]]:
    """Sample in rounds until `n_draws`, a stop request or an interrupt."""
    rounds: list[list[Stretch]] = []
    last = first
    for length in _round_lengths(n_draws):
        try:
            monitor.begin_round()
            last = chains.map(sample, transitions, last, [length] * len(chains.models))
            # Particles are O(n N) and serve the next round only.
            rounds.append([stretch._replace(state=None) for stretch in last])
            if monitor.end_round():
                break
        except KeyboardInterrupt:
            if not rounds:
                raise
            warnings.warn(
                f"Sampling was interrupted: the {sum(len(r[0].theta) for r in rounds)} draws per "
                f"chain of the complete rounds (of {n_draws} asked for) are kept.",
                UserWarning,
                stacklevel=2,
            )
            break
    return rounds


def _gather(sampled: Sequence[Sequence[Stretch]], everything: Sequence[Sequence[Stretch]]) -> Draws:
    """Join the stretches of the chains of one model."""
    first = sampled[0][0]

    def join(part: Callable[[Stretch], FloatArray]) -> FloatArray:
        return np.stack([np.concatenate([part(stretch) for stretch in chain]) for chain in sampled])

    sites = None
    if first.sites is not None:
        sites = Sites(
            join(lambda stretch: _sites_of(stretch).weights),
            join(lambda stretch: _sites_of(stretch).precision),
        )
    kept = [sum_tallies([stretch.tally for stretch in chain]) for chain in sampled]
    return Draws(
        theta=join(lambda stretch: stretch.theta),
        f=join(lambda stretch: stretch.f),
        sites=sites,
        acceptance_rate=np.array([tally.n_accepted / tally.n_steps for tally in kept]),
        tally=sum_tallies([stretch.tally for chain in everything for stretch in chain]),
    )


def _sites_of(stretch: Stretch) -> Sites:
    assert stretch.sites is not None
    return stretch.sites
