"""Warm-up that tunes the scales of moves, window by window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..chain.executor import Executor
from ..chain.segment import Segment, start, tune
from ..chain.time_limit import require_time, time_is_over
from ..transitions.base import Transition
from ..transitions.compose import Sweep
from ..transitions.metropolis import MarginalWalk, RandomWalk
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from .request import PreparedChains, Request
from .schedule import WarmUpSchedule, pooled_covariance

#: Standard deviation of the first proposals of a random walk, on the natural-log scale.
_START_SCALE = 0.5


def set_up_sweep(
    request: Request, sweep: Sweep[Any], workers: Executor, *, learns_shape: bool
) -> PreparedChains:
    """Tune the parts of a sweep on the posterior itself, and freeze them.

    Parameters
    ----------
    request : Request
        Its chains start with f from the prior. The last iterations use the frozen sweep. If the
        time is over, tuning ends where it is.
    sweep : Sweep
        Its `Tunable` parts with a target acceptance are tuned.
    workers : Executor
        Does the work.
    learns_shape : bool
        Use the covariance of theta in all chains for the steps of theta; otherwise their shape is
        not changed.

    Returns
    -------
    Prepared
        The frozen sweep, and the starting states of the chains.
    """
    model = request.model
    schedule = WarmUpSchedule.of_length(request.n_warmup)
    begins = [(model, sweep, *own) for own in zip(request.starts, request.rngs, strict=True)]
    last: list[Segment] = workers.map(start, begins, "start of the chains", n_needed=len(begins))
    require_time(sum(s.counts.n_evaluations for s in last), model)
    rounds = [last]
    n_tuned = 0
    learns_shape = learns_shape and len(request.starts[0]) > 0
    for number, window in enumerate(schedule.windows, 1):
        # The gain begins anew where the shape is new.
        gains = [
            window.first_gain if learns_shape and move.moves_theta else n_tuned
            for move in sweep.moves
        ]
        stage = f"tuning: window {number} of {len(schedule.windows)}"
        # Where a cheap posterior is tuned to, its iterations are not those of the chains.
        n_told = 0 if request.cheap is not None else window.n_steps
        jobs = [(model, sweep, s.state, s.rng, window.n_steps, gains) for s in last]
        found = workers.map(tune, jobs, stage, iterations=n_told)
        tuned = [chain for chain in found if chain is not None]  # all, unless the time is over
        if not tuned:
            break
        n_tuned += max(len(chain.segment.theta) for chain in tuned)
        last = [old if new is None else new.segment for old, new in zip(last, found, strict=True)]
        rounds.append([chain.segment for chain in tuned])
        # The median: a chain that begins far out may still be stuck, and asks for tiny steps.
        sweep = sweep.with_log_scales(np.median([chain.log_scales for chain in tuned], axis=0))
        # Chains that have ended sooner than others do not make a history.
        if window.learns_shape and learns_shape and not time_is_over():
            history = np.concatenate([np.stack([s.theta for s in r]) for r in rounds], axis=1)
            sweep = sweep.with_covariance(pooled_covariance(history))
    return PreparedChains(
        transition=sweep,
        thetas=[s.state.theta for s in last],
        rngs=[s.rng for s in last],
        n_burn_in=schedule.n_burn_in,
        n_tuned=n_tuned,
        n_evaluations=int(sum(s.counts.n_evaluations for r in rounds for s in r)),
        states=[s.state for s in last],
    )


def set_up_random_walk(
    request: Request,
    target_acceptance: float,
    make_transition: Callable[[RandomWalk], Transition[Any]],
    workers: Executor,
) -> PreparedChains:
    """Tune a random walk on the deterministic approximate marginal, and freeze it.

    Parameters
    ----------
    request : Request
        The approximate evidence defines the target of warm-up. Its iterations include those in
        which the final transition settles.
    target_acceptance : float
        Acceptance rate to which the random walk is tuned.
    make_transition : callable
        Returns the transition of the kept draws for the tuned random walk.
    workers : Executor
        Does the work.

    Returns
    -------
    Prepared
        The frozen transition, and the starting states of the chains.

    References
    ----------
    Filippone & Girolami (2014), section 4.4.
    """
    walk = RandomWalk(float(np.log(_START_SCALE)), target_acceptance)
    moving = MarginalWalk(request.approximation, walk, with_latent=False)
    tuned = set_up_sweep(request, Sweep((moving,), (1,)), workers, learns_shape=True)
    (moved,) = tuned.transition.moves  # type: ignore[attr-defined]
    frozen = make_transition(moved.proposal)
    return tuned._replace(
        transition=frozen,
        reference=request.approximation,
        estimator=frozen if isinstance(frozen, PseudoMarginalMetropolis) else None,
        states=None,
    )
