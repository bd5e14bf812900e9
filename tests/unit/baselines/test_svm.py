"""SVM baseline: the order of search and calibration, folds, refusals, scikit-learn manners."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgpmcmc.baselines import PlattSVC, svm, svm_platt_classifier

from ...helpers import in_one_test

SMALL = {"C": (0.5, 8.0), "gamma": (0.05, 0.5)}


def two_classes(n=60, seed=0):
    return make_classification(n, 3, n_informative=2, n_redundant=0, flip_y=0.1, random_state=seed)


def small(**kwargs):
    return PlattSVC(**SMALL, random_state=0, **kwargs)


def single(**kwargs):
    """With one candidate, where a test is not about the search."""
    return PlattSVC(C=(8.0,), gamma=(0.5,), random_state=0, **kwargs)


@pytest.mark.statistical
@parametrize_with_checks([single()])
def test_svm_baseline_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_svm_platt_classifier_is_unfitted_and_searches_the_full_grid(monkeypatch):
    tried = {}

    def searched(machine, grid, **settings):
        """A search of the ends of a grid; all of it is noted."""
        tried.update(grid)
        ends = {name: values[:: len(values) - 1] for name, values in grid.items()}
        return GridSearchCV(machine, ends, **settings)

    monkeypatch.setattr(svm, "GridSearchCV", searched)
    X, y = two_classes(20)
    model = svm_platt_classifier(random_state=3, n_jobs=None)
    assert model.get_params() == {"C": None, "gamma": None, "random_state": 3, "n_jobs": None}
    with pytest.raises(NotFittedError):
        model.predict_proba(X)
    proba = model.fit(X, y).predict_proba(X)
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(np.log2(tried["estimator__C"]), range(-5, 16, 2))
    assert_array_equal(np.log2(tried["estimator__gamma"]), range(-15, 4, 2))
    assert model.best_params_["C"] in tried["estimator__C"]
    assert model.best_params_["gamma"] in tried["estimator__gamma"]


def test_svm_parameters_are_those_of_a_grid_search_by_log_loss():
    """By the log loss; of these data the most accurate parameters are others.

    With a kernel that is all but the identity the signs of decision values can have the best
    accuracy of the grid, and no sigmoid can be fitted to them.
    """
    X, y = two_classes(seed=4)
    model = small().fit(X, y)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    losses = {}
    for C in SMALL["C"]:
        for gamma in SMALL["gamma"]:
            machine = CalibratedClassifierCV(SVC(C=C, gamma=gamma), ensemble=False, cv=folds)
            scores = cross_val_score(machine, X, y, cv=folds, scoring="neg_log_loss")
            losses[C, gamma] = -scores.mean()
    C, gamma = min(losses, key=losses.get)
    assert model.best_params_ == {"C": C, "gamma": gamma}


def test_probabilities_are_platts_sigmoid_of_cross_validated_decision_values():
    X, y = two_classes()
    model = single().fit(X, y)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    machine = SVC(**model.best_params_)
    left_out = cross_val_predict(
        machine,
        X,
        y,
        cv=StratifiedKFold(5, shuffle=True, random_state=seed),
        method="decision_function",
    )
    n_positive = int(y.sum())
    target = np.where(y == 1, (n_positive + 1) / (n_positive + 2), 1 / (y.size - n_positive + 2))
    decision = machine.fit(X, y).decision_function(X)
    log_odds = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    slope, offset = np.polyfit(decision, log_odds, 1)
    assert_allclose(slope * decision + offset, log_odds, atol=1e-8)
    assert slope > 0
    # At the maximum of the likelihood the residuals are orthogonal to 1 and to the decision value.
    residual = target - 1 / (1 + np.exp(-slope * left_out - offset))
    assert abs(residual.mean()) < 1e-4
    assert abs((residual * left_out).mean()) < 1e-4


def test_svm_baseline_accepts_string_labels_and_three_classes():
    iris = load_iris()
    X, y = iris.data[::3], iris.target_names[iris.target[::3]]
    model = single().fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (50, 3)
    assert_allclose(proba.sum(axis=1), 1)
    assert_array_equal(model.classes_, iris.target_names)
    assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize(("n_rare", "n_folds"), [(3, 3), (4, 4), (5, 5), (6, 5), (9, 5)])
def test_number_of_folds_follows_the_smallest_class(n_rare, n_folds):
    rng = np.random.default_rng(0)
    y = np.array(["rare"] * n_rare + ["usual"] * 12)
    X = rng.normal(size=(y.size, 2)) + (y == "rare")[:, None] * 3
    model = single().fit(X, y)
    assert model.n_folds_ == n_folds
    assert np.isfinite(model.predict_proba(X)).all()


@in_one_test(
    ("labels", "message"),
    [
        (["a"] * 9 + ["b"], r"class 'b' of y has 1 member.*add rows"),
        (["a"] * 8 + ["b"] * 2, r"class 'b' of y has 2 member.*add rows"),
        (["a"] * 10, r"one class only, 'a'"),
    ],
)
def test_bad_labels_are_refused_and_an_earlier_fit_is_kept(labels, message):
    X, y = two_classes(20)
    model = single().fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match=message):
        model.fit(X[:10, :2], labels)
    assert_array_equal(model.predict_proba(X), before)


@pytest.mark.statistical
def test_svm_result_depends_on_the_seed_and_not_on_n_jobs():
    X, y = two_classes()
    first = small().fit(X, y).predict_proba(X)
    assert_array_equal(clone(small()).fit(X, y).predict_proba(X), first)
    assert_array_equal(small(n_jobs=2).fit(X, y).predict_proba(X), first)


def test_seeds_shuffle_the_folds():
    X, y = two_classes()
    by_seed = [single().set_params(random_state=s).fit(X, y).predict_proba(X) for s in (0, 1)]
    assert not np.array_equal(*by_seed)


def test_svm_baseline_keeps_the_names_of_features():
    pd = pytest.importorskip("pandas")
    X, y = two_classes()
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    model = single().fit(X, y)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c"])
    with pytest.raises(ValueError, match="feature names"):
        model.predict_proba(X[["c", "b", "a"]])
