"""``.. benchmark-table:: NAME``: tables made from benchmarks/results/NAME.json at build time.

NAME may hold ``*``: every file that matches adds its rows. What a file looks like decides which
tables it gives; a file that is not there gives a sentence that says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"

#: Scores of the comparison, in the order of the columns; those that are better when small.
SCORES = ("accuracy", "log_loss", "brier", "auc", "capacity_accuracy", "capacity_auc", "seconds")


def table_lines(name: str, results: Path = RESULTS) -> list[str]:
    """Source lines of the tables of all files that match a name."""
    paths = sorted(results.glob(f"{name}.json"))
    if not paths:
        return [f"*The file* ``benchmarks/results/{name}.json`` *is not there yet.*", ""]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    if "runs" in documents[0]:
        return [line for document in documents for line in _comparison(document)]
    if documents[0]["benchmark"].startswith("convergence"):
        return _convergence(documents)
    return [line for document in documents for line in _estimator_noise(document)]


# --- one function per kind of file ----------------------------------------------------------------


def _estimator_noise(document: dict[str, Any]) -> list[str]:
    """Standard deviation of the log estimate: Pima, and the median of the simulated data."""
    results = document["results"]
    sizes = list(results[0]["log_sd"])
    rows = []
    for approximation in dict.fromkeys(r["approximation"] for r in results):
        mine = [r for r in results if r["approximation"] == approximation]
        pima = [r for r in mine if r["data"] == "pima"]
        simulated = [r["log_sd"] for r in mine if r["data"] != "pima"]
        rows += [["Pima", approximation, *(_two(r["log_sd"][n]) for n in sizes)] for r in pima]
        ranges = [
            f"{_two(np.median(v))} ({_two(min(v))} to {_two(max(v))})"
            for v in ([s[n] for s in simulated] for n in sizes)
        ]
        rows.append([f"simulated, median of {len(simulated)} (range)", approximation, *ranges])
    head = ["data", "approximation", *(f"N = {n}" for n in sizes)]
    return [*_list_table("", head, sorted(rows)), *_provenance(document)]


def _convergence(documents: Sequence[dict[str, Any]]) -> list[str]:
    """What chains were like: per hyper-parameter, and what a run cost."""
    parameters, runs = [], []
    for document in documents:
        settings, r = document["settings"], document["results"]
        run = f"{settings['sampler']}, {settings['approximation']}"
        columns = ("posterior_mean_log", "posterior_sd_log", "r_hat", "ess_bulk", "ess_tail")
        for j, name in enumerate(r["hyperparameters"]):
            mean, sd, r_hat, bulk, tail = (r[column][j] for column in columns)
            parameters.append(
                [run, name, _two(mean), _two(sd), f"{r_hat:.3f}", f"{bulk:.0f}", f"{tail:.0f}"]
            )
        rates = [rate for chain in r["acceptance_rate"].values() for rate in chain]
        n_kept = settings["n_chains"] * settings["n_draws"]
        ess = min(r["ess_bulk"])
        runs.append(
            [
                run,
                f"{settings['n_chains']} x ({settings['n_warmup']} + {settings['n_draws']})",
                f"{min(rates):.2f} to {max(rates):.2f}",
                _two(r["log_likelihood_sd"][0]),
                f"{r['n_cubic'] / r['n_likelihood_evaluations']:.1f}",
                f"{ess / n_kept:.3f}",
                f"{r['seconds_warmup']:.0f} + {r['seconds_sampling']:.0f}",
                f"{r['seconds_predict_200_rows']:.1f}",
            ]
        )
    parameter_head = [
        "sampler, approximation",
        "hyper-parameter",
        "mean (log)",
        "sd (log)",
        "R-hat",
        "ESS bulk",
        "ESS tail",
    ]
    run_head = [
        "sampler, approximation",
        "chains x (warm-up + draws)",
        "acceptance",
        "noise (sd)",
        "O(n^3) operations per evaluation",
        "ESS per kept draw",
        "seconds, warm-up + sampling",
        "seconds, 200 predictions",
    ]
    return [
        *_list_table("Posterior and convergence", parameter_head, parameters),
        *_list_table("Cost", run_head, runs),
        *_provenance(documents[0]),
    ]


def _comparison(document: dict[str, Any]) -> list[str]:
    """Mean and standard error over splits by data and method, and how the chains did."""
    runs = document["runs"]
    lines = []
    for data in dict.fromkeys(run["data"] for run in runs):
        scores, chains = [], []
        first = next(run for run in runs if run["data"] == data)
        for method in dict.fromkeys(run["method"] for run in runs if run["data"] == data):
            mine = [run for run in runs if run["data"] == data and run["method"] == method]
            scores.append([method, *(_mean_and_error(mine, score) for score in SCORES)])
            reports = [run["convergence"] for run in mine if run["convergence"] is not None]
            if reports:
                chains.append(
                    [
                        method,
                        f"{max(max(c['r_hat']) for c in reports):.3f}",
                        f"{min(min(c['ess_bulk']) for c in reports):.0f}",
                        _two(max(max(c["log_likelihood_sd"]) for c in reports)),
                    ]
                )
        n_splits = len({run["split"] for run in runs if run["data"] == data})
        size = f"{first['n_train']} training and {first['n_test']} test rows"
        score_head = ["method", *(score.replace("_", " ") for score in SCORES)]
        chain_head = ["method", "largest R-hat", "smallest bulk ESS", "largest noise (sd)"]
        lines += _list_table(f"{data}: {size}, {n_splits} split(s)", score_head, scores)
        lines += _list_table(f"{data}: chains, the worst over all splits", chain_head, chains)
    return [*lines, *_provenance(document)]


def _mean_and_error(runs: Iterable[dict[str, Any]], score: str) -> str:
    values = np.array([np.nan if r["scores"][score] is None else r["scores"][score] for r in runs])
    digits = 1 if score == "seconds" else 3
    mean = values.mean()
    if np.isnan(mean):
        return "undefined"
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


# --- reStructuredText -----------------------------------------------------------------------------


def _two(value: float) -> str:
    return f"{value:.2f}"


def _list_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [f".. list-table:: {title}".rstrip(), "   :header-rows: 1", ""]
    for row in (head, *rows):
        lines += [f"   {'*' if j == 0 else ' '} - {cell}" for j, cell in enumerate(row)]
    return [*lines, ""]


def _provenance(document: dict[str, Any]) -> list[str]:
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    machine = document["machine"]
    settings = ", ".join(f"{key} = {value}" for key, value in document["settings"].items())
    return [
        f"Made with {versions}, on {machine['machine']} with {machine['cpus']} CPUs; "
        f"settings: {settings}.",
        "",
    ]


class BenchmarkTable(SphinxDirective):
    """The directive; its argument is the NAME."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the tables where the directive stands."""
        name = self.arguments[0]
        for path in RESULTS.glob(f"{name}.json"):
            self.env.note_dependency(str(path))
        return self.parse_text_to_nodes("\n".join(table_lines(name)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("benchmark-table", BenchmarkTable)
    return {"parallel_read_safe": True}
