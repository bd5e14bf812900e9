"""The proposals of chains, from the results of a set-up."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray
from ..chain.executor import Executor
from ..hyperposterior.posterior import HyperPosterior
from ..model.default_priors import period_positions
from ..transitions.metropolis import PeriodMultiples, Proposal, RandomWalk
from ..transitions.rotation import MOST_ROTATED, Rotation
from ..transitions.surrogate import IndependenceMetropolis, SurrogateProposal
from .emulator.learn import EmulatorState
from .estimates import EvidenceSource


class ChainProposals(NamedTuple):
    """The proposals of theta in chains, and the theta at which the chains begin."""

    by_name: dict[str, Proposal]  # the main proposal is the first
    other_probability: float  # probability of each proposal but the main one
    starts: list[FloatArray]  # overdispersed; (p,) each, natural logs

    @property
    def main(self) -> str:
        """Name of the main proposal."""
        return next(iter(self.by_name))


def widen_rotations(proposals: dict[str, Proposal]) -> dict[str, Proposal]:
    """Return the proposals with rotations of any length, which forget the starts of chains."""
    return {
        name: replace(proposal, spread=1.0) if isinstance(proposal, Rotation) else proposal
        for name, proposal in proposals.items()
    }


def propose_by_emulator(
    state: EmulatorState, source: EvidenceSource, n_chains: int, workers: Executor
) -> tuple[EmulatorState, ChainProposals]:
    """Propose by the examined emulator: on a grid, or with more hyper-parameters by short chains.

    Proposals come from wider tails than those of pi*, which bounds the importance ratio where pi*
    is too small. Chains start at draws from even wider tails.
    """
    assert state.examined is not None
    target = state.examined.posterior
    options = state.options
    dim = state.dim
    if source.correction is not None:
        target = target.with_correction(source.correction)
    lifted = options.lifted_power(dim)
    temperature = options.temperature(dim)
    if dim <= MOST_ROTATED:
        # Starts are on the grid of the rotations, which cannot leave a theta that is not.
        grid = state.make_grid(target, fine=True)
        main: dict[str, Proposal] = {"rotation": Rotation(grid.temper(1.0 / lifted))}
        starts = grid.temper(temperature).sample(state.rng, n_chains)
    else:
        target = target.with_ceiling(state.design.best)
        mixture = state.fit_mixture(state.draw(target, lifted), target)
        independence = IndependenceMetropolis(mixture, options.n_pooled)
        main = {"surrogate": SurrogateProposal(target.to_power(lifted), independence)}
        draws = state.draw(target, 1.0 / temperature)
        state, starts = _choose_starts(state, draws, temperature, n_chains, workers)
    return state, _add_other_proposals(state, main, list(starts))


def _choose_starts(
    state: EmulatorState,
    draws: FloatArray,
    temperature: float,
    n_chains: int,
    workers: Executor,
) -> tuple[EmulatorState, FloatArray]:
    """Choose the starts of chains from draws (m, p), but few where pi* is too large; (k, p).

    Trajectories under pi* may have found a peak that no point has shown. A chain would stay there
    for long, as most proposals from there end on the same peak.
    """
    size = 2 * n_chains
    candidates = draws[state.rng.choice(len(draws), size, replace=size > len(draws))]
    points = state.evaluate_points(candidates, "starts of chains", workers)
    if not points:  # the time is over, or no point has a density
        return state, candidates[:n_chains]
    assert state.examined is not None
    theta = np.array([point.theta for point in points])
    log_evidence = np.array([point.log_evidence for point in points])
    missed = log_evidence - state.examined.posterior.log_evidence(theta)
    log_weights = np.minimum(missed, 0.0) / temperature
    weights = np.exp(log_weights - log_weights.max())
    n_possible = int(np.count_nonzero(weights))
    chosen = state.rng.choice(
        len(theta), n_chains, replace=n_chains > n_possible, p=weights / weights.sum()
    )
    return state.with_points(points, size), theta[chosen]


def propose_by_trajectories(state: EmulatorState, source: EvidenceSource) -> ChainProposals:
    """Propose by trajectories on the approximate posterior itself, corrected by the estimates.

    The approximation is a rough one: from interpolated sites, two sweeps bring its evidence to
    within a tenth, and more sweeps take longer than the rejections that they save. Trajectories are
    longer than in the warm-up, because each of them ends with a costly estimate.
    """
    assert state.exploration is not None
    sites = state.make_reference()
    rough = state.approximation.with_few_sweeps()
    posterior = HyperPosterior(
        state.model, rough, sites, source.correction, power=state.options.lifted_power(state.dim)
    )
    trajectory = state.exploration.trajectory
    longer = replace(trajectory, max_steps=state.options.step_factor * trajectory.max_steps)
    proposal: Proposal = SurrogateProposal(posterior, longer)
    main = {"trajectory": proposal}
    return _add_other_proposals(state, main, state.exploration.ends)


def propose_by_random_walk(state: EmulatorState, n_chains: int) -> ChainProposals:
    """Propose by a random walk at the scale that has been found so far."""
    walk: dict[str, Proposal] = {"random walk": _make_walk(state)}
    noise = state.rng.standard_normal((n_chains, state.dim)) @ state.root.T
    return ChainProposals(
        walk, state.options.other_probability, list(state.design.best.theta + noise)
    )


def _add_other_proposals(
    state: EmulatorState, main: dict[str, Proposal], starts: list[FloatArray]
) -> ChainProposals:
    """Add multiples of a period, and a random walk, which leaves regions where pi* is too small."""
    proposals = {**main, "random walk": _make_walk(state)}
    periods = period_positions(state.model)
    if periods:
        proposals["multiple of a period"] = PeriodMultiples(periods)
    return ChainProposals(proposals, state.options.other_probability, starts)


def _make_walk(state: EmulatorState) -> RandomWalk:
    return RandomWalk().with_covariance(state.root @ state.root.T)
