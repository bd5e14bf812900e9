"""Trajectories on the approximate posterior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP, InterpolatedSites, Laplace
from skgpmcmc.approximations.interpolated import Quadratic
from skgpmcmc.transitions import CheapPoint, Leapfrog
from skgpmcmc.warmup.emulator.trajectories import ApproximatePosterior, tune_trajectories

from ..helpers import make_model, toy_classes

CENTER, SCALE = np.array([0.7, -0.9]), np.array([0.4, 0.3])
CORRECTION = Quadratic(
    CENTER, SCALE, 0.2, np.array([0.1, -0.3]), np.array([[0.0, 0.1], [0.1, 0.2]])
)


@pytest.fixture(scope="module")
def model():
    return make_model(*toy_classes(20, 2, seed=4))


def target_of(model, approximation, correction=CORRECTION):
    thetas = CENTER + SCALE * np.random.default_rng(1).uniform(-1.5, 1.5, size=(12, 2))
    fits = [approximation.refined(1e-6).fit(model, theta).q for theta in thetas]
    sites = InterpolatedSites.fit(
        approximation,
        thetas,
        [q.sites for q in fits],
        CENTER,
        SCALE,
    )
    return ApproximatePosterior(model, approximation, sites, correction)


@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_value_and_gradient(model, approximation):
    target = target_of(model, approximation.refined(1e-9))
    for theta in CENTER + SCALE * np.array([[0.3, -0.2], [-1.0, 0.8], [2.0, 2.0]]):
        value, gradient = target.value_and_gradient(theta)
        evidence = approximation.refined(1e-9).fit(model, theta).log_evidence
        expected = evidence + model.hyperprior.log_prob(theta)
        assert value == pytest.approx(expected + CORRECTION.value_and_gradient(theta)[0], abs=1e-6)
        slopes = [
            float(target.value_and_gradient(theta + h)[0] - target.value_and_gradient(theta - h)[0])
            / 2e-4
            for h in 1e-4 * np.eye(2)
        ]
        assert_allclose(gradient, slopes, atol=1e-4)


def test_two_sweeps_from_interpolated_sites_are_nearly_enough(model):
    rough, precise = target_of(model, EP().roughened()), target_of(model, EP().refined(1e-9))
    for theta in CENTER + SCALE * np.random.default_rng(2).uniform(-1.2, 1.2, size=(6, 2)):
        (value, gradient), (right, slope) = (
            target.value_and_gradient(theta) for target in (rough, precise)
        )
        assert value == pytest.approx(right, abs=0.05)
        assert_allclose(gradient, slope, atol=0.1)


def test_it_is_a_function_of_theta(model):
    """Whatever was asked before: trajectories could not go back otherwise."""
    target, theta = target_of(model, EP().roughened()), CENTER + 0.1
    first = target.value_and_gradient(theta)
    target.value_and_gradient(theta + 0.7)
    again = target.value_and_gradient(theta)
    assert first[0] == again[0]
    assert_array_equal(first[1], again[1])


@pytest.mark.parametrize("theta", [[900.0, 0.0], [0.0, -900.0], [0.0, 900.0]])
def test_where_there_is_no_density(model, theta):
    with np.errstate(over="ignore"):
        value, gradient = target_of(model, EP()).value_and_gradient(np.array(theta))
    assert value == -np.inf
    assert_array_equal(gradient, 0.0)


def test_tuning_reaches_its_acceptance_and_is_a_function_of_its_seed(model):
    target, root = target_of(model, EP().roughened()), np.diag(SCALE)
    tuned, again = (
        tune_trajectories(target, CENTER, root, 40, (3, 6), 1.5, np.random.SeedSequence(5))
        for _ in range(2)
    )
    assert_array_equal(tuned.theta, again.theta)
    assert tuned.log_step == again.log_step
    assert tuned.theta.shape == (40, 2)
    assert_array_equal(tuned.end, tuned.theta[-1])
    leapfrog = Leapfrog(root, float(np.exp(tuned.log_step)), 6, 3)
    rng, point, accepted = np.random.default_rng(0), CheapPoint.at(target, tuned.end), []
    for _ in range(150):
        point, probability = leapfrog.move(target, point, rng)
        accepted.append(float(probability))
    assert 0.65 < np.mean(accepted) < 0.95
