"""Formulas as MathML, written into the pages, so that they show without a network and a script.

The translation from LaTeX is that of docutils. What it does not know is a warning, which fails a
build with ``-W``. What it misreads is corrected here, or asked for in other words:
``tests/docs/test_formulas.py`` lists these.
"""

from __future__ import annotations

from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

_LOGGER = logging.getLogger(__name__)
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
#: What docutils writes for hats, tildes, bars, dots and checks.
_ACCENTS = {"\u02c6", "~", "\u02c9", "\u02d9", "\u02c7"}
_BARS, _BRACES = {"|", "\u2016"}, {"{", "}", "\u2016"}
#: Between the name of a function, which is an operator, and what it stands beside.
_THIN = "0.1667em"
_APPLIED = "\u2061"


def translated(code: str, *, as_block: bool) -> str:
    """Return the markup of a formula."""
    markup = tex2mathml(code.replace("\\dots", "\\ldots"), as_block=as_block)
    root = ElementTree.fromstring(markup.replace("&ApplyFunction;", _APPLIED))
    for element in list(root.iter()):
        if element.tag == _tag("munderover"):
            _put_index_beside(element)
        if element.tag == _tag("mtd") and len(element):
            element[0].set("form", "infix")  # an aligned line is about to go on
        _leave_room_around_functions(element)
        _keep_size_of_fences(element)
    ElementTree.register_namespace("", _NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _tag(name: str) -> str:
    return f"{{{_NAMESPACE}}}{name}"


def _put_index_beside(element: ElementTree.Element) -> None:
    """Make the index of a letter with an accent one beside it; docutils has it below."""
    base, index, accent = element
    if accent.text in _ACCENTS:
        letter = ElementTree.Element(_tag("mover"), accent="true")
        letter.extend([base, accent])
        element[:] = [letter, index]
        element.tag = _tag("msub")


def _leave_room_around_functions(row: ElementTree.Element) -> None:
    """Set ``k log p`` apart as LaTeX does; browsers leave no room around such names."""
    parts = list(row)
    for i, part in enumerate(parts):
        if part.text != _APPLIED:
            continue
        follows = parts[i + 1] if i + 1 < len(parts) else None
        if follows is not None and not (follows.text or "").startswith(("(", "[")):
            part.set("rspace", _THIN)
        if i > 1 and parts[i - 2].tag not in (_tag("mo"), _tag("mspace")):
            row.insert(
                list(row).index(parts[i - 1]), ElementTree.Element(_tag("mspace"), width=_THIN)
            )


def _keep_size_of_fences(row: ElementTree.Element) -> None:
    """Stretch fences only where the formula asks for it, and have bars stand close."""
    for i, part in enumerate(row):
        enclosing = row.tag == _tag("mrow") and i in (0, len(row) - 1)
        if part.text in _BRACES and not enclosing:
            part.set("stretchy", "false")
        if part.text in _BARS:
            part.set("lspace", "0")
            part.set("rspace", "0")


def _markup(node: nodes.Element, *, as_block: bool) -> str:
    code = node.astext()
    try:
        return translated(code, as_block=as_block)
    except MathError as error:
        _LOGGER.warning("formula %r: %s", code, error, location=node)
        return ""


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(_markup(node, as_block=False))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, with its number if it has a label."""
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(writer, node)
        writer.body.append(f'<span class="eqno">({number})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(_markup(node, as_block=True) + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer by the name ``mathml``."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
