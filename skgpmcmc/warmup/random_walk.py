"""Set-up of a random walk: chains on the approximate marginal tune it, window by window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..transitions import (
    GaussianRandomWalk,
    MarginalMetropolis,
    PseudoMarginalMetropolis,
    Transition,
)
from .schedule import Schedule, pooled_walk
from .segments import Segment, tune
from .work import Prepared, Request, SetUp, Task, started

__all__ = ["set_up_random_walk"]

#: Standard deviation of the first proposals, on the natural-log scale.
_START_SCALE = 0.5


def set_up_random_walk(
    request: Request,
    target_acceptance: float,
    make_transition: Callable[[GaussianRandomWalk], Transition[Any]],
) -> SetUp:
    """Tune a random walk on the deterministic approximate marginal, and freeze it.

    Parameters
    ----------
    request : Request
        The evidence of its approximation is the target of warm-up, whose iterations include the
        settling of the final transition.
    target_acceptance : float
        See `warmup`.
    make_transition : callable
        The transition of the kept draws, from the tuned walk.

    Returns
    -------
    Prepared
        The frozen transition, and where chains begin.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.

    References
    ----------
    Filippone & Girolami (2014), section 4.4.
    """
    model = request.model
    walk = GaussianRandomWalk.isotropic(len(request.starts[0]), _START_SCALE)
    transition = MarginalMetropolis(request.approximation, walk, with_latent=False)
    schedule = Schedule.of_length(request.n_warmup)
    last: Sequence[Segment] = yield started(request, transition)
    rounds = [last]
    for window in schedule.windows:
        moving = transition.with_proposal(walk)
        last = yield [
            Task(tune, (model, moving, s.state, s.rng, window, target_acceptance)) for s in last
        ]
        rounds.append(last)
        history = np.concatenate([np.stack([s.theta for s in r]) for r in rounds], axis=1)
        scales = [s.log_scale for s in last]
        walk = pooled_walk(walk, scales, history, learns_shape=window.learns_shape)
    frozen = make_transition(walk)
    return Prepared(
        transition=frozen,
        reference=request.approximation,
        estimator=frozen if isinstance(frozen, PseudoMarginalMetropolis) else None,
        thetas=[s.state.theta for s in last],
        rngs=[s.rng for s in last],
        n_settle=schedule.n_settle,
        n_tuned=sum(window.n_steps for window in schedule.windows),
        n_evaluations=int(sum(s.counts.n_evaluations for r in rounds for s in r)),
        report=None,
    )
