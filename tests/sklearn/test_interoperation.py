"""Inside scikit-learn's other meta-estimators, with routed metadata, and with a reject option.

What cross-validation, grid search, pipelines, voting and calibration do is in test_composition.
"""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.ensemble import StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    HalvingGridSearchCV,
    KFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier, BayesianGPPoissonRegressor
from skgpmcmc.metrics import (
    selective_accuracy_score,
    selective_accuracy_scorer,
)
from skgpmcmc.samplers import PseudoMarginal

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, CLASS = make_moons(30, noise=0.25, random_state=0)
LABEL = np.array(["left", "right"])[CLASS]
FOLDS = KFold(2, shuffle=True, random_state=0)
SHORT = {"n_chains": 2, "n_warmup": 4, "n_draws": 12, "random_state": 0}


# Set up at once.
WALK = {
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "n_importance": 4,
    "max_predict_draws": 6,
}


def quick():
    return BayesianGPClassifier(**SHORT, **WALK)


def quick_counts():
    return BayesianGPPoissonRegressor(**SHORT, **WALK)


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(X, LABEL)


# --- other estimators around one ------------------------------------------------------------------


def test_calibrated_classifier_takes_a_fitted_classifier(fitted):
    model = CalibratedClassifierCV(FrozenEstimator(fitted), method="isotonic", cv=2).fit(X, LABEL)
    proba = fitted.predict_proba(X)[:, 1]
    by_hand = IsotonicRegression(out_of_bounds="clip").fit(proba, CLASS)
    assert_allclose(model.predict_proba(X)[:, 1], by_hand.predict(proba), atol=1e-12)


def test_stacking_uses_held_out_probabilities(fitted):
    members = [("gp", quick()), ("line", LogisticRegression())]
    model = StackingClassifier(members, LogisticRegression(), cv=FOLDS).fit(X, LABEL)
    assert_array_equal(model.transform(X)[:, 0], fitted.predict_proba(X)[:, 1])
    held_out = [
        cross_val_predict(member, X, LABEL, cv=FOLDS, method="predict_proba")[:, 1]
        for _, member in members
    ]
    on_top = LogisticRegression().fit(np.column_stack(held_out), LABEL)
    assert_allclose(model.predict_proba(X), on_top.predict_proba(model.transform(X)), rtol=1e-9)


def test_selective_accuracy_scorer_uses_held_out_probabilities():
    settings = {"scoring": selective_accuracy_scorer, "error_score": "raise"}
    found = cross_validate(quick(), X, LABEL, cv=FOLDS, return_estimator=True, **settings)
    for k, (_, test) in enumerate(FOLDS.split(X)):
        proba = found["estimator"][k].predict_proba(X[test])
        assert found["test_score"][k] == selective_accuracy_score(LABEL[test], proba)


def test_a_pipeline_of_frames_gives_the_names_of_features(fitted):
    pipeline = make_pipeline(StandardScaler(with_mean=False, with_std=False), quick())
    frames = pipeline.set_output(transform="pandas").fit(X, LABEL)
    assert_array_equal(frames[-1].feature_names_in_, ["x0", "x1"])
    assert_array_equal(frames.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize(("resource", "least", "most"), [("n_draws", 6, 12), ("n_samples", 14, 28)])
def test_a_halving_search_gives_more_draws_or_rows_to_fewer(resource, least, most):
    grid = {"kernel": [None, ConstantKernel() * RBF(0.1, "fixed")]}
    search = HalvingGridSearchCV(
        quick(),
        grid,
        resource=resource,
        min_resources=least,
        max_resources=most,
        factor=2,
        cv=FOLDS,
        scoring="neg_log_loss",
        error_score="raise",
        random_state=0,
    ).fit(X, LABEL)
    assert search.n_resources_ == [least, most]
    assert search.n_candidates_ == [2, 1]
    draws = search.best_estimator_.theta_samples_.shape[1]
    assert draws == (most if resource == "n_draws" else SHORT["n_draws"])


def test_a_tuned_threshold_decides_by_the_probability(fitted):
    model = TunedThresholdClassifierCV(quick(), scoring="balanced_accuracy", cv=2).fit(X, LABEL)
    proba = fitted.predict_proba(X)[:, 1]
    assert_array_equal(model.predict(X), np.where(proba >= model.best_threshold_, "right", "left"))
    assert 0.0 < model.best_threshold_ < 1.0


def test_scikit_fallback_rejects_unsure_rows(fitted):
    skfb = pytest.importorskip("skfb.estimators")
    # Its label takes the data type of the classes: a longer word than theirs would be cut.
    rejecting = {"fallback_label": "none", "fallback_mode": "return"}
    # The best row is surer than 0.52, however short the chains are: not all rows are rejected.
    tuned = skfb.ThresholdFallbackClassifierCV(quick(), thresholds=(0.5, 0.52), cv=2, **rejecting)
    half = np.median(confidence := fitted.predict_proba(X).max(axis=1))
    given = skfb.ThresholdFallbackClassifier(quick(), threshold=half, **rejecting)
    for model in (tuned.fit(X, LABEL), given.fit(X, LABEL)):
        threshold = getattr(model, "threshold_", half)
        expected = np.where(confidence < threshold, "none", fitted.predict(X))
        assert_array_equal(model.predict(X), expected)
    assert np.mean(given.predict(X) == "none") == 0.5
    assert tuned.threshold_ in (0.5, 0.52)


# --- metadata -------------------------------------------------------------------------------------

WEIGHT = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
EXPOSURE = np.random.default_rng(2).uniform(0.5, 4.0, len(X))
COUNT = np.random.default_rng(3).poisson(EXPOSURE * np.exp(X[:, 0]))


def by_hand(model, y, **metadata):
    """Scores of a scaler and a model that get their share of the metadata, fold by fold."""
    scores = []
    for train, test in FOLDS.split(X):
        scaler = StandardScaler().fit(X[train])
        of_train = {name: value[train] for name, value in metadata.items()}
        of_test = {name: value[test] for name, value in metadata.items()}
        one = clone(model).fit(scaler.transform(X[train]), y[train], **of_train)
        scores.append(one.score(scaler.transform(X[test]), y[test], **of_test))
    return scores


@pytest.mark.parametrize(
    ("model", "y", "metadata"),
    [
        (quick(), LABEL, {"sample_weight": WEIGHT}),
        (quick_counts(), COUNT, {"sample_weight": WEIGHT, "exposure": EXPOSURE}),
    ],
    ids=["classifier", "counts"],
)
def test_metadata_reach_fit_and_score_through_a_pipeline(model, y, metadata):
    asked = dict.fromkeys(metadata, True)
    with sklearn.config_context(enable_metadata_routing=True):
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        routed = clone(model).set_fit_request(**asked).set_score_request(**asked)
        pipeline = make_pipeline(scaler, routed)
        found = cross_validate(pipeline, X, y, cv=FOLDS, params=metadata, error_score="raise")
    assert_allclose(found["test_score"], by_hand(model, y, **metadata), rtol=1e-12)
    without = cross_validate(make_pipeline(StandardScaler(), model), X, y, cv=FOLDS)
    assert not np.allclose(found["test_score"], without["test_score"], rtol=1e-12)


def test_exposure_reaches_predictions_through_a_pipeline():
    with sklearn.config_context(enable_metadata_routing=True):
        model = quick_counts()
        model.set_fit_request(exposure=True).set_predict_request(exposure=True)
        pipeline = make_pipeline(StandardScaler(), model).fit(X, COUNT, exposure=EXPOSURE)
        rate, doubled = (pipeline.predict(X[:3], exposure=np.full(3, e)) for e in (1.0, 2.0))
    assert_allclose(doubled, 2.0 * rate)
    assert_allclose(rate, pipeline[-1].predict(pipeline[0].transform(X[:3])))
