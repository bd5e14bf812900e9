"""The set-up of the samplers that learn the posterior of theta before they sample.

Everything here happens before the first kept draw and is then frozen: what proposes, the sites of
the importance density, the number of importance draws as a function of theta.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import bdtr

from .._typing import FloatArray
from .._warnings import warn
from ..chain.counts import ChainCounts, sum_counts
from ..chain.executor import Executor
from ..chain.segment import Segment, switch
from ..chain.time_limit import OutOfTimeError, check_time
from ..transitions.base import Transition
from ..transitions.compose import DirectedPair, Mixture
from ..transitions.hmc import MarginalTrajectory
from ..transitions.metropolis import MarginalMetropolis, RandomWalk
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from .emulator.learn import EmulatorState, explore_with_hmc, learn_emulator, refine_design
from .emulator.options import EmulatorOptions
from .estimates import EvidenceSource, calibrate_estimates
from .hamiltonian import trajectories_are_cheaper, trajectories_suffice
from .proposals import (
    ChainProposals,
    propose_by_emulator,
    propose_by_random_walk,
    propose_by_trajectories,
    widen_rotations,
)
from .report import EmulatorReport, EmulatorSettings
from .request import N_IMPORTANCE, PreparedChains, Request


def set_up_emulated(
    request: Request,
    workers: Executor,
    settings: EmulatorSettings | None,
    *,
    draws_latent: bool = True,
    options: EmulatorOptions | None = None,
) -> PreparedChains:
    """Prepare chains whose proposals come from an emulator, or from trajectories.

    Parameters
    ----------
    request : Request
        The emulator learns the log evidence of its approximation. A search for a mode begins at
        every start.
    workers : Executor
        Does the work.
    settings : EmulatorSettings or None
        Those of a pseudo-marginal sampler. With None the target of the chains is the posterior by
        the evidence of the approximation, which is exact for a Gaussian likelihood.
    draws_latent : bool, default=True
        Whether chains draw f with every theta; otherwise f is drawn later, on request.
    options : EmulatorOptions, optional
        Numbers of the set-up.

    Returns
    -------
    Prepared
        The frozen transition and the chains, which have settled. If the time is over before
        anything is found that may lead chains, they are led by a random walk.
    """
    if len(request.starts[0]) == 0:
        return _prepare_without_hyperparameters(request, settings)
    options = options or EmulatorOptions()
    n_chains = len(request.rngs)
    emulates = (
        settings.emulates if settings else not trajectories_are_cheaper(request.model, options)
    )
    known = learn_emulator(request, workers, options, emulates=emulates)
    estimates = EvidenceSource.exact(request.approximation, draws_latent=draws_latent)
    try:
        for looks_again in (True, False):
            check_time()
            if not known.usable and known.exploration is None:
                known = explore_with_hmc(known, request, workers)
            if settings is not None:
                known, estimates = calibrate_estimates(known, settings, workers)
            if known.usable:
                led = propose_by_emulator(known, estimates, n_chains)
            else:
                led = propose_by_trajectories(known, estimates)
            transition: Transition[Any] = estimates.mixture(led.proposals, led.others)
            burn_in: Transition[Any] = estimates.mixture(widen_rotations(led.proposals), led.others)
            if settings is None and not known.usable and trajectories_suffice(known.model):
                assert known.exploration is not None
                transition = MarginalTrajectory(request.approximation, known.exploration.trajectory)
                burn_in = transition
            known, segments = _burn_in(known, request, burn_in, led, workers)
            request = request._replace(rngs=[segment.rng for segment in segments])
            counts = sum_counts(segment.counts for segment in segments)
            if not _is_surprising(counts, led, known):
                break
            if not looks_again:
                _warn_of_rejections(counts, led, known)
                break
            visited = np.concatenate([segment.theta for segment in segments])
            known = refine_design(_add_visited(known, visited, workers), workers)
    except OutOfTimeError:
        return _prepare_without_measurement(request, known, settings, draws_latent)
    return PreparedChains(
        transition=transition,
        reference=estimates.reference,
        estimator=_find_estimator(transition),
        thetas=[segment.state.theta for segment in segments],
        rngs=request.rngs,
        states=[segment.state for segment in segments],
        n_burn_in=0,
        n_tuned=request.n_warmup,
        n_evaluations=known.n_evaluations,
        report=_make_report(known, estimates) if known.usable else None,
        draws_latent=draws_latent and not isinstance(transition, MarginalTrajectory),
    )


def _burn_in(
    known: EmulatorState,
    request: Request,
    burn_in: Transition[Any],
    led: ChainProposals,
    workers: Executor,
) -> tuple[EmulatorState, list[Segment]]:
    """Start the chains, and let them settle."""
    segments = workers.map(
        switch,
        [
            (known.model, burn_in, theta, rng, request.n_warmup)
            for theta, rng in zip(led.starts, request.rngs, strict=True)
        ],
        "burn-in: iterations that are not kept",
    )
    check_time()
    counts = sum_counts(segment.counts for segment in segments)
    return known.with_points([], counts.n_evaluations), segments


def _is_surprising(counts: ChainCounts, led: ChainProposals, known: EmulatorState) -> bool:
    """Whether chains accept less than is probable even for a usable share of the predicted rate."""
    if not known.usable:
        return False  # nothing is predicted
    n_accepted = counts.n_accepted[led.main]
    n_made = counts.n_steps[led.main]
    return bool(
        bdtr(n_accepted, n_made, known.options.usable_acceptance * known.acceptance) < known.options.surprise_probability
    )


def _add_visited(known: EmulatorState, visited: FloatArray, workers: Executor) -> EmulatorState:
    """Let the places join the design where chains stayed, which pi* does not know of."""
    places, dwell = np.unique(visited, axis=0, return_counts=True)
    places = places[np.argsort(-dwell, kind="stable")[: known.options.batch(known.dim)]]
    points = known.evaluate_points(places, "a second look: where chains stayed", workers)
    return replace(known.with_points(points, len(places)), examined=None)


def _warn_of_rejections(counts: ChainCounts, led: ChainProposals, known: EmulatorState) -> None:
    accepted = counts.n_accepted[led.main] / counts.n_steps[led.main]
    warn(
        f"Chains accept {accepted:.0%} of the proposals of the emulator, where it predicts "
        f"{known.acceptance:.0%}, also after a second look at where they stayed. Draws are exact, "
        "but chains may stay where they are for long: look at diagnostics_, and if R-hat is large, "
        "increase n_draws, or use narrower priors."
    )


def _prepare_without_hyperparameters(
    request: Request, settings: EmulatorSettings | None
) -> PreparedChains:
    """Every hyper-parameter is fixed: only the particles move, if there are any."""
    if settings is None:
        transition = Mixture((MarginalMetropolis(request.approximation, RandomWalk()),), (1.0,))
    else:
        count = settings.n_importance or N_IMPORTANCE
        estimates = EvidenceSource.by_draws(settings, request.approximation, count)
        transition = estimates.mixture({"random walk": RandomWalk()}, others=1.0)
    return PreparedChains(
        transition=transition,
        reference=request.approximation,
        estimator=_find_estimator(transition),
        thetas=request.starts,
        rngs=request.rngs,
        n_burn_in=request.n_warmup if settings is not None else 0,
    )


def _prepare_without_measurement(
    request: Request, known: EmulatorState, settings: EmulatorSettings | None, draws_latent: bool
) -> PreparedChains:
    """Return what needs no measurement: estimates by sites as they are, and moves at any scale."""
    estimates = EvidenceSource.exact(request.approximation, draws_latent=draws_latent)
    if settings is not None:
        count = settings.n_importance or N_IMPORTANCE
        estimates = EvidenceSource.by_draws(settings, known.reference(), count)
    n_chains = len(request.rngs)
    if known.usable:
        led = propose_by_emulator(known, estimates, n_chains)
    else:
        led = propose_by_random_walk(known, n_chains)
    transition = estimates.mixture(led.proposals, led.others)
    return PreparedChains(
        transition=transition,
        reference=estimates.reference,
        estimator=_find_estimator(transition),
        thetas=led.starts,
        rngs=request.rngs,
        n_burn_in=request.n_warmup,
        n_evaluations=known.n_evaluations,
        draws_latent=draws_latent,
    )


def _find_estimator(transition: Transition[Any]) -> PseudoMarginalMetropolis | None:
    """What estimates p(y | theta) in a transition, if anything does."""
    first: Any = transition.moves[0] if isinstance(transition, Mixture) else transition
    first = first.ahead if isinstance(first, DirectedPair) else first
    return first if isinstance(first, PseudoMarginalMetropolis) else None


def _make_report(known: EmulatorState, estimates: EvidenceSource) -> EmulatorReport:
    """Say how good the emulator was at points that had not joined its design."""
    assert known.examined is not None
    error = known.examined.error
    return EmulatorReport(
        n_design=len(known.design),
        held_out_error=error,
        probe_error=float(np.hypot(error, estimates.error)),
        predicted_acceptance=known.acceptance,
        n_importance=estimates.n_importance,
        noise=estimates.noise,
        n_sequential=estimates.n_sequential,
    )
