"""Tables of the pseudo-marginal paper, sections 4 and 5, made again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rst_tables import decimals, list_table, provenance

PRINTED = Path(__file__).resolve().parents[2] / "benchmarks" / "papers"
#: Scores of which less is better.
SMALL = ("log_loss", "brier", "calibration_error")
#: The default is compared with the best of these.
GP = ("default", "papers' priors", "PM EP (64)", "ARD", "MCMC EP", "EP ML", "scikit-learn GPC")
OTHERS = ("SVM", "logistic regression", "random forest", "random forest, isotonic")
OTHERS += ("boosting", "boosting, sigmoid")
#: Largest training set that the comparison is about.
FEW_ROWS = 100


# --- section 4 ------------------------------------------------------------------------------------


def pseudo_marginal(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render table "1" with the operations of table 2, "3", "real" data or the "settings"."""
    (document,) = documents
    if part == "settings":
        return provenance(document)
    text = (PRINTED / "pseudo_marginal_printed.json").read_text(encoding="utf-8")
    printed = json.loads(text)["tables"]
    iterations = document["settings"]["iterations"]
    lines: list[str] = []
    for place, rows in document["results"].get(part, {}).items():
        where, _, kind = place.rpartition(", ")
        theirs = {name: cell.get(where, {}) for name, cell in printed.items()}
        head, body = ["scheme", "ESS (sd)", "paper's", "R-hat"], []
        head += ["acceptance, %", "paper's", "operations", "paper's", "ESS per operation"]
        for name, one in rows.items():
            family = name.partition(" (")[0]
            body.append(
                [
                    name,
                    f"{np.mean(one['ess']):.0f} ({np.std(one['ess']):.0f})",
                    theirs.get(part, {}).get(name, {}).get(kind, ""),
                    " ".join(decimals(v, 2) for v in one["r_hat"].values()),
                    _acceptance(one["acceptance"]),
                    theirs.get(part, {}).get(name, {}).get(f"{kind} acceptance", ""),
                    f"{sum(one['operations'].values()):.1f}",
                    theirs["2"].get(family, {}).get(kind, "") if part == "1" else "",
                    decimals(_per_operation(one, iterations), 4),
                ]
            )
        lines += list_table(place, head, body)
    return lines or ["*Not measured yet.*", ""]


def _acceptance(rates: Mapping[str, float]) -> str:
    """Acceptance rate of the move of theta; slices always move f."""
    (rate, *_) = (r for move, r in rates.items() if not move.startswith("elliptical"))
    return f"{100.0 * rate:.1f}"


def _per_operation(one: Mapping[str, Any], iterations: int) -> float:
    return float(np.mean(one["ess"])) / (sum(one["operations"].values()) * iterations)


# --- section 5 ------------------------------------------------------------------------------------


def classifiers(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render a score, "log_loss_differences" and the like, the "verdict" or the "settings"."""
    (document,) = documents
    if part == "settings":
        return provenance(document)
    results = document["results"]
    # One training set has no interval.
    of = {(r["data"], r["n"], r["method"]): r for r in results if r["repeats"] > 1}
    methods = [m for m in (*GP, *OTHERS) if any(key[2] == m for key in of)]
    places = sorted({key[:2] for key in of})
    if part == "verdict":
        return _verdict(of, places)
    if part == "convergence":
        return _convergence(of, methods)
    if part == "seconds":
        return list_table("", ["data", "rows", *methods], _seconds(of, places, methods))
    differences = part.endswith("_differences")
    score = part.removesuffix("_differences")
    body = []
    for place in places:
        cells = {m: of[(*place, m)] for m in methods if (*place, m) in of}
        if differences:
            shown = {m: _difference(row, score) for m, row in cells.items() if m != "default"}
        else:
            most = max(row["repeats"] for row in cells.values())
            whole = [m for m, row in cells.items() if row["repeats"] == most]
            best = (min if score in SMALL else max)(whole, key=lambda m: cells[m][score])
            shown = {m: decimals(row[score], 3) for m, row in cells.items()}
            shown[best] = f"**{shown[best]}**"
        columns = methods[1:] if differences else methods
        body.append([place[0], str(place[1]), *(shown.get(m, "") for m in columns)])
    return list_table("", ["data", "rows", *(methods[1:] if differences else methods)], body)


def _convergence(of: Mapping[Any, Any], methods: Sequence[str]) -> list[str]:
    """Over all data sets and sizes: fits, how many are poor, and the worst of them."""
    body = []
    for method in methods:
        rows = [row for key, row in of.items() if key[2] == method and row.get("r_hat")]
        if rows:
            worst = max(rows, key=lambda row: row["r_hat"])
            where = f"{worst['data']}, {worst['n']} rows"
            body.append(
                [
                    method,
                    str(sum(row["repeats"] for row in rows)),
                    str(sum(row["poor"] for row in rows)),
                    f"{decimals(worst['r_hat'], 3)} ({where})",
                    f"{min(row['ess'] for row in rows):.0f}",
                ]
            )
    head = ["method", "fits", "R-hat above 1.05 or ESS below 100", "largest R-hat", "least ESS"]
    return list_table("", head, body)


def _seconds(
    of: Mapping[Any, Any], places: Sequence[tuple[str, int]], methods: Sequence[str]
) -> list[list[str]]:
    """Mean processor seconds of a fit."""
    cells = {key: f"{row['seconds']:.2g}" for key, row in of.items()}
    return [[p[0], str(p[1]), *(cells.get((*p, m), "") for m in methods)] for p in places]


def _difference(row: Mapping[str, Any], score: str) -> str:
    """Method minus default on the same training sets, and its 95 % confidence interval."""
    mean, half = row[f"{score}_difference"], row[f"{score}_interval"]
    return f"{decimals(mean, 3)} ± {decimals(half, 3)}"


def _verdict(of: Mapping[Any, Any], places: Sequence[tuple[str, int]]) -> list[str]:
    """Say where the default is among the best Gaussian process methods, and compare the SVM."""
    lines = []
    few = [place for place in places if place[1] <= FEW_ROWS and (*place, "default") in of]
    for score in ("capacity_accuracy", "log_loss"):
        sign = 1.0 if score in SMALL else -1.0
        good = []
        for place in few:
            gaps = [of[(*place, m)] for m in GP[1:] if (*place, m) in of]
            # A 95 % interval is about two standard errors wide to each side.
            behind = [-sign * g[f"{score}_difference"] > 0.5 * g[f"{score}_interval"] for g in gaps]
            good.append(not any(behind))
        where = [f"{p[0]} n = {p[1]}" for p, ok in zip(few, good, strict=True) if not ok]
        lines.append(
            f"* {score.replace('_', ' ')}: best, or within a standard error of the best Gaussian "
            f"process method, on {sum(good)} of {len(few)} data sets and sizes"
            + (f"; not on {', '.join(where)}." if where else ".")
        )
        means = {m: _mean_difference(of, few, m, score) for m in GP[1:]}
        shown = [
            f"{m} {mean:+.4f} ± {0.5 * half:.4f}" for m, (mean, half) in means.items() if half > 0.0
        ]
        lines.append(
            f"* {score.replace('_', ' ')}, averaged over these data sets and sizes, minus that of "
            f"the default, with its standard error: {'; '.join(shown)}."
        )
    ahead, behind = set(), set()
    for name in sorted({place[0] for place in few}):
        mean, half = _mean_difference(of, [p for p in few if p[0] == name], "SVM", "log_loss")
        (ahead if mean > 0.5 * half else behind if mean < -0.5 * half else set()).add(name)
    lines.append(
        "* log loss beside the SVM's, over all sizes up to 100: smaller beyond a standard error on "
        f"{', '.join(sorted(ahead)) or 'none'}; larger on {', '.join(sorted(behind)) or 'none'}."
    )
    return [*lines, ""]


def _mean_difference(
    of: Mapping[Any, Any], places: Sequence[tuple[str, int]], method: str, score: str
) -> tuple[float, float]:
    """Mean of the differences to the default over places, and its 95 % interval; 0 if none."""
    rows = [of[(*place, method)] for place in places if (*place, method) in of]
    if not rows:
        return 0.0, 0.0
    halves = np.array([row[f"{score}_interval"] for row in rows])
    mean = np.mean([row[f"{score}_difference"] for row in rows])
    return float(mean), float(np.sqrt((halves**2).sum()) / len(rows))
