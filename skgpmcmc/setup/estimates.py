"""How p(y | theta) is known to the chains: exactly, or by unbiased estimates that are measured."""

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
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from ..transitions.rotation import Rotation
from .emulator.learn import EmulatorState, weighted_sd
from .emulator.noise import calibrate_draw_count, estimate_at
from .report import EmulatorSettings


class EvidenceSource(NamedTuple):
    """How p(y | theta) is known to the chains."""

    move: Callable[..., MetropolisHastings[Any]]  # makes a move of theta for a proposal and a name
    reference: ReferenceDensity
    refresh: Transition[Any] | None = None  # of particles
    last: Transition[Any] | None = None  # what follows every move
    correction: Quadratic | None = None  # from the approximate evidence to what is estimated
    error: float = 0.0  # of the correction
    n_importance: tuple[int, int] = (0, 0)
    noise: float = 0.0
    n_sequential: int = 0

    @classmethod
    def exact(cls, approximation: Any, *, draws_latent: bool) -> EvidenceSource:
        """Take the evidence of an approximation for p(y | theta)."""
        move = partial(MarginalMetropolis, approximation, with_mean=not draws_latent)
        return cls(move, approximation)

    @classmethod
    def by_draws(
        cls, settings: EmulatorSettings, reference: ReferenceDensity, count: Any
    ) -> EvidenceSource:
        """Estimate by importance draws; `count` is their number, or a function of theta."""
        share = settings.defensive
        move = partial(PseudoMarginalMetropolis, reference, n_importance=count, defensive=share)
        return cls(move, reference, ParticleRefresh(share), RetainedParticle(share))

    def mixture(self, proposals: dict[str, Proposal], others: float) -> Mixture[Any]:
        """Return a transition by some proposals: each but the first has the probability `others`.

        So have new particles, if there are any.
        """
        moves = [self._moving(name, proposal) for name, proposal in proposals.items()]
        if self.refresh is not None:
            moves.append(self.refresh)
        rest = [others] * (len(moves) - 1)
        return Mixture(tuple(moves), (1.0 - sum(rest), *rest), self.last)

    def _moving(self, name: str, proposal: Proposal) -> Transition[Any]:
        if isinstance(proposal, Rotation):
            back = proposal.reverse()
            return DirectedPair(self.move(proposal, name=name), self.move(back, name=name))
        return self.move(proposal, name=name)


def calibrate_estimates(
    known: EmulatorState, settings: EmulatorSettings, workers: Executor
) -> tuple[EmulatorState, EvidenceSource]:
    """Measure the noise of estimates where chains will go, and what the evidence lacks there.

    Raises
    ------
    OutOfTimeError
        If the time is over before all is known.
    """
    check_time()
    model = known.model
    reference = known.reference(settings.noise)
    thetas, evidence, shares = known.places()
    n_draws = known.options.n_draws
    items = [
        (model, reference, theta, settings, n_draws, seed)
        for theta, seed in zip(thetas, known.seeds(len(thetas)), strict=True)
    ]
    probes = workers.map(estimate_at, items, "measuring the noise of estimates")
    check_time()
    found = np.array([probe is not None for probe in probes])
    if not found.any():
        raise RuntimeError(no_density_message(model, thetas[0]))
    log_p, log_variance, noise = np.array([probe for probe in probes if probe is not None]).T
    theta = thetas[found]
    gap = log_p - evidence[found]
    center = known.design.best.theta
    scale = known.scale
    # Errors matter where chains go; other moves go anywhere.
    weight = np.sqrt(np.clip(shares[found], known.options.other_probability, 1.0))
    count = settings.n_importance or calibrate_draw_count(
        theta, log_variance, center, scale, model.n_latent, settings.noise, weight, known.options
    )
    gap_noise = (known.options.gap_error + noise) / weight
    correction = Quadratic.fit(
        theta, gap, center, scale, noise=gap_noise, term_sd=known.options.gap_coefficient_sd
    )
    counts = [count if isinstance(count, int) else count.at(own) for own in theta]
    estimates = EvidenceSource.by_draws(settings, reference, count)._replace(
        correction=correction,
        error=weighted_sd(gap - correction.value(theta), weight**2),
        n_importance=(min(counts), max(counts)),
        noise=float(np.median(np.exp(0.5 * log_variance) / np.sqrt(counts))),
        n_sequential=len(reference.sequential_rows),
    )
    return known.with_points([], len(probes)), estimates
