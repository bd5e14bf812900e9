"""The README's figures are those of the committed benchmark output."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import load_results
from benchmarks.readme_table import TABLES, marks

ROOT = Path(__file__).parents[2]


@pytest.fixture
def readme():
    return (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_readme_shows_the_committed_figures(readme, name):
    begin, end = marks(name)
    _, _, rest = readme.partition(begin)
    shown, found, _ = rest.partition(end)
    assert found
    assert shown == TABLES[name]()


def test_readme_names_files_that_exist(readme):
    named = re.findall(r"\]\(((?!https?:)[^)#]+)\)", readme)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


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
