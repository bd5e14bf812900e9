"""Riemannian trajectories: the metric, its derivatives, and the generalized leapfrog."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skgpmcmc.likelihoods import Poisson, Volatility
from skgpmcmc.parameterizations import LatentConditional
from skgpmcmc.transitions import (
    GeneralizedLeapfrog,
    LatentUpdate,
    PriorShape,
    RiemannianTrajectory,
    Trajectory,
)

from ..helpers import NO_THETA, finite_difference, given_model
from .test_parameterizations import every_likelihood, problem

STEP = 0.5


def conditional_of(model, state):
    return LatentConditional(model.observations_at(state.theta), state.prior)


def flow_of(conditional, step=STEP, tolerance=1e-13):
    return GeneralizedLeapfrog(conditional.at, step, tolerance, 200)


@every_likelihood
def test_the_metric_and_its_energy(likelihood):
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
def test_gradient_of_the_energy(likelihood):
    """With dG/df by third derivatives; where a curvature is cut off at zero, it has a corner."""
    model, state, rng = problem(likelihood)
    conditional = conditional_of(model, state)
    point = conditional.point_of(state)
    p = rng.standard_normal(len(state.f))
    expected = finite_difference(lambda v: conditional.at(v).geometry.energy(p), point.position)
    assert_allclose(point.geometry.gradient(p), expected, atol=1e-6 * (1 + abs(expected).max()))


@every_likelihood
def test_trajectories_go_back(likelihood):
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
def test_volume_is_preserved(likelihood):
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


def test_energy_is_conserved_to_second_order():
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


def test_with_a_constant_metric_it_is_the_leapfrog():
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


def test_what_does_not_converge_is_rejected_and_counted():
    model, state, rng = problem("poisson")
    update = LatentUpdate(RiemannianTrajectory(0.0, max_iterations=1))
    after, info = update.step(model, state, rng)
    assert info.failed
    assert not info.accepted
    assert info.acceptance_probability == 0.0
    assert after.f is state.f


def test_a_point_without_a_metric_stays():
    model = given_model(np.eye(2), [1.0, 2.0], Poisson())
    state = model.state_at(NO_THETA, np.array([0.0, 800.0]))  # exp(800) is beyond all numbers
    after, info = LatentUpdate(RiemannianTrajectory()).step(model, state, np.random.default_rng(0))
    assert info.failed
    assert after.f is state.f


def test_points_with_a_metric_are_counted():
    """Each costs a factorization, as an evaluation at another theta does."""
    model, state, rng = problem("probit")
    _, info = LatentUpdate(RiemannianTrajectory(-1.0, max_steps=1)).step(model, state, rng)
    assert info.n_evaluations % len(state.f) == 0
    assert info.n_evaluations >= 3 * len(state.f)
    assert 0.5 < info.acceptance_probability <= 1.0
