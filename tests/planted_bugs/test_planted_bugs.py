"""Wrong twins of transitions and parts, each of which an examination must catch.

The functions and the sizes are those of `tests/exactness`, and a right twin passes alongside. One
twin of each transition is caught in the plain run, at the size of the short test there.
"""

from dataclasses import dataclass, fields, replace
from functools import partial

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
from skgpmcmc.likelihoods import Logit, NegativeBinomial, Probit, PsychometricProbit
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.setup import emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.testing import check_approximation, check_likelihood, exact_answer_test
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

from ..exactness.test_grid_posterior import three_point_draws
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
    without_jacobian,
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


class WithoutJacobian(OneByOne, PseudoMarginalMetropolis):
    """Takes the prior density on the natural scale for that on the log scale."""

    def evaluate_one(self, model, theta, rng, *retained):
        wrong = replace(model, hyperprior=without_jacobian(model.hyperprior))
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

    lift = LIFT

    def propose(self, theta, rng):
        moved, log_hastings = super().propose(theta, rng)
        return moved, log_hastings / EmulatorOptions(lift=self.lift).lifted_power(len(theta))


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


def proposing(transition_for, *, grids=False, options=None):
    """Prior-invariance test of what is made of the mixture, by size."""

    def report(sizes=SIZES):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(emulated, "EmulatorOptions", lambda: options or EmulatorOptions())
            return emulated_test(transition_for, sizes, grids=grids)

    return report


WIDE = EmulatorOptions(lift=LIFT)


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
def test_mean_weight_catches_sequential_rows_without_normalizer(cls, likelihood):
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
def test_right_estimates_equal_the_mean_weight_of_their_particles(transition):
    assert gap_of_estimates(transition) < 1e-9


@pytest.mark.parametrize("transition", [OldEstimate(0.2), RetainedOfOnePart(0.2)])
def test_wrong_estimates_differ_from_the_mean_weight_of_their_particles(transition):
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


# --- all of them ----------------------------------------------------------------------------------


def walking(transition):
    return partial(particle_test, transition)


RIGHT = {
    "walk: one draw": walking(PseudoMarginalMetropolis(Laplace(), WALK, 1)),
    "walk: asymmetric": walking(PseudoMarginalMetropolis(Laplace(), Shrinking(True), 2)),
    "rotation": proposing(with_wrong_grid, grids=True),
    "rotation with wide tails": proposing(with_rotation, grids=True, options=WIDE),
    "surrogate with wide tails": proposing(with_proposal, options=WIDE),
    "jump": proposing(lambda mixture: with_jump(mixture, IndependenceMetropolis)),
    "leapfrog": proposing(lambda mixture: with_leapfrog(mixture, Trajectory)),
    "reference": partial(reference_test, PseudoMarginalMetropolis),
    "count": partial(count_test, PseudoMarginalMetropolis),
    "refresh": partial(refresh_test, ParticleRefresh),
    "retained particle": partial(retained_test, RetainedParticle),
    "slice": partial(slice_test, Slice()),
}
WRONG = {
    "walk: no Jacobian": walking(WithoutJacobian(Laplace(), WALK, 2)),
    "walk: no log |B|": walking(PseudoMarginalMetropolis(LaplaceWithoutDeterminant(), WALK, 2)),
    "walk: asymmetric": walking(PseudoMarginalMetropolis(Laplace(), Shrinking(False), 2)),
    "walk: recomputed": walking(Recomputed(Laplace(), WALK, 1)),
    "walk: stale estimate": walking(StaleEstimate(Laplace(), WALK, 2)),
    "walk: carried f": walking(CarriedLatent(Laplace(), WALK, 2)),
    "walk: uniform choice": walking(UniformChoice(Laplace(), WALK, 2, 0.5)),
    "walk: weights of one part": walking(WeightsOfOnePart(Laplace(), WALK, 2, 0.5)),
    "rotation without ratio": proposing(
        lambda mixture: with_wrong_grid(mixture, RotationWithoutRatio), grids=True
    ),
    "rotation of the unlifted": proposing(
        lambda mixture: with_rotation(mixture, UnliftedRotation), grids=True, options=WIDE
    ),
    "surrogate of the unlifted": proposing(
        lambda mixture: with_proposal(mixture, UnliftedSurrogate), options=WIDE
    ),
    "no emulator ratio": proposing(lambda mixture: with_proposal(mixture, WithoutRatio)),
    "jump by density alone": proposing(lambda mixture: with_jump(mixture, JumpByDensity)),
    "jump until it moved": proposing(lambda mixture: with_jump(mixture, JumpUntilMoved)),
    "step by the point": proposing(lambda mixture: with_leapfrog(mixture, StepByPoint)),
    "reference of the last state": partial(reference_test, ReferenceOfTheLastState),
    "count of the last state": partial(count_test, CountOfTheLastState),
    "all particles anew": partial(refresh_test, AllAnew),
    "refresh of one part": partial(refresh_test, RefreshOfOnePart),
    "slice: shrinks to zero": partial(slice_test, Slice(shrinks_to_zero=True)),
    "slice: level without uniform": partial(slice_test, Slice(level_without_uniform=True)),
}
#: One of each kind. At length another one of the kind is harder to see, and stands for all.
IN_SHORT = (
    "walk: asymmetric",
    "rotation of the unlifted",
    "all particles anew",
    "slice: level without uniform",
)


def test_right_transition_passes_the_short_joint_test():
    check(RIGHT["refresh"](SHORT))


@pytest.mark.parametrize("name", IN_SHORT)
def test_short_joint_test_catches_wrong_transitions(name):
    check_caught(WRONG[name](SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("name", RIGHT)
def test_right_transitions_pass_the_joint_test(name):
    check(RIGHT[name]())


@pytest.mark.statistical
@pytest.mark.parametrize("name", [name for name in WRONG if name not in IN_SHORT])
def test_joint_test_catches_wrong_transitions(name):
    check_caught(WRONG[name]())


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
def test_closed_form_of_three_points_catches_wrong_samplers(sampler, approximation):
    report = exact_answer_test(*three_point_draws(sampler, approximation, n_importance=1))
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


class WrongMixture(PsychometricProbit):
    """Its second derivative lacks what the share of the probit adds."""

    def derivatives(self, y, f):
        found = super().derivatives(y, f)
        share = found.first / self.part.derivatives(y, f).first
        return found._replace(second=share * self.part.derivatives(y, f).second)


class WrongTilt(PsychometricProbit):
    """Its integrals have the share of the probit at the mean of f."""

    def tilted_moments(self, y, mean, var):
        share = self.derivatives(y, mean).first / self.part.derivatives(y, mean).first
        return (
            super()
            .tilted_moments(y, mean, var)
            ._replace(alpha=share * self.part.tilted_moments(y, mean, var).alpha)
        )


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


both_links = pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])


@both_links
def test_right_likelihoods_and_approximations_pass_their_checks(likelihood):
    check_likelihood(likelihood, CLASSES)
    check_approximation(EP(), likelihood=likelihood, evidence_tolerance=0.02)
    check_approximation(Laplace(), likelihood=likelihood, evidence_tolerance=0.2)


@pytest.mark.parametrize(
    ("likelihood", "complaint"),
    [
        (WrongSecondDerivative(), "second derivative"),
        (WrongBeta(), "beta"),
        (WrongSample(), "sampled p"),
        (WrongInformation(), "squared score"),
        (WrongMixture(), "second derivative"),
        (WrongTilt(), "alpha"),
    ],
    ids=["second", "beta", "sample", "information", "mixture", "tilt"],
)
def test_check_likelihood_catches_wrong_likelihoods(likelihood, complaint):
    with pytest.raises(AssertionError, match=complaint):
        check_likelihood(likelihood, CLASSES)


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
def test_check_approximation_catches_wrong_approximations(approximation, complaint):
    likelihood = NegativeBinomial(1.5) if isinstance(approximation, WrongInTheShape) else Probit()
    with pytest.raises(AssertionError, match=complaint):
        check_approximation(approximation, likelihood)


@dataclass(eq=False)
class Widened(EP):
    """EP with a field of its own."""

    share: float = 0.5


@pytest.mark.parametrize("kind", ["with_tolerance", "with_few_sweeps"])
def test_variants_of_an_approximation_keep_its_class_and_its_fields(kind):
    made = getattr(Widened(share=0.7, damping=0.8), kind)()
    assert (type(made), made.share, made.damping) == (Widened, 0.7, 0.8)
