"""Trajectories on the approximate posterior."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.hyperposterior import HyperPosterior
from skgpmcmc.importance.interpolated import InterpolatedSites
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.setup.hamiltonian import run_window
from skgpmcmc.transitions import Trajectory

from ...helpers import make_model, toy_classes

CENTER, SCALE = np.array([0.7, -0.9]), np.array([0.4, 0.3])
CORRECTION = Quadratic(
    CENTER, SCALE, 0.2, np.array([0.1, -0.3]), np.array([[0.0, 0.1], [0.1, 0.2]])
)


@pytest.fixture(scope="module")
def model():
    return make_model(*toy_classes(20, 2, seed=4))


def target_of(model, approximation, correction=CORRECTION):
    thetas = CENTER + SCALE * np.random.default_rng(1).uniform(-1.5, 1.5, size=(12, 2))
    fits = [approximation.with_tolerance(1e-6).fit(model, theta).q for theta in thetas]
    sites = InterpolatedSites.fit(approximation, thetas, [q.sites for q in fits], CENTER, SCALE)
    return HyperPosterior(model, approximation, sites, correction)


@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_approximate_posterior_has_the_right_density_and_gradient(model, approximation):
    target = target_of(model, approximation.with_tolerance(1e-9))
    for theta in CENTER + SCALE * np.array([[0.3, -0.2], [-1.0, 0.8], [2.0, 2.0]]):
        point = target.at(theta)
        evidence = approximation.with_tolerance(1e-9).fit(model, theta).log_evidence
        expected = evidence + model.hyperprior.log_prob(theta)
        assert point.log_evidence == pytest.approx(evidence, abs=1e-6)
        expected += CORRECTION.value_and_gradient(theta)[0]
        assert point.log_density == pytest.approx(expected, abs=1e-6)
        slopes = [
            (target.at(theta + h).log_density - target.at(theta - h).log_density) / 2e-4
            for h in 1e-4 * np.eye(2)
        ]
        assert_allclose(point.gradient, slopes, atol=1e-4)


def test_two_sweeps_from_interpolated_sites_are_accurate(model):
    rough = target_of(model, EP().with_few_sweeps())
    precise = target_of(model, EP().with_tolerance(1e-9))
    for theta in CENTER + SCALE * np.random.default_rng(2).uniform(-1.2, 1.2, size=(6, 2)):
        found, right = (target.at(theta) for target in (rough, precise))
        assert found.log_density == pytest.approx(right.log_density, abs=0.05)
        assert_allclose(found.gradient, right.gradient, atol=0.1)


@pytest.mark.parametrize("theta", [[900.0, 0.0], [0.0, -900.0], [0.0, 900.0]])
def test_approximate_posterior_is_none_where_theta_overflows(model, theta):
    with np.errstate(over="ignore"):
        assert target_of(model, EP()).at(np.array(theta)) is None


def test_tuning_reaches_its_acceptance_and_is_reproducible(model):
    target, root = target_of(model, EP().with_few_sweeps()), np.diag(SCALE)
    tuned, again = (
        run_window(target, CENTER, root, 1.0, 0.9, 40, np.random.SeedSequence(5)) for _ in range(2)
    )
    assert_array_equal(tuned.states[-1].position, again.states[-1].position)
    assert tuned.log_step == again.log_step
    assert len(tuned.states) == 40
    positions = [point.position for point in tuned.visited]
    assert all(any(s.position is p for p in positions) for s in tuned.states)
    trajectory = Trajectory.quarter(root, tuned.log_step)
    rng, point, accepted = np.random.default_rng(0), tuned.states[-1], []
    for _ in range(150):
        outcome = trajectory.move(target, point, rng)
        point = outcome.point
        accepted.append(outcome.acceptance_probability)
    assert 0.8 < np.mean(accepted) < 0.97
