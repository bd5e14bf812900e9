"""How a set-up asks for work without knowing who does it.

A set-up is a generator: it yields batches of tasks, is sent their results, and returns what the
chains need. So the set-ups of several models can share one pool of workers in lockstep, and nothing
depends on the number of workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation, Reference
from ..model import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError, OperationCount
from ..transitions import ChainState, PseudoMarginalMetropolis, Transition
from .report import EmulatorReport
from .segments import at_work, start

#: Largest relative jitter that a set-up may give to K.
MAX_JITTER = 1e-5


class Request(NamedTuple):
    """What a set-up is asked for: the chains of one model."""

    model: LatentGP  # with a jitter that is safe at the starts
    approximation: Approximation  # what the sampler builds on
    starts: Sequence[FloatArray]  # where each chain begins; (p,), natural logs
    rngs: Sequence[np.random.Generator]  # the random stream of each chain
    rng: np.random.Generator  # of the set-up itself
    n_importance: int | None  # draws per likelihood estimate; None leaves the choice to the sampler
    n_warmup: int  # discarded iterations per chain


class Task(NamedTuple):
    """A call that a worker makes; function and arguments can be pickled."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


class Done(NamedTuple):
    """What a task returned, and what it cost."""

    value: Any
    operations: OperationCount
    seconds: float


class Prepared(NamedTuple):
    """What a set-up leaves to the chains of one model."""

    transition: Transition[Any]  # frozen
    reference: Reference | None  # the Gaussian q(f) that the transition uses at any theta, if any
    estimator: PseudoMarginalMetropolis | None  # what estimates p(y | theta), if anything does
    thetas: list[FloatArray]  # where each chain begins; (p,), natural logs
    rngs: list[np.random.Generator]  # one per chain
    n_settle: int  # iterations to be discarded first
    n_tuned: int  # iterations that each chain has made in the set-up
    n_evaluations: int  # of a (marginal) likelihood, in the set-up
    report: EmulatorReport | None
    states: list[ChainState] | None = None  # where chains begin, if not afresh at their theta


#: Yields batches of tasks, is sent the values that they returned, returns what it prepared.
SetUp = Generator[Sequence[Task], Sequence[Any], Prepared]


class SingularCovarianceError(Exception):
    """K has no factor somewhere in the posterior, and more jitter may help.

    The jitter is part of the model: a set-up that raises this has learned nothing that holds for
    the model with more of it, and has to begin anew.
    """


def started(request: Request, transition: Transition[Any]) -> list[Task]:
    """Return the work of starting every chain on a transition."""
    places = zip(request.starts, request.rngs, strict=True)
    return [Task(start, (request.model, transition, theta, rng)) for theta, rng in places]


def has_factor(model: LatentGP, theta: FloatArray) -> bool:
    """Whether K has a Cholesky factor at theta."""
    try:
        _ = model.prior_at(theta).half_log_det
    except NotPositiveDefiniteError:
        return False
    return True


def require_factors(model: LatentGP, found: Sequence[bool]) -> None:
    """Ask for more jitter unless K `has_factor` at all places, or there can be no more."""
    if model.covariance.jitter < MAX_JITTER and not all(found):
        raise SingularCovarianceError


def perform(task: Task) -> Done:
    """Do a task on one BLAS thread."""
    begin = time.perf_counter()
    with at_work() as operations:
        value = task.function(*task.arguments)
    return Done(value, operations, time.perf_counter() - begin)
