"""Riemannian trajectories: the metric, its derivatives, and the generalized leapfrog."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpmcmc.likelihoods import Poisson, Volatility
from skgpmcmc.parameterizations import LatentConditional
from skgpmcmc.transitions import LatentUpdate, RiemannianTrajectory, Trajectory
from skgpmcmc.transitions.annealed import RiemannianKernel
from skgpmcmc.transitions.gibbs import PriorShape
from skgpmcmc.transitions.riemannian import GeneralizedLeapfrog

from ...helpers import NO_THETA, finite_difference, given_model, in_one_test
from ..importance.test_annealed import beginning, particles_at
from ..parameterizations.test_parameterizations import every_likelihood, problem

STEP = 0.5


def conditional_of(model, state):
    return LatentConditional(model.observations_at(state.theta), state.prior)


def flow_of(conditional, step=STEP, tolerance=1e-13):
    return GeneralizedLeapfrog(conditional.at, step, tolerance, 200)


@every_likelihood
def test_metric_and_energy_equal_dense_formulas(likelihood):
    model, state, rng = problem(likelihood)
    point = conditional_of(model, state).point_of(state)
    precision, _ = model.observations_at(state.theta).curvature(state.f)
    L = state.prior.chol
    G = np.eye(len(L)) + L.T @ (precision[:, None] * L)
    p = rng.standard_normal(len(L))
    energy = 0.5 * p @ np.linalg.solve(G, p) + 0.5 * np.linalg.slogdet(G)[1]
    assert point.geometry.energy(p) == pytest.approx(energy, rel=1e-10)
    assert_allclose(G @ point.geometry.velocity(p), p, atol=1e-8)
    T = np.array([point.geometry.momentum(e) for e in np.eye(len(L))]).T
    assert_allclose(T @ T.T, G, rtol=1e-9, atol=1e-9)


@every_likelihood
def test_gradient_of_the_energy_equals_finite_differences(likelihood):
    """With dG/df by third derivatives; where a curvature is cut off at zero, it has a corner."""
    model, state, rng = problem(likelihood)
    conditional = conditional_of(model, state)
    point = conditional.point_of(state)
    p = rng.standard_normal(len(state.f))
    expected = finite_difference(lambda v: conditional.at(v).geometry.energy(p), point.position)
    assert_allclose(point.geometry.gradient(p), expected, atol=1e-6 * (1 + abs(expected).max()))


@every_likelihood
def test_riemannian_trajectories_are_reversible(likelihood):
    model, state, rng = problem(likelihood)
    conditional = conditional_of(model, state)
    begin = conditional.point_of(state)
    p = begin.geometry.momentum(rng.standard_normal(len(state.f)))
    end, momentum = flow_of(conditional).follow(begin, p, 3)
    assert abs(end.position - begin.position).max() > 0.1
    back, reversed_momentum = flow_of(conditional).follow(end, -momentum, 3)
    assert_allclose(back.position, begin.position, atol=1e-8)
    assert_allclose(-reversed_momentum, p, atol=1e-8)


@pytest.mark.parametrize("likelihood", ["poisson", "volatility"])
def test_riemannian_trajectories_preserve_volume(likelihood):
    """The Jacobian of two steps, by central differences, has the determinant one."""
    model, state, rng = problem(likelihood)
    conditional = conditional_of(model, state)
    begin = conditional.point_of(state)
    n, h = len(state.f), 1e-4
    z = np.concatenate([begin.position, begin.geometry.momentum(rng.standard_normal(n))])

    def mapped(z):
        end, momentum = flow_of(conditional).follow(conditional.at(z[:n]), z[n:], 2)
        return np.concatenate([end.position, momentum])

    def slope(e, h):
        return (mapped(z + h * e) - mapped(z - h * e)) / (2.0 * h)

    # Richardson's extrapolation leaves an error of h^4.
    jacobian = np.array([(4.0 * slope(e, h) - slope(e, 2.0 * h)) / 3.0 for e in np.eye(2 * n)])
    assert np.linalg.det(jacobian) == pytest.approx(1.0, abs=1e-8)


def test_riemannian_trajectories_conserve_energy_to_second_order():
    model, state, rng = problem("poisson")
    conditional = conditional_of(model, state)
    begin = conditional.point_of(state)
    p = begin.geometry.momentum(rng.standard_normal(len(state.f)))

    def error(n_steps):
        end, momentum = flow_of(conditional, 1.0 / n_steps).follow(begin, p, n_steps)
        change = end.log_density - end.geometry.energy(momentum)
        return abs(change - begin.log_density + begin.geometry.energy(p))

    assert error(8) < 0.35 * error(4)
    assert error(16) < 0.35 * error(8)


def test_riemannian_trajectory_with_a_constant_metric_is_the_leapfrog():
    """Log squared targets without curvature: momenta are those of the prior."""

    class Flat(Volatility):
        def curvature(self, y, f):
            return np.zeros_like(f), np.zeros_like(f)

    model = given_model(np.array([[2.0, 0.5], [0.5, 1.0]]), [0.3, -1.2], Flat())
    state = model.state_at(NO_THETA, np.array([0.4, -0.2]))
    ends = [
        LatentUpdate(operator, PriorShape()).step(model, state, np.random.default_rng(1))[0].f
        for operator in (RiemannianTrajectory(-1.0), Trajectory(-1.0))
    ]
    assert_allclose(*ends, rtol=1e-8)


def test_unsolved_implicit_equation_returns_none():
    """However many iterations are allowed: the end of the solved equations, or none."""
    model, state, rng = problem("poisson")
    conditional = conditional_of(model, state)
    begin = conditional.point_of(state)
    p = begin.geometry.momentum(rng.standard_normal(len(state.f)))
    solved = flow_of(conditional).follow(begin, p, 2)
    ends = []
    for max_iterations in range(1, 40):
        flow = GeneralizedLeapfrog(conditional.at, STEP, 1e-10, max_iterations)
        ends.append(flow.follow(begin, p, 2))
    found = [end for end in ends if end is not None]
    assert 4 < len(found) < len(ends) - 4
    for point, momentum in found:
        assert_allclose(point.position, solved[0].position, atol=1e-8)
        assert_allclose(momentum, solved[1], atol=1e-8)


# --- the way back ---------------------------------------------------------------------------------

#: A long step, where the curvature of a probit changes much.
LONG = 0.6
#: Where the way back leads: to another place, nowhere as an iteration does not converge, or to
#: where the way there began; that place, the normal number of the momentum, and the steps.
WAYS = {
    "elsewhere": (1.0, -2.9, 1),
    "nowhere": (1.0, -2.55, 1),
    "back": (1.0, 0.75, 1),
    "elsewhere in two steps": (3.5, -2.5, 2),
    "back in two steps": (3.5, -0.25, 2),
}
every_way = pytest.mark.parametrize("way", WAYS)


class Given:
    """A generator of the numbers of one trajectory; the ratio must be above ``1 - uniform``."""

    def __init__(self, way, uniform=0.1):
        _, self.z, self.n_steps = WAYS[way]
        self.decision = uniform

    def integers(self, *bounds):
        return self.n_steps

    def uniform(self, *bounds, size=None):
        return np.ones(size) if bounds else self.decision

    def standard_normal(self, size):
        return np.full(size, self.z)


def begun(way):
    """One row under a large variance, and where the way there begins."""
    model = given_model(np.array([[64.0]]), [1.0])
    state = model.state_at(NO_THETA, np.array([8.0 * WAYS[way][0]]))
    return model, state, conditional_of(model, state)


def both_ways(way):
    """Log ratio of the end, where the way back leads, and the points of the ways there and back."""
    v, z, n_steps = WAYS[way]
    *_, conditional = begun(way)
    begin, flow = conditional.at(np.array([v])), GeneralizedLeapfrog(conditional.at, LONG, 1e-9, 50)
    p = begin.geometry.momentum(np.array([z]))
    end, momentum = flow.follow(begin, p, n_steps)
    n_there = flow.n_points
    back = flow.follow(end, -momentum, n_steps)
    energies = (x.geometry.energy(q) - x.log_density for x, q in ((begin, p), (end, momentum)))
    return np.subtract(*energies), back, n_there, flow.n_points - n_there


@every_way
def test_constructed_trajectories_return_or_not_and_are_probable(way):
    """What the tests below use: some ends lead back, others do not, and all are probable."""
    log_ratio, back, *_ = both_ways(way)
    assert log_ratio > np.log(0.95)
    if way == "nowhere":
        assert back is None
    else:
        distance = abs(back[0].position[0] - WAYS[way][0])
        assert distance < 1e-6 if way.startswith("back") else distance > 0.5


@every_way
def test_only_riemannian_trajectories_that_return_are_accepted(way):
    model, state, _ = begun(way)
    after, info = LatentUpdate(RiemannianTrajectory(np.log(LONG))).step(model, state, Given(way))
    returns = way.startswith("back")
    assert info.accepted == returns
    assert info.failed == (not returns)
    assert (info.acceptance_probability > 0.0) == returns
    assert (after.f is state.f) == (not returns)


@every_way
def test_annealed_riemannian_moves_are_accepted_only_if_they_return(way):
    model, state, _ = begun(way)
    draws = particles_at(model, beginning(model, NO_THETA, "prior"), state.f[:, None])
    kernel = RiemannianKernel(RiemannianTrajectory())
    probability = kernel.move(draws, 1.0, np.log(LONG), Given(way))
    assert (abs(draws.f[0, 0] - state.f[0]) > 0.1) == (probability > 0.0) == way.startswith("back")


@in_one_test(
    ("position", "momentum", "returns"),
    [
        (0.0, 0.0, True),
        (2e-6, 0.0, True),  # the place is at 3, so that a distance counts as a quarter
        (0.0, 9e-5, True),  # the momentum is 100
        (6e-6, 0.0, False),
        (0.0, 2e-4, False),
        (np.nan, 0.0, False),
    ],
)
def test_return_is_judged_by_position_and_momentum(position, momentum, returns):
    """The larger component of two decides."""
    begin = (SimpleNamespace(position=np.array([3.0, 0.1])), np.array([1.0, -100.0]))
    end = (SimpleNamespace(position=np.zeros(2)), np.ones(2))

    class Flow:
        def follow(self, point, p, n_steps):
            assert point is end[0]
            assert_allclose(p, -end[1])
            place = SimpleNamespace(position=begin[0].position + np.array([0.0, position]))
            return place, -(begin[1] + np.array([momentum, 0.0]))

    assert RiemannianTrajectory()._returns(Flow(), begin, end, 1) == returns


def test_riemannian_step_that_does_not_converge_is_rejected_and_counted():
    model, state, rng = problem("poisson")
    update = LatentUpdate(RiemannianTrajectory(0.0, max_iterations=1))
    after, info = update.step(model, state, rng)
    assert info.failed
    assert not info.accepted
    assert info.acceptance_probability == 0.0
    assert after.f is state.f


def test_riemannian_move_stays_at_a_point_without_metric():
    model = given_model(np.eye(2), [1.0, 2.0], Poisson())
    state = model.state_at(NO_THETA, np.array([0.0, 800.0]))  # exp(800) is beyond all numbers
    after, info = LatentUpdate(RiemannianTrajectory()).step(model, state, np.random.default_rng(0))
    assert info.failed
    assert after.f is state.f


def test_evaluations_of_riemannian_moves_count_points_with_a_metric():
    """Each costs a factorization, as an evaluation at another theta does."""
    model, state, rng = problem("probit")
    _, info = LatentUpdate(RiemannianTrajectory(-1.0, max_steps=1)).step(model, state, rng)
    assert info.n_evaluations % len(state.f) == 0
    assert info.n_evaluations >= 3 * len(state.f)
    assert 0.5 < info.acceptance_probability <= 1.0


@pytest.mark.parametrize(("uniform", "looks_back"), [(0.1, True), (0.0, False)])
def test_evaluations_of_the_way_back_are_counted_only_if_followed(uniform, looks_back):
    """The way back is followed only where the ratio accepts."""
    way = "back"
    *_, conditional = begun(way)
    log_ratio, _, there, back = both_ways(way)
    assert log_ratio < 0.0  # too small for the least uniform number
    begin = conditional.at(np.array([WAYS[way][0]]))
    trajectory = RiemannianTrajectory(np.log(LONG))
    outcome = trajectory.move(conditional, begin, Given(way, uniform))
    assert outcome.accepted == looks_back
    assert outcome.acceptance_probability == pytest.approx(np.exp(log_ratio), rel=1e-8)
    assert not outcome.failed
    assert outcome.n_evaluations == there + looks_back * back
