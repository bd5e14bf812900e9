"""README.md and the first page: what they show is what code and committed results give."""

import ast
import contextlib
import importlib
import io
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import landing
from benchmarks.common import load_results

ROOT = Path(__file__).parents[2]
#: Texts that a newcomer reads one after the other.
FIRST_TEXTS = ("README.md", "docs/index.rst", "tutorials/getting_started.py", "docs/install.rst")


@pytest.fixture
def readme():
    return landing.README.read_text("utf-8")


@pytest.mark.parametrize("path", [landing.README, landing.FIRST_PAGE], ids=lambda path: path.name)
def test_seconds_in_readme_and_first_page_match_the_committed_run(path):
    text = path.read_text("utf-8")
    shown = landing.between_marks(path.name, text)
    assert shown == landing.sentence(landing.pima_seconds())[path.name]
    assert landing.with_sentence(path.name, text) == text
    older = text.replace(shown.split()[-1], "something")
    assert landing.between_marks(path.name, older) != shown


def test_first_example_prints_the_output_that_is_shown(monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("Agg")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(landing.example_code(), {})
    (axes,) = plt.gcf().axes
    assert axes.get_xlabel() == "sepal length [cm]"
    plt.close("all")
    numbers = [
        np.array(re.findall(r"\d\.\d*", text), dtype=float)
        for text in (printed.getvalue(), landing.example_output())
    ]
    assert len(numbers[1]) == 6
    np.testing.assert_allclose(*numbers, atol=0.02)  # machines round differently


def test_first_example_has_five_statements():
    imports, _, rest = landing.example_code().partition("\n\n")
    assert {type(statement) for statement in ast.parse(imports).body} == {
        ast.Import,
        ast.ImportFrom,
    }
    assert len(ast.parse(rest.removesuffix("plt.show()\n")).body) == 5


def test_pictures_of_readme_and_first_page_exist(readme):
    named = set(re.findall(r"docs/_static/\w+\.(?:png|svg)", readme))
    named |= {f"docs/{p}" for p in re.findall(r"_static/\w+\.png", _text("docs/index.rst"))}
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    assert len(named) == 4


def test_readme_pictures_have_alternative_texts(readme):
    texts = re.findall(r"!\[(.*?)\]\(", readme)
    texts += re.findall(r'<img [^>]*alt="([^"]*)"[^>]*width="400"', readme)
    assert len(texts) == 3
    assert all(len(text) > 20 for text in texts)


def test_readme_names_files_that_exist(readme):
    named = re.findall(r"\]\(((?!https?:)[^)#]+)\)", readme)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


# --- the first texts do not repeat one another ----------------------------------------------------

_LONGEST = 7  # words in a row that two texts may share


def _text(name):
    return (ROOT / name).read_text("utf-8")


def _runs_of_words(text):
    """Runs of words, one more than allowed; code and addresses of links are left out."""
    prose = re.sub(r"\]\([^)]*\)|<[^>]*>", " ", text)
    words = re.findall(r"[a-z0-9]+", prose.lower())
    return {tuple(words[i : i + _LONGEST + 1]) for i in range(len(words) - _LONGEST)}


def _prose(name):
    text = _text(name)
    if name.endswith(".md"):
        return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    if name.endswith(".py"):  # the docstring, and blocks of comments
        comments = re.findall(r"^# (?!%%)(.*)$", text, re.M)
        return "\n".join([ast.get_docstring(ast.parse(text)), *comments])
    lines, indentation = [], None
    for line in text.splitlines():
        own = len(line) - len(line.lstrip())
        if indentation is not None and (not line.strip() or own > indentation):
            continue  # within code
        is_code = re.match(r" *\.\. (?:code-block|literalinclude|image)::", line)
        indentation = own if is_code else None
        if not is_code and not line.startswith((">>>", "...")):
            lines.append(line)
    return "\n".join(lines)


def test_first_pages_repeat_no_sentence_of_one_another():
    runs = {name: _runs_of_words(_prose(name)) for name in FIRST_TEXTS if (ROOT / name).is_file()}
    assert len(runs) > 1
    found = {
        (one, other): [" ".join(run) for run in runs[one] & runs[other]]
        for one in runs
        for other in runs
        if one < other
    }
    assert {pair: shared for pair, shared in found.items() if shared} == {}


# --- numbers in the user guide --------------------------------------------------------------------


def test_capacity_scores_favor_timid_probabilities_and_selective_accuracy_does_not():
    for splits_by_scale in load_results("shrinking").values():
        assert list(splits_by_scale) == ["1", "0.5", "0.25"]
        capacity = [
            np.mean([s["capacity_accuracy"] for s in each]) for each in splits_by_scale.values()
        ]
        assert all(timid > bold for bold, timid in pairwise(capacity))
        for name in ("selective_accuracy", "accuracy"):
            values = [[s[name] for s in each] for each in splits_by_scale.values()]
            assert values[0] == values[1] == values[2]


def test_abstention_page_quotes_the_committed_capacity_scores():
    splits_by_scale = load_results("shrinking")["breast cancer"].values()
    capacity = [
        f"{np.mean([s['capacity_accuracy'] for s in each]):.3f}" for each in splits_by_scale
    ]
    quoted = "from {} to {} and {}".format(*capacity)
    assert quoted in " ".join(_text("docs/abstention.rst").split())


# --- tables that were in the README ---------------------------------------------------------------


@pytest.fixture
def table_text(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    table_lines = importlib.import_module("benchmark_tables").table_lines
    return lambda name, part="": "\n".join(table_lines(name, part=part))


def test_table_of_seconds_marks_runs_in_which_nuts_has_not_converged(table_text):
    text = table_text("sampling_*", "speed")
    seconds = landing.pima_seconds()
    row = [f"{seconds.ours:.0f} s", f"not converged in {seconds.nuts:.0f} s", "none", "not run"]
    assert "   * - Pima, n=768\n" + "\n".join(f"     - {cell}" for cell in row) in text
    assert text.count("   * - ") == 5


def test_comparison_table_ends_with_conclusions_by_log_loss(table_text):
    assert table_text("compare_r10").count("By log loss") == 2


# --- the changelog as a page ----------------------------------------------------------------------


def test_changelog_is_translated_to_rst(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    rst_lines = importlib.import_module("changelog").rst_lines
    text = (
        "# Log\n\nSee [this](https://a.org/b).\n\n## [1.0]\n\n### Added\n\n"
        "- `f(x)`s, `a` and `b`\n  more\n"
    )
    assert [line for line in rst_lines(text) if line] == [
        "See `this <https://a.org/b>`__.",
        "1.0",
        "===",
        "Added",
        "-----",
        r"- ``f(x)``\ s, ``a`` and ``b``",
        "  more",
    ]
