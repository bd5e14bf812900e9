"""The check of the built pages finds links that lead nowhere."""

import subprocess
import sys
from pathlib import Path

import pytest

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


@pytest.fixture
def problems(extension):
    return extension("check_links").problems


def test_link_check_accepts_good_links(problems, tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "macros.html").write_text('<a href="{{ pathto() }}">theme</a>')
    (tmp_path / "data.csv").write_text("1")
    (tmp_path / "inner" / "a b.html").write_text('<h1 id="top">A</h1><a href="#top">up</a>')
    (tmp_path / "index.html").write_text(
        '<a href="inner/a%20b.html#top"><code class="xref py">linked</code></a>'
        '<a href="data.csv">data</a> <a href="#">top</a> <a>no link</a>'
        '<a href="https://example.org/nothing">elsewhere</a> <code class="literal">code</code>'
    )
    assert list(problems(tmp_path)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<a href="none.html">link</a>', "index.html links to none.html, which does not exist"),
        ('<a href="#none">link</a>', "index.html links to #none, where there is no such anchor"),
        (
            '<code class="xref py"><span>some.name</span></code> <code>other</code>',
            "index.html has a cross-reference without a target: some.name",
        ),
        (
            '<img src="a/b.png" alt="a/b.png"> <img src="c.png" alt="what it shows">',
            "index.html has an image without an alternative text: a/b.png",
        ),
        ('<img src="d.png">', "index.html has an image without an alternative text: d.png"),
    ],
    ids=["file", "anchor", "reference", "image", "image-no-text"],
)
def test_link_check_finds_each_planted_mistake(problems, tmp_path, text, found):
    (tmp_path / "index.html").write_text(f'<h1 id="top">A</h1> <a href="#top">up</a> {text}')
    assert list(problems(tmp_path)) == [found]


@pytest.mark.parametrize(("anchor", "status"), [("#here", 0), ("#nowhere", 1)])
def test_a_broken_link_fails_a_build(tmp_path, anchor, status):
    conf = f"import sys\nsys.path.insert(0, {str(EXTENSIONS)!r})\nextensions = ['check_links']\n"
    (tmp_path / "conf.py").write_text(conf)
    page = f"Here\n====\n\n.. raw:: html\n\n   <a href='{anchor}'>link</a>\n"
    (tmp_path / "index.rst").write_text(page)
    command = ["-m", "sphinx", "-W", "-q", "-b", "html", str(tmp_path), str(tmp_path / "_build")]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert ("links to #nowhere" in done.stderr) == bool(status)


@pytest.mark.parametrize(
    ("anchor", "mended"),
    [
        ("pkg.room.Thing", "pkg.room.file.Thing"),
        ("pkg.room.Thing.method", "pkg.room.file.Thing.method"),
        ("pkg.room.file.Thing", "pkg.room.file.Thing"),
        ("pkg.room.Other", "pkg.room.Other"),
    ],
)
def test_links_back_from_source_pages_are_mended(extension, tmp_path, anchor, mended):
    source = tmp_path / "_modules" / "file.html"
    source.parent.mkdir()
    source.write_text(f'<a href="../generated/pkg.room.file.Thing.html#{anchor}">[docs]</a>')
    extension("check_links").mend_back_links(tmp_path)
    assert f'Thing.html#{mended}"' in source.read_text()
