"""Wrong twins of transitions and parts, each of which an examination must catch.

The functions and the sizes are those of `tests/exactness`, and a right twin passes alongside. One
twin of each transition is caught in the plain run, at the size of the short test there.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from skgpmcmc.approximations import EP, GaussianApproximation, Laplace, Sites
from skgpmcmc.importance import importance_estimate, log_importance_weights
from skgpmcmc.importance.sequential import (
    SequentialApproximation,
    _make_mass_function,
    _ProbitFactors,
)
from skgpmcmc.likelihoods import Logit, NegativeBinomial, Probit
from skgpmcmc.model import HyperPrior
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.setup import emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.testing import check_approximation, check_likelihood
from skgpmcmc.transitions import EllipticalSlice, Mixture, Outcome, RandomWalk, StepInfo, Trajectory
from skgpmcmc.transitions.compose import DirectedPair
from skgpmcmc.transitions.metropolis import EvaluatedState
from skgpmcmc.transitions.particles import ParticleRefresh, RetainedParticle
from skgpmcmc.transitions.pseudo_marginal import DrawCount, PseudoMarginalMetropolis
from skgpmcmc.transitions.rotation import Rotation
from skgpmcmc.transitions.surrogate import (
    CheapPoint,
    IndependenceMetropolis,
    SurrogateProposal,
    TMixture,
)

from ..exactness.test_grid_posterior import three_point_report
from ..exactness.test_joint import (
    SHORT,
    SIZES,
    WALK,
    check,
    check_caught,
    emulated_test,
    estimate_test,
    particle_test,
    slice_test,
    small_model,
)
from ..helpers import (
    THREE_THETA,
    Z_LIMIT,
    OneByOne,
    exact_posterior,
    leapfrog,
    three_point_model,
    z_score,
)

CLASSES = np.array([-1.0, 1.0])


# --- pseudo-marginal ------------------------------------------------------------------------------


class NoJacobian(HyperPrior):
    """Takes the density on the natural scale for that on the log scale."""

    def log_prob(self, theta):
        return super().log_prob(theta) - theta.sum()


class WithoutJacobian(OneByOne, PseudoMarginalMetropolis):
    def evaluate_one(self, model, theta, rng, *retained):
        prior = model.hyperprior
        wrong = replace(model, hyperprior=NoJacobian(prior.names, prior.distributions))
        return super().evaluate_one(wrong, theta, rng, *retained)


class NoDeterminant(GaussianApproximation):
    half_log_det_B = 0.0


class LaplaceWithoutDeterminant(Laplace):
    """Its importance weights lack log |B|, which depends on theta."""

    def fit(self, model, theta):
        fit = super().fit(model, theta)
        return fit._replace(q=NoDeterminant(fit.q.prior, fit.q.sites))


@dataclass(frozen=True)
class Shrinking:
    """theta' ~ N(0.8 theta, 0.7^2 I): not symmetric."""

    corrected: bool

    def propose(self, theta, rng):
        new = 0.8 * theta + 0.7 * rng.standard_normal(len(theta))
        there = np.sum((new - 0.8 * theta) ** 2)
        back = np.sum((theta - 0.8 * new) ** 2)
        return new, 0.5 * (there - back) / 0.7**2 if self.corrected else 0.0


class Recomputed(OneByOne, PseudoMarginalMetropolis):
    """Monte Carlo within Metropolis: the estimate at the current theta is made anew every step."""

    def step_one(self, model, state, rng):
        return super().step_one(model, self.start(model, state.theta, rng) or state, rng)


class StaleEstimate(OneByOne, PseudoMarginalMetropolis):
    """theta moves, the estimate and its particles stay."""

    def step_one(self, model, state, rng):
        new, info = super().step_one(model, state, rng)
        return new._replace(estimate=state.estimate, f=state.estimate.draw(rng)), info


class CarriedLatent(OneByOne, PseudoMarginalMetropolis):
    """f is kept over the iterations, and moved by one elliptical slice step at the new theta."""

    def step_one(self, model, state, rng):
        new, info = super().step_one(model, state, rng)
        moved, _ = EllipticalSlice().step(model, model.state_at(new.theta, state.f), rng)
        return new._replace(f=moved.f), info


class UniformChoice(OneByOne, PseudoMarginalMetropolis):
    """f is any particle, whatever its weight."""

    def step_one(self, model, state, rng):
        new, info = super().step_one(model, state, rng)
        index = rng.integers(self.n_importance)
        return new._replace(f=new.estimate.particles[:, index]), info


class WeightsOfOnePart(OneByOne, PseudoMarginalMetropolis):
    """Draws from the defensive mixture, weighted as if all came from q."""

    def evaluate_one(self, model, theta, rng, *retained):
        found = super().evaluate_one(model, theta, rng, *retained)
        state = found.state
        q = self.reference.at(model, theta)
        log_weights = log_importance_weights(model, q, state.estimate.particles)
        log_likelihood = logsumexp(log_weights) - np.log(self.n_importance)
        estimate = state.estimate._replace(log_likelihood=log_likelihood, log_weights=log_weights)
        state = state._replace(estimate=estimate)
        return EvaluatedState(state, self.log_target(state))


RIGHT = {
    "one draw": PseudoMarginalMetropolis(Laplace(), WALK, 1),
    "asymmetric, corrected": PseudoMarginalMetropolis(Laplace(), Shrinking(True), 2),
}
WRONG = {
    "no Jacobian": WithoutJacobian(Laplace(), WALK, 2),
    "no log |B|": PseudoMarginalMetropolis(LaplaceWithoutDeterminant(), WALK, 2),
    "asymmetric": PseudoMarginalMetropolis(Laplace(), Shrinking(False), 2),
    "recomputed": Recomputed(Laplace(), WALK, 1),
    "stale estimate": StaleEstimate(Laplace(), WALK, 2),
    "carried f": CarriedLatent(Laplace(), WALK, 2),
    "uniform choice": UniformChoice(Laplace(), WALK, 2, 0.5),
    "weights of one part": WeightsOfOnePart(Laplace(), WALK, 2, 0.5),
}


def test_wrong_twin_is_caught_in_short():
    check_caught(particle_test(WRONG["asymmetric"], SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("name", RIGHT)
def test_right_twin_passes(name):
    check(particle_test(RIGHT[name]))


@pytest.mark.statistical
@pytest.mark.parametrize("name", WRONG)
def test_wrong_twin_is_caught(name):
    check_caught(particle_test(WRONG[name]))


# --- proposals of the emulated sampler ------------------------------------------------------------


def twin_of(part, cls, **changes):
    """An object of the class `cls` with the fields of another, but for some changes."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return cls(**(values | changes))


class WithoutRatio(SurrogateProposal):
    """Takes draws of the inner chain for those of a symmetric proposal."""

    def propose(self, theta, rng):
        return super().propose(theta, rng)[0], 0.0


#: Tails so wide that the density with wider tails differs much from the one without.
LIFT = 3.0


class UnliftedSurrogate(SurrogateProposal):
    """Proposals have the wider tails; their ratio does not know that."""

    def propose(self, theta, rng):
        moved, log_hastings = super().propose(theta, rng)
        return moved, log_hastings / self.target.power


class UnliftedRotation(Rotation):
    """The same, of a rotation."""

    def propose(self, theta, rng):
        moved, log_hastings = super().propose(theta, rng)
        return moved, log_hastings / EmulatorOptions(lift=LIFT).lifted_power(len(theta))


class JumpByDensity(IndependenceMetropolis):
    """Independent candidates compared by pi* alone: their own density is forgotten."""

    def move(self, target, point, rng):
        for theta in self.proposal.sample(rng, self.n_candidates):
            candidate = CheapPoint.at(target, theta)
            if np.log1p(-rng.uniform()) < candidate.log_density - point.log_density:
                point = candidate
        return Outcome(point, True, 1.0, self.n_candidates)


class JumpUntilMoved(IndependenceMetropolis):
    """The first candidate that is accepted ends the move."""

    def move(self, target, point, rng):
        for _ in range(self.n_candidates):
            outcome = replace(self, n_candidates=1).move_once(target, point, rng)
            if outcome.accepted:
                break
        return outcome

    def move_once(self, target, point, rng):
        return super().move(target, point, rng)


class StepByPoint(Trajectory):
    """A step size that fits the place where the trajectory begins."""

    def move(self, conditional, point, rng):
        log_scale = self.log_scale + np.tanh(point.position[0] - np.log(4.0))
        return twin_of(self, Trajectory, log_scale=log_scale).move(conditional, point, rng)


def with_proposal(mixture, cls=SurrogateProposal, move=None):
    """The surrogate move alone, its proposal of the class `cls` and with another move."""
    surrogate = mixture.moves[0]
    move = move or surrogate.proposal.move
    return replace(surrogate, proposal=twin_of(surrogate.proposal, cls, move=move))


def with_jump(mixture, cls):
    """Candidates from a distribution beside the posterior, so that they have to be weighted."""
    law = TMixture(np.array([[np.log(4.0) + 0.7, 0.7]]), 0.7 * np.eye(2)[None], np.ones(1))
    return with_proposal(mixture, move=cls(law, 16))


def with_leapfrog(mixture, cls):
    """Trajectories in a metric that is about that of the prior."""
    return with_proposal(mixture, move=twin_of(leapfrog(np.eye(2), 0.7, 3), cls))


class RotationWithoutRatio(Rotation):
    """As if the density of the grid were uniform."""

    def propose(self, theta, rng):
        moved, log_hastings = super().propose(theta, rng)
        return moved, log_hastings if np.isneginf(log_hastings) else 0.0


def with_rotation(mixture, cls=Rotation, **changes):
    """Rotations alone, of the class `cls`.

    That a chain has to turn around is examined in ``tests/unit/transitions/test_rotation.py``.
    """
    rotation = mixture.moves[0]
    ahead = twin_of(rotation.ahead.proposal, cls, **changes)
    back = twin_of(ahead, cls, sign=-ahead.sign)
    return DirectedPair(*(replace(rotation.ahead, proposal=proposal) for proposal in (ahead, back)))


def with_wrong_grid(mixture, cls=Rotation):
    """Rotations on a grid that is wrong: too wide, and to one side."""
    grid = mixture.moves[0].ahead.proposal.density
    wrong = replace(grid, center=grid.center + 0.8, root=1.2 * grid.root)
    return with_rotation(mixture, cls, density=wrong)


class Proposing(NamedTuple):
    """What is made of the mixture, and how its set-up is made."""

    transition_for: Callable
    grids: bool = False
    options: EmulatorOptions = EmulatorOptions()

    def report(self, sizes=SIZES):
        """Of the prior-invariance test."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(emulated, "EmulatorOptions", lambda: self.options)
            return emulated_test(self.transition_for, sizes, grids=self.grids)


WIDE = EmulatorOptions(lift=LIFT)
RIGHT_PROPOSALS = {
    "rotation": Proposing(with_wrong_grid, grids=True),
    "rotation with wide tails": Proposing(with_rotation, True, WIDE),
    "surrogate with wide tails": Proposing(with_proposal, False, WIDE),
    "jump": Proposing(lambda mixture: with_jump(mixture, IndependenceMetropolis)),
    "leapfrog": Proposing(lambda mixture: with_leapfrog(mixture, Trajectory)),
}
WRONG_PROPOSALS = {
    "rotation without ratio": Proposing(lambda m: with_wrong_grid(m, RotationWithoutRatio), True),
    "rotation of the unlifted": Proposing(lambda m: with_rotation(m, UnliftedRotation), True, WIDE),
    "surrogate of the unlifted": Proposing(
        lambda m: with_proposal(m, UnliftedSurrogate), False, WIDE
    ),
    "no emulator ratio": Proposing(lambda mixture: with_proposal(mixture, WithoutRatio)),
    "jump by density alone": Proposing(lambda mixture: with_jump(mixture, JumpByDensity)),
    "jump until it moved": Proposing(lambda mixture: with_jump(mixture, JumpUntilMoved)),
    "step by the point": Proposing(lambda mixture: with_leapfrog(mixture, StepByPoint)),
}


@pytest.mark.parametrize("name", ["rotation of the unlifted"])
def test_wrong_proposal_is_caught_in_short(name):
    check_caught(WRONG_PROPOSALS[name].report(SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("name", RIGHT_PROPOSALS)
def test_right_proposal_passes(name):
    check(RIGHT_PROPOSALS[name].report())


@pytest.mark.statistical
@pytest.mark.parametrize("name", WRONG_PROPOSALS)
def test_wrong_proposal_is_caught(name):
    check_caught(WRONG_PROPOSALS[name].report())


# --- estimates and their particles ----------------------------------------------------------------

#: The estimates must be noisy for their errors to show: few draws, poor references.
FAR = RandomWalk()


class PriorReference:
    """q = p(f | theta): valid, and noisy."""

    def at(self, model, theta):
        nothing = np.zeros(len(model.y))
        return GaussianApproximation(model.prior_at(theta), Sites(nothing, nothing))


class TurningReference:
    """Towards the targets for a large variance of f, away from them for a small one."""

    def at(self, model, theta):
        sites = Sites(model.y * np.tanh(theta[0] - np.log(4.0)), np.full(len(model.y), 0.5))
        return GaussianApproximation(model.prior_at(theta), sites)


@dataclass(frozen=True)
class Elsewhere:
    """The sites of a reference at another theta than where they are used."""

    reference: object
    theta: np.ndarray

    def at(self, model, theta):
        sites = self.reference.at(model, self.theta).q.sites
        return GaussianApproximation(model.prior_at(theta), sites)


class ReferenceOfTheLastState(OneByOne, PseudoMarginalMetropolis):
    """Sites at theta' are those that the last theta had: as if from a warm start, unimproved."""

    def step_one(self, model, state, rng):
        reference = Elsewhere(self.reference, state.theta)
        late = twin_of(self, PseudoMarginalMetropolis, reference=reference)
        return late.step(model, state, rng)


class CountOfTheLastState(OneByOne, PseudoMarginalMetropolis):
    """As many draws at theta' as the last theta wants."""

    def step_one(self, model, state, rng):
        n_importance = self.n_importance.at(state.theta)
        late = twin_of(self, PseudoMarginalMetropolis, n_importance=n_importance)
        return late.step(model, state, rng)


class AllAnew(OneByOne, ParticleRefresh):
    """New particles, none of them kept, under the old estimate."""

    def step_one(self, model, state, rng):
        new = importance_estimate(
            model, state.density, len(state.estimate.log_weights), rng, defensive=self.defensive
        )
        new = new._replace(log_likelihood=state.estimate.log_likelihood)
        _, info = super().step_one(model, state, rng)
        return state._replace(estimate=new, f=new.draw(rng)), info


class OldEstimate(OneByOne, ParticleRefresh):
    """The right particles, under the old estimate."""

    def step_one(self, model, state, rng):
        new, info = super().step_one(model, state, rng)
        stale = new.estimate._replace(log_likelihood=state.estimate.log_likelihood)
        return new._replace(estimate=stale), info


class RefreshOfOnePart(OneByOne, ParticleRefresh):
    """Draws from the defensive mixture, weighted as if all came from q."""

    def step_one(self, model, state, rng):
        new, info = super().step_one(model, state, rng)
        log_weights = log_importance_weights(model, state.density, new.estimate.particles)
        log_likelihood = logsumexp(log_weights) - np.log(len(log_weights))
        estimate = new.estimate._replace(log_likelihood=log_likelihood, log_weights=log_weights)
        return new._replace(estimate=estimate, f=estimate.draw(rng)), info


class RetainedOfOnePart(OneByOne, RetainedParticle):
    """Its particle is weighted as if the estimates had no defensive part."""

    def step_one(self, model, state, rng):
        return RetainedParticle(0.0, self.n_steps).step(model, state, rng)


def turning_count():
    """From one draw where the variance of f is small, or the length-scale large, to 64."""
    center, scale = np.array([np.log(4.0), 0.0]), np.array([0.7, 0.7])
    linear, curvature = np.array([2.0, -2.0]), np.zeros((2, 2))
    return DrawCount(Quadratic(center, scale, np.log(8.0), linear, curvature), 1.0, 1, 64)


def reference_test(cls, sizes=SIZES):
    walk = RandomWalk(np.log(0.5))
    return estimate_test(cls(TurningReference(), walk, 1, 0.2), sizes, kind="reference")


def count_test(cls, sizes=SIZES):
    return estimate_test(cls(PriorReference(), FAR, turning_count()), sizes)


def refresh_test(cls, sizes=SIZES):
    walk = PseudoMarginalMetropolis(Laplace(), FAR, 2, 0.5)
    return estimate_test(Mixture((walk, cls(0.5)), (0.5, 0.5)), sizes, variance=30.0)


def retained_test(cls, sizes=SIZES):
    walk = PseudoMarginalMetropolis(Laplace(), FAR, 4, 0.9)
    mixture = Mixture((walk,), (1.0,), cls(0.9, 1))
    return estimate_test(mixture, sizes, variance=10.0, kind="particle")


RIGHT_ESTIMATES = {
    "reference": (reference_test, PseudoMarginalMetropolis),
    "count": (count_test, PseudoMarginalMetropolis),
    "refresh": (refresh_test, ParticleRefresh),
    "retained particle": (retained_test, RetainedParticle),
}
WRONG_ESTIMATES = {
    "reference of the last state": (reference_test, ReferenceOfTheLastState),
    "count of the last state": (count_test, CountOfTheLastState),
    "all particles anew": (refresh_test, AllAnew),
    "refresh of one part": (refresh_test, RefreshOfOnePart),
}


def test_right_refresh_passes_in_short():
    check(refresh_test(ParticleRefresh, SHORT))


def test_wrong_refresh_is_caught_in_short():
    check_caught(refresh_test(AllAnew, SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("name", RIGHT_ESTIMATES)
def test_right_estimate_passes(name):
    test, cls = RIGHT_ESTIMATES[name]
    check(test(cls))


@pytest.mark.statistical
@pytest.mark.parametrize("name", WRONG_ESTIMATES)
def test_wrong_estimate_is_caught(name):
    test, cls = WRONG_ESTIMATES[name]
    check_caught(test(cls))


class WithoutNormalizer(SequentialApproximation):
    """Its weights do not know by how much each sequential draw was cut."""

    def _log_ratio(self, delta, sequential_log_ratio):
        f = self.q.mean[:, None] + delta
        return super()._log_ratio(delta, sequential_log_ratio) + self.log_normalizer(f)

    def log_normalizer(self, f):
        sequential = self._sequential
        y = sequential.coupling @ sequential.inverse @ (f - self.q.mean[:, None])[sequential.rows]
        if isinstance(sequential.factors, _ProbitFactors):
            constant, slope, *_ = sequential.factors
            return log_ndtr(constant[:, None] + slope[:, None] * y).sum(axis=0)
        mass = _make_mass_function([sequential])(slice(None), y[:, None])
        return np.log(mass.sum(axis=0)).sum(axis=(0, 1))


@pytest.mark.parametrize("cls", [SequentialApproximation, WithoutNormalizer])
@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_sequential_rows_without_their_normalizer_are_caught(cls, likelihood):
    """By the mean of the weights of three points, which is known."""
    model = three_point_model(likelihood)
    q = EP().fit(model, THREE_THETA).q
    density = cls(q, model.observations_at(THREE_THETA), np.array([2, 0]))
    draws = importance_estimate(model, density, 2000, np.random.default_rng(0), defensive=0.2)
    log_z, _, _ = exact_posterior(q.prior.K, model.y, model.likelihood)
    z = z_score(np.exp(draws.log_weights), np.exp(log_z))
    assert (abs(z) < Z_LIMIT) == (cls is SequentialApproximation)


def gap_of_estimates(transition):
    """Largest difference between the log of an estimate and what its particles give."""
    model = small_model(5, 4.0).with_observations(y=np.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    walk = PseudoMarginalMetropolis(Laplace(), FAR, 4, 0.2)
    rng = np.random.default_rng(0)
    mixture = Mixture((walk, transition), (0.5, 0.5))
    state, gaps = mixture.start(model, np.log([4.0, 1.0]), rng), []
    for _ in range(50):
        state, _ = mixture.step(model, state, rng)
        log_weights = log_importance_weights(
            model, state.density, state.estimate.particles, defensive=0.2
        )
        expected = logsumexp(log_weights) - np.log(len(log_weights))
        gaps.append(abs(state.estimate.log_likelihood - expected))
    return max(gaps)


@pytest.mark.parametrize("transition", [ParticleRefresh(0.2), RetainedParticle(0.2)])
def test_right_estimates_are_those_of_their_particles(transition):
    assert gap_of_estimates(transition) < 1e-9


@pytest.mark.parametrize("transition", [OldEstimate(0.2), RetainedOfOnePart(0.2)])
def test_wrong_estimates_are_not(transition):
    """Theta and f nearly keep their law: joint tests at these sizes do not tell."""
    assert gap_of_estimates(transition) > 0.1


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
            new = model.with_latent(state, state.f * np.cos(angle) + nu * np.sin(angle))
            if new.log_lik > log_level:
                return new, StepInfo(self.name, True, 1.0, n_evaluations, False)
            end = 0.0 if self.shrinks_to_zero else angle
            lower, upper = (end, upper) if angle < 0.0 else (lower, end)
            angle = rng.uniform(lower, upper)
        return state, StepInfo(self.name, False, 0.0, n_evaluations, False)


def test_wrong_slice_is_caught_in_short():
    check_caught(slice_test(Slice(level_without_uniform=True), SHORT))


@pytest.mark.statistical
def test_right_slice_passes():
    check(slice_test(Slice()))


@pytest.mark.statistical
@pytest.mark.parametrize("error", ["shrinks_to_zero", "level_without_uniform"])
def test_wrong_slice_is_caught(error):
    check_caught(slice_test(Slice(**{error: True})))


# --- against a known answer -----------------------------------------------------------------------


@dataclass(eq=False)
class Twin(PseudoMarginal):
    """A random walk whose frozen transition is replaced by a twin of it."""

    twin: type = PseudoMarginalMetropolis
    moves: str = "random_walk"

    def set_up(self, *args, **options):
        ready = super().set_up(*args, **options)
        return ready._replace(transition=twin_of(ready.transition, self.twin))


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sampler", "approximation"),
    [(Twin(), LaplaceWithoutDeterminant()), (Twin(twin=WithoutJacobian), Laplace())],
    ids=["no log |B|", "no Jacobian"],
)
def test_wrong_answer_is_caught(sampler, approximation):
    report = three_point_report(sampler, approximation, n_importance=1)
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


class WrongInTheShape(Laplace):
    """Its gradient is right in the parameters of the kernel, and not in those of the likelihood."""

    def gradient(self, model, fit):
        gradient = super().gradient(model, fit)
        gradient[2:] += 1.0
        return gradient


class ForgetsItself(Laplace):
    """Samplers use the refined form: they would never see what the class adds."""

    def with_tolerance(self, tol=1e-13):
        return Laplace(tol=tol)


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
        (WrongInTheShape(), "derivative 2"),
        (WrongEvidence(), "log evidence"),
        (LaplaceWithoutDeterminant(), "importance weights"),
        (DependsOnThePast(), "two fits"),
        (ForgetsItself(), "in place of the ForgetsItself"),
    ],
    ids=["gradient", "gradient of a parameter", "evidence", "weights", "past", "class"],
)
def test_wrong_approximation_is_caught(approximation, complaint):
    likelihood = NegativeBinomial(1.5) if isinstance(approximation, WrongInTheShape) else Probit()
    with pytest.raises(AssertionError, match=complaint):
        check_approximation(approximation, likelihood)


@dataclass(eq=False)
class Widened(EP):
    """EP with a field of its own."""

    share: float = 0.5


@pytest.mark.parametrize("kind", ["with_tolerance", "with_few_sweeps"])
def test_what_samplers_make_of_an_approximation_is_of_its_class_with_its_fields(kind):
    made = getattr(Widened(share=0.7, damping=0.8), kind)()
    assert (type(made), made.share, made.damping) == (Widened, 0.7, 0.8)
