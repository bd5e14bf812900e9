"""Tables of whole fits: beside a tuned support vector machine, and part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rst_tables import decimals, list_table, provenance


def tuned_svm(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Seconds of fits to 400 effective draws, and of a tuned machine."""
    (document,) = documents
    results = document["results"]
    rows = [
        [
            r["problem"],
            *(decimals(r[name], 2) for name in ("ours", "SVM, 5 x 5", "ratio", "wanted")),
            decimals(r["scikit-learn GPC"], 2),
        ]
        for r in results["rows"]
    ]
    first = results["first fit"]
    numbers = [decimals(first[name], 2) for name in ("ours", "SVM, 5 x 5", "ratio")]
    rows.append(["moons, first fit of a process", *numbers, "0.90", ""])
    head = ["data", "skgpmcmc, s", "SVM with a 5 x 5 grid, s", "ratio", "target"]
    return [*list_table("", [*head, "scikit-learn's GPC, s"], rows), *provenance(document)]


def step_many(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Milliseconds of an evaluation where chains move together, and where each moves alone."""
    (document,) = documents
    rows = [
        [
            r["problem"],
            decimals(r["n"], 0),
            decimals(r["chains"], 0),
            *(decimals(r[name], 2) for name in ("alone", "together", "ratio")),
        ]
        for r in document["results"]
    ]
    head = ["data", "rows", "chains", "each alone, ms", "together, ms", "ratio"]
    return [*list_table("", head, rows), *provenance(document)]


def memory(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Largest resident sets, and those of fits in matrices of n x n numbers."""
    (document,) = documents
    rows = [
        [
            task,
            decimals(r["peak_mebibytes"], 0),
            decimals(r["beyond_imports"], 0),
            "" if r["matrices"] is None else decimals(r["matrices"], 1),
        ]
        for task, r in document["results"].items()
    ]
    head = ["process", "peak, MiB", "without imports, MiB", "in n x n matrices"]
    return [*list_table("", head, rows), *provenance(document)]


def concurrency(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Seconds of fits beside one another over those of a fit alone, by the number of rows."""
    (document,) = documents
    by_size = document["results"]
    names = next(iter(by_size.values()))
    rows = [[name, *(decimals(found[name], 2) for found in by_size.values())] for name in names]
    head = ["fits at the same time", *(f"n = {n}" for n in by_size)]
    return [*list_table("", head, rows), *provenance(document)]
