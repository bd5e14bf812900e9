"""Parallel chains: set-up, burn-in, and rounds of sampling until they converge.

One or several models (the classes of a one-vs-rest problem) share a pool of workers. Work is done
in rounds of fixed length: workers return states and draws, and between rounds the parent process
checks progress, stop requests, convergence and interrupts. Results do not depend on the number of
workers: every chain has its own random stream, rounds have the same length everywhere, and BLAS
runs on one thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from .._warnings import warn
from ..approximations.base import Approximation
from ..chain.counts import sum_counts
from ..chain.segment import Segment, sample, sample_all, switch, switch_all
from ..hyperposterior.cheap import CheapApproximation
from ..model.joint import LatentGP
from ..model.names import element_names
from ..parallel.threads import one_thread
from ..parallel.workers import Journal, LostWorkersError, Workers
from ..samplers.base import Sampler
from .convergence import ConvergenceGoal
from .progress import (
    ConvergenceStatus,
    Effort,
    Monitor,
    Progress,
    WorkPlan,
    estimate_n_draws,
    plan_work,
    time_iteration,
)
from .records import ModelRun, PausedChain, SamplingRun, judged_quantities
from .set_ups import ChainSettings, set_up_all

#: Iterations of a round, after which the parent process checks the chains.
ROUND_LENGTH = 50
#: Fewest iterations that chains make at a time, even if they seem to need fewer to converge.
_SHORTEST_ROUND = 10
#: Rows beyond which the time of a fit is estimated before its first evaluation, which takes long.
_ROWS_TIMED_FIRST = 2000


def n_rounds(n_draws: int) -> int:
    """Return how many rounds an uninterrupted run needs for so many kept draws per chain."""
    return -(-max(n_draws, 0) // ROUND_LENGTH)


def sample_chains(
    models: Sequence[LatentGP],
    sampler: Sampler,
    approximation: Approximation,
    *,
    n_importance: int | None,
    n_chains: int,
    n_warmup: int | None,
    n_draws: int,
    seed: np.random.SeedSequence,
    cheap: CheapApproximation | None = None,
    stop: ConvergenceGoal | None = None,
    n_jobs: int | None = None,
    monitor: Monitor | None = None,
    journal: Journal | None = None,
) -> SamplingRun:
    """Run `n_chains` chains for every model and return their draws.

    Parameters
    ----------
    models : sequence of LatentGP
        One per binary problem.
    sampler : Sampler
        Makes the set-up, which returns the transitions.
    approximation : Approximation
        Gaussian approximation of p(f | y, theta) that the sampler uses.
    n_importance : int or None
        Draws per likelihood estimate; None leaves the choice to the sampler.
    n_chains : int
        Chains per model.
    n_warmup : int or None
        Discarded iterations per chain; None for as many as the sampler needs.
    n_draws : int
        Kept iterations per chain.
    seed : numpy.random.SeedSequence
        Every chain spawns its own stream from it.
    cheap : CheapApproximation, optional
        Cheap posterior of theta that proposes, for the samplers that need one.
    stop : ConvergenceGoal, optional
        Sampling ends at the first round after which it is met.
    n_jobs : int, optional
        Workers of joblib; their number never changes a draw.
    monitor : Monitor, optional
        Receives progress, and may ask to stop, between rounds. An interrupt or a stop request
        keeps the complete rounds of draws; before the first of them an interrupt is raised again.
    journal : Journal, optional
        Stores what workers return, and returns it when the same run is repeated.

    Returns
    -------
    SamplingRun
        The models as sampled, and their draws.

    Raises
    ------
    RuntimeError
        If a chain finds no start with a finite density; the message names theta. A
        `LostWorkersError` if workers are lost again and again before there are draws.
    """
    clock = time.perf_counter()
    monitor = monitor or Monitor()
    n_discarded = sampler.n_warmup(n_warmup)
    settings = ChainSettings(sampler, approximation, n_chains, n_importance, n_discarded, cheap)
    dim = len(models[0].start)
    n_iterations = n_chains * (n_discarded + estimate_n_draws(n_draws, stop, n_chains, dim))
    n_evaluations = sampler.n_set_up_evaluations(dim)
    plan = plan_work(models, n_iterations, n_chains, n_jobs, n_evaluations)
    if plan.n_rows > _ROWS_TIMED_FIRST:
        in_use = approximation if sampler.approximates or sampler.integrates_f else None
        seconds = time_iteration(models[0], in_use)
        monitor.report_effort(plan.estimate_effort(seconds, "an evaluation with some of the rows"))
    # Set-ups fit their emulators in this process. They do so on one BLAS thread, as workers do, so
    # that no result depends on the number of threads.
    with one_thread(), Workers(n_jobs, journal) as workers:
        n_rounds_before = sampler.n_set_up_rounds(n_discarded) - 1  # burn-in has the last round
        set_ups = set_up_all(models, settings, seed, workers, n_rounds_before, monitor, plan)
        if not workers.replays and any(one.prepared.n_burn_in for one in set_ups):
            monitor.report_stage("burn-in: iterations that are not kept")
        monitor.begin_round()
        calls = []
        for model, own, _ in set_ups:
            states: Sequence[Any] = own.states or [None] * n_chains  # None starts afresh at theta
            calls += [
                joblib.delayed(switch)(model, own.transition, theta, rng, own.n_burn_in, state)
                for theta, rng, state in zip(own.thetas, own.rngs, states, strict=True)
            ]
        together = switch_all if plan.moves_together else None
        burnt_in = iter(workers.run(calls, "start of the chains", together))
        started = [one.begin_run(list(islice(burnt_in, n_chains))) for one in set_ups]
        monitor.end_round()  # a stop request waits for the first draws
        seconds_warmup = time.perf_counter() - clock
        run = SamplingRun(started, seconds_warmup=seconds_warmup, seconds_sampling=0.0)
        return _sample_more(workers, run, n_draws, stop, monitor, plan)


def continue_chains(
    run: SamplingRun,
    *,
    n_draws: int,
    stop: ConvergenceGoal | None = None,
    n_jobs: int | None = None,
    monitor: Monitor | None = None,
) -> SamplingRun:
    """Continue a run until its chains have `n_draws` kept draws each, or `stop` is met.

    The draws are those of one longer run.
    """
    models = [own.model for own in run.models]
    n_chains = len(run.models[0].chains)
    plan = plan_work(models, n_chains * (n_draws - run.n_draws), n_chains, n_jobs)
    with Workers(n_jobs) as workers:
        return _sample_more(workers, run, n_draws, stop, monitor or Monitor(), plan)


class _RunningChains(NamedTuple):
    """The chains of one model, and the rounds of draws that are being added to its run."""

    own: ModelRun  # as it was before these rounds
    chains: list[PausedChain]  # after these rounds
    rounds: tuple[list[Segment], ...] = ()  # one segment per chain, without its state
    n_missing: float = np.inf  # estimate of the draws that each chain still needs for the goal

    @property
    def n_new(self) -> int:
        """Draws of each chain in these rounds."""
        return sum(len(segments[0].theta) for segments in self.rounds)

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return self.own.draws.theta.shape[1] + self.n_new

    @property
    def judged(self) -> FloatArray:
        """The quantities of which the goal is checked, (n_chains, n, k)."""
        draws = self.own.draws
        if not draws.theta.shape[2]:
            return judged_quantities(self.own.model, draws.with_rounds(self.rounds))
        # The draws of f are large, and are not copied.
        new = [np.concatenate([s.theta for s in chain]) for chain in zip(*self.rounds, strict=True)]
        return np.concatenate([draws.theta, new], axis=1)

    def goes_on(self, end: int) -> bool:
        """Whether the goal is missed and the chains have fewer than `end` draws."""
        return self.n_missing > 0.0 and self.n_draws < end

    def with_segments(
        self, segments: Sequence[Segment], stop: ConvergenceGoal | None
    ) -> _RunningChains:
        """Return these chains after another segment of each, judged by the goal."""
        pairs = list(zip(self.chains, segments, strict=True))
        chains = [PausedChain(chain.transition, new.state, new.rng) for chain, new in pairs]
        kept = [new._replace(state=None) for new in segments]  # only the next round needs states
        longer = self._replace(chains=chains, rounds=(*self.rounds, kept))
        if stop is None:
            return longer
        return longer._replace(n_missing=stop.estimate_missing(longer.judged) * longer.n_draws)


def _sample_more(
    workers: Workers,
    run: SamplingRun,
    n_draws: int,
    stop: ConvergenceGoal | None,
    monitor: Monitor,
    plan: WorkPlan,
) -> SamplingRun:
    """Sample in rounds until `n_draws`, convergence, a stop request or an interrupt.

    Every model stops separately: its draws do not depend on those of the others.
    """
    begin = time.perf_counter()
    begin_computing = begin  # later, if the first rounds come from a journal
    interrupted = False
    running = [_RunningChains(own, own.chains) for own in run.models]
    dim = len(run.models[0].model.start)
    n_guessed = estimate_n_draws(n_draws, stop, len(running[0].chains), dim)
    try:
        for _ in range(n_rounds(n_draws - run.n_draws)):
            monitor.begin_round()
            n_before = min(one.n_draws for one in running if one.n_missing > 0.0)
            end = min(n_before + ROUND_LENGTH, n_draws)
            while any(one.goes_on(end) for one in running):
                running = _make_draws(running, end, stop, workers, plan)
            n_computed = max(one.n_new for one in running) - workers.n_replayed
            now = time.perf_counter()
            seconds: float | None = None  # for one draw of every chain
            if n_computed:
                seconds = (now - begin_computing) / n_computed
                n_missing = max(one.n_missing for one in running)
                n_left = n_missing if np.isfinite(n_missing) else max(n_guessed - end, 0)
                left = min(n_left, n_draws - end) * seconds
                monitor.report_effort(Effort(plan, left, "the draws so far"))
            else:
                begin_computing = now
            has_converged = not any(one.n_missing > 0.0 for one in running)
            is_complete = has_converged or end >= n_draws
            judge = partial(_convergence_status, running)
            monitor.report_draws(Progress(end, n_draws, seconds, is_complete, judge))
            if monitor.end_round() or has_converged:
                break
    except (KeyboardInterrupt, LostWorkersError) as error:
        n_kept = min(one.n_draws for one in running)
        # States are missing where a journal has further draws of a chain.
        if not n_kept or any(chain.state is None for one in running for chain in one.chains):
            raise
        interrupted = True
        warn(
            f"Sampling was interrupted: the {n_kept} draws per chain of the complete rounds (of "
            f"{n_draws} asked for) are kept. {error}".rstrip()
        )
    seconds_sampling = run.seconds_sampling + time.perf_counter() - begin
    models = [
        replace(one.own, draws=one.own.draws.with_rounds(one.rounds), chains=one.chains)
        for one in running
    ]
    return replace(run, models=models, seconds_sampling=seconds_sampling, interrupted=interrupted)


def _make_draws(
    running: Sequence[_RunningChains],
    end: int,
    stop: ConvergenceGoal | None,
    workers: Workers,
    plan: WorkPlan,
) -> list[_RunningChains]:
    """Make the next draws of the chains that have not met the goal, up to `end` at most."""
    calls = []
    for one in running:
        if one.goes_on(end):
            n_left = end - one.n_draws
            n_missing = int(np.ceil(min(one.n_missing, n_left)))
            length = min(n_left, max(_SHORTEST_ROUND, n_missing))
            calls += [joblib.delayed(sample)(one.own.model, *own, length) for own in one.chains]
    segments = iter(workers.run(calls, "draws", sample_all if plan.moves_together else None))
    return [
        one.with_segments(list(islice(segments, len(one.chains))), stop)
        if one.goes_on(end)
        else one
        for one in running
    ]


def _convergence_status(running: Sequence[_RunningChains]) -> ConvergenceStatus:
    """Judge all chains by their draws so far."""
    chains = []
    for one in running:
        names = element_names(one.own.model.hyperprior.names)
        chains.append((one.judged, names or ["f"] * one.judged.shape[2]))
    counts = [s.counts for one in running for segments in one.rounds for s in segments]
    return ConvergenceStatus.of(chains, sum_counts(counts))
