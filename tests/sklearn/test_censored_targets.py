"""Regression of targets that are only known to lie in an interval: what users see."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.likelihoods import CensoredGaussian

from ..helpers import in_one_test, short_chains

FIXED = ConstantKernel(1.0, "fixed") * RBF(0.8, "fixed")
QUICK = {"n_chains": 2, "n_warmup": 30, "n_draws": 300, "target_ess": None, "random_state": 0}
N = 14
X = np.linspace(0.0, 4.0, N)[:, None]
Y = np.round(20.0 + 4.0 * np.sin(2.0 * X[:, 0]) + np.random.default_rng(0).standard_normal(N), 2)
LIMIT = 19.0
BELOW = Y < LIMIT
SEEN = np.maximum(Y, LIMIT)
TO = np.where(BELOW, -np.inf, np.nan)


def regressor(**settings):
    return BayesianGPRegressor(**{**QUICK, **settings})


@pytest.fixture(scope="module")
def fitted():
    """Noise of variance one, and given hyper-parameters: only f is sampled."""
    with short_chains():
        return regressor(noise="known", alpha=1.0, kernel=FIXED).fit(X, SEEN, censored_to=TO)


def exact_posterior(est):
    """Mean of f and log of p(y) by many draws from the posterior given the exact targets."""
    shift, scale = est._units
    K = scale**2 * FIXED(X)
    exact = ~BELOW
    noisy = K[np.ix_(exact, exact)] + np.eye(exact.sum())
    solved = np.linalg.solve(noisy, K[exact])
    mean = shift + solved.T @ (SEEN[exact] - shift)
    covariance = K - K[:, exact] @ solved + 1e-9 * np.eye(N)
    rng = np.random.default_rng(1)
    f = multivariate_normal(mean, covariance).rvs(200_000, random_state=rng)
    log_weight = log_ndtr(LIMIT - f[:, BELOW]).sum(axis=1)
    weight = np.exp(log_weight)
    log_p = multivariate_normal(np.full(exact.sum(), shift), noisy).logpdf(SEEN[exact])
    return weight @ f / weight.sum(), log_p + np.log(weight.mean())


def test_posterior_and_evidence_are_those_by_weighted_draws(fitted):
    mean, log_p = exact_posterior(fitted)
    assert_allclose(fitted.latent_mean_and_variance(X)[0], mean, atol=0.1)
    value, error = fitted.log_evidence("is", theta=[])
    assert abs(value - log_p) < 5.0 * error + 0.02


def test_latent_values_are_pulled_below_the_limit(fitted):
    """Taken for exact, the same targets would hold the function near the limit."""
    naive = regressor(noise="known", alpha=1.0, kernel=FIXED).fit(X, SEEN)
    lowest = np.argmin(Y)
    assert fitted.predict(X)[lowest] < naive.predict(X)[lowest] - 0.5


@short_chains()
def test_units_of_y_change_densities_of_exact_rows_alone(fitted):
    unit = 100.0
    other = regressor(noise="known", alpha=unit**2, kernel=FIXED)
    other.fit(X, unit * SEEN, censored_to=unit * TO)
    n_exact = N - BELOW.sum()
    gap = fitted.log_evidence().value - other.log_evidence().value
    assert gap == pytest.approx(n_exact * np.log(unit), abs=0.05)
    assert_allclose(
        fitted.loo().elpd_i - other.loo().elpd_i, np.where(BELOW, 0.0, np.log(unit)), atol=0.02
    )
    densities = (
        fitted.log_predictive_density(X, SEEN, censored_to=TO),
        other.log_predictive_density(X, unit * SEEN, censored_to=unit * TO),
    )
    assert_allclose(densities[0] - densities[1], np.where(BELOW, 0.0, np.log(unit)), atol=0.02)


def test_density_of_a_censored_row_is_the_probability_of_its_interval(fitted):
    """That of new targets below the limit, between two numbers, and above, which add up to one."""
    at = X[:3]
    low, high = np.full(3, 18.0), np.full(3, 21.0)
    ends = ((low, -np.inf), (low, high), (high, low), (high, np.inf))
    below, between, turned, above = (
        np.exp(fitted.log_predictive_density(at, y, censored_to=np.broadcast_to(to, 3)))
        for y, to in ends
    )
    assert_allclose(below + between + above, 1.0, atol=1e-9)
    assert_allclose(between, turned)
    draws = fitted.sample_y(at, 20_000)
    assert_allclose(below, np.mean(draws < 18.0, axis=1), atol=0.02)
    exact = fitted.log_predictive_density(at, low, censored_to=[np.nan, 18.0, np.nan])
    assert_allclose(exact, fitted.log_predictive_density(at, low))


def test_arviz_has_probabilities_of_censored_rows(fitted):
    pytest.importorskip("arviz_base")
    log_lik = fitted.to_arviz()["log_likelihood"]["y"].to_numpy()
    f = fitted.latent_samples_
    assert_allclose(log_lik[..., BELOW], log_ndtr(LIMIT - f[..., BELOW]), atol=1e-8)


@short_chains()
def test_targets_that_are_all_exact_are_those_of_a_plain_regression():
    plain = regressor(kernel=FIXED).fit(X, Y)
    for to in (np.full(N, np.nan), Y):
        other = regressor(kernel=FIXED).fit(X, Y, censored_to=to)
        assert_array_equal(other.theta_samples_, plain.theta_samples_)


@short_chains()
def test_narrow_intervals_are_like_exact_targets():
    """The probability of narrow intervals is the density of the targets, times their widths."""
    settings = {"noise": "known", "alpha": 1.0, "kernel": FIXED, "n_draws": 20}
    exact = regressor(**settings).fit(X, Y)
    narrow = regressor(**settings).fit(X, Y - 0.05, censored_to=Y + 0.05)
    density, probability = (own.log_evidence("ep", theta=[]).value for own in (exact, narrow))
    assert probability == pytest.approx(density + N * np.log(0.1), abs=0.02)
    q_exact, q_narrow = (own.latent_samples_.mean(axis=(0, 1)) for own in (exact, narrow))
    assert_allclose(q_narrow, q_exact, atol=1.5)


@short_chains()
def test_likelihood_object_has_its_intervals_in_units_of_y(fitted):
    known = CensoredGaussian(0.0, fixed=True, alpha=1.0, low=-np.inf, high=LIMIT)
    # With a limit for all rows, targets at or below it are censored.
    own = regressor(kernel=FIXED, likelihood=known).fit(X, SEEN)
    assert_array_equal(own.latent_samples_, fitted.latent_samples_)


def test_score_is_that_of_exact_rows(fitted):
    exact = fitted.score(X[~BELOW], Y[~BELOW])
    assert fitted.score(X, SEEN, censored_to=TO) == pytest.approx(exact)
    with pytest.raises(ValueError, match="R2 needs targets that are not censored"):
        fitted.score(X, SEEN, censored_to=np.full(N, np.inf))


def test_fitted_model_survives_a_pickle(fitted):
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))


@in_one_test(
    ("settings", "to", "message"),
    [
        ({}, np.zeros(3), r"one number per row of X, shape \(14,\); got shape \(3,\)"),
        ({}, ["below"] * N, "censored_to must consist of real numbers; got 'below' in row 0"),
        ({"likelihood": "student_t"}, TO, "likelihood='student_t' and noise='inferred' leave"),
        ({"noise": "none"}, TO, "noise='none' leave it out"),
        ({"sampler": "collapsed"}, TO, "the likelihood is 'censored_gaussian': use sampler=\"pm\""),
    ],
)
def test_impossible_arguments_are_refused(settings, to, message):
    with pytest.raises(ValueError, match=message):
        regressor(**settings).fit(X, SEEN, censored_to=to)


def test_density_of_censored_rows_needs_gaussian_noise():
    with short_chains():
        robust = regressor(kernel=FIXED, likelihood="student_t", sampler="sa", n_draws=5).fit(X, Y)
    with pytest.raises(ValueError, match="censored_to is for targets with Gaussian noise"):
        robust.log_predictive_density(X, SEEN, censored_to=TO)
