"""The set-ups of the models of a run, which are made one after the other with one pool of workers.

Each set-up receives the starts of its chains and an executor, and returns the frozen transition
with which the chains begin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import joblib
import numpy as np

from ..approximations.base import Approximation
from ..chain import time_limit
from ..chain.counts import ChainCounts, sum_counts
from ..chain.executor import TaskResult, perform
from ..chain.segment import Segment
from ..chain.time_limit import TimeLimit, apply_limit
from ..hyperposterior.cheap import CheapApproximation
from ..model.joint import LatentGP
from ..numerics.linalg import OperationCount
from ..parallel.workers import Workers
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

    def begin_run(self, burnt_in: Sequence[Segment]) -> ModelRun:
        """Return the record of the model before its first kept draw.

        Parameters
        ----------
        burnt_in : sequence of Segment
            The burn-in of each chain.
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
        Rounds that the monitor hears of; see `_SetUpExecutor`.
    monitor : Monitor
        Receives stages and rounds.
    plan : WorkPlan
        The work of the whole run, for an estimate of its time.
    """
    executor = _SetUpExecutor(workers, monitor, plan, n_rounds)
    results = []
    for m, (model, stream) in enumerate(zip(models, seed.spawn(len(models)), strict=True)):
        executor.class_label = f" of class {m + 1} of {len(models)}" if len(models) > 1 else ""
        executor.n_models_left = len(models) - m
        executor.operations = OperationCount()
        *rngs, rng = [np.random.default_rng(own) for own in stream.spawn(settings.n_chains + 1)]
        request = Request(
            settings.sampler.prepare_model(model),
            settings.approximation,
            [model.hyperprior.sample(own) for own in rngs],
            rngs,
            rng,
            settings.n_importance,
            settings.n_warmup,
            settings.cheap,
        )
        with apply_limit(TimeLimit()) as executor.limit:
            prepared = settings.sampler.set_up(request, executor)
        results.append(SetUpResult(request.model, prepared, executor.operations))
        monitor.limit.was_noticed |= executor.limit.was_noticed
        if monitor.limit.was_noticed:
            workers.leave_journal()
    while executor.n_rounds_left:
        executor.begin_round()
    if executor.round_is_open:
        monitor.end_round()
    if monitor.limit.was_noticed:  # no time for a burn-in
        results = [one._replace(prepared=one.prepared._replace(n_burn_in=0)) for one in results]
    return results


@dataclass(eq=False)
class _SetUpExecutor:
    """The `Executor` of all set-ups: it sends calls to workers, counts them, and ends them in time.

    The journal of a checkpoint records set-ups that were not cut short. So a set-up ignores the
    time limit of the monitor as long as its results come from the journal, and leaves the journal
    once it is cut short.

    The monitor hears of each batch of work as a round. The number of batches is not known in
    advance, and the monitor hears of exactly `n_rounds_left` rounds: the last one lasts until the
    end of the set-ups, and rounds that are left over are empty.
    """

    workers: Workers
    monitor: Monitor
    plan: WorkPlan
    n_rounds_left: int
    round_is_open: bool = False
    has_reported_effort: bool = False
    # Of the set-up in progress:
    class_label: str = ""
    n_models_left: int = 1
    operations: OperationCount = field(default_factory=OperationCount)
    limit: TimeLimit = field(default_factory=TimeLimit)

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
        whole = self.monitor.limit
        if self.limit.was_noticed:
            self.workers.leave_journal()
        is_replayed = self.workers.replays
        if not is_replayed:
            if self.limit.end == np.inf and whole.end < np.inf:
                # The set-up gets its share of the time that is left.
                self.limit.seconds = whole.seconds
                now = time_limit.clock()
                self.limit.end = now + (whole.end - now) / self.n_models_left
            self.monitor.report_stage(f"{stage}{self.class_label}")
        if self.n_rounds_left:
            self.begin_round()
        calls = [
            joblib.delayed(perform)(function, item, self.limit, i < n_needed)
            for i, item in enumerate(items)
        ]
        name = f"{stage.partition(':')[0]}{self.class_label}"
        done: list[TaskResult] = self.workers.run(calls, name)
        for result in done:
            self.operations.add(result.operations)
        self.limit.spent = sum(result.seconds for result in done)
        if any(result.cut for result in done):
            # The time of all later calls is over, even of those whose workers have time left.
            self.limit.was_noticed = True
            self.limit.end = -np.inf
            whole.was_noticed = True
        complete = [result.seconds / iterations for result in done if iterations and not result.cut]
        if complete and not is_replayed and not self.has_reported_effort:
            self.has_reported_effort = True
            seconds = float(np.median(complete))
            self.monitor.report_effort(self.plan.estimate_effort(seconds, "the first evaluations"))
        return [result.value for result in done]

    def begin_round(self) -> None:
        """Begin one of the rounds that are left, after the end of the open one."""
        if self.round_is_open:
            self.monitor.end_round()  # a stop request waits for the first draws
        self.monitor.begin_round()
        self.n_rounds_left = self.n_rounds_left - 1
        self.round_is_open = True
