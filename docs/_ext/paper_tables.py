"""Tables of benchmarks/papers: our figures beside those of the paper."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rst_tables import list_table, provenance

PRINTED = Path(__file__).resolve().parents[2] / "benchmarks" / "papers"
LIKELIHOODS = {"lrg": "logistic", "lcx": "Poisson", "vlt": "volatility", "ord": "ordinal"}


def comparative(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render table `part` of the comparative evaluation, "2" to "6", or its "settings"."""
    (document,) = documents
    if part == "settings":
        return provenance(document)
    printed = json.loads((PRINTED / "comparative_printed.json").read_text(encoding="utf-8"))
    lines = []
    for group, shapes in document["results"].get(part, {}).items():
        for shape, cell in shapes.items():
            theirs = printed["tables"][part].get(group, {}).get(shape, {})
            title = ", ".join(filter(None, (LIKELIHOODS.get(group, group), shape)))
            lines += _cell(title, cell, theirs, document["settings"]["iterations"])
    return lines or ["*Not measured yet.*", ""]


def _cell(
    title: str, cell: Mapping[str, Any], theirs: Mapping[str, str], iterations: int
) -> list[str]:
    """One row for each method of a cell, and how fast they converge."""
    rows = []
    for name, result in cell["methods"].items():
        sets, length = result["sets"], result["length"]
        ess = np.concatenate([one["ess"] for one in sets])
        operations = float(np.mean([sum(one["operations"].values()) for one in sets]))
        r_hat = np.median([_finite(one["r_hat"].values()) for one in sets], axis=0)
        rows.append(
            [
                name,
                f"{ess.mean():.0f} ({ess.std():.0f})",
                _smooth(sets),
                theirs.get(name, "none"),
                " ".join(f"{value:.2f}" for value in r_hat),
                f"{operations:.2f}",
                f"{ess.mean() / (operations * iterations):.4f}",
                f"{length['n_data']} x {length['n_chains']} x {length['n_draws']}",
            ]
        )
    head = [
        "method",
        "ESS (sd)",
        "autoregressive",
        "paper's ESS (sd)",
        "R-hat",
        "operations per iteration",
    ]
    head += ["ESS per operation", "data sets x chains x draws"]
    lines = list_table(title, head, rows)
    converged = f"Order of convergence: {cell['order']}"
    if "order" in theirs:
        converged += f"; in the paper: {theirs['order']}"
    return [*lines, f"{converged}.", ""]


def _finite(values: Iterable[float | None]) -> list[float]:
    """Numbers; JSON holds those that are infinite as null."""
    return [np.inf if value is None else value for value in values]


def _smooth(sets: Iterable[Mapping[str, Any]]) -> str:
    """Effective sample size by autoregressions, where it was measured."""
    values = [ess for one in sets for ess in one.get("ess_autoregressive", [])]
    return f"{np.mean(values):.0f} ({np.std(values):.0f})" if values else ""
