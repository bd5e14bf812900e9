"""Tables of default fits before and after a change of the set-up, and of the set-up's numbers.

``.. set-up-numbers::`` makes a table of the fields of `EmulatorOptions`: their values, and what the
comments in the source say of them. Where benchmarks/results/default.json has runs with a label
"NAME = VALUE", the table compares them with the same fits with the label "numbers", which are of
the same version of the code.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from docutils import nodes
from rst_tables import decimals, list_table, provenance, two
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = ROOT / "skgpmcmc" / "setup" / "emulator" / "options.py"
DEFAULT = ROOT / "benchmarks" / "results" / "default.json"

#: Label of the runs before the set-up was rewritten.
_BEFORE = "before"
#: Label of the runs after that.
_AFTER = "after"
#: Label of the runs in which a mode with few draws had no component in the mixture of candidates.
_WITHOUT_COMPONENT = "one component less"
#: Iterations above which a stay counts as long.
_LONG_STAY = 100
#: End of the labels of runs that were made one after the other on one machine, for seconds alone.
_PAIRED = ", paired"
#: Label of the runs with which those with another value of a number are compared.
_AS_THEY_WERE = "numbers"
#: End of labels of runs with another value by a later version, and label of what they are compared
#: with.
_OF_LATER = ", of a later version"
_LATER = "later numbers"


def default_fits(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Default fits of every problem, before and after."""
    (document,) = documents
    results = document["results"]
    rows = []
    labels = (_BEFORE, _WITHOUT_COMPONENT, _AFTER)
    for problem in dict.fromkeys(p for own in (_BEFORE, _AFTER) for p in results.get(own, {})):
        for label in labels:
            runs = list(results.get(label, {}).get(problem, {}).values())
            if runs:
                rows.append([problem, label, *_of_runs(runs)])
    head = ["problem", "version", "seeds", "effective draws per evaluation (least)"]
    head += ["longest stay", "seconds to 400 (largest)", "worst R-hat"]
    if not rows:
        return ["*Not measured yet.*", ""]
    ours, theirs = (results.get(f"{label}{_PAIRED}", {}) for label in (_AFTER, _BEFORE))
    ratio = _ratio(ours, theirs)
    said = (
        ""
        if ratio is None
        else f"Seconds, after / before, geometric mean over {len(ours)} problems: {two(ratio)}."
    )
    return [*list_table("", head, rows), said, "", *provenance(document)]


def _of_runs(runs: Sequence[dict[str, Any]]) -> list[str]:
    columns = ("per_evaluation", "longest_stay", "seconds_to_400")
    draws, stay, seconds = (np.array([run[key] for run in runs]) for key in columns)
    return [
        str(len(runs)),
        f"{two(draws.mean())} ({two(draws.min())})",
        str(stay.max()),
        f"{decimals(seconds.mean(), 1)} ({decimals(seconds.max(), 1)})",
        decimals(max(run["max_r_hat"] for run in runs), 3),
    ]


def _ratio(ours: dict[str, Any], theirs: dict[str, Any]) -> float | None:
    """Geometric mean over problems of the ratio of seconds; None without a problem in common."""
    seconds = [
        [np.mean([run["seconds_to_400"] for run in of[problem].values()]) for of in (ours, theirs)]
        for problem in ours
        if problem in theirs
    ]
    return float(np.exp(np.mean([np.log(a / b) for a, b in seconds]))) if seconds else None


def rare_stays(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Default fits of small regressions: a row for each data set."""
    (document,) = documents
    fits = document["results"]
    rows = []
    for name in dict.fromkeys(fit["data"] for fit in fits):
        own = [fit for fit in fits if fit["data"] == name]
        stays = [fit["longest_stay"] for fit in own]
        rows.append(
            [
                name,
                str(len(own)),
                decimals(float(np.median(stays)), 0),
                str(max(stays)),
                str(sum(stay > _LONG_STAY for stay in stays)),
                decimals(max(fit["max_r_hat"] for fit in own), 3),
                decimals(float(np.mean([fit["seconds"] for fit in own])), 1),
            ]
        )
    head = ["data", "fits", "longest stay: median", "largest"]
    head += [f"above {_LONG_STAY}", "worst R-hat", "seconds"]
    long = [fit for fit in fits if fit["longest_stay"] > _LONG_STAY]
    said = (
        f"{len(long)} of {len(fits)} fits have a chain that stayed for more than {_LONG_STAY} "
        f"iterations. {sum(fit['warned'] for fit in long)} of these fits warn."
    )
    return [*list_table("", head, rows), said, "", *provenance(document)]


def many_lengths(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Regression with many length-scales beside NUTS: means over seeds."""
    (document,) = documents
    rows = []
    for name, found in document["results"].items():
        keys = ("seconds_to_400", "per_second", "max_r_hat")
        ours = {key: [run[key] for run in found["default"]] for key in keys}
        peers = found.get("nuts", [])
        theirs = {key: np.mean([peer[key] for peer in peers]) for key in keys[:2] if peers}
        rows.append(
            [
                name,
                decimals(np.mean(ours["seconds_to_400"]), 1),
                decimals(np.mean(ours["per_second"]), 0),
                decimals(max(ours["max_r_hat"]), 3),
                decimals(theirs.get("seconds_to_400"), 1),
                decimals(theirs.get("per_second"), 0),
                decimals(np.mean(ours["per_second"]) / theirs["per_second"], 1)
                if peers
                else "none",
            ]
        )
    head = ["data", "seconds to 400", "effective draws a second", "worst R-hat"]
    head += ["NUTS: seconds to 400", "effective draws a second", "ratio"]
    return [*list_table("", head, rows), *provenance(document)]


def number_lines(options: Path = OPTIONS, results: Path = DEFAULT) -> list[str]:
    """Source lines of the table of the set-up's numbers."""
    runs = json.loads(results.read_text("utf-8"))["results"] if results.is_file() else {}
    rows = [
        [section, f"``{name}``", value, reason.replace("*", "\\*"), *_with_another(name, runs)]
        for section, name, value, reason in fields(options.read_text("utf-8"))
    ]
    head = ["part", "name", "value", "what it is"]
    head += ["with another value", "seconds, ratio", "least effective draws, ratio", "longest stay"]
    return list_table("", head, rows)


def _with_another(name: str, results: dict[str, Any]) -> list[str]:
    """What fits with another value of a number took, compared with the same fits as they are."""
    labels = [label for label in results if label.startswith(f"{name} = ")]
    if not labels:
        return ["", "", "", ""]
    label = labels[0]
    usual = results.get(_LATER if label.endswith(_OF_LATER) else _AS_THEY_WERE, {})
    pairs = [
        (runs, {seed: usual[problem][seed] for seed in runs})
        for problem, runs in results[label].items()
    ]
    seconds = _mean_log_ratio(pairs, "seconds_to_400", np.mean)
    draws = _mean_log_ratio(pairs, "per_evaluation", np.min)
    stay = max(run["longest_stay"] for runs, _ in pairs for run in runs.values())
    value = label.removeprefix(f"{name} = ").removesuffix(_OF_LATER)
    return [value, two(seconds), two(draws), str(stay)]


def _mean_log_ratio(
    pairs: Sequence[tuple[dict[str, Any], dict[str, Any]]], key: str, of: Callable[..., Any]
) -> float:
    """Geometric mean over problems of the ratio of what two sets of runs come to."""
    both = [[of([run[key] for run in runs.values()]) for runs in pair] for pair in pairs]
    return float(np.exp(np.mean([np.log(mine / theirs) for mine, theirs in both])))


def fields(source: str) -> list[tuple[str, str, str, str]]:
    """Return section, name, value and comment of every field of `EmulatorOptions`.

    A section is named where it begins, by a comment on a line of its own.
    """
    lines = source.splitlines()
    (options,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == "EmulatorOptions"
    )
    found, section = [], ""
    for node in options.body:
        if not (isinstance(node, ast.AnnAssign) and node.value is not None):
            continue
        above = lines[node.lineno - 2].strip()
        section = above.removeprefix("# ") if above.startswith("# ") else section
        value, name = ast.unparse(node.value), ast.unparse(node.target)
        _, _, comment = lines[node.lineno - 1].partition("  # ")
        found.append((section, name, value, comment))
    return found


class SetUpNumbers(SphinxDirective):
    """The directive, without arguments."""

    def run(self) -> list[nodes.Node]:
        """Parse the table where the directive stands."""
        for path in (OPTIONS, DEFAULT):
            self.env.note_dependency(str(path))
        return self.parse_text_to_nodes("\n".join(number_lines()))
