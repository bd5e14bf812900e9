"""Priors of what the user leaves out: ours, and those of the papers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial.distance import pdist, squareform
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPPoissonRegressor, BayesianGPRegressor
from skgpmcmc.likelihoods import Gaussian, OrdinalProbit, Softmax
from skgpmcmc.model import (
    default_hyperprior,
    default_kernel,
    default_prior,
    length_bounds,
    make_covariance,
    paper_prior,
)
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test, short_chains

X = np.random.default_rng(0).standard_normal((40, 3))
QUICK = {
    **{"n_chains": 2, "n_warmup": 2, "n_draws": 4, "n_importance": 2, "random_state": 0},
    **{"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"},
}


def log_moments(law):
    """Mean and standard deviation of the log of a log-normal law."""
    assert law.dist.name == "lognorm"
    return np.log(law.median()), np.log(law.ppf(stats.norm.cdf(1.0)) / law.median())


# --- the papers' ----------------------------------------------------------------------------------


@in_one_test("name", ["constant_value", "k1__k2__constant_value", "noise_level",
                                  "k2__sigma_0"])  # fmt: skip
def test_paper_prior_of_a_scale(name):
    prior = paper_prior(name, X)
    assert prior.mean() == pytest.approx(11.0)
    assert prior.var() == pytest.approx(110.0)


@in_one_test("name", ["length_scale", "k1__k2__length_scale", "periodicity"])
def test_paper_prior_of_a_length(name):
    prior = paper_prior(name, X)
    assert prior.mean() == pytest.approx(np.sqrt(3.0))  # exponential: rate 1 / sqrt(d)
    assert prior.var() == pytest.approx(3.0)


@in_one_test("rule", [paper_prior, default_prior])
def test_prior_of_anything_else(rule):
    assert_allclose(log_moments(rule("k2__alpha", X)), (0.0, 1.0), atol=1e-12)


@in_one_test("rule", [paper_prior, default_prior])
def test_prior_of_a_hyperparameter_that_may_be_negative(rule):
    prior = rule("threshold", X, positive=False)
    assert (prior.mean(), prior.std()) == (0.0, 3.0)


# --- ours -----------------------------------------------------------------------------------------


def test_scales_are_one_law_on_the_scale_of_a_standard_deviation():
    mean, sd = log_moments(default_prior("k1__constant_value", X))  # of a variance
    assert_allclose(log_moments(default_prior("k2__sigma_0", X)), (0.5 * mean, 0.5 * sd))
    mean, sd = log_moments(default_prior("noise_scale", X))
    assert_allclose(log_moments(default_prior("noise_level", X)), (2.0 * mean, 2.0 * sd))


@in_one_test("name", ["length_scale", "k2__length_scale", "periodicity"])
def test_a_length_lies_between_the_bounds(name):
    low, high = length_bounds(X)
    prior = default_prior(name, X)
    assert prior.cdf(low) == pytest.approx(0.01)
    assert prior.sf(high) == pytest.approx(0.01)


def test_length_bounds_are_distances():
    D = np.sort(squareform(pdist(X)), axis=1)
    low, high = length_bounds(X)
    assert low == pytest.approx(0.5 * np.median(D[:, 5]))  # column 0 is the row itself
    assert high == pytest.approx(6.0 * np.linalg.norm(X - X.mean(axis=0), axis=1).max())


def test_with_ard_one_feature_may_be_all_that_matters():
    low, high = length_bounds(X)
    assert length_bounds(X, per_feature=True) == pytest.approx((low / np.sqrt(3.0), high))
    covariance = make_covariance(default_kernel(3, ard=True), X)
    prior = default_hyperprior(covariance, Gaussian()).distributions["k2__length_scale"]
    assert prior.cdf(low / np.sqrt(3.0)) == pytest.approx(0.01)
    assert prior.sf(high) == pytest.approx(0.01)


@in_one_test("scale", [1e-6, 1e3, 1e9])
def test_length_bounds_follow_the_scale_of_the_inputs(scale):
    assert_allclose(length_bounds(scale * X + 5.0), scale * np.array(length_bounds(X)), rtol=1e-6)


@in_one_test("scale", [1e-300, 1e-160, 1e-30, 1e30, 1e100, 1e153])
def test_inputs_of_any_size_have_length_bounds(scale):
    low, high = length_bounds(scale * X)
    assert 1e-15 <= low < high <= 2e15
    assert np.isfinite(default_prior("length_scale", scale * X).logpdf(low))


def test_equal_rows_count_once():
    assert_allclose(length_bounds(np.vstack([X, X[:7], X])), length_bounds(X))


def test_more_rows_tell_shorter_length_scales():
    rng = np.random.default_rng(1)
    few, many = (length_bounds(rng.standard_normal((n, 1))) for n in (20, 500))
    assert many[0] < 0.2 * few[0]


@in_one_test("rows", [np.zeros((1, 2)), np.ones((5, 2)), [[0.0], [1.0]], [[0.0]] * 3])
def test_few_rows_have_length_bounds(rows):
    low, high = length_bounds(np.array(rows, dtype=float))
    assert 0.0 < low < high < np.inf


# --- who gets which -------------------------------------------------------------------------------


def laws(prior):
    return {name: (law.dist.name, law.args, law.kwds) for name, law in prior.distributions.items()}


def test_names_left_out_get_the_default():
    covariance = make_covariance(default_kernel(3), X)
    given = stats.halfnorm(scale=2.0)
    prior = default_hyperprior(covariance, Gaussian(), {"noise_scale": given})
    assert prior.distributions["noise_scale"] is given
    for name in covariance.names:
        assert log_moments(prior.distributions[name]) == log_moments(default_prior(name, X))


def test_the_variance_of_a_softmax_is_that_of_the_papers():
    covariance = make_covariance(default_kernel(3), X)
    prior = default_hyperprior(covariance, Softmax(3), n_kernels=3)
    assert prior.distributions["k1__constant_value"].mean() == pytest.approx(11.0)
    assert prior.distributions["k2__length_scale"].dist.name == "lognorm"


def test_of_the_papers():
    covariance = make_covariance(default_kernel(3), X)
    likelihood = OrdinalProbit([-1.0, 1.0])
    prior = default_hyperprior(covariance, likelihood, "paper")
    for name, law in prior.distributions.items():
        expected = paper_prior(name, X, positive=name != "threshold")
        assert (law.dist.name, law.mean()) == (expected.dist.name, expected.mean())
    assert set(prior.distributions) == {*covariance.names, "threshold", "threshold_gap"}


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (BayesianGPClassifier, X[:, 0] > 0.0),
        (BayesianGPRegressor, X[:, 0]),
        (BayesianGPPoissonRegressor, np.round(np.exp(X[:, 0]))),
    ],
)
@short_chains()
def test_estimators_say_which_they_used(estimator, y):
    def fitted(priors):
        return estimator(priors=priors, **QUICK).fit(X[:16], y[:16])

    ours, papers = fitted(None), fitted("paper")
    assert ours.priors_["k2__length_scale"].dist.name == "lognorm"
    assert papers.priors_["k2__length_scale"].mean() == pytest.approx(np.sqrt(3.0))
    assert papers.priors_["k1__constant_value"].dist.name == "gamma"
    assert not np.array_equal(ours.theta_samples_, papers.theta_samples_)


@in_one_test("wrong", ["papers", 3.0, ["k1__constant_value"]])
def test_other_words_are_refused(wrong):
    with pytest.raises(ValueError, match=r'priors must be a mapping .* "paper" or None'):
        BayesianGPClassifier(priors=wrong).fit(X, X[:, 0] > 0.0)


@short_chains()
def test_sums_of_kernels_have_priors_by_name():
    kernel = ConstantKernel() * RBF() + DotProduct() + WhiteKernel(1e-2)
    model = BayesianGPClassifier(kernel=kernel, **QUICK).fit(X, X[:, 0] > 0.0)
    for name, law in model.priors_.items():
        assert log_moments(law) == log_moments(default_prior(name, X))
