"""What a comparison shows: a table, a conclusion, convergence, and a file."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn

from ..run import Diagnostics
from .methods import SCORES, Comparison, Outcome, Settings

#: Scores of which small ones are better.
_SMALL = ("log_loss", "brier", "seconds")
#: Names of hyper-parameters in the convergence tables, for people.
_PLAIN_NAMES = (
    "k1__constant_value: variance of the latent function; "
    "k2__length_scale: distance over which it changes (both as logarithms)"
)
#: What the file has of `Diagnostics`, besides acceptance rates.
_ARRAYS = ("r_hat", "ess_bulk", "ess_tail", "log_likelihood_sd")
_NUMBERS = ("n_cubic", "n_likelihood_evaluations", "seconds_warmup", "seconds_sampling")


def score_table(outcomes: Sequence[Outcome]) -> str:
    """One line per method: the score, or mean +- standard error over splits.

    An arrow says whether large or small scores are better, and a star marks the best mean of
    several methods. A method that failed has dashes; one that failed on some splits has the mean
    over the others, and its name says over how many. A score that is not there, as in an older
    file, is a dash, too.
    """
    names = list(dict.fromkeys(o.method for o in outcomes))
    columns = {column: _column(outcomes, names, column) for column in SCORES}
    arrows = {column: "↓" if column in _SMALL else "↑" for column in SCORES}
    cells = [["", *(f"{column.replace('_', ' ')} {arrows[column]}" for column in SCORES)]]
    for k, name in enumerate(names):
        mine = [o for o in outcomes if o.method == name]
        n_done = sum(o.failure is None for o in mine)
        partly = f" ({n_done} of {len(mine)} splits)" if 0 < n_done < len(mine) else ""
        cells.append([name + partly, *(columns[column][k] for column in SCORES)])
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def _values(outcomes: Sequence[Outcome], name: str, column: str) -> list[float]:
    """Scores of a method on the splits that it finished."""
    done = [o for o in outcomes if o.method == name and o.failure is None]
    return [o.scores.get(column, np.nan) for o in done]


def _column(outcomes: Sequence[Outcome], names: Sequence[str], column: str) -> list[str]:
    """Cells of a score, the best of several with a star, the others with a blank instead."""
    values = [_values(outcomes, name, column) for name in names]
    cells = [_cell(each) for each in values]
    if len(names) == 1:
        return cells
    # Means that are the same as they are shown are equally good.
    means = [np.nan if cell == "-" else float(cell.split()[0]) for cell in cells]
    if np.isnan(means).all():
        return [f"{cell} " for cell in cells]
    best = np.nanmin(means) if column in _SMALL else np.nanmax(means)
    return [
        f"{cell}{'*' if mean == best else ' '}" for cell, mean in zip(cells, means, strict=True)
    ]


def _cell(values: Sequence[float]) -> str:
    if not values or np.isnan(values).any():
        return "-"
    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:.3f}"
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return f"{mean:.3f} ± {error:.3f}"


def conclusion(outcomes: Sequence[Outcome]) -> str:
    """Return one sentence: which method has the lowest log loss, and which are not clearly worse.

    A method is clearly worse if the mean of its differences from the best one, split by split, is
    more than two standard errors.
    """
    names = list(dict.fromkeys(o.method for o in outcomes))
    n_splits = len({o.split for o in outcomes})
    losses = {name: np.array(_values(outcomes, name, "log_loss")) for name in names}
    losses = {name: each for name, each in losses.items() if len(each) == n_splits}
    if not losses:
        return "No method finished on every split."
    best = min(losses, key=lambda name: float(losses[name].mean()))
    found = f"The lowest log loss has {best} ({losses[best].mean():.3f})"
    if n_splits == 1:
        return f"{found}, on one split; --repeats 10 tells whether that is more than chance."
    others = [name for name in losses if name != best]
    near = [name for name in others if not _clearly_above(losses[name] - losses[best])]
    if not near:
        return f"{found}; all others are worse by more than two standard errors."
    return f"{found}; within two standard errors of it: {', '.join(near)}."


def _clearly_above(differences: np.ndarray) -> bool:
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return bool(differences.mean() > 2.0 * error)


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
    if lines:
        lines = [_PLAIN_NAMES, "", *lines]
    return "\n".join(lines)


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
