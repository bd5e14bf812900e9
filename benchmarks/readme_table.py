"""Write the tables of README.md that come from files in benchmarks/results.

Run as ``python -m benchmarks.readme_table``, after
``python -m skgpmcmc compare --repeats 10 --output benchmarks/results/compare_r10`` and
``python -m benchmarks.sampling --case all --nuts`` and ``python -m benchmarks.pymc_nuts``. What a
file does not have is shown as "-".
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from skgpmcmc.compare import KEY, MethodOutcome, conclusion, score_table

from .common import FEWEST_EFFECTIVE, RESULTS, ROOT, load_results

#: Runs of the default sampler with NumPyro's NUTS beside it.
NUTS_CASES = ("sim2", "sim10", "ard10", "pima")


def score_tables() -> str:
    """Return one table per data set, as the command prints it, with its conclusion."""
    runs = json.loads((RESULTS / "compare_r10.json").read_text("utf-8"))["runs"]
    parts = []
    for name in dict.fromkeys(run["data"] for run in runs):
        outcomes = [
            MethodOutcome(
                run["method"],
                run["split"],
                {k: np.nan if v is None else v for k, v in run["scores"].items()},
                None,
                failure=run.get("failure"),
            )
            for run in runs
            if run["data"] == name
        ]
        parts.append(f"{name}\n{score_table(outcomes)}\n{conclusion(outcomes)}")
    return "```text\n" + "\n\n".join([*parts, KEY]) + "\n```"


def speed_table() -> str:
    """Return seconds to 1000 effective draws, of NUTS in the same run, and of one optimum."""
    head = ["data", "`skgpmcmc`", "NumPyro NUTS", "ratio", "PyMC NUTS", "ratio"]
    head += ["scikit-learn GPC, one optimum"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for case in NUTS_CASES:
        results = load_results(f"sampling_{case}")
        for seed, run in results["nuts"].items():
            ours = f"{run['ours_seconds_to_1000']:.0f} s"
            ours += "" if run["ours_converged"] else " (not converged)"
            optimum = f"{results['sklearn']['0']['seconds']:.2f} s"
            peers = [*_of_peer(run), *_of_peer(results.get("pymc", {}).get(seed))]
            lines.append(f"| {' | '.join([results['title'], ours, *peers, optimum])} |")
    return "\n".join(lines)


def _of_peer(run: dict[str, Any] | None) -> list[str]:
    """Seconds to 1000 effective draws, and the ratio to ours of the same run."""
    if run is None:
        return ["-", "-"]
    if run["min_ess"] < FEWEST_EFFECTIVE:
        seconds = run["seconds_warmup"] + run["seconds_sampling"]
        return [f"not converged in {seconds:.0f} s", "-"]
    bound = "at least " if run["lower_bound"] else ""
    return [f"{bound}{run['seconds_to_1000']:.0f} s", f"{bound}{run['ratio']:.0f}"]


#: What is generated, by the name between the comments in README.md.
TABLES = {"compare_r10": score_tables, "speed": speed_table}


def marks(name: str) -> tuple[str, str]:
    """Return the lines before and after a generated table."""
    return f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"


def main() -> None:
    readme = ROOT / "README.md"
    text = readme.read_text("utf-8")
    for name, table in TABLES.items():
        begin, end = marks(name)
        before, _, rest = text.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"README.md has no lines {begin!r} and {end!r} around a table")
        text = before + begin + table() + end + after
    readme.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
