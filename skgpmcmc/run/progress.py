"""How far a run is, how long it takes, and who is told."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import joblib
import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation
from ..chain.counts import ChainCounts
from ..chain.executor import ITERATIONS_PER_EVALUATION
from ..chain.segment import count_work
from ..chain.time_limit import TimeLimit
from ..model.joint import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from .convergence import StoppingRule, summarize_convergence

#: Factorizations that take as long as an iteration of a chain that uses no approximation, about.
_FACTORIZATIONS = 4.0
#: Inputs of the small problem that is timed.
_N_INPUTS_TIMED = 1000
#: Draws of all chains for each effective draw that is wanted, about.
_DRAWS_PER_EFFECTIVE = 2.0
#: Further draws of each chain until convergence is checked, about.
_DRAWS_UNTIL_CHECK = 50
#: Most rows with which the chains of a worker move together: their matrices stay in the cache.
_MOST_ROWS_TOGETHER = 300


class WorkPlan(NamedTuple):
    """The work that a run is going to do."""

    n_rows: int
    n_iterations: float  # of all chains of all models, and what set-ups learn from in their units
    n_workers: int

    @property
    def moves_together(self) -> bool:
        """Whether the chains of a worker move together, as their matrices are small."""
        return self.n_rows <= _MOST_ROWS_TOGETHER

    def effort(self, seconds: float, judged_by: str) -> Effort:
        """Return the effort of the whole plan where an iteration takes so many seconds."""
        return Effort(self, seconds * self.n_iterations / self.n_workers, judged_by)


class Effort(NamedTuple):
    """Estimate of the remaining work."""

    plan: WorkPlan
    seconds: float
    judged_by: str

    def __str__(self) -> str:
        return f"about {duration(self.seconds)}"


def plan_work(
    models: Sequence[LatentGP],
    n_iterations: int,
    n_chains: int,
    n_jobs: int | None,
    n_set_up_evaluations: float = 0.0,
) -> WorkPlan:
    """Return the plan for some models, whose set-ups each learn from so many evaluations."""
    n_workers = min(joblib.effective_n_jobs(n_jobs), len(models) * n_chains)
    of_each = n_iterations + ITERATIONS_PER_EVALUATION * n_set_up_evaluations
    return WorkPlan(models[0].n_inputs, len(models) * of_each, n_workers)


def likely_draws(n_draws: int, stop: StoppingRule | None, n_chains: int) -> int:
    """Estimate how many draws per chain will be made."""
    if stop is None:
        return n_draws
    return min(n_draws, int(_DRAWS_PER_EFFECTIVE * stop.target_ess / n_chains) + _DRAWS_UNTIL_CHECK)


class ConvergenceStatus(NamedTuple):
    """Worst R-hat and effective sample size so far, and the acceptance of the commonest move."""

    r_hat: float
    r_hat_of: str
    ess: float  # the lesser of those in bulk and tail
    ess_of: str
    acceptance: float
    move: str

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

    n_draws: int  # of each chain
    n_wanted: int  # at most
    seconds: float | None  # for each draw of all chains; None if none was made by now
    enough: bool  # whether these are all that are wanted
    standing: Callable[[], ConvergenceStatus]

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

    def report_draws(self, progress: Progress) -> None:
        """Receive the progress of the chains, after a round of draws."""

    def begin_round(self) -> None:
        """A round of all chains starts."""

    def end_round(self) -> bool:
        """A round of all chains has ended; True asks to stop as soon as there are draws."""
        return False


def seconds_per_iteration(model: LatentGP, approximation: Approximation | None) -> float:
    """Estimate how long an iteration takes, by one evaluation with some of the inputs.

    All rows of these inputs are in it, and the rank of their matrix. It grows with the cube of the
    number of inputs, or, where K has a low rank, which is then that of more inputs too, with its
    square. Without an approximation, K is only factored.
    """
    n = model.n_inputs
    some = model.of_inputs(
        np.unique(np.linspace(0, n - 1, min(n, _N_INPUTS_TIMED)).astype(np.intp))
    )
    taken = []
    low_rank = False
    with count_work(), suppress(NotPositiveDefiniteError):
        for _ in range(2):  # the first one finds memory and libraries cold
            begin = time.perf_counter()
            prior = some.prior_at(some.start).factorize()
            if approximation is not None:
                approximation.fit(some, some.start)
            taken.append(time.perf_counter() - begin)
            low_rank = prior.low_rank
    per_iteration = ITERATIONS_PER_EVALUATION if approximation else 1.0 / _FACTORIZATIONS
    growth = (n / some.n_inputs) ** (2 if low_rank else 3)
    return min(taken, default=0.0) * growth / per_iteration


def duration(seconds: float) -> str:
    """Return a duration in the largest unit of which it has at least one and a half."""
    for unit, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 1.5 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} seconds"
