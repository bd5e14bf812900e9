"""What a comparison shows: a table, convergence, a plot, and a file."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn

from ..run import Diagnostics
from .methods import SCORES, Comparison, Outcome, Settings

#: What the file has of `Diagnostics`, besides acceptance rates.
_ARRAYS = ("r_hat", "ess_bulk", "ess_tail", "log_likelihood_sd")
_NUMBERS = ("n_cubic", "n_likelihood_evaluations", "seconds_warmup", "seconds_sampling")


def score_table(outcomes: Sequence[Outcome]) -> str:
    """One line per method: the score, or mean +- standard error over splits.

    A method that failed has dashes; one that failed on some splits has the mean over the others,
    and its name says over how many. A score that is not there, as in an older file, is a dash, too.
    """
    names = list(dict.fromkeys(o.method for o in outcomes))
    cells = [["", *(column.replace("_", " ") for column in SCORES)]]
    for name in names:
        mine = [o for o in outcomes if o.method == name]
        scores = [o.scores for o in mine if o.failure is None]
        partly = f" ({len(scores)} of {len(mine)} splits)" if 0 < len(scores) < len(mine) else ""
        row = [_cell([s.get(column, np.nan) for s in scores]) for column in SCORES]
        cells.append([name + partly, *row])
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    if not values or np.isnan(values).any():
        return "-"
    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:.3f}"
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return f"{mean:.3f} ± {error:.3f}"


def convergence_report(outcomes: Sequence[Outcome], max_rhat: float) -> str:
    """The convergence table of each method's first run, and the worst figures over all splits."""
    lines = []
    for method in dict.fromkeys(o.method for o in outcomes):
        mine = [o for o in outcomes if o.method == method]
        runs = [(o.split, o.diagnostics) for o in mine if o.diagnostics is not None]
        if not runs:
            continue
        worst = max(float(d.r_hat.max()) for _, d in runs)
        fewest = min(float(d.ess_bulk.min()) for _, d in runs)
        verdict = "converged" if worst <= max_rhat else "NOT CONVERGED"
        split, first = runs[0]
        lines += [
            f"{method}: {verdict}; largest R-hat {worst:.3f} (at most {max_rhat:g} wanted),"
            f" smallest bulk ESS {fewest:.0f}, over {len(runs)} split(s); split {split + 1}:",
            str(first),
            "",
        ]
    return "\n".join(lines)


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
    """Abstention curves of the first split, where `why_no_plot` finds nothing missing."""
    from matplotlib.figure import Figure

    from ..displays import AbstentionCurveDisplay

    drawable = _drawable(results)
    figure = Figure(figsize=(12, 5.2 * len(drawable)), layout="constrained")
    axes = figure.subplots(len(drawable), 2, squeeze=False)
    for row, (comparison, outcomes) in zip(axes, drawable, strict=True):
        split = comparison.first
        title = f"{comparison.data.name}: {len(split.y_train)} training, {len(split.y_test)} test"
        for ax, kind in zip(row, ("accuracy", "auc"), strict=True):
            for outcome in outcomes:
                AbstentionCurveDisplay.from_predictions(
                    split.y_test, outcome.proba, score=kind, name=outcome.method, ax=ax
                )
            ax.set_title(f"{title} rows")
    figure.savefig(path, dpi=110)


def as_json(
    results: Sequence[Comparison], settings: Settings, random_state: int, *, complete: bool = True
) -> str:
    """Everything but the probabilities, with versions and settings; a failure has no scores."""
    from .._version import __version__

    runs = [
        {
            "data": comparison.data.name,
            "n_train": len(comparison.first.y_train),
            "n_test": len(comparison.first.y_test),
            "method": outcome.method,
            "split": outcome.split,
            "scores": {name: _plain(outcome.scores.get(name, np.nan)) for name in SCORES},
            "convergence": _convergence_json(outcome.diagnostics),
            "notes": outcome.notes,
            "failure": outcome.failure,
        }
        for comparison in results
        for outcome in comparison.outcomes
    ]
    packages = {module.__name__: module.__version__ for module in (np, scipy, sklearn, joblib)}
    cpus = joblib.cpu_count()
    document = {
        "versions": {"skgpmcmc": __version__, "python": platform.python_version(), **packages},
        "machine": {"system": platform.system(), "machine": platform.machine(), "cpus": cpus},
        "settings": asdict(settings),
        "random_state": random_state,
        "complete": complete,
        "runs": runs,
    }
    return json.dumps(document, indent=1)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value


def _convergence_json(diagnostics: Diagnostics | None) -> dict[str, Any] | None:
    if diagnostics is None:
        return None
    d = diagnostics
    arrays = {name: getattr(d, name).tolist() for name in _ARRAYS}
    rates = {name: rate.tolist() for name, rate in d.acceptance_rate.items()}
    rows = [d.row_label(row) for row in range(len(d.names))]
    numbers = {name: getattr(d, name) for name in _NUMBERS}
    return {"rows": rows, **arrays, "acceptance_rate": rates, **numbers}
