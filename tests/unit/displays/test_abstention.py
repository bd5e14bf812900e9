"""Displays: what is drawn, where, under which name."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skgpmcmc.displays import AbstentionCurveDisplay
from skgpmcmc.metrics import abstention_curve, capacity_accuracy_score, capacity_auc_score

from ...helpers import in_one_test

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

Y = np.array(["spam", "spam", "ham", "ham", "spam"])
P = np.array([0.9, 0.7, 0.8, 0.4, 0.35])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    X, y = make_classification(80, 4, flip_y=0.2, random_state=0)
    y = np.array(["spam", "ham"])[y]
    return LogisticRegression().fit(X, y), X, y


@pytest.mark.parametrize(
    ("score", "y_label", "legend"),
    [
        ("accuracy", "Accuracy", "toy (capacity accuracy = 0.617)"),
        ("auc", "AUC of the kept rows", "toy (capacity AUC = 0.528)"),
    ],
)
def test_curve_from_predictions_equals_abstention_curve(score, y_label, legend):
    display = AbstentionCurveDisplay.from_predictions(Y, P, score=score, name="toy")
    abstention, values = abstention_curve(Y, P, score=score)
    assert_array_equal(display.line_.get_xdata(), abstention)
    assert_array_equal(display.line_.get_ydata(), values)
    assert display.ax_.get_xlabel() == "Degree of abstention"
    assert display.ax_.get_ylabel() == y_label
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [legend]
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()


def test_pos_label_and_columns_give_the_same_curve():
    both = np.column_stack([1 - P, P])
    for y_proba, pos_label in [(both, None), (both, "spam"), (P, "spam")]:
        display = AbstentionCurveDisplay.from_predictions(Y, y_proba, pos_label=pos_label)
        assert_array_equal(display.score_values, abstention_curve(Y, P)[1])


@pytest.mark.parametrize(
    ("score", "capacity"), [("accuracy", capacity_accuracy_score), ("auc", capacity_auc_score)]
)
@in_one_test("pos_label", [None, "ham", "spam"])
def test_curve_from_estimator_equals_that_of_its_probabilities(fitted, score, capacity, pos_label):
    model, X, y = fitted
    display = AbstentionCurveDisplay.from_estimator(model, X, y, score=score, pos_label=pos_label)
    assert display.capacity == capacity(y, model.predict_proba(X), pos_label=pos_label)
    assert display.line_.get_label().startswith("LogisticRegression (capacity ")


def test_from_estimator_takes_rows_of_one_class_and_a_pipeline(fitted):
    _, X, y = fitted
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    ham = y == "ham"
    display = AbstentionCurveDisplay.from_estimator(model, X[ham], y[ham], name="scaled")
    assert display.score_values[0] == model.score(X[ham], y[ham])
    assert display.name == "scaled"


def test_several_abstention_curves_on_one_axes_differ():
    _, ax = plt.subplots()
    displays = [
        AbstentionCurveDisplay.from_predictions(Y, P, name=f"model {i}", ax=ax) for i in range(6)
    ]
    assert all(display.ax_ is ax for display in displays)
    lines = ax.get_lines()
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in lines}
    assert len(looks) == 6
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 6
    assert len(ax.get_legend().get_texts()) == 6
    assert not ax.collections  # nothing filled, nothing hidden
    assert not ax.patches


@pytest.mark.parametrize(
    ("trust", "layout"),
    [(6.0, None), (1.0, "constrained"), (-1.0, None)],
    ids=["good", "fair", "wrong"],
)
def test_no_curve_runs_behind_the_legend(trust, layout):
    """Whether curves stay high, fall at the end or lie at the bottom, as those of a wrong model."""
    rng = np.random.default_rng(0)
    figure, ax = plt.subplots(layout=layout)
    for i in range(5):
        f = trust * rng.normal(size=200)
        y = rng.uniform(size=200) < 1.0 / (1.0 + np.exp(-np.sign(trust) * f))
        p = 1.0 / (1.0 + np.exp(-f))
        AbstentionCurveDisplay.from_predictions(y, p, name=f"model {i}", ax=ax)
    figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    for line in ax.get_lines():
        path = line.get_path().transformed(ax.transData)
        assert not path.intersects_bbox(legend, filled=False)
    low, high = ax.get_ylim()
    assert high > 1.0
    assert low <= 1.0 - 0.1  # one row in two hundred is no more than a twentieth of the axis


def test_abstention_curve_can_be_plotted_again_under_another_name():
    display = AbstentionCurveDisplay.from_predictions(Y, P, name="first")
    _, ax = plt.subplots()
    assert display.plot(ax, name="second") is display
    assert display.ax_ is ax
    assert display.line_.get_label() == "second (capacity accuracy = 0.617)"
    assert display.name == "first"


def test_without_name_and_axes_a_new_figure_shows_the_score_alone():
    _, other = plt.subplots()
    display = AbstentionCurveDisplay.from_predictions(Y, P)
    assert display.ax_ is not other
    assert not other.lines
    assert display.line_.get_label() == "capacity accuracy = 0.617"


def test_line_properties_and_aliases_override_defaults():
    display = AbstentionCurveDisplay.from_predictions(
        Y, P, ls=":", lw=3, color="red", marker="", label="mine"
    )
    line = display.line_
    assert (line.get_linestyle(), line.get_linewidth(), line.get_color()) == (":", 3, "red")
    assert line.get_label() == "mine"


def test_abstention_curve_without_points_is_drawn_empty():
    display = AbstentionCurveDisplay.from_predictions([1, 1], [0.9, 0.8], score="auc")
    assert display.line_.get_label() == "capacity AUC = nan"
    display.figure_.canvas.draw()


def test_estimators_that_have_no_curve_are_refused(fitted):
    model, X, y = fitted
    draw = AbstentionCurveDisplay.from_estimator
    with pytest.raises(ValueError, match=r"SVC has no predict_proba.*CalibratedClassifierCV"):
        draw(SVC().fit(X, y), X, y)
    with pytest.raises(NotFittedError):
        draw(LogisticRegression(), X, y)
    three = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match=r"fitted on 3 classes.*from_predictions"):
        draw(LogisticRegression().fit(X, three), X, three)
    with pytest.raises(ValueError, match=r"pos_label='eggs'.*\['ham', 'spam'\]"):
        draw(model, X, y, pos_label="eggs")


def test_unknown_score_of_an_abstention_curve_is_refused():
    with pytest.raises(ValueError, match="score='f1'"):
        AbstentionCurveDisplay.from_predictions(Y, P, score="f1")


def test_abstention_display_without_matplotlib_names_the_remedy(monkeypatch):
    display = AbstentionCurveDisplay(*abstention_curve(Y, P))
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r'pip install "skgpmcmc\[plots\]"'):
        display.plot()
