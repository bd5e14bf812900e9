"""The set-up of the samplers whose proposals come from an emulator.

Everything here happens before the first kept draw and is then frozen: the emulator for proposals,
the sites of the importance density, the number of importance draws as a function of theta. Samplers
that know the evidence, exactly or by an approximation, need no importance density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtr

from .._typing import FloatArray
from .._warnings import warn
from ..approximations import Quadratic, ReferenceDensity
from ..model import period_positions
from ..transitions import (
    MOST_ROTATED,
    Directed,
    Evaluating,
    IndependenceMetropolis,
    MarginalMetropolis,
    Mixture,
    Multiples,
    ParticleRefresh,
    Proposal,
    PseudoMarginalMetropolis,
    RandomWalk,
    RetainedParticle,
    Rotation,
    SurrogateProposal,
    TMixture,
    Transition,
)
from .emulator.learn import Knowledge, learned, refined
from .emulator.noise import draw_count, n_turns, take_probe
from .emulator.options import EmulatorOptions
from .emulator.posterior import EmulatedPosterior
from .executor import Executor
from .report import EmulatorReport, EmulatorSettings
from .time_limit import OutOfTimeError, check_time
from .work import Prepared, Request, no_density, sum_counts, switch

#: Importance draws where nothing is learned about them.
N_IMPORTANCE = 64
#: Probabilities of the main move and of a random walk, and of a refresh, of particles if there are
#: any; what a kernel with a period has besides.
_MOVES, _REFRESHED, _OF_PERIODS = (0.95, 0.04), 0.01, 0.03
#: Where chains accept so few proposals that this is less probable even if half of what is predicted
#: were the truth, what they showed is learned.
_SURPRISING = 0.01


class Estimates(NamedTuple):
    """How p(y | theta) is known to the chains."""

    move: Callable[..., Evaluating[Any]]  # makes a move of theta for a proposal and a name
    reference: ReferenceDensity
    correction: Quadratic | None = None  # from the approximate evidence to what is estimated
    refresh: Transition[Any] | None = None  # of particles
    last: Transition[Any] | None = None  # what follows every move
    error: float = 0.0  # of the correction
    n_importance: tuple[int, int] = (0, 0)
    noise: float = 0.0
    n_in_turn: int = 0

    @classmethod
    def by_draws(
        cls,
        settings: EmulatorSettings,
        reference: ReferenceDensity,
        count: Any,
        **measured: Any,
    ) -> Estimates:
        """Return estimates by importance draws."""
        share = settings.defensive
        move = partial(PseudoMarginalMetropolis, reference, n_importance=count, defensive=share)
        particles = ParticleRefresh(share), RetainedParticle(share)
        return cls(move, reference, None, *particles)._replace(**measured)

    def mixture(self, proposals: dict[str, Proposal], shares: Sequence[float]) -> Mixture[Any]:
        """Return a transition with some proposals."""
        moves = [self._moving(name, proposal) for name, proposal in proposals.items()]
        if self.refresh is None:
            return Mixture(tuple(moves), tuple(shares))
        rest = [(1.0 - _REFRESHED) * share for share in shares]
        return Mixture((*moves, self.refresh), (*rest, _REFRESHED), self.last)

    def _moving(self, name: str, proposal: Proposal) -> Transition[Any]:
        if isinstance(proposal, Rotation):
            back = proposal.reversed()
            return Directed(self.move(proposal, name=name), self.move(back, name=name))
        return self.move(proposal, name=name)


def set_up_emulated(
    request: Request,
    workers: Executor,
    settings: EmulatorSettings | None,
    *,
    draws_latent: bool = True,
    options: EmulatorOptions | None = None,
) -> Prepared:
    """Prepare chains whose proposals come from an emulator.

    Parameters
    ----------
    request : Request
        The emulator learns the log evidence of its approximation. A search for a mode begins at
        every start.
    workers : Executor
    settings : EmulatorSettings or None
        Those of a pseudo-marginal sampler. With None the target of the chains is the posterior by
        the evidence of the approximation, which is exact for a Gaussian likelihood.
    draws_latent : bool, default=True
        Whether chains draw f with every theta; otherwise f is drawn later, on request.
    options : EmulatorOptions, optional

    Returns
    -------
    Prepared
        The frozen transition and the chains, which have settled. If the time is over before
        anything is found that may lead chains, they are led by a random walk.
    """
    exact = Estimates(
        partial(MarginalMetropolis, request.approximation, with_mean=not draws_latent),
        request.approximation,
    )
    if len(request.starts[0]) == 0:
        return _without_hyperparameters(request, settings)
    known = learned(request, workers, options)
    try:
        for is_last in (False, True):
            check_time()
            known, estimates = _estimated(known, settings, exact, workers)
            target = known.examined.posterior
            if estimates.correction is not None:
                target = target.corrected(estimates.correction)
            report = _report(known, estimates)
            proposals, shares = _moves(known, target)
            transition = estimates.mixture(proposals, shares)
            chains = list(zip(overdispersed_starts(known, target, len(request.rngs)), request.rngs, strict=True))
            segments = workers.map(
                switch,
                [(known.model, transition, *chain, request.n_warmup) for chain in chains],
                "settling: iterations that are not kept",
            )
            check_time()
            request = request._replace(rngs=[segment.rng for segment in segments])
            counts = sum_counts(segment.counts for segment in segments)
            known = known.joined([], counts.n_evaluations)
            main = next(iter(proposals))
            if not _surprising(counts.n_accepted[main], counts.n_steps[main], report):
                break
            if is_last:
                _warn(counts.n_accepted[main] / counts.n_steps[main], report)
                break
            visited = np.concatenate([segment.theta for segment in segments])
            known = refined(_shown(known, visited, workers), workers)
    except OutOfTimeError:
        hurried = _in_a_hurry(request, known, settings, exact)
        return hurried._replace(draws_latent=draws_latent)
    return Prepared(
        transition=transition,
        reference=estimates.reference,
        estimator=_estimator(transition),
        thetas=[segment.state.theta for segment in segments],
        rngs=[segment.rng for segment in segments],
        states=[segment.state for segment in segments],
        n_settle=0,
        n_tuned=request.n_warmup,
        n_evaluations=known.n_evaluations,
        report=report,
        draws_latent=draws_latent,
    )


def _estimator(transition: Mixture[Any]) -> PseudoMarginalMetropolis | None:
    first = transition.moves[0]
    first = first.ahead if isinstance(first, Directed) else first
    return first if isinstance(first, PseudoMarginalMetropolis) else None


def _without_hyperparameters(request: Request, settings: EmulatorSettings | None) -> Prepared:
    """Every hyper-parameter is fixed: only the particles move, if there are any."""
    walk: dict[str, Proposal] = {"random walk": RandomWalk()}
    if settings is None:
        transition = Mixture((MarginalMetropolis(request.approximation, RandomWalk()),), (1.0,))
    else:
        count = settings.n_importance or N_IMPORTANCE
        mixture = Estimates.by_draws(settings, request.approximation, count).mixture(walk, (1.0,))
        transition = replace(mixture, probabilities=(0.0, 1.0))
    return Prepared(
        transition=transition,
        reference=request.approximation,
        estimator=_estimator(transition),
        thetas=request.starts,
        rngs=request.rngs,
        n_settle=request.n_warmup if settings is not None else 0,
    )


def _in_a_hurry(
    request: Request, known: Knowledge, settings: EmulatorSettings | None, exact: Estimates
) -> Prepared:
    """Return what needs no measurement: estimates by sites as they are, and moves at any scale."""
    estimates = exact
    if settings is not None:
        count = settings.n_importance or N_IMPORTANCE
        estimates = Estimates.by_draws(settings, known.reference(), count)
    if known.usable:
        proposals, shares = _moves(known, known.examined.posterior)
        thetas = overdispersed_starts(known, known.examined.posterior, len(request.rngs))
    else:
        proposals, shares = {"random walk": known.walk}, (1.0,)
        noise = known.rng.standard_normal((len(request.rngs), known.dim))
        thetas = list(known.design.best.theta + noise @ known.root.T)
    transition = estimates.mixture(proposals, shares)
    return Prepared(
        transition=transition,
        reference=estimates.reference,
        estimator=_estimator(transition),
        thetas=thetas,
        rngs=request.rngs,
        n_settle=request.n_warmup,
        n_evaluations=known.n_evaluations,
    )


def _estimated(
    known: Knowledge, settings: EmulatorSettings | None, exact: Estimates, workers: Executor
) -> tuple[Knowledge, Estimates]:
    """Measure the noise of estimates at the points of the last two batches, and correct for them."""
    if settings is None:
        return known, exact
    batches = known.held_out[-2:]
    thetas = np.concatenate([batch.theta for batch in batches])
    evidence = np.concatenate([batch.log_evidence for batch in batches])
    usual = known.design.above(known.options.plausible + 2.0 * known.dim).points
    turns = n_turns(usual, settings.noise, known.model.observations.probit_signs() is not None)
    reference = known.reference(turns)
    seeds = known.seeds(len(thetas))
    probes = workers.map(
        take_probe,
        [(known.model, reference, t, settings, s) for t, s in zip(thetas, seeds, strict=True)],
        "measuring the noise of estimates",
    )
    check_time()
    found = np.array([probe is not None for probe in probes])
    if not found.any():
        raise RuntimeError(no_density(known.model, thetas[0]))
    log_p, log_variance, noise = np.array([probe for probe in probes if probe is not None]).T
    theta, gap = thetas[found], log_p - evidence[found]
    center, scale = known.design.best.theta, known.scale
    variance = Quadratic.fit(theta, log_variance, center, scale, noise=0.5, term_sd=1.0)
    n = known.model.n_inputs
    count = settings.n_importance or draw_count(variance, known.draws(known.examined.posterior), n, settings.noise)
    correction = Quadratic.fit(theta, gap, center, scale, noise=0.05 + noise, term_sd=0.1)
    counts = [count if isinstance(count, int) else count.at(t) for t in theta]
    estimates = Estimates.by_draws(
        settings,
        reference,
        count,
        correction=correction,
        error=float(np.std(gap - correction.value(theta))),
        n_importance=(min(counts), max(counts)),
        noise=float(np.median(np.exp(0.5 * log_variance) / np.sqrt(counts))),
        n_in_turn=turns,
    )
    return known.joined([], len(probes)), estimates


def _moves(
    known: Knowledge, target: EmulatedPosterior
) -> tuple[dict[str, Proposal], Sequence[float]]:
    """Return proposals of theta by name, the main one first, and their probabilities.

    The walk leaves places where pi* is far too small.
    """
    lifted = known.options.lifted(known.dim)
    if known.dim <= MOST_ROTATED:
        grid = known.grid_of(target, fine=True)
        proposals: dict[str, Proposal] = {"rotation": Rotation(grid.tempered(1.0 / lifted))}
    else:
        target = target.raised(lifted)
        pool = known.pool(target)
        mixture = TMixture.of_draws(pool.theta.reshape(-1, known.dim), known.modes, known.scale)
        moves = (pool.leapfrog, IndependenceMetropolis(mixture, 16), pool.leapfrog)
        proposals = {"surrogate": SurrogateProposal(target, moves)}
    proposals["random walk"] = known.walk
    main, walk = _MOVES
    periods = period_positions(known.model)
    if not periods:
        return proposals, (main, walk)
    proposals["multiple of a period"] = Multiples(periods)
    return proposals, (main - _OF_PERIODS, walk, _OF_PERIODS)


def overdispersed_starts(known: Knowledge, target: EmulatedPosterior, n: int) -> list[FloatArray]:
    """Return overdispersed starts, from wider tails of the emulated posterior."""
    draws = known.draws(target, 1.0 / known.options.temperature(known.dim))
    return list(draws[known.rng.choice(len(draws), n, replace=False)])


def _shown(known: Knowledge, visited: FloatArray, workers: Executor) -> Knowledge:
    """Let the places join the design where chains stayed, which pi* does not know of."""
    places, dwell = np.unique(visited, axis=0, return_counts=True)
    size = known.options.batch(known.dim)
    places = places[np.argsort(-dwell, kind="stable")[:size]]
    points = known.evaluated(places, "a second look: where chains stayed", workers)
    return replace(known.joined(points, len(places)), examined=None)


def _report(known: Knowledge, estimates: Estimates) -> EmulatorReport:
    """Say how good the emulator was before its last points joined its design."""
    last = known.held_out[-1]
    residual = last.log_evidence - last.emulated
    mean = last.shares @ residual / last.shares.sum()
    error = float(np.sqrt(last.shares @ (residual - mean) ** 2 / last.shares.sum()))
    return EmulatorReport(
        n_design=len(known.design),
        held_out_error=error,
        probe_error=float(np.hypot(error, estimates.error)),
        predicted_acceptance=known.acceptance,
        n_importance=estimates.n_importance,
        noise=estimates.noise,
        n_in_turn=estimates.n_in_turn,
    )


def _surprising(n_accepted: int, n_made: int, report: EmulatorReport) -> bool:
    """Whether chains accept far less than predicted."""
    return bool(bdtr(n_accepted, n_made, 0.5 * report.predicted_acceptance) < _SURPRISING)


def _warn(accepted: float, report: EmulatorReport) -> None:
    warn(
        f"Chains accept {accepted:.0%} of the proposals of the emulator, where it predicts "
        f"{report.predicted_acceptance:.0%}, also after a second look at where they stayed. Draws "
        "are exact, but chains may stay where they are for long: look at diagnostics_, and use "
        "sampler=PseudoMarginal(moves='trajectories') or other priors if R-hat is large."
    )
