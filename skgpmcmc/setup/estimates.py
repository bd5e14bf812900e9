"""The evidence p(y | theta) of the chains: exact, or unbiased estimates with a measured noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..chain.executor import Executor
from ..chain.segment import no_density_message
from ..chain.time_limit import check_time
from ..importance.density import ReferenceDensity
from ..numerics.quadratic import Quadratic
from ..transitions.base import Transition
from ..transitions.compose import DirectedPair, Mixture
from ..transitions.metropolis import MarginalMetropolis, MetropolisHastings, Proposal
from ..transitions.particles import ParticleRefresh, RetainedParticle
from ..transitions.pseudo_marginal import DrawCount, PseudoMarginalMetropolis
from ..transitions.rotation import Rotation
from .emulator.learn import EmulatorState, weighted_sd
from .emulator.noise import calibrate_draw_count, estimate_at
from .report import EmulatorSettings
from .request import N_IMPORTANCE


class EvidenceSource(NamedTuple):
    """How chains evaluate or estimate p(y | theta)."""

    move: Callable[..., MetropolisHastings[Any]]  # makes a move of theta from a proposal and a name
    reference: ReferenceDensity
    refresh: Transition[Any] | None = None  # move that refreshes the particles
    last: Transition[Any] | None = None  # move that follows every other move
    correction: Quadratic | None = None  # estimated minus approximate log evidence; natural logs
    error: float = 0.0  # standard deviation of the errors of the correction; natural logs
    n_importance: tuple[int, int] = (0, 0)  # smallest and largest number of draws
    noise: float = 0.0  # standard deviation of the log estimate; median over theta
    n_sequential: int = 0  # number of sequential rows

    @classmethod
    def exact(cls, approximation: Any, *, draws_latent: bool) -> EvidenceSource:
        """Use the evidence of an approximation as p(y | theta)."""
        move = partial(MarginalMetropolis, approximation, with_mean=not draws_latent)
        return cls(move, approximation)

    @classmethod
    def by_draws(
        cls,
        settings: EmulatorSettings,
        reference: ReferenceDensity,
        count: int | DrawCount | None = None,
    ) -> EvidenceSource:
        """Use estimates by importance draws; `count` is their number, or a function of theta.

        Without it, their number is that of the settings, or one that was not measured.
        """
        count = count or settings.n_importance or N_IMPORTANCE
        share = settings.defensive
        move = partial(PseudoMarginalMetropolis, reference, n_importance=count, defensive=share)
        return cls(move, reference, ParticleRefresh(share), RetainedParticle(share))

    def mixture(self, proposals: dict[str, Proposal], other_probability: float) -> Mixture[Any]:
        """Return the mixture of moves by some proposals.

        Each move but the first has the probability `other_probability`, also the refresh of the
        particles if there are any.
        """
        moves = [self._make_move(name, proposal) for name, proposal in proposals.items()]
        if self.refresh is not None:
            moves.append(self.refresh)
        rest = [other_probability] * (len(moves) - 1)
        return Mixture(tuple(moves), (1.0 - sum(rest), *rest), self.last)

    def _make_move(self, name: str, proposal: Proposal) -> Transition[Any]:
        if isinstance(proposal, Rotation):
            back = proposal.reverse()
            return DirectedPair(self.move(proposal, name=name), self.move(back, name=name))
        return self.move(proposal, name=name)


def calibrate_estimates(
    state: EmulatorState, settings: EmulatorSettings, workers: Executor
) -> tuple[EmulatorState, EvidenceSource]:
    """Measure the noise of estimates where chains will go, and correct the approximate evidence.

    Raises
    ------
    OutOfTimeError
        If the time is over before all estimates are made.
    """
    check_time()
    model = state.model
    reference = state.make_reference(settings.noise)
    thetas, evidence, shares = state.choose_trial_points()
    n_draws = state.options.n_draws
    items = [
        (model, reference, theta, settings, n_draws, seed)
        for theta, seed in zip(thetas, state.spawn_seeds(len(thetas)), strict=True)
    ]
    trials = workers.map(estimate_at, items, "measuring the noise of estimates")
    check_time()
    found = np.array([trial is not None for trial in trials])
    if not found.any():
        raise RuntimeError(no_density_message(model, state.design.best.theta))
    log_p, log_variance, noise = np.array([trial for trial in trials if trial is not None]).T
    theta = thetas[found]
    gap = log_p - evidence[found]
    center = state.design.best.theta
    scale = state.scale
    fewest = state.options.fewest_draws
    if not state.usable:
        # As many draws as inputs cost little beside the fits of the trajectory before an estimate.
        fewest = max(fewest, model.n_inputs)
    count = settings.n_importance or calibrate_draw_count(
        theta, log_variance, center, scale, model.n_latent, settings.noise, fewest, state.options
    )
    # Errors matter by how often chains come near a theta; other moves come near any theta.
    share = np.clip(shares[found], state.options.other_probability, 1.0)
    correction = Quadratic.fit(theta, gap, center, scale, noise=noise, shares=share)
    counts = [count if isinstance(count, int) else count.at(own) for own in theta]
    estimates = EvidenceSource.by_draws(settings, reference, count)._replace(
        correction=correction,
        error=weighted_sd(gap - correction.value(theta), share),
        n_importance=(min(counts), max(counts)),
        noise=float(np.median(np.exp(0.5 * log_variance) / np.sqrt(counts))),
        n_sequential=len(reference.sequential_rows),
    )
    return state.with_points([], len(trials)), estimates
