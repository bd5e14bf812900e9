"""The estimators within scikit-learn's tools: stacking, thresholds, halving, routing, output."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from skfb.estimators import ThresholdFallbackClassifier
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_moons
from sklearn.ensemble import StackingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import (
    FixedThresholdClassifier,
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
    capacity_accuracy_score,
    capacity_accuracy_scorer,
    capacity_auc_scorer,
    selective_accuracy_score,
    selective_accuracy_scorer,
)
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

# The random walk is set up at once.
FAST = {
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "n_importance": 4,
    "n_chains": 2,
    "n_warmup": 10,
    "n_draws": 10,
    "random_state": 0,
}


def quick(**changes):
    return BayesianGPClassifier(**FAST | changes)


def moons(n=40):
    return make_moons(n, noise=0.15, random_state=0)


@short_chains()
def test_isotonic_calibration_has_what_was_calibrated():
    X, y = moons(60)
    model = CalibratedClassifierCV(quick(), method="isotonic", cv=2, ensemble=False).fit(X, y)
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    (calibrated,) = model.calibrated_classifiers_
    assert_array_equal(calibrated.estimator.predict_proba(X), quick().fit(X, y).predict_proba(X))


@short_chains()
def test_stacking_uses_held_out_probabilities():
    X, y = moons()
    members = [("gp", quick()), ("line", LogisticRegression())]
    model = StackingClassifier(members, cv=2, stack_method="predict_proba").fit(X, y)
    assert model.transform(X).shape == (40, 2)
    assert_array_equal(model.transform(X)[:, 0], quick().fit(X, y).predict_proba(X)[:, 1])
    held_out = cross_val_predict(quick(), X, y, cv=2, method="predict_proba")[:, 1]
    line = cross_val_predict(LogisticRegression(), X, y, cv=2, method="predict_proba")[:, 1]
    last = LogisticRegression().fit(np.column_stack([held_out, line]), y)
    assert_allclose(model.final_estimator_.coef_, last.coef_)


@short_chains()
def test_cross_validation_with_scores_of_abstention():
    X, y = moons()
    scoring = {
        "accuracy": capacity_accuracy_scorer,
        "auc": capacity_auc_scorer,
        "selective": selective_accuracy_scorer,
    }
    found = cross_validate(
        quick(), X, y, cv=2, scoring=scoring, return_estimator=True, return_indices=True
    )
    for k, (model, test) in enumerate(
        zip(found["estimator"], found["indices"]["test"], strict=True)
    ):
        proba = model.predict_proba(X[test])
        assert found["test_accuracy"][k] == capacity_accuracy_score(y[test], proba)
        assert found["test_selective"][k] == selective_accuracy_score(y[test], proba)
        assert 0.0 <= found["test_auc"][k] <= 1.0


@short_chains()
@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_output_of_a_pipeline_reaches_the_classifier_as_a_frame(output):
    X, y = moons()
    model = make_pipeline(StandardScaler(), quick()).set_output(transform=output).fit(X, y)
    assert model[-1].feature_names_in_.tolist() == ["x0", "x1"]
    plain = make_pipeline(StandardScaler(), quick()).fit(X, y)
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))


@short_chains()
def test_halving_search_gives_more_draws_to_the_better():
    X, y = moons()
    search = HalvingGridSearchCV(
        quick(target_ess=None),
        {"likelihood": ["probit", "logit"]},
        resource="n_draws",
        min_resources=10,
        max_resources=20,
        factor=2,
        cv=2,
        scoring="neg_log_loss",
        random_state=0,
    ).fit(X, y)
    assert search.n_resources_ == [10, 20]
    assert search.best_estimator_.theta_samples_.shape[1] == 20


@short_chains()
def test_thresholds():
    X, y = moons(60)
    rare = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:8]]
    X, y = X[rare], y[rare]
    tuned = TunedThresholdClassifierCV(quick(), scoring="balanced_accuracy", cv=2).fit(X, y)
    assert 0.0 < tuned.best_threshold_ < 1.0
    proba = tuned.predict_proba(X)[:, 1]
    assert_array_equal(tuned.predict(X), (proba >= tuned.best_threshold_).astype(int))
    assert balanced_accuracy_score(y, tuned.predict(X)) > 0.7
    low = FixedThresholdClassifier(quick(), threshold=0.05).fit(X, y)
    assert low.predict(X).sum() >= quick().fit(X, y).predict(X).sum()


@short_chains()
def test_weights_are_routed_through_a_pipeline_and_cross_validation():
    X, y = moons()
    weight = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.0)
    folds = KFold(2, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        found = cross_validate(
            make_pipeline(scaler, gp),
            X,
            y,
            cv=folds,
            params={"sample_weight": weight},
            return_estimator=True,
        )
        assert not hasattr(clone(gp), "classes_")
    for model, (train, _) in zip(found["estimator"], folds.split(X), strict=True):
        # Rows of weight zero are left out.
        assert model[-1].latent_samples_.shape[-1] == np.count_nonzero(weight[train])


@short_chains()
def test_exposure_is_routed():
    rng = np.random.default_rng(0)
    X = np.linspace(0.0, 3.0, 24)[:, None]
    hours = rng.uniform(0.5, 3.0, 24)
    y = rng.poisson(5.0 * hours)
    folds = KFold(2, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = BayesianGPPoissonRegressor(**FAST)
        model.set_fit_request(exposure=True).set_score_request(exposure=True)
        found = cross_validate(
            model, X, y, cv=folds, params={"exposure": hours}, return_estimator=True
        )
    for k, (train, test) in enumerate(folds.split(X)):
        direct = BayesianGPPoissonRegressor(**FAST).fit(X[train], y[train], exposure=hours[train])
        assert_array_equal(found["estimator"][k].theta_samples_, direct.theta_samples_)
        assert found["test_score"][k] == direct.score(X[test], y[test], exposure=hours[test])


@short_chains()
def test_a_rejector_of_scikit_fallback():
    X, y = make_moons(60, noise=0.3, random_state=0)
    # With the limit at the median, half of the rows are rejected.
    confidence = quick().fit(X, y).predict_proba(X).max(axis=1)
    limit = float(np.median(confidence))
    rejector = ThresholdFallbackClassifier(
        quick(), threshold=limit, fallback_label=-1, fallback_mode="return"
    ).fit(X, y)
    assert_array_equal(rejector.predict(X) == -1, confidence < limit)
