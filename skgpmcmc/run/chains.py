"""Parallel chains: rounds of sampling, and what continues them.

One or several models (the classes of a one-vs-rest problem) share a pool of workers. Work goes in
rounds of fixed length: workers return states and draws, and the parent looks at progress, stop
requests, convergence and interrupts between rounds. Nothing depends on the number of workers: every
chain has its own random stream, rounds have the same length everywhere, and BLAS runs on one
thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from .._warnings import warn
from ..approximations.base import Approximation
from ..chain.counts import sum_counts
from ..chain.segment import Segment, sample, sample_all, switch_all
from ..hyperposterior.cheap import CheapApproximation
from ..model.joint import LatentGP
from ..model.names import element_names
from ..parallel.threads import one_thread
from ..parallel.workers import Call, Journal, LostWorkersError, Workers, join_results
from ..samplers.base import Sampler
from .convergence import StoppingRule
from .progress import (
    ConvergenceStatus,
    Effort,
    Monitor,
    Progress,
    WorkPlan,
    likely_draws,
    plan_work,
    seconds_per_iteration,
)
from .records import ModelRun, PausedChain, SamplingRun
from .set_ups import ChainSettings, set_up_all

#: Iterations between two looks of the parent at the chains.
ROUND_LENGTH = 50
#: Fewest iterations of a round, where few are missing.
_SHORTEST_ROUND = 10
#: Rows from which even the first evaluation takes so long that its time is estimated before.
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
    monitor = monitor or Monitor()
    n_discarded = sampler.n_warmup(n_warmup)
    n_iterations = n_chains * (n_discarded + likely_draws(n_draws, stop, n_chains))
    plan = plan_work(
        models, n_iterations, n_chains, n_jobs, sampler.n_set_up_evaluations(len(models[0].start))
    )
    if plan.n_rows > _ROWS_TIMED_FIRST:
        in_use = approximation if sampler.approximates or sampler.integrates_f else None
        seconds = seconds_per_iteration(models[0], in_use)
        monitor.expect(plan.effort(seconds, "an evaluation with some of the rows"))
    wanted = ChainSettings(sampler, approximation, n_chains, n_importance, n_discarded, cheap)
    # Set-ups fit their emulators here: on one thread too, so that nothing depends on their number.
    with one_thread(), Workers(n_jobs, journal) as workers:
        n_rounds_before = sampler.n_set_up_rounds(n_discarded) - 1
        ready = set_up_all(models, wanted, seed, workers, n_rounds_before, monitor, plan)
        if not workers.replays and any(one.prepared.n_burn_in for one in ready):
            monitor.set_up("burn-in: iterations that are not kept")
        monitor.begin_round()
        calls = [call for one in ready for call in one.calls()]
        parts = workers.group_calls(calls, switch_all, plan.moves_together)
        settled = iter(join_results(workers.run(parts, "start of the chains")))
        begun = [one.begin_run([next(settled) for _ in one.prepared.rngs]) for one in ready]
        monitor.end_round()  # a stop request waits for the first draws
        run = SamplingRun(begun, seconds_warmup=time.perf_counter() - clock, seconds_sampling=0.0)
        return _sample_more(workers, run, n_draws, stop, monitor, plan)


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
    models = [own.model for own in run.models]
    n_chains = len(run.models[0].chains)
    plan = plan_work(models, n_chains * (n_draws - run.n_draws), n_chains, n_jobs)
    with Workers(n_jobs) as workers:
        return _sample_more(workers, run, n_draws, stop, monitor or Monitor(), plan)


class _RunningChains(NamedTuple):
    """The chains of one model, their rounds so far, and where these have led."""

    own: ModelRun
    chains: list[PausedChain]
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
    def is_replayed(self) -> bool:
        """Whether a journal has more draws of these chains, and so not their states here."""
        return any(chain.state is None for chain in self.chains)

    @property
    def judged_quantities(self) -> tuple[FloatArray, list[str]]:
        """What the chains are judged by, (n_chains, n, k), and its k names."""
        draws = self.own.judged_quantities(self.rounds)
        names = element_names(self.own.model.hyperprior.names)
        return draws, names or ["f"] * draws.shape[2]

    def goes_on(self, end: int) -> bool:
        """Whether the chains are to have more draws, up to `end`."""
        return self.missing > 0.0 and self.n_draws < end

    def calls(self, end: int) -> list[Call]:
        """Return the work of all chains until the next look at them."""
        if not self.goes_on(end):
            return []
        left = end - self.n_draws  # in this round; less if fewer are missing
        length = min(left, max(_SHORTEST_ROUND, int(np.ceil(min(self.missing, left)))))
        return [joblib.delayed(sample)(self.own.model, *chain, length) for chain in self.chains]

    def with_segments(
        self, segments: Iterator[Segment], stop: StoppingRule | None
    ) -> _RunningChains:
        """Return where another round has led. States serve the next round only."""
        pairs = [(chain, next(segments)) for chain in self.chains]
        chains = [PausedChain(chain.transition, new.state, new.rng) for chain, new in pairs]
        kept = [new._replace(state=None) for _, new in pairs]
        grown = self._replace(chains=chains, rounds=(*self.rounds, kept))
        if stop is None:
            return grown
        share = stop.missing(self.own.judged_quantities(grown.rounds))
        return grown._replace(missing=share * grown.n_draws)


def _sample_more(
    workers: Workers,
    run: SamplingRun,
    n_draws: int,
    stop: StoppingRule | None,
    monitor: Monitor,
    plan: WorkPlan,
) -> SamplingRun:
    """Sample in rounds until `n_draws`, convergence, a stop request or an interrupt.

    Every model ends for itself: the draws of one do not depend on the others.
    """
    clock = time.perf_counter()
    interrupted = False
    computing = clock  # since when draws are computed, and not taken from a journal
    grown = [_RunningChains(own, own.chains) for own in run.models]
    likely = likely_draws(n_draws, stop, len(grown[0].chains))
    try:
        for _ in range(n_rounds(n_draws - run.n_draws)):
            monitor.begin_round()
            begun = min(one.n_draws for one in grown if one.missing > 0.0)
            end = min(begun + ROUND_LENGTH, n_draws)
            while any(one.goes_on(end) for one in grown):
                calls = [call for one in grown for call in one.calls(end)]
                parts = workers.group_calls(calls, sample_all, plan.moves_together)
                segments = iter(join_results(workers.run(parts, "draws")))
                grown = [
                    one.with_segments(segments, stop) if one.goes_on(end) else one for one in grown
                ]
            n_computed = max(one.n_new for one in grown) - workers.n_replayed
            if n_computed == 0:
                computing = time.perf_counter()
            pace = (time.perf_counter() - computing) / n_computed if n_computed else None
            if pace is not None:
                monitor.expect(Effort(plan, max(likely - end, 0) * pace, "the draws so far"))
            enough = end >= n_draws or not any(one.missing > 0.0 for one in grown)
            monitor.report_draws(
                Progress(end, n_draws, pace, enough, partial(_convergence_status, grown))
            )
            if monitor.end_round() or not any(one.missing > 0.0 for one in grown):
                break
    except (KeyboardInterrupt, LostWorkersError) as error:
        n_kept = min(one.n_draws for one in grown)
        if not n_kept or any(one.is_replayed for one in grown):
            raise
        interrupted = True
        warn(
            f"Sampling was interrupted: the {n_kept} draws per chain of the complete rounds (of "
            f"{n_draws} asked for) are kept. {error}".rstrip()
        )
    seconds = run.seconds_sampling + time.perf_counter() - clock
    models = [one.own.with_rounds(one.rounds, one.chains) for one in grown]
    return replace(run, models=models, seconds_sampling=seconds, interrupted=interrupted)


def _convergence_status(grown: Sequence[_RunningChains]) -> ConvergenceStatus:
    """Judge all chains by the draws that there are."""
    counts = [s.counts for one in grown for chains in one.rounds for s in chains]
    return ConvergenceStatus.of([one.judged_quantities for one in grown], sum_counts(counts))
