"""The report on convergence, and the result file of a comparison."""

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

from .._version import __version__
from ..run.diagnostics import Diagnostics
from .methods import SCORES, Comparison, MethodOutcome, Settings
from .table import list_methods, select_outcomes

#: Arrays of `Diagnostics` that the file contains, besides the acceptance rates.
_DIAGNOSTIC_ARRAYS = ("r_hat", "ess_bulk", "ess_tail", "log_likelihood_sd")
#: Numbers of `Diagnostics` that the file contains.
_DIAGNOSTIC_NUMBERS = ("n_cubic", "n_likelihood_evaluations", "seconds_warmup", "seconds_sampling")


def convergence_report(outcomes: Sequence[MethodOutcome], max_rhat: float) -> str:
    """Return a line for each method with chains, with the worst figures over all splits.

    A method that has not converged also has the table of its first run that has not.
    """
    lines = []
    for method in list_methods(outcomes):
        own = select_outcomes(method, outcomes)
        runs = [(o.split, o.diagnostics) for o in own if o.diagnostics is not None]
        if not runs:
            continue
        worst = max(float(d.r_hat.max()) for _, d in runs)
        fewest = min(float(d.ess_bulk.min()) for _, d in runs)
        failed = [(split, d) for split, d in runs if not d.converged(max_rhat)]
        verdict = "NOT CONVERGED" if failed else "converged"
        lines.append(
            f"{method}: {verdict}; largest R-hat {worst:.3f} (at most {max_rhat:g} wanted),"
            f" smallest bulk ESS {fewest:.0f}, over {_count(len(runs), 'split')}"
        )
        if failed:
            split, table = failed[0]
            lines += [f"split {split + 1}:", str(table), ""]
    return "\n".join(lines)


def as_json(
    results: Sequence[Comparison], settings: Settings, random_state: int, *, complete: bool = True
) -> str:
    """Return all results but the probabilities, with versions and settings, as JSON text."""
    runs = [
        {
            "data": comparison.data.name,
            "n_train": len(comparison.first.y_train),
            "n_test": len(comparison.first.y_test),
            "method": outcome.method,
            "split": outcome.split,
            "scores": {name: _nan_to_none(outcome.scores.get(name, np.nan)) for name in SCORES},
            "convergence": _describe_convergence(outcome.diagnostics),
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
        "data_notes": {comparison.data.name: list(comparison.data.notes) for comparison in results},
        "complete": complete,
        "runs": runs,
    }
    return json.dumps(document, indent=1)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _nan_to_none(value: float) -> float | None:
    return None if np.isnan(value) else value


def _describe_convergence(diagnostics: Diagnostics | None) -> dict[str, Any] | None:
    if diagnostics is None:
        return None
    d = diagnostics
    arrays = {name: getattr(d, name).tolist() for name in _DIAGNOSTIC_ARRAYS}
    rates = {name: rate.tolist() for name, rate in d.acceptance_rate.items()}
    rows = [d.row_label(row) for row in range(len(d.names))]
    numbers = {name: getattr(d, name) for name in _DIAGNOSTIC_NUMBERS}
    return {"rows": rows, **arrays, "acceptance_rate": rates, **numbers}
