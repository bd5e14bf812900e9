"""Regression, counts, ordered classes and volatility: what users call, and what they get."""

import html
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import d2_tweedie_score

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import EP
from skgpmcmc.likelihoods import Gaussian, NegativeBinomial, Poisson, Probit
from skgpmcmc.run.leave_one_out import integrated_densities
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test, short_chains
from .conftest import ESTIMATORS as NAMES
from .conftest import EXPOSURE_NEW, ORDER
from .conftest import N as N_SHARED

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 20
X = np.sort(np.random.default_rng(0).uniform(0.0, 4.0, N))[:, None]
X_NEW = np.array([[-1.0], [0.3], [2.0], [6.0]])
F = np.sin(2.0 * X[:, 0])
QUICK = {"n_chains": 2, "n_warmup": 5, "n_draws": 40, "random_state": 0}
# The default samplers spend their time on a set-up, which is short for one hyper-parameter.
WALK = {
    **QUICK,
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "n_importance": 4,
    "n_warmup": 10,
    "n_draws": 20,
}
FIXED = ConstantKernel(2.0, "fixed") * RBF(0.8, "fixed")
FREE = ConstantKernel(2.0, "fixed") * RBF(0.8)


def settings_of(cls):
    """Random walks, but for regression, which integrates f out."""
    return {**QUICK, "kernel": FREE} if cls is BayesianGPRegressor else WALK


def quickest(cls, **changes):
    """An estimator of few draws, for what holds however few they are."""
    return cls(**settings_of(cls) | {"n_warmup": 3, "n_draws": 6} | changes)


def targets(seed=1):
    rng = np.random.default_rng(seed)
    return {
        BayesianGPRegressor: 20.0 + 4.0 * F + rng.standard_normal(N),
        BayesianGPCountRegressor: rng.poisson(np.exp(1.0 + F)),
        BayesianGPOrdinalClassifier: np.digitize(F + 0.5 * rng.standard_normal(N), [-0.5, 0.5]),
        BayesianGPVolatilityRegressor: 0.01 * np.exp(F) * rng.standard_normal(N),
        BayesianGPClassifier: (F + 0.5 * rng.standard_normal(N) > 0.0).astype(int),
    }


ESTIMATORS = list(targets())
LETTERS = np.array(["a", "b", "c"])[targets()[BayesianGPOrdinalClassifier]]


# --- all of them ----------------------------------------------------------------------------------


@cache
def plain(cls):
    """A fit to all rows, for the tests that look for the same in another way."""
    with short_chains():
        return quickest(cls).fit(X, targets()[cls])


@pytest.mark.parametrize("name", NAMES)
def test_fitted_attributes_have_the_shapes_of_draws_and_rows(models, name):
    est, X = models(name).model, models(name).X
    n_chains, n_draws, p = est.theta_samples_.shape
    assert (n_chains, n_draws) == (2, est.n_draws)
    assert p == len(est.hyperparameter_names_) == len(est.diagnostics_.r_hat)
    assert est.latent_samples_.shape == (2, est.n_draws, N_SHARED)
    assert set(est.priors_) == {name.split("[")[0] for name in est.hyperparameter_names_}
    assert est.kernel_.theta.shape == (2,)
    mean, var = est.latent_mean_and_variance(X)
    assert_allclose(mean, est.latent_samples_.mean(axis=(0, 1)), atol=6.0 * np.sqrt(var.max() / 20))


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_rows_of_weight_zero_change_nothing(cls):
    y = targets()[cls]
    odd, of_odd = np.concatenate([[[50.0]], X, [[-9.0], X[7]]]), np.concatenate([y[:1], y, y[:2]])
    weight = np.concatenate([[0.0], np.ones(N), [0.0, 0.0]])
    weighted = quickest(cls).fit(odd, of_odd, sample_weight=weight)
    assert_array_equal(weighted.theta_samples_, plain(cls).theta_samples_)
    assert_array_equal(weighted.predict(X_NEW), plain(cls).predict(X_NEW))
    f = weighted.latent_samples_
    assert f.shape == (2, 6, N + 3)
    assert_array_equal(f[:, :, 1:-2], plain(cls).latent_samples_)
    assert_array_equal(f[:, :, -1], f[:, :, 8])  # which have one input
    for aside in (f[:, :, 0], f[:, :, -2]):  # drawn, and not the prediction
        assert len(np.unique(aside)) == 12


def test_likelihood_object_drops_variances_of_rows_of_weight_zero():
    """An object that knows something of each row forgets those that are dropped."""
    y, variance, kept = targets()[BayesianGPRegressor], np.linspace(0.0, 1.0, N), np.ones(N)
    kept[[3, 11, 12]] = 0.0
    rows = kept > 0.0
    for_all = quickest(BayesianGPRegressor).set_params(likelihood=Gaussian(row_variance=variance))
    for_some = clone(for_all).set_params(likelihood=Gaussian(row_variance=variance[rows]))
    weighted, without = for_all.fit(X, y, sample_weight=kept), for_some.fit(X[rows], y[rows])
    assert_array_equal(weighted.theta_samples_, without.theta_samples_)
    assert_array_equal(weighted.predict(X_NEW), without.predict(X_NEW))
    by_name, of_some = quickest(BayesianGPRegressor), quickest(BayesianGPRegressor)
    by_name.fit(X, y, sample_weight=kept, noise_variance=variance)
    of_some.fit(X[rows], y[rows], noise_variance=variance[rows])
    assert_array_equal(by_name.theta_samples_, of_some.theta_samples_)


def knowing_rows(kind):
    """A likelihood of somebody's own that knows something of each row."""

    @dataclass(frozen=True, eq=False)
    class KnowingRows(kind):
        known: object = None

        def of_rows(self, rows):
            return replace(self, known=self.known[rows])

    return KnowingRows(known=np.arange(N))


@pytest.mark.parametrize(
    ("cls", "likelihood"),
    [(BayesianGPCountRegressor, Poisson), (BayesianGPClassifier, Probit)],
)
def test_custom_likelihood_drops_rows_of_weight_zero(cls, likelihood):
    kept = np.ones(N)
    kept[[3, 11, 12]] = 0.0
    est = quickest(cls).set_params(likelihood=knowing_rows(likelihood))
    est.fit(X, targets()[cls], sample_weight=kept)
    own = est._sampling.run.models[0].model
    assert_array_equal(np.sort(own.likelihood.known), np.flatnonzero(kept))
    assert_array_equal(X[own.likelihood.known], own.covariance.X)


IMPOSSIBLE_WEIGHTS = [
    (np.zeros(N), "sample_weight is zero for every row"),
    (np.full(N, -1.0), "sample_weight must be finite and not negative; got -1 in row 0"),
    (np.ones(N - 1), "sample_weight must have one number per row"),
    (np.full(N, np.nan), "sample_weight must be finite"),
]


@in_one_test("cls, case", product(ESTIMATORS, IMPOSSIBLE_WEIGHTS))
def test_impossible_weights_are_refused_with_the_reason(cls, case):
    weight, message = case
    with pytest.raises(ValueError, match=message):
        cls(**QUICK).fit(X, targets()[cls], sample_weight=weight)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_larger_weights_reduce_the_latent_variance(cls):
    y = targets()[cls]
    model = cls(**{**settings_of(cls), "kernel": FIXED, "n_draws": 20})
    if cls is BayesianGPOrdinalClassifier:  # thresholds spread f too, and few draws of them are few
        model.set_params(thresholds=[-0.5, 0.5])
    usual, heavy = (clone(model).fit(X, y, sample_weight=np.full(N, w)) for w in (1.0, 6.0))
    spread = [est.latent_mean_and_variance(X)[1].mean() for est in (usual, heavy)]
    assert spread[1] < 0.8 * spread[0]


@pytest.mark.parametrize("name", NAMES)
def test_loo_is_between_its_draws_and_below_the_density_of_the_fit(models, name):
    own = models(name)
    result, of_draws = own.model.loo(), own.model.loo("psis")
    assert result.elpd_i.shape == result.pareto_k.shape == (N_SHARED,)
    assert result.elpd == pytest.approx(result.elpd_i.sum())
    inside = own.model.log_predictive_density(own.X, own.y, **own.fit_arguments).sum()
    assert result.elpd < inside  # rows are predicted worse without themselves
    # A few draws of a walk may be anywhere, and the one that is worst for a row weighs most: nats,
    # two or so for each row.
    assert of_draws.elpd > inside - 2.0 * N_SHARED
    densities = integrated_densities(
        own.model._predictor.model, own.model._reference, own.model._draws, own.model._rows.given
    )
    by_draw = densities.left_out.reshape(-1, N_SHARED) + own.model._log_density_shift()
    assert np.all(by_draw.min(axis=0) < result.elpd_i + 1e-9)
    assert np.all(result.elpd_i < by_draw.max(axis=0) + 1e-9)
    assert "elpd" in str(result)


@pytest.mark.parametrize("name", NAMES)
def test_results_have_the_same_repr_text_and_html(models, name):
    est = models(name).model
    for result in (est.diagnostics_, est.loo()):
        assert repr(result) == str(result) == f"{result}"
        assert not repr(result).startswith(type(result).__name__)
    assert html.unescape(est.loo()._repr_html_()) == f"<pre>{est.loo()}</pre>"
    page = ElementTree.fromstring(f"<div>{est.diagnostics_._repr_html_()}</div>")
    rows = page.findall("table/tr")
    assert [row[0].text for row in rows[1:]] == est.diagnostics_.names
    assert str(est.diagnostics_).endswith(page.find("pre").text)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_warm_start_is_one_longer_fit_and_refuses_other_weights(cls):
    y, whole = targets()[cls], plain(cls)
    parts = quickest(cls, n_draws=4, warm_start=True).fit(X, y)
    parts.set_params(n_draws=6).fit(X, y)
    assert_array_equal(parts.theta_samples_, whole.theta_samples_)
    assert_array_equal(parts.latent_samples_, whole.latent_samples_)
    with pytest.raises(ValueError, match="X or y differ from its data"):
        parts.set_params(n_draws=20).fit(X, y, sample_weight=np.arange(1.0, N + 1.0))


# --- refusals -------------------------------------------------------------------------------------


REFUSED = [
    (
        BayesianGPRegressor,
        [
            ({"alpha": -1.0}, {}, r"alpha must be a number in \[0, inf\); got -1.0"),
            (
                {"likelihood": "student_t", "sampler": "collapsed"},
                {},
                '"collapsed" integrates',
            ),
            (
                {"likelihood": "student_t"},
                {"noise_variance": np.ones(N)},
                "variances of Gaussian noise",
            ),
            ({"likelihood": "probit"}, {}, "likelihood must be one of"),
            ({"likelihood": Poisson()}, {}, "counts.*use normalize_y=False"),
            ({"likelihood": Poisson(), "normalize_y": False}, {}, "y must consist of counts"),
            ({"approximation": EP()}, {}, "no effect, as sampler=Collapsed uses no approximation"),
            ({"approximation": "vb"}, {}, "approximation must be one of.*got 'vb'"),
            ({"normalize_y": "yes"}, {}, "normalize_y must be True or False"),
            ({}, {"noise_variance": -np.ones(N)}, "noise_variance must be finite and not negative"),
            (
                {"likelihood": Gaussian(row_variance=np.ones(N + 2))},
                {},
                r"likelihood\.row_variance must have one number per row of X, shape \(20,\)",
            ),
        ],
    ),
    (
        BayesianGPCountRegressor,
        [
            ({}, {"y": np.full(N, 1.5)}, 'got 1.5 in row 0. Use fractional_counts="allow"'),
            ({}, {"y": -np.ones(N)}, "counts: integers >= 0"),
            ({"fractional_counts": "allow"}, {"y": -np.ones(N)}, "got -1 in row 0"),
            ({"fractional_counts": "no"}, {}, "fractional_counts must be"),
            ({}, {"exposure": np.zeros(N)}, "exposure must be finite and positive"),
            ({}, {"exposure": np.ones(3)}, "exposure must have one number per row"),
            ({"likelihood": "probit"}, {}, "likelihood must be one of"),
            ({"sampler": "collapsed"}, {}, "sampler must be one of"),
        ],
    ),
    (
        BayesianGPOrdinalClassifier,
        [
            ({}, {"y": LETTERS}, "class_order=None sorts numbers"),
            ({"class_order": ["a", "b"]}, {"y": LETTERS}, "labels .* that class_order"),
            ({"class_order": list("abbc")}, {"y": LETTERS}, "must name every class once"),
            ({"thresholds": [1.0, 0.0]}, {}, "2 increasing numbers"),
            ({"thresholds": [1.0]}, {}, "2 increasing numbers"),
        ],
    ),
    (BayesianGPVolatilityRegressor, [({}, {"y": np.zeros(N)}, "y is zero in every row")]),
]


@in_one_test(
    "cls, settings, fit, message", [(cls, *case) for cls, cases in REFUSED for case in cases]
)
def test_impossible_settings_of_each_estimator_are_refused(cls, settings, fit, message):
    with pytest.raises(ValueError, match=message):
        cls(**QUICK, **settings).fit(X, **{"y": targets()[cls], **fit})


# --- counts ---------------------------------------------------------------------------------------


def test_exposure_multiplies_the_rate(models):
    own = models("poisson")
    reg, y, rows = own.model, own.y, own.X_new
    exposure, two = EXPOSURE_NEW, [0.2, 0.4]
    rate = reg.predict(rows)
    assert_allclose(reg.predict(rows, exposure=exposure), rate * exposure)
    far = reg.latent_mean_and_variance([[60.0, 60.0]])[0][0]
    given = own.fit_arguments["exposure"]
    assert far == pytest.approx(np.log(y.sum() / given.sum()), abs=1e-6)
    expected = d2_tweedie_score(y, reg.predict(own.X, exposure=given), power=1)
    assert reg.score(own.X, y, exposure=given) == pytest.approx(expected)
    low = [[-1.3, 1.1], [-1.2, 0.5]]  # where counts are few
    counts = np.arange(27)
    proba = reg.predict_count_proba(low, counts, exposure=two)
    assert proba.shape == (2, 27)
    assert_allclose(proba.sum(axis=1), 1.0, atol=1e-4)
    assert_allclose(proba @ counts, reg.predict(low, exposure=two), rtol=1e-2)
    found = reg.log_predictive_density(low, [3, 4], exposure=two)
    assert_allclose(np.exp(found), proba[[0, 1], [3, 4]], rtol=1e-9)


def test_fractional_counts_are_allowed_with_a_likelihood_object():
    averages = np.full(N, 1.5)
    settings = {"likelihood": "poisson", "fractional_counts": "allow"}
    by_name = quickest(BayesianGPCountRegressor, **settings)
    by_object = clone(by_name).set_params(likelihood=Poisson())
    assert_allclose(by_object.fit(X, averages).predict(X), by_name.fit(X, averages).predict(X))


class DoubledMean(Poisson):
    """Its counts are twice as many as their exp(f)."""

    def predictive_moments(self, mean, var):
        moments = super().predictive_moments(mean, var)
        return moments._replace(mean=2.0 * moments.mean)


@dataclass(frozen=True)
class MeanOfTheShape(NegativeBinomial):
    """The mean of its counts is exp(f) only at the first value of its parameter."""

    def predictive_moments(self, mean, var):
        moments = super().predictive_moments(mean, var)
        return moments._replace(mean=self.shape * moments.mean)


class NoMean(Poisson):
    def predictive_moments(self, mean, var):
        raise NotImplementedError


@pytest.mark.parametrize("likelihood", [DoubledMean(), MeanOfTheShape(), NoMean()])
def test_rate_of_counts_whose_mean_is_another_is_refused(likelihood):
    y = np.random.default_rng(0).poisson(np.exp(F))
    model = BayesianGPCountRegressor(likelihood=likelihood, kernel=FIXED, **WALK).fit(X, y)
    message = f"is for likelihoods .* the mean exp.f., and likelihood '{likelihood.name}' has"
    with pytest.raises(ValueError, match=f"predict_rate {message}"):
        model.predict_rate(X)
    with pytest.raises(ValueError, match=f"exceedance_proba {message}"):
        model.exceedance_proba(X, 1.0)


def test_counts_of_zero_give_a_low_rate():
    reg = BayesianGPCountRegressor(**WALK).fit(X, np.zeros(N))
    assert np.all(reg.predict(X) < 0.5)


# --- ordered classes ------------------------------------------------------------------------------


def test_thresholds_are_inferred_or_given():
    y = targets()[BayesianGPOrdinalClassifier]
    few = {**WALK, "priors": "paper"}  # a walk this short goes nowhere from wider ones
    inferred = BayesianGPOrdinalClassifier(**few).fit(X, y)
    assert inferred.hyperparameter_names_[2:] == ["threshold", "threshold_gap"]
    given = BayesianGPOrdinalClassifier(thresholds=[-0.5, 0.5], **few).fit(X, y)
    assert given.hyperparameter_names_ == ["k1__constant_value", "k2__length_scale"]
    for clf in (inferred, given):
        proba = clf.predict_proba(X_NEW)
        assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
        assert_array_equal(clf.predict(X_NEW), clf.classes_[proba.argmax(axis=1)])
        assert clf.score(X, y) > 0.5


def test_a_class_order_only_renames_the_classes(models):
    named, numbered = models("ordinal_names"), models("ordinal")
    clf, numbers = named.model, numbered.model
    assert_array_equal(clf.classes_, ORDER)
    assert_array_equal(numbers.classes_, [1, 2, 5])
    rows = named.X_new
    assert_array_equal(clf.predict_proba(rows), numbers.predict_proba(rows))
    expected = ORDER[np.searchsorted(numbers.classes_, numbers.predict(rows))]
    assert_array_equal(clf.predict(rows), expected)
    assert_allclose(
        clf.log_predictive_density(named.X, named.y),
        numbers.log_predictive_density(numbered.X, numbered.y),
        rtol=1e-12,
    )


#: From the lowest; "none" occurs in no row.
LEVELS = ["none", "poor", "fair", "good"]
LABELS = np.array(LEVELS[1:])[targets()[BayesianGPOrdinalClassifier]]
ORDERED_TYPES = {
    "categorical": pd.Categorical(LABELS, LEVELS, ordered=True),
    "series": pd.Series(LABELS, dtype=pd.CategoricalDtype(LEVELS, ordered=True)),
    "enum": pl.Series(LABELS, dtype=pl.Enum(LEVELS)),
}


@in_one_test("y", ORDERED_TYPES.values(), ids=list(ORDERED_TYPES))
def test_ordered_categorical_gives_the_order_of_classes(y):
    clf = quickest(BayesianGPOrdinalClassifier).fit(X, y)
    assert_array_equal(clf.classes_, LEVELS[1:])
    expected = quickest(BayesianGPOrdinalClassifier, class_order=LEVELS[1:]).fit(X, LABELS)
    assert_array_equal(clf.predict_proba(X_NEW), expected.predict_proba(X_NEW))
    assert set(clf.predict(X_NEW)) <= set(LEVELS)
    assert clf.score(X, y) == expected.score(X, LABELS)
    density = expected.log_predictive_density(X, LABELS)
    assert_array_equal(clf.log_predictive_density(X, y), density)


def test_class_order_and_present_rows_override_the_order_of_a_type():
    y = ORDERED_TYPES["categorical"]
    given = quickest(BayesianGPOrdinalClassifier, class_order=LEVELS[:0:-1]).fit(X, y)
    assert_array_equal(given.classes_, LEVELS[:0:-1])
    some = quickest(BayesianGPOrdinalClassifier).fit(X, y, sample_weight=LABELS != "poor")
    assert_array_equal(some.classes_, LEVELS[2:])
    numbers = pd.Categorical(targets()[BayesianGPOrdinalClassifier], [2, 1, 0], ordered=True)
    assert_array_equal(quickest(BayesianGPOrdinalClassifier).fit(X, numbers).classes_, [2, 1, 0])


@in_one_test("y", [pd.Categorical(LABELS, LEVELS), pl.Series(LABELS, dtype=pl.Categorical)])
def test_unordered_categories_are_labels_and_not_ordered_classes(y):
    with pytest.raises(ValueError, match=r"class_order=None sorts numbers.*an ordered Categorical"):
        quickest(BayesianGPOrdinalClassifier).fit(X, y)
    clf = quickest(BayesianGPClassifier).fit(X, y)
    assert_array_equal(clf.classes_, sorted(LEVELS[1:]))
    assert set(clf.predict(X_NEW)) <= set(LEVELS)


def test_class_without_rows_gets_a_probability():
    y = 2.0 * (targets()[BayesianGPOrdinalClassifier] > 0)
    clf = quickest(BayesianGPOrdinalClassifier, class_order=[0, 1, 2]).fit(X, y)
    assert clf.predict_proba(X_NEW).shape == (4, 3)


# --- volatility -----------------------------------------------------------------------------------


def test_volatility_score_follows_the_units_of_y(models):
    own = models("volatility")
    est, y = own.model, own.y
    assert est.score(own.X, y) == pytest.approx(est.log_predictive_density(own.X, y).mean())
    scaled = clone(est).fit(own.X, 100.0 * y)
    shifted = est.score(own.X, y) - np.log(100.0)
    assert scaled.score(own.X, 100.0 * y) == pytest.approx(shifted, abs=0.1)


def test_returns_of_zero_do_not_give_zero_volatility():
    y = targets()[BayesianGPVolatilityRegressor].copy()
    y[[4, 9]] = 0.0
    est = BayesianGPVolatilityRegressor(**WALK).fit(X, y)
    assert est.predict(X[[4]])[0] > 0.02 * np.sqrt(np.mean(y**2))
