"""Display of length-scales and importances: what is drawn, of which models."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.inspection import permutation_importance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.displays import RelevanceDisplay
from skgpmcmc.samplers import PseudoMarginal

from ...helpers import short_chains

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

SHORT = {"n_chains": 2, "n_warmup": 4, "n_draws": 20, "target_ess": None, "random_state": 0}
WALK = {"sampler": PseudoMarginal(moves="random_walk"), "n_importance": 2}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((30, 2)), columns=["mass", "age"])
Y = np.sin(FRAME["mass"].to_numpy())
PROBABILITIES = [0.05, 0.25, 0.5, 0.75, 0.95]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def pipeline():
    scaler = StandardScaler().set_output(transform="pandas")
    with short_chains():
        return make_pipeline(scaler, BayesianGPRegressor(ard=True, **WALK, **SHORT)).fit(FRAME, Y)


def ticks(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_length_scales_stand_beside_their_prior(pipeline):
    display = RelevanceDisplay.from_estimator(pipeline)
    model = pipeline[-1]
    at = [
        name.endswith(("length_scale[mass]", "length_scale[age]"))
        for name in model.hyperparameter_names_
    ]
    draws = np.exp(model.theta_samples_[:, :, at]).reshape(-1, 2)
    assert_allclose(display.posterior, np.quantile(draws, PROBABILITIES, axis=0))
    prior = model.priors_["length_scale"].ppf(PROBABILITIES)
    assert_allclose(display.prior, np.transpose([prior, prior]))
    assert display.names == ["mass", "age"]
    (ax,) = display.axes_
    assert ticks(ax) == ["mass", "age"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first feature is on top
    medians = ax.get_lines()[0]
    assert_allclose(medians.get_xdata(), np.median(draws, axis=0))
    assert [c.get_label() for c in ax.collections] == [
        "prior, 90 %",
        "posterior, 90 %",
        "posterior, 50 %",
    ]


def test_importances_are_those_of_scikit_learn(pipeline):
    display = RelevanceDisplay.from_estimator(pipeline, FRAME, Y, n_repeats=3, random_state=1)
    expected = permutation_importance(pipeline, FRAME, Y, n_repeats=3, random_state=1).importances
    assert_array_equal(display.importances, expected)
    assert len(display.axes_) == 2
    points = display.axes_[1].get_lines()[1]
    assert_allclose(points.get_xdata(), expected.mean(axis=1))
    assert points.get_xdata()[0] > points.get_xdata()[1]
    _, axes = plt.subplots(1, 2)
    again = display.plot(ax=axes)
    assert list(again.axes_) == list(axes)


def test_one_length_scale_for_all_features_and_those_of_one_class():
    y = np.digitize(Y, [-0.5, 0.5])
    with short_chains():
        est = BayesianGPClassifier(ConstantKernel() * RBF(), **WALK, **SHORT).fit(
            FRAME.to_numpy(), y
        )
    display = RelevanceDisplay.from_estimator(est, FRAME.to_numpy(), y, class_label=1, n_repeats=1)
    assert ticks(display.axes_[0]) == ["length_scale"]
    assert ticks(display.axes_[1]) == ["feature 0", "feature 1"]
    draws = np.exp(est.estimators_[1].theta_samples_[..., 1])
    assert_allclose(display.posterior[2], np.median(draws))
    with pytest.raises(ValueError, match=r"pass one of .* as class_label"):
        RelevanceDisplay.from_estimator(est)


@short_chains()
def test_several_vectors_keep_their_whole_names():
    kernel = RBF([1.0, 1.0]) + RBF(3.0)
    est = BayesianGPRegressor(kernel, **WALK, **SHORT).fit(FRAME.to_numpy(), Y)
    display = RelevanceDisplay.from_estimator(est)
    assert display.names == ["k1__length_scale[0]", "k1__length_scale[1]", "k2__length_scale"]


def test_what_cannot_be_drawn_is_refused(pipeline):
    with pytest.raises(ValueError, match="X and y are both needed"):
        RelevanceDisplay.from_estimator(pipeline, FRAME)
    with pytest.raises(ValueError, match="one axes for each of 1 panels"):
        RelevanceDisplay.from_estimator(pipeline, ax=plt.subplots(1, 2)[1])
    with short_chains():
        fixed = BayesianGPRegressor(ConstantKernel() * RBF(1.0, "fixed"), **WALK, **SHORT)
        fixed.fit(FRAME, Y)
    with pytest.raises(ValueError, match="has no length-scale among its hyper-parameters"):
        RelevanceDisplay.from_estimator(fixed)
