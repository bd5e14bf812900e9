"""Wrong twins of transitions and parts, each of which an examination must catch.

The sizes are those of `tests/exactness`, and a right twin passes alongside.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from skgpmcmc.approximations import EP, GaussianApproximation, Laplace
from skgpmcmc.hyperpriors import HyperPrior
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.likelihoods import Logit, Probit
from skgpmcmc.testing import check_approximation, check_likelihood
from skgpmcmc.transitions import EllipticalSlice, PseudoMarginalMetropolis, StepInfo

from ..exactness.test_joint import LEAST_ACCEPTANCE, LEVEL, particle_test, slice_test


# --- pseudo-marginal ------------------------------------------------------------------------------


class NoJacobian(HyperPrior):
    """Takes the density on the natural scale for that on the log scale."""

    def log_prob(self, theta):
        return super().log_prob(theta) - theta.sum()


class WithoutJacobian(PseudoMarginalMetropolis):
    def start(self, model, theta, rng, *, retained=None):
        prior = model.hyperprior
        wrong = replace(model, hyperprior=NoJacobian(prior.names, prior.distributions))
        return super().start(wrong, theta, rng, retained=retained)


class NoDeterminant(GaussianApproximation):
    half_log_det_B = 0.0


class LaplaceWithoutDeterminant(Laplace):
    """Its importance weights lack log |B|, which depends on theta."""

    def fit(self, model, theta):
        fit = super().fit(model, theta)
        return fit._replace(q=NoDeterminant(fit.q.prior, fit.q.weights, fit.q.precision))


@dataclass(frozen=True)
class Shrinking:
    """theta' ~ N(0.8 theta, 0.7^2 I): not symmetric."""

    corrected: bool

    def propose(self, theta, rng):
        new = 0.8 * theta + 0.7 * rng.standard_normal(len(theta))
        there = np.sum((new - 0.8 * theta) ** 2)
        back = np.sum((theta - 0.8 * new) ** 2)
        return new, 0.5 * (there - back) / 0.7**2 if self.corrected else 0.0


class Recomputed(PseudoMarginalMetropolis):
    """Monte Carlo within Metropolis: the estimate at the current theta is made anew every step."""

    def step(self, model, state, rng):
        return super().step(model, self.start(model, state.theta, rng) or state, rng)


class StaleEstimate(PseudoMarginalMetropolis):
    """theta moves, the estimate and its particles stay."""

    def step(self, model, state, rng):
        new, info = super().step(model, state, rng)
        return new._replace(estimate=state.estimate, f=state.estimate.draw(rng)), info


class CarriedLatent(PseudoMarginalMetropolis):
    """f is kept over the iterations, and moved by one elliptical slice step at the new theta."""

    def step(self, model, state, rng):
        new, info = super().step(model, state, rng)
        moved, _ = EllipticalSlice().step(model, model.state_at(new.theta, state.f), rng)
        return new._replace(f=moved.f), info


class UniformChoice(PseudoMarginalMetropolis):
    """f is any particle, whatever its weight."""

    def step(self, model, state, rng):
        new, info = super().step(model, state, rng)
        index = rng.integers(self.n_importance)
        return new._replace(f=new.estimate.particles[:, index]), info


class WeightsOfOnePart(PseudoMarginalMetropolis):
    """Draws from the defensive mixture, weighted as if all came from q."""

    def start(self, model, theta, rng, *, retained=None):
        state = super().start(model, theta, rng, retained=retained)
        q = self.approximation.fit(model, theta).q
        log_weights = log_importance_weights(model, q, state.estimate.particles)
        log_likelihood = logsumexp(log_weights) - np.log(self.n_importance)
        return state._replace(
            estimate=state.estimate._replace(
                log_likelihood=log_likelihood, log_weights=log_weights
            )
        )


RIGHT = {
    "one draw": lambda walk: PseudoMarginalMetropolis(Laplace(), walk, 1),
    "asymmetric, corrected": lambda walk: PseudoMarginalMetropolis(Laplace(), Shrinking(True), 2),
}
WRONG = {
    "no Jacobian": lambda walk: WithoutJacobian(Laplace(), walk, 2),
    "no log |B|": lambda walk: PseudoMarginalMetropolis(LaplaceWithoutDeterminant(), walk, 2),
    "asymmetric": lambda walk: PseudoMarginalMetropolis(Laplace(), Shrinking(False), 2),
    "recomputed": lambda walk: Recomputed(Laplace(), walk, 1),
    "stale estimate": lambda walk: StaleEstimate(Laplace(), walk, 2),
    "carried f": lambda walk: CarriedLatent(Laplace(), walk, 2),
    "uniform choice": lambda walk: UniformChoice(Laplace(), walk, 2, 0.5),
    "one part": lambda walk: WeightsOfOnePart(Laplace(), walk, 2, 0.5),
}


@dataclass(frozen=True)
class WrongSlice(EllipticalSlice):
    shrinks_to_zero: bool = False
    level_without_uniform: bool = False

    def step(self, model, state, rng):
        nu = state.prior.sample(rng)
        log_level = state.log_lik
        if not self.level_without_uniform:
            log_level += np.log1p(-rng.uniform())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        lower, upper = angle - 2.0 * np.pi, angle
        for n_evaluations in range(1, 201):
            new = model.moved(state, state.f * np.cos(angle) + nu * np.sin(angle))
            if new.log_lik > log_level:
                return new, StepInfo(True, 1.0, n_evaluations, False)
            end = 0.0 if self.shrinks_to_zero else angle
            lower, upper = (end, upper) if angle < 0.0 else (lower, end)
            angle = rng.uniform(lower, upper)
        return state, StepInfo(False, 0.0, 200, False)
