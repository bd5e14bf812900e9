"""The set-up of the samplers that learn the posterior of theta before they sample.

The set-up ends before the first kept draw. Then everything that it has learned is frozen: the
proposals, the sites of the importance density, and the number of importance draws at any theta.
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
from .request import PreparedChains, Request


def set_up_emulated(
    request: Request,
    workers: Executor,
    settings: EmulatorSettings | None,
    *,
    draws_latent: bool = True,
) -> PreparedChains:
    """Prepare chains whose proposals come from an emulator, or from Hamiltonian trajectories.

    Parameters
    ----------
    request : Request
        The emulator learns the log evidence of the request's approximation. A search for a mode
        begins at every start.
    workers : Executor
        Executor of the work.
    settings : EmulatorSettings or None
        Settings of a pseudo-marginal sampler. With None the target of the chains is the posterior
        with the approximate evidence, which is exact for a Gaussian likelihood.
    draws_latent : bool, default=True
        Whether chains draw f with every theta; otherwise f is drawn later, on request.

    Returns
    -------
    PreparedChains
        The frozen transition, and the states of the chains after burn-in. If the time is over
        before a better proposal is found, the chains use a random walk.
    """
    if len(request.starts[0]) == 0:
        return _prepare_without_hyperparameters(request, settings)
    options = EmulatorOptions()
    n_chains = len(request.rngs)
    emulates = (
        settings.emulates if settings else not trajectories_are_cheaper(request.model, options)
    )
    state = learn_emulator(request, workers, options, emulates=emulates)
    source = EvidenceSource.exact(request.approximation, draws_latent=draws_latent)
    try:
        for looks_again in (True, False):
            check_time()
            if not state.usable and state.exploration is None:
                state = explore_with_hmc(state, request, workers)
            if settings is not None:
                state, source = calibrate_estimates(state, settings, workers)
            if state.usable:
                state, proposals = propose_by_emulator(state, source, n_chains, workers)
            else:
                proposals = propose_by_trajectories(state, source)
            transition: Transition[Any] = source.mixture(
                proposals.by_name, proposals.other_probability
            )
            burn_in: Transition[Any] = source.mixture(
                widen_rotations(proposals.by_name), proposals.other_probability
            )
            if settings is None and not state.usable and trajectories_suffice(state.model):
                assert state.exploration is not None
                transition = MarginalTrajectory(request.approximation, state.exploration.trajectory)
                burn_in = transition
            state, segments = _burn_in(state, request, burn_in, proposals, workers)
            request = request._replace(rngs=[segment.rng for segment in segments])
            counts = sum_counts(segment.counts for segment in segments)
            if not _is_surprising(counts, proposals, state):
                break
            if not looks_again:
                _warn_of_rejections(counts, proposals, state)
                break
            visited = np.concatenate([segment.theta for segment in segments])
            state = refine_design(_add_visited(state, visited, workers), workers)
    except OutOfTimeError:
        return _prepare_without_measurement(request, state, settings, workers, draws_latent)
    return PreparedChains(
        transition=transition,
        reference=source.reference,
        estimator=_find_estimator(transition),
        thetas=[segment.state.theta for segment in segments],
        rngs=request.rngs,
        states=[segment.state for segment in segments],
        n_burn_in=0,
        n_tuned=request.n_warmup,
        n_evaluations=state.n_evaluations,
        report=_make_report(state, source) if state.usable else None,
        draws_latent=draws_latent and not isinstance(transition, MarginalTrajectory),
    )


def _burn_in(
    state: EmulatorState,
    request: Request,
    burn_in: Transition[Any],
    proposals: ChainProposals,
    workers: Executor,
) -> tuple[EmulatorState, list[Segment]]:
    """Start the chains, and run their burn-in."""
    segments = workers.map(
        switch,
        [
            (state.model, burn_in, theta, rng, request.n_warmup)
            for theta, rng in zip(proposals.starts, request.rngs, strict=True)
        ],
        "burn-in: iterations that are not kept",
    )
    check_time()
    counts = sum_counts(segment.counts for segment in segments)
    return state.with_points([], counts.n_evaluations), segments


def _is_surprising(counts: ChainCounts, proposals: ChainProposals, state: EmulatorState) -> bool:
    """Whether chains accept improbably few proposals even for a usable share of the prediction."""
    if not state.usable:
        return False  # there is no prediction
    n_accepted = counts.n_accepted[proposals.main]
    n_made = counts.n_steps[proposals.main]
    return bool(
        bdtr(n_accepted, n_made, state.options.usable_acceptance * state.acceptance)
        < state.options.surprise_probability
    )


def _add_visited(state: EmulatorState, visited: FloatArray, workers: Executor) -> EmulatorState:
    """Add the theta at which chains stayed longest to the design, as pi* is too small there."""
    places, dwell = np.unique(visited, axis=0, return_counts=True)
    places = places[np.argsort(-dwell, kind="stable")[: state.options.batch(state.dim)]]
    points = state.evaluate_points(places, "a second look: where chains stayed", workers)
    return replace(state.with_points(points, len(places)), examined=None)


def _warn_of_rejections(
    counts: ChainCounts, proposals: ChainProposals, state: EmulatorState
) -> None:
    accepted = counts.n_accepted[proposals.main] / counts.n_steps[proposals.main]
    warn(
        f"Chains accept {accepted:.0%} of the proposals of the emulator, where it predicts "
        f"{state.acceptance:.0%}, also after a second look at where they stayed. Draws are exact, "
        "but chains may stay where they are for long: look at diagnostics_, and if R-hat is large, "
        "increase n_draws, or use narrower priors."
    )


def _prepare_without_hyperparameters(
    request: Request, settings: EmulatorSettings | None
) -> PreparedChains:
    """Prepare chains with fixed hyper-parameters: only particles move, if there are any."""
    if settings is None:
        transition = Mixture((MarginalMetropolis(request.approximation, RandomWalk()),), (1.0,))
    else:
        source = EvidenceSource.by_draws(settings, request.approximation)
        transition = source.mixture({"random walk": RandomWalk()}, other_probability=1.0)
    return PreparedChains(
        transition=transition,
        reference=request.approximation,
        estimator=_find_estimator(transition),
        thetas=request.starts,
        rngs=request.rngs,
        n_burn_in=request.n_warmup if settings is not None else 0,
    )


def _prepare_without_measurement(
    request: Request,
    state: EmulatorState,
    settings: EmulatorSettings | None,
    workers: Executor,
    draws_latent: bool,
) -> PreparedChains:
    """Prepare chains after the time is over, by the design and the scale found so far."""
    source = EvidenceSource.exact(request.approximation, draws_latent=draws_latent)
    if settings is not None:
        source = EvidenceSource.by_draws(settings, state.make_reference())
    n_chains = len(request.rngs)
    if state.usable:
        state, proposals = propose_by_emulator(state, source, n_chains, workers)
    else:
        proposals = propose_by_random_walk(state, n_chains)
    transition = source.mixture(proposals.by_name, proposals.other_probability)
    return PreparedChains(
        transition=transition,
        reference=source.reference,
        estimator=_find_estimator(transition),
        thetas=proposals.starts,
        rngs=request.rngs,
        n_burn_in=request.n_warmup,
        n_evaluations=state.n_evaluations,
        draws_latent=draws_latent,
    )


def _find_estimator(transition: Transition[Any]) -> PseudoMarginalMetropolis | None:
    """Find the part of a transition that estimates p(y | theta); None if there is none."""
    first: Any = transition.moves[0] if isinstance(transition, Mixture) else transition
    first = first.ahead if isinstance(first, DirectedPair) else first
    return first if isinstance(first, PseudoMarginalMetropolis) else None


def _make_report(state: EmulatorState, source: EvidenceSource) -> EmulatorReport:
    """Report the errors of the emulator at held-out points, before these joined its design."""
    assert state.examined is not None
    error = state.examined.error
    return EmulatorReport(
        n_design=len(state.design),
        held_out_error=error,
        probe_error=float(np.hypot(error, source.error)),
        predicted_acceptance=state.acceptance,
        n_importance=source.n_importance,
        noise=source.noise,
        n_sequential=source.n_sequential,
    )
