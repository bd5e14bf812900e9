"""Joint Metropolis-Hastings on theta and f, with f proposed from an approximation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..importance.density import Density, ReferenceDensity
from ..importance.estimate import importance_estimate, log_importance_weights
from ..model.joint import GPState, LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from .base import StepInfo
from .metropolis import RandomWalk, metropolis_accepts, rejection_info
from .operator import OperatorUpdate


@dataclass(frozen=True)
class JointInfo(StepInfo):
    """Information on a joint update for diagnostics.

    Attributes
    ----------
    central_probability : float
        Acceptance probability with weights at the mean of q in place of the weights of the draws.
    """

    central_probability: float = 0.0

    @property
    def tuning_probability(self) -> float:
        """Acceptance probability whose mean warm-up tunes to the target acceptance rate."""
        return self.central_probability


@dataclass(frozen=True, eq=False)
class JointUpdate(OperatorUpdate[GPState]):
    """Propose theta' by a random walk and f' ~ q(f | y, theta'), and accept or reject both.

    The weight of the current f is computed with q at the current theta, so that other moves of f
    may be made between these updates.

    **Invariant:** leaves p(theta, f | y) unchanged, for any q that is a function of (y, theta).

    The step of theta is tuned by an acceptance rate that uses the weight at the mean of q in place
    of the weights of the draws. Poor weights of the draws limit the real acceptance rate however
    short the step is, so that tuning by it would shrink the step to zero.

    Attributes
    ----------
    reference : ReferenceDensity
        Importance density q at any theta.
    operator : RandomWalk
        The random walk of theta.
    defensive : float in [0, 1), default=0.0
        Probability with which f' comes from the prior instead. With a bounded likelihood the
        weights are then bounded too.

    References
    ----------
    Knorr-Held & Rue (2002); Filippone, Zhong & Girolami (2013), section 2.3.
    """

    reference: ReferenceDensity
    operator: RandomWalk
    defensive: float = 0.0
    name = "joint update"

    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> GPState | None:
        """Return the state at theta with f from q."""
        drawn = self._draw(model, theta, rng)
        return None if drawn is None else drawn[0]

    def step(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> tuple[GPState, StepInfo]:
        """Propose (theta', f'), and accept or reject both."""
        theta, _ = self.operator.propose(state.theta, rng)
        drawn = self._draw(model, theta, rng)
        if drawn is None:
            return state, rejection_info(self.name, model, theta)
        candidate, log_weight = drawn
        own = log_importance_weights(
            model, self._density(model, state), state.f[:, None], defensive=self.defensive
        )
        log_prior = model.hyperprior.log_prob(theta) - model.hyperprior.log_prob(state.theta)
        accepted, probability = metropolis_accepts(log_weight - float(own[0]) + log_prior, rng)
        central = self._central(model, candidate) - self._central(model, state) + log_prior
        tuning = 0.0 if np.isnan(central) else float(np.exp(min(central, 0.0)))
        kept, left = (candidate, state) if accepted else (state, candidate)
        left.prior.forget()  # else the reference cycle of density and prior keeps both alive
        return kept, JointInfo(self.name, accepted, probability, central_probability=tuning)

    def _draw(
        self, model: LatentGP, theta: FloatArray, rng: np.random.Generator
    ) -> tuple[GPState, float] | None:
        """Draw f at theta; returns the state and its log weight, or None without a density."""
        if not np.isfinite(model.hyperprior.log_prob(theta)):
            return None
        try:
            density = self.reference.at(model, theta)
            drawn = importance_estimate(model, density, 1, rng, defensive=self.defensive)
        except NotPositiveDefiniteError:
            return None
        if not np.isfinite(drawn.log_likelihood):
            return None
        state = model.state_in(density.q.prior, drawn.particles[:, 0].copy())
        state.prior.remember((self.reference, model), lambda: density)
        return state, drawn.log_likelihood

    def _density(self, model: LatentGP, state: GPState) -> Density:
        """Return q at the theta of a state; it is computed once per theta."""
        return state.prior.remember(
            (self.reference, model), lambda: self.reference.at(model, state.theta)
        )

    def _central(self, model: LatentGP, state: GPState) -> float:
        """Return the log weight at the mean of q (Laplace's log evidence), computed once."""

        def weigh() -> float:
            """Return the log weight."""
            density = self._density(model, state)
            return float(log_importance_weights(model, density, density.q.mean[:, None])[0])

        return state.prior.remember((type(self), self.reference, model), weigh)
