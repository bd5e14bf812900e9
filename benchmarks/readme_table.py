"""Write the tables of benchmarks/results/compare_r10.json into README.md.

Run as ``python -m benchmarks.readme_table``, after
``python -m skgpmcmc compare --repeats 10 --output benchmarks/results/compare_r10``. A score that
the file does not have is shown as "-".
"""

from __future__ import annotations

import json

import numpy as np

from skgpmcmc.compare import Outcome, score_table

from .common import RESULTS, ROOT

BEGIN, END = "<!-- compare_r10: begin -->\n", "\n<!-- compare_r10: end -->"


def rendered_tables() -> str:
    """Return one table per data set, as the README shows them."""
    runs = json.loads((RESULTS / "compare_r10.json").read_text("utf-8"))["runs"]
    parts = []
    for name in dict.fromkeys(run["data"] for run in runs):
        outcomes = [
            Outcome(
                run["method"],
                run["split"],
                {k: np.nan if v is None else v for k, v in run["scores"].items()},
                None,
                failure=run.get("failure"),
            )
            for run in runs
            if run["data"] == name
        ]
        parts.append(f"{name}\n{score_table(outcomes)}")
    return "```text\n" + "\n\n".join(parts) + "\n```"


def main() -> None:
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(before + BEGIN + rendered_tables() + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
