"""Pseudo-marginal Metropolis-Hastings: an exact chain from an unbiased likelihood estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from .._linalg import NotPositiveDefiniteError
from .._typing import FloatArray
from ..approximations import Approximation
from ..importance import ImportanceEstimate, importance_estimate
from ..model import LatentGP
from .base import StepInfo, Transition, metropolis_accepts, rejected_proposal
from .proposals import Proposal

__all__ = ["PseudoMarginalMetropolis", "PseudoMarginalState"]


class PseudoMarginalState(NamedTuple):
    """A point of the extended space: theta and the particles that estimated p(y | theta)."""

    theta: FloatArray  # (p,), natural logs
    log_hyperprior: float
    estimate: ImportanceEstimate  # made once, when theta was proposed; never recomputed
    f: FloatArray  # (n,), one particle, drawn by weight at every step

    @property
    def sites(self) -> None:
        """Predictions condition on f, so there are no sites to keep."""


@dataclass(frozen=True, eq=False)
class PseudoMarginalMetropolis(Transition[PseudoMarginalState]):
    """MH on theta in which an unbiased estimate stands for p(y | theta).

    **Invariant:** leaves the extended target p(theta) prod_i q(f_i | theta) * estimate unchanged,
    whose marginal in (theta, f), with f a particle drawn by weight, is p(theta, f | y) exactly,
    for any number of draws N >= 1. The estimate at the current theta stays what it was when theta
    was accepted: recomputing it would break this.

    Attributes
    ----------
    approximation : Approximation
        Gives the importance distribution, a function of theta alone.
    proposal : Proposal
    n_importance : int
        Draws per estimate, N.
    defensive : float
        Share of the draws taken from the prior, see `importance_estimate`.

    References
    ----------
    Filippone & Girolami (2014), algorithm 1 and (25); Andrieu & Roberts (2009). Unlike section 3.3
    of the paper, f is not carried along and refreshed, which is not exact: it is drawn from the
    particles.
    """

    name: ClassVar[str] = "pseudo-marginal random walk"
    approximation: Approximation
    proposal: Proposal
    n_importance: int
    defensive: float = 0.0

    def start(
        self,
        model: LatentGP,
        theta: FloatArray,
        rng: np.random.Generator,
        *,
        retained: FloatArray | None = None,
    ) -> PseudoMarginalState | None:
        """Return a state at theta with fresh particles.

        With `retained`, a draw from p(f | y, theta), the particles have their law under the
        extended target: the state is then a draw from it if theta is one from p(theta | y).
        """
        log_hyperprior = model.hyperprior.log_prob(theta)
        if not np.isfinite(log_hyperprior):
            return None
        try:
            q = self.approximation.fit(model, theta).q
            estimate = importance_estimate(
                model, q, self.n_importance, rng, defensive=self.defensive, retained=retained
            )
        except NotPositiveDefiniteError:
            return None
        if not np.isfinite(estimate.log_likelihood):
            return None
        return PseudoMarginalState(theta, log_hyperprior, estimate, estimate.draw(rng))

    def step(
        self, model: LatentGP, state: PseudoMarginalState, rng: np.random.Generator
    ) -> tuple[PseudoMarginalState, StepInfo]:
        """Propose theta' with fresh particles, accept or reject both, then draw f by weight."""
        theta, log_hastings = self.proposal.propose(state.theta, rng)
        candidate = self.start(model, theta, rng)
        if candidate is None:
            info = rejected_proposal(model, theta)
        else:
            log_ratio = _log_target(candidate) - _log_target(state) + log_hastings
            accepted, probability = metropolis_accepts(log_ratio, rng)
            state = candidate if accepted else state
            info = StepInfo(accepted, probability, 1, False)
        return state._replace(f=state.estimate.draw(rng)), info


def _log_target(state: PseudoMarginalState) -> float:
    return state.estimate.log_likelihood + state.log_hyperprior
