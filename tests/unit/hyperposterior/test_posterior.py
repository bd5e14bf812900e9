"""The approximate posterior of theta at a point, and the exact evidence with its gradient."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc.approximations import EP, Exact
from skgpmcmc.hyperposterior import HyperPosterior
from skgpmcmc.hyperposterior.posterior import keep_mean
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.model import LatentGP, Observations, default_hyperprior, make_covariance
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.numerics.quadratic import Quadratic

from ...helpers import finite_difference, in_one_test, make_model, relative_error, toy_classes

N = 14


def regression(likelihood=None, kernel=None, n=N, **data):
    """A model of two features, a few rows and Gaussian noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(n, 2))
    likelihood = likelihood or Gaussian(0.4)
    covariance = make_covariance(kernel or ConstantKernel(1.5) * RBF([1.0, 2.0]), X)
    n_rows = 20 if "first" in data else n
    y = np.sin(X[:, 0]).repeat(2)[:n_rows] + 0.3 * rng.standard_normal(n_rows)
    hyperprior = default_hyperprior(covariance, likelihood, None)
    return LatentGP(covariance, Observations(likelihood, y, **data), hyperprior)


#: Two rows at each of the first six inputs, one at each of the others.
FIRST = np.array([0, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19])
MODELS = {
    "plain": lambda: regression(),
    "matern, constant last": lambda: regression(
        kernel=Matern([1.0, 2.0], nu=1.5) * ConstantKernel(1.5)
    ),
    "isotropic": lambda: regression(kernel=ConstantKernel(1.5) * RBF(1.0)),
    "known noise": lambda: regression(Gaussian(0.4, fixed=True)),
    "hardly any noise": lambda: regression(Gaussian(1e-4)),
    "offset and weights": lambda: regression(
        offset=np.linspace(0.0, 1.0, N), weight=np.linspace(0.5, 2.0, N)
    ),
    "rows of their own variance": lambda: regression(
        Gaussian(0.4, alpha=0.1, row_variance=np.linspace(0.0, 0.5, N))
    ),
    "several rows of an input": lambda: regression(
        Gaussian(0.4, row_variance=np.linspace(0.1, 0.5, 20)), first=FIRST
    ),
}


@in_one_test("name", MODELS)
def test_exact_evidence_with_gradient_equals_fit_and_gradient(name):
    model = MODELS[name]()
    for shift in (0.0, 0.4, -0.6):
        theta = model.start + shift
        found, fit = Exact().fit_with_gradient(model, theta), Exact().fit(model, theta)
        assert found.log_evidence == pytest.approx(fit.log_evidence, rel=1e-9, abs=1e-9)
        assert_allclose(found.gradient, Exact().gradient(model, fit), rtol=1e-6, atol=1e-8)
        assert_allclose(found.q.mean, fit.q.mean, rtol=1e-6, atol=1e-9)
        slope = finite_difference(lambda t: Exact().fit(model, t).log_evidence, theta)
        assert relative_error(found.gradient, slope) < 1e-5


def test_exact_evidence_with_gradient_is_right_for_a_low_rank():
    model = regression(n=400)
    theta = np.log([1.5, 900.0, 900.0, 0.3])
    assert model.prior_at(theta).low_rank
    found = Exact().fit_with_gradient(model, theta)
    slope = finite_difference(lambda t: Exact().fit(model, t).log_evidence, theta)
    assert relative_error(found.gradient, slope) < 1e-5


def test_exact_evidence_refuses_other_noise_than_gaussian():
    with pytest.raises(TypeError, match="Exact needs a Gaussian likelihood"):
        Exact().fit_with_gradient(make_model(*toy_classes(6, 2, 0)), np.zeros(2))


def test_point_holds_the_density_of_theta_and_its_gradient():
    model = regression()
    theta = model.start + 0.2
    point = HyperPosterior(model, Exact()).at(theta)
    evidence = Exact().fit(model, theta).log_evidence
    assert point.log_evidence == pytest.approx(evidence, rel=1e-12)
    assert point.log_density == pytest.approx(evidence + model.hyperprior.log_prob(theta))
    slope = finite_difference(
        lambda t: Exact().fit(model, t).log_evidence + model.hyperprior.log_prob(t), theta
    )
    assert relative_error(point.gradient, slope) < 1e-5
    assert_allclose(point.gradient - point.evidence_gradient, model.hyperprior.gradient(theta))


def test_point_without_hyperprior_holds_the_evidence():
    model = regression()
    theta = model.start + 0.2
    point = HyperPosterior(model, Exact(), with_hyperprior=False).at(theta)
    assert point.log_density == point.log_evidence
    assert_array_equal(point.gradient, point.evidence_gradient)


def test_power_multiplies_the_log_density_and_its_gradient():
    """With the prior and the correction, but not the evidence by itself."""
    model = regression()
    theta = model.start + 0.2
    correction = Quadratic.fit(np.eye(4), np.arange(4.0), np.zeros(4), np.ones(4))
    plain = HyperPosterior(model, Exact(), correction=correction).at(theta)
    raised = HyperPosterior(model, Exact(), correction=correction, power=0.8).at(theta)
    assert raised.log_density == pytest.approx(0.8 * plain.log_density)
    assert_allclose(raised.gradient, 0.8 * plain.gradient)
    assert raised.log_evidence == plain.log_evidence


def test_point_keeps_what_the_posterior_is_told_to_keep():
    model = regression()
    theta = model.start + 0.2
    point = HyperPosterior(model, Exact(), keep=keep_mean).at(theta)
    assert_allclose(point.kept, Exact().fit(model, theta).q.mean, rtol=1e-9)


def test_posterior_returns_none_without_density():
    model = regression()
    bounded = model.hyperprior.distributions | {"noise_scale": stats.uniform(0.1, 0.5)}
    prior = default_hyperprior(model.covariance, model.likelihood, bounded)
    posterior = HyperPosterior(replace(model, hyperprior=prior), Exact())
    assert posterior.at(np.log([1.0, 1.0, 1.0, 0.3])) is not None
    assert posterior.at(np.log([1.0, 1.0, 1.0, 0.05])) is None
    assert posterior.at(np.full(4, np.nan)) is None


def test_fit_at_a_point_begins_at_the_given_sites():
    """At given sites nothing is left to do; without them the result is a function of theta."""
    model, theta = make_model(*toy_classes(12, 2, 1)), np.array([0.7, -0.4])
    posterior = HyperPosterior(model, EP(tol=1e-10))
    first = posterior.at(theta)
    again = posterior.at(theta, first.sites)
    assert again.log_density == pytest.approx(first.log_density, abs=1e-9)
    rough = HyperPosterior(model, EP(max_sweeps=1))
    assert rough.at(theta).log_density != rough.at(theta, first.sites).log_density
    assert rough.at(theta).log_density == rough.at(theta).log_density


def test_the_evidence_has_a_gradient_where_predictions_have_a_factor():
    """At the limit of rounding both fail at the same theta: chains do not go where q is not."""
    rng, model, outcomes = np.random.default_rng(5), regression(), set()

    def fails(function, theta):
        try:
            function(model, theta)
        except NotPositiveDefiniteError:
            return True
        return False

    for _ in range(300):
        theta = np.array([rng.uniform(15.0, 30.0), *rng.uniform(1.0, 4.0, 2), -8.0])
        by_gradient = fails(lambda *at: Exact().fit_with_gradient(*at), theta)
        by_fit = fails(lambda *at: Exact().fit(*at).q.factorize(), theta)
        assert by_gradient == by_fit
        outcomes.add(by_fit)
    assert outcomes == {True, False}
