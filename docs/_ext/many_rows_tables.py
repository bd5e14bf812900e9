"""Tables of fits of many rows, and of fits on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rst_tables import decimals, list_table, provenance, two


def many_rows(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Ranks of kernels, fits of many rows, and the same rows with and without the matrix."""
    (document,) = documents
    results = document["results"]
    rows: list[list[str]] = []
    if part == "ranks":
        numbers = sorted({int(name.split(", ")[3]) for name in results["ranks"]})
        for name in dict.fromkeys(name.rpartition(", ")[0] for name in results["ranks"]):
            kernel, length, d = name.split(", ")
            found = [results["ranks"].get(f"{name}, {n}") for n in numbers]
            rows.append([kernel, length, d, *map(_rank_and_seconds, found)])
        head = ["kernel", "length-scale", "features", *(f"n = {n}" for n in numbers)]
        return list_table("", head, rows)
    if part == "fits":
        for name, own in results.get("fits", {}).items():
            minutes = decimals(own["seconds"] / 60.0, 1)
            gibibytes = decimals(own["memory"] / 1024.0, 1)
            measures = [decimals(own["evaluations"], 0), decimals(own["ess"], 0)]
            end = [decimals(own["r_hat"], 3), "yes" if own["inside"] else "no"]
            rows.append([*name.split(", "), str(own["rank"]), minutes, gibibytes, *measures, *end])
        head = ["targets", "n", "rank", "minutes", "GiB", "evaluations", "least effective draws"]
        head += ["R-hat", "truth inside"]
        return [*list_table("", head, rows), *provenance(document)]
    if part == "inducing":
        for name, own in results.get("inducing", {}).items():
            largest = max(own.get("divergence", [0.0]))
            rows.append([name, decimals(own["log_loss"], 4), two(largest), two(own["seconds"])])
        head = ["inducing inputs", "log loss", "largest divergence of a marginal", "seconds"]
        return list_table("", head, rows)
    for kind, own in results.get("compared", {}).items():
        gap, error = own["difference_of_evidence"], own["error_of_evidence"]
        largest = np.abs(own["difference_of_quantiles"]).max()
        rows.append([kind, two(np.abs(own["z_means"]).max()), two(largest), two(gap), two(error)])
    head = ["targets", "largest z of a mean", "largest difference of a quantile"]
    head += ["difference of log evidence", "its Monte Carlo error"]
    return list_table("", head, rows)


def _rank_and_seconds(found: dict[str, Any] | None) -> str:
    """A rank, and the seconds of a root with this many columns."""
    if found is None:
        return ""
    if found["rank"] is None:
        return "large"
    return f"{found['rank']} ({two(found['seconds'])} s)"


def spatial(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Scores of methods for thousands of rows in space."""
    (document,) = documents
    rows = [
        [
            name,
            str(own.get("rows", document["settings"]["rows"])),
            decimals(own["log_density"], 4),
            decimals(own["auc"], 3),
            decimals(own["seconds"], 0),
        ]
        for name, own in document["results"].items()
    ]
    head = ["method", "training rows", "log density", "AUC", "seconds"]
    return [*list_table("", head, rows), *provenance(document)]


def clusters(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """What the fits of searches take while workers are killed."""
    (document,) = documents
    own = document["results"]["searches"]
    numbers = [str(own[name]) for name in ("fits", "killed", "different")]
    minutes = [decimals(own[name] / 60.0, 1) for name in ("seconds", "seconds_alone")]
    head = ["fits", "killed workers", "fits with other draws", "minutes", "minutes without dask"]
    return [*list_table("", head, [numbers + minutes]), *provenance(document)]
