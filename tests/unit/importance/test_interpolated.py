"""Sites as a smooth function of theta."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP, Laplace, Sites
from skgpmcmc.importance.interpolated import InterpolatedSites
from skgpmcmc.importance.sequential import SequentialApproximation
from skgpmcmc.likelihoods import Softmax
from skgpmcmc.model import (
    ClasswiseGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.numerics.quadratic import Quadratic

from ...helpers import in_one_test, make_model, relative_error, toy_classes

CENTER, SCALE = np.array([1.0, -0.8]), np.array([0.6, 0.4])
APPROXIMATIONS = {"ep": EP(), "laplace": Laplace()}
both_approximations = pytest.mark.parametrize(
    "approximation", APPROXIMATIONS.values(), ids=APPROXIMATIONS.keys()
)


@pytest.fixture(scope="module")
def model():
    return make_model(*toy_classes(25, 2, seed=2))


def design(size=25, seed=0):
    return CENTER + 1.5 * SCALE * np.random.default_rng(seed).standard_normal((size, 2))


def interpolated(model, approximation, size=25, sequential_rows=None):
    theta, precise = design(size), approximation.with_tolerance(1e-8)
    sites = [precise.fit(model, t).q.sites for t in theta]
    reference = InterpolatedSites.fit(approximation, theta, sites, CENTER, SCALE, sequential_rows)
    return reference, sites


@both_approximations
def test_interpolation_reproduces_the_sites_of_design_points(model, approximation):
    reference, sites = interpolated(model, approximation)
    for theta, expected in zip(design(), sites, strict=True):
        found = reference.sites_at(theta)
        assert relative_error(found.precision, expected.precision) < 1e-3
        assert relative_error(found.shift, expected.shift) < 1e-3


@in_one_test("sequential_rows", [None, np.array([7, 3, 11])])
def test_arrays_of_the_density_are_found_without_its_prior(model, sequential_rows, monkeypatch):
    reference, _ = interpolated(model, EP(), 8, sequential_rows)
    theta = CENTER + 0.3 * SCALE
    expected = reference.at(model, theta).arrays
    with monkeypatch.context() as patched:
        patched.setattr(type(model), "prior_at", lambda *_: pytest.fail("the prior was made"))
        found = reference.arrays_at(model, theta)
    assert len(found) == len(expected) == (2 if sequential_rows is None else 3)
    for one, other in zip(found, expected, strict=True):
        assert_array_equal(one, other)


@in_one_test("factor", [1e-9, 1e9])
def test_interpolation_of_sites_does_not_depend_on_scales_of_theta(model, factor):
    """No warning of an ill-conditioned trend, where a posterior is narrower than was thought."""
    sites = [EP().fit(model, theta).q.sites for theta in design()]
    scale = SCALE * np.array([1.0, factor])
    found = InterpolatedSites.fit(EP(), design(), sites, CENTER, scale)
    assert np.isfinite(found.sites_at(CENTER).precision).all()


def test_quadratic_fit_uses_values_without_noise_exactly():
    theta = design()
    values = 3.0 + ((theta - CENTER) / SCALE) @ [0.5, -0.2]
    noise = np.where(np.arange(len(theta)) < 3, 1e-12, 1.0)
    found = Quadratic.fit(theta, values, CENTER, SCALE, noise=noise)
    assert_allclose(found.value(theta[:3]), values[:3], atol=1e-4)


@both_approximations
def test_between_design_points_q_is_near_that_of_a_fit(model, approximation):
    reference, _ = interpolated(model, approximation)
    for theta in CENTER + 0.7 * SCALE * np.random.default_rng(1).standard_normal((5, 2)):
        q, fit = reference.at(model, theta), approximation.with_tolerance(1e-8).fit(model, theta).q
        sd = np.sqrt(fit.marginal_variance)
        assert np.abs((q.mean - fit.mean) / sd).max() < 0.05
        assert_allclose(q.marginal_variance, fit.marginal_variance, rtol=0.1)


@both_approximations
def test_interpolated_q_is_that_of_its_sites(model, approximation):
    reference, _ = interpolated(model, approximation)
    theta = np.array([1.3, -0.6])
    q, sites = reference.at(model, theta), reference.sites_at(theta)
    assert_allclose(q.precision, sites.precision, rtol=1e-12)
    assert_allclose(q.sites.shift, sites.shift, atol=1e-9)
    assert_array_equal(q.prior.theta, theta)
    covariance = np.linalg.inv(np.linalg.inv(q.prior.K) + np.diag(sites.precision))
    assert_allclose(q.mean, covariance @ sites.shift, atol=1e-5)


@both_approximations
@in_one_test("sequential_rows", [None, np.array([3, 1])])
def test_interpolated_density_depends_on_theta_alone(model, approximation, sequential_rows):
    reference, _ = interpolated(model, approximation, sequential_rows=sequential_rows)
    theta = np.array([1.3, -0.6])
    first = reference.at(model, theta)
    reference.at(model, theta + 0.5)
    for again in (
        reference.at(model, theta),
        pickle.loads(pickle.dumps(reference)).at(model, theta),
    ):
        assert_array_equal(again.q.weights, first.q.weights)
        for array, other in zip(again.arrays, first.arrays, strict=True):
            assert_array_equal(array, other)


def test_sites_outside_the_design_are_those_of_its_edge(model):
    reference, _ = interpolated(model, EP())
    low, high = design().min(axis=0), design().max(axis=0)
    for theta in (np.array([9.0, -0.8]), np.array([1.0, -40.0]), np.array([-50.0, 50.0])):
        outside, edge = reference.sites_at(theta), reference.sites_at(np.clip(theta, low, high))
        assert_array_equal(outside.precision, edge.precision)
        assert_array_equal(outside.shift, edge.shift)


@in_one_test("size", [1, 2, 3])
def test_interpolation_works_from_one_design_point_on(model, size):
    reference, sites = interpolated(model, EP(), size=size)
    for theta, expected in zip(design(size), sites, strict=True):
        found = reference.sites_at(theta)
        assert_allclose(found.precision, expected.precision, rtol=1e-2)
        assert relative_error(found.shift, expected.shift) < 1e-2
    q = reference.at(model, CENTER)
    assert np.isfinite(q.weights).all()


def test_sites_without_precision_stay_without_effect(model):
    """Sites of no precision, as of points that were not observed, stay without consequence."""
    _, sites = interpolated(model, EP())
    blank = np.arange(25) < 5
    blanked = [
        Sites(np.where(blank, 0.0, s.shift), np.where(blank, 0.0, s.precision)) for s in sites
    ]
    reference = InterpolatedSites.fit(EP(), design(), blanked, CENTER, SCALE)
    found = reference.sites_at(np.array([1.3, -0.6]))
    assert np.all(found.precision[:5] < 1e-10)
    assert np.all(np.abs(found.shift[:5]) < 1e-10)
    assert np.isfinite(reference.at(model, CENTER).weights).all()


def test_interpolation_keeps_the_shifts_of_a_softmax():
    """A softmax model has a shift for each row and class, of either sign."""
    X, _ = toy_classes(12, 2, seed=2)
    covariance = make_covariance(smooth_kernel(2), X)
    likelihood = Softmax(3)
    hyperprior = default_hyperprior(covariance, likelihood, "paper")
    model = ClasswiseGP(covariance, Observations(likelihood, np.arange(12) % 3.0), hyperprior)
    theta = design(8)
    fits = [Laplace(tol=1e-8).fit(model, t).q for t in theta]
    sites = [q.sites for q in fits]
    reference = InterpolatedSites.fit(Laplace(), theta, sites, CENTER, SCALE)
    for t, q in zip(theta, fits, strict=True):
        assert relative_error(reference.sites_at(t).shift, q.sites.shift) < 1e-3
        assert relative_error(reference.at(model, t).mean, q.mean) < 1e-2


@both_approximations
def test_interpolated_density_has_the_same_sequential_rows_for_all_theta(model, approximation):
    sequential_rows = np.array([7, 2, 11])
    reference, _ = interpolated(model, approximation, sequential_rows=sequential_rows)
    for theta in design()[:2]:
        density = reference.at(model, theta)
        assert isinstance(density, SequentialApproximation)
        assert_array_equal(density.rows, sequential_rows)
        assert_array_equal(density.q.sites, reference.sites_at(theta))
    assert len(interpolated(model, approximation)[0].sequential_rows) == 0
