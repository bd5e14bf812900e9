"""The set-ups of the models of a run: what each is handed, and what its chains begin with.

Several models (the classes of a one-vs-rest problem) share one pool of workers and are set up one
after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np

from ..approximations.base import Approximation
from ..chain import time_limit
from ..chain.counts import ChainCounts, sum_counts
from ..chain.executor import TaskResult, perform
from ..chain.segment import switch
from ..chain.time_limit import TimeLimit, apply_limit
from ..hyperposterior.cheap import CheapApproximation
from ..model.joint import LatentGP
from ..numerics.linalg import OperationCount
from ..parallel.workers import Call, Workers
from ..samplers.base import Sampler
from ..setup.request import PreparedChains, Request
from ..transitions.mapping import count_marked
from .progress import Monitor, WorkPlan
from .records import Draws, ModelRun, PausedChain


class ChainSettings(NamedTuple):
    """What every model is to have chains of."""

    sampler: Sampler
    approximation: Approximation
    n_chains: int
    n_importance: int | None
    n_warmup: int
    cheap: CheapApproximation | None


class SetUpResult(NamedTuple):
    """What the set-up of a model returns."""

    model: LatentGP  # as sampled
    prepared: PreparedChains  # what its chains need
    operations: OperationCount  # of the set-up

    def calls(self) -> Iterator[Call]:
        """Give the work that starts every chain on its frozen transition, and lets it settle.

        Yields
        ------
        Call
            One for each chain.
        """
        model, own, _ = self
        states: Sequence[Any] = own.states or [None] * len(own.rngs)  # None: made afresh
        for theta, rng, state in zip(own.thetas, own.rngs, states, strict=True):
            yield joblib.delayed(switch)(model, own.transition, theta, rng, own.n_burn_in, state)

    def begin_run(self, settled: list[Any]) -> ModelRun:
        """Return the record of a model before its first kept draw."""
        model, own, operations = self
        of_set_up = ChainCounts(n_evaluations=own.n_evaluations, operations=operations)
        n_chains = len(settled)
        p = len(own.thetas[0])
        n_marked = count_marked(own.transition)
        draws = Draws(
            theta=np.empty((n_chains, 0, p)),
            f=np.empty((n_chains, 0, model.n_latent)),
            marked=np.empty((n_chains, 0, n_marked, p)) if n_marked else None,
            chain_counts=[ChainCounts() for _ in settled],
            warmup_counts=sum_counts([of_set_up, *(segment.counts for segment in settled)]),
            f_is_mean=not own.draws_latent,
        )
        chains = [PausedChain(own.transition, segment.state, segment.rng) for segment in settled]
        n_discarded = own.n_tuned + own.n_burn_in
        return ModelRun(model, draws, chains, own.reference, own.estimator, own.report, n_discarded)


def set_up_all(
    models: Sequence[LatentGP],
    wanted: ChainSettings,
    seed: np.random.SeedSequence,
    workers: Workers,
    n_rounds: int,
    monitor: Monitor,
    plan: WorkPlan,
) -> list[SetUpResult]:
    """Set up the chains of all models.

    How many batches of work there will be is not known: for the monitor each is a round, but the
    last of `n_rounds` takes all that follow, so that no round is announced in vain.

    Of the time that is left every model that is to come has the same share.
    """
    rounds = _Rounds(monitor, n_rounds)
    ready = []
    for m, (model, stream) in enumerate(zip(models, seed.spawn(len(models)), strict=True)):
        of = f" of class {m + 1} of {len(models)}" if len(models) > 1 else ""
        work = _Work(workers, rounds, plan, of, len(models) - m)
        ready.append(_set_up(model, wanted, stream, work))
        if monitor.limit.was_noticed:
            workers.leave_journal()
    rounds.end()
    if monitor.limit.was_noticed:  # no time for iterations that settle
        ready = [one._replace(prepared=one.prepared._replace(n_burn_in=0)) for one in ready]
    return ready


def _set_up(
    model: LatentGP, wanted: ChainSettings, seed: np.random.SeedSequence, work: _Work
) -> SetUpResult:
    """Set up the chains of a model, which begin at draws from the prior of theta."""
    *rngs, rng = [np.random.default_rng(stream) for stream in seed.spawn(wanted.n_chains + 1)]
    starts = [model.hyperprior.sample(own) for own in rngs]
    model = wanted.sampler.prepare_model(model)
    request = Request(
        model,
        wanted.approximation,
        starts,
        rngs,
        rng,
        wanted.n_importance,
        wanted.n_warmup,
        wanted.cheap,
    )
    with apply_limit(TimeLimit()) as work.limit:
        prepared = wanted.sampler.set_up(request, work)
    work.rounds.monitor.limit.was_noticed |= work.limit.was_noticed
    return SetUpResult(model, prepared, work.operations)


class _Rounds:
    """Tells a monitor of batches, as of so many rounds; the last takes all that follow."""

    def __init__(self, monitor: Monitor, n_rounds: int) -> None:
        self.monitor = monitor
        self.is_timed = False
        self._n_left = n_rounds
        self._is_open = False

    def begin(self, stage: str | None) -> None:
        """Begin a batch, of whose stage the monitor is told if there is one."""
        if stage is not None:
            self.monitor.set_up(stage)
        if self._n_left:
            if self._is_open:
                self.monitor.end_round()  # a stop request waits for the first draws
            self.monitor.begin_round()
            self._n_left = self._n_left - 1
            self._is_open = True

    def end(self) -> None:
        """End all rounds: with nothing to be learned there is nothing to do."""
        while self._n_left:
            self.begin(None)
        if self._is_open:
            self.monitor.end_round()


class _Work:
    """The executor of one set-up: calls go to workers, are counted, and end in time.

    A journal has what set-ups do that are given their time. So the time limit of the monitor waits
    until the journal has been followed to its end, and what is done in a hurry is not journaled.
    """

    def __init__(
        self, workers: Workers, rounds: _Rounds, plan: WorkPlan, of: str, n_to_come: int
    ) -> None:
        self.rounds = rounds
        self.limit = TimeLimit()
        self.operations = OperationCount()
        self._workers = workers
        self._plan = plan
        self._of = of
        self._n_to_come = n_to_come

    def map(
        self,
        function: Callable[..., Any],
        items: Sequence[tuple[Any, ...]],
        stage: str,
        *,
        n_needed: int = 0,
        iterations: float = 0.0,
    ) -> list[Any]:
        """See `Executor`."""
        workers = self._workers
        monitor = self.rounds.monitor
        if self.limit.was_noticed:
            workers.leave_journal()
        is_replayed = workers.replays
        self._set_limit(is_replayed)
        self.rounds.begin(None if is_replayed else f"{stage}{self._of}")
        calls = [
            joblib.delayed(perform)(function, item, self.limit, i < n_needed)
            for i, item in enumerate(items)
        ]
        done: list[TaskResult] = workers.run(calls, f"{stage.partition(':')[0]}{self._of}")
        for result in done:
            self.operations.add(result.operations)
        self.limit.spent = sum(result.seconds for result in done)
        if any(result.cut for result in done):  # over for all, whatever their clocks say
            self.limit.was_noticed = True
            self.limit.end = -np.inf
            monitor.limit.was_noticed = True
        if iterations and not is_replayed:
            self._expect(done, iterations)
        return [result.value for result in done]

    def _set_limit(self, is_replayed: bool) -> None:
        """Give the set-up its share of the time that is left, once the journal is at its end."""
        whole = self.rounds.monitor.limit
        if not is_replayed and self.limit.end == np.inf and whole.end < np.inf:
            self.limit.seconds = whole.seconds
            now = time_limit.clock()
            self.limit.end = now + (whole.end - now) / self._n_to_come

    def _expect(self, done: list[TaskResult], per_call: float) -> None:
        """Tell the monitor what the time of some calls lets expect, once."""
        each = [result.seconds / per_call for result in done if not result.cut]
        if each and not self.rounds.is_timed:
            self.rounds.is_timed = True
            left = self._plan.effort(float(np.median(each)), "the first evaluations")
            self.rounds.monitor.expect(left)
