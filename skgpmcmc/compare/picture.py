"""The picture of a comparison: abstention curves, and a reliability diagram beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..displays._drawing import choose_style
from ..metrics import abstention_curve
from .methods import Comparison, MethodOutcome

#: Degrees of abstention at which curves of several splits are averaged.
_ABSTENTION_GRID = np.linspace(0.0, 1.0, 101)
#: Colors of the methods, which people with any color vision tell apart (Okabe and Ito).
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
#: Bins of the reliability diagram.
_N_RELIABILITY_BINS = 5
#: Fewest different rows of a bin that is drawn.
_FEWEST_ROWS_IN_BIN = 10
#: Fewest test rows that the axis of accuracy spans, so that one row is a small part of it.
_ROWS_ON_AXIS = 20
#: Least span of the axis of accuracy. On a narrower one noise looks like a difference.
_LEAST_ACCURACY_SPAN = 0.05


def no_plot_message(results: Sequence[Comparison]) -> str | None:
    """Say why there are no abstention curves; None if they can be drawn."""
    if not any(len(np.unique(c.data.y)) == 2 for c in results):
        sizes = ", ".join(f"{c.data.name!r} has {len(np.unique(c.data.y))}" for c in results)
        return f"abstention curves are for two classes, and {sizes}"
    if not _find_drawable(results):
        return "no method has finished"
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return 'matplotlib is not installed: pip install "skgpmcmc[plots]"'
    return None


def _find_drawable(
    results: Sequence[Comparison],
) -> list[tuple[Comparison, dict[str, list[MethodOutcome]]]]:
    """Return the comparisons with two classes, with the results of each method that finished."""
    pairs = []
    for comparison in results:
        done: dict[str, list[MethodOutcome]] = {}
        for outcome in comparison.outcomes:
            if outcome.failure is None:
                done.setdefault(outcome.method, []).append(outcome)
        if done and len(np.unique(comparison.data.y)) == 2:
            pairs.append((comparison, done))
    return pairs


def save_plot(path: Path, results: Sequence[Comparison]) -> None:
    """Draw all two-class data sets, if `no_plot_message` is None.

    Abstention curves are means over the splits, with bands of one standard error. With a single
    split they have no bands.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    drawable = _find_drawable(results)
    methods = list(dict.fromkeys(name for _, done in drawable for name in done))
    colors = [_COLORS[k % len(_COLORS)] for k in range(len(methods))]
    style = {name: {"color": colors[k], **choose_style(k)} for k, name in enumerate(methods)}
    figure = Figure(figsize=(8.0, 1.2 + 3.0 * len(drawable)), layout="constrained")
    panels = figure.subplots(len(drawable), 2, squeeze=False)
    for (left, right), (comparison, done) in zip(panels, drawable, strict=True):
        for name, outcomes in done.items():
            _draw_curve(left, outcomes, style[name])
            right.errorbar(*reliability(outcomes), elinewidth=1, **style[name])
        _label_curves(left, comparison)
        _label_reliability(right, comparison)
    handles = [Line2D([], [], label=name, **style[name]) for name in methods]
    columns = min(2, len(methods))
    title = "Bars, and bands over splits: ± one standard error"
    figure.legend(handles=handles, title=title, loc="outside lower center", ncols=columns)
    figure.savefig(path, dpi=150)


def _draw_curve(ax: Any, outcomes: Sequence[MethodOutcome], style: dict[str, Any]) -> None:
    """Draw the mean abstention curve, up to the degree that the curves of all splits reach."""
    curves = []
    for outcome in outcomes:
        positive = np.unique(outcome.y_test)[-1]
        curve = abstention_curve(outcome.y_test, outcome.proba, pos_label=positive)
        curves.append(np.interp(_ABSTENTION_GRID, *curve, right=np.nan))
    values = np.array(curves)
    mean = values.mean(axis=0)
    ax.plot(_ABSTENTION_GRID, mean, markevery=10, **style)
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        band = {"color": style["color"], "alpha": 0.15, "linewidth": 0}
        ax.fill_between(_ABSTENTION_GRID, mean - error, mean + error, **band)


def _label_curves(ax: Any, comparison: Comparison) -> None:
    """Set the title, and axes on which a single row makes a small difference."""
    split = comparison.first
    n_splits = len({o.split for o in comparison.outcomes})
    n_test = len(split.y_test)
    title = f"{comparison.data.name}: {len(split.y_train)} training, {n_test} test rows"
    if n_splits > 1:
        title += f", {n_splits} splits"
    ax.set_title(title, loc="left", fontsize="medium")
    span = min(1.0, max(_LEAST_ACCURACY_SPAN, _ROWS_ON_AXIS / n_test, 1.05 * (1.0 - ax.dataLim.y0)))
    ax.set(xlim=(-0.02, 1.02), ylim=(1.0 - span, 1.0 + 0.03 * span))
    ax.set(xlabel="Share of test rows rejected", ylabel="Accuracy on the rows kept")


def _label_reliability(ax: Any, comparison: Comparison) -> None:
    """Set the title and the axes, and draw the diagonal, where probabilities are calibrated."""
    positive = np.unique(comparison.data.y)[-1]
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
    ax.set_title("Reliability (gray line: calibrated)", loc="left", fontsize="medium")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.set(xlabel=f"Predicted probability of class {positive}", ylabel="Observed frequency")


def reliability(outcomes: Sequence[MethodOutcome]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean predicted probability, observed frequency and its standard error of each bin.

    Test rows of all splits are pooled, and bins with few rows are left out. A row that is in
    several test sets counts as one observation for the error.
    """
    y = np.concatenate([o.y_test == np.unique(o.y_test)[-1] for o in outcomes]).astype(float)
    p = np.concatenate([o.proba[:, 1] for o in outcomes])
    row = np.concatenate([o.test_rows for o in outcomes])
    in_bin = np.minimum((p * _N_RELIABILITY_BINS).astype(int), _N_RELIABILITY_BINS - 1)
    points = []
    for k in range(_N_RELIABILITY_BINS):
        own = in_bin == k
        if len(np.unique(row[own])) >= _FEWEST_ROWS_IN_BIN:
            frequency = y[own].mean()
            sums = np.bincount(row[own], weights=y[own] - frequency)
            error = np.sqrt(sums @ sums) / own.sum()  # that of a ratio of sums
            points.append((p[own].mean(), frequency, error))
    predicted, observed, error = np.array(points).reshape(-1, 3).T
    return predicted, observed, error
