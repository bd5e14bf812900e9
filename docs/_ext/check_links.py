"""A check of the built pages: links lead somewhere, references are links, images have a text.

Sphinx itself says nothing of a back-link of viewcode without an anchor, or of a role that finds no
target, and gives an image without an alternative text the name of its file. Here each is a warning,
which fails a build with ``-W``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sphinx.application import Sphinx
from sphinx.util import logging

_LOGGER = logging.getLogger(__name__)


class _Page(HTMLParser):
    """Anchors and links of a page, cross-references without a link, images without a text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.unlinked: list[str] = []
        self.without_text: set[str] = set()
        self._in_link = self._in_unlinked = False
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update({values.get("id", ""), values.get("name", "")})
        if tag == "a":
            self._in_link = True
            self.links.add(values.get("href", ""))
        elif tag == "img":
            source, text = values.get("src", ""), values.get("alt")
            if text is None or text == source or text.endswith((".png", ".svg")):
                self.without_text.add(source)
        elif tag == "code" and "xref" in values.get("class", "").split() and not self._in_link:
            self._in_unlinked = True
            self.unlinked.append("")

    def handle_data(self, data: str) -> None:
        if self._in_unlinked:
            self.unlinked[-1] += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._in_link = False
        elif tag == "code":
            self._in_unlinked = False


def problems(folder: Path) -> Iterator[str]:
    """Give a sentence for each broken link within a folder of pages, assets of themes apart."""
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path: _Page(path) for path in paths}
    for path, page in pages.items():
        name = path.relative_to(folder)
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name} links to {link}, which does not exist"
            elif target in pages and unquote(parts.fragment) not in pages[target].anchors | {""}:
                yield f"{name} links to {link}, where there is no such anchor"
        for text in page.unlinked:
            yield f"{name} has a cross-reference without a target: {text}"
        for source in sorted(page.without_text):
            yield f"{name} has an image without an alternative text: {source}"


def mend_back_links(folder: Path) -> None:
    """Let links from pages of source code lead to the path by which an object is documented.

    The extension viewcode gives all objects of a module the package of the first one, although some
    are documented by the path of their module and others by that of a package which exports them.
    The name of a generated page is the path that counts.
    """
    for path in (folder / "_modules").rglob("*.html"):
        text = path.read_text("utf-8")
        mended = re.sub(r'(/generated/)([\w.]+)(\.html#)([\w.]+)"', _with_path_of_page, text)
        if mended != text:
            path.write_text(mended, "utf-8")


def _with_path_of_page(link: re.Match[str]) -> str:
    folder, page, middle, anchor = link.groups()
    own_name = page.rpartition(".")[2]
    _, found, member = anchor.partition(f".{own_name}")
    anchor = f"{page}{member}" if found and member[:1] in ("", ".") else anchor
    return f'{folder}{page}{middle}{anchor}"'


def check(app: Sphinx, error: Exception | None) -> None:
    """Mend what viewcode breaks, and warn of what is broken in the pages of a complete build."""
    if error is None and app.builder.name == "html":
        mend_back_links(Path(app.outdir))
        for problem in problems(Path(app.outdir).resolve()):
            _LOGGER.warning("%s", problem, type="links")


def setup(app: Sphinx) -> dict[str, bool]:
    """Check when all pages are written."""
    app.connect("build-finished", check, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
