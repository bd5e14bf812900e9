"""Selective accuracy: the definition by brute force, and what it does not depend on."""

from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import expit

from skgpmcmc.metrics import (
    capacity_accuracy_score,
    selective_accuracy_score,
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
def test_mean_over_all_orders_of_tied_rows(seed):
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
def test_scaled_logits_change_nothing_and_lift_the_capacity_score_when_shrunk(scale):
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


def test_exchanging_the_classes_and_the_order_of_rows_changes_nothing():
    logits, y = logits_and_labels(4)
    p = expit(logits)
    value = selective_accuracy_score(y, p)
    assert selective_accuracy_score(y, 1 - p, pos_label=0) == value
    assert selective_accuracy_score(y, np.column_stack([1 - p, p])) == value
    assert selective_accuracy_score(y, np.column_stack([1 - p, p]), pos_label=0) == value
    order = np.random.default_rng(0).permutation(p.size)
    assert selective_accuracy_score(y[order], p[order]) == value


def test_one_row_and_one_class():
    assert selective_accuracy_score([1], [0.8]) == 1.0
    assert selective_accuracy_score([0], [0.8]) == 0.0
    assert selective_accuracy_score([0], [0.5]) == 1.0  # one half predicts the negative class
    assert selective_accuracy_score([1, 1], [0.9, 0.2]) == 0.75  # 1 of 1, then 1 of 2
    assert selective_accuracy_score(["b", "b"], [0.9, 0.6], pos_label="b") == 1.0
    assert type(selective_accuracy_score([1, 0], [0.8, 0.1])) is float


def test_more_confident_than_one_by_rounding_is_a_tie():
    assert selective_accuracy_score([1, 0], [1 + 1e-12, 1.0]) == 0.5
