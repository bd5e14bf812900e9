"""Progress of a fit: scikit-learn's callbacks, and lines that are printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._warnings import warn
from ..chain import time_limit
from ..chain.time_limit import TimeLimit
from ..run.memory import readable
from ..run.progress import ConvergenceStatus, Effort, Monitor, Progress, duration

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
        self._convergence_status: ConvergenceStatus | None = None
        self._begun = time_limit.clock()
        self._stage = ""
        self._said = (0.0, "")
        seconds = np.inf if estimator.max_time is None else float(estimator.max_time)
        self.limit = TimeLimit(self._begun + seconds, seconds)
        self._late = False
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
        seconds = time_limit.clock() - self._begun
        thing = stage.partition(":")[0]
        if thing != self._said[1] or seconds - self._said[0] > _NEWS_AFTER:
            self._said = seconds, thing
            self._say(f"set-up, {duration(seconds)} so far: {stage}")

    def report_draws(self, progress: Progress) -> None:
        """Pass on and print the progress of the chains, where wanted."""
        self._progress = progress
        if self._estimator.verbose or vars(self._estimator).get("_skl_callbacks"):
            self._convergence_status = progress.standing()
        if self._estimator.verbose:
            left = "" if self._left is None or progress.enough else f", {self._left} left"
            self._say(f"{progress}; {self._convergence_status}{left}")

    def _say(self, news: str) -> None:
        print(f"{type(self._estimator).__name__}: {news}.", flush=True)

    def begin_round(self) -> None:
        """Tell callbacks that a round of all chains starts."""
        first, *others = self._chains
        news = self._news()
        doing = self._stage
        self._stage = ""
        name = f"round, {doing}" if doing else f"round{news}"
        self._round = [
            first.subcontext(task_name=name, max_subtasks=1 if news else 0),
            *(chain.subcontext(task_name="round") for chain in others),
        ]
        for task in self._round:
            task.call_on_fit_task_begin(estimator=self._estimator)

    def _news(self) -> str:
        """Return how good the draws are, each time that there are twice as many."""
        if self._progress is None or self._convergence_status is None:
            return ""
        if self._progress.n_draws < 2 * self._n_shown:
            return ""
        self._n_shown = self._progress.n_draws
        return (
            f", R-hat {self._convergence_status.r_hat:.3f}, ESS {self._convergence_status.ess:.0f}"
        )

    def end_round(self) -> bool:
        """Tell callbacks that a round of all chains has ended; True if one ever asked to stop."""
        known = {} if self._left is None else {"seconds_left": self._left.seconds}
        if self._convergence_status is not None:
            known |= {"r_hat": self._convergence_status.r_hat, "ess": self._convergence_status.ess}
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
        progress = self._progress
        hurried = self.limit.was_noticed
        if progress is not None and (hurried or (self._late and not progress.enough)):
            warn(
                f"max_time={self._estimator.max_time:g} seconds are over: sampling has ended after "
                f"{progress}. These draws are kept. {_HURRIED if hurried else _CONTINUED}"
            )
        for context in [*self._chains, self._root]:
            context.call_on_fit_task_end(estimator=self._estimator)

    def _in_words(self, left: Effort) -> str:
        rows = left.plan.n_rows
        workers = left.plan.n_workers
        return (
            f"{left} and {self._size} of memory for n = {rows} rows and {workers} "
            f"{'workers' if workers > 1 else 'worker'}, judged by {left.judged_by}"
        )
