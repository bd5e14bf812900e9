"""Set-up of the emulated sampler: modes, design points, emulator, reference, proposal.

Everything here happens before the first kept draw and is then frozen: the emulator that proposes,
the sites that make the importance density, the number of importance draws as a function of theta.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation
from ..approximations.importance import Quadratic
from ..model import LatentGP
from ..transitions import (
    GaussianRandomWalk,
    Mixture,
    ParticleRefresh,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
)
from .design import DesignPoint, search
from .learner import LATER_ROUNDS, TRUSTED, Learner, Pool
from .probing import Probed, probe
from .proposing import overdispersed_starts, probabilities, proposals_by_name
from .segments import switch
from .settings import EmulatorSettings
from .trajectories import Trajectories, tuned_trajectories
from .work import Prepared, SetUp, Task

__all__ = ["set_up_emulated"]

#: How often a poor emulator is given more design points.
_MAX_PROBES = 2
#: Iterations of each chain of a rehearsal, and the places that are learned from it.
_REHEARSAL, _N_KEPT = 100, 24
#: How many times less noise estimates have where a trajectory costs far more than they do.
_LESS_NOISE = 2.0


def set_up_emulated(
    model: LatentGP,
    approximation: Approximation,
    starts: Sequence[FloatArray],
    rngs: Sequence[np.random.Generator],
    rng: np.random.Generator,
    settings: EmulatorSettings,
) -> SetUp:
    """Prepare the emulated pseudo-marginal sampler.

    Parameters
    ----------
    model : LatentGP
        With a jitter that is safe at the starts.
    approximation : Approximation
        Its log evidence is what the emulator learns, its sites are what the reference interpolates.
    starts, rngs : sequences
        One theta and one stream per chain; a search for a mode begins at every start.
    rng : numpy.random.Generator
        Of the set-up.
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
    if len(starts[0]) == 0:
        return _without_hyperparameters(approximation, starts, rngs, settings)
    paths: Sequence[list[DesignPoint]] = yield [
        Task(search, (model, approximation, start)) for start in starts
    ]
    learner = Learner(model, approximation, rng, paths)
    yield from learner.measure_scale()
    yield from learner.explore()
    yield from learner.refine(learner.max_rounds)
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
        visited = yield from _rehearsed(learner, probed, settings, len(rngs))
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
    return _assembled(learner, probed, pool, trajectories, rngs, settings)


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


def _without_hyperparameters(
    approximation: Approximation,
    starts: Sequence[FloatArray],
    rngs: Sequence[np.random.Generator],
    settings: EmulatorSettings,
) -> Prepared:
    """Every hyper-parameter is fixed: only the particles move."""
    walk = GaussianRandomWalk.isotropic(0, 1.0)
    count = settings.n_importance or 64
    estimate = PseudoMarginalMetropolis(approximation, walk, count, settings.defensive)
    refresh = ParticleRefresh(settings.defensive)
    last = RetainedParticle(settings.defensive)
    return Prepared(
        transition=Mixture((estimate, refresh), (0.0, 1.0), last),
        reference=approximation,
        estimator=estimate,
        thetas=list(starts),
        rngs=list(rngs),
        n_settle=settings.n_settle,
        n_tuned=0,
        n_evaluations=0,
        report=None,
    )


def _assembled(
    learner: Learner,
    probed: Probed,
    pool: Pool,
    trajectories: Trajectories | None,
    rngs: Sequence[np.random.Generator],
    settings: EmulatorSettings,
) -> Prepared:
    """Put the frozen parts together, and give every chain an overdispersed start."""
    thetas = overdispersed_starts(learner, probed.target, trajectories, len(rngs))
    transition = _transition(learner, probed, pool, trajectories, settings)
    estimator = transition.parts[0]
    assert isinstance(estimator, PseudoMarginalMetropolis)
    return Prepared(
        transition=transition,
        reference=probed.reference,
        estimator=estimator,
        thetas=thetas,
        rngs=list(rngs),
        n_settle=settings.n_settle,
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
