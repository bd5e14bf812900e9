"""Nested parameters, data frames, labels, several classes, and fitted attributes."""

import pickle
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.samplers import Marginal, PseudoMarginal
from skgpmcmc.transitions.rotation import MOST_ROTATED

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BINARY_ATTRIBUTES = (
    "theta_samples_",
    "latent_samples_",
    "kernel_",
    "priors_",
    "hyperparameter_names_",
)


def quick(**changes):
    settings = {
        "n_chains": 2,
        "n_warmup": 8,
        "n_draws": 8,
        "sampler": PseudoMarginal(moves="random_walk"),  # set up at once
        "approximation": "laplace",
        "priors": "paper",
        "n_importance": 4,
        "random_state": 0,
    }
    return BayesianGPClassifier(**{**settings, **changes})


def moons(n=24):
    return make_moons(n, noise=0.15, random_state=0)


def small_iris():
    iris = load_iris()
    return iris.data[::7], iris.target[::7], iris.target_names


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(*moons())


@pytest.fixture(scope="module")
def fitted_iris():
    X, y, names = small_iris()
    settings = {"sampler": "pm", "n_warmup": 3, "approximation": "auto", "priors": None}
    settings["kernel"] = ConstantKernel() * RBF()
    return quick(**settings).fit(X, names[y]), X, names[y]


def fitted_names(estimator):
    return {name for name in vars(estimator) if name.endswith("_")}


# --- nested parameters ----------------------------------------------------------------------------


@pytest.mark.statistical
def test_grid_search_runs_over_samplers_approximations_and_their_fields():
    X, y = moons(20)
    defensive = PseudoMarginal(defensive=0.2, moves="random_walk")
    grid = [
        {"sampler": ["pm", "marginal", Marginal(target_acceptance=0.4), defensive]},
        {"sampler": [PseudoMarginal(moves="random_walk")], "sampler__defensive": [0.0, 0.5]},
        {"approximation": ["auto", "ep", "laplace", Laplace()]},
        {"approximation": [EP()], "approximation__tol": [1e-1, 1e-4]},
        {"kernel": [None, ConstantKernel() * RBF([1.0, 1.0]), Matern(nu=1.5) + WhiteKernel()]},
        {"kernel": [ConstantKernel() * RBF()], "kernel__k2__length_scale": [0.1, 3.0]},
    ]
    base = quick(n_warmup=4, n_draws=6)
    search = GridSearchCV(base, grid, scoring="neg_log_loss", cv=2, error_score="raise").fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert len(scores) == 4 + 2 + 4 + 2 + 3 + 2
    assert np.isfinite(scores).all()
    assert_allclose(search.predict_proba(X).sum(axis=1), 1.0)
    # What names the same thing scores the same, the objects of the grid are as they were.
    params = search.cv_results_["params"]
    named = {str(p): score for p, score in zip(params, scores, strict=True)}
    assert named["{'approximation': 'laplace'}"] == named[str({"approximation": Laplace()})]
    assert named["{'approximation': 'auto'}"] == named["{'approximation': 'ep'}"]
    assert defensive.defensive == 0.2
    assert grid[1]["sampler"][0].defensive == PseudoMarginal().defensive
    assert grid[3]["approximation"][0].tol == EP().tol


WALK = {"sampler": PseudoMarginal(moves="random_walk")}


@pytest.mark.parametrize(
    ("start", "nested", "direct"),
    [
        (
            WALK,
            {"sampler__defensive": 0.5},
            {"sampler": PseudoMarginal(moves="random_walk", defensive=0.5)},
        ),
        (
            {"sampler": Marginal()},
            {"sampler__moves": "random_walk"},
            {"sampler": Marginal(moves="random_walk")},
        ),
        (
            {"approximation": EP(), "sampler": Marginal(moves="random_walk")},
            {"approximation__tol": 1.0},
            {"approximation": EP(tol=1.0)},
        ),
        (
            {"sampler": PseudoMarginal(), "n_importance": "auto"},
            {"sampler__noise": 0.02},
            {"sampler": PseudoMarginal(noise=0.02)},
        ),
    ],
)
def test_nested_parameters_reach_the_chains(start, nested, direct):
    X, y = moons(8)
    plain = quick(**start).fit(X, y)
    through_name = clone(plain).set_params(**nested).fit(X, y)
    through_object = quick(**{**start, **direct}).fit(X, y)
    assert_array_equal(through_name.theta_samples_, through_object.theta_samples_)
    assert_array_equal(through_name.latent_samples_, through_object.latent_samples_)
    assert not np.array_equal(through_name.latent_samples_, plain.latent_samples_)


class Watched(Laplace):
    """Laplace that remembers what it was asked for, at which tolerance."""

    asked = ()

    def fit(self, model, theta, start=None):
        Watched.asked += (("fit", self.tol),)
        return super().fit(model, theta, start)

    def gradient(self, model, fit):
        Watched.asked += (("gradient", self.tol),)
        return super().gradient(model, fit)


def test_set_up_uses_the_class_of_a_custom_approximation(monkeypatch):
    """The set-up asks for a finer version of it, which is of its class."""
    monkeypatch.setattr(Watched, "asked", ())
    settings = {"sampler": PseudoMarginal(), "n_draws": 2, "n_warmup": 2}
    quick(approximation=Watched(tol=0.01), **settings).fit(*moons(12))
    assert {("fit", 1e-4), ("gradient", 1e-4)} <= set(Watched.asked)


def test_nested_parameters_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="PseudoMarginal has no parameter 'share'"):
        quick(sampler=PseudoMarginal()).set_params(sampler__share=0.1)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_a_pickle_of_a_large_fit_takes_less_than_ten_megabytes():
    """With 4 x 100 draws at n = 768 it takes less than 10 MB; nearly all of it grows with n."""
    n = 256
    X, y = make_moons(n, noise=0.3, random_state=0)
    settings = {"sampler": "pm", "n_importance": "auto", "max_predict_draws": 100}
    model = quick(**settings, n_chains=4, n_draws=25).fit(X, y)
    assert len(model._predictor.theta) == 100
    more_draws = 300 * 8 * n
    assert (len(pickle.dumps(model)) + more_draws) * 768 / n < 10e6


def test_memory_mapped_estimator_predicts_the_same(fitted, tmp_path):
    X, _ = moons()
    joblib.dump(fitted, tmp_path / "model.joblib")
    mapped = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert_array_equal(mapped.predict_proba(X), fitted.predict_proba(X))


# --- data frames and labels -----------------------------------------------------------------------


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_data_frames_give_names_that_predictions_must_have(frame, fitted):
    X, y = moons()
    model = quick().fit(frame({"east": X[:, 0], "north": X[:, 1]}), y)
    assert_array_equal(model.feature_names_in_, ["east", "north"])
    assert_array_equal(model.theta_samples_, fitted.theta_samples_)
    right = frame({"east": X[:, 0], "north": X[:, 1]})
    assert_array_equal(model.predict_proba(right), fitted.predict_proba(X))
    with pytest.raises(ValueError, match="in the same order as they were in fit"):
        model.predict_proba(frame({"north": X[:, 1], "east": X[:, 0]}))
    with pytest.raises(ValueError, match=r"seen at fit time, yet now missing:\s+- north"):
        model.predict(frame({"east": X[:, 0], "south": X[:, 1]}))
    with pytest.raises(ValueError, match="feature names"):
        model.latent_mean_and_variance(frame({"a": X[:, 0], "b": X[:, 1]}))
    with pytest.raises(ValueError, match="feature names"):
        model.sample_latent(frame({"a": X[:, 0], "b": X[:, 1]}))
    # Names go when a later fit has none.
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize("column", [pd.Series, pl.Series], ids=["pandas", "polars"])
def test_labels_may_be_a_column_of_a_table(column, fitted):
    X, y = moons()
    model = quick().fit(X, column(np.array(["a", "b"])[y].tolist()))
    assert_array_equal(model.classes_, ["a", "b"])
    density = model.log_predictive_density(X, column(["b"] * len(X)))
    assert_array_equal(density, fitted.predict_log_proba(X)[:, 1])


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["spam", "ham"]),
        np.array(["spam", "ham"], dtype=object),
        np.array([-7, 40]),
        np.array([40, -7]),
        np.array([False, True]),
        np.array([1.0, 2.0]),
    ],
    ids=["strings", "objects", "gaps", "descending", "booleans", "floats"],
)
def test_predictions_return_labels_of_the_given_type(labels, fitted):
    X, y = moons()
    model = quick().fit(X, labels[y])
    assert_array_equal(model.classes_, np.sort(labels))
    assert model.classes_.dtype == labels.dtype
    predicted = model.predict(X)
    assert predicted.dtype == labels.dtype
    assert np.mean(predicted == labels[y]) > 0.9
    proba = model.predict_proba(X)
    assert_array_equal(predicted, model.classes_[proba.argmax(axis=1)])
    if labels[0] < labels[1]:  # the same targets, so the same draws
        assert_array_equal(proba, fitted.predict_proba(X))
    column = np.searchsorted(model.classes_, labels[y])
    at_labels = model.predict_log_proba(X)[np.arange(len(X)), column]
    assert_array_equal(model.log_predictive_density(X, labels[y]), at_labels)


# --- more than two classes ------------------------------------------------------------------------


def test_one_vs_rest_normalizes_probabilities_of_binary_models(fitted_iris):
    model, X, y = fitted_iris
    assert_array_equal(model.classes_, ["setosa", "versicolor", "virginica"])
    assert len(model.estimators_) == 3
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), 3)
    assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert proba.min() > 0.0
    assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    assert model.score(X, y) > 0.9
    assert_allclose(np.exp(model.predict_log_proba(X)), proba)
    position = np.searchsorted(model.classes_, y)
    density = model.log_predictive_density(X, y)
    assert_array_equal(density, model.predict_log_proba(X)[np.arange(len(X)), position])
    # Probabilities are those of the binary problems, normalized.
    one = np.stack([binary.predict_proba(X)[:, 1] for binary in model.estimators_], axis=1)
    assert_allclose(proba, one / one.sum(axis=1, keepdims=True), rtol=1e-12)


def test_one_vs_rest_has_a_fitted_binary_estimator_for_each_class(fitted_iris):
    model, X, y = fitted_iris
    for label, binary in zip(model.classes_, model.estimators_, strict=True):
        assert isinstance(binary, BayesianGPClassifier)
        assert binary.theta_samples_.shape == (2, 8, 2)
        assert binary.latent_samples_.shape == (2, 8, len(X))
        # The class against the rest: its latent function is higher on its own rows.
        mean, _ = binary.latent_mean_and_variance(X)
        assert mean[y == label].min() > mean[y != label].mean()


def test_one_vs_rest_error_names_where_binary_attributes_are(fitted_iris):
    model, X, _ = fitted_iris
    for name in BINARY_ATTRIBUTES:
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=rf"estimators_\[k\]\.{name}"):
            getattr(model, name)
    for method in ("latent_mean_and_variance", "sample_latent"):
        with pytest.raises(ValueError, match=rf"estimators_\[k\]\.{method}"):
            getattr(model, method)(X)


@pytest.mark.parametrize("name", [*BINARY_ATTRIBUTES, "estimators_", "no_such_thing"])
def test_unfitted_estimators_have_no_fitted_attributes(name):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'"):
        getattr(quick(), name)


def test_one_vs_rest_diagnostics_join_those_of_the_binary_estimators(fitted_iris):
    model, *_ = fitted_iris
    diagnostics = model.diagnostics_
    assert diagnostics.classes == [name for name in model.classes_.tolist() for _ in range(2)]
    assert diagnostics.names == ["k1__constant_value", "k2__length_scale"] * 3
    binary = [estimator.diagnostics_ for estimator in model.estimators_]
    for name in ("r_hat", "ess_bulk", "ess_tail", "mcse_mean", "log_likelihood_sd"):
        together = np.concatenate([getattr(part, name) for part in binary])
        assert_array_equal(getattr(diagnostics, name), together)
    assert set(diagnostics.acceptance_rate) == set().union(*(p.acceptance_rate for p in binary))
    for move, rates in diagnostics.acceptance_rate.items():
        missing = np.full(2, np.nan)
        parts = [part.acceptance_rate.get(move, missing) for part in binary]
        assert_array_equal(rates, np.concatenate(parts))
    assert diagnostics.emulators == [part.emulators[0] for part in binary]
    for name in ("n_cubic", "n_likelihood_evaluations", "n_sampling_evaluations", "n_failed"):
        parts = sum(getattr(part, name) for part in binary)
        assert getattr(diagnostics, name) == pytest.approx(parts, rel=1e-12)
    table = str(diagnostics)
    assert all(f"k2__length_scale (class {name})" in table for name in model.classes_)


def test_refit_with_another_number_of_classes_leaves_no_old_attributes():
    X, y, _ = small_iris()
    model = quick()
    three = fitted_names(model.fit(X, y))
    assert three == {"estimators_", "diagnostics_", "classes_", "n_iter_", "n_features_in_"}
    two = fitted_names(model.fit(X[y < 2], y[y < 2]))
    assert two == {*BINARY_ATTRIBUTES, "diagnostics_", "classes_", "n_iter_", "n_features_in_"} - {
        "latent_samples_"  # made of the draws when asked for
    }
    assert not hasattr(model, "estimators_")
    assert model.diagnostics_.classes is None
    assert model.predict_proba(X).shape == (len(X), 2)
    assert fitted_names(model.fit(X, y)) == three
    assert "_predictor" not in vars(model)  # but those of `estimators_`
    assert model.predict_proba(X).shape == (len(X), 3)


# --- fitted attributes ----------------------------------------------------------------------------

NARROW = stats.lognorm(0.3)  # under which a set-up takes less
DEFAULT_NAMES = ["k1__k1__constant_value", "k1__k2__length_scale", "k2__slope_variance"]
KERNELS = [
    ({}, ["k1__constant_value", "k2__length_scale"]),  # with the papers' priors
    ({"priors": dict.fromkeys(DEFAULT_NAMES, NARROW)}, DEFAULT_NAMES),
    (
        {"ard": True, "priors": dict.fromkeys(("constant_value", "length_scale"), NARROW)},
        ["k1__constant_value", "k2__length_scale[0]", "k2__length_scale[1]"],
    ),
    (
        {"kernel": ConstantKernel(2.0, "fixed") * RBF([0.5, 1.0])},
        ["k2__length_scale[0]", "k2__length_scale[1]"],
    ),
    ({"kernel": ConstantKernel() * Matern(2.0, "fixed", nu=2.5)}, ["k1__constant_value"]),
    ({"kernel": Matern() + WhiteKernel(0.1)}, ["k1__length_scale", "k2__noise_level"]),
    ({"kernel": RBF()}, ["length_scale"]),
]


@pytest.mark.parametrize(("parameters", "names"), KERNELS)
def test_fitted_attributes_follow_the_free_hyper_parameters(parameters, names):
    X, y = moons(12)
    model = quick(sampler="pm", n_importance=8, **parameters).fit(X, y)
    assert model.hyperparameter_names_ == model.diagnostics_.names == names
    assert model.theta_samples_.shape == (2, 8, len(names))
    assert model.latent_samples_.shape == (2, 8, len(X))
    assert np.isfinite(model.theta_samples_).all()
    assert np.isfinite(model.latent_samples_).all()
    assert model.n_iter_ == 16
    assert list(model.priors_) == list(dict.fromkeys(name.split("[")[0] for name in names))
    if "priors" in parameters:
        assert all(prior is NARROW for prior in model.priors_.values())
    # The posterior mean on the log scale, every fixed value where it was.
    assert_allclose(model.kernel_.theta, model.theta_samples_.mean(axis=(0, 1)))
    start = model.kernel if model.kernel is not None else model.kernel_
    assert type(model.kernel_) is type(start)
    for hyperparameter in start.hyperparameters:
        if hyperparameter.fixed:
            fixed = model.kernel_.get_params()[hyperparameter.name]
            assert fixed == start.get_params()[hyperparameter.name]
    check_diagnostics_of_emulated_moves(model)


def check_diagnostics_of_emulated_moves(model):
    """Rates are shares, evaluations are counted, and the emulator is reported."""
    diagnostics, p = model.diagnostics_, len(model.hyperparameter_names_)
    main = "rotation" if p <= MOST_ROTATED else "surrogate"
    moves = set(diagnostics.acceptance_rate)
    assert {main} <= moves <= {"rotation", "surrogate", "random walk", "refresh"}
    for rates in diagnostics.acceptance_rate.values():
        assert rates.shape == (2,)
        assert not ((rates < 0.0) | (rates > 1.0)).any()  # NaN where a chain made no such move
    # Every iteration evaluates the likelihood once, apart from refreshes.
    counts = model._sampling.run.models[0].draws.chain_counts
    n_refreshes = sum(own.n_steps.get("refresh", 0) for own in counts)
    assert diagnostics.n_sampling_evaluations >= 2 * 8 - n_refreshes
    assert diagnostics.n_likelihood_evaluations > diagnostics.n_sampling_evaluations + 2 * 8
    assert 0.0 < diagnostics.sampling_operations.total < diagnostics.n_cubic
    (report,) = diagnostics.emulators
    assert report.n_importance == (8, 8)
    assert report.n_design > 0
    assert 0.0 <= report.predicted_acceptance <= 1.0


def test_bounds_are_ignored_unless_fixed():
    X, y = moons()
    narrow = ConstantKernel(1.0, (0.99, 1.01)) * RBF(1.0, (0.99, 1.01))
    with pytest.warns(UserWarning, match="Bounds of kernel hyper-parameters have no effect"):
        with_bounds = quick(kernel=narrow).fit(X, y)
    without = quick().fit(X, y)
    assert_array_equal(with_bounds.theta_samples_, without.theta_samples_)


@pytest.mark.parametrize("sampler", ["pm", "marginal"])
def test_fit_with_all_hyper_parameters_fixed_has_draws_of_f_alone(sampler):
    X, y = moons()
    kernel = ConstantKernel(4.0, "fixed") * RBF(0.7, "fixed")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quick(kernel=kernel, sampler=sampler, n_importance=64).fit(X, y)
    assert model.theta_samples_.shape == (2, 8, 0)
    assert model.latent_samples_.shape == (2, 8, len(X))
    assert model.hyperparameter_names_ == []
    assert model.priors_ == {}
    assert model.kernel_ == kernel
    assert len(np.unique(model.latent_samples_[:, :, 0])) > 8
    assert model.diagnostics_.r_hat.shape == (0,)
    assert "acceptance" in str(model.diagnostics_)
    assert model.score(X, y) > 0.9
