"""Parallel chains: set-up, rounds of sampling, and what they leave behind.

One or several models (the classes of a one-vs-rest problem) share a pool of workers. Work goes in
rounds of fixed length: workers return states and draws, and the parent looks at progress, stop
requests, convergence and interrupts between rounds. Nothing depends on the number of workers: every
chain has its own random stream, rounds have the same length everywhere, and BLAS runs on one
thread.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import joblib
import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation, Reference
from ..model import LatentGP
from ..numerics.linalg import OperationCount
from ..numerics.threads import one_thread
from ..samplers import Sampler
from ..transitions import ChainState, PseudoMarginalMetropolis, Transition
from ..warmup import (
    MAX_JITTER,
    Counts,
    Done,
    EmulatorReport,
    Prepared,
    Segment,
    SingularCovarianceError,
    Task,
    has_factor,
    perform,
    require_factors,
    sample,
    sum_counts,
    switch,
)
from .convergence import StoppingRule
from .effort import Effort, Plan, seconds_per_operation

__all__ = [
    "ROUND_LENGTH",
    "Draws",
    "Monitor",
    "Ongoing",
    "SamplingRun",
    "continue_chains",
    "judged",
    "n_rounds",
    "sample_chains",
]

#: Iterations between two looks of the parent at the chains.
ROUND_LENGTH = 50
#: Most latent values by which chains are judged where there are no hyper-parameters.
_N_LATENT_JUDGED = 10
#: Rows from which even the first evaluation takes so long that its time is estimated before.
_MANY_ROWS = 2000
#: Batch of work that tells how long others take; in the first one workers are still waking up.
_TIMED_BATCH = 2
#: Draws that a wanted effective sample takes, about, of all chains together.
_DRAWS_PER_EFFECTIVE = 5.0


class Monitor(Protocol):
    """What the parent reports to, round by round."""

    def expect(self, left: Effort) -> None:
        """Take note of how much is left, about."""

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
    chain_counts : list of Counts
        Counts of the kept iterations of each chain.
    warmup_counts : Counts
        Counts of everything before, all chains together.
    """

    theta: FloatArray
    f: FloatArray
    chain_counts: list[Counts]
    warmup_counts: Counts

    @property
    def sampling_counts(self) -> Counts:
        """Counts of the kept iterations, all chains together."""
        return sum_counts(self.chain_counts)


def judged(model: LatentGP, draws: Draws) -> FloatArray:
    """Return the quantities that say whether draws are enough; (n_chains, n_draws, k).

    That is theta, and where there is none, quantities that f determines: log p(y | f), by which all
    of f is felt, and a few of the latent values, evenly spread over the training rows.
    """
    if draws.theta.shape[2]:
        return draws.theta
    rows = np.linspace(0, draws.f.shape[2] - 1, _N_LATENT_JUDGED).round().astype(int)
    observed = model.observations_at(np.empty(0))
    log_lik = np.array([observed.totals(chain.T) for chain in draws.f])
    return np.concatenate([log_lik[..., None], draws.f[..., np.unique(rows)]], axis=2)


class Ongoing(NamedTuple):
    """A chain between two rounds, ready to be continued."""

    transition: Transition[Any]
    state: ChainState
    rng: np.random.Generator


@dataclass(frozen=True, eq=False)
class SamplingRun:
    """Everything a run of all chains produced, and what it takes to continue it.

    Attributes
    ----------
    models : list of LatentGP
        The models as sampled: with the jitter that set-up chose.
    draws : list of Draws
        One per model.
    chains : list of Ongoing
        Model after model, chain after chain.
    references : list of Reference or None
        One per model: the Gaussian that its chains use at any theta; None where they use none.
    estimators : list of PseudoMarginalMetropolis or None
        One per model: what estimates p(y | theta); None where it is not estimated.
    reports : list of EmulatorReport or None
        One per model; None where there is no emulator.
    n_discarded : int
        Iterations of each chain before the first kept one.
    seconds_warmup, seconds_sampling : float
        Wall time.
    in_use : dict of str to str
        Settings that had an effect, as whoever has made them calls them.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    models: list[LatentGP]
    draws: list[Draws]
    chains: list[Ongoing]
    references: list[Reference | None]
    estimators: list[PseudoMarginalMetropolis | None]
    reports: list[EmulatorReport | None]
    n_discarded: int
    seconds_warmup: float
    seconds_sampling: float
    in_use: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def n_draws(self) -> int:
        """Kept draws per chain."""
        return self.draws[0].theta.shape[1]


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
    n_warmup: int,
    n_draws: int,
    seed: np.random.SeedSequence,
    stop: StoppingRule | None = None,
    n_jobs: int | None = None,
    monitor: Monitor | None = None,
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
    n_chains, n_warmup, n_draws : int
        Chains per model, discarded and kept iterations per chain.
    seed : numpy.random.SeedSequence
        Every chain spawns its own stream from it.
    stop : StoppingRule, optional
        Ends sampling at the first round after which it is met.
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
    clock = time.perf_counter()
    monitor = monitor or _Silent()
    n_iterations = n_chains * (n_warmup + _likely(n_draws, stop, n_chains))
    plan = _plan(models, n_iterations, n_chains, n_jobs, sampler.n_learned(len(models[0].start)))
    if plan.n_rows > _MANY_ROWS:
        seconds = seconds_per_operation(plan.n_rows)
        monitor.expect(plan.effort(seconds, "the time of a small factorization"))
    set_ups = [
        _set_up(
            model,
            sampler,
            approximation,
            model_seed,
            n_chains,
            n_importance=n_importance,
            n_warmup=n_warmup,
        )
        for model, model_seed in zip(models, seed.spawn(len(models)), strict=True)
    ]
    # Set-ups fit their emulators here: on one thread too, so that nothing depends on their number.
    with one_thread(), joblib.Parallel(n_jobs=n_jobs) as pool:
        n_rounds_before = sampler.n_set_up_rounds(n_warmup) - 1
        ready_models, operations = _run_set_ups(pool, set_ups, n_rounds_before, monitor, plan)
        monitor.begin_round()
        chains, settled = _begin(pool, ready_models)
        monitor.end_round()  # a stop request waits for the first draws
        begun = _begun_run(ready_models, operations, chains, settled, time.perf_counter() - clock)
        return _sample_more(pool, begun, n_draws, stop, monitor, plan)


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
    n_chains = len(run.chains) // len(run.models)
    plan = _plan(run.models, n_chains * (n_draws - run.n_draws), n_chains, n_jobs)
    with joblib.Parallel(n_jobs=n_jobs) as pool:
        return _sample_more(pool, run, n_draws, stop, monitor or _Silent(), plan)


class _Silent:
    """The monitor of a run that nobody watches."""

    def expect(self, left: Effort) -> None:
        """Do nothing."""

    def begin_round(self) -> None:
        """Do nothing."""

    def end_round(self) -> bool:
        """Never ask to stop."""
        return False


def _plan(
    models: Sequence[LatentGP],
    n_iterations: int,
    n_chains: int,
    n_jobs: int | None,
    n_learned: float = 0.0,
) -> Plan:
    """Return what is to be done, from what each model needs."""
    model = models[0]
    n_workers = min(joblib.effective_n_jobs(n_jobs), len(models) * n_chains)
    return Plan(
        n_rows=len(model.y),
        n_functions=model.likelihood.n_functions,
        n_learned=len(models) * n_learned,
        n_iterations=len(models) * n_iterations,
        n_workers=n_workers,
    )


def _likely(n_draws: int, stop: StoppingRule | None, n_chains: int) -> int:
    """Draws per chain that will be made, about."""
    if stop is None:
        return n_draws
    return min(n_draws, int(_DRAWS_PER_EFFECTIVE * stop.target_ess / n_chains) + ROUND_LENGTH)


# --- before the first draw ------------------------------------------------------------------------


#: What a model's set-up returns: the model as sampled, and what its chains need.
Ready = tuple[LatentGP, Prepared]


def _set_up(
    model: LatentGP,
    sampler: Sampler,
    approximation: Approximation,
    seed: np.random.SeedSequence,
    n_chains: int,
    *,
    n_importance: int | None,
    n_warmup: int,
) -> Generator[Sequence[Task], Sequence[Any], Ready]:
    """Set up the chains of one model, with a jitter that suits its posterior.

    The relative jitter is raised tenfold, and to MAX_JITTER at most, until K has a factor at the
    starts and wherever the set-up finds the posterior. It is part of the model: what is chosen here
    holds for the whole run, and what was learned with less of it is forgotten.
    """
    while True:
        *rngs, rng = [np.random.default_rng(stream) for stream in seed.spawn(n_chains + 1)]
        starts = [model.hyperprior.sample(own) for own in rngs]
        model = _with_safe_jitter(model, starts)
        try:
            prepared = yield from sampler.set_up(
                model,
                approximation,
                starts,
                rngs,
                rng,
                n_importance=n_importance,
                n_warmup=n_warmup,
            )
            require_factors(model, [has_factor(model, theta) for theta in prepared.thetas])
        except SingularCovarianceError:
            model = _with_more_jitter(model)
        else:
            return model, prepared


def _with_safe_jitter(model: LatentGP, thetas: Sequence[FloatArray]) -> LatentGP:
    """Raise the jitter as far as it may be until K has a factor at all places."""
    while model.covariance.jitter < MAX_JITTER and not all(has_factor(model, t) for t in thetas):
        model = _with_more_jitter(model)
    return model


def _with_more_jitter(model: LatentGP) -> LatentGP:
    return model.with_jitter(min(10.0 * model.covariance.jitter, MAX_JITTER))


def _run_set_ups(
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


def _begin(
    pool: joblib.Parallel, ready_models: Sequence[Ready]
) -> tuple[list[Ongoing], list[Segment]]:
    """Start every chain on its frozen transition, and let it settle."""
    calls = [
        (model, ready.transition, theta, rng, ready.n_settle, state)
        for model, ready in ready_models
        for theta, rng, state in zip(ready.thetas, ready.rngs, _states(ready), strict=True)
    ]
    segments = list(pool(joblib.delayed(switch)(*call) for call in calls))
    chains = [
        Ongoing(call[1], segment.state, segment.rng)
        for call, segment in zip(calls, segments, strict=True)
    ]
    return chains, segments


def _states(prepared: Prepared) -> Sequence[ChainState | None]:
    """States in which chains begin, None for one that starts afresh."""
    return prepared.states or [None] * len(prepared.rngs)


def _begun_run(
    ready_models: Sequence[Ready],
    operations: Sequence[OperationCount],
    chains: list[Ongoing],
    settled: Sequence[Segment],
    seconds: float,
) -> SamplingRun:
    """Return the run before the first kept draw, `seconds` after its beginning."""
    prepared = [ready for _, ready in ready_models]
    n_chains = len(chains) // len(ready_models)
    draws = [
        _no_draws(model, settled[m * n_chains : (m + 1) * n_chains], ready, count)
        for m, ((model, ready), count) in enumerate(zip(ready_models, operations, strict=True))
    ]
    return SamplingRun(
        models=[model for model, _ in ready_models],
        draws=draws,
        chains=chains,
        references=[ready.reference for ready in prepared],
        estimators=[ready.estimator for ready in prepared],
        reports=[ready.report for ready in prepared],
        n_discarded=prepared[0].n_tuned + prepared[0].n_settle,
        seconds_warmup=seconds,
        seconds_sampling=0.0,
    )


def _no_draws(
    model: LatentGP,
    settled: Sequence[Segment],
    prepared: Prepared,
    operations: OperationCount,
) -> Draws:
    """Draws of one model before the first one is kept."""
    set_up = Counts({}, {}, float(prepared.n_evaluations), 0, operations)
    return Draws(
        theta=np.empty((len(settled), 0, len(prepared.thetas[0]))),
        f=np.empty((len(settled), 0, model.n_latent)),
        chain_counts=[Counts({}, {}, 0.0, 0, OperationCount()) for _ in settled],
        warmup_counts=sum_counts([set_up, *(segment.counts for segment in settled)]),
    )


# --- rounds ---------------------------------------------------------------------------------------


class _Round(NamedTuple):
    """One round of all chains: what it drew, and where it left them."""

    segments: list[Segment]  # without their states
    chains: list[Ongoing]

    @classmethod
    def of(cls, before: Sequence[Ongoing], segments: Sequence[Segment]) -> _Round:
        """Part the draws of a round from the states, which serve the next round only."""
        chains = [
            Ongoing(chain.transition, segment.state, segment.rng)
            for chain, segment in zip(before, segments, strict=True)
        ]
        return cls([segment._replace(state=None) for segment in segments], chains)


def _sample_more(
    pool: joblib.Parallel,
    run: SamplingRun,
    n_draws: int,
    stop: StoppingRule | None,
    monitor: Monitor,
    plan: Plan,
) -> SamplingRun:
    """Sample in rounds until `n_draws`, convergence, a stop request or an interrupt."""
    clock = time.perf_counter()
    n_chains = len(run.chains) // len(run.models)
    of_model = [run.models[c // n_chains] for c in range(len(run.chains))]
    chains, rounds, interrupted = run.chains, list[_Round](), False
    try:
        for length in _round_lengths(n_draws - run.n_draws):
            monitor.begin_round()
            segments = list(
                pool(
                    joblib.delayed(sample)(model, *chain, length)
                    for model, chain in zip(of_model, chains, strict=True)
                )
            )
            rounds.append(_Round.of(chains, segments))
            chains = rounds[-1].chains
            n_new = sum(len(r.segments[0].theta) for r in rounds)
            n_more = _likely(n_draws, stop, n_chains) - run.n_draws - n_new
            seconds = max(n_more, 0) * (time.perf_counter() - clock) / n_new
            monitor.expect(Effort(plan, seconds, "the draws so far"))
            if monitor.end_round() or (stop is not None and stop.met(_judged(run, rounds))):
                break
    except KeyboardInterrupt:
        kept = run.n_draws + sum(len(r.segments[0].theta) for r in rounds)
        if not kept:
            raise
        interrupted = True
        warnings.warn(
            f"Sampling was interrupted: the {kept} draws per chain of the complete rounds (of "
            f"{n_draws} asked for) are kept.",
            UserWarning,
            stacklevel=2,
        )
    return replace(
        run,
        draws=_all_draws(run, rounds),
        chains=rounds[-1].chains if rounds else run.chains,
        seconds_sampling=run.seconds_sampling + time.perf_counter() - clock,
        interrupted=interrupted,
    )


def _all_draws(run: SamplingRun, rounds: Sequence[_Round]) -> list[Draws]:
    """Draws of each model so far."""
    n_chains = len(run.chains) // len(run.models)
    return [
        _extended(draws, [r.segments[m * n_chains : (m + 1) * n_chains] for r in rounds])
        for m, draws in enumerate(run.draws)
    ]


def _judged(run: SamplingRun, rounds: Sequence[_Round]) -> list[FloatArray]:
    """What each model's chains are judged by; (n_chains, n, k) each."""
    if run.draws[0].theta.shape[2]:  # f, which is large, is left where it is
        return _thetas(run, rounds)
    pairs = zip(run.models, _all_draws(run, rounds), strict=True)
    return [judged(model, draws) for model, draws in pairs]


def _thetas(run: SamplingRun, rounds: Sequence[_Round]) -> list[FloatArray]:
    n_chains = len(run.chains) // len(run.models)
    new = [np.concatenate([r.segments[c].theta for r in rounds]) for c in range(len(run.chains))]
    return [
        np.concatenate([draws.theta, new[m * n_chains : (m + 1) * n_chains]], axis=1)
        for m, draws in enumerate(run.draws)
    ]


def _extended(draws: Draws, rounds: Sequence[Sequence[Segment]]) -> Draws:
    """Append the rounds of one model's chains."""
    if not rounds:
        return draws
    per_chain = list(zip(*rounds, strict=True))
    theta = np.stack([np.concatenate([s.theta for s in chain]) for chain in per_chain])
    f = np.stack([np.concatenate([s.f for s in chain]) for chain in per_chain])
    return replace(
        draws,
        theta=np.concatenate([draws.theta, theta], axis=1),
        f=np.concatenate([draws.f, f], axis=1),
        chain_counts=[
            sum_counts([before, *(s.counts for s in chain)])
            for before, chain in zip(draws.chain_counts, per_chain, strict=True)
        ],
    )
