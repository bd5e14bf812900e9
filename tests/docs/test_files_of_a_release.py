"""Files that go out with the package: they agree with one another."""

import re
import tomllib
from pathlib import Path

import skgpmcmc
from skgpmcmc import testing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def text(name):
    return (ROOT / name).read_text("utf-8")


def test_citation_and_package_state_the_same_version():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "skgpmcmc/_version.py"
    assert re.findall(r"^version: (\S+)$", text("CITATION.cff"), re.M) == [skgpmcmc.__version__]


def test_all_files_state_the_same_license():
    assert PROJECT["project"]["license"] == "BSD-3-Clause"
    assert "\nlicense: BSD-3-Clause\n" in text("CITATION.cff")
    assert text("LICENSE").startswith("BSD 3-Clause License\n")


def test_changelog_begins_with_the_section_unreleased():
    headings = re.findall(r"^## \[(.+?)\]", text("CHANGELOG.md"), re.M)
    assert headings[0] == "Unreleased"
    kinds = set(re.findall(r"^### (.+)$", text("CHANGELOG.md"), re.M))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_files_of_the_source_distribution_exist():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in included if not (ROOT / name).exists()] == []
    assert {"CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE"} <= set(included)


def test_contributing_names_files_that_exist():
    page = text("CONTRIBUTING.md")
    named = re.findall(r"\]\(([^):#]+)\)", page)
    named += re.findall(r"`((?:skgpmcmc|tests|benchmarks|docs)/[\w./]*)`", page)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_contributing_names_check_functions_that_exist():
    named = re.findall(r"\| `(\w+)`", text("CONTRIBUTING.md"))
    assert {"check_likelihood", "prior_invariance_test"} <= set(named)
    assert [name for name in named if not hasattr(testing, name)] == []
