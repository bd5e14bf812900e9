"""Display of predictions along one input: what is drawn, for which estimators."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgpmcmc import (
    BayesianGPBinomialRegressor,
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
)
from skgpmcmc.displays import PredictionDisplay
from skgpmcmc.kernels import Categorical, On
from skgpmcmc.likelihoods import BetaBinomial, Binomial, PsychometricProbit

from ...helpers import short_chains

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

QUICK = {
    **{"kernel": ConstantKernel(2.0, "fixed") * RBF(0.8, "fixed"), "n_chains": 1},
    **{"n_draws": 20, "target_ess": None, "random_state": 0},
}
#: For what takes long with many draws.
FEW = {**QUICK, "sampler": "sa", "n_warmup": 1, "n_draws": 2}
RNG = np.random.default_rng(0)
X = np.column_stack([np.linspace(0.0, 4.0, 20), RNG.standard_normal(20)])
F = np.sin(2.0 * X[:, 0])
REAL = 5.0 + F + 0.1 * RNG.standard_normal(20)
EXPOSURE = np.repeat([1.0, 2.0, 4.0, 2.0], 5)
COUNTS = RNG.poisson(EXPOSURE * np.exp(1.0 + F))
TRIALS = np.repeat([3.0, 8.0, 8.0, 20.0], 5)
SUCCESSES = RNG.binomial(TRIALS.astype(int), 0.5 + 0.4 * F)
LABELS = np.where(F + 0.3 * RNG.standard_normal(20) > 0.0, "yes", "no")
#: The first input runs, and the second has its median.
GRID = np.column_stack([np.linspace(0.0, 4.0, 4), np.full(4, np.median(X[:, 1]))])
ENDS = [0.1, 0.9]
ASKED = {"coverage": 0.8, "grid_resolution": 4}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@short_chains()
def fitted(cls, y, rows=X, **arguments):
    return cls(**QUICK).fit(rows, y, **arguments)


@pytest.fixture(scope="module")
def regressor():
    return fitted(BayesianGPRegressor, REAL)


def assert_drawn(display):
    """The artists show what the display holds."""
    assert_array_equal(display.line_.get_xdata(), display.grid)
    assert_array_equal(display.line_.get_ydata(), display.mean)
    ends = display.function_band_.get_paths()[0].vertices[:, 1]
    assert (ends.min(), ends.max()) == (display.function.min(), display.function.max())
    assert (display.target_band_ is None) == (display.targets is None)
    assert (display.points_ is None) == (display.observed is None)
    assert display.figure_ is display.ax_.figure


def test_numbers_have_intervals_of_the_function_and_of_new_targets(regressor):
    display = PredictionDisplay.from_estimator(regressor, X, REAL, **ASKED)
    mean, targets = regressor.predict(GRID, return_quantiles=ENDS)
    assert_allclose(display.grid, GRID[:, 0])
    assert_allclose(display.mean, mean)
    assert_allclose(display.targets, targets)
    for low_or_high, probability in zip(display.function, ENDS, strict=True):
        above = [regressor.exceedance_proba(GRID, v)[i] for i, v in enumerate(low_or_high)]
        assert_allclose(above, 1.0 - probability, atol=1e-4)
    assert_array_equal(display.observed, [X[:, 0], REAL])
    assert display.ax_.get_xlabel() == "Feature 0"
    assert_drawn(display)


def test_counts_are_per_unit_of_exposure():
    with short_chains():
        est = BayesianGPCountRegressor(**FEW).fit(X, COUNTS, exposure=EXPOSURE)
    display = PredictionDisplay.from_estimator(est, X, COUNTS, exposure=EXPOSURE, **ASKED)
    mean, rate = est.predict_rate(GRID, return_quantiles=ENDS)
    _, counts = est.predict(GRID, exposure=np.full(4, 2.0), return_quantiles=ENDS)
    assert_allclose(display.mean, mean)
    assert_allclose(display.function, rate)
    assert_allclose(display.targets, counts / 2.0)
    assert_allclose(display.observed[1], COUNTS / EXPOSURE)
    assert display.ylabel == "Count per unit of exposure"
    assert_drawn(display)


@pytest.mark.parametrize("likelihood", [Binomial(), BetaBinomial(4.0, fixed=True)])
def test_successes_are_shares_of_trials(likelihood):
    with short_chains():
        est = BayesianGPBinomialRegressor(likelihood=likelihood, **FEW)
        est.fit(X, SUCCESSES, trials=TRIALS)
    display = PredictionDisplay.from_estimator(est, X, SUCCESSES, trials=TRIALS, **ASKED)
    mean, probability = est.predict(GRID, return_quantiles=ENDS)
    assert_allclose(display.mean, mean)
    assert_allclose(display.function, probability)
    assert_allclose(display.observed[1], SUCCESSES / TRIALS)
    assert_allclose(display.targets * 8.0, np.rint(display.targets * 8.0), atol=0.9)
    assert np.all(display.targets[0] <= display.function[1])
    if isinstance(likelihood, Binomial):
        _, counts = est.predict(GRID, trials=np.full(4, 8.0), return_quantiles=ENDS)
        assert_allclose(display.targets, counts / 8.0)
    assert_drawn(display)


def test_two_classes_have_the_probability_of_the_last():
    est = fitted(BayesianGPClassifier, LABELS)
    display = PredictionDisplay.from_estimator(est, X, LABELS, **ASKED)
    assert_allclose(display.mean, est.predict_proba(GRID)[:, 1])
    draws = est.sample_latent(GRID, 4000)
    for ends, probability in zip(display.function, ENDS, strict=True):
        assert_allclose(np.mean(ndtr(draws) < ends[:, None], axis=1), probability, atol=0.06)
    assert display.targets is None
    assert_array_equal(display.observed[1], LABELS == "yes")
    assert display.ylabel == "Probability of yes"
    assert_drawn(display)


def test_band_of_a_class_is_over_the_rates_of_lapses_of_all_draws():
    """The rate that the chains start at is far from all of them, and so is its band."""
    settings = {**QUICK, "sampler": "sa", "n_warmup": 50, "n_draws": 60}
    observer = PsychometricProbit(0.1, 0.001)
    model = BayesianGPClassifier(**settings, likelihood=observer, max_predict_draws=None)
    y = np.arange(200) % 10 < 7
    rows = np.repeat(X, 10, axis=0)
    with short_chains():
        model.fit(rows, y)
    display = PredictionDisplay.from_estimator(model, rows, y, **ASKED)
    f = model.sample_latent(GRID, 4000, random_state=0)

    def band(odds):
        """Given the odds of a lapse, the probability is 0.1 + 0.9 Phi(f) / (1 + odds)."""
        return np.quantile(0.1 + 0.9 * ndtr(f) / (1.0 + odds), ENDS, axis=1)

    odds = np.exp(model.theta_samples_[0, :, -1])
    assert_allclose(display.function, band(np.median(odds)), atol=0.06)
    assert np.abs(display.function - band(0.001)).max() > 0.1


def test_a_pipeline_is_drawn_in_the_units_of_its_input_and_by_names():
    frame = pd.DataFrame(100.0 * X, columns=["mass", "age"])
    with short_chains():
        pipeline = make_pipeline(StandardScaler(), BayesianGPRegressor(**QUICK)).fit(frame, REAL)
    display = PredictionDisplay.from_estimator(pipeline, frame, feature="age", **ASKED)
    ends = frame["age"].min(), frame["age"].max()
    table = pd.DataFrame({"mass": np.median(frame["mass"]), "age": np.linspace(*ends, 4)})
    assert_allclose(display.mean, pipeline.predict(table))
    assert display.observed is None
    assert display.ax_.get_xlabel() == "age"
    assert_drawn(display)


SOIL = np.array(["sand", "clay", "sand", "peat"] * 5)
#: Numbers of groups whose median is no group.
GROUP = np.array([1, 1, 7, 9] * 5)
BY_KIND = On(RBF(0.8, "fixed"), 0) + Categorical(1, 0.5, "fixed") + Categorical(2, 0.4, "fixed")


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, None])
def test_levels_of_text_have_bars_and_other_columns_are_held_at_levels(library):
    columns = {"depth": X[:, 0], "soil": SOIL, "group": GROUP}
    rows = library(columns) if library else np.array([*columns.values()], dtype=object).T
    with short_chains():
        est = BayesianGPRegressor(**{**QUICK, "kernel": BY_KIND}).fit(rows, REAL)
    display = PredictionDisplay.from_estimator(est, rows, REAL, feature=1, coverage=0.8)
    assert_array_equal(display.grid, ["clay", "peat", "sand"])
    asked = {"depth": np.full(3, np.median(X[:, 0])), "soil": display.grid, "group": np.ones(3)}
    table = library(asked) if library else np.array([*asked.values()], dtype=object).T
    mean, targets = est.predict(table, return_quantiles=ENDS)
    assert_allclose(display.mean, mean)
    assert_allclose(display.targets, targets)
    assert_array_equal(display.observed[0][:4], [2, 0, 2, 1])
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["clay", "peat", "sand"]
    bars = [path.vertices for path in display.target_band_.get_paths()]
    assert_allclose(bars, [[[k, low], [k, high]] for k, (low, high) in enumerate(targets.T)])
    along_depth = PredictionDisplay.from_estimator(est, rows, **ASKED)
    asked = {"depth": GRID[:, 0], "soil": ["sand"] * 4, "group": [1.0] * 4}
    table = library(asked) if library else np.array([*asked.values()], dtype=object).T
    assert_allclose(along_depth.mean, est.predict(table))
    of_numbers = PredictionDisplay.from_estimator(est, rows, feature=2)
    assert_array_equal(of_numbers.grid, [1.0, 7.0, 9.0])
    assert_array_equal(of_numbers.line_.get_xdata(), [0, 1, 2])


def test_text_before_the_encoder_of_a_pipeline_is_held_at_its_most_frequent_level():
    frame = pd.DataFrame({"depth": X[:, 0], "soil": SOIL})
    encoder = make_column_transformer((OneHotEncoder(), ["soil"]), remainder="passthrough")
    with short_chains():
        pipeline = make_pipeline(encoder, BayesianGPRegressor(**QUICK)).fit(frame, REAL)
    display = PredictionDisplay.from_estimator(pipeline, frame, **ASKED)
    table = pd.DataFrame({"depth": GRID[:, 0], "soil": "sand"})
    assert_allclose(display.mean, pipeline.predict(table))


def test_it_is_drawn_on_given_axes_in_a_given_style(regressor):
    _, ax = plt.subplots()
    display = PredictionDisplay.from_estimator(regressor, X, ax=ax, color="C3", lw=3.0, **ASKED)
    assert display.ax_ is ax
    assert (display.line_.get_color(), display.line_.get_linewidth()) == ("C3", 3.0)


def test_what_cannot_be_drawn_is_refused(regressor):
    def refused(message, estimator=regressor, rows=X, y=None, **arguments):
        with pytest.raises(ValueError, match=message):
            PredictionDisplay.from_estimator(estimator, rows, y, **arguments)

    refused("feature=2 is no column of X, which has 2", feature=2)
    refused("feature='age' is no column of X", feature="age")
    refused("feature must be an integer >= 0", feature=-1)
    refused(r"coverage must be a number in \(0, 1\)", coverage=1.0)
    refused("grid_resolution must be an integer >= 2", grid_resolution=1)
    refused("exposure is not for BayesianGPRegressor", exposure=EXPOSURE)
    refused("inconsistent numbers of samples", y=REAL[:3])
    refused("X must be a table", rows=X[:, 0])
    refused("LinearRegression has no posterior", estimator=LinearRegression().fit(X, REAL))
    y = np.digitize(F, [-0.5, 0.5])
    with short_chains():
        grades = BayesianGPOrdinalClassifier(**FEW).fit(X, y)
        three = BayesianGPClassifier(**FEW).fit(X, y)
    refused("got BayesianGPOrdinalClassifier: draw what its predict", estimator=grades)
    refused("fitted on 3: pass one of its estimators_", estimator=three)
