"""Selective accuracy: the definition by brute force, and what it does not depend on."""

import pickle
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV

from skgpmcmc.metrics import (
    capacity_accuracy_score,
    selective_accuracy_score,
    selective_accuracy_scorer,
)

from ..helpers import in_one_test


def area_of_order(is_right):
    """Mean over k of the accuracy of the first k rows."""
    return sum(Fraction(sum(is_right[:k]), k) for k in range(1, len(is_right) + 1)) / len(is_right)


def brute_force(y, p):
    """Mean area over all orders of the rows that go from high to low confidence."""
    confidence = [max(q, 1 - q) for q in p]
    is_right = [int((q > Fraction(1, 2)) == bool(label)) for label, q in zip(y, p, strict=True)]
    areas = [
        area_of_order([is_right[i] for i in order])
        for order in permutations(range(len(p)))
        if all(confidence[a] >= confidence[b] for a, b in pairwise(order))
    ]
    return float(sum(areas) / len(areas))


@in_one_test("seed", range(60))
def test_selective_accuracy_is_the_mean_over_all_orders_of_tied_rows(seed):
    rng = np.random.default_rng(seed)
    n, steps = int(rng.integers(1, 7)), int(rng.choice([2, 4, 8]))
    numerators = rng.integers(0, steps + 1, size=n)  # few values: most rows are tied
    y = rng.integers(0, 2, size=n)
    exact = brute_force(y, [Fraction(int(k), steps) for k in numerators])
    assert_allclose(selective_accuracy_score(y, numerators / steps, pos_label=1), exact, atol=1e-15)


def logits_and_labels(seed, n=80):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 2, n)
    logits[::5] = np.round(logits[::5])  # some are tied, also those of opposite sign
    return logits, (rng.random(n) < expit(logits)).astype(int)


@in_one_test("scale", [0.5, 0.25, 3.0])
def test_shrunk_logits_lift_capacity_scores_and_not_selective_accuracy(scale):
    capacity_changes = []
    for seed in range(20):
        logits, y = logits_and_labels(seed)
        before, after = expit(logits), expit(scale * logits)
        assert selective_accuracy_score(y, after) == selective_accuracy_score(y, before)
        capacity_changes.append(
            capacity_accuracy_score(y, after) - capacity_accuracy_score(y, before)
        )
    # The papers' score is not invariant: timid probabilities have the better one.
    assert np.sign(np.mean(capacity_changes)) == np.sign(1 - scale)


@in_one_test("transform", [lambda c: c**3 / 2 + 0.45, np.sqrt, lambda c: 0.5 + c / 10])
def test_increasing_maps_of_confidence_do_not_change_selective_accuracy(transform):
    logits, y = logits_and_labels(3)
    p = expit(logits)
    confidence = transform(np.maximum(p, 1 - p))
    mapped = np.where(p > 0.5, confidence, 1 - confidence)
    assert selective_accuracy_score(y, mapped) == selective_accuracy_score(y, p)


def test_exchanged_classes_and_rows_do_not_change_selective_accuracy():
    logits, y = logits_and_labels(4)
    p = expit(logits)
    value = selective_accuracy_score(y, p)
    assert selective_accuracy_score(y, 1 - p, pos_label=0) == value
    assert selective_accuracy_score(y, np.column_stack([1 - p, p])) == value
    assert selective_accuracy_score(y, np.column_stack([1 - p, p]), pos_label=0) == value
    order = np.random.default_rng(0).permutation(p.size)
    assert selective_accuracy_score(y[order], p[order]) == value


def test_selective_accuracy_of_tied_rows_is_the_accuracy():
    y = np.array([1, 1, 0, 1, 0])
    p = np.array([0.7, 0.3, 0.7, 0.7, 0.3])
    assert selective_accuracy_score(y, p) == pytest.approx(accuracy_score(y, p > 0.5))
    assert selective_accuracy_score(y, y * 0.8 + 0.1) == 1.0
    assert selective_accuracy_score(1 - y, y * 0.8 + 0.1) == 0.0


def test_error_costs_less_selective_accuracy_the_less_confident_it_is():
    p = np.array([0.95, 0.9, 0.8, 0.7, 0.6])
    values = [selective_accuracy_score(np.arange(5) != wrong, p) for wrong in range(5)]
    assert np.all(np.diff(values) > 0)
    assert values[-1] == pytest.approx((1 + 1 + 1 + 1 + 4 / 5) / 5)


def test_selective_accuracy_accepts_one_row_and_one_class():
    assert selective_accuracy_score([1], [0.8]) == 1.0
    assert selective_accuracy_score([0], [0.8]) == 0.0
    assert selective_accuracy_score([0], [0.5]) == 1.0  # one half predicts the negative class
    assert selective_accuracy_score([1, 1], [0.9, 0.2]) == 0.75  # 1 of 1, then 1 of 2
    assert selective_accuracy_score(["b", "b"], [0.9, 0.6], pos_label="b") == 1.0
    assert type(selective_accuracy_score([1, 0], [0.8, 0.1])) is float


def test_confidence_above_one_by_rounding_is_a_tie():
    assert selective_accuracy_score([1, 0], [1 + 1e-12, 1.0]) == 0.5


def test_selective_accuracy_scorer_works_in_cross_validation_and_search():
    X, y = make_classification(90, 4, flip_y=0.2, class_sep=0.6, random_state=1)
    y = np.array(["spam", "ham"])[y]
    search = GridSearchCV(
        LogisticRegression(), {"C": [0.01, 1.0]}, scoring=selective_accuracy_scorer, cv=3
    ).fit(X, y)
    expected = selective_accuracy_score(y, search.predict_proba(X))
    assert selective_accuracy_scorer(search, X, y) == expected
    copy = pickle.loads(pickle.dumps(selective_accuracy_scorer))
    assert copy(search, X, y) == expected
    with pytest.raises(ValueError, match=r"only the class 'ham'.*selective_accuracy_score"):
        selective_accuracy_scorer(search, X[y == "ham"], y[y == "ham"])
