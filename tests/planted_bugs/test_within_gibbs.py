"""Wrong twins of the alternating moves of f and theta, each of which the joint test must catch.

Each has the size of its right twin, from the table `JOINT` in `tests/exactness`. Those that are
caught at the size of a short test, too, stand for their transition in the plain run.
"""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from skgpmcmc.approximations import Laplace
from skgpmcmc.parameterizations import (
    AncillaryAugmentation,
    LatentConditional,
    Parameterization,
    SufficientAugmentation,
    SurrogateData,
)
from skgpmcmc.transitions import (
    CrankNicolson,
    HyperUpdate,
    Langevin,
    LatentUpdate,
    Outcome,
    RandomWalk,
    RiemannianTrajectory,
    StepInfo,
    Trajectory,
    UnivariateSlice,
    metropolis_accepts,
    riemannian,
)
from skgpmcmc.transitions.gibbs import ConjugateVariance
from skgpmcmc.transitions.hmc import HamiltonianOperator
from skgpmcmc.transitions.joint_update import JointUpdate
from skgpmcmc.transitions.riemannian import GeneralizedLeapfrog

from ..exactness.test_joint import check_caught
from ..exactness.test_riemannian import score_of_trajectories
from ..exactness.test_within_gibbs import (
    HYPER,
    JOINT,
    LATENT,
    LEVEL,
    QUICK,
    conjugate,
    conjugate_model,
    operator_test,
)
from ..helpers import Z_LIMIT

# --- operators ------------------------------------------------------------------------------------


def likelihood_alone(update):
    """Accepts steps that do not keep the prior by p(y | f)."""

    class Forgetful(RandomWalk):
        def move(self, conditional, point, rng):
            position, _ = self.propose(point.position, rng)
            new = conditional.at(position)
            log_ratio = new.state.log_lik - point.state.log_lik
            accepted, probability = metropolis_accepts(log_ratio, rng)
            return Outcome(new if accepted else point, accepted, probability, 1)

    return replace(update, operator=Forgetful(update.log_scale))


class WithoutShrinking(CrankNicolson):
    """Adds a draw from the prior, and accepts by the likelihood alone."""

    def step(self, model, state, rng):
        new = model.with_latent(state, state.f + np.exp(self.log_scale) * state.prior.sample(rng))
        accepted, probability = metropolis_accepts(new.log_lik - state.log_lik, rng)
        return new if accepted else state, StepInfo(self.name, accepted, probability, 1, False)


class OffCenter(RandomWalk):
    """Steps towards the origin, as if they were symmetric."""

    def move(self, conditional, point, rng):
        class Pulled:
            def at(self, position):
                return conditional.at(0.75 * position)

        return super().move(Pulled(), point, rng)


class WithoutKineticEnergy(Trajectory):
    """Compares densities of positions, not of positions and momenta."""

    def move(self, conditional, point, rng):
        outcome = replace_decision(super(), conditional, point, rng)
        log_ratio = outcome.point.log_density - point.log_density
        accepted, _ = metropolis_accepts(log_ratio, rng)
        return outcome._replace(point=outcome.point if accepted else point, accepted=accepted)


class SlowMomenta(Trajectory):
    """Momenta have half of the standard deviation that the energy assumes."""

    def move(self, conditional, point, rng):
        halved = Loaded(rng, standard_normal=lambda size: 0.5 * rng.standard_normal(size))
        return super().move(conditional, point, halved)


class Loaded:
    """A generator of which some methods are others."""

    def __init__(self, rng, **methods):
        self._rng = rng
        vars(self).update(methods)

    def __getattr__(self, name):
        return getattr(self._rng, name)


def replace_decision(operator, conditional, point, rng):
    """The move of an operator whose proposals are all accepted."""

    def uniform(*bounds, **size):
        return rng.uniform(*bounds, **size) if bounds else 1.0 - 1e-300

    with np.errstate(divide="ignore"):
        return operator.move(conditional, point, Loaded(rng, uniform=uniform))


class CurvatureOfTheState(LatentUpdate):
    """A mass matrix that fits the current f."""

    def step(self, model, state, rng):
        point = LatentConditional(model.observations_at(state.theta), state.prior).point_of(state)

        class Local:
            def root(self, model, prior):
                return point.metric_root

        right = LatentUpdate(self.operator, Local())
        return right.step(model, state, rng)


class WithoutReverse(Langevin):
    """Takes the proposal for a symmetric one."""

    def move(self, conditional, point, rng):
        z = rng.standard_normal(len(point.position))
        position = self._mean(point) + self._step * point.metric_root.apply(z)
        new = conditional.at(position)
        if new is None:
            return Outcome.rejected(point, 1, position)
        accepted, probability = metropolis_accepts(new.log_density - point.log_density, rng)
        return Outcome(new if accepted else point, accepted, probability, 1)


class FixedLevel(UnivariateSlice):
    """The level of the slice is half of the density, always."""

    def _move_along(self, line, axis, point, rng):
        def uniform(*bounds):
            return rng.uniform(*bounds) if bounds else 0.5

        return super()._move_along(line, axis, point, Loaded(rng, uniform=uniform))


class WithoutThirdDerivative(RiemannianTrajectory):
    """dG/df is forgotten."""

    def move(self, conditional, point, rng):
        class Steady:
            def __getattr__(self, name):
                return getattr(conditional.observed, name)

            def curvature(self, f):
                precision, slope = conditional.observed.curvature(f)
                return precision, 0.0 * slope

        steady = replace(conditional, observed=Steady())
        return super().move(steady, steady.at(point.position), rng)


class OldMetric(RiemannianTrajectory):
    """Momenta have the covariance of another place, the prior mean."""

    def move(self, conditional, point, rng):
        old = conditional.at(0.0 * point.position).geometry

        def stale(size):
            return point.geometry.root.apply_transpose(old.momentum(rng.standard_normal(size)))

        return super().move(conditional, point, Loaded(rng, standard_normal=stale))


class HalfSolved(GeneralizedLeapfrog):
    """Two iterations, converged or not."""

    def _solve_fixed_point(self, update, start):
        here = update(start)
        return None if here is None else update(here)


class HalfExplicit(GeneralizedLeapfrog):
    """The first half step of momenta is explicit."""

    def _step_once(self, point, momentum):
        half = momentum + self._kick(point, momentum)
        begun, solved = [half], self._solve_fixed_point

        def solve(*equation):
            return begun.pop() if begun else solved(*equation)

        with mock.patch.object(self, "_solve_fixed_point", solve):
            return super()._step_once(point, momentum)


class WithoutWayBack(RiemannianTrajectory):
    """Accepts by the ratio alone."""

    def _returns(self, flow, begin, end, n_steps):
        return True


class Following(WithoutWayBack):
    """With another integrator, whose errors the way back would show."""

    flow = GeneralizedLeapfrog

    def move(self, conditional, point, rng):
        with mock.patch.object(riemannian, "GeneralizedLeapfrog", self.flow):
            return super().move(conditional, point, rng)


class NotConverged(Following):
    flow = HalfSolved


class OneExplicitHalf(Following):
    flow = HalfExplicit


def with_part(update, cls):
    """The same move with an operator, or a parameterization, of another class."""
    if issubclass(cls, Parameterization):
        return replace(update, parameterization=cls())
    values = {"log_scale": update.log_scale}
    if isinstance(update.operator, HamiltonianOperator):
        values["max_steps"] = update.operator.max_steps
    return replace(update, operator=cls(**values))


# --- parameterizations ----------------------------------------------------------------------------


def shifted(point, by):
    return replace(point, log_density=point.log_density + by)


class WithoutDeterminant(SufficientAugmentation):
    """Forgets log |K|."""

    def relocate(self, model, auxiliary, prior):
        return shifted(super().relocate(model, auxiliary, prior), prior.half_log_det)


class PriorTwice(AncillaryAugmentation):
    """Counts p(f | theta), which v does not ask for."""

    def relocate(self, model, auxiliary, prior):
        point = super().relocate(model, auxiliary, prior)
        return shifted(point, prior.log_prob(point.state.f))


class LatentStays(AncillaryAugmentation):
    """The density of theta given v, while f stays."""

    def relocate(self, model, auxiliary, prior):
        point = super().relocate(model, auxiliary, prior)
        f = self.f
        return replace(point, state=model.state_in(prior, f))

    def auxiliary(self, model, state, rng):
        object.__setattr__(self, "f", state.f)
        return super().auxiliary(model, state, rng)


class WithoutSurrogate(SurrogateData):
    """Forgets N(g; 0, K + S)."""

    def relocate(self, model, auxiliary, prior):
        point = super().relocate(model, auxiliary, prior)
        return replace(
            point, log_density=point.state.log_lik + model.hyperprior.log_prob(prior.theta)
        )


class NoiseOfTheDraw(SurrogateData):
    """g has twice the noise that the density of theta assumes."""

    def auxiliary(self, model, state, rng):
        right = super().auxiliary(model, state, rng)
        return right._replace(g=2.0 * right.g - state.f)


# --- states ---------------------------------------------------------------------------------------


class StaleInterweaving(HyperUpdate):
    """theta moves given f, and then given the whitened f of before."""

    def step(self, model, state, rng):
        v = state.prior.whiten(state.f)
        middle, _ = HYPER["sa mh"].step(model, state, rng)
        return super().step(model, model.state_in(middle.prior, middle.prior.unwhiten(v)), rng)


class WrongShape(ConjugateVariance):
    """n instead of n / 2."""

    def step(self, model, state, rng):
        wrong = ConjugateVariance(self.position, self.shape + 0.5 * len(state.f), self.scale)
        return wrong.step(model, state, rng)


class WithoutTheVariance(ConjugateVariance):
    """Takes f'K^-1 f for f'Q^-1 f, which does not know the variance."""

    def step(self, model, state, rng):
        v = state.prior.whiten(state.f)
        theta = state.theta.copy()
        scale = self.scale + 0.5 * v @ v
        theta[self.position] = np.log(scale / rng.gamma(self.shape + 0.5 * len(v)))
        return model.state_at(theta, state.f), StepInfo(self.name, True, 1.0, 0, False)


class WithoutItsDeterminant(JointUpdate):
    """Weighs the current f without the determinant of its q."""

    def _density(self, model, state):
        right = super()._density(model, state)

        class Wrong:
            q = right.q

            def log_ratio_to_prior(self, f):
                return right.log_ratio_to_prior(f) - right.half_log_det_B

        return Wrong()


WRONG_OPERATORS = {
    "mh: prior's steps": OffCenter(0.0),
    "hmc: slow momenta": SlowMomenta(0.1, max_steps=4),
    "smmala: no way back": WithoutReverse(0.3),
    "slice: fixed level": FixedLevel(),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", WRONG_OPERATORS)
def test_known_density_catches_wrong_operators(name):
    p_value, _ = operator_test(WRONG_OPERATORS[name])
    assert p_value < LEVEL


RIGHT_DRAW = conjugate(conjugate_model())
CONJUGATE = (RIGHT_DRAW.position, RIGHT_DRAW.shape, RIGHT_DRAW.scale)
#: Errors of an operator, or of a parameterization, in the place of that of a right move.
PARTS = {
    "hmc: no kinetic energy": ("f: hmc", WithoutKineticEnergy),
    "hmc: slow momenta": ("f: hmc", SlowMomenta),
    "hmc_v2: no kinetic energy": ("f: hmc_v2", WithoutKineticEnergy),
    "smmala: no way back": ("f: smmala", WithoutReverse),
    "rmhmc: no third derivative": ("wide rmhmc", WithoutThirdDerivative),
    "rmhmc: old metric": ("wide rmhmc", OldMetric),
    "rmhmc: not converged": ("wide rmhmc", NotConverged),
    "rmhmc: explicit": ("wide rmhmc", OneExplicitHalf),
    "sa: no determinant": ("theta: sa mh", WithoutDeterminant),
    "aa: p(f) twice": ("theta: aa mh", PriorTwice),
    "aa: f stays": ("theta: aa mh", LatentStays),
    "surr: no p(g)": ("theta: surr mh", WithoutSurrogate),
    "surr: more noise": ("theta: surr mh", NoiseOfTheDraw),
}
STALE = StaleInterweaving(AncillaryAugmentation(), RandomWalk(-0.5))
#: The right twin of each, by its name in the table, and the wrong one.
WRONG = {name: (right, with_part(JOINT[right].transition, cls))
         for name, (right, cls) in PARTS.items()} | {
    "mh: likelihood alone": ("f: mh", likelihood_alone(LATENT["mh"])),
    "mh_v1: likelihood alone": ("f: mh_v1", likelihood_alone(LATENT["mh_v1"])),
    "mh_v2: no shrinking": ("f: mh_v2", WithoutShrinking(0.0)),
    "hmc_v1: mass of the state": ("f: hmc_v1", CurvatureOfTheState(Trajectory(0.0, max_steps=4))),
    "asis: stale coordinates": ("theta: asis mh", STALE),
    "khr: no determinant": ("both: khr", WithoutItsDeterminant(Laplace(), RandomWalk(-0.3))),
    "conjugate draw: n for n / 2": ("conjugate draw", WrongShape(*CONJUGATE)),
    "conjugate draw: no variance": ("conjugate draw", WithoutTheVariance(*CONJUGATE)),
}  # fmt: skip
#: For the plain run: those that are caught at its sizes.
SHORT = (
    "mh: likelihood alone",
    "mh_v2: no shrinking",
    "hmc: slow momenta",
    "smmala: no way back",
    "sa: no determinant",
    "aa: p(f) twice",
    "asis: stale coordinates",
    "conjugate draw: n for n / 2",
)


@pytest.mark.parametrize("name", SHORT)
def test_short_joint_test_catches_wrong_alternating_moves(name):
    test, twin = WRONG[name]
    check_caught(QUICK[test].report(twin))


#: Of the twins of one move, the easy ones that the short test catches show nothing more at length.
HARD = {right for name, (right, _) in WRONG.items() if name not in SHORT}
AT_LENGTH = [name for name, (right, _) in WRONG.items() if name not in SHORT or right not in HARD]


@pytest.mark.statistical
@pytest.mark.parametrize("name", AT_LENGTH)
def test_joint_test_catches_wrong_alternating_moves(name):
    right, twin = WRONG[name]
    check_caught(JOINT[right].report(twin))


@pytest.mark.statistical
def test_exact_answer_catches_trajectories_without_a_way_back():
    score, _ = score_of_trajectories(WithoutWayBack)
    assert score > Z_LIMIT
