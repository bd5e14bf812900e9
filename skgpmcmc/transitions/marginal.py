"""Metropolis-Hastings on the approximate marginal posterior of theta."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation, GaussianApproximation
from ..model import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from .base import Proposal, StepInfo, Transition, metropolis_accepts, rejected_proposal
from .operators import RandomWalk
from .updates import OperatorUpdate


class MarginalState(NamedTuple):
    """A point of the chain on theta, with the latent draw that goes with it."""

    theta: FloatArray  # (p,), natural logs
    log_target: float  # log q(y | theta) + log p(theta)
    f: FloatArray  # (n,), a draw from q(f | y, theta); empty where none was asked for


@dataclass(frozen=True, eq=False)
class MarginalMetropolis(Transition[MarginalState]):
    """MH on theta with the deterministic evidence of an approximation; f from its Gaussian.

    **Invariant:** leaves q(y | theta) p(theta) q(f | y, theta) unchanged, up to its constant: the
    approximate posterior, *not* the posterior, unless the approximation is exact.

    Attributes
    ----------
    approximation : Approximation
    proposal : Proposal
    with_latent : bool
        Draw f with every accepted theta; warm-up does without (it saves a factorization).
    name : str
        What diagnostics call the move.

    References
    ----------
    Filippone & Girolami (2014), section 5.2 ("MCMC EP") and the adaptive phase of section 4.4.
    """

    approximation: Approximation
    proposal: Proposal
    with_latent: bool = True
    name: str = "random walk on the approximate marginal"

    def start(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> MarginalState | None:
        """Return the state at theta with f from q."""
        evaluated = self._evaluate(model, theta)
        return None if evaluated is None else self._with_draw(*evaluated, rng)

    def step(
        self, model: LatentGP, state: MarginalState, rng: np.random.Generator
    ) -> tuple[MarginalState, StepInfo]:
        """Propose theta', evaluate the approximate evidence there, accept or reject."""
        theta, log_hastings = self.proposal.propose(state.theta, rng)
        evaluated = self._evaluate(model, theta)
        if evaluated is None:
            return state, rejected_proposal(self.name, model, theta)
        candidate, q = evaluated
        log_ratio = candidate.log_target - state.log_target + log_hastings
        accepted, probability = metropolis_accepts(log_ratio, rng)
        if accepted:
            drawn = self._with_draw(candidate, q, rng)
            if drawn is None:
                return state, rejected_proposal(self.name, model, theta)
            state = drawn
        return state, StepInfo(self.name, accepted, probability)

    def _evaluate(
        self, model: LatentGP, theta: FloatArray
    ) -> tuple[MarginalState, GaussianApproximation] | None:
        log_hyperprior = model.hyperprior.log_prob(theta)
        if not np.isfinite(log_hyperprior):
            return None
        try:
            q, log_evidence, _, _ = self.approximation.fit(model, theta)
        except NotPositiveDefiniteError:
            return None
        log_target = log_evidence + log_hyperprior
        if not np.isfinite(log_target):
            return None
        return MarginalState(theta, log_target, np.empty(0)), q

    def _with_draw(
        self, state: MarginalState, q: GaussianApproximation, rng: np.random.Generator
    ) -> MarginalState | None:
        """Add f to the state; None if K, which the evidence does not need to factor, is singular.

        Such a theta is outside the target, always, so that turning it down is an exact rejection.
        """
        if not self.with_latent:
            return state
        try:
            return state._replace(f=q.sample(rng, 1).f[:, 0])
        except NotPositiveDefiniteError:
            return None


@dataclass(frozen=True, eq=False)
class MarginalWalk(MarginalMetropolis, OperatorUpdate[MarginalState]):
    """The same with a random walk, whose scale and shape warm-up tunes.

    **Invariant:** that of `MarginalMetropolis`.
    """

    proposal: RandomWalk

    @property
    def operator(self) -> RandomWalk:  # type: ignore[override]
        """The walk."""
        return self.proposal

    def _with_operator(self, operator: Any) -> Self:
        return replace(self, proposal=operator)
