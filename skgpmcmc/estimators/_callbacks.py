"""Progress of a fit: scikit-learn's callbacks, and lines that are printed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .._warnings import warn
from ..chain import time_limit
from ..chain.time_limit import TimeLimit
from ..run.memory import format_bytes
from ..run.progress import ConvergenceStatus, Effort, Monitor, Progress, format_duration

#: Seconds after which another line is printed about the same stage of a set-up.
_SECONDS_BETWEEN_LINES = 5.0
#: Seconds beyond which a user is warned of a long fit.
_LONG_FIT = 600.0
#: Advice where `max_time` ended sampling.
_CONTINUE_ADVICE = "A fit with more time continues them, with a checkpoint or with warm_start=True."
#: Advice where `max_time` ended the set-up.
_CUT_SHORT_ADVICE = (
    "The set-up was cut short, so that the moves of the chains are as good as was known by then: "
    "do not rely on these draws before you have looked at diagnostics_. warm_start=True continues "
    "them with the same moves. A fit with more time has a complete set-up, which a checkpoint "
    "continues from where this one was."
)


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
        self._size = format_bytes(n_bytes)
        self._root = estimator._init_callback_context(
            max_subtasks=n_chains, sequential_subtasks=False
        )
        self._root.call_on_fit_task_begin(estimator=estimator)
        self._chains = [
            self._root.subcontext(task_name="chain", task_id=c, max_subtasks=n_rounds)
            for c in range(n_chains)
        ]
        self._round: list[Any] = []
        self._n_shown = 0  # draws per chain when the name of a round last showed the convergence
        self._stop_requested = False
        #: Whether results still come from a file: then nothing stops, and no time is estimated.
        self.is_replaying: Callable[[], bool] = lambda: False
        self._has_warned = False
        self._left: Effort | None = None
        self._progress: Progress | None = None
        self._convergence_status: ConvergenceStatus | None = None
        self._begin = time_limit.clock()
        self._stage = ""
        self._line_length = 0  # characters of the line that the next one replaces; in a terminal
        self._printed = (0.0, "")  # seconds since the begin, and the stage, of the last line
        seconds = np.inf if estimator.max_time is None else float(estimator.max_time)
        self.limit = TimeLimit(self._begin + seconds, seconds)
        self._is_late = False
        for chain in self._chains:
            chain.call_on_fit_task_begin(estimator=estimator)

    def report_effort(self, left: Effort) -> None:
        """Print the remaining effort with `verbose`, and warn of a long fit."""
        if self.is_replaying():
            return
        is_news = self._left is None or self._left.judged_by != left.judged_by
        self._left = left
        if self._estimator.verbose and is_news:
            self._print(self._effort_message(left))
        if left.seconds > _LONG_FIT and not self._has_warned:
            self._has_warned = True
            warn(
                f"This fit will be long: {self._effort_message(left)}. Fewer rows help most, as "
                "the time grows with up to their cube. More workers (n_jobs) help too, and fewer "
                "draws: a smaller n_draws or target_ess. Ctrl-C ends the fit and keeps its draws, "
                "once there are any."
            )

    def report_stage(self, stage: str) -> None:
        """Print the stage of a set-up with `verbose`, if it is a new one or the last line is old.

        The words before a colon name the stage, and those after it say how far the stage is.
        """
        self._stage = stage
        if not self._estimator.verbose:
            return
        seconds = time_limit.clock() - self._begin
        stage_name = stage.partition(":")[0]
        if stage_name != self._printed[1] or seconds - self._printed[0] > _SECONDS_BETWEEN_LINES:
            self._printed = seconds, stage_name
            self._print(f"set-up, {format_duration(seconds)} so far: {stage}")

    def report_draws(self, progress: Progress) -> None:
        """Judge the convergence if callbacks or `verbose` show it, and print with `verbose`."""
        self._progress = progress
        if self._estimator.verbose or vars(self._estimator).get("_skl_callbacks"):
            self._convergence_status = progress.judge()
        if self._estimator.verbose:
            left = "" if self._left is None or progress.is_complete else f", {self._left} left"
            self._print(f"{progress}; {self._convergence_status}{left}")

    def _print(self, message: str) -> None:
        """Print a line; in a terminal it takes the place of the line before."""
        line = f"{type(self._estimator).__name__}: {message}."
        if not sys.stdout.isatty():
            print(line, flush=True)
            return
        width = shutil.get_terminal_size().columns - 1
        line = line if len(line) <= width else f"{line[: width - 3]}..."
        print(f"\r{line:<{self._line_length}}", end="", flush=True)
        self._line_length = len(line)

    def begin_round(self) -> None:
        """Tell callbacks that a round of all chains starts."""
        first, *others = self._chains
        name = "round"
        n_drawn = 0 if self._progress is None else self._progress.n_draws
        shows = self._convergence_status is not None and n_drawn >= 2 * self._n_shown
        if shows:
            self._n_shown = n_drawn
            status = self._convergence_status
            name = f"round, R-hat {status.r_hat:.3f}, ESS {status.ess:.0f}"
        if self._stage:
            name = f"round, {self._stage}"
            self._stage = ""
        self._round = [
            first.subcontext(task_name=name, max_subtasks=1 if shows else 0),
            *(chain.subcontext(task_name="round") for chain in others),
        ]
        for task in self._round:
            task.call_on_fit_task_begin(estimator=self._estimator)

    def end_round(self) -> bool:
        """Tell callbacks that a round of all chains has ended; True to stop."""
        known = {} if self._left is None else {"seconds_left": self._left.seconds}
        if self._convergence_status is not None:
            known |= {"r_hat": self._convergence_status.r_hat, "ess": self._convergence_status.ess}
        # The list is complete before `any` looks at it, so that callbacks hear of every chain.
        stops = [
            task.call_on_fit_task_end(estimator=self._estimator, metadata=known or None)
            for task in self._round
        ]
        self._stop_requested |= any(stops)  # remembered, as a set-up does not stop
        self._is_late = self.limit.is_over
        return (self._stop_requested or self._is_late) and not self.is_replaying()

    def end(self) -> None:
        """Tell callbacks that chains and fit have ended; warn if `max_time` ended it."""
        if self._line_length:
            print()
        progress = self._progress
        was_cut_short = self.limit.was_noticed
        if progress is not None and (was_cut_short or (self._is_late and not progress.is_complete)):
            advice = _CUT_SHORT_ADVICE if was_cut_short else _CONTINUE_ADVICE
            warn(
                f"max_time={self._estimator.max_time:g} seconds are over: sampling has ended after "
                f"{progress}. These draws are kept. {advice}"
            )
        for context in [*self._chains, self._root]:
            context.call_on_fit_task_end(estimator=self._estimator)

    def _effort_message(self, left: Effort) -> str:
        rows = left.plan.n_rows
        workers = left.plan.n_workers
        return (
            f"{left} and {self._size} of memory for n = {rows} rows and {workers} "
            f"{'workers' if workers > 1 else 'worker'}, judged by {left.judged_by}"
        )
