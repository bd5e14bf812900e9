"""The proposals of chains, by what a set-up has learned."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from .._typing import FloatArray
from ..hyperposterior.posterior import HyperPosterior
from ..model.default_priors import period_positions
from ..transitions.metropolis import PeriodMultiples, Proposal, RandomWalk
from ..transitions.rotation import MOST_ROTATED, Rotation
from ..transitions.surrogate import IndependenceMetropolis, SurrogateProposal, TMixture
from .emulator.learn import EmulatorState
from .estimates import EvidenceSource


class ChainProposals(NamedTuple):
    """What leads chains, and where they begin."""

    proposals: dict[str, Proposal]  # by name, the main one first
    others: float  # probability of each but the main one
    starts: list[FloatArray]  # overdispersed; (p,) each

    @property
    def main(self) -> str:
        """Name of the main proposal."""
        return next(iter(self.proposals))


def widen_rotations(proposals: dict[str, Proposal]) -> dict[str, Proposal]:
    """Return the proposals with rotations by any angle, which forget where a chain began."""
    return {
        name: replace(proposal, spread=1.0) if isinstance(proposal, Rotation) else proposal
        for name, proposal in proposals.items()
    }


def propose_by_emulator(
    known: EmulatorState, estimates: EvidenceSource, n_chains: int
) -> ChainProposals:
    """Propose by the emulator that was examined: on a grid, or where that is too large, by chains.

    Proposals come from wider tails than those of pi*, so that its ratio to the target is bounded
    where it is too small.
    """
    assert known.examined is not None
    target = known.examined.posterior
    options = known.options
    dim = known.dim
    if estimates.correction is not None:
        target = target.with_correction(estimates.correction)
    lifted = options.lifted_power(dim)
    if dim <= MOST_ROTATED:
        grid = known.grid_of(target, fine=True).temper(1.0 / lifted)
        main: dict[str, Proposal] = {"rotation": Rotation(grid)}
    else:
        mixture = TMixture.of_draws(known.draws(target, lifted), known.modes, known.scale)
        independence = IndependenceMetropolis(mixture, options.n_pooled)
        main = {"surrogate": SurrogateProposal(target.to_power(lifted), independence)}
    return _add_other_proposals(known, main, draw_overdispersed_starts(known, n_chains))


def draw_overdispersed_starts(known: EmulatorState, n_chains: int) -> list[FloatArray]:
    """Return draws from wider tails than those of pi*."""
    assert known.examined is not None
    power = 1.0 / known.options.temperature(known.dim)
    draws = known.draws(known.examined.posterior, power)
    return list(draws[known.rng.choice(len(draws), n_chains, replace=n_chains > len(draws))])


def propose_by_trajectories(known: EmulatorState, estimates: EvidenceSource) -> ChainProposals:
    """Propose by trajectories on the approximate posterior itself, corrected by the estimates.

    The approximation is a rough one: from interpolated sites two sweeps bring its evidence to
    within a tenth, and more take longer than what they save of rejections. Trajectories are longer
    than in the warm-up, as each ends with an estimate.
    """
    assert known.exploration is not None
    sites = known.reference()
    rough = known.approximation.with_few_sweeps()
    posterior = HyperPosterior(known.model, rough, sites, estimates.correction)
    trajectory = known.exploration.trajectory
    longer = replace(trajectory, max_steps=known.options.step_factor * trajectory.max_steps)
    proposal: Proposal = SurrogateProposal(posterior, longer)
    main = {"trajectory": proposal}
    return _add_other_proposals(known, main, known.exploration.ends)


def propose_by_random_walk(known: EmulatorState, n_chains: int) -> ChainProposals:
    """Propose by a random walk at the scale that is known by now."""
    walk: dict[str, Proposal] = {"random walk": _make_walk(known)}
    noise = known.rng.standard_normal((n_chains, known.dim)) @ known.root.T
    return ChainProposals(walk, known.options.other_probability, list(known.design.best.theta + noise))


def _add_other_proposals(
    known: EmulatorState, main: dict[str, Proposal], starts: list[FloatArray]
) -> ChainProposals:
    """Add multiples of a period, and a random walk: it leaves places where pi* is far too small."""
    proposals = {**main, "random walk": _make_walk(known)}
    periods = period_positions(known.model)
    if periods:
        proposals["multiple of a period"] = PeriodMultiples(periods)
    return ChainProposals(proposals, known.options.other_probability, starts)


def _make_walk(known: EmulatorState) -> RandomWalk:
    return RandomWalk().with_covariance(known.root @ known.root.T)
