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

#: Standard deviation of the first random-walk steps, in natural logs: tuning begins there.
_START_SCALE = 0.5


def set_up_sweep(
    request: Request, sweep: Sweep[Any], workers: Executor, *, learns_shape: bool
) -> PreparedChains:
    """Tune the parts of a sweep on the posterior itself, and freeze them.

    Parameters
    ----------
    request : Request
        Arguments of the set-up. Chains start with f from the prior. If the time is over, tuning
        ends early.
    sweep : Sweep
        Moves, of which the `Tunable` ones with a target acceptance are tuned.
    workers : Executor
        Executor of the work.
    learns_shape : bool
        Whether steps of theta get the shape of the covariance of theta in all chains.

    Returns
    -------
    PreparedChains
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
        # The gain of a move begins anew when its shape has changed.
        gains = [
            window.first_gain if learns_shape and move.moves_theta else n_tuned
            for move in sweep.moves
        ]
        stage = f"tuning: window {number} of {len(schedule.windows)}"
        # Iterations on a cheap posterior do not tell how long iterations of the chains take.
        n_told = 0 if request.cheap is not None else window.n_steps
        jobs = [(model, sweep, s.state, s.rng, window.n_steps, gains) for s in last]
        found = workers.map(tune, jobs, stage, iterations=n_told)
        tuned = [chain for chain in found if chain is not None]  # all, unless the time is over
        if not tuned:
            break
        n_tuned += max(len(chain.segment.theta) for chain in tuned)
        last = [old if new is None else new.segment for old, new in zip(last, found, strict=True)]
        rounds.append([chain.segment for chain in tuned])
        # The median is robust to a chain that is still stuck far out, with tiny steps.
        sweep = sweep.with_log_scales(np.median([chain.log_scales for chain in tuned], axis=0))
        # Chains of different lengths, which ended early, cannot be stacked.
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
        The approximate evidence defines the target of warm-up. The iterations of warm-up include
        the burn-in of the frozen transition.
    target_acceptance : float
        Acceptance rate to which the random walk is tuned.
    make_transition : callable
        Makes the frozen transition from the tuned random walk.
    workers : Executor
        Executor of the work.

    Returns
    -------
    PreparedChains
        The frozen transition, and the starting states of the chains.

    References
    ----------
    Filippone & Girolami (2014), section 4.4.
    """
    walk = RandomWalk(float(np.log(_START_SCALE)), target_acceptance)
    walking = MarginalWalk(request.approximation, walk, with_latent=False)
    tuned = set_up_sweep(request, Sweep((walking,), (1,)), workers, learns_shape=True)
    (tuned_move,) = tuned.transition.moves  # type: ignore[attr-defined]
    frozen = make_transition(tuned_move.proposal)
    return tuned._replace(
        transition=frozen,
        reference=request.approximation,
        estimator=frozen if isinstance(frozen, PseudoMarginalMetropolis) else None,
        states=None,
    )
