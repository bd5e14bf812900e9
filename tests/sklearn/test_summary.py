"""`summary()`: the posterior of each hyper-parameter in numbers, and what has not converged."""

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPOrdinalClassifier, BayesianGPRegressor
from skgpmcmc.run.summary import PosteriorSummary
from skgpmcmc.samplers import Marginal, PseudoMarginal

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.standard_normal((24, 2)), columns=["age", "bmi"])
Y = 30.0 * np.sin(X["age"]) + 5.0 * RNG.standard_normal(24) + 100.0
SHORT = {"n_draws": 20, "target_ess": None, "n_chains": 2, "random_state": 0}
#: The same with chains that are set up at once: of regression, and of other likelihoods.
WALK = {**SHORT, "n_warmup": 10, "sampler": Marginal(moves="random_walk")}
OTHERS = {**WALK, "sampler": PseudoMarginal(moves="random_walk"), "n_importance": 4}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def regressor():
    with pytest.warns(Warning, match="converged"):
        return BayesianGPRegressor(ard=True, **SHORT).fit(X, Y)


def test_summary_rows_have_the_names_of_features(regressor):
    names = ["k1__constant_value", "k2__length_scale[age]", "k2__length_scale[bmi]", "noise_scale"]
    assert regressor.hyperparameter_names_ == names
    assert list(regressor.summary().index) == names
    assert regressor.diagnostics_.names == names
    assert "k2__length_scale[bmi]" in str(regressor.diagnostics_)


def test_feature_names_are_used_only_for_vectors_with_an_element_per_feature():
    model = BayesianGPRegressor(**WALK).fit(X[["age"]], Y)
    assert model.hyperparameter_names_[1] == "k1__k2__length_scale"
    plain = BayesianGPRegressor(ard=True, **WALK).fit(X.to_numpy(), Y)
    assert plain.hyperparameter_names_[1] == "k2__length_scale[0]"
    softmax = BayesianGPClassifier(ard=True, multi_class="softmax_separate", **OTHERS)
    names = softmax.fit(X, np.arange(24) % 3).hyperparameter_names_
    assert "k2__length_scale[bmi][2]" in names


def test_summary_is_on_the_natural_scale_with_noise_in_units_of_y(regressor):
    frame = regressor.summary()
    values = np.exp(regressor.theta_samples_).reshape(-1, 4) * [1.0, 1.0, 1.0, Y.std(ddof=0)]
    assert_allclose(frame["mean"], values.mean(axis=0))
    assert_allclose(frame["sd"], values.std(axis=0))
    quantiles = np.quantile(values, [0.05, 0.5, 0.95], axis=0)
    assert_allclose(frame[["5%", "median", "95%"]].T, quantiles)
    assert 1.0 < frame.loc["noise_scale", "mean"] < 20.0
    for name in ("r_hat", "ess_bulk", "ess_tail"):
        assert_array_equal(frame[name], getattr(regressor.diagnostics_, name))


def test_summary_does_not_exponentiate_values_that_may_be_negative():
    model = BayesianGPOrdinalClassifier(**OTHERS).fit(X, np.arange(24) % 3)
    draws = model.theta_samples_
    positive = model._predictor.model.hyperprior.positive
    (place,) = np.flatnonzero(~positive)
    assert_allclose(model.summary()["mean"].iloc[place], draws[..., place].mean())


def test_summary_of_one_vs_rest_has_rows_for_every_class():
    labels = np.array(["a", "b", "c"])[np.arange(24) % 3]
    model = BayesianGPClassifier(**OTHERS).fit(X, labels)
    rows = list(model.summary().index)
    assert rows[:2] == ["k1__k1__constant_value (class a)", "k1__k2__length_scale (class a)"]
    assert len(rows) == 9
    assert_array_equal(model.summary()["mean"][3:6], model.estimators_[1].summary()["mean"])


def test_summary_frame_is_printed_whole_and_its_slices_are_plain_frames(regressor):
    frame = regressor.summary()
    assert isinstance(frame, pd.DataFrame)
    assert type(frame[:2]) is pd.DataFrame
    lines = str(frame).splitlines()
    assert len(lines) == 5
    assert lines[0].split() == list(frame.columns)
    assert str(pickle.loads(pickle.dumps(frame))) == str(frame)


def test_html_tables_mark_values_that_have_not_converged(regressor):
    for table in (regressor.summary(), regressor.diagnostics_):
        assert "font-weight: bold" in table._repr_html_()
    goal = regressor.set_params(max_rhat=2.0).summary()
    assert goal._repr_html_().count("font-weight") < regressor.diagnostics_._repr_html_().count(
        "font-weight"
    )
    regressor.set_params(max_rhat=1.01)


def test_html_tables_escape_names():
    frame = pd.DataFrame(X.to_numpy(), columns=["<a>", "b"])
    model = BayesianGPRegressor(ard=True, **WALK).fit(frame, Y)
    for table in (model.summary(), model.diagnostics_):
        assert "&lt;a&gt;" in table._repr_html_()
        assert "<a>" not in table._repr_html_()


def test_summary_without_pandas_prints_the_same_table(regressor, monkeypatch):
    text = str(regressor.summary())
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.delitem(sys.modules, "skgpmcmc.run.summary_frame")
    table = regressor.summary()
    assert isinstance(table, PosteriorSummary)
    assert str(table) == text


def test_summary_has_no_rows_of_fixed_hyper_parameters():
    kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    model = BayesianGPClassifier(kernel, **SHORT).fit(X, np.arange(24) % 2)
    assert model.summary().shape == (0, 8)
    assert "ess_tail" in str(model.summary())
    assert model.summary()._repr_html_().count("<tr>") == 1
