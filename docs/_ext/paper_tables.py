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
    printed = _printed("comparative")
    lines = []
    for group, shapes in document["results"].get(part, {}).items():
        for shape, cell in shapes.items():
            theirs = printed["tables"][part].get(group, {}).get(shape, {})
            title = ", ".join(filter(None, (LIKELIHOODS.get(group, group), shape)))
            lines += _cell(title, cell, theirs, document["settings"]["iterations"])
    return lines or ["*Not measured yet.*", ""]


#: What tables call the methods of the paper on fast approximations.
MAPPED = {
    "standard": "slices",
    "sod": "SOD",
    "nystrom": "Nyström",
    "tempered": "tempered",
    "collapsed": "collapsed",
    "chosen sod": "SOD, m chosen",
    "chosen nystrom": "Nyström, m chosen",
}


def fast_approximations(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render table "2", ratios beside the paper's, table "3", their factors, or the "settings"."""
    (document,) = documents
    if part == "settings":
        return provenance(document)
    printed = _printed("fast_approximations")["table"]
    row = _ratios if part == "2" else _factors
    rows = [
        [number, cells["standard"]["title"], *row(cells, printed[number])]
        for number, cells in sorted(document["results"].items(), key=lambda item: int(item[0]))
        if "standard" in cells
    ]
    first = "slices, s" if part == "2" else MAPPED["standard"]
    head = ["#", "data", first, *list(MAPPED.values())[1:]]
    return list_table("", head, rows) or ["*Not measured yet.*", ""]


def rmhmc(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render the estimates of log p(y | theta) of one setting, or the "settings" of the run."""
    (document,) = documents
    if part == "settings":
        return provenance(document, settings=False)
    cells = dict(document["results"][part])
    rows = [
        [name, "", f"{cell['log_evidence']:.2f}", "", f"{cell['seconds']:.3f}"]
        for name, cell in cells.pop("deterministic").items()
    ]
    n_runs = document["settings"]["n_runs"]
    for method, lengths in cells.items():
        for length, cell in lengths.items():
            weights = np.exp(np.array(cell["log_weights"]) - np.max(cell["log_weights"]))
            error = weights.std(ddof=1) / weights.mean() / np.sqrt(n_runs)
            estimate = f"{cell['log_evidence']:.2f} ({error:.2f})"
            spread = f"{cell['sd']:.2f}" if cell["sd"] < 100.0 else f"{cell['sd']:.0f}"
            rows.append([method, length, estimate, spread, f"{cell['seconds_per_run']:.3f}"])
    head = [
        "method",
        "temperatures",
        f"log p(y), {n_runs} runs (error)",
        "sd of the log weight of a run",
        "s per run",
    ]
    return list_table("", head, rows)


def annealed_noise(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render the noise of estimates of p(y | theta), and what each of them costs."""
    (document,) = documents
    methods = list(next(iter(next(iter(document["results"].values())).values())))
    methods += ["HMC"] * ("HMC" not in methods)
    rows = []
    for case, thetas in document["results"].items():
        for theta, cells in thetas.items():
            found = [
                f"{cell['sd']:.2f} at {cell['mean']:.1f}, {1e3 * cell['seconds']:.0f} ms"
                if (cell := cells.get(method))
                else "none"
                for method in methods
            ]
            rows.append([f"{case}: {theta}", *found])
    return [*provenance(document, settings=False), *list_table("", ["case", *methods], rows)]


def _ratios(cells: Mapping[str, Any], theirs: Mapping[str, float]) -> list[str]:
    """Autocorrelation time times seconds; of all but the first divided by that of the first."""

    def product(name: str) -> float:
        return float(cells[name]["autocorrelation_time"] * cells[name]["seconds"])

    found = [f"{product('standard'):.3f}"]
    for name in list(MAPPED)[1:]:
        text = f"{product(name) / product('standard'):.2f}" if name in cells else "none"
        found.append(text + (f" ({theirs[name]:.2f})" if name in theirs else ""))
    return found


def _factors(cells: Mapping[str, Any], theirs: Mapping[str, float]) -> list[str]:
    """Autocorrelation time, milliseconds of an iteration, and how often it moves."""
    return [
        f"{cell['autocorrelation_time']:.1f} x {1e3 * cell['seconds']:.1f} ms, "
        f"{100 * cell['acceptance']:.0f} %" + (f", {cell['note']}" if cell["note"] else "")
        if (cell := cells.get(name))
        else "none"
        for name in MAPPED
    ]


def _printed(name: str) -> Any:
    """What a paper has printed."""
    return json.loads((PRINTED / f"{name}_printed.json").read_text(encoding="utf-8"))


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
