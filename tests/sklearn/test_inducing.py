"""The parameter `covariance` of the estimators: an approximation by inducing inputs."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc import (
    BayesianGPBinomialRegressor,
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)

from ..helpers import in_one_test, short_chains

RNG = np.random.default_rng(0)
N = 20
X = RNG.uniform(size=(N, 2))
SIGNAL = np.sin(5.0 * X[:, 0]) + X[:, 1]
ROUGH = ConstantKernel() * Matern(nu=0.5)
SETTINGS = {
    "kernel": ROUGH,
    "covariance": "inducing",
    "n_inducing": 6,
    "random_state": 0,
    "n_chains": 2,
    "n_draws": 13,
    "target_ess": None,
}
FIXED = ConstantKernel(1.0, "fixed") * Matern(0.3, "fixed", nu=0.5)
TARGETS = {
    BayesianGPClassifier: (SIGNAL + 0.3 * RNG.standard_normal(N) > 0.8).astype(int),
    BayesianGPRegressor: SIGNAL + 0.3 * RNG.standard_normal(N),
    BayesianGPCountRegressor: RNG.poisson(np.exp(SIGNAL)),
    BayesianGPOrdinalClassifier: np.digitize(SIGNAL + 0.3 * RNG.standard_normal(N), [0.4, 1.0]),
    BayesianGPBinomialRegressor: (RNG.uniform(size=N) < 0.5).astype(int),
    BayesianGPVolatilityRegressor: 0.2 * RNG.standard_normal(N),
}


def fitted(kind, **changes):
    with short_chains(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**{**SETTINGS, **changes}).fit(X, TARGETS[kind])


@in_one_test("kind", TARGETS)
def test_every_estimator_has_draws_and_predictions_with_inducing_inputs(kind):
    model = fitted(kind)
    assert "covariance inducing (6 inputs, an approximation)" in str(model.diagnostics_)
    assert "covariance='inducing'" in repr(model)
    assert model.latent_samples_.shape == (2, 13, N)
    of = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    assert np.isfinite(of(X[:7])).all()
    assert np.isfinite(model.loo().elpd)


def test_pickle_predicts_the_same_and_the_evidence_is_estimated():
    model = fitted(BayesianGPClassifier)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict_proba(X[:7]), model.predict_proba(X[:7]))
    assert np.isfinite(model.log_evidence().value)


def test_all_inputs_as_inducing_inputs_predict_as_the_exact_model():
    exact, whole, few = (
        fitted(BayesianGPRegressor, n_draws=100, **own)
        for own in ({"covariance": "exact"}, {"n_inducing": N}, {"n_inducing": 5})
    )
    new = RNG.uniform(size=(20, 2))
    sd = exact.predict(new, return_std=True)[1].mean()
    expected = exact.predict(new)
    assert np.abs(whole.predict(new) - expected).max() < 0.1 * sd
    assert np.abs(few.predict(new) - expected).max() > 0.3 * sd


@in_one_test(
    "changes, message",
    [
        ({"covariance": "sparse"}, r"covariance must be one of \['exact', 'inducing'\]"),
        ({"n_inducing": 0}, "n_inducing must be an integer >= 1"),
        ({"sampler": "asis"}, 'does not work with sampler=Interweaving.* use sampler="pm"'),
        ({"sampler": "discretizing"}, 'does not work with sampler=.* use sampler="pm"'),
        ({"approximation": "laplace"}, 'approximation=Laplace: use approximation="ep"'),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_remedy(changes, message):
    with pytest.raises(ValueError, match=message):
        BayesianGPClassifier(**{**SETTINGS, **changes}).fit(X, TARGETS[BayesianGPClassifier])


def test_several_latent_functions_are_refused():
    y = np.arange(N) % 3
    with pytest.raises(ValueError, match='covariance="exact"'):
        BayesianGPClassifier(**SETTINGS, multi_class="softmax").fit(X, y)


def test_rows_that_share_a_residual_have_no_log_likelihoods_given_f():
    twice = np.concatenate([X[:12], X[:4]])
    y = np.arange(16) % 2
    with short_chains(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BayesianGPClassifier(**{**SETTINGS, "kernel": FIXED, "n_inducing": 3})
        model.fit(twice, y)
    with pytest.raises(ValueError, match=r'"psis" needs rows .* use method="integrated"'):
        model.loo("psis")
    assert np.isfinite(model.loo().elpd)
    groups = model.to_arviz(posterior_predictive=True).children
    assert "log_likelihood" not in groups
    assert set(np.unique(groups["posterior_predictive"]["y"])) == {0, 1}
    assert "log_likelihood" in fitted(BayesianGPClassifier).to_arviz().children


def test_fit_with_a_checkpoint_has_the_same_draws(tmp_path):
    plain, resumed = (
        fitted(BayesianGPClassifier, checkpoint=path, n_chains=1)
        for path in (None, tmp_path / "chains")
    )
    assert_array_equal(resumed.theta_samples_, plain.theta_samples_)


def test_new_targets_of_training_rows_contain_their_residuals():
    with short_chains(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quiet = {"kernel": FIXED, "alpha": 1e-6, "noise": "known", "normalize_y": False}
        model = BayesianGPRegressor(**{**SETTINGS, **quiet, "n_inducing": 1, "n_draws": 200})
        model.fit(X, np.zeros(N))
    new = model.to_arviz(posterior_predictive=True)["posterior_predictive"]["y"].to_numpy()
    expected = model.predict(X, return_std=True)[1]
    assert expected.max() > 0.5
    some = expected > 0.1  # the residual of the inducing input itself is zero
    assert some.sum() == N - 1
    assert np.abs(new.std(axis=(0, 1))[some] / expected[some] - 1.0).max() < 0.3


def test_warning_says_where_the_exact_covariance_is_as_cheap():
    line = {"kernel": ConstantKernel() * RBF(2.0), "n_inducing": 18}
    model = BayesianGPClassifier(**{**SETTINGS, **line})
    with (
        short_chains(),
        pytest.warns(UserWarning, match=r"may not be needed: \d+ inputs determine"),
    ):
        model.fit(X[:, :1], TARGETS[BayesianGPClassifier])
