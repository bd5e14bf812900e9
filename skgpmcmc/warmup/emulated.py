"""The set-ups that learn an emulator.

Everything here happens before the first kept draw and is then frozen: the emulator for proposals,
the sites of the importance density, the number of importance draws as a function of theta. The
collapsed sampler computes the evidence exactly and needs no importance density.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..approximations import HyperPosterior, InterpolatedSites
from ..approximations.interpolated import Quadratic
from ..transitions import (
    MOST_ROTATED,
    Directed,
    GridDensity,
    IndependenceMetropolis,
    MarginalMetropolis,
    Mixture,
    Multiples,
    ParticleRefresh,
    Pool,
    Proposal,
    PseudoMarginalMetropolis,
    PseudoMarginalState,
    RandomWalk,
    RetainedParticle,
    Rotation,
    SurrogateProposal,
    TMixture,
    Trajectory,
    independence_acceptance,
    root_of,
)
from .emulator.anneal import annealed
from .emulator.fit import EmulatedPosterior
from .emulator.learn import (
    LATER_ROUNDS,
    LEAST_ACCEPTANCE,
    TRUSTED,
    Knowledge,
    Step,
    explored,
    measured,
    quarter,
    refined,
    searched,
)
from .emulator.probe import Probed, probe
from .hamiltonian import (
    InPlace,
    first_log_step,
    follow,
    set_up_trajectories,
    trajectories_pay,
    trajectories_serve,
)
from .report import EmulatorReport, EmulatorSettings
from .time_limit import OutOfTimeError, check_time
from .work import Prepared, Request, SetUp, Task, no_density, switch

#: Importance draws where nothing is learned about them.
N_IMPORTANCE = 64
#: Iterations of each chain of a rehearsal, and the places that are learned from it.
_REHEARSAL, _N_KEPT = 100, 24
#: Most rehearsals: another where one has shown that the emulator was poor.
_MOST_REHEARSALS = 3
#: How often an emulator that is poor learns more: with few hyper-parameters, and with many.
_MOST_LESSONS = (1, 3)
#: How many times less noise estimates have where a trajectory costs far more than they do.
_LESS_NOISE = 2.0
#: Independence candidates of a surrogate chain: for few hyper-parameters, and for many.
_N_CANDIDATES = (64, 16)
#: A surrogate chain is nothing but independence candidates if it stays where it is this rarely,
#: judged by so many draws.
_MAY_STAY, _N_COMPARED = 0.02, 400
#: Trajectories of every chain that tune a metric, and then a step size.
_TUNING_TRAJECTORIES = (20, 20, 10)
#: Share of the correlations that a metric learned from so few points keeps.
_CORRELATED = 0.5
#: Held-out error from which the emulator of an exact evidence, which is cheap, learns more.
_WELL_EMULATED = 0.1
#: See `to_settle`.
_UNSETTLED, _SHORTEST_SETTLING = 1e-3, 5
#: Probabilities of the moves, for few hyper-parameters and for many: surrogate, random walk, and a
#: refresh. With many, pi* may be far too small in some corner, which a chain leaves by walking.
_MOVES = ((0.98, 0.01, 0.01), (0.94, 0.05, 0.01))
#: Those where the emulator is poor, and with trajectories on the approximate posterior first.
_CAUTIOUS_MOVES = (0.85, 0.05, 0.05, 0.05)
_ROTATED = 0.94  # of rotations, which take the place of most surrogate moves
#: Probability of a refresh where the time was over before it was known what suits chains; other
#: moves share what is left, as nobody knows which is good.
_REFRESHED = 0.05
#: Probability of a multiple of a period, of which a kernel with one may have modes.
_OF_PERIODS = 0.03
#: Where more than the first share of proposals is predicted to be accepted, the retained particle
#: moves this often: always would take a fifth of the time with fifty rows. Else, and with many
#: hyper-parameters, it always does: rare weights may make chains stay.
_UNSURPRISED, _RETAINED = 0.9, 0.25


def set_up_emulated(request: Request, settings: EmulatorSettings) -> SetUp:
    """Prepare the emulated pseudo-marginal sampler.

    Parameters
    ----------
    request : Request
        The emulator learns the log evidence of its approximation, and the reference interpolates
        its sites. A search for a mode begins at every start.
    settings : EmulatorSettings
        Settings of the sampler.

    Returns
    -------
    Prepared
        The frozen transition and the starting points of the chains. If the time is over before
        anything is found that may lead chains, they are led by a random walk.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    if len(request.starts[0]) == 0:
        return _without_hyperparameters(request, settings)
    known = yield from searched(request, (yield from quarter(request)))
    known = yield from measured(known)
    known = yield from explored(known)
    known = yield from refined(known)
    probed: Probed | None = None
    trajectories: Trajectories | None = None
    with suppress(OutOfTimeError):  # what was found before is in use then
        check_time()
        known, pool = known.posterior_pool()
        known, probed = yield from probe(known, pool, settings)
        if probed.too_noisy:
            with_annealing = yield from annealed(known, pool, probed, settings)
            known, probed = yield from probe(known, pool, with_annealing)
            settings = with_annealing
        for _ in range(_MOST_LESSONS[not known.few]):
            if not settings.emulates or probed.trusted:
                break
            error = probed.report.held_out_error
            known = yield from refined(known, LATER_ROUNDS[not known.few], error)
            check_time()
            known, pool = known.posterior_pool()
            known, probed = yield from probe(known, pool, settings)
        if settings.emulates and probed.trusted and not known.few:
            for _ in range(_MOST_REHEARSALS):
                known, pool, visited = yield from _rehearsed(known, probed, request, settings)
                known, probed = yield from probe(known, pool, settings, visited)
                if probed.trusted:
                    break
        if not (settings.emulates and probed.trusted):
            known, tuned = yield from tuned_trajectories(known, probed.reference)
            # What draws from a poor emulator showed need not hold where trajectories go.
            pool = Pool(tuned.visited[None], tuned.trajectory)
            known, probed = yield from probe(known, pool, settings, less_noise=_LESS_NOISE)
            trajectories = tuned.corrected(probed.reference, probed.target.correction)
    if probed is None or not (trajectories or (settings.emulates and probed.trusted)):
        return _cut_short(request, known, settings, probed)
    known, pool = known.posterior_pool()
    thetas = overdispersed_starts(known, probed.target, trajectories, len(request.rngs))
    settling = _transition(known, probed, pool, trajectories, settings)
    cautious = trajectories is not None
    rotates = _rotating(settling, known, probed.target, pool, cautious)
    return _prepared(request, rotates, thetas, known.n_evaluations, probed, cautious, settling)


def _cut_short(
    request: Request, known: Knowledge, settings: EmulatorSettings, probed: Probed | None
) -> Prepared:
    """Return what needs no measurement: estimates by sites as they are, and moves at any scale."""
    reference = probed.reference if probed else known.reference(0, 0.0)
    count = probed.n_importance if probed else settings.n_importance or N_IMPORTANCE
    share, annealing = settings.defensive, settings.annealing
    known, proposals = _proposals_in_a_hurry(known)
    moves = [
        PseudoMarginalMetropolis(reference, proposal, count, share, name, annealing)
        for name, proposal in proposals.items()
    ]
    each = (1.0 - _REFRESHED) / len(moves)
    transition = Mixture(
        (*moves, ParticleRefresh(share, annealing)),
        (*(each for _ in moves), _REFRESHED),
        RetainedParticle(share, annealing=annealing),
    )
    thetas = list(known.pool_starts()[: len(request.rngs)])
    return _prepared(request, transition, thetas, known.n_evaluations)


def _proposals_in_a_hurry(known: Knowledge) -> tuple[Knowledge, dict[str, Proposal]]:
    """Return a random walk, and moves by the emulator if that has predicted its last points."""
    if not 0.0 < known.held_out_error < TRUSTED:
        return known, {"random walk": known.walk}
    known, pool = known.posterior_pool()
    return known, proposals_by_name(known, known.target(), pool, None)


def _prepared(
    request: Request,
    transition: Mixture[PseudoMarginalState],
    thetas: Sequence[FloatArray],
    n_evaluations: float = 0.0,
    probed: Probed | None = None,
    cautious: bool = False,
    settling: Mixture[PseudoMarginalState] | None = None,
) -> Prepared:
    """Return what chains need whose first move has the estimate of p(y | theta)."""
    estimator = transition.moves[0]
    assert isinstance(estimator, PseudoMarginalMetropolis)
    return Prepared(
        transition=transition,
        reference=estimator.reference,
        estimator=estimator,
        thetas=thetas,
        rngs=request.rngs,
        n_settle=to_settle(request, probed.report, cautious) if probed else request.n_warmup,
        n_evaluations=n_evaluations,
        report=None if probed is None else probed.report,
        settling=settling,
    )


def to_settle(request: Request, report: EmulatorReport, cautious: bool) -> int:
    """Return the number of iterations in which chains settle.

    Proposals are nearly independent of the present state, so that one accepted move forgets the
    start. It is twice the number after which a fraction `_UNSETTLED` of chains has accepted none.
    """
    if cautious or not request.settles:
        return request.n_warmup
    accepted = float(np.clip(report.predicted_acceptance, 0.01, 0.99))
    wanted = 2.0 * np.log(_UNSETTLED) / np.log1p(-accepted)
    return int(np.clip(np.ceil(wanted), _SHORTEST_SETTLING, request.n_warmup))


def _rehearsed(
    known: Knowledge, probed: Probed, request: Request, settings: EmulatorSettings
) -> Step[tuple[Knowledge, Pool, FloatArray]]:
    """Run the chains as they would be; returns new draws, and where chains stayed, (m, p).

    Draws from pi* do not show where pi* is too small, or the estimate too noisy: there, exact
    chains stay.
    """
    known, pool = known.posterior_pool()
    transition = _transition(known, probed, pool, None, settings)
    n_chains = len(request.rngs)
    pairs = zip(pool.theta[-1, :n_chains], known.seeds(n_chains), strict=True)
    starts = [(theta, np.random.default_rng(seed)) for theta, seed in pairs]
    segments = yield [
        Task(switch, (known.model, transition, *start, _REHEARSAL), "rehearsal of the chains")
        for start in starts
    ]
    check_time()
    visited = np.concatenate([segment.theta for segment in segments])
    places, dwell = np.unique(visited, axis=0, return_counts=True)
    known = replace(known, n_evaluations=known.n_evaluations + len(visited))
    return *known.posterior_pool(), places[np.argsort(-dwell, kind="stable")[:_N_KEPT]]


class Trajectories(NamedTuple):
    """A tuned trajectory on the approximate posterior, and the draws of its tuning chains."""

    target: HyperPosterior
    trajectory: Trajectory
    visited: FloatArray  # (m, p), in the later part
    ends: FloatArray  # (n_chains, p)

    def corrected(self, sites: InterpolatedSites, correction: Quadratic) -> Trajectories:
        """Return the same with another start of iterations, and another correction."""
        return self._replace(target=replace(self.target, start=sites, correction=correction))


def tuned_trajectories(
    known: Knowledge, sites: InterpolatedSites | None
) -> Step[tuple[Knowledge, Trajectories]]:
    """Tune trajectories on the approximate posterior itself, from explored points.

    Parameters
    ----------
    known : Knowledge
        Contains the ends of searches and explorations.
    sites : InterpolatedSites or None
        Start of the approximation at any theta; None for its own start.

    Returns
    -------
    tuple of Knowledge and Trajectories
        The frozen parts, and overdispersed starts.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    approximation = known.approximation.roughened()
    target = HyperPosterior(known.model, approximation, sites, known.no_correction)
    best, log_prior = known.design.best.theta, known.model.hyperprior.log_prob
    starts = known.pool_starts()[: known.n_chains]
    begins: list[Any] = [theta if np.isfinite(log_prior(theta)) else best for theta in starts]
    root = root_of(known.explored, correlated=_CORRELATED) if len(known.explored) else known.root
    log_step, later, n_points = first_log_step(known.dim), [], 0
    stage = "tuning trajectories on the approximate posterior"
    for n_trajectories in _TUNING_TRAJECTORIES:
        seeds = known.seeds(len(begins))
        tuned = yield [
            Task(follow, (target, begin, root, log_step, n_trajectories, seed), stage)
            for begin, seed in zip(begins, seeds, strict=True)
        ]
        check_time()
        n_points += sum(len(chain.visited) for chain in tuned)
        begins = [chain.states[-1] for chain in tuned]
        log_step = float(np.mean([chain.log_step for chain in tuned]))
        # The step size belongs to the metric that it was tuned with.
        trajectory = Trajectory.quarter(root, log_step)
        states = [point for chain in tuned for point in chain.states[len(chain.states) // 3 :]]
        later.append(np.array([point.position for point in states]))
        root = root_of(later[-1], correlated=_CORRELATED)
    known = replace(known, n_evaluations=known.n_evaluations + n_points)
    ends = np.array([point.position for point in begins])
    return known, Trajectories(target, trajectory, np.concatenate(later[1:]), ends)


def _without_hyperparameters(request: Request, settings: EmulatorSettings) -> Prepared:
    """Every hyper-parameter is fixed: only the particles move."""
    walk = RandomWalk()
    count = settings.n_importance or N_IMPORTANCE
    estimate = PseudoMarginalMetropolis(request.approximation, walk, count, settings.defensive)
    refresh = ParticleRefresh(settings.defensive)
    last = RetainedParticle(settings.defensive)
    return _prepared(request, Mixture((estimate, refresh), (0.0, 1.0), last), request.starts)


def _transition(
    known: Knowledge,
    probed: Probed,
    pool: Pool,
    trajectories: Trajectories | None,
    settings: EmulatorSettings,
) -> Mixture[PseudoMarginalState]:
    """Return the frozen transition of the chains."""
    n, share, annealing = probed.n_importance, settings.defensive, settings.annealing
    sure = known.few and probed.report.predicted_acceptance > _UNSURPRISED
    moved = [
        PseudoMarginalMetropolis(probed.reference, proposal, n, share, name, annealing)
        for name, proposal in proposals_by_name(known, probed.target, pool, trajectories).items()
    ]
    return Mixture(
        (*moved, ParticleRefresh(share, annealing)),
        probabilities(known, trajectories),
        RetainedParticle(share, annealing=annealing),
        _RETAINED if sure else 1.0,
    )


def _rotating(
    mixture: Mixture[Any],
    known: Knowledge,
    target: EmulatedPosterior,
    pool: Pool,
    cautious: bool,
) -> Mixture[Any]:
    """Make most moves rotations, where hyper-parameters are few and the emulator is trusted."""
    if known.dim > MOST_ROTATED or cautious:
        return mixture
    root, first = root_of(pool.theta), mixture.moves[0]
    assert isinstance(first, PseudoMarginalMetropolis | MarginalMetropolis)
    rotation = Rotation(GridDensity.of(target, known.modes, root, fine=True))
    ahead, back = (
        replace(first, proposal=proposal, name="rotation")
        for proposal in (rotation, rotation.reversed())
    )
    surrogate, *others = mixture.probabilities
    moves = (*mixture.moves, Directed(ahead, back))
    return replace(mixture, moves=moves, probabilities=(surrogate - _ROTATED, *others, _ROTATED))


def set_up_marginal(request: Request, *, draws_latent: bool) -> SetUp:
    """Prepare chains on the marginal posterior of theta.

    Parameters
    ----------
    request : Request
        Its approximation gives the evidence, exact for a Gaussian likelihood. A search for a mode
        begins at every start.
    draws_latent : bool
        Whether chains draw f with every theta; otherwise f is drawn later, on request.

    Returns
    -------
    Prepared
        The frozen transition and the starting points of the chains; a random walk if the time is
        over before anything better is found.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    approximation, starts, rngs = request.approximation, list(request.starts), list(request.rngs)
    if len(starts[0]) == 0:
        walk = MarginalMetropolis(approximation, RandomWalk())
        return Prepared(walk, starts, rngs, 0, reference=approximation)
    serves = not draws_latent and trajectories_serve(request.model)
    if serves and trajectories_pay(request.model):
        return (yield from _by_trajectories(request))
    known = yield from searched(request, (yield from quarter(request)))
    known = yield from measured(known)
    known = yield from explored(known)
    known = yield from refined(known)
    report: EmulatorReport | None = None
    trajectories: Trajectories | None = None
    with suppress(OutOfTimeError):  # what was found before is in use then
        known, report = yield from _examined(known)
        if report.held_out_error >= _WELL_EMULATED:
            known = yield from refined(known, LATER_ROUNDS[not known.few], report.held_out_error)
            known, report = yield from _examined(known)
        if report.predicted_acceptance < LEAST_ACCEPTANCE:
            if serves:
                return (yield from _by_trajectories(request))
            known, trajectories = yield from tuned_trajectories(known, None)
    if report is None or not (trajectories or report.predicted_acceptance >= LEAST_ACCEPTANCE):
        known, proposals = _proposals_in_a_hurry(known)
        walks = [
            MarginalMetropolis(approximation, proposal, with_mean=not draws_latent, name=name)
            for name, proposal in proposals.items()
        ]
        return Prepared(
            transition=Mixture(tuple(walks), (1.0 / len(walks),) * len(walks)),
            reference=approximation,
            thetas=list(known.pool_starts()[: len(rngs)]),
            rngs=rngs,
            n_settle=request.n_warmup,
            n_evaluations=known.n_evaluations,
            draws_latent=draws_latent,
        )
    known = known.emulated()
    target = known.target()
    known, pool = known.posterior_pool()
    moves = [
        MarginalMetropolis(approximation, proposal, with_mean=not draws_latent, name=name)
        for name, proposal in proposals_by_name(known, target, pool, trajectories).items()
    ]
    shares = np.array(probabilities(known, trajectories)[: len(moves)])
    cautious = trajectories is not None
    settling = Mixture(tuple(moves), tuple((shares / shares.sum()).tolist()))
    return Prepared(
        transition=_rotating(settling, known, target, pool, cautious),
        reference=approximation,
        thetas=overdispersed_starts(known, target, trajectories, len(rngs)),
        rngs=rngs,
        n_settle=to_settle(request, report, cautious),
        n_evaluations=known.n_evaluations,
        report=report,
        draws_latent=draws_latent,
        settling=settling,
    )


def _by_trajectories(request: Request) -> SetUp:
    """Prepare chains of trajectories, as one task."""
    stage = "search for modes, and warm-up by trajectories"
    (own,) = yield [Task(set_up_trajectories, (request, InPlace()), stage, needed=True)]
    return own


def _examined(known: Knowledge) -> Step[tuple[Knowledge, EmulatorReport]]:
    """Compare the emulator with the evidence at draws from pi*, which then join the design."""
    check_time()
    known = known.emulated()
    target = known.target()
    known, pool = known.posterior_pool()
    draws = pool.theta.reshape(-1, known.dim)
    n_examined = min(12 + 4 * known.dim, 60)
    typical = draws[known.rng.choice(len(draws), n_examined, replace=False)]
    thetas = np.concatenate([typical, known.tails(target, n_examined // 2)])
    points = yield known.tasks(thetas, "examining the emulator")
    check_time()
    found = [point for point in points[:n_examined] if point is not None]
    known = known.joined(points)
    if not found:
        raise RuntimeError(no_density(known.model, typical[0]))
    emulated = target.emulator.value_and_gradient(np.array([p.theta for p in found]))[0]
    residual = np.array([point.log_evidence for point in found]) - emulated
    error = float(residual.std())
    report = EmulatorReport(
        n_design=len(known.used),
        held_out_error=error,
        probe_error=error,
        predicted_acceptance=independence_acceptance(residual),
        n_sweeps=0,
        skewness=0.0,
        n_importance=(0, 0),
    )
    return known.emulated().confirmed(target.emulator), report


def probabilities(known: Knowledge, trajectories: Trajectories | None) -> tuple[float, ...]:
    """Return the probability of each of `proposals_by_name`, and of a refresh of the particles."""
    shares = _MOVES[not known.few] if trajectories is None else _CAUTIOUS_MOVES
    if not known.periods:
        return shares
    main, *others, refresh = shares
    return (main - _OF_PERIODS, *others, _OF_PERIODS, refresh)


def proposals_by_name(
    known: Knowledge, target: EmulatedPosterior, pool: Pool, trajectories: Trajectories | None
) -> dict[str, Proposal]:
    """Return the proposals of theta by name, the main one first.

    With `trajectories` the emulator is poor: its moves are then rare and short.
    """
    walk = known.walk
    others = {"multiple of a period": Multiples(known.periods)} if known.periods else {}
    if trajectories is not None:
        return {
            "trajectory": SurrogateProposal(trajectories.target, (trajectories.trajectory,)),
            "surrogate": SurrogateProposal(target, (pool.trajectory,)),
            "random walk": walk,
            **others,
        }
    draws = pool.theta.reshape(-1, known.dim)
    mixture = TMixture.of_draws(draws, known.modes, known.scale)
    independence = IndependenceMetropolis(mixture, _N_CANDIDATES[0 if known.few else 1])
    stays = independence.probability_of_staying(target, draws[-_N_COMPARED:], known.rng)
    moves = (
        (independence,) if stays < _MAY_STAY else (pool.trajectory, independence, pool.trajectory)
    )
    return {"surrogate": SurrogateProposal(target, moves), "random walk": walk, **others}


def overdispersed_starts(
    known: Knowledge, target: EmulatedPosterior, trajectories: Trajectories | None, n_chains: int
) -> list[FloatArray]:
    """Return one start per chain, from the tempered emulated posterior if the emulator is good."""
    if trajectories is not None:
        return list(trajectories.ends)
    return list(known.pool(target, 20, known.temperature).theta[-1][:n_chains])
