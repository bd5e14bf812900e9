"""Fixtures of the tests of the documentation's own extensions."""

import importlib
import json

import pytest

from ..helpers import REPOSITORY


@pytest.fixture
def extension(monkeypatch):
    """`extension(name)` is a module of ``docs/_ext``."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "docs" / "_ext"))
    return importlib.import_module


@pytest.fixture
def table_lines(extension):
    return extension("benchmark_tables").table_lines


@pytest.fixture
def lines_of(table_lines, tmp_path):
    """`lines_of(name, results, *part, **more)` are those of a benchmark with these results."""

    def made(name, results, *part, settings=(), **more):
        document = {"versions": {"skgpmcmc": "0"}, "machine": {"machine": "m", "cpus": 1}}
        document |= {"settings": dict(settings), "benchmark": name, "results": results, **more}
        (tmp_path / f"{name}.json").write_text(json.dumps(document), "utf-8")
        return table_lines(name, tmp_path, *part)

    return made
