"""Messages during a fit: progress, remaining time and memory."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from .._warnings import warn
from ..approximations import Approximation
from ..model import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..warmup import ITERATIONS_PER_EVALUATION, Counts, TimeLimit, at_work, time_limit
from .diagnostics import StoppingRule, summarize_convergence

#: Factorizations that take as long as an iteration of a chain that uses no approximation, about.
_FACTORIZATIONS = 4.0
#: Inputs of the small problem that is timed.
_SMALL = 1000
#: Draws that a wanted effective sample takes, about, of all chains together, and how many more are
#: made until somebody looks.
_DRAWS_PER_EFFECTIVE, _A_ROUND = 2.0, 50
#: Most rows with which the chains of a worker go in step: their matrices stay in the cache.
_IN_STEP = 300
#: Seconds after which another line says how far a set-up is.
_NEWS_AFTER = 5.0
#: What a fit that `max_time` ended lets do.
_CONTINUED = "A fit with more time continues them, with a checkpoint or with warm_start=True."
_HURRIED = (
    "The set-up was cut short, so that the moves of the chains are as good as was known by then: "
    "do not rely on these draws before you have looked at diagnostics_. warm_start=True continues "
    "them with the same moves. A fit with more time has a complete set-up, which a checkpoint "
    "continues from where this one was."
)
#: Seconds from which a fit is announced as a long one, unasked.
_LONG = 600.0


class Plan(NamedTuple):
    """The work that a run is going to do."""

    n_rows: int
    n_iterations: float  # of all chains of all models, and what set-ups learn from in their units
    n_workers: int

    @property
    def in_step(self) -> bool:
        """Whether the chains of a worker go in step, as they are small."""
        return self.n_rows <= _IN_STEP

    def effort(self, seconds: float, judged_by: str) -> Effort:
        """Return the effort of the whole plan where an iteration takes so many seconds."""
        return Effort(self, seconds * self.n_iterations / self.n_workers, judged_by)


class Effort(NamedTuple):
    """Estimate of the remaining work."""

    plan: Plan
    seconds: float
    judged_by: str

    def __str__(self) -> str:
        return f"about {_duration(self.seconds)}"


def plan_for(
    models: Sequence[LatentGP],
    n_iterations: int,
    n_chains: int,
    n_jobs: int | None,
    n_learned: float = 0.0,
) -> Plan:
    """Return the plan for some models, whose set-ups each learn from so many evaluations."""
    n_workers = min(joblib.effective_n_jobs(n_jobs), len(models) * n_chains)
    of_each = n_iterations + ITERATIONS_PER_EVALUATION * n_learned
    return Plan(models[0].n_inputs, len(models) * of_each, n_workers)


def likely_draws(n_draws: int, stop: StoppingRule | None, n_chains: int) -> int:
    """Estimate how many draws per chain will be made."""
    if stop is None:
        return n_draws
    return min(n_draws, int(_DRAWS_PER_EFFECTIVE * stop.target_ess / n_chains) + _A_ROUND)


class Standing(NamedTuple):
    """Worst R-hat and effective sample size so far, and the acceptance of the commonest move."""

    r_hat: float
    r_hat_of: str
    ess: float  # the lesser of those in bulk and tail
    ess_of: str
    acceptance: float
    move: str

    @classmethod
    def of(cls, chains: Sequence[tuple[FloatArray, Sequence[str]]], counts: Counts) -> Standing:
        """Summarize draws (n_chains, n_draws, k) of every model, with k names each."""
        summaries = [summarize_convergence(draws) for draws, _ in chains]
        names = [name for _, own in chains for name in own]
        r_hat = np.concatenate([s.r_hat for s in summaries])
        ess = np.concatenate([np.minimum(s.ess_bulk, s.ess_tail) for s in summaries])
        ((move, n),) = counts.n_steps.most_common(1)
        i, j, rate = int(r_hat.argmax()), int(ess.argmin()), counts.n_accepted[move] / n
        return cls(float(r_hat[i]), names[i], float(ess[j]), names[j], rate, move)

    def __str__(self) -> str:
        return (
            f"acceptance {self.acceptance:.2f} ({self.move}), worst R-hat {self.r_hat:.3f} "
            f"({self.r_hat_of}), least effective sample size {self.ess:.0f} ({self.ess_of})"
        )


class Progress(NamedTuple):
    """Progress of sampling."""

    n_draws: int  # of each chain
    n_wanted: int  # at most
    seconds: float | None  # for each draw of all chains; None if none was made by now
    enough: bool  # whether these are all that are wanted
    standing: Callable[[], Standing]

    def __str__(self) -> str:
        so_far = f"{self.n_draws} of at most {self.n_wanted} draws per chain"
        if self.seconds is None:
            return f"{so_far}, all from the checkpoint"
        return f"{so_far}, {1.0 / max(self.seconds, 1e-9):.3g} per second"


class Monitor:
    """Receives reports of a run, round by round; this one does nothing with them.

    Attributes
    ----------
    limit : TimeLimit
        When set-ups are to end; it notes whether any ended sooner for it.
    """

    def __init__(self) -> None:
        self.limit = TimeLimit()

    def set_up(self, stage: str) -> None:
        """Receive what set-ups do from now on."""

    def expect(self, left: Effort) -> None:
        """Receive an estimate of the remaining work."""

    def sampled(self, progress: Progress) -> None:
        """Receive the progress of the chains, after a round of draws."""

    def begin_round(self) -> None:
        """A round of all chains starts."""

    def end_round(self) -> bool:
        """A round of all chains has ended; True asks to stop as soon as there are draws."""
        return False


class CallbackMonitor(Monitor):
    """Reports rounds to scikit-learn callbacks: one sub-task per chain, one leaf per round.

    Whenever the number of draws has doubled, the next round of the first chain has their R-hat and
    effective sample size in its name, and announces a sub-task, because scikit-learn's
    `ProgressBar` shows the names of such tasks and no other changing text.

    Parameters
    ----------
    estimator : estimator
        Estimator with the callbacks and `verbose`.
    n_chains : int
        Number of chains of all models together.
    n_rounds : int
        Number of rounds of each chain, unless sampling ends early.
    n_bytes : float
        Estimate of the memory of the fit.
    """

    def __init__(self, estimator: Any, n_chains: int, n_rounds: int, n_bytes: float) -> None:
        self._estimator = estimator
        self._size = readable(n_bytes)
        self._root = estimator._init_callback_context(
            max_subtasks=n_chains, sequential_subtasks=False
        )
        self._root.call_on_fit_task_begin(estimator=estimator)
        self._chains = [
            self._root.subcontext(task_name="chain", task_id=c, max_subtasks=n_rounds)
            for c in range(n_chains)
        ]
        self._round: list[Any] = []
        self._n_shown = 0
        self._stop_requested = False
        self._warned = False
        self._left: Effort | None = None
        self._progress: Progress | None = None
        self._standing: Standing | None = None
        self._begun, self._stage, self._said = time_limit.clock(), "", (0.0, "")
        seconds = np.inf if estimator.max_time is None else float(estimator.max_time)
        self.limit, self._late = TimeLimit(self._begun + seconds, seconds), False
        for chain in self._chains:
            chain.call_on_fit_task_begin(estimator=estimator)

    def expect(self, left: Effort) -> None:
        """Print the remaining effort with `verbose`, and warn of a long fit."""
        news = self._left is None or self._left.judged_by != left.judged_by
        self._left = left
        if self._estimator.verbose and news:
            self._say(self._in_words(left))
        if left.seconds > _LONG and not self._warned:
            self._warned = True
            warn(
                f"This fit will be long: {self._in_words(left)}. Fewer rows help most, as the "
                "time grows with their cube. More workers (n_jobs) help too, and fewer draws: a "
                "smaller n_draws or target_ess. Ctrl-C ends the fit and keeps its draws, once "
                "there are any."
            )

    def set_up(self, stage: str) -> None:
        """Print with `verbose` what a set-up does: whenever it is another thing, and now and then.

        The first words of a stage say what it does, and what follows a colon how far it is.
        """
        self._stage = stage
        if not self._estimator.verbose:
            return
        seconds, thing = time_limit.clock() - self._begun, stage.partition(":")[0]
        if thing != self._said[1] or seconds - self._said[0] > _NEWS_AFTER:
            self._said = seconds, thing
            self._say(f"set-up, {_duration(seconds)} so far: {stage}")

    def sampled(self, progress: Progress) -> None:
        """Pass on and print the progress of the chains, where wanted."""
        self._progress = progress
        if self._estimator.verbose or vars(self._estimator).get("_skl_callbacks"):
            self._standing = progress.standing()
        if self._estimator.verbose:
            left = "" if self._left is None or progress.enough else f", {self._left} left"
            self._say(f"{progress}; {self._standing}{left}")

    def _say(self, news: str) -> None:
        print(f"{type(self._estimator).__name__}: {news}.", flush=True)

    def begin_round(self) -> None:
        """Tell callbacks that a round of all chains starts."""
        first, *others = self._chains
        news = self._news()
        doing, self._stage = self._stage, ""
        name = f"round, {doing}" if doing else f"round{news}"
        self._round = [
            first.subcontext(task_name=name, max_subtasks=1 if news else 0),
            *(chain.subcontext(task_name="round") for chain in others),
        ]
        for task in self._round:
            task.call_on_fit_task_begin(estimator=self._estimator)

    def _news(self) -> str:
        """Return how good the draws are, each time that there are twice as many."""
        if self._progress is None or self._standing is None:
            return ""
        if self._progress.n_draws < 2 * self._n_shown:
            return ""
        self._n_shown = self._progress.n_draws
        return f", R-hat {self._standing.r_hat:.3f}, ESS {self._standing.ess:.0f}"

    def end_round(self) -> bool:
        """Tell callbacks that a round of all chains has ended; True if one ever asked to stop."""
        known = {} if self._left is None else {"seconds_left": self._left.seconds}
        if self._standing is not None:
            known |= {"r_hat": self._standing.r_hat, "ess": self._standing.ess}
        # All of them before `any`: every callback hears of every chain.
        stops = [
            task.call_on_fit_task_end(estimator=self._estimator, metadata=known or None)
            for task in self._round
        ]
        self._stop_requested |= any(stops)  # remembered: warm-up does not stop
        self._late = self.limit.is_over
        return self._stop_requested or self._late

    def end(self) -> None:
        """Tell callbacks that chains and fit have ended; warn if `max_time` ended it."""
        progress, hurried = self._progress, self.limit.was_noticed
        if progress is not None and (hurried or (self._late and not progress.enough)):
            warn(
                f"max_time={self._estimator.max_time:g} seconds are over: sampling has ended after "
                f"{progress}. These draws are kept. {_HURRIED if hurried else _CONTINUED}"
            )
        for context in [*self._chains, self._root]:
            context.call_on_fit_task_end(estimator=self._estimator)

    def _in_words(self, left: Effort) -> str:
        rows, workers = left.plan.n_rows, left.plan.n_workers
        return (
            f"{left} and {self._size} of memory for n = {rows} rows and {workers} "
            f"{'workers' if workers > 1 else 'worker'}, judged by {left.judged_by}"
        )


def element_names(names: Sequence[str]) -> list[str]:
    """Return names of the components of theta; those of vectors carry their index."""
    counts, seen, elements = Counter(names), Counter[str](), []
    for name in names:
        elements.append(name if counts[name] == 1 else f"{name}[{seen[name]}]")
        seen[name] += 1
    return elements


def seconds_per_iteration(model: LatentGP, approximation: Approximation | None) -> float:
    """Estimate how long an iteration takes, by one evaluation with some of the inputs.

    All rows of these inputs are in it, and the rank of their matrix. It grows with the cube of the
    number of inputs, or, where K has a low rank, which is then that of more inputs too, with its
    square. Without an approximation, K is only factored.
    """
    n = model.n_inputs
    some = model.of_inputs(np.unique(np.linspace(0, n - 1, min(n, _SMALL)).astype(np.intp)))
    taken, low_rank = [], False
    with at_work(), suppress(NotPositiveDefiniteError):
        for _ in range(2):  # the first one finds memory and libraries cold
            begin = time.perf_counter()
            prior = some.prior_at(some.start).made()
            if approximation is not None:
                approximation.fit(some, some.start)
            taken.append(time.perf_counter() - begin)
            low_rank = prior.low_rank
    per_iteration = ITERATIONS_PER_EVALUATION if approximation else 1.0 / _FACTORIZATIONS
    growth = (n / some.n_inputs) ** (2 if low_rank else 3)
    return min(taken, default=0.0) * growth / per_iteration


def _duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least one and a half."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} seconds"


_DOUBLE = 8
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def machine_bytes() -> int | None:
    """Return the main memory of this machine, or None if it is unknown."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not a POSIX system, or one without these names
        return None
    return total if total > 0 else None


def require_memory(
    what: str, n: int, n_matrices: float, *, n_doubles: int = 0, remedy: str = ""
) -> float:
    """Refuse work that needs more than all memory of the machine.

    Parameters
    ----------
    what : str
        Name of the work, in terms of n.
    n : int
        Number of rows.
    n_matrices : float
        Number of n x n matrices of doubles that are held at once.
    n_doubles : int, default=0
        Number of other doubles that are held.
    remedy : str, default=""
        What else the user can do, besides using fewer rows.

    Returns
    -------
    float
        Approximate number of bytes needed.

    Raises
    ------
    MemoryError
        The message says n, the required and the available memory, and how many rows would fit.
    """
    there = machine_bytes()
    needed = _DOUBLE * (n_matrices * n**2 + n_doubles)
    if there is None or needed <= there:
        return needed
    left = max(there - _DOUBLE * n_doubles, 0)
    fits = int((left / (_DOUBLE * n_matrices)) ** 0.5)
    raise MemoryError(
        f"{what} needs about {readable(needed)} of memory with n = {n} ({n_matrices:g} n^2 "
        f"doubles{f', and {readable(_DOUBLE * n_doubles)} for draws' if n_doubles else ''}), and "
        f"this machine has {readable(there)}: use at most about {fits} rows, such as a random "
        f"subset{remedy}."
    )


def readable(n_bytes: float) -> str:
    """Return a number of bytes as text with a suitable unit."""
    power = 0
    while n_bytes >= 1000.0 and power < len(_UNITS) - 1:
        n_bytes, power = n_bytes / 1000.0, power + 1
    return f"{n_bytes:.3g} {_UNITS[power]}"
