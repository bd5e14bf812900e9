"""Formulas as MathML, written into the pages, so that they show without a network and a script.

The translation from LaTeX is that of docutils. What it does not know is a warning, which fails a
build with ``-W``.
"""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

_LOGGER = logging.getLogger(__name__)


def _markup(node: nodes.Element, *, as_block: bool) -> str:
    code = node.astext().replace("\\dots", "\\ldots")
    try:
        return tex2mathml(code, as_block=as_block)
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
