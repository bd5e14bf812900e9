"""What a user hears of a fit: while it is under way, and at its end."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from ..run import Effort, convergence_message
from ..run.effort import readable

#: Seconds from which a fit is announced as a long one, unasked.
_LONG = 600.0
#: With default priors, features outside these standard deviations deserve a warning.
_USUAL_SCALE = (1.0 / 30.0, 30.0)


class CallbackMonitor:
    """Reports rounds to scikit-learn callbacks: one sub-task per chain, one leaf per round.

    Parameters
    ----------
    estimator : estimator
        Whose callbacks are called, and whose `verbose` counts.
    n_chains : int
        Of all models together.
    n_rounds : int
        Of each chain, unless sampling ends early.
    n_bytes : float
        Memory that the fit needs, about.
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
        self._stop_requested = False
        self._warned = False
        self._left: Effort | None = None
        for chain in self._chains:
            chain.call_on_fit_task_begin(estimator=estimator)

    def expect(self, left: Effort) -> None:
        """Say how much is left, if the user wants to know or should."""
        news = self._left is None or self._left.judged_by != left.judged_by
        self._left = left
        if self._estimator.verbose > 1 or (self._estimator.verbose and news):
            print(f"{type(self._estimator).__name__}: {self._in_words(left)}.", flush=True)
        if left.seconds > _LONG and not self._warned:
            self._warned = True
            warnings.warn(
                f"This fit will be long: {self._in_words(left)}. Fewer rows help most (time grows "
                "with their cube); so do more workers (n_jobs), and fewer draws: a smaller "
                "n_draws, or target_ess, which ends sampling when they are enough. Ctrl-C, once "
                "there are draws, ends it and keeps them.",
                UserWarning,
                stacklevel=2,
            )

    def begin_round(self) -> None:
        """Tell callbacks that a round of all chains starts."""
        self._round = [chain.subcontext(task_name="round") for chain in self._chains]
        for task in self._round:
            task.call_on_fit_task_begin(estimator=self._estimator)

    def end_round(self) -> bool:
        """Tell callbacks that a round of all chains has ended; True if one ever asked to stop."""
        known = None if self._left is None else {"seconds_left": self._left.seconds}
        # All of them before `any`: every callback hears of every chain.
        stops = [
            task.call_on_fit_task_end(estimator=self._estimator, metadata=known)
            for task in self._round
        ]
        self._stop_requested |= any(stops)  # remembered: warm-up does not stop
        return self._stop_requested

    def end(self) -> None:
        """Tell callbacks that chains and fit have ended."""
        for context in [*self._chains, self._root]:
            context.call_on_fit_task_end(estimator=self._estimator)

    def _in_words(self, left: Effort) -> str:
        rows, workers = left.plan.n_rows, left.plan.n_workers
        return (
            f"{left} and {self._size} of memory for n = {rows} rows and {workers} "
            f"{'workers' if workers > 1 else 'worker'}, judged by {left.judged_by}"
        )


def warn_about_scales(
    estimator: BaseEstimator, X: np.ndarray, feature_names: np.ndarray | None
) -> None:
    """Say which features the default priors do not suit."""
    if estimator.kernel is not None or estimator.priors:
        return
    scale = X.std(axis=0)
    low, high = _USUAL_SCALE
    varies = np.ptp(X, axis=0) > 0.0  # of a constant column, rounding can make std positive
    odd = np.flatnonzero(varies & ((scale < low) | (scale > high)))
    if len(odd):
        columns = odd.tolist() if feature_names is None else feature_names[odd].tolist()
        warnings.warn(
            f"The default priors expect features with a standard deviation near one; those of "
            f"columns {columns} lie outside [1/30, 30]. Use make_pipeline(StandardScaler(), "
            f"{type(estimator).__name__}(...)), or give priors.",
            UserWarning,
            stacklevel=5,
        )


def report_convergence(estimator: BaseEstimator) -> None:
    """Print what `verbose` asks for, and warn about what has not converged."""
    diagnostics = estimator.diagnostics_
    if estimator.verbose:
        print(diagnostics)
    message = convergence_message(diagnostics, estimator.max_rhat, estimator.target_ess)
    if message is None:
        return
    noise = float(np.nanmax([*diagnostics.log_likelihood_sd, 0.0]))
    remedy = "To do better, increase n_draws (warm_start=True continues these chains)"
    if noise > 2.0:
        remedy += f", and n_importance: the log-likelihood noise is {noise:.1f}"
    warnings.warn(f"{message} {remedy}. See diagnostics_.", ConvergenceWarning, stacklevel=5)
