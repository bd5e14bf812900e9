"""The README's figures are those of the committed benchmark output."""

import json
from pathlib import Path

import numpy as np

from skgpmcmc.compare import Outcome, score_table

ROOT = Path(__file__).parents[2]


def rendered_tables():
    """The tables of the committed comparison as the README shows them."""
    document = json.loads((ROOT / "benchmarks" / "results" / "compare_r10.json").read_text("utf-8"))
    parts = []
    for name in dict.fromkeys(run["data"] for run in document["runs"]):
        outcomes = [
            Outcome(
                run["method"],
                run["split"],
                {k: np.nan if v is None else v for k, v in run["scores"].items()},
                np.empty(0),
            )
            for run in document["runs"]
            if run["data"] == name
        ]
        parts.append(f"{name}\n{score_table(outcomes)}")
    return "```text\n" + "\n\n".join(parts) + "\n```"


def test_readme_shows_the_committed_figures():
    readme = (ROOT / "README.md").read_text("utf-8")
    _, _, rest = readme.partition("<!-- compare_r10: begin -->\n")
    shown, found, _ = rest.partition("\n<!-- compare_r10: end -->")
    assert found
    assert shown == rendered_tables()
