"""Data frames with text: kernels on columns and on categories within estimators."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV, cross_val_score

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.kernels import Categorical, On
from skgpmcmc.samplers import Marginal, PseudoMarginal

from ..helpers import in_one_test, short_chains

RNG = np.random.default_rng(0)
EFFECT = {"clay": 0.0, "peat": -1.0, "sand": 1.0}
X = pd.DataFrame({"east": RNG.uniform(size=24), "soil": ["sand", "clay", "peat"] * 8})
Y = np.sin(5.0 * X["east"]) + X["soil"].map(EFFECT) + 0.1 * RNG.standard_normal(24)
NEW = pd.DataFrame({"east": [0.5, 0.5, 0.5], "soil": ["sand", "loam", "peat"]})
KERNEL = ConstantKernel() * On(RBF(), "east") + ConstantKernel() * Categorical("soil", np.ones(3))
SETTINGS = {"n_draws": 60, "target_ess": None, "n_chains": 2, "random_state": 0}
#: The same with chains that are set up at once.
WALK = {**SETTINGS, "n_warmup": 60}
OF_NUMBERS = {**WALK, "sampler": Marginal(moves="random_walk")}
OF_CLASSES = {**WALK, "sampler": PseudoMarginal(moves="random_walk"), "n_importance": 4}


def fitted(kernel=KERNEL, X=X, y=Y, kind=BayesianGPRegressor, settings=OF_NUMBERS):
    with short_chains():
        return kind(kernel, **settings).fit(X, y)


@pytest.fixture(scope="module")
def model():
    return fitted(settings=SETTINGS)


@pytest.fixture(scope="module")
def walked():
    return fitted()


def test_levels_have_names_and_new_ones_are_less_certain(model):
    names = [f"k2__k2__distance[{level}]" for level in EFFECT]
    assert model.hyperparameter_names_[3:6] == names
    assert repr(model.kernel_.k1.k2).endswith("'east')")
    mean, sd = model.predict(NEW, return_std=True)
    assert mean[0] - mean[2] == pytest.approx(2.0, abs=0.4)
    assert sd[1] > 2.0 * max(sd[0], sd[2])


def test_draws_of_two_rows_of_a_new_level_agree_and_those_of_two_new_levels_do_not(model):
    rows = pd.DataFrame({"east": [0.5, 0.5, 0.5], "soil": ["loam", "loam", "chalk"]})
    f = model.sample_latent(rows, n_draws=20, random_state=0)
    assert_allclose(f[0], f[1], atol=1e-3)
    assert np.abs(f[0] - f[2]).max() > 0.1


def test_predictions_of_a_row_do_not_depend_on_other_rows(model):
    alone = [model.predict(NEW.iloc[[k]])[0] for k in range(3)]
    assert_allclose(model.predict(NEW), alone, rtol=1e-10)


def test_kernel_of_a_fit_can_be_evaluated_at_the_data_frame(model):
    coded = X.assign(soil=X["soil"].map({level: k for k, level in enumerate(EFFECT)}))
    assert_array_equal(model.kernel_(X), model.kernel_(coded.to_numpy(dtype=float)))


@pytest.mark.parametrize("kind", ["polars", "category", "string", "objects", "numbers"])
def test_text_of_every_kind_gives_the_same_fit(walked, kind):
    positions = ConstantKernel() * On(RBF(), 0) + ConstantKernel() * Categorical(1, np.ones(3))
    numbers = {level: 10.0 * k for k, level in enumerate(EFFECT)}

    def convert(table):
        match kind:
            case "polars":
                return pl.DataFrame({name: table[name].tolist() for name in table})
            case "numbers":
                return table.assign(soil=table["soil"].map(numbers).fillna(7.0)).to_numpy()
            case "objects":
                return table.to_numpy()
        return table.assign(soil=table["soil"].astype(kind))

    named = KERNEL if hasattr(convert(X), "columns") else positions
    other = fitted(named, convert(X))
    assert_array_equal(other.theta_samples_, walked.theta_samples_)
    assert_allclose(other.predict(convert(NEW)), walked.predict(NEW), rtol=1e-12)


def test_copies_of_a_fit_keep_the_levels(model):
    for copy in (pickle.loads(pickle.dumps(model)), model.for_prediction()):
        assert_array_equal(copy.predict(NEW), model.predict(NEW))


def test_classifier_average_and_baseline_take_text():
    kernels = [KERNEL, ConstantKernel() * Categorical("soil")]
    labels = np.where(Y > 0, "high", "low")
    average = fitted(kernels, y=labels, kind=BayesianGPClassifier, settings=OF_CLASSES)
    assert average.predict_proba(NEW).shape == (3, 2)
    baseline = EPMLClassifier(kernels[1], n_restarts=0).fit(X, labels)
    assert baseline.predict(NEW)[[0, 2]].tolist() == ["high", "low"]


def test_columns_and_distances_can_be_searched():
    single = ConstantKernel() * Categorical("soil")
    grid = {"kernel__k2__distance_bounds": ["fixed", (1e-5, 1e5)], "kernel__k2__columns": ["soil"]}
    with short_chains():
        search = GridSearchCV(BayesianGPRegressor(single, **OF_NUMBERS), grid, cv=2).fit(X, Y)
        scores = cross_val_score(search.best_estimator_, X, Y, cv=3)
    assert search.best_score_ > 0.3
    assert scores.min() > 0.0


@in_one_test(
    "table, message",
    [
        (X.assign(soil=1.0), "column 'soil' of X has numbers, and had text in fit"),
        (X.assign(soil=[None, *X["soil"][1:]]), "column 'soil' of X has nan in row 0"),
        (X[["soil", "east"]], "feature names should match"),
        (X[["east"]], "feature names|1 features"),
    ],
)
def test_wrong_rows_to_predict_are_refused(model, table, message):
    with pytest.raises(ValueError, match=message):
        model.predict(table)


@in_one_test(
    "kernel, table, message",
    [
        (KERNEL, X.assign(soil=[np.nan, *X["soil"][1:]]), "has nan in row 0"),
        (KERNEL, X.assign(soil=[1, *X["soil"][1:]]), "mixes text and other labels"),
        (Categorical("soil", np.ones(2)), X, r"2 distances and the levels \['clay'"),
        (On(RBF(), "soil"), X, "could not convert string"),
        (On(RBF(), "est"), X[["east"]], "'est', which is not among the columns"),
        (On(RBF(), "east"), X.to_numpy()[:, :1], "X has no names.*set_output"),
        (
            On(RBF(np.ones(2)), "east"),
            X[["east"]].assign(west=0.0),
            "2 elements but its On.* selects 1",
        ),
        ("auto", X, "could not convert string"),
    ],
)
def test_wrong_tables_and_kernels_are_refused(kernel, table, message):
    with pytest.raises(ValueError, match=message):
        BayesianGPRegressor(kernel, **SETTINGS).fit(table, Y)


def test_failed_fit_leaves_the_levels_of_the_earlier_one(model):
    copy = pickle.loads(pickle.dumps(model))
    with pytest.raises(ValueError, match="mixes text"):
        copy.fit(X.assign(soil=[1, *X["soil"][1:]]), Y)
    assert_array_equal(copy.predict(NEW), model.predict(NEW))
