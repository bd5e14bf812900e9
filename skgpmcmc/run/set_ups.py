"""Before the first draw: the set-ups of all models in lockstep, and chains that settle."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation
from ..model import LatentGP
from ..numerics.linalg import OperationCount
from ..samplers import Sampler
from ..warmup import (
    MAX_JITTER,
    Counts,
    Done,
    Prepared,
    Request,
    Segment,
    SingularCovarianceError,
    Task,
    has_factor,
    perform,
    require_factors,
    sum_counts,
    switch,
)
from .effort import Monitor, Plan
from .records import Draws, ModelRun, Ongoing

#: Batch of work that tells how long others take; in the first one workers are still waking up.
_TIMED_BATCH = 2


class Ready(NamedTuple):
    """What the set-up of a model returns."""

    model: LatentGP  # as sampled
    prepared: Prepared  # what its chains need


def set_up(
    model: LatentGP,
    sampler: Sampler,
    approximation: Approximation,
    seed: np.random.SeedSequence,
    n_chains: int,
    n_importance: int | None,
    n_warmup: int,
) -> Generator[Sequence[Task], Sequence[Any], Ready]:
    """Set up the chains of one model, with a jitter that suits its posterior.

    The relative jitter is raised tenfold, and to MAX_JITTER at most, until K has a factor at the
    starts and wherever the set-up finds the posterior. It is part of the model: what is chosen here
    holds for the whole run, and what was learned with less of it is forgotten.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    while True:
        *rngs, rng = [np.random.default_rng(stream) for stream in seed.spawn(n_chains + 1)]
        starts = [model.hyperprior.sample(own) for own in rngs]
        model = _with_safe_jitter(model, starts)
        try:
            prepared = yield from sampler.set_up(
                Request(model, approximation, starts, rngs, rng, n_importance, n_warmup)
            )
            require_factors(model, [has_factor(model, theta) for theta in prepared.thetas])
        except SingularCovarianceError:
            model = _with_more_jitter(model)
        else:
            return Ready(model, prepared)


def _with_safe_jitter(model: LatentGP, thetas: Sequence[FloatArray]) -> LatentGP:
    """Raise the jitter as far as it may be until K has a factor at all places."""
    while model.covariance.jitter < MAX_JITTER and not all(has_factor(model, t) for t in thetas):
        model = _with_more_jitter(model)
    return model


def _with_more_jitter(model: LatentGP) -> LatentGP:
    return model.with_jitter(min(10.0 * model.covariance.jitter, MAX_JITTER))


def run_set_ups(
    pool: joblib.Parallel,
    set_ups: Sequence[Generator[Sequence[Task], Sequence[Any], Ready]],
    n_rounds: int,
    monitor: Monitor,
    plan: Plan,
) -> tuple[list[Ready], list[OperationCount]]:
    """Drive the set-ups of all models in lockstep; returns what they prepared, and their cost.

    How many batches of work there will be is not known: for the monitor each is a round, but the
    last of `n_rounds` takes all that follow, so that no round is announced in vain.
    """
    n_batches = 0
    prepared: dict[int, Ready] = {}
    operations = [OperationCount() for _ in set_ups]
    answers: dict[int, Sequence[Any] | None] = dict.fromkeys(range(len(set_ups)))
    while answers:
        wanted: dict[int, Sequence[Task]] = {}
        for m, answer in answers.items():
            try:
                wanted[m] = next(set_ups[m]) if answer is None else set_ups[m].send(answer)
            except StopIteration as end:
                prepared[m] = end.value
        answers = {}
        if wanted:
            n_batches += 1
            if n_batches <= n_rounds:
                monitor.begin_round()
            tasks = [task for batch in wanted.values() for task in batch]
            all_done = list(pool(joblib.delayed(perform)(task) for task in tasks))
            if n_batches == _TIMED_BATCH:
                _expect_from(all_done, plan, monitor)
            done = iter(all_done)
            for m, batch in wanted.items():
                results = [next(done) for _ in batch]
                answers[m] = [result.value for result in results]
                for result in results:
                    operations[m].add(result.operations)
            if n_batches < n_rounds:
                monitor.end_round()  # a stop request waits for the first draws
    if n_batches >= n_rounds:
        monitor.end_round()
    for _ in range(n_rounds - n_batches):  # with nothing to be learned there is nothing to do
        monitor.begin_round()
        monitor.end_round()
    return [prepared[m] for m in range(len(set_ups))], operations


def _expect_from(done: Sequence[Done], plan: Plan, monitor: Monitor) -> None:
    """Tell the monitor what the time of some tasks lets expect."""
    speeds = [d.seconds / d.operations.total for d in done if d.operations.total > 0.0]
    if speeds:
        monitor.expect(plan.effort(float(np.median(speeds)), "the first evaluations"))


def begin(
    pool: joblib.Parallel, ready: Sequence[Ready], operations: Sequence[OperationCount]
) -> list[ModelRun]:
    """Start every chain on its frozen transition, and let it settle.

    `operations` are those of the set-ups, one by one.
    """
    calls = [
        (one.model, one.prepared.transition, *where, one.prepared.n_settle, state)
        for one in ready
        for *where, state in _places(one.prepared)
    ]
    settled = iter(list(pool(joblib.delayed(switch)(*call) for call in calls)))
    return [
        _begun(one, [next(settled) for _ in one.prepared.rngs], count)
        for one, count in zip(ready, operations, strict=True)
    ]


def _places(prepared: Prepared) -> Iterator[tuple[Any, ...]]:
    """Theta, random stream and state in which each chain begins; None for a state made afresh."""
    states: Sequence[Any] = prepared.states or [None] * len(prepared.rngs)
    return zip(prepared.thetas, prepared.rngs, states, strict=True)


def _begun(ready: Ready, settled: list[Segment], operations: OperationCount) -> ModelRun:
    """Return the record of a model before its first kept draw."""
    model, prepared = ready
    of_set_up = Counts({}, {}, float(prepared.n_evaluations), 0, operations)
    draws = Draws(
        theta=np.empty((len(settled), 0, len(prepared.thetas[0]))),
        f=np.empty((len(settled), 0, model.n_latent)),
        chain_counts=[Counts({}, {}, 0.0, 0, OperationCount()) for _ in settled],
        warmup_counts=sum_counts([of_set_up, *(segment.counts for segment in settled)]),
    )
    chains = [Ongoing(prepared.transition, segment.state, segment.rng) for segment in settled]
    return ModelRun(model, draws, chains, prepared.reference, prepared.estimator, prepared.report)
