"""Parallel chains: rounds of sampling, and what continues them.

One or several models (the classes of a one-vs-rest problem) share a pool of workers. Work goes in
rounds of fixed length: workers return states and draws, and the parent looks at progress, stop
requests, convergence and interrupts between rounds. Nothing depends on the number of workers: every
chain has its own random stream, rounds have the same length everywhere, and BLAS runs on one
thread.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from .._warnings import warn
from ..approximations import Approximation, CheapApproximation
from ..model import LatentGP
from ..numerics.linalg import OperationCount
from ..numerics.threads import Call, Journal, LostWorkersError, Workers, joined, one_thread
from ..samplers import Sampler
from ..warmup import (
    Counts,
    Done,
    Prepared,
    Request,
    Segment,
    Task,
    TimeLimit,
    perform,
    sample,
    sample_all,
    sum_counts,
    switch,
    switch_all,
    until,
)
from .diagnostics import StoppingRule
from .effort import (
    Effort,
    Monitor,
    Plan,
    Progress,
    Silent,
    Standing,
    element_names,
    likely_draws,
    plan_for,
    seconds_per_iteration,
)
from .records import Draws, ModelRun, Ongoing, SamplingRun

#: Iterations between two looks of the parent at the chains, and fewest of them where few are
#: missing.
ROUND_LENGTH, _SHORTEST = 50, 10
#: Rows from which even the first evaluation takes so long that its time is estimated before.
_MANY_ROWS = 2000


def n_rounds(n_draws: int) -> int:
    """Return how many rounds an uninterrupted run needs for so many kept draws per chain."""
    return len(_round_lengths(n_draws))


def _round_lengths(n_draws: int) -> list[int]:
    full, rest = divmod(max(n_draws, 0), ROUND_LENGTH)
    return [ROUND_LENGTH] * full + ([rest] if rest else [])


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
    stop: StoppingRule | None = None,
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
        Makes the set-up, which makes the transitions.
    approximation : Approximation
        What the sampler builds on.
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
        What proposes, for the samplers that move by one.
    stop : StoppingRule, optional
        Ends sampling at the first round after which it is met.
    n_jobs : int, optional
        Workers of joblib; their number never changes a draw.
    monitor : Monitor, optional
        Looked at between rounds. An interrupt or a stop request keeps the complete rounds of
        draws; before the first of them an interrupt is raised again.
    journal : Journal, optional
        Keeps what workers return, and hands it out when an earlier run is followed again.

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
    monitor = monitor or Silent()
    n_discarded = sampler.n_warmup(n_warmup)
    n_iterations = n_chains * (n_discarded + likely_draws(n_draws, stop, n_chains))
    plan = plan_for(models, n_iterations, n_chains, n_jobs, sampler.n_learned(len(models[0].start)))
    if plan.n_rows > _MANY_ROWS:
        in_use = approximation if sampler.approximates or sampler.integrates_f else None
        seconds = seconds_per_iteration(models[0], in_use)
        monitor.expect(plan.effort(seconds, "an evaluation with some of the rows"))
    settings = n_importance, n_discarded, cheap, n_warmup is None
    set_ups = [
        set_up(model, sampler, approximation, own, n_chains, *settings)
        for model, own in zip(models, seed.spawn(len(models)), strict=True)
    ]
    # Set-ups fit their emulators here: on one thread too, so that nothing depends on their number.
    with one_thread(), Workers(n_jobs, journal) as workers:
        n_rounds_before = sampler.n_set_up_rounds(n_discarded) - 1
        ready, operations = run_set_ups(workers, set_ups, n_rounds_before, monitor, plan)
        if not workers.follows:
            monitor.set_up("settling: iterations that are not kept")
        monitor.begin_round()
        calls = [call for one in ready for call in one.calls()]
        parts = workers.in_parts(calls, switch_all, plan.in_step)
        settled = iter(joined(workers.run(parts)))
        begun = SamplingRun(
            [
                one.begun([next(settled) for _ in one.prepared.rngs], count)
                for one, count in zip(ready, operations, strict=True)
            ],
            seconds_warmup=0.0,
            seconds_sampling=0.0,
        )
        monitor.end_round()  # a stop request waits for the first draws
        begun = replace(begun, seconds_warmup=time.perf_counter() - clock)
        return _sample_more(workers, begun, n_draws, stop, monitor, plan)


def continue_chains(
    run: SamplingRun,
    *,
    n_draws: int,
    stop: StoppingRule | None = None,
    n_jobs: int | None = None,
    monitor: Monitor | None = None,
) -> SamplingRun:
    """Continue a run until its chains have `n_draws` kept draws each, or `stop` is met.

    The draws are those that one longer run would have made.
    """
    models, n_chains = [own.model for own in run.models], len(run.models[0].chains)
    plan = plan_for(models, n_chains * (n_draws - run.n_draws), n_chains, n_jobs)
    with Workers(n_jobs) as workers:
        return _sample_more(workers, run, n_draws, stop, monitor or Silent(), plan)


class _Grown(NamedTuple):
    """The chains of one model, their rounds so far, and where these have led."""

    own: ModelRun
    chains: list[Ongoing]
    rounds: tuple[list[Segment], ...] = ()  # by chain, without their states
    missing: float = np.inf  # draws of each chain, about, by the rule

    @property
    def n_new(self) -> int:
        """Draws of each chain since."""
        return sum(len(chains[0].theta) for chains in self.rounds)

    @property
    def n_draws(self) -> int:
        """Draws of each chain."""
        return self.own.draws.theta.shape[1] + self.n_new

    @property
    def is_followed(self) -> bool:
        """Whether a journal has more draws of these chains, and so not their states here."""
        return any(chain.state is None for chain in self.chains)

    @property
    def judged(self) -> tuple[FloatArray, list[str]]:
        """What the chains are judged by, (n_chains, n, k), and its k names."""
        draws = self.own.judged(self.rounds)
        names = element_names(self.own.model.hyperprior.names)
        return draws, names or ["f"] * draws.shape[2]

    def goes_on(self, end: int) -> bool:
        """Whether the chains are to have more draws, up to `end`."""
        return self.missing > 0.0 and self.n_draws < end

    def calls(self, end: int) -> list[Call]:
        """Return the work of all chains until the next look at them."""
        if not self.goes_on(end):
            return []
        length = _until(end - self.n_draws, self.missing)
        return [joblib.delayed(sample)(self.own.model, *chain, length) for chain in self.chains]

    def advanced(self, segments: Iterator[Segment], stop: StoppingRule | None) -> _Grown:
        """Return where another round has led. States serve the next round only."""
        pairs = [(chain, next(segments)) for chain in self.chains]
        chains = [Ongoing(chain.transition, new.state, new.rng) for chain, new in pairs]
        kept = [new._replace(state=None) for _, new in pairs]
        grown = self._replace(chains=chains, rounds=(*self.rounds, kept))
        if stop is None:
            return grown
        share = stop.missing(self.own.judged(grown.rounds))
        return grown._replace(missing=share * grown.n_draws)

    def ended(self) -> ModelRun:
        """Return the record of the model."""
        return self.own.extended(self.rounds, self.chains)


def _sample_more(
    workers: Workers,
    run: SamplingRun,
    n_draws: int,
    stop: StoppingRule | None,
    monitor: Monitor,
    plan: Plan,
) -> SamplingRun:
    """Sample in rounds until `n_draws`, convergence, a stop request or an interrupt.

    Every model ends for itself: the draws of one do not depend on the others.
    """
    clock, interrupted = time.perf_counter(), False
    computing = clock  # since when draws are computed, and not taken from a journal
    grown = [_Grown(own, own.chains) for own in run.models]
    likely = likely_draws(n_draws, stop, len(grown[0].chains))
    try:
        for length in _round_lengths(n_draws - run.n_draws):
            monitor.begin_round()
            end = min(n_draws, min(one.n_draws for one in grown if one.missing > 0.0) + length)
            while any(one.goes_on(end) for one in grown):
                calls = [call for one in grown for call in one.calls(end)]
                parts = workers.in_parts(calls, sample_all, plan.in_step)
                segments = iter(joined(workers.run(parts)))
                grown = [one.advanced(segments, stop) if one.goes_on(end) else one for one in grown]
            n_computed = max(one.n_new for one in grown) - workers.n_followed
            if n_computed == 0:
                computing = time.perf_counter()
            pace = (time.perf_counter() - computing) / n_computed if n_computed else None
            if pace is not None:
                monitor.expect(Effort(plan, max(likely - end, 0) * pace, "the draws so far"))
            enough = end >= n_draws or not any(one.missing > 0.0 for one in grown)
            monitor.sampled(Progress(end, n_draws, pace, enough, partial(_standing, grown)))
            if monitor.end_round() or not any(one.missing > 0.0 for one in grown):
                break
    except (KeyboardInterrupt, LostWorkersError) as error:
        n_kept = min(one.n_draws for one in grown)
        if not n_kept or any(one.is_followed for one in grown):
            raise
        interrupted = True
        warn(
            f"Sampling was interrupted: the {n_kept} draws per chain of the complete rounds (of "
            f"{n_draws} asked for) are kept. {error}".rstrip(),
        )
    seconds = run.seconds_sampling + time.perf_counter() - clock
    models = [one.ended() for one in grown]
    return replace(run, models=models, seconds_sampling=seconds, interrupted=interrupted)


def _standing(grown: Sequence[_Grown]) -> Standing:
    """Judge all chains by the draws that there are."""
    counts = [s.counts for one in grown for chains in one.rounds for s in chains]
    return Standing.of([one.judged for one in grown], sum_counts(counts))


def _until(end: int, missing: float) -> int:
    """Iterations until the next look: to the end of the round, or sooner if few are missing."""
    return min(end, max(_SHORTEST, int(np.ceil(min(missing, end)))))


class Ready(NamedTuple):
    """What the set-up of a model returns."""

    model: LatentGP  # as sampled
    prepared: Prepared  # what its chains need

    def at_once(self) -> Ready:
        """Return the same without iterations that settle, for which there is no time."""
        return self._replace(prepared=self.prepared._replace(n_settle=0))

    def calls(self) -> Iterator[Call]:
        """Give the work that starts every chain on its frozen transition, and lets it settle.

        Yields
        ------
        Call
            One for each chain.
        """
        model, own = self
        states: Sequence[Any] = own.states or [None] * len(own.rngs)  # None: made afresh
        for theta, rng, state in zip(own.thetas, own.rngs, states, strict=True):
            yield joblib.delayed(switch)(
                model, own.transition, theta, rng, own.n_settle, state, own.settling
            )

    def begun(self, settled: list[Segment], operations: OperationCount) -> ModelRun:
        """Return the record of a model before its first kept draw; the operations of its set-up."""
        model, own = self
        of_set_up = Counts(n_evaluations=own.n_evaluations, operations=operations)
        n_chains, p, n_marked = len(settled), len(own.thetas[0]), own.transition.n_marked
        draws = Draws(
            theta=np.empty((n_chains, 0, p)),
            f=np.empty((n_chains, 0, model.n_latent)),
            marked=np.empty((n_chains, 0, n_marked, p)) if n_marked else None,
            chain_counts=[Counts() for _ in settled],
            warmup_counts=sum_counts([of_set_up, *(segment.counts for segment in settled)]),
            f_is_mean=not own.draws_latent,
        )
        chains = [Ongoing(own.transition, segment.state, segment.rng) for segment in settled]
        n_discarded = own.n_tuned + own.n_settle
        return ModelRun(model, draws, chains, own.reference, own.estimator, own.report, n_discarded)


def set_up(
    model: LatentGP,
    sampler: Sampler,
    approximation: Approximation,
    seed: np.random.SeedSequence,
    n_chains: int,
    n_importance: int | None,
    n_warmup: int,
    cheap: CheapApproximation | None = None,
    settles: bool = False,
) -> Generator[Sequence[Task], Sequence[Any], Ready]:
    """Set up the chains of one model.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    *rngs, rng = [np.random.default_rng(stream) for stream in seed.spawn(n_chains + 1)]
    starts = [model.hyperprior.sample(own) for own in rngs]
    model = sampler.sampled(model)
    request = Request(model, approximation, starts, rngs, rng, n_importance, n_warmup)
    prepared = yield from sampler.set_up(request._replace(cheap=cheap, settles=settles))
    return Ready(model, prepared)


def run_set_ups(
    workers: Workers,
    set_ups: Sequence[Generator[Sequence[Task], Sequence[Any], Ready]],
    n_rounds: int,
    monitor: Monitor,
    plan: Plan,
) -> tuple[list[Ready], list[OperationCount]]:
    """Drive the set-ups of all models in lockstep; returns what they prepared, and their cost.

    How many batches of work there will be is not known: for the monitor each is a round, but the
    last of `n_rounds` takes all that follow, so that no round is announced in vain.

    A journal has what set-ups do that are given their time. So the time limit of the monitor waits
    until the journal has been followed to its end, and what is done in a hurry is not journaled.
    """
    n_batches, is_timed, limit = 0, False, monitor.limit
    prepared: dict[int, Ready] = {}
    operations = [OperationCount() for _ in set_ups]
    answers: _Answers = dict.fromkeys(range(len(set_ups)), (None, 0.0))
    while answers:
        wanted, ended = _asked(set_ups, answers, TimeLimit() if workers.follows else limit)
        prepared |= ended
        answers = {}
        if limit.was_noticed:
            workers.leave_journal()
        if wanted:
            n_batches += 1
            tasks = [task._replace(limit=limit) for batch in wanted.values() for task in batch]
            is_followed = workers.follows
            if tasks and not is_followed:
                of_several = f", for {len(wanted)} classes" if len(wanted) > 1 else ""
                monitor.set_up(tasks[0].stage + of_several)
            if n_batches <= n_rounds:
                monitor.begin_round()
            all_done = workers.run([joblib.delayed(perform)(task) for task in tasks])
            if not (is_timed or is_followed):
                is_timed = _expect_from(tasks, all_done, plan, monitor)
            done = iter(all_done)
            for m, batch in wanted.items():
                results = [next(done) for _ in batch]
                answers[m] = [r.value for r in results], sum(r.seconds for r in results)
                for result in results:
                    operations[m].add(result.operations)
            if any(result.cut for result in all_done):  # over for all, whatever their clocks say
                limit.was_noticed, limit.end = True, -np.inf
            if n_batches < n_rounds:
                monitor.end_round()  # a stop request waits for the first draws
    if n_batches >= n_rounds:
        monitor.end_round()
    for _ in range(n_rounds - n_batches):  # with nothing to be learned there is nothing to do
        monitor.begin_round()
        monitor.end_round()
    ready = [prepared[m] for m in range(len(set_ups))]
    return [one.at_once() for one in ready] if limit.was_noticed else ready, operations


#: What the tasks of each model have returned, and the seconds that they took.
_Answers = dict[int, tuple[Any, float]]


def _asked(
    set_ups: Sequence[Generator[Sequence[Task], Sequence[Any], Ready]],
    answers: _Answers,
    limit: TimeLimit,
) -> tuple[dict[int, Sequence[Task]], dict[int, Ready]]:
    """Give set-ups their answers; returns what they ask for next, and what those that end have."""
    wanted, prepared = {}, {}
    for m, (values, spent) in answers.items():
        try:
            with until(replace(limit, spent=spent)) as own:
                wanted[m] = set_ups[m].send(values)
        except StopIteration as end:
            prepared[m] = end.value
        limit.was_noticed |= own.was_noticed
    return wanted, prepared


def _expect_from(tasks: Sequence[Task], done: Sequence[Done], plan: Plan, monitor: Monitor) -> bool:
    """Tell the monitor what the time of some tasks lets expect; returns whether it does.

    That of tasks with a part of the rows does not: small matrices take longer than their share.
    """
    each = [
        result.seconds / task.iterations
        for task, result in zip(tasks, done, strict=True)
        if task.iterations and not result.cut and task.arguments[0].n_inputs == plan.n_rows
    ]
    if each:
        monitor.expect(plan.effort(float(np.median(each)), "the first evaluations"))
    return bool(each)
