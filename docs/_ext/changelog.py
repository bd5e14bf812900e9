"""``.. changelog::``: a page made from CHANGELOG.md, which has headings and lists.

Headings of the second and the third level become sections, items become lists. Code in backquotes
and links with an address are kept.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
_UNDERLINES = {"##": "=", "###": "-"}


def rst_lines(text: str) -> list[str]:
    """Return a changelog in Markdown, without its title, as lines of reStructuredText."""
    lines: list[str] = []
    for line in text.splitlines():
        marks, _, rest = line.partition(" ")
        if marks == "#":
            continue
        if marks in _UNDERLINES:
            title = rest.replace("[", "").replace("]", "")
            lines += ["", title, _UNDERLINES[marks] * len(title), ""]
        elif line.startswith("- "):
            lines += ["", line]
        else:
            lines.append(line)
    return _inline("\n".join(lines)).splitlines()


def _inline(text: str) -> str:
    """Write code and links as reStructuredText does."""
    text = re.sub(r"`([^`]+)`(\w?)", _code, text)
    return re.sub(r"\[([^\]]+)\]\((https?://[^)\s]+)\)", r"`\1 <\2>`__", text)


def _code(match: re.Match[str]) -> str:
    """Write a piece of code, and a letter that follows it, as in the plural of a name."""
    code, letter = match.groups()
    return f"``{code}``\\ {letter}" if letter else f"``{code}``"


class Changelog(SphinxDirective):
    """The directive."""

    def run(self) -> list[nodes.Node]:
        """Parse the changelog as a part of the page."""
        self.env.note_dependency(str(CHANGELOG))
        text = "\n".join(rst_lines(CHANGELOG.read_text("utf-8")))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the directive known."""
    app.add_directive("changelog", Changelog)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
