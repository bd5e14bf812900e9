"""The set-ups that learn an emulator: what they do, in order, and what they freeze.

Everything here happens before the first kept draw and is then frozen: the emulator that proposes,
the sites that make the importance density, the number of importance draws as a function of theta.
The collapsed sampler knows the evidence exactly and needs no importance density.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..approximations.importance import Quadratic
from ..transitions import (
    GaussianRandomWalk,
    IndependenceMetropolis,
    MarginalMetropolis,
    Mixture,
    ParticleRefresh,
    Proposal,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RetainedParticle,
    SurrogateProposal,
    TMixture,
)
from .emulator.fit import EmulatedPosterior
from .emulator.learn import (
    LATER_ROUNDS,
    TRUSTED,
    Learner,
    Pool,
    Tempered,
    begun,
    root_of,
    run_pool,
)
from .emulator.probe import (
    Probed,
    probe,
)
from .emulator.trajectories import (
    Trajectories,
    tuned_trajectories,
)
from .report import EmulatorReport, EmulatorSettings
from .work import (
    Prepared,
    Request,
    SetUp,
    Task,
    no_density,
    require_factors,
    switch,
)

#: Importance draws where all hyper-parameters are fixed, and nothing is learned.
_N_IMPORTANCE = 64
#: How often a poor emulator is given more design points.
_MAX_PROBES = 2
#: Iterations of each chain of a rehearsal, and the places that are learned from it.
_REHEARSAL, _N_KEPT = 100, 24
#: How many times less noise estimates have where a trajectory costs far more than they do.
_LESS_NOISE = 2.0
#: Independence candidates of a surrogate chain: for few hyper-parameters, and for many.
_N_CANDIDATES = (64, 16)
#: A surrogate chain is nothing but independence candidates if it stays where it is this rarely,
#: judged by so many draws.
_MAY_STAY, _N_COMPARED = 0.02, 400
#: Probabilities of the moves: surrogate, random walk, and whatever else there is.
_MOVES = (0.98, 0.01, 0.01)
#: The same where the emulator is poor, and with trajectories on the approximate posterior first.
_CAUTIOUS_MOVES = (0.85, 0.05, 0.05, 0.05)


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


def set_up_collapsed(request: Request) -> SetUp:
    """Prepare chains on the marginal posterior of theta, f drawn with every theta.

    Parameters
    ----------
    request : Request
        Its approximation gives the evidence, exact for a Gaussian likelihood. A search for a mode
        begins at every start.

    Returns
    -------
    Prepared
        Frozen parts, and where chains begin.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    approximation, starts, rngs = request.approximation, list(request.starts), list(request.rngs)
    if len(starts[0]) == 0:
        walk = MarginalMetropolis(approximation, GaussianRandomWalk.isotropic(0, 1.0))
        return Prepared(walk, approximation, None, starts, rngs, 0, 0, 0, None)
    learner = yield from begun(request)
    report = yield from _examined(learner)
    if report.held_out_error >= TRUSTED:
        yield from learner.refine(LATER_ROUNDS, report.held_out_error)
        report = yield from _examined(learner)
    trajectories: Trajectories | None = None
    if report.held_out_error >= TRUSTED:
        trajectories = yield from tuned_trajectories(learner, None, _no_correction(learner))
    target, pool = learner.emulate(), learner.posterior_pool()
    moves = [
        MarginalMetropolis(approximation, proposal, name=name)
        for name, proposal in proposals_by_name(learner, target, pool, trajectories).items()
    ]
    shares = np.array(probabilities(trajectories)[: len(moves)])
    return Prepared(
        transition=Mixture(tuple(moves), tuple((shares / shares.sum()).tolist())),
        reference=approximation,
        estimator=None,
        thetas=overdispersed_starts(learner, target, trajectories, len(rngs)),
        rngs=rngs,
        n_settle=request.n_warmup,
        n_tuned=0,
        n_evaluations=learner.n_evaluations,
        report=report,
    )


def _examined(learner: Learner) -> Generator[Sequence[Task], Sequence[Any], EmulatorReport]:
    """Compare the emulator with the evidence at draws from pi*, which then join the design."""
    target = learner.emulate()
    draws = learner.posterior_pool().theta.reshape(-1, learner.dim)
    n_examined = min(12 + 4 * learner.dim, 60)
    thetas = draws[learner.rng.choice(len(draws), n_examined, replace=False)]
    answers = yield [*learner.tasks(thetas), *learner.factor_tasks(thetas)]
    require_factors(learner.model, answers[n_examined:])
    found = learner.add(answers[:n_examined])
    if not found:
        raise RuntimeError(no_density(learner.model, thetas[0]))
    emulated = target.emulator.value_and_gradient(np.array([p.theta for p in found]))[0]
    residual = np.array([point.log_evidence for point in found]) - emulated
    ratios = np.exp(np.minimum(residual[:, None] - residual, 0.0))
    error = float(residual.std())
    return EmulatorReport(
        n_design=len(learner.used()),
        held_out_error=error,
        probe_error=error,
        predicted_acceptance=float(ratios.mean()),
        n_sweeps=0,
        skewness=0.0,
        n_importance=(0, 0),
    )


def probabilities(trajectories: Trajectories | None) -> tuple[float, ...]:
    """Return the probability of each of `proposals_by_name`, and of one move more."""
    return _MOVES if trajectories is None else _CAUTIOUS_MOVES


def proposals_by_name(
    learner: Learner, target: EmulatedPosterior, pool: Pool, trajectories: Trajectories | None
) -> dict[str, Proposal]:
    """Make proposals of theta by name, the main one first.

    With `trajectories` the emulator is poor: its moves are rare, and short to stay near.
    """
    walk = GaussianRandomWalk.isotropic(learner.dim, 1.0).with_covariance(
        learner.root @ learner.root.T
    )
    if trajectories is not None:
        return {
            "trajectory": SurrogateProposal(trajectories.target, (trajectories.leapfrog,)),
            "surrogate": SurrogateProposal(target, (pool.leapfrog,)),
            "random walk": walk,
        }
    draws = pool.theta.reshape(-1, learner.dim)
    mixture = _mixture_of(draws, learner.modes(), learner.scale)
    independence = IndependenceMetropolis(mixture, _N_CANDIDATES[0 if learner.few else 1])
    stays = independence.probability_of_staying(target, draws[-_N_COMPARED:], learner.rng)
    moves = (independence,) if stays < _MAY_STAY else (pool.leapfrog, independence, pool.leapfrog)
    return {"surrogate": SurrogateProposal(target, moves), "random walk": walk}


def _mixture_of(draws: FloatArray, modes: FloatArray, scale: FloatArray) -> TMixture:
    """One t per mode with the moments of the draws around it, and a wide one over all."""
    nearest = np.linalg.norm((draws[:, None, :] - modes) / scale, axis=2).argmin(axis=1)
    groups = [draws[nearest == k] for k in range(len(modes))]
    groups = [group for group in groups if len(group) > 2 * draws.shape[1] + 10] or [draws]
    shares = np.array([len(group) for group in groups], dtype=float)
    return TMixture(
        means=np.array([*(group.mean(axis=0) for group in groups), draws.mean(axis=0)]),
        roots=np.array([*(root_of(group) for group in groups), 2.5 * root_of(draws)]),
        shares=np.array([*(0.85 * shares / shares.sum()), 0.15]),
    )


def overdispersed_starts(
    learner: Learner, target: EmulatedPosterior, trajectories: Trajectories | None, n_chains: int
) -> list[FloatArray]:
    """Return one start per chain: from the tempered emulated posterior, if that is good."""
    if trajectories is not None:
        return list(trajectories.ends)
    wide = run_pool(
        Tempered(target, 1.0 / learner.temperature),
        learner.pool_starts(),
        learner.root,
        20,
        learner.rng,
    )
    return list(wide.theta[-1, :n_chains])
