"""What a chain may propose in the tails of a wide prior: numbers, and no warnings (errors here)."""

import numpy as np
from numpy.testing import assert_allclose

from skgpmcmc.approximations import EP, Exact
from skgpmcmc.likelihoods import Gaussian, NegativeBinomial, StudentT
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.run.leave_one_out import _sum_over_rows

from ...helpers import in_one_test, make_model, toy_classes

X, Y = toy_classes(8, 2, seed=3)


@in_one_test("likelihood", [Gaussian(), StudentT(), NegativeBinomial()])
@in_one_test("value", [-1e4, -400.0, 400.0, 1e4])
def test_extreme_likelihood_parameters_give_finite_numbers(likelihood, value):
    there = likelihood.with_parameters(np.array([value]))
    y, f = np.array([0.0, 3.0]), np.array([0.5, 3.0])
    parts = (
        there.log_prob(y, f),
        *there.derivatives(y, f),
        *there.parameter_derivatives(y, f),
        there.fisher_information(f),
        there.sample(f, np.random.default_rng(0)),
    )
    assert all(np.isfinite(part).all() for part in parts)


@in_one_test("log_length", [-400.0, 400.0])
def test_extreme_length_scales_give_the_limits_of_K(log_length):
    covariance = make_covariance(smooth_kernel(2), X)
    theta = np.array([0.0, log_length])
    expected = np.eye(8) if log_length < 0.0 else np.ones((8, 8))
    assert_allclose(covariance.matrix(theta), expected)
    assert_allclose(covariance.contract(theta, np.ones((8, 8)))[1], 0.0, atol=1e-12)


@in_one_test("log_constant", [-400.0, 45.0, 400.0])
def test_skewness_of_margins_is_finite_at_extreme_theta(log_constant):
    model = make_model(X, Y)
    q = EP(max_sweeps=3).fit(model, np.array([log_constant, -2.0])).q
    assert np.isfinite(q.skewness(model)).all()


def test_the_exact_posterior_under_a_huge_constant_is_finite():
    covariance, likelihood = make_covariance(smooth_kernel(2), X), Gaussian(0.3)
    model = LatentGP(
        covariance, Observations(likelihood, Y), default_hyperprior(covariance, likelihood, "paper")
    )
    fit = Exact().fit(model, np.array([400.0, -2.0, -1.0]))
    assert np.isfinite(fit.log_evidence)
    assert np.isfinite(Exact().gradient(model, fit)).all()


@in_one_test("scale", [1e-300, 1.0, 1e300])
def test_standard_errors_of_log_densities_of_any_size(scale):
    values = np.array([1.0, 2.0, 4.0])
    result = _sum_over_rows(scale * values, values, values, "psis")
    assert_allclose(result.se, scale * np.sqrt(3.0) * values.std())
