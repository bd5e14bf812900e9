"""Averages over kernels: weights, predictions, and what members share."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern
from sklearn.utils._param_validation import InvalidParameterError

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.displays import TraceDisplay
from skgpmcmc.estimators._average import _stack
from skgpmcmc.samplers import Marginal, PseudoMarginal

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 2))
Z = RNG.standard_normal((5, 2))
Y = X[:, 0] + 0.3 * RNG.standard_normal(24)
LABELS = np.array(["a", "b"])[(Y > 0).astype(int)]
THREE = np.digitize(Y, [-0.5, 0.5])
COUNTS = RNG.poisson(np.exp(X[:, 0]))


def fixed(kernel, length=1.0):
    """A kernel without free hyper-parameters."""
    return ConstantKernel(1.0, "fixed") * kernel(length, "fixed")


FIXED = [fixed(RBF), fixed(RBF, 3.0), ConstantKernel(1.0, "fixed") * DotProduct(1.0, "fixed")]
FREE = [ConstantKernel() * RBF(), ConstantKernel() * Matern(nu=1.5)]
#: For what holds however few the draws are: by default, and by chains that are set up at once.
FEW = {"target_ess": None, "n_chains": 2, "n_draws": 20}
WALK = {**FEW, "n_warmup": 20, "sampler": Marginal(moves="random_walk")}
OF_CLASSES = {**WALK, "sampler": PseudoMarginal(moves="random_walk"), "n_importance": 4}


few_draws = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
short_walks = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:log_evidence.*Pareto"
)


def estimator(kind, kernel, **settings):
    return kind(kernel, random_state=0, **{"target_ess": 50.0, "max_rhat": 1.2, **settings})


@pytest.fixture(scope="module")
def binary():
    return estimator(BayesianGPClassifier, FIXED).fit(X, LABELS)


@pytest.fixture(scope="module")
def regressor():
    return estimator(BayesianGPRegressor, FIXED, noise="known", alpha=0.09, normalize_y=False).fit(
        X, Y
    )


# --- weights --------------------------------------------------------------------------------------


def test_weights_are_posterior_probabilities_in_closed_form(regressor):
    noise = 0.09 * np.eye(24)
    log_evidence = np.array(
        [stats.multivariate_normal.logpdf(Y, cov=kernel(X) + noise) for kernel in FIXED]
    )
    expected = np.exp(log_evidence - log_evidence.max())
    assert_allclose(regressor.kernel_weights_, expected / expected.sum(), rtol=1e-6)
    value, error = regressor.log_evidence()
    mean = log_evidence.max() + np.log(expected.mean())
    assert value == pytest.approx(mean, abs=1e-6)
    assert error == 0.0


def test_weights_agree_with_long_estimates_of_the_evidence():
    found = estimator(BayesianGPClassifier, FREE, target_ess=200.0).fit(X, LABELS)
    evidences = np.array([own.log_evidence() for own in found.estimators_])
    difference = np.log(found.kernel_weights_[0] / found.kernel_weights_[1])
    expected = evidences[0, 0] - evidences[1, 0]
    assert difference == pytest.approx(expected, abs=5.0 * 0.1)  # errors of a tenth


def test_stacking_maximizes_the_leave_one_out_density():
    elpd = np.log(np.random.default_rng(1).uniform(0.1, 1.0, size=(2, 30)))
    weights = _stack(elpd)
    share = np.linspace(0.0, 1.0, 2001)
    score = np.log(share[:, None] * np.exp(elpd[0]) + (1 - share)[:, None] * np.exp(elpd[1]))
    assert weights[0] == pytest.approx(share[np.argmax(score.sum(axis=1))], abs=1e-3)
    assert_allclose(_stack(np.stack([elpd[0], elpd[0] - 1.0])), [1.0, 0.0], atol=1e-6)


def test_a_kernel_without_weight_has_no_part_in_predictions():
    found = estimator(BayesianGPClassifier, FIXED, weights="stacking").fit(X, LABELS)
    assert found.kernel_weights_.sum() == pytest.approx(1.0)
    expected = sum(
        weight * own.predict_proba(Z)
        for weight, own in zip(found.kernel_weights_, found.estimators_, strict=True)
    )
    assert_allclose(found.predict_proba(Z), expected, atol=1e-9)


def test_kernels_with_larger_weights_get_more_draws():
    """A straight line has no chance where labels are those of a circle."""
    labels = (np.sum(X**2, axis=1) > 1.3).astype(int)
    kernels = [ConstantKernel() * RBF(), ConstantKernel() * DotProduct(1.0, "fixed")]
    found = BayesianGPClassifier(kernels, random_state=0).fit(X, labels)
    assert found.kernel_weights_[0] > 0.7
    n_draws = [own.theta_samples_.shape[1] for own in found.estimators_]
    assert n_draws[0] > n_draws[1]


# --- predictions ----------------------------------------------------------------------------------


def test_class_probabilities_are_weighted_means(binary):
    members = zip(binary.kernel_weights_, binary.estimators_, strict=True)
    expected = sum(weight * own.predict_proba(Z) for weight, own in members)
    assert_allclose(binary.predict_proba(Z), expected, rtol=1e-12)
    assert_array_equal(binary.predict(Z), binary.classes_[np.argmax(expected, axis=1)])


def test_moments_follow_the_law_of_total_variance(regressor):
    weights = regressor.kernel_weights_
    moments = [own.predict(Z, return_cov=True) for own in regressor.estimators_]
    mean = sum(w * m for w, (m, _) in zip(weights, moments, strict=True))
    second = sum(w * (c + np.outer(m, m)) for w, (m, c) in zip(weights, moments, strict=True))
    found, covariance = regressor.predict(Z, return_cov=True)
    assert_allclose(found, mean, rtol=1e-12)
    assert_allclose(covariance, second - np.outer(mean, mean), rtol=1e-10, atol=1e-12)
    assert_allclose(regressor.predict(Z, return_std=True)[1] ** 2, covariance.diagonal())
    _, variance = regressor.latent_mean_and_variance(Z)
    assert_allclose(variance, regressor.latent_mean_and_variance(Z, return_cov=True)[1].diagonal())


def test_quantiles_are_those_of_the_mixture(regressor):
    wanted = [0.05, 0.5, 0.9]
    _, quantiles = regressor.predict(Z, return_quantiles=wanted)
    parts = [own.predict(Z, return_std=True) for own in regressor.estimators_]
    for probability, at in zip(wanted, quantiles, strict=True):
        reached = sum(
            weight * stats.norm.cdf(at, *part)
            for weight, part in zip(regressor.kernel_weights_, parts, strict=True)
        )
        assert_allclose(reached, probability, atol=1e-6)


def test_draws_have_the_moments_of_the_mixture(regressor):
    draws = regressor.sample_latent(Z, 4000)
    mean, variance = regressor.latent_mean_and_variance(Z)
    error = np.sqrt(variance / 4000)
    assert np.abs((draws.mean(axis=1) - mean) / error).max() < 5.0
    assert_allclose(draws.var(axis=1), variance, rtol=0.2)
    assert regressor.sample_y(Z, 7).shape == (5, 7)


def test_log_density_is_that_of_the_mixture(regressor):
    y = np.zeros(5)
    expected = sum(
        weight * np.exp(own.log_predictive_density(Z, y))
        for weight, own in zip(regressor.kernel_weights_, regressor.estimators_, strict=True)
    )
    assert_allclose(regressor.log_predictive_density(Z, y), np.log(expected), rtol=1e-10)


@few_draws
def test_each_class_against_the_rest_has_weights_of_its_own():
    found = estimator(BayesianGPClassifier, FIXED, **FEW).fit(X, THREE)
    assert found.kernel_weights_.shape == (3, len(FIXED))
    assert_allclose(found.kernel_weights_.sum(axis=1), 1.0)
    p = np.empty((5, 3))
    for c, weights in enumerate(found.kernel_weights_):
        own = [member.estimators_[c].predict_proba(Z)[:, 1] for member in found.estimators_]
        p[:, c] = weights @ np.array(own)
    assert_allclose(found.predict_proba(Z), p / p.sum(axis=1, keepdims=True), rtol=1e-10)
    with pytest.raises(ValueError, match="is defined for two classes"):
        found.sample_latent(Z)


@pytest.mark.parametrize(
    ("kind", "y"),
    [
        (BayesianGPPoissonRegressor, COUNTS),
        (BayesianGPOrdinalClassifier, THREE),
        (BayesianGPVolatilityRegressor, Y - Y.mean()),
    ],
)
@few_draws
def test_every_estimator_predicts_with_an_average(kind, y):
    found = estimator(kind, FIXED[:2], **FEW).fit(X, y)
    point, quantiles = found.predict(Z, return_quantiles=[0.1, 0.9])
    assert len(point) == len(Z)
    assert np.all(np.asarray(quantiles[0], float) <= np.asarray(quantiles[1], float))
    assert np.isfinite(found.log_predictive_density(X, y)).all()


def test_a_softmax_averages_probabilities():
    found = estimator(BayesianGPClassifier, FIXED[:2], multi_class="softmax").fit(X, THREE)
    members = zip(found.kernel_weights_, found.estimators_, strict=True)
    expected = sum(weight * own.predict_proba(Z) for weight, own in members)
    assert_allclose(found.predict_proba(Z), expected, rtol=1e-9)


# --- what an average has, and what its members have -----------------------------------------------


def test_attributes_of_members_are_refused_by_name(binary):
    for name in ("theta_samples_", "latent_samples_", "diagnostics_", "kernel_", "priors_"):
        assert not hasattr(binary, name)
        with pytest.raises(AttributeError, match=rf"estimators_\[k\].{name}"):
            getattr(binary, name)
    for method in ("loo", "to_arviz"):
        with pytest.raises(ValueError, match=rf"estimators_\[k\].{method}"):
            getattr(binary, method)()
    with pytest.raises(ValueError, match="kernel k"):
        binary.log_evidence("ep")
    with pytest.raises(ValueError, match="one of its estimators_"):
        TraceDisplay.from_estimator(binary)
    with pytest.raises(AttributeError, match="no attribute 'nothing_'"):
        _ = binary.nothing_


@short_walks
def test_the_summary_names_the_kernel_and_the_class():
    found = estimator(BayesianGPClassifier, FREE, **OF_CLASSES).fit(X, THREE)
    names = list(found.summary().index)
    assert "k2__length_scale (kernel 1) (class 2)" in names
    assert len(names) == 2 * 3 * 2


def test_pickles_and_small_copies_predict_the_same(binary):
    expected = binary.predict_proba(Z)
    for copy in (binary, binary.for_prediction()):
        assert_array_equal(pickle.loads(pickle.dumps(copy)).predict_proba(Z), expected)


@short_walks
def test_draws_do_not_depend_on_the_number_of_workers():
    one = estimator(BayesianGPRegressor, FREE, **WALK).fit(X, Y)
    two = clone(one).set_params(n_jobs=2).fit(X, Y)
    assert_array_equal(one.kernel_weights_, two.kernel_weights_)
    assert_array_equal(one.predict(Z), two.predict(Z))


@short_walks
def test_a_warm_start_adds_draws_to_every_member():
    found = estimator(BayesianGPRegressor, FREE, **WALK | {"n_draws": 50}, max_rhat=2.0)
    first = [own.theta_samples_ for own in found.fit(X, Y).estimators_]
    found.set_params(warm_start=True, n_draws=80).fit(X, Y)
    for own, before in zip(found.estimators_, first, strict=True):
        assert own.theta_samples_.shape[1] == 80
        assert_array_equal(own.theta_samples_[:, :50], before)


@short_walks
def test_warm_start_refuses_other_kernels_and_keeps_the_earlier_fit():
    found = estimator(BayesianGPRegressor, FREE, **WALK, max_rhat=2.0)
    found.fit(X, Y)
    expected = found.predict(Z)
    found.set_params(warm_start=True, n_draws=40)
    for kernels, message in ((FREE[::-1], "changed since"), (FREE[:1], "2 kernels")):
        with pytest.raises(ValueError, match=message):
            found.set_params(kernel=kernels).fit(X, Y)
        assert_array_equal(found.predict(Z), expected)
        assert found.estimators_[0].theta_samples_.shape[1] == 20


@short_walks
def test_a_checkpoint_has_a_file_for_each_kernel(tmp_path):
    path = tmp_path / "chains"
    found = estimator(BayesianGPRegressor, FREE, **WALK, checkpoint=path).fit(X, Y)
    assert sorted(own.name for own in tmp_path.iterdir()) == ["chains.kernel0", "chains.kernel1"]
    again = clone(found).fit(X, Y)
    assert_array_equal(found.predict(Z), again.predict(Z))


@few_draws
def test_auto_prefers_the_linear_part_for_a_plane():
    y = X @ [1.0, 2.0] + 0.1 * np.random.default_rng(2).standard_normal(24)
    found = estimator(BayesianGPRegressor, "auto", **WALK | {"n_warmup": 200, "n_draws": 100})
    found.fit(X, y)
    assert np.argmax(found.kernel_weights_) == 2  # around a plane
    assert len(found.estimators_) == 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": []}, "no kernel to average"),
        ({"kernel": "rbf"}, '"auto"'),
        ({"kernel": FREE, "weights": "equal"}, "weights"),
        ({"kernel": FREE, "ard": True}, "ard=True"),
        ({"weights": "equal"}, "weights"),
        ({"kernel": FREE, "target_ess": "many"}, "target_ess"),
        ({"kernel": [ConstantKernel(), 3]}, "kernel"),
    ],
)
def test_invalid_lists_of_kernels_are_refused(settings, message):
    with pytest.raises((ValueError, InvalidParameterError), match=message):
        BayesianGPRegressor(**settings).fit(X, Y)
