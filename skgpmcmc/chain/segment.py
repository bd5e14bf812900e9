"""Segments of chains: what workers make of them.

Every function runs on one BLAS thread, counts its O(n^3) operations, and returns a `Segment` from
which the next one continues. Between segments states are at rest: their matrices live only while
their chain moves, so that the chains of one worker never have them at the same time.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from ..numerics.dynamics import tune_log_scale
from ..numerics.linalg import NotPositiveDefiniteError, OperationCount, count_operations
from ..parallel.threads import one_thread
from ..transitions.base import ChainState, StepInfo, Transition, drop_factors
from ..transitions.compose import Sweep
from ..transitions.mapping import count_marked, find_marked
from .counts import ChainCounts, sum_counts
from .time_limit import time_is_over

#: Places that are tried where a chain or a search is to start, each halfway to the kernel's values.
MOST_ATTEMPTS = 30
#: What is not said of numbers in the tails.
_IGNORED_ERRORS: dict[str, Any] = {"over": "ignore", "invalid": "ignore"}


@contextmanager
def count_work() -> Iterator[OperationCount]:
    """Count operations, on one BLAS thread: what all work of chains and set-ups is done in.

    Far out in the tails numbers leave double precision. Nothing is said of that, as a density that
    is not finite is looked for wherever one is made, and rejected.

    Yields
    ------
    OperationCount
        Counts while the context lasts.
    """
    with one_thread(), np.errstate(**_IGNORED_ERRORS), count_operations() as operations:
        yield operations


class Segment(NamedTuple):
    """What a worker returns for a segment of one chain."""

    state: Any  # the ChainState at its end, at rest; None once the next segment has begun
    rng: np.random.Generator
    theta: FloatArray  # (n_steps, p)
    f: FloatArray  # (n_steps, n), or (n_steps, 0) where it is not recorded
    counts: ChainCounts
    marked: FloatArray  # (n_steps, r, p), see `MappingInfo`; r is 0 if nothing marks


def join_segments(parts: Sequence[Segment]) -> Segment:
    """Return segments of one chain that follow one another as one, without its state."""
    return Segment(
        None,
        parts[0].rng,
        np.concatenate([s.theta for s in parts]),
        np.concatenate([s.f for s in parts]),
        sum_counts(s.counts for s in parts),
        np.concatenate([s.marked for s in parts]),
    )


class TunedSegment(NamedTuple):
    """A segment in which the scales of a sweep were tuned."""

    segment: Segment
    log_scales: list[float]  # of its tuned parts, where tuning has led


def start(
    model: LatentGP, transition: Transition[Any], theta: FloatArray, rng: np.random.Generator
) -> Segment:
    """Make the first state at theta, or nearer to the kernel's own values if it has no density."""
    with count_work() as operations:
        attempt = 1
        state = transition.start(model, theta, rng)
        while state is None and attempt < MOST_ATTEMPTS:
            attempt += 1
            # The kernel's own values come last: they may lie at the end of a prior's support.
            theta = model.start if attempt == MOST_ATTEMPTS else 0.5 * (theta + model.start)
            state = transition.start(model, theta, rng)
    if state is None:
        raise RuntimeError(no_density_message(model, theta))
    counts = ChainCounts(n_evaluations=float(attempt), operations=operations)
    return _RunningChain(model, transition, state, rng, 0).segment()._replace(counts=counts)


def no_density_message(model: LatentGP, theta: FloatArray) -> str:
    """Message for a chain that finds no start; names the last theta that was tried."""
    values = model.hyperprior.describe(theta)
    return (
        f"No chain can start: {_describe_culprit(model, theta)} at hyper-parameters {values}, and "
        "no better on the way from there to the kernel's own values."
    )


def _describe_culprit(model: LatentGP, theta: FloatArray) -> str:
    """Say which part of the model has no density at theta, and what to look at."""
    log_prior = model.hyperprior.log_prob(theta)
    if not np.isfinite(log_prior):
        return f"the log density of the priors is {log_prior} (check the priors)"
    try:
        _ = model.prior_at(theta).factorize()
    except NotPositiveDefiniteError:
        return "the matrix K of the training rows is no covariance (check the kernel)"
    log_lik = model.observations_at(theta).total(np.zeros(model.n_latent))
    if not np.isfinite(log_lik):
        return f"the log-likelihood at f = 0 is {log_lik} (check the likelihood and y)"
    return "the posterior density is not finite (check the kernel, the priors and the likelihood)"


def tune(
    model: LatentGP,
    sweep: Sweep[Any],
    state: Any,
    rng: np.random.Generator,
    n_steps: int,
    first_gains: Sequence[int],
) -> TunedSegment:
    """One window of warm-up: the scale of every part follows its acceptance probabilities.

    `first_gains` has, for each part of the sweep, the steps since its tuning began. The window ends
    sooner if the time is over.
    """
    chain = _RunningChain(model, sweep, state, rng, n_steps)
    n_made = 0
    with count_work() as operations:
        while chain.goes_on:
            state, info = chain.transition.step(model, chain.state, chain.rng)
            chain.record(state, info)
            probabilities = sweep.mean_probabilities(info)
            log_scales = [
                tune_log_scale(log_scale, probabilities[part], target, first_gains[part] + n_made)
                for part, log_scale, target in sweep.tunable_moves
            ]
            chain.transition = sweep = sweep.with_log_scales(log_scales)
            n_made += 1
    chain.counts.operations = operations
    return TunedSegment(chain.segment(), [log_scale for _, log_scale, _ in sweep.tunable_moves])


def switch(
    model: LatentGP,
    transition: Transition[Any],
    theta: FloatArray,
    rng: np.random.Generator,
    n_burn_in: int,
    state: ChainState | None = None,
) -> Segment:
    """Start the frozen transition where the set-up leaves a chain, and let it settle.

    Without a state, it starts afresh at theta.
    """
    return switch_all([(model, transition, theta, rng, n_burn_in, state)])[0]


def switch_all(jobs: Sequence[tuple[Any, ...]]) -> list[Segment]:
    """Make what `switch` makes for some chains, which move together; jobs are its arguments."""
    before = []
    burning_in = []
    for model, transition, theta, rng, n_burn_in, state in jobs:
        begun = None if state is not None else start(model, transition, theta, rng)
        before.append(begun.counts if begun else ChainCounts())
        first = begun.state if begun else state
        burning_in.append((model, transition, first, rng, n_burn_in))
    pairs = zip(before, sample_all(burning_in), strict=True)
    return [end._replace(counts=sum_counts([begun, end.counts])) for begun, end in pairs]


def sample(
    model: LatentGP,
    transition: Transition[Any],
    state: ChainState,
    rng: np.random.Generator,
    n_steps: int,
) -> Segment:
    """Some iterations of a frozen transition, recorded.

    State and stream are copied: a round that is interrupted leaves the one before as it was, and
    no matrices are made in a state that rests elsewhere.
    """
    return sample_all([(model, transition, state, rng, n_steps)])[0]


def sample_all(jobs: Sequence[tuple[Any, ...]]) -> list[Segment]:
    """Make what `sample` makes for some chains; jobs are its arguments.

    Chains with the same model and transition move together. All their matrices are there at once,
    which is why only chains with small ones do. In a set-up, chains end sooner if the time is over.
    """
    chains = [_RunningChain(*job) for job in jobs]
    together: dict[tuple[int, int, int], list[_RunningChain]] = {}
    for chain, (model, transition, _, _, n_steps) in zip(chains, jobs, strict=True):
        together.setdefault((id(model), id(transition), n_steps), []).append(chain)
    for group in together.values():
        _advance(group)
    return [chain.segment() for chain in chains]


def _advance(chains: Sequence[_RunningChain]) -> None:
    """Make all moves of chains with the same model and transition.

    Operations count for the first of the chains: nobody asks for those of a single one.
    """
    first = chains[0]
    with count_work() as operations:
        while first.goes_on:
            states = [chain.state for chain in chains]
            rngs = [chain.rng for chain in chains]
            made = first.transition.step_many(first.model, states, rngs)
            for chain, (state, info) in zip(chains, made, strict=True):
                chain.record(state, info)
    first.counts.operations = operations


class _RunningChain:
    """A chain on its way, and what is recorded of it; see `sample` for the arguments."""

    def __init__(
        self,
        model: LatentGP,
        transition: Transition[Any],
        state: ChainState,
        rng: np.random.Generator,
        n_steps: int,
    ) -> None:
        self.model = model
        self.transition = transition
        self.state = drop_factors(model, state)
        self.rng = copy.deepcopy(rng)
        self.counts = ChainCounts()
        p = len(state.theta)
        self._n_made = 0
        self._theta = np.empty((n_steps, p))
        self._f = np.empty((n_steps, len(state.f)))
        self._marked = np.empty((n_steps, count_marked(transition), p))

    @property
    def goes_on(self) -> bool:
        """Whether a move is left, and time for it."""
        return self._n_made < len(self._theta) and not time_is_over()

    def record(self, state: ChainState, info: StepInfo) -> None:
        """Record where a move has led."""
        self._theta[self._n_made] = state.theta
        self._f[self._n_made] = state.f
        marked = find_marked(info)
        self._marked[self._n_made] = state.theta if marked is None else marked
        self.state = state
        self._n_made += 1
        self.counts.add_step(info)

    def segment(self) -> Segment:
        """Return what was recorded."""
        state = drop_factors(self.model, self.state)
        made = slice(self._n_made)
        recorded = self._theta[made], self._f[made], self.counts, self._marked[made]
        return Segment(state, self.rng, *recorded)
