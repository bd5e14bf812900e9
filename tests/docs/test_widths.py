"""The check of the widths of pages sees a page that is too wide."""

import importlib
from pathlib import Path

import pytest

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture
def check_widths(monkeypatch):
    monkeypatch.syspath_prepend(str(EXTENSIONS))
    return importlib.import_module("check_widths")


def test_width_check_finds_a_page_that_is_too_wide(check_widths, tmp_path):
    if check_widths.find_browser() is None:
        pytest.skip("no Chromium")
    page = "<!DOCTYPE html><body style='margin: 0'><p>text <b style='{}'>wide</b>"
    (tmp_path / "inner").mkdir()
    (tmp_path / "good.html").write_text(page.format(""))
    (tmp_path / "inner" / "wide.html").write_text(page.format("position: absolute; left: 600px"))
    scrolling = "display: block; overflow-x: auto; width: 100%"
    (tmp_path / "table.html").write_text(
        page.format(scrolling).replace("wide<", "<i style='display: block; width: 2000px'>i</i><")
    )
    (found,) = check_widths.problems(tmp_path)
    assert found.startswith("inner/wide.html is ")
    assert "too wide for 500" in found
    assert check_widths.main(str(tmp_path)) == 1
    (tmp_path / "inner" / "wide.html").unlink()
    assert check_widths.main(str(tmp_path)) == 0


def test_width_check_is_skipped_without_a_browser(check_widths, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", "")
    assert check_widths.main(str(tmp_path)) == 0
    assert capsys.readouterr().out == "skipped: no Chromium\n"
