"""The progress of a run, estimates of the time that is left, and the monitor that receives both."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation
from ..chain.counts import ChainCounts
from ..chain.executor import ITERATIONS_PER_EVALUATION
from ..chain.segment import count_work
from ..chain.time_limit import TimeLimit
from ..model.joint import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..parallel.workers import count_workers
from .convergence import ConvergenceGoal, summarize_convergence

#: Factorizations that take about as long as an iteration of a chain without an approximation.
_FACTORIZATIONS_PER_ITERATION = 4.0
#: Inputs of the small problem that is timed.
_N_INPUTS_TIMED = 1000
#: Further draws that each chain makes, about, until convergence is checked.
_DRAWS_UNTIL_CHECK = 25
#: Most rows with which the chains of a worker move together: up to here the matrices of all of them
#: stay in the cache of the processor.
_MOST_ROWS_TOGETHER = 300


class WorkPlan(NamedTuple):
    """The work that a run is going to do."""

    n_rows: int  # distinct inputs of the first model
    n_iterations: (
        float  # of all chains of all models; set-ups count by the iterations they are worth
    )
    n_workers: int  # workers that have something to do

    @property
    def moves_together(self) -> bool:
        """Whether the chains of a worker move together, as their matrices are small."""
        return self.n_rows <= _MOST_ROWS_TOGETHER

    def estimate_effort(self, seconds: float, judged_by: str) -> Effort:
        """Return the effort of the whole plan, if an iteration takes so many seconds."""
        return Effort(self, seconds * self.n_iterations / self.n_workers, judged_by)


class Effort(NamedTuple):
    """Estimate of the remaining work."""

    plan: WorkPlan
    seconds: float  # until the end of the run
    judged_by: str  # the measurement behind the estimate, in words

    def __str__(self) -> str:
        return f"about {format_duration(self.seconds)}"


def plan_work(
    models: Sequence[LatentGP],
    n_iterations: int,
    n_chains: int,
    n_jobs: int | None,
    n_set_up_evaluations: float = 0.0,
) -> WorkPlan:
    """Plan the work of a run.

    Parameters
    ----------
    models : sequence of LatentGP
        All models of the run.
    n_iterations : int
        Iterations of all chains of one model.
    n_chains : int
        Chains of one model.
    n_jobs : int or None
        Workers of joblib.
    n_set_up_evaluations : float, default=0.0
        Evaluations of the marginal likelihood, with gradient, in the set-up of one model.
    """
    n_workers = min(count_workers(n_jobs), len(models) * n_chains)
    n_per_model = n_iterations + ITERATIONS_PER_EVALUATION * n_set_up_evaluations
    return WorkPlan(models[0].n_inputs, len(models) * n_per_model, n_workers)


def estimate_n_draws(n_draws: int, stop: ConvergenceGoal | None, n_chains: int, dim: int) -> int:
    """Estimate how many of at most `n_draws` draws per chain it takes to meet the goal.

    With the default sampler every effective draw of p hyper-parameters takes about p^(1/2) draws:
    1.2 with p = 2, and 2.1, 2.9, 5.1 and 6.8 with p = 4, 11, 22 and 35.
    """
    if stop is None or stop.target_ess is None:
        return n_draws
    n_until_goal = int(math.sqrt(max(dim, 1)) * stop.target_ess / n_chains) + _DRAWS_UNTIL_CHECK
    return min(n_draws, n_until_goal)


class ConvergenceStatus(NamedTuple):
    """Worst R-hat and effective sample size so far, and the acceptance of the commonest move."""

    r_hat: float  # the largest
    r_hat_of: str  # name of the quantity that has it
    ess: float  # the smallest, of bulk and tail
    ess_of: str  # name of the quantity that has it
    acceptance: float  # accepted share of the commonest move
    move: str  # name of this move

    @classmethod
    def of(
        cls, chains: Sequence[tuple[FloatArray, Sequence[str]]], counts: ChainCounts
    ) -> ConvergenceStatus:
        """Summarize draws (n_chains, n_draws, k) of every model, with k names each."""
        summaries = [summarize_convergence(draws) for draws, _ in chains]
        names = [name for _, own in chains for name in own]
        r_hat = np.concatenate([s.r_hat for s in summaries])
        ess = np.concatenate([np.minimum(s.ess_bulk, s.ess_tail) for s in summaries])
        ((move, n),) = counts.n_steps.most_common(1)
        i = int(r_hat.argmax())
        j = int(ess.argmin())
        rate = counts.n_accepted[move] / n
        return cls(float(r_hat[i]), names[i], float(ess[j]), names[j], rate, move)

    def __str__(self) -> str:
        return (
            f"acceptance {self.acceptance:.2f} ({self.move}), worst R-hat {self.r_hat:.3f} "
            f"({self.r_hat_of}), least effective sample size {self.ess:.0f} ({self.ess_of})"
        )


class Progress(NamedTuple):
    """Progress of sampling."""

    n_draws: int  # draws of each chain so far
    n_wanted: int  # most draws of each chain
    seconds: float | None  # for one draw of every chain; None before any has been computed
    is_complete: bool  # whether no more draws are wanted
    judge: Callable[[], ConvergenceStatus]  # computes the convergence so far, which takes time

    def __str__(self) -> str:
        so_far = f"{self.n_draws} of at most {self.n_wanted} draws per chain"
        if self.seconds is None:
            return f"{so_far}, all from the checkpoint"
        return f"{so_far}, {1.0 / max(self.seconds, 1e-9):.3g} per second"


class Monitor:
    """Receiver of reports of a run, round by round; this base class ignores them.

    Attributes
    ----------
    limit : TimeLimit
        Time at which set-ups are to end. It notes whether any set-up was cut short for it.
    """

    def __init__(self) -> None:
        self.limit = TimeLimit()

    def report_stage(self, stage: str) -> None:
        """Receive the name of the stage of a set-up that begins."""

    def report_effort(self, left: Effort) -> None:
        """Receive an estimate of the remaining work."""

    def report_draws(self, progress: Progress) -> None:
        """Receive the progress of the chains, after a round of draws."""

    def begin_round(self) -> None:
        """Receive that a round of all chains starts."""

    def end_round(self) -> bool:
        """Receive that a round of all chains has ended; True asks to stop once there are draws."""
        return False


def time_iteration(model: LatentGP, approximation: Approximation | None) -> float:
    """Estimate the seconds of an iteration, by one evaluation with at most 1000 of the inputs.

    The evaluation fits the approximation to all rows of these inputs, or, without an approximation,
    factors K. Its time grows with the cube of the number of inputs. Where K has a low rank, further
    inputs hardly raise the rank r, and the time grows with the square, or, if K is not made, with
    n r^2.
    """
    n = model.n_inputs
    some = model.of_inputs(
        np.unique(np.linspace(0, n - 1, min(n, _N_INPUTS_TIMED)).astype(np.intp))
    )
    seconds = []
    low_rank = False
    some_rank = 1
    with count_work(), suppress(NotPositiveDefiniteError):
        for _ in range(2):  # the first evaluation finds memory and libraries cold
            begin = time.perf_counter()
            prior = some.prior_at(some.start).factorize()
            if approximation is not None:
                approximation.fit(some, some.start)
            seconds.append(time.perf_counter() - begin)
            low_rank = prior.low_rank
            some_rank = prior.rank
    per_iteration = (
        ITERATIONS_PER_EVALUATION if approximation else 1.0 / _FACTORIZATIONS_PER_ITERATION
    )
    growth = (n / some.n_inputs) ** (2 if low_rank else 3)
    rank = model.find_small_rank() if low_rank else None
    if rank is not None:
        growth = n * rank**2 / (some.n_inputs * some_rank**2)
    return min(seconds, default=0.0) * growth / per_iteration


def format_duration(seconds: float) -> str:
    """Return a duration as text, in the largest unit that it contains one and a half times."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} seconds"
