"""The README's figures are those of the committed benchmark output."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import load_results
from benchmarks.readme_table import BEGIN, END, rendered_tables

ROOT = Path(__file__).parents[2]


@pytest.fixture
def readme():
    return (ROOT / "README.md").read_text("utf-8")


def test_readme_shows_the_committed_figures(readme):
    _, _, rest = readme.partition(BEGIN)
    shown, found, _ = rest.partition(END)
    assert found
    assert shown == rendered_tables()


def test_capacity_scores_favor_timid_probabilities_and_selective_accuracy_does_not(readme):
    for splits_by_scale in load_results("shrinking").values():
        assert list(splits_by_scale) == ["1", "0.5", "0.25"]
        capacity = [
            np.mean([s["capacity_accuracy"] for s in each]) for each in splits_by_scale.values()
        ]
        assert all(timid > bold for bold, timid in pairwise(capacity))
        for name in ("selective_accuracy", "accuracy"):
            values = [[s[name] for s in each] for each in splits_by_scale.values()]
            assert values[0] == values[1] == values[2]


def test_readme_and_user_guide_quote_the_committed_shrinking(readme):
    splits_by_scale = load_results("shrinking")["breast cancer"].values()
    capacity = [
        f"{np.mean([s['capacity_accuracy'] for s in each]):.3f}" for each in splits_by_scale
    ]
    quoted = "from {} to {} and {}".format(*capacity)
    guide = (ROOT / "docs" / "abstention.rst").read_text("utf-8")
    assert quoted in " ".join(readme.split())
    assert quoted in " ".join(guide.split())
