"""Spread, quantiles and draws of new targets, alike on every estimator, against brute force.

The chains of these fits are short and their draws keep an f of their own, so that what is averaged
over is known: every draw of (theta, f), each with the Gaussian of f at a new row.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import cumulative_trapezoid

from skgpmcmc import BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.likelihoods import Gaussian, StudentT

from ..helpers import Z_LIMIT, in_one_test, short_chains, z_score
from .conftest import CASES, EXPOSURE_NEW, SETTINGS, X_NEW, X

PROBABILITIES = [0.02, 0.4, 0.5, 0.97]
COUNTS = ["poisson", "negative_binomial", "zero_inflated"]
NUMBERS = ["regressor", "student_t", *COUNTS, "volatility"]
ORDERED = ["ordinal", "ordinal_names"]
LABELS = [*ORDERED, "classifier"]


@pytest.fixture(scope="session")
def fitted(models):
    return lambda name: models(name, "asis").model


def asked(name):
    """What a prediction of new rows is told besides."""
    return {"exposure": EXPOSURE_NEW} if name in COUNTS else {}


class ZeroInflated:
    """Poisson counts of given rates, which are zero with probability pi whatever the rate."""

    def __init__(self, pi, rate):
        self.pi, self.part = pi, stats.poisson(rate)

    def mean(self):
        return (1.0 - self.pi) * self.part.mean()

    def var(self):
        square = (1.0 - self.pi) * (self.part.var() + self.part.mean() ** 2)
        return square - self.mean() ** 2

    def cdf(self, y):
        return (y >= 0.0) * (self.pi + (1.0 - self.pi) * self.part.cdf(y))


def targets_given(est, name, theta, f):
    """Law of a target given theta and f, in units of y."""
    shift, scale = est._units
    if name == "regressor":
        return stats.norm(shift + scale * f, scale * np.exp(theta[-1]))
    if name == "student_t":
        return stats.t(4.0, shift + scale * f, scale * np.exp(theta[-1]))
    if name == "volatility":
        return stats.norm(0.0, np.exp(shift + f))
    rate = np.exp(shift + f + np.log(EXPOSURE_NEW)[:, None])
    if name == "poisson":
        return stats.poisson(rate)
    k = np.exp(theta[-1])
    if name == "zero_inflated":
        return ZeroInflated(k / (1.0 + k), rate)
    return stats.nbinom(k, k / (k + rate))


class Mixture:
    """Laws of the new targets given each draw and each of many values of f, (draws, m, nodes)."""

    def __init__(self, est, name):
        model = est._predictor.model
        node = np.linspace(-9.0, 9.0, 601)
        self.weight = stats.norm.pdf(node) / stats.norm.pdf(node).sum()
        thetas = np.concatenate(est.theta_samples_)
        self.laws, self.moments = [], []
        for theta, f in zip(thetas, np.concatenate(est._draws.f), strict=True):
            conditional = model.prior_at(theta).condition_on(f[:, None])
            mean, var = conditional.predict(X_NEW)
            at = mean + np.sqrt(var)[:, None] * node
            self.laws.append(targets_given(est, name, theta, at))
            self.moments.append(conditional.predict_jointly(X_NEW))

    def average(self, function):
        return np.mean([function(law) @ self.weight for law in self.laws], axis=0)

    def cdf(self, y):
        return self.average(lambda law: law.cdf(y[:, None]))


@pytest.fixture(scope="module")
def mixtures(fitted):
    return {name: Mixture(fitted(name), name) for name in NUMBERS}


@pytest.mark.parametrize("name", NUMBERS)
def test_predicted_std_is_that_of_the_predictive_mixture(fitted, mixtures, name):
    point, std = fitted(name).predict(X_NEW, return_std=True, **asked(name))
    mean = mixtures[name].average(lambda law: law.mean())
    square = mixtures[name].average(lambda law: law.var() + law.mean() ** 2)
    near = slice(3)  # far away exp(2 f) is mostly where the nodes end
    assert_allclose(std[near], np.sqrt(square - mean**2)[near], rtol=1e-6)
    if name == "volatility":
        mean = mixtures[name].average(lambda law: law.std())
    assert_allclose(point[near], mean[near], rtol=1e-6)
    assert_array_equal(point, fitted(name).predict(X_NEW, **asked(name)))


@pytest.mark.parametrize("name", NUMBERS)
def test_predicted_quantiles_are_those_of_the_predictive_mixture(fitted, mixtures, name):
    _, found = fitted(name).predict(X_NEW, return_quantiles=PROBABILITIES, **asked(name))
    assert found.shape == (len(PROBABILITIES), len(X_NEW))
    for probability, values in zip(PROBABILITIES, found, strict=True):
        if name not in COUNTS:
            assert_allclose(mixtures[name].cdf(values), probability, atol=1e-6)
            continue
        assert_array_equal(values, np.floor(values))
        assert np.all(mixtures[name].cdf(values) >= probability)
        assert np.all(mixtures[name].cdf(values - 1.0) < probability)


def function_given(law, name):
    """What the latent function says of targets: their mean, or their scale, or their rate."""
    if name == "zero_inflated":
        return law.part.mean()
    return law.std() if name == "volatility" else law.mean()


@pytest.mark.parametrize("name", NUMBERS)
def test_exceedance_is_that_of_the_function_in_the_predictive_mixture(fitted, mixtures, name):
    threshold = float(fitted(name).predict(X_NEW, **asked(name))[0])
    expected = mixtures[name].average(lambda law: function_given(law, name) > threshold)
    found = fitted(name).exceedance_proba(X_NEW, threshold, **asked(name))
    assert_allclose(found, expected, atol=0.01)  # the width of a node
    assert 0.1 < found[0] < 0.9


@in_one_test("name, threshold", [("regressor", np.inf), ("poisson", 0.0), ("volatility", -1.0)])
def test_thresholds_that_no_function_has_are_refused(name, threshold, fitted):
    with pytest.raises(ValueError, match=rf"threshold must be a number in \(.*got {threshold}"):
        fitted(name).exceedance_proba(X_NEW, threshold)


@pytest.mark.parametrize("name", COUNTS)
def test_rate_is_that_of_the_predictive_mixture(fitted, mixtures, name):
    probabilities = [0.1, 0.6]
    found = fitted(name).predict_rate(
        X_NEW, return_std=True, return_quantiles=probabilities, **asked(name)
    )
    mean, std, quantiles = found
    near = slice(3)  # as above
    square = mixtures[name].average(lambda law: function_given(law, name) ** 2)
    if name == "zero_inflated":
        expected = mixtures[name].average(lambda law: function_given(law, name))
        assert_allclose(mean[near], expected[near], rtol=1e-6)
    else:
        assert_allclose(mean, fitted(name).predict(X_NEW, **asked(name)), rtol=1e-12)
    assert_allclose(std[near], np.sqrt(square - mean**2)[near], rtol=1e-5)
    for probability, values in zip(probabilities, quantiles, strict=True):
        below = mixtures[name].average(
            lambda law, values=values: function_given(law, name) < values[:, None]
        )
        assert_allclose(below, probability, atol=0.01)
    per_unit = fitted(name).predict_rate(X_NEW)
    assert_allclose(per_unit * EXPOSURE_NEW, mean, rtol=1e-12)


@pytest.mark.parametrize("name", ["student_t", "poisson"])
def test_quantiles_by_few_terms_agree_with_the_predicted_density(models, name):
    """The density uses all terms, of which each theta has fifty or more; quantiles use a few."""
    est = models(name).model
    row = X_NEW[[2]]
    mean, std, found = est.predict(row, return_std=True, return_quantiles=PROBABILITIES)
    if name == "poisson":
        y = np.arange(30.0)
        cdf = np.cumsum(est.predict_count_proba(row, y)[0])
        expected = y[np.searchsorted(cdf, PROBABILITIES)]
    else:
        y = mean + std * np.linspace(-8.0, 8.0, 121)
        density = np.exp(est.log_predictive_density(np.repeat(row, len(y), axis=0), y))
        cdf = cumulative_trapezoid(density, y, initial=0.0)
        expected = np.interp(PROBABILITIES, cdf, y)
    error = np.array([0.05, 0.02, 0.02, 0.05])  # there is less in the tails
    assert cdf[-1] == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.abs(found[:, 0] - expected) <= (error + 0.01) * std + (name == "poisson"))


@pytest.mark.parametrize("name", COUNTS)
def test_quantiles_of_counts_agree_with_their_probabilities(fitted, name):
    counts = np.arange(45)
    rows, exposure = X_NEW[[0, 2]], np.array([0.3, 0.8])
    at_most = np.cumsum(fitted(name).predict_count_proba(rows, counts, exposure), axis=1)
    _, found = fitted(name).predict(rows, exposure, return_quantiles=PROBABILITIES)
    expected = [np.argmax(at_most >= probability, axis=1) for probability in PROBABILITIES]
    assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NUMBERS)
def test_sample_y_has_the_predictive_law(fitted, mixtures, name):
    draws = fitted(name).sample_y(X_NEW, 6000, **asked(name))
    assert draws.shape == (4, 6000)
    if name in COUNTS:
        assert_array_equal(draws, np.floor(draws))
    for probability in (0.1, 0.5, 0.9):
        (*_, quantiles) = fitted(name).predict(X_NEW, return_quantiles=[probability], **asked(name))
        expected = mixtures[name].cdf(quantiles[0])
        for row, bound, share in zip(draws, quantiles[0], expected, strict=True):
            assert abs(z_score(row <= bound, share)) < Z_LIMIT


@pytest.mark.parametrize("name", LABELS)
def test_sample_y_of_labels_has_the_predicted_probabilities(fitted, name):
    est = fitted(name)
    draws = est.sample_y(X_NEW, 6000)
    assert draws.shape == (4, 6000)
    assert draws.dtype == est.classes_.dtype
    for row, p in zip(draws, est.predict_proba(X_NEW), strict=True):
        for label, share in zip(est.classes_, p, strict=True):
            assert abs(z_score(row == label, share)) < Z_LIMIT


@pytest.mark.parametrize("name", [*NUMBERS, *LABELS])
def test_predictive_draws_are_reproduced_by_their_seed(fitted, name):
    est = fitted(name)
    draws = est.sample_y(X_NEW, 5)
    assert_array_equal(draws, est.sample_y(X_NEW, 5, random_state=0))
    assert not np.array_equal(draws, est.sample_y(X_NEW, 5, random_state=1))
    assert est.sample_y(X_NEW).shape == (4, 1)
    latent = est.sample_latent(X_NEW, 5)
    assert latent.shape == (4, 5)
    assert_array_equal(latent, est.sample_latent(X_NEW, 5, random_state=0))


@pytest.mark.parametrize("name", ORDERED)
def test_quantiles_of_ordered_labels_agree_with_their_probabilities(fitted, name):
    est = fitted(name)
    labels, found = est.predict(X_NEW, return_quantiles=PROBABILITIES)
    p = est.predict_proba(X_NEW)
    assert_array_equal(labels, est.predict(X_NEW))
    assert_array_equal(labels, est.classes_[p.argmax(axis=1)])
    at_most = np.cumsum(p, axis=1)
    for probability, values in zip(PROBABILITIES, found, strict=True):
        at = [est.classes_.tolist().index(label) for label in values.tolist()]
        rows = np.arange(4)
        assert np.all((at_most[rows, at] >= probability) | (np.array(at) == 2))
        below = np.where(np.array(at) > 0, at_most[rows, np.array(at) - 1], 0.0)
        assert np.all(below < probability)


def test_std_of_ordered_labels_is_that_of_their_probabilities(fitted):
    est = fitted("ordinal")
    _, std, quantiles = est.predict(X_NEW, return_std=True, return_quantiles=0.5)
    assert quantiles.shape == (1, 4)
    p = est.predict_proba(X_NEW)
    expected = [stats.rv_discrete(values=(est.classes_, row)).std() for row in p]
    assert_allclose(std, expected, rtol=1e-9)
    with pytest.raises(ValueError, match=r"return_std is for labels that are numbers.*'middle'"):
        fitted("ordinal_names").predict(X_NEW, return_std=True)


@in_one_test("name", [*NUMBERS, "ordinal"])
def test_impossible_probabilities_of_quantiles_are_refused(fitted, name):
    with pytest.raises(ValueError, match="return_quantiles must be probabilities"):
        fitted(name).predict(X_NEW, return_quantiles=[0.5, 1.0])


def test_one_vs_rest_refuses_sample_y(models):
    est = models("one_vs_rest").model
    with pytest.raises(ValueError, match=r"sample_y is defined for two classes.*estimators_\[k\]"):
        est.sample_y(X_NEW)
    assert set(est.estimators_[0].sample_y(X_NEW, 50).ravel().tolist()) <= {0, 1}


# --- covariances ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NUMBERS, *LABELS])
def test_latent_covariance_agrees_with_variances_and_brute_force(fitted, mixtures, name):
    est = fitted(name)
    mean, var = est.latent_mean_and_variance(X_NEW)
    same, cov = est.latent_mean_and_variance(X_NEW, return_cov=True)
    assert_allclose(same, mean, rtol=1e-9)
    assert_allclose(np.diagonal(cov), var, rtol=1e-9)
    assert_array_equal(cov, cov.T)
    if name in NUMBERS:
        means = np.stack([mean[:, 0] for mean, _ in mixtures[name].moments])
        within = np.mean([own for _, own in mixtures[name].moments], axis=0)
        expected = within + np.cov(means.T, bias=True)
        assert_allclose(cov, est._units[1] ** 2 * expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("name", ["regressor", "student_t"])
def test_predictive_covariance_is_the_latent_covariance_plus_noise(fitted, name):
    est = fitted(name)
    mean, std, quantiles = est.predict(X_NEW, return_std=True, return_quantiles=[0.3])
    same, cov, again = est.predict(X_NEW, return_cov=True, return_quantiles=[0.3])
    assert_allclose(same, mean, rtol=1e-12)
    assert_array_equal(again, quantiles)
    assert_allclose(np.sqrt(np.diagonal(cov)), std, rtol=1e-12)
    of_latent = est.latent_mean_and_variance(X_NEW, return_cov=True)[1]
    off = ~np.eye(4, dtype=bool)
    assert_array_equal(cov[off], of_latent[off])
    away = est.sample_y(X_NEW, 8000) - mean[:, None]
    for i, j in ((0, 1), (1, 2), (0, 3)):
        assert abs(z_score(away[i] * away[j], cov[i, j])) < Z_LIMIT


def test_return_cov_is_refused_with_return_std_and_for_other_likelihoods(fitted):
    with pytest.raises(RuntimeError, match="At most one of return_std and return_cov"):
        fitted("regressor").predict(X_NEW, return_std=True, return_cov=True)
    counts = BayesianGPCountRegressor()._likelihoods["poisson"]()
    quick = {**SETTINGS["asis"], "n_warmup": 2, "n_draws": 2}
    est = BayesianGPRegressor(likelihood=counts, normalize_y=False, **quick)
    with short_chains():
        est.fit(X, CASES["poisson"][1])
    with pytest.raises(ValueError, match=r"return_cov is for noise.*'poisson'.*sample_y"):
        est.predict(X_NEW, return_cov=True)


def test_spread_of_few_degrees_of_freedom_is_refused():
    """Their variance is infinite; quantiles are not."""
    quick = {**SETTINGS["asis"], "n_warmup": 2, "n_draws": 2}
    est = BayesianGPRegressor(likelihood=StudentT(df=1.5), **quick)
    with short_chains():
        est.fit(X, CASES["regressor"][1])
    for spread in ("return_std", "return_cov"):
        with pytest.raises(ValueError, match=r"are infinite, .*df=1.5.*use quantiles"):
            est.predict(X_NEW, **{spread: True})
    mean, quantiles = est.predict(X_NEW, return_quantiles=[0.1, 0.9])
    assert np.isfinite(mean).all()
    assert np.isfinite(quantiles).all()


def test_latent_covariance_of_a_softmax_has_one_matrix_per_class(models):
    est = models("softmax").model
    mean, var = est.latent_mean_and_variance(X_NEW)
    same, cov = est.latent_mean_and_variance(X_NEW, return_cov=True)
    assert cov.shape == (4, 4, 3)
    assert_allclose(same, mean, rtol=1e-9)
    assert_allclose(np.einsum("iic->ic", cov), var, rtol=1e-9)
    draws = est.sample_y(X_NEW, 300)
    assert draws.shape == (4, 300)
    assert set(np.unique(draws)) <= set(est.classes_)


@short_chains()
def test_predictive_covariance_adds_the_fixed_noise_in_units_of_y():
    quick = {**SETTINGS["asis"], "n_warmup": 2, "n_draws": 2}
    est = BayesianGPRegressor(likelihood=Gaussian(0.1, fixed=True), **quick)
    est.fit(X, CASES["regressor"][1])
    _, cov = est.predict(X_NEW, return_cov=True)
    scale = est._units[1]
    var = est.latent_mean_and_variance(X_NEW)[1]
    assert_allclose(np.diagonal(cov) - var, (0.1 * scale) ** 2, rtol=1e-6)
