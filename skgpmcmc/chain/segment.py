"""Segments of chains, which workers compute.

Every function runs on one BLAS thread, counts its O(n^3) operations, and returns a `Segment` from
which the next segment continues. Between segments the states hold no matrices, so that a worker
with several chains holds the matrices of one chain at a time.
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

#: Most attempts to start a chain or a search: each goes halfway to the kernel's own values.
MOST_ATTEMPTS = 30
#: Floating-point errors that are ignored: a density that is not finite is rejected anyway.
_IGNORED_ERRORS: dict[str, Any] = {"over": "ignore", "invalid": "ignore"}


@contextmanager
def count_work() -> Iterator[OperationCount]:
    """Count operations, on one BLAS thread: the context of all work of chains and set-ups.

    Far out in the tails numbers overflow. NumPy's warnings of this are off, because every density
    is checked for being finite, and rejected otherwise.

    Yields
    ------
    OperationCount
        Counts while the context lasts.
    """
    with one_thread(), np.errstate(**_IGNORED_ERRORS), count_operations() as operations:
        yield operations


class Segment(NamedTuple):
    """A segment of one chain, as a worker returns it."""

    state: Any  # the ChainState at its end, without factors; None once the next segment has begun
    rng: np.random.Generator
    theta: FloatArray  # (n_steps, p)
    f: FloatArray  # (n_steps, n), or (n_steps, 0) if f is not recorded
    counts: ChainCounts
    marked: FloatArray  # (n_steps, r, p), see `MappingInfo`; r is 0 without a mark


def join_segments(parts: Sequence[Segment]) -> Segment:
    """Join successive segments of one chain, without a state."""
    return Segment(
        None,
        parts[0].rng,
        np.concatenate([s.theta for s in parts]),
        np.concatenate([s.f for s in parts]),
        sum_counts(s.counts for s in parts),
        np.concatenate([s.marked for s in parts]),
    )


class TunedSegment(NamedTuple):
    """A segment during which the scales of a sweep were tuned."""

    segment: Segment
    log_scales: list[float]  # of the tuned moves, at the end of the segment


def start(
    model: LatentGP, transition: Transition[Any], theta: FloatArray, rng: np.random.Generator
) -> Segment:
    """Start a chain at theta, or nearer to the kernel's own values if theta has no density."""
    with count_work() as operations:
        attempt = 1
        state = transition.start(model, theta, rng)
        while state is None and attempt < MOST_ATTEMPTS:
            attempt += 1
            # The kernel's own values are the last attempt, as they may lie at a bound of the prior.
            theta = model.start if attempt == MOST_ATTEMPTS else 0.5 * (theta + model.start)
            state = transition.start(model, theta, rng)
    if state is None:
        raise RuntimeError(no_density_message(model, theta))
    counts = ChainCounts(n_evaluations=float(attempt), operations=operations)
    return _RunningChain(model, transition, state, rng, 0).segment()._replace(counts=counts)


def no_density_message(model: LatentGP, theta: FloatArray) -> str:
    """Message for a chain that cannot start; it names the last theta that was tried."""
    values = model.hyperprior.describe(theta)
    return (
        f"No chain can start: {_describe_culprit(model, theta)} at hyper-parameters {values}, and "
        "no better on the way from there to the kernel's own values."
    )


def _describe_culprit(model: LatentGP, theta: FloatArray) -> str:
    """Describe the part of the model that has no density at theta, with a remedy."""
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
    """Run one window of warm-up, in which acceptance probabilities tune the scale of every move.

    `first_gains` has, for each move of the sweep, the steps since its tuning began. The window ends
    early if the time is over.
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
    """Start the frozen transition from the end of the set-up, and run its burn-in.

    Without a state, the chain starts afresh at theta.
    """
    return switch_all([(model, transition, theta, rng, n_burn_in, state)])[0]


def switch_all(jobs: Sequence[tuple[Any, ...]]) -> list[Segment]:
    """Do what `switch` does for several chains, which move together; `jobs` are its arguments."""
    before = []
    burning_in = []
    for model, transition, theta, rng, n_burn_in, state in jobs:
        counts = ChainCounts()
        if state is None:
            state, _, _, _, counts, _ = start(model, transition, theta, rng)
        before.append(counts)
        burning_in.append((model, transition, state, rng, n_burn_in))
    pairs = zip(before, sample_all(burning_in), strict=True)
    return [end._replace(counts=sum_counts([begun, end.counts])) for begun, end in pairs]


def sample(
    model: LatentGP,
    transition: Transition[Any],
    state: ChainState,
    rng: np.random.Generator,
    n_steps: int,
) -> Segment:
    """Run and record some iterations of a frozen transition.

    The state and the random stream are copied: an interrupted round leaves the result of the round
    before unchanged, and a stored state receives no matrices.
    """
    return sample_all([(model, transition, state, rng, n_steps)])[0]


def sample_all(jobs: Sequence[tuple[Any, ...]]) -> list[Segment]:
    """Do what `sample` does for several chains; `jobs` are its arguments.

    Chains with the same model and transition move together. As their matrices exist at the same
    time, callers do this only for small matrices. In a set-up, chains end early if the time is
    over.
    """
    chains = [_RunningChain(*job) for job in jobs]
    together: dict[tuple[int, int, int], list[_RunningChain]] = {}
    for chain, (model, transition, _, _, n_steps) in zip(chains, jobs, strict=True):
        together.setdefault((id(model), id(transition), n_steps), []).append(chain)
    for group in together.values():
        first = group[0]
        with count_work() as operations:
            while first.goes_on:
                states = [chain.state for chain in group]
                rngs = [chain.rng for chain in group]
                made = first.transition.step_many(first.model, states, rngs)
                for chain, (state, info) in zip(group, made, strict=True):
                    chain.record(state, info)
        # All operations count for the first chain, as only the sum over chains is reported.
        first.counts.operations = operations
    return [chain.segment() for chain in chains]


class _RunningChain:
    """A chain that moves, with its record; see `sample` for the arguments."""

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
        """Whether a move remains to be made, and there is time for it."""
        return self._n_made < len(self._theta) and not time_is_over()

    def record(self, state: ChainState, info: StepInfo) -> None:
        """Record the state after a move, and count the move."""
        self._theta[self._n_made] = state.theta
        self._f[self._n_made] = state.f
        marked = find_marked(info)
        self._marked[self._n_made] = state.theta if marked is None else marked
        self.state = state
        self._n_made += 1
        for step in info.steps:
            self.counts.n_steps[step.move] += 1
            self.counts.n_accepted[step.move] += step.accepted
            self.counts.n_failed += step.failed
        self.counts.n_evaluations += info.n_evaluations

    def segment(self) -> Segment:
        """Return the record as a segment."""
        state = drop_factors(self.model, self.state)
        made = slice(self._n_made)
        recorded = self._theta[made], self._f[made], self.counts, self._marked[made]
        return Segment(state, self.rng, *recorded)
