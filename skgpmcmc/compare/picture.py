"""The figure of a comparison: log loss, accuracy under abstention, and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..metrics import abstention_curve
from .methods import Comparison, Outcome

_COLORS = ("C0", "C4", "C1", "C2", "C3", "C5")
_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
#: Shortest axis of accuracies, so that one row more or less does not look like much.
_LEAST_SPAN = 0.1
_N_BINS = 6


def why_no_plot(results: Sequence[Comparison]) -> str | None:
    """Say what is missing for abstention curves; None where nothing is."""
    if not any(len(np.unique(c.data.y)) == 2 for c in results):
        sizes = ", ".join(f"{c.data.name!r} has {len(np.unique(c.data.y))}" for c in results)
        return f"abstention curves are for two classes, and {sizes}"
    if not _drawable(results):
        return "no method has finished on the first split"
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return 'matplotlib is not installed: pip install "skgpmcmc[plots]"'
    return None


def _drawable(results: Sequence[Comparison]) -> list[tuple[Comparison, list[Outcome]]]:
    """Two classes, with what was predicted on the first split."""
    pairs = [(c, [o for o in c.outcomes if o.split == 0 and o.failure is None]) for c in results]
    return [(c, done) for c, done in pairs if done and len(np.unique(c.data.y)) == 2]


def save_plot(path: Path, results: Sequence[Comparison]) -> None:
    """Draw a row for each data set, where `why_no_plot` finds nothing missing."""
    from matplotlib.figure import Figure

    drawable = _drawable(results)
    figure = Figure(figsize=(14, 4.6 * len(drawable) + 0.6), layout="constrained")
    axes = figure.subplots(len(drawable), 3, squeeze=False)
    for row, (comparison, first) in zip(axes, drawable, strict=True):
        _draw_losses(row[0], comparison, first)
        _draw_abstention(row[1], comparison, first)
        _draw_reliability(row[2], comparison, first)
        split = comparison.first
        n_train, n_test = len(split.y_train), len(split.y_test)
        row[0].set_title(f"{comparison.data.name}: {n_train} training, {n_test} test rows")
    handles, labels = axes[0, 1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=110)


def _style(number: int) -> dict[str, Any]:
    return {"color": _COLORS[number % 6], "linestyle": _STYLES[number % 6]}


def _row_losses(comparison: Comparison, outcome: Outcome) -> np.ndarray:
    """Log loss of each test row of the first split."""
    y = comparison.first.y_test
    proba = outcome.proba[np.arange(len(y)), np.searchsorted(np.unique(comparison.data.y), y)]
    return -np.log(np.maximum(proba, np.finfo(float).tiny))


def _draw_losses(ax: Any, comparison: Comparison, first: Sequence[Outcome]) -> None:
    """Mean log loss of each method, with its standard error: over splits, or over rows of one."""
    methods = [o.method for o in first]
    one_split = len({o.split for o in comparison.outcomes}) == 1
    over = "the test rows" if one_split else "the splits"
    means, errors = [], []
    for outcome in first:
        losses = [
            o.scores["log_loss"]
            for o in comparison.outcomes
            if o.method == outcome.method and o.failure is None
        ]
        values = _row_losses(comparison, outcome) if one_split else np.array(losses)
        means.append(np.mean(losses))
        errors.append(values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0)
    best = int(np.argmin(means))
    for place, (mean, error) in enumerate(zip(means, errors, strict=True)):
        marker = "*" if place == best else "o"
        size = 14 if place == best else 7
        style = {"fmt": marker, "markersize": size, "capsize": 4, "color": _COLORS[place % 6]}
        ax.errorbar(mean, place, xerr=error, **style)
    ax.set_yticks(range(len(methods)), methods)
    ax.invert_yaxis()
    ax.set_xlim(0.0, 1.15 * float(np.max(np.add(means, errors))))
    ax.set_xlabel(f"← better   log loss (star: lowest)\nbars: standard error over {over}")
    ax.margins(y=0.15)


def _draw_abstention(ax: Any, comparison: Comparison, first: Sequence[Outcome]) -> None:
    """Accuracy of the kept rows of the first split against the rejected share."""
    lowest = 1.0
    for number, outcome in enumerate(first):
        abstention, accuracy = abstention_curve(comparison.first.y_test, outcome.proba)
        ax.plot(abstention, accuracy, label=outcome.method, linewidth=1.8, **_style(number))
        lowest = min(lowest, float(np.min(accuracy)))
    ax.set_ylim(min(1.0 - _LEAST_SPAN, lowest - 0.01), 1.005)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("share of rows left undecided, the least certain first")
    ax.set_ylabel("accuracy on the other rows   better →")
    ax.set_title("abstention (first split)")
    ax.grid(alpha=0.3)


def _draw_reliability(ax: Any, comparison: Comparison, first: Sequence[Outcome]) -> None:
    """Observed frequency against predicted probability, in bins of equally many test rows."""
    positive = comparison.first.y_test == np.unique(comparison.data.y)[1]
    ax.plot([0.0, 1.0], [0.0, 1.0], color="0.6", linewidth=1.0)
    for number, outcome in enumerate(first):
        p = outcome.proba[:, 1]
        bins = np.array_split(np.argsort(p), min(_N_BINS, len(p)))
        predicted = np.array([p[rows].mean() for rows in bins])
        observed = np.array([positive[rows].mean() for rows in bins])
        sizes = np.array([len(rows) for rows in bins])
        shrunk = (observed * sizes + 1.0) / (sizes + 2.0)  # no error bar of length zero
        error = np.sqrt(shrunk * (1.0 - shrunk) / sizes)
        style = {"marker": "o", "markersize": 4, "elinewidth": 0.7, **_style(number)}
        ax.errorbar(predicted, observed, error, **style)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    ax.set_xlabel("predicted probability")
    ax.set_ylabel("observed frequency")
    ax.set_title("calibration (first split): on the line is ideal")
