"""The set-ups of the models of a run, which are made one after the other with one pool of workers.

Each set-up receives the starts of its chains and an executor, and returns the frozen transition
with which the chains begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import joblib
import numpy as np

from ..approximations.base import Approximation
from ..chain import time_limit
from ..chain.counts import ChainCounts, sum_counts
from ..chain.executor import TaskResult, perform
from ..chain.segment import Segment, switch
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
    """Settings of the chains, the same for every model of a run."""

    sampler: Sampler
    approximation: Approximation
    n_chains: int
    n_importance: int | None  # draws per likelihood estimate; None leaves it to the sampler
    n_warmup: int  # discarded iterations per chain
    cheap: CheapApproximation | None  # the posterior that proposes, for samplers that use one


class SetUpResult(NamedTuple):
    """Result of the set-up of one model."""

    model: LatentGP  # as the chains sample it
    prepared: PreparedChains  # the transition, and the starts of the chains
    operations: OperationCount  # of the set-up

    def burn_in_calls(self) -> list[Call]:
        """Return one call for each chain, which starts it and makes its burn-in."""
        own = self.prepared
        states: Sequence[Any] = own.states or [None] * len(own.rngs)  # None starts afresh at theta
        return [
            joblib.delayed(switch)(self.model, own.transition, theta, rng, own.n_burn_in, state)
            for theta, rng, state in zip(own.thetas, own.rngs, states, strict=True)
        ]

    def begin_run(self, burnt_in: Sequence[Segment]) -> ModelRun:
        """Return the record of the model before its first kept draw.

        Parameters
        ----------
        burnt_in : sequence of Segment
            Results of the `burn_in_calls`.
        """
        model, own, operations = self
        set_up_counts = ChainCounts(n_evaluations=own.n_evaluations, operations=operations)
        n_chains = len(burnt_in)
        p = len(own.thetas[0])
        n_marked = count_marked(own.transition)
        draws = Draws(
            theta=np.empty((n_chains, 0, p)),
            f=np.empty((n_chains, 0, model.n_latent)),
            marked=np.empty((n_chains, 0, n_marked, p)) if n_marked else None,
            chain_counts=[ChainCounts() for _ in burnt_in],
            warmup_counts=sum_counts([set_up_counts, *(segment.counts for segment in burnt_in)]),
            f_is_mean=not own.draws_latent,
        )
        chains = [PausedChain(own.transition, segment.state, segment.rng) for segment in burnt_in]
        n_discarded = own.n_tuned + own.n_burn_in
        return ModelRun(model, draws, chains, own.reference, own.estimator, own.report, n_discarded)


def set_up_all(
    models: Sequence[LatentGP],
    settings: ChainSettings,
    seed: np.random.SeedSequence,
    workers: Workers,
    n_rounds: int,
    monitor: Monitor,
    plan: WorkPlan,
) -> list[SetUpResult]:
    """Set up the chains of all models, one after the other.

    Each model may take an equal share of the time that is left for it and those after it.

    Parameters
    ----------
    models : sequence of LatentGP
        The models.
    settings : ChainSettings
        Settings of the chains of every model.
    seed : numpy.random.SeedSequence
        Each model spawns its own streams from it.
    workers : Workers
        The pool that does the work.
    n_rounds : int
        Rounds that the monitor hears of; see `_SetUpRounds`.
    monitor : Monitor
        Receives stages and rounds.
    plan : WorkPlan
        The work of the whole run, for an estimate of its time.
    """
    rounds = _SetUpRounds(monitor, n_rounds)
    results = []
    for m, (model, stream) in enumerate(zip(models, seed.spawn(len(models)), strict=True)):
        class_label = f" of class {m + 1} of {len(models)}" if len(models) > 1 else ""
        executor = _SetUpExecutor(workers, rounds, plan, class_label, len(models) - m)
        results.append(_set_up(model, settings, stream, executor))
        if monitor.limit.was_noticed:
            workers.leave_journal()
    rounds.end()
    if monitor.limit.was_noticed:  # no time for a burn-in
        results = [one._replace(prepared=one.prepared._replace(n_burn_in=0)) for one in results]
    return results


def _set_up(
    model: LatentGP,
    settings: ChainSettings,
    seed: np.random.SeedSequence,
    executor: _SetUpExecutor,
) -> SetUpResult:
    """Set up the chains of a model, which begin at draws from the prior of theta."""
    *rngs, rng = [np.random.default_rng(stream) for stream in seed.spawn(settings.n_chains + 1)]
    starts = [model.hyperprior.sample(own) for own in rngs]
    model = settings.sampler.prepare_model(model)
    request = Request(
        model,
        settings.approximation,
        starts,
        rngs,
        rng,
        settings.n_importance,
        settings.n_warmup,
        settings.cheap,
    )
    with apply_limit(TimeLimit()) as executor.limit:
        prepared = settings.sampler.set_up(request, executor)
    executor.rounds.monitor.limit.was_noticed |= executor.limit.was_noticed
    return SetUpResult(model, prepared, executor.operations)


class _SetUpRounds:
    """Announces the batches of all set-ups to a monitor, each as a round.

    The number of batches is not known in advance. The monitor hears of exactly `n_rounds` rounds:
    the last one lasts until the end of the set-ups, and rounds that are left over are empty.
    """

    def __init__(self, monitor: Monitor, n_rounds: int) -> None:
        self.monitor = monitor
        self.has_reported_effort = False
        self._n_left = n_rounds
        self._is_open = False

    def begin(self, stage: str | None) -> None:
        """Begin a batch; the monitor hears of its stage, unless that is None."""
        if stage is not None:
            self.monitor.report_stage(stage)
        if self._n_left:
            if self._is_open:
                self.monitor.end_round()  # a stop request waits for the first draws
            self.monitor.begin_round()
            self._n_left = self._n_left - 1
            self._is_open = True

    def end(self) -> None:
        """End the open round, after those that are left over."""
        while self._n_left:
            self.begin(None)
        if self._is_open:
            self.monitor.end_round()


class _SetUpExecutor:
    """The `Executor` of one set-up: it sends calls to workers, counts them, and ends them in time.

    The journal of a checkpoint records set-ups that were not cut short. So the set-up ignores the
    time limit of the monitor as long as its results come from the journal, and leaves the journal
    once it is cut short.
    """

    def __init__(
        self,
        workers: Workers,
        rounds: _SetUpRounds,
        plan: WorkPlan,
        class_label: str,
        n_models_left: int,
    ) -> None:
        self.rounds = rounds
        self.limit = TimeLimit()
        self.operations = OperationCount()
        self._workers = workers
        self._plan = plan
        self._class_label = class_label
        self._n_models_left = n_models_left

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
        if self.limit.was_noticed:
            workers.leave_journal()
        is_replayed = workers.replays
        if not is_replayed:
            self._set_limit()
        self.rounds.begin(None if is_replayed else f"{stage}{self._class_label}")
        calls = [
            joblib.delayed(perform)(function, item, self.limit, i < n_needed)
            for i, item in enumerate(items)
        ]
        done: list[TaskResult] = workers.run(calls, f"{stage.partition(':')[0]}{self._class_label}")
        for result in done:
            self.operations.add(result.operations)
        self.limit.spent = sum(result.seconds for result in done)
        if any(result.cut for result in done):
            self._stop_all()
        if iterations and not is_replayed:
            self._report_effort(done, iterations)
        return [result.value for result in done]

    def _set_limit(self) -> None:
        """Give the set-up its share of the time that is left, unless it has one or needs none."""
        whole = self.rounds.monitor.limit
        if self.limit.end == np.inf and whole.end < np.inf:
            self.limit.seconds = whole.seconds
            now = time_limit.clock()
            self.limit.end = now + (whole.end - now) / self._n_models_left

    def _stop_all(self) -> None:
        """End the time of all later calls, even of those whose workers have time left."""
        self.limit.was_noticed = True
        self.limit.end = -np.inf
        self.rounds.monitor.limit.was_noticed = True

    def _report_effort(self, done: list[TaskResult], iterations_per_call: float) -> None:
        """Report an estimate of the time of the whole run, once, from the first complete calls."""
        seconds = [result.seconds / iterations_per_call for result in done if not result.cut]
        if seconds and not self.rounds.has_reported_effort:
            self.rounds.has_reported_effort = True
            left = self._plan.estimate_effort(float(np.median(seconds)), "the first evaluations")
            self.rounds.monitor.report_effort(left)
