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
#: Method that others are compared with.
REFERENCE = "RBF"
#: The reference is compared with the best of these.
GP = (REFERENCE, "papers' priors", "PM EP (64)", "ARD", "MCMC EP", "EP ML", "scikit-learn GPC")
OTHERS = ("SVM", "logistic regression", "random forest", "random forest, isotonic")
OTHERS += ("boosting", "boosting, sigmoid")
#: Methods of the first table of a score; the rest are in the second one, beside the reference.
MAIN = (*GP, "SVM")
#: Largest training set that the comparison is about.
FEW_ROWS = 100


# --- section 4 ------------------------------------------------------------------------------------

#: Moves that nearly all iterations of the default make, where it has them.
MAIN_MOVES = ("rotation", "trajectory", "surrogate")
#: Columns of tables 1 and 3 and of real data.
SCHEMES = ["scheme", "ESS (sd)", "paper's", "R-hat", "paper's", "acceptance, %", "paper's"]
SCHEMES += ["operations", "paper's", "ESS / operations", "paper's"]
#: What the default is compared with.
RIVAL = "PM EP (64)"
#: Estimates of figure 2.
ESTIMATES = {"laplace (1)": "LA (1)", "laplace (64)": "LA (64)"}
ESTIMATES |= {"ep (1)": "EP (1)", "ep (64)": "EP (64)"}


def pseudo_marginal(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render table "1" with the operations of table 2, "3", "real", and what is made of them.

    That is the "ratio" of the default to PM, the "spread" of the estimates in figure 2, and the
    "settings".
    """
    (document,) = documents
    if part == "settings":
        return provenance(document)
    results = document["results"]
    if part in ("ratio", "spread"):
        lines = (_ratio if part == "ratio" else _spread)(results)
        return lines or ["*Not measured yet.*", ""]
    text = (PRINTED / "pseudo_marginal_printed.json").read_text(encoding="utf-8")
    printed = json.loads(text)["tables"]
    repeats = document["settings"]["repeats"] if part == "3" else 1
    lines = []
    for place, rows in results.get(part, {}).items():
        body = [
            _scheme(name, one, _printed(printed, part, place, name), repeats)
            for name, one in rows.items()
        ]
        lines += list_table(place, *_filled(SCHEMES, body))
    return lines or ["*Not measured yet.*", ""]


def _scheme(
    name: str, one: Mapping[str, Any], theirs: Mapping[str, str], repeats: int
) -> list[str]:
    """Row of a scheme beside the paper's; operations are those of every update made once."""
    return [
        name,
        f"{np.mean(one['ess']):.0f} ({np.std(one['ess']):.0f})",
        theirs.get("", ""),
        " ".join(decimals(v, 2) for v in one["r_hat"].values()),
        theirs.get("R-hat", ""),
        _acceptance(one["acceptance"]),
        theirs.get("acceptance", ""),
        f"{_operations(one) / repeats:.1f}",
        theirs.get("operations", ""),
        _digits(repeats * _per_operation(one)),
        theirs.get("per operation", ""),
    ]


def _printed(printed: Mapping[str, Any], part: str, place: str, name: str) -> dict[str, str]:
    """What the paper prints of a scheme by quantity; its ESS has no name."""
    where, _, kind = place.rpartition(", ")
    row = printed.get(part, {}).get(where, {}).get(name, {})
    found = {k.removeprefix(kind).strip(): v for k, v in row.items() if k.startswith(kind)}
    if part == "1":
        family = name.partition(" (")[0]
        found["operations"] = printed["2"].get(where, {}).get(family, {}).get(kind, "")
    return found


def _filled(head: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[list[str], list[Any]]:
    """Head and body without the columns that are empty in all rows."""
    kept = [j for j in range(len(head)) if any(row[j] for row in body)]
    return [head[j] for j in kept], [[row[j] for j in kept] for row in body]


def _acceptance(rates: Mapping[str, float]) -> str:
    """Acceptance rate of the move that most iterations make; slices always move f."""
    moves = [move for move in rates if not move.startswith("elliptical")]
    main = next((move for move in MAIN_MOVES if move in rates), moves[0])
    return f"{100.0 * rates[main]:.1f}"


def _operations(one: Mapping[str, Any]) -> float:
    return float(sum(one["operations"].values()))


def _per_operation(one: Mapping[str, Any]) -> float:
    """ESS of as many iterations as the paper's, divided by the operations of one of them."""
    return float(np.mean(one["ess"])) / _operations(one)


def _digits(value: float) -> str:
    """A positive number with two digits or more."""
    return f"{value:.{1 if value < 10.0 else 0}f}"


def _ratio(results: Mapping[str, Any]) -> list[str]:
    """Effective draws per operation of PM and of the default, and their ratio."""
    body, ratios = [], []
    for place, rows in results.get("1", {}).items():
        if RIVAL in rows and "default" in rows:
            rival, default = _per_operation(rows[RIVAL]), _per_operation(rows["default"])
            ratios.append(default / rival)
            body.append([place, *map(_digits, (rival, default, default / rival))])
    if not body:
        return []
    return [
        *list_table("", ["setting", RIVAL, "default", "ratio"], body),
        f"In these {len(body)} settings the default has {_digits(min(ratios))} to "
        f"{_digits(max(ratios))} times as many effective draws per operation as {RIVAL}.",
        "",
    ]


def _spread(results: Mapping[str, Any]) -> list[str]:
    """Width of the central 95 % of the estimates at the mode, relative to their mean."""
    body, ratios = [], []
    for place, rows in results.get("figure2", {}).items():
        mode = int(np.argmax(rows["ep (64)"]["mean"]))
        widths = {
            short: (rows[name]["high"][mode] - rows[name]["low"][mode]) / rows[name]["mean"][mode]
            for name, short in ESTIMATES.items()
        }
        body.append([place, *(f"{width:.2f}" for width in widths.values())])
        ratios += [widths[f"LA ({n})"] / widths[f"EP ({n})"] for n in (1, 64)]
    if not body:
        return []
    return [
        *list_table("", ["data", *ESTIMATES.values()], body),
        "With the same number of draws, the spread is "
        f"{min(ratios):.1f} to {max(ratios):.1f} times as large with LA as with EP.",
        "",
    ]


# --- section 5 ------------------------------------------------------------------------------------


def classifiers(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render a score, "log_loss_differences", "log_loss_others" and the like, or another part.

    Other parts are the "verdict", the "settings", "incomplete", "convergence" and "seconds".
    """
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
    if part == "incomplete":
        return _incomplete(of, places, methods)
    if part == "convergence":
        return _convergence(of, methods)
    others = part.endswith("_others")
    part = part.removesuffix("_others")
    shown_in = {REFERENCE, *GP, *OTHERS} - set(MAIN[1:]) if others else set(MAIN)
    methods = [m for m in methods if m in shown_in]
    if part == "seconds":
        return list_table("", ["data", "rows", *methods], _seconds(of, places, methods))
    differences = part.endswith("_differences")
    score = part.removesuffix("_differences")
    body = []
    for place in places:
        cells = {m: of[(*place, m)] for m in methods if (*place, m) in of}
        if differences:
            shown = {m: _difference(row, score) for m, row in cells.items() if m != REFERENCE}
        else:
            most = max(row["repeats"] for row in cells.values())
            whole = [m for m, row in cells.items() if row["repeats"] == most]
            best = (min if score in SMALL else max)(whole, key=lambda m: cells[m][score])
            shown = {m: decimals(row[score], 3) for m, row in cells.items()}
            shown[best] = f"**{shown[best]}**"
        columns = methods[1:] if differences else methods
        body.append([place[0], str(place[1]), *(shown.get(m, "") for m in columns)])
    return list_table("", ["data", "rows", *(methods[1:] if differences else methods)], body)


def classifiers_default(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Log losses of the default, and of others on the same training sets."""
    (document,) = documents
    methods = list(document["results"][-1]["log_loss"])
    body = []
    for row in document["results"]:
        losses = row["log_loss"]
        best = min(losses, key=losses.__getitem__)
        errors = row.get("errors", {})
        cells = []
        for method in methods:
            text = decimals(losses[method], 3)
            text = f"**{text}**" if method == best else text
            gap = losses[method] - losses[methods[0]]
            said = f" ({gap:+.3f} ± {errors[method]:.3f})" if method in errors else ""
            cells.append(text + said)
        place = [
            row["data"],
            "" if row["n"] is None else str(row["n"]),
            str(row.get("repeats", "")),
        ]
        body.append([*place, *cells])
    return list_table("", ["data", "rows", "training sets", *methods], body)


def _incomplete(
    of: Mapping[Any, Any], places: Sequence[tuple[str, int]], methods: Sequence[str]
) -> list[str]:
    """Say where a method has fewer training sets than RBF, on data that it was tried on."""
    lines = []
    for method in methods:
        tried = {data for data, _, name in of if name == method}
        where = []
        for data, n in places:
            done = of.get((data, n, method), {}).get("repeats", 0)
            whole = of[data, n, REFERENCE]["repeats"]
            if data in tried and done < whole:
                where.append(f"{data}, {n} rows ({done} of {whole})")
        if where:
            lines.append(f"* {method}: {'; '.join(where)}.")
    return [*(lines or ["None."]), ""]


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
    cells = {
        key: f"{row['seconds']:.0f}" if row["seconds"] >= 10.0 else f"{row['seconds']:.2g}"
        for key, row in of.items()
    }
    return [[p[0], str(p[1]), *(cells.get((*p, m), "") for m in methods)] for p in places]


def _difference(row: Mapping[str, Any], score: str) -> str:
    """Method minus RBF on the same training sets, and its 95 % confidence interval."""
    mean, half = row[f"{score}_difference"], row[f"{score}_interval"]
    return f"{decimals(mean, 3)} ± {decimals(half, 3)}"


def _verdict(of: Mapping[Any, Any], places: Sequence[tuple[str, int]]) -> list[str]:
    """Say where RBF is among the best Gaussian process methods, and compare the SVM."""
    lines = []
    few = [place for place in places if place[1] <= FEW_ROWS and (*place, REFERENCE) in of]
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
            f"RBF, with its standard error: {'; '.join(shown)}."
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
    """Mean of the differences to RBF over places, and its 95 % interval; 0 if none."""
    rows = [of[(*place, method)] for place in places if (*place, method) in of]
    if not rows:
        return 0.0, 0.0
    halves = np.array([row[f"{score}_interval"] for row in rows])
    mean = np.mean([row[f"{score}_difference"] for row in rows])
    return float(mean), float(np.sqrt((halves**2).sum()) / len(rows))
