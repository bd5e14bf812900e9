"""Capacity scores: worked examples, edge rules, and a literal transcription of the recipe."""

import pickle
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import GridSearchCV, LeaveOneOut, StratifiedKFold, cross_val_score

from skgpmcmc.metrics import (
    abstention_curve,
    capacity_accuracy_score,
    capacity_accuracy_scorer,
    capacity_auc_score,
    capacity_auc_scorer,
    selective_accuracy_score,
)

from ..helpers import in_one_test

E1 = ([1, 1, 1, 1, -1, -1, -1, -1], [0.95, 0.80, 0.62, 0.45, 0.55, 0.38, 0.30, 0.05])
E2 = ([1, 1, -1, -1], [0.9, 0.6, 0.55, 0.2])
E3 = ([1, 1, -1, -1, 1], [0.9, 0.7, 0.8, 0.4, 0.35])

CAPACITY = {"accuracy": capacity_accuracy_score, "auc": capacity_auc_score}
SCORES = tuple(CAPACITY)


def literal_curve(is_positive, proba, score):
    """The recipe of Filippone & Girolami (2014), section 5.3, in rational numbers, row by row."""
    points = []
    for k in range(51):
        rho, half = Fraction(k, 100), Fraction(1, 2)
        low, high = half - rho, half + rho
        kept = [(y, p) for y, p in zip(is_positive, proba, strict=True) if not low < p < high]
        positives = [p for y, p in kept if y]
        negatives = [p for y, p in kept if not y]
        if score == "accuracy":
            if not kept:
                break
            value = Fraction(sum((p > half) == y for y, p in kept), len(kept))
        else:
            if not positives or not negatives:
                break
            wins = sum((a > b) + Fraction(a == b, 2) for a in positives for b in negatives)
            value = wins / (len(positives) * len(negatives))
        points.append((1 - Fraction(len(kept), len(proba)), value))
    return points


def literal_capacity(points):
    if not points:
        return float("nan")
    width = points[-1][0]
    if width == 0:
        return float(points[0][1])
    area = sum((b - a) * (u + v) / 2 for (a, u), (b, v) in pairwise(points))
    return float(area / width)


def random_predictions(seed, *, n_max=30):
    """Labels and probabilities in thousandths or, to make ties and band edges, in fiftieths."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, n_max))
    steps = int(rng.choice([1000, 100, 50, 10]))
    tilt = rng.choice([0.3, 1.0, 3.0])
    numerators = np.rint(steps * rng.beta(tilt, tilt, size=n)).astype(int)
    y = rng.random(n) < numerators / steps
    return y, [Fraction(int(k), steps) for k in numerators], numerators / steps


# Worked examples


@in_one_test(
    ("example", "score", "abstention", "values"),
    [
        (E1, "accuracy", [0, 0.25, 0.5, 0.625, 0.75], [0.75, 1, 1, 1, 1]),
        (E1, "auc", [0, 0.25, 0.5, 0.625, 0.75], [0.9375, 1, 1, 1, 1]),
        (E2, "accuracy", [0, 0.25, 0.5, 0.75], [0.75, 1, 1, 1]),
        (E2, "auc", [0, 0.25, 0.5], [1, 1, 1]),  # then one class is left
        (E3, "accuracy", [0, 0.2, 0.4, 0.6, 0.8], [0.6, 0.5, 2 / 3, 0.5, 1]),
        (E3, "auc", [0, 0.2, 0.4, 0.6], [0.5, 1 / 3, 0.5, 1]),
    ],
)
def test_abstention_curves_of_the_worked_examples_are_reproduced(
    example, score, abstention, values
):
    found, scores = abstention_curve(*example, score=score)
    first = np.flatnonzero(np.diff(found, prepend=-1.0))
    assert_allclose(found[first], abstention, atol=1e-12)
    assert_allclose(scores[first], values, atol=1e-12)


@in_one_test(
    ("y", "p", "accuracy", "auc"),
    [
        (*E1, 0.9583333, 0.9895833),
        (*E2, 0.9583333, 1.0),
        (*E3, 0.6166667, 0.5277778),
        ([1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5], 0.5, 0.5),  # no threshold leaves some and rejects some
        ([1, 0, 1, 1], [1.0, 0.0, 0.0, 1.0], 0.75, 5 / 6),  # nothing is rejected
        ([1, 1, 1], [0.9, 0.6, 0.3], 2 / 3, np.nan),  # one class has no AUC
        ([1], [0.8], 1.0, np.nan),
        ([0], [0.8], 0.0, np.nan),
        ([1, 1], [0.5, 0.5], 0.0, np.nan),  # one half predicts the negative class
        ([1, 1, 0, 0], [0.9, 0.7, 0.3, 0.1], 1.0, 1.0),
        ([0, 0, 1, 1], [0.9, 0.7, 0.3, 0.1], 0.0, 0.0),
        ([1, 0], [1 + 1e-15, -1e-17], 1.0, 1.0),  # rounding errors past the ends
    ],
)
def test_capacity_scores_of_examples_and_edge_cases_are_reproduced(y, p, accuracy, auc):
    assert capacity_accuracy_score(y, p) == pytest.approx(accuracy, abs=1e-7)
    assert capacity_auc_score(y, p) == pytest.approx(auc, abs=1e-7, nan_ok=True)
    assert type(capacity_accuracy_score(y, p)) is type(capacity_auc_score(y, p)) is float


# The recipe


@pytest.mark.parametrize("score", SCORES)
def test_abstention_curve_equals_the_literal_recipe(score):
    for seed in range(40):
        y, exact, p = random_predictions(seed)
        points = literal_curve(y.tolist(), exact, score)
        abstention, values = abstention_curve(y, p, score=score)
        assert_allclose(abstention, [float(a) for a, _ in points], rtol=0, atol=1e-14)
        assert_allclose(values, [float(v) for _, v in points], rtol=0, atol=1e-14)
        assert_allclose(CAPACITY[score](y, p), literal_capacity(points), rtol=0, atol=1e-13)


def test_confidence_in_hundredths_is_kept_at_its_own_threshold():
    for k in range(1, 50):
        for p in (0.5 + k / 100, 0.5 - k / 100, (50 + k) / 100, (50 - k) / 100):
            abstention, _ = abstention_curve([1, 0], [p, 1.0])
            assert_array_equal(abstention, np.where(np.arange(51) <= k, 0.0, 0.5))


# Labels


@in_one_test(
    ("negative", "positive"),
    [(0, 1), (-1, 1), (1, 2), (0.0, 1.0), (False, True), ("ham", "spam"), (-1, 0)],
)
@in_one_test("score", SCORES)
def test_the_greater_label_is_positive(negative, positive, score):
    y = np.where(np.array(E3[0]) == 1, positive, negative)
    assert CAPACITY[score](y, E3[1]) == CAPACITY[score](*E3)


@in_one_test("score", SCORES)
def test_capacity_scores_accept_string_labels_in_any_container(score):
    pd = pytest.importorskip("pandas")
    labels = ["spam" if label == 1 else "ham" for label in E3[0]]
    expected = CAPACITY[score](*E3)
    for container in (list, tuple, np.array, pd.Series, lambda x: pd.Series(x, dtype="category")):
        assert CAPACITY[score](container(labels), E3[1]) == expected
    assert CAPACITY[score](np.array(labels, dtype=object), pd.Series(E3[1])) == expected


@in_one_test("score", SCORES)
def test_capacity_scores_agree_for_pos_label_and_columns(score):
    labels = ["spam" if label == 1 else "ham" for label in E3[0]]
    of_spam = np.array(E3[1])
    both = np.column_stack([1 - of_spam, of_spam])
    expected = CAPACITY[score](*E3)
    assert CAPACITY[score](labels, both) == expected
    assert CAPACITY[score](labels, both, pos_label="spam") == expected
    assert CAPACITY[score](labels, of_spam, pos_label="spam") == expected
    assert CAPACITY[score](labels, both, pos_label="ham") == pytest.approx(expected)
    assert CAPACITY[score](labels, 1 - of_spam, pos_label="ham") == pytest.approx(expected)


@in_one_test(
    ("label", "pos_label", "column"),
    [
        (0, None, 1),
        (-1, None, 1),
        (1, None, 1),
        (0, 0, 0),
        (1, 1, 1),
        (-1, -1, 0),
        (1, 0, 0),
        (1, -1, 0),
        (True, None, 1),
        ("ham", "spam", 1),
        ("spam", "ham", 0),
    ],
)
def test_positive_column_is_right_if_one_class_is_seen(label, pos_label, column):
    of_second = np.array([0.9, 0.7, 0.2])
    both = np.column_stack([1 - of_second, of_second])
    is_positive = label == (1 if pos_label is None else pos_label)
    first = np.mean((both[:, column] > 0.5) == is_positive)
    _, accuracy = abstention_curve([label] * 3, both, pos_label=pos_label)
    assert accuracy[0] == first


def test_metrics_do_not_modify_their_inputs():
    y, p = np.array(E3[0]), np.array(E3[1])
    both = np.column_stack([1 - p, p])
    copies = y.copy(), p.copy(), both.copy()
    for array in (y, p, both):
        array.setflags(write=False)
    for score in SCORES:
        CAPACITY[score](y, p)
        CAPACITY[score](y, both, pos_label=-1)
    for array, copy in zip((y, p, both), copies, strict=True):
        assert_array_equal(array, copy)


# Refusals


@in_one_test(
    ("y_true", "y_proba", "pos_label", "message"),
    [
        ([1, 0], [0.5, 1.2], None, r"y_proba\[1\] is 1\.2.*probability in \[0, 1\].*predict_proba"),
        ([1, 0], [-0.1, 0.5], None, r"y_proba\[0\] is -0\.1"),
        ([1, 0], [0.1, np.nan], None, r"y_proba\[1\] is nan"),
        ([1, 0], [0.1, np.inf], None, r"y_proba\[1\] is inf"),
        ([1, 0], [[0.1, 0.9], [2.0, -1.0]], None, r"y_proba\[1, 0\] is 2\.0"),
        ([1, 0], [[0.1, 0.9], [0.2, 0.3]], None, r"y_proba\[1\] sums to 0\.5.*shape \(n,\)"),
        ([1, 0], [[0.5], [0.5]], None, r"y_proba has shape \(2, 1\).*shape \(n, 2\)"),
        ([1, 0], np.full((2, 3), 1 / 3), None, r"y_proba has shape \(2, 3\)"),
        ([1, 0], 0.5, None, r"y_proba has shape \(\)"),
        ([1, 0], ["a", "b"], None, r"y_proba is not an array of numbers.*pass predictive"),
        ([1, 0, 1], [0.5, 0.5], None, r"y_true has 3 rows and y_proba has 2.*same rows"),
        ([[1], [0]], [0.5, 0.5], None, r"y_true has shape \(2, 1\): pass one label per row"),
        ([], [], None, r"y_true has shape \(0,\).*n > 0"),
        ([0, 1, 2], [0.1, 0.2, 0.3], None, r"y_true holds 3 classes.*against the rest"),
        ([0.0, np.nan], [0.1, 0.2], None, r"y_true\[1\] is nan: drop"),
        (np.array(["a", None]), [0.1, 0.2], None, r"y_true holds labels that cannot be sorted"),
        (["a", "b"], [0.1, 0.2], "c", r"pos_label='c' is not among the labels.*\['a', 'b'\]"),
        (["a", "b"], [0.1, 0.2], 1, r"pos_label=1 is not among the labels.*\['a', 'b'\]"),
        (["a", "a"], [0.1, 0.2], 1, r"pos_label=1 is not among the labels.*\['a'\]"),
        ([0, 1], [0.1, 0.2], 2, r"pos_label=2 is not among the labels of y_true, \[0, 1\]"),
        (["a", "a"], [0.1, 0.2], None, r"y_true holds only 'a'.*pass pos_label"),
        ([2, 2], [0.1, 0.2], None, r"y_true holds only 2.*pass pos_label"),
        (["a"], [[0.1, 0.9]], "a", r"y_true holds only 'a'.*column.*shape \(n,\)"),
    ],
)
@in_one_test("function", [abstention_curve, selective_accuracy_score, *CAPACITY.values()])
def test_metrics_refuse_bad_arguments_with_the_reason(
    function, y_true, y_proba, pos_label, message
):
    with pytest.raises(ValueError, match=message):
        function(y_true, y_proba, pos_label=pos_label)


def test_abstention_curve_refuses_an_unknown_score():
    with pytest.raises(ValueError, match=r"score='f1' is not known: pass \"accuracy\" or \"auc\""):
        abstention_curve(*E1, score="f1")


# Scorers

SCORERS = {"accuracy": capacity_accuracy_scorer, "auc": capacity_auc_scorer}


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(120, 4, flip_y=0.2, class_sep=0.6, random_state=1)
    return X, y


@pytest.mark.parametrize("names", [("ham", "spam"), ("spam", "ham"), (1, 2), (-1, 0), (1, -1)])
@pytest.mark.parametrize("score", SCORES)
def test_capacity_scorer_in_cross_validation_equals_the_direct_score(data, names, score):
    X, y = data
    y = np.array(names)[y]
    folds = StratifiedKFold(3)
    values = cross_val_score(LogisticRegression(), X, y, cv=folds, scoring=SCORERS[score])
    for value, (train, test) in zip(values, folds.split(X, y), strict=True):
        model = LogisticRegression().fit(X[train], y[train])
        proba = model.predict_proba(X[test])
        for column, label in enumerate(model.classes_):
            direct = CAPACITY[score](y[test], proba[:, column], pos_label=label)
            assert value == pytest.approx(direct, abs=1e-12)
        assert value == CAPACITY[score](y[test], proba)
    assert np.all(values > 0.6)  # not upside down


@pytest.mark.parametrize("score", SCORES)
def test_capacity_scorer_works_in_a_grid_search(data, score):
    X, y = data
    y = np.array(["ham", "spam"])[y]
    search = GridSearchCV(
        LogisticRegression(), {"C": [0.01, 1.0]}, scoring=SCORERS[score], cv=3
    ).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert SCORERS[score](search, X, y) == CAPACITY[score](y, search.predict_proba(X))


@in_one_test("score", SCORES)
def test_capacity_scorer_survives_pickling(data, score):
    X, y = data
    model = LogisticRegression().fit(X, y)
    copy = pickle.loads(pickle.dumps(SCORERS[score]))
    assert copy(model, X, y) == SCORERS[score](model, X, y)


@in_one_test("score", SCORES)
@in_one_test("names", [(0, 1), (1, 2), ("a", "b")])
def test_scorer_refuses_rows_of_one_class(data, score, names):
    X, y = data
    y = np.array(names)[y]
    model = LogisticRegression().fit(X, y)
    for label in names:
        rows = y == label
        with pytest.raises(
            ValueError, match=f"only the class {label!r}: use stratified.*pos_label"
        ):
            SCORERS[score](model, X[rows], y[rows])


def test_scorer_with_explicit_pos_label_takes_rows_of_one_class(data):
    X, y = data[0][:20], np.array([1, 2])[data[1][:20]]
    scorer = make_scorer(capacity_accuracy_score, response_method="predict_proba", pos_label=1)
    values = cross_val_score(LogisticRegression(), X, y, cv=LeaveOneOut(), scoring=scorer)
    rights = cross_val_score(LogisticRegression(), X, y, cv=LeaveOneOut(), scoring="accuracy")
    assert_array_equal(values, rights)


def test_scorer_refuses_more_than_two_classes():
    X, y = make_classification(60, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(ValueError, match="3 classes"):
        capacity_accuracy_scorer(model, X, y)
