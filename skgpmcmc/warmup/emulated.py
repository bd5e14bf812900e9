"""Set-up of the emulated sampler: modes, design points, emulator, reference, proposal.

Everything here happens before the first kept draw and is then frozen: the emulator that proposes,
the sites that make the importance density, the number of importance draws as a function of theta.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..approximations.importance import Quadratic
from ..transitions import (
    GaussianRandomWalk,
    Mixture,
    ParticleRefresh,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
)
from .learner import LATER_ROUNDS, TRUSTED, Learner, Pool, begun
from .probing import Probed, probe
from .proposing import overdispersed_starts, probabilities, proposals_by_name
from .segments import switch
from .settings import EmulatorSettings
from .trajectories import Trajectories, tuned_trajectories
from .work import Prepared, Request, SetUp, Task

__all__ = ["set_up_emulated"]

#: Importance draws where all hyper-parameters are fixed, and nothing is learned.
_N_IMPORTANCE = 64
#: How often a poor emulator is given more design points.
_MAX_PROBES = 2
#: Iterations of each chain of a rehearsal, and the places that are learned from it.
_REHEARSAL, _N_KEPT = 100, 24
#: How many times less noise estimates have where a trajectory costs far more than they do.
_LESS_NOISE = 2.0


def set_up_emulated(request: Request, settings: EmulatorSettings) -> SetUp:
    """Prepare the emulated pseudo-marginal sampler.

    Parameters
    ----------
    request : Request
        The log evidence of its approximation is what the emulator learns, and the sites are what
        the reference interpolates. A search for a mode begins at every start.
    settings : EmulatorSettings
        What the sampler wants.

    Returns
    -------
    Prepared
        Frozen parts, and where chains begin.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    if len(request.starts[0]) == 0:
        return _without_hyperparameters(request, settings)
    learner = yield from begun(request)
    trajectories: Trajectories | None = None
    for n_more in range(_MAX_PROBES - 1, -1, -1):
        probed = yield from probe(learner, learner.posterior_pool(), settings)
        if settings.emulates and probed.report.probe_error < TRUSTED:
            break
        if settings.emulates and n_more > 0:
            yield from learner.refine(LATER_ROUNDS, probed.report.held_out_error)
        else:
            trajectories = yield from tuned_trajectories(
                learner, probed.reference, _no_correction(learner)
            )
            break
    if trajectories is None and not learner.few:
        visited = yield from _rehearsed(learner, probed, settings, len(request.rngs))
        probed = yield from probe(learner, learner.posterior_pool(), settings, visited)
        if probed.report.probe_error >= TRUSTED:  # that is what chains have shown
            trajectories = yield from tuned_trajectories(
                learner, probed.reference, _no_correction(learner)
            )
    if trajectories is not None:
        # What draws from a poor emulator showed need not hold where trajectories go.
        visited_pool = Pool(trajectories.visited[None], trajectories.leapfrog)
        probed = yield from probe(learner, visited_pool, settings, less_noise=_LESS_NOISE)
        trajectories = trajectories.corrected(probed.reference, probed.target.correction)
    pool = learner.posterior_pool()
    return _assembled(learner, probed, pool, trajectories, request, settings)


def _no_correction(learner: Learner) -> Quadratic:
    return Quadratic.flat(learner.design.best.theta, learner.scale)


def _rehearsed(
    learner: Learner, probed: Probed, settings: EmulatorSettings, n_chains: int
) -> Generator[Sequence[Task], Sequence[Any], FloatArray]:
    """Run the chains as they would be; returns where they stayed longest, (m, p).

    Draws from pi* do not show where pi* is too small, or the estimate too noisy: there, exact
    chains stay.
    """
    pool = learner.posterior_pool()
    transition = _transition(learner, probed, pool, None, settings)
    starts = pool.theta[-1, :n_chains]
    segments = yield [
        Task(switch, (learner.model, transition, theta, np.random.default_rng(seed), _REHEARSAL))
        for theta, seed in zip(starts, learner.seeds(n_chains), strict=True)
    ]
    visited = np.concatenate([segment.theta for segment in segments])
    learner.n_evaluations += len(visited)
    places, dwell = np.unique(visited, axis=0, return_counts=True)
    return places[np.argsort(-dwell, kind="stable")[:_N_KEPT]]


def _without_hyperparameters(request: Request, settings: EmulatorSettings) -> Prepared:
    """Every hyper-parameter is fixed: only the particles move."""
    walk = GaussianRandomWalk.isotropic(0, 1.0)
    count = settings.n_importance or _N_IMPORTANCE
    estimate = PseudoMarginalMetropolis(request.approximation, walk, count, settings.defensive)
    refresh = ParticleRefresh(settings.defensive)
    last = RetainedParticle(settings.defensive)
    return Prepared(
        transition=Mixture((estimate, refresh), (0.0, 1.0), last),
        reference=request.approximation,
        estimator=estimate,
        thetas=list(request.starts),
        rngs=list(request.rngs),
        n_settle=request.n_warmup,
        n_tuned=0,
        n_evaluations=0,
        report=None,
    )


def _assembled(
    learner: Learner,
    probed: Probed,
    pool: Pool,
    trajectories: Trajectories | None,
    request: Request,
    settings: EmulatorSettings,
) -> Prepared:
    """Put the frozen parts together, and give every chain an overdispersed start."""
    thetas = overdispersed_starts(learner, probed.target, trajectories, len(request.rngs))
    transition = _transition(learner, probed, pool, trajectories, settings)
    estimator = transition.parts[0]
    assert isinstance(estimator, PseudoMarginalMetropolis)
    return Prepared(
        transition=transition,
        reference=probed.reference,
        estimator=estimator,
        thetas=thetas,
        rngs=list(request.rngs),
        n_settle=request.n_warmup,
        n_tuned=0,
        n_evaluations=learner.n_evaluations,
        report=probed.report,
    )


def _transition(
    learner: Learner,
    probed: Probed,
    pool: Pool,
    trajectories: Trajectories | None,
    settings: EmulatorSettings,
) -> Mixture[PseudoMarginalState]:
    """Return the frozen transition of the chains."""
    moved = [
        PseudoMarginalMetropolis(
            probed.reference, proposal, probed.n_importance, settings.defensive, name
        )
        for name, proposal in proposals_by_name(learner, probed.target, pool, trajectories).items()
    ]
    return Mixture(
        (*moved, ParticleRefresh(settings.defensive)),
        probabilities(trajectories),
        RetainedParticle(settings.defensive),
    )
