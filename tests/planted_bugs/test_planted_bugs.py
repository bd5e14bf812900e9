"""Wrong twins of transitions and parts, each of which an examination must catch.

The sizes are those of `tests/exactness`, and a right twin passes alongside.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp

from skgpmcmc.approximations import EP, GaussianApproximation, Laplace
from skgpmcmc.hyperpriors import HyperPrior
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.likelihoods import Logit, Probit
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.testing import check_approximation, check_likelihood
from skgpmcmc.transitions import EllipticalSlice, PseudoMarginalMetropolis, StepInfo

from ..exactness.test_grid_posterior import three_point_report
from ..exactness.test_joint import LEAST_ACCEPTANCE, LEVEL, particle_test, slice_test
from ..helpers import Z_LIMIT

CLASSES = np.array([-1.0, 1.0])


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
            estimate=state.estimate._replace(log_likelihood=log_likelihood, log_weights=log_weights)
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
    "weights of one part": lambda walk: WeightsOfOnePart(Laplace(), walk, 2, 0.5),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_twin_passes(name):
    report = particle_test(RIGHT[name])
    assert report.p_value > LEVEL, report
    assert report.acceptance_rate > LEAST_ACCEPTANCE


@pytest.mark.parametrize("name", WRONG)
def test_wrong_twin_is_caught(name):
    report = particle_test(WRONG[name])
    assert report.p_value < LEVEL, report


# --- elliptical slice -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Slice(EllipticalSlice):
    """Elliptical slice sampling, with errors to choose from."""

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
        return state, StepInfo(False, 0.0, n_evaluations, False)


def test_right_slice_passes():
    report = slice_test(Slice())
    assert report.p_value > LEVEL, report


@pytest.mark.parametrize("error", ["shrinks_to_zero", "level_without_uniform"])
def test_wrong_slice_is_caught(error):
    report = slice_test(Slice(**{error: True}))
    assert report.p_value < LEVEL, report


# --- against a known answer -----------------------------------------------------------------------


@dataclass(eq=False)
class JacobianForgotten(PseudoMarginal):
    def sampling_transition(self, approximation, walk, n_importance):
        return WithoutJacobian(approximation, walk, n_importance, self.defensive)


@pytest.mark.parametrize(
    ("sampler", "approximation"),
    [(PseudoMarginal(), LaplaceWithoutDeterminant()), (JacobianForgotten(), Laplace())],
    ids=["no log |B|", "no Jacobian"],
)
def test_wrong_answer_is_caught(sampler, approximation):
    report = three_point_report(sampler, approximation)
    assert report.worst > Z_LIMIT, report.z


# --- parts ----------------------------------------------------------------------------------------


class WrongSecondDerivative(Logit):
    def derivatives(self, y, f):
        derivatives = super().derivatives(y, f)
        return derivatives._replace(second=1.01 * derivatives.second)


class WrongBeta(Probit):
    def tilted_moments(self, y, mean, var):
        moments = super().tilted_moments(y, mean, var)
        return moments._replace(beta=1.001 * moments.beta)


class WrongSample(Probit):
    def sample(self, f, rng):
        return Logit().sample(f, rng)


class WrongInformation(Probit):
    def fisher_information(self, f):
        return 1.05 * super().fisher_information(f)


class WrongGradient(Laplace):
    """Leaves out that the mode moves with theta."""

    def gradient(self, model, fit):
        return EP().gradient(model, fit)

    def refined(self):
        return WrongGradient(tol=1e-13)


class WrongEvidence(EP):
    def fit(self, model, theta):
        fit = super().fit(model, theta)
        return fit._replace(log_evidence=fit.log_evidence + fit.q.half_log_det_B)


class DependsOnThePast(EP):
    """Starts where the last fit ended, so to speak."""

    def fit(self, model, theta):
        self.damping *= 0.99
        return super().fit(model, theta)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_right_likelihood_passes(likelihood):
    check_likelihood(likelihood, CLASSES)


@pytest.mark.parametrize(
    ("likelihood", "complaint"),
    [
        (WrongSecondDerivative(), "second derivative"),
        (WrongBeta(), "beta"),
        (WrongSample(), "sampled p"),
        (WrongInformation(), "squared score"),
    ],
    ids=["second", "beta", "sample", "information"],
)
def test_wrong_likelihood_is_caught(likelihood, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_likelihood(likelihood, CLASSES)


@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
@pytest.mark.parametrize(
    ("approximation", "tolerance"), [(EP(), 0.02), (Laplace(), 0.2)], ids=["ep", "laplace"]
)
def test_right_approximation_passes(approximation, tolerance, likelihood):
    check_approximation(approximation, likelihood=likelihood, evidence_tolerance=tolerance)


@pytest.mark.parametrize(
    ("approximation", "complaint"),
    [
        (WrongGradient(), "derivative 0"),
        (WrongEvidence(), "log evidence"),
        (LaplaceWithoutDeterminant(), "importance weights"),
        (DependsOnThePast(), "two fits"),
    ],
    ids=["gradient", "evidence", "weights", "past"],
)
def test_wrong_approximation_is_caught(approximation, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_approximation(approximation)
