"""Spread, quantiles and draws of new targets, alike on every estimator, against brute force.

The chains of these fits are short and their draws keep an f of their own, so that what is averaged
over is known: every draw of (theta, f), each with the Gaussian of f at a new row.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.prediction import quantiles
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import Z_LIMIT, z_score

N = 20
X = np.linspace(0.0, 3.0, N)[:, None]
X_NEW = np.array([[0.2], [0.4], [2.9], [8.0]])
F = np.sin(2.0 * X[:, 0])
EXPOSURE = np.random.default_rng(3).uniform(0.5, 4.0, N)
EXPOSURE_NEW = np.array([1.0, 3.0, 0.2, 2.0])
PROBABILITIES = [0.02, 0.4, 0.5, 0.97]
QUICK = {
    "sampler": "aa",
    "n_chains": 2,
    "n_warmup": 10,
    "n_draws": 6,
    "max_predict_draws": None,
    "random_state": 0,
}
RNG = np.random.default_rng(1)
NAMES = np.array(["low", "middle", "high"])
ORDERED = np.digitize(F + 0.5 * RNG.standard_normal(N), [-0.5, 0.5])
CASES = {
    "regression": (BayesianGPRegressor(), 20.0 + 4.0 * F + RNG.standard_normal(N)),
    "student_t": (
        BayesianGPRegressor(likelihood="student_t"),
        5.0 + F + 0.1 * RNG.standard_t(3.0, N),
    ),
    "poisson": (
        BayesianGPPoissonRegressor(likelihood="poisson"),
        RNG.poisson(EXPOSURE * np.exp(2.0 + F)),
    ),
    "counts": (BayesianGPPoissonRegressor(), RNG.poisson(EXPOSURE * np.exp(2.0 + F))),
    "volatility": (BayesianGPVolatilityRegressor(), 0.01 * np.exp(F) * RNG.standard_normal(N)),
    "ordered numbers": (BayesianGPOrdinalClassifier(), np.array([1, 2, 5])[ORDERED]),
    "ordered names": (BayesianGPOrdinalClassifier(class_order=NAMES), NAMES[ORDERED]),
    "classes": (BayesianGPClassifier(), np.where(ORDERED > 0, "yes", "no")),
}
NUMBERS = ["regression", "student_t", "poisson", "counts", "volatility"]
LABELS = ["ordered numbers", "ordered names", "classes"]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def fitted():
    found = {}
    for name, (est, y) in CASES.items():
        own = {"exposure": EXPOSURE} if name in ("poisson", "counts") else {}
        found[name] = est.set_params(**QUICK).fit(X, y, **own)
    return found


def asked(name):
    """What a prediction of new rows is told besides."""
    return {"exposure": EXPOSURE_NEW} if name in ("poisson", "counts") else {}


def targets_given(est, name, theta, f):
    """Law of a target given theta and f, in units of y."""
    shift, scale = est._units
    if name == "regression":
        return stats.norm(shift + scale * f, scale * np.exp(theta[-1]))
    if name == "student_t":
        return stats.t(4.0, shift + scale * f, scale * np.exp(theta[-1]))
    if name == "volatility":
        return stats.norm(0.0, np.exp(shift + f))
    rate = np.exp(shift + f + np.log(EXPOSURE_NEW)[:, None])
    if name == "poisson":
        return stats.poisson(rate)
    k = np.exp(theta[-1])
    return stats.nbinom(k, k / (k + rate))


class Mixture:
    """Laws of the new targets given each draw and each of many values of f, (draws, m, nodes)."""

    def __init__(self, est, name):
        model = est._predictor.model
        node = np.linspace(-9.0, 9.0, 2001)
        self.weight = stats.norm.pdf(node) / stats.norm.pdf(node).sum()
        thetas = np.concatenate(est.theta_samples_)
        shift, scale = est._units
        self.laws, self.moments = [], []
        for theta, f in zip(thetas, np.concatenate(est.latent_samples_), strict=True):
            conditional = model.prior_at(theta).given((f - shift)[:, None] / scale)
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
    return {name: Mixture(fitted[name], name) for name in NUMBERS}


@pytest.mark.parametrize("name", NUMBERS)
def test_spread_is_that_of_a_new_target(fitted, mixtures, name):
    point, std = fitted[name].predict(X_NEW, return_std=True, **asked(name))
    mean = mixtures[name].average(lambda law: law.mean())
    square = mixtures[name].average(lambda law: law.var() + law.mean() ** 2)
    near = slice(3)  # far away exp(2 f) is mostly where the nodes end
    assert_allclose(std[near], np.sqrt(square - mean**2)[near], rtol=1e-6)
    if name == "volatility":
        mean = mixtures[name].average(lambda law: law.std())
    assert_allclose(point[near], mean[near], rtol=1e-6)
    assert_array_equal(point, fitted[name].predict(X_NEW, **asked(name)))


@pytest.mark.parametrize("name", NUMBERS)
def test_quantiles_are_those_of_the_mixture(fitted, mixtures, name):
    _, found = fitted[name].predict(X_NEW, return_quantiles=PROBABILITIES, **asked(name))
    assert found.shape == (len(PROBABILITIES), len(X_NEW))
    for probability, values in zip(PROBABILITIES, found, strict=True):
        if name not in ("poisson", "counts"):
            assert_allclose(mixtures[name].cdf(values), probability, atol=1e-6)
            continue
        assert_array_equal(values, np.floor(values))
        assert np.all(mixtures[name].cdf(values) >= probability)
        assert np.all(mixtures[name].cdf(values - 1.0) < probability)


@pytest.mark.parametrize("name", [*NUMBERS, "ordered numbers"])
def test_spread_and_quantiles_depend_on_each_row_alone(fitted, name):
    both = {"return_std": True, "return_quantiles": PROBABILITIES}
    _, std, found = fitted[name].predict(X_NEW, **both, **asked(name))
    for i in range(4):
        own = {key: values[[i]] for key, values in asked(name).items()}
        _, alone, values = fitted[name].predict(X_NEW[[i]], **both, **own)
        assert_allclose(alone, std[[i]], rtol=1e-10)
        assert_allclose(values[:, 0], found[:, i], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", ["student_t", "poisson"])
def test_few_terms_of_a_distribution_function_are_as_good_as_all(name, monkeypatch):
    """Each theta has fifty or more, and a few of them stand for those."""
    est, y = CASES[name]
    est = clone(est).set_params(**QUICK)
    walk = PseudoMarginal(moves="random_walk")
    est.set_params(sampler=walk, n_importance=8, approximation="laplace").fit(X, y)
    few = est.predict(X_NEW, return_quantiles=PROBABILITIES)[1]
    monkeypatch.setattr(quantiles, "_TERMS", 10**6)
    every = est.predict(X_NEW, return_quantiles=PROBABILITIES)[1]
    std = est.predict(X_NEW, return_std=True)[1]
    assert np.all(np.abs(few - every) <= 0.02 * std + (name == "poisson"))
    if name != "poisson":
        assert not np.array_equal(few, every)


@pytest.mark.parametrize("name", ["poisson", "counts"])
def test_quantiles_of_counts_are_those_of_their_probabilities(fitted, name):
    counts = np.arange(200)
    rows, exposure = X_NEW[:3], EXPOSURE_NEW[:3]
    at_most = np.cumsum(fitted[name].predict_count_proba(rows, counts, exposure), axis=1)
    _, found = fitted[name].predict(rows, exposure, return_quantiles=PROBABILITIES)
    expected = [np.argmax(at_most >= probability, axis=1) for probability in PROBABILITIES]
    assert_array_equal(found, expected)


@pytest.mark.parametrize("name", NUMBERS)
def test_draws_have_the_law_of_new_targets(fitted, mixtures, name):
    draws = fitted[name].sample_y(X_NEW, 6000, **asked(name))
    assert draws.shape == (4, 6000)
    if name in ("poisson", "counts"):
        assert_array_equal(draws, np.floor(draws))
    for probability in (0.1, 0.5, 0.9):
        (*_, quantiles) = fitted[name].predict(X_NEW, return_quantiles=[probability], **asked(name))
        expected = mixtures[name].cdf(quantiles[0])
        for row, bound, share in zip(draws, quantiles[0], expected, strict=True):
            assert abs(z_score(row <= bound, share)) < Z_LIMIT


@pytest.mark.parametrize("name", LABELS)
def test_draws_of_labels_have_their_probabilities(fitted, name):
    est = fitted[name]
    draws = est.sample_y(X_NEW, 6000)
    assert draws.shape == (4, 6000)
    assert draws.dtype == est.classes_.dtype
    for row, p in zip(draws, est.predict_proba(X_NEW), strict=True):
        for label, share in zip(est.classes_, p, strict=True):
            assert abs(z_score(row == label, share)) < Z_LIMIT


@pytest.mark.parametrize("name", list(CASES))
def test_draws_belong_to_a_seed_and_to_a_row(fitted, name):
    est = fitted[name]
    draws = est.sample_y(X_NEW, 5)
    assert_array_equal(draws, est.sample_y(X_NEW, 5, random_state=0))
    assert not np.array_equal(draws, est.sample_y(X_NEW, 5, random_state=1))
    assert est.sample_y(X_NEW).shape == (4, 1)
    latent = est.sample_latent(X_NEW, 5)
    assert latent.shape == (4, 5)
    assert_array_equal(latent, est.sample_latent(X_NEW, 5, random_state=0))


@pytest.mark.parametrize("name", ["ordered numbers", "ordered names"])
def test_quantiles_of_ordered_labels(fitted, name):
    est = fitted[name]
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


def test_spread_of_ordered_labels(fitted):
    est = fitted["ordered numbers"]
    _, std, quantiles = est.predict(X_NEW, return_std=True, return_quantiles=0.5)
    assert quantiles.shape == (1, 4)
    p = est.predict_proba(X_NEW)
    expected = [stats.rv_discrete(values=(est.classes_, row)).std() for row in p]
    assert_allclose(std, expected, rtol=1e-9)
    with pytest.raises(ValueError, match=r"return_std is for labels that are numbers.*'middle'"):
        fitted["ordered names"].predict(X_NEW, return_std=True)


@pytest.mark.parametrize("name", [*NUMBERS, "ordered numbers"])
def test_impossible_probabilities(fitted, name):
    with pytest.raises(ValueError, match="return_quantiles must be probabilities"):
        fitted[name].predict(X_NEW, return_quantiles=[0.5, 1.0])


def test_labels_of_one_against_the_rest_have_no_joint_law():
    est = BayesianGPClassifier(**QUICK).fit(X, NAMES[ORDERED])
    with pytest.raises(ValueError, match=r"sample_y is defined for two classes.*estimators_\[k\]"):
        est.sample_y(X_NEW)
    assert set(est.estimators_[0].sample_y(X_NEW, 50).ravel().tolist()) <= {0, 1}


# --- covariances ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(CASES))
def test_covariance_of_the_latent_function(fitted, mixtures, name):
    est = fitted[name]
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


@pytest.mark.parametrize("name", ["regression", "student_t"])
def test_covariance_of_new_targets(fitted, name):
    est = fitted[name]
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


def test_covariance_is_refused_where_it_is_not_that_of_the_latent_function(fitted):
    with pytest.raises(RuntimeError, match="At most one of return_std and return_cov"):
        fitted["regression"].predict(X_NEW, return_std=True, return_cov=True)
    counts = BayesianGPPoissonRegressor()._likelihoods["poisson"]()
    est = BayesianGPRegressor(likelihood=counts, normalize_y=False, **QUICK)
    with pytest.raises(ValueError, match=r"return_cov is for noise.*'poisson'.*sample_y"):
        est.fit(X, CASES["poisson"][1]).predict(X_NEW, return_cov=True)


def test_covariance_for_a_softmax():
    est = BayesianGPClassifier(multi_class="softmax", n_chains=1, n_warmup=5, n_draws=4)
    est.set_params(random_state=0).fit(X, NAMES[ORDERED])
    mean, var = est.latent_mean_and_variance(X_NEW)
    same, cov = est.latent_mean_and_variance(X_NEW, return_cov=True)
    assert cov.shape == (4, 4, 3)
    assert_allclose(same, mean, rtol=1e-9)
    assert_allclose(np.einsum("iic->ic", cov), var, rtol=1e-9)
    draws = est.sample_y(X_NEW, 3000)
    assert draws.shape == (4, 3000)
    assert set(np.unique(draws)) <= set(NAMES)


def test_noise_variances_of_training_rows_stay_with_them():
    est = BayesianGPRegressor(likelihood=Gaussian(0.1, fixed=True), **QUICK)
    est.fit(X, CASES["regression"][1])
    _, cov = est.predict(X_NEW, return_cov=True)
    scale = est._units[1]
    var = est.latent_mean_and_variance(X_NEW)[1]
    assert_allclose(np.diagonal(cov) - var, (0.1 * scale) ** 2, rtol=1e-6)
