"""Results that show themselves as a table: printed, in an interactive session, in a notebook."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

#: Style of a cell of a number that has not reached its goal: bold, for those who see no colors.
_FAILED = "background-color: #f8d7da; color: #58151c; font-weight: bold"


class TableRepr:
    """Base of results that show the text of `__str__` everywhere."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table for a notebook, in a font of fixed width."""
        return f"<pre>{escape(str(self), quote=False)}</pre>"


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text; the first column has names, the others have numbers.

    Parameters
    ----------
    head : sequence of str
        One word per column.
    rows : sequence of sequence of str
        The cells.
    """
    table = [head, *rows]
    width, *widths = (max(map(len, column)) for column in zip(*table, strict=True))
    lines = []
    for name, *numbers in table:
        cells = [f"{number:>{w}}" for number, w in zip(numbers, widths, strict=True)]
        lines.append("  ".join([f"{name:<{width}}", *cells]))
    return "\n".join(lines)


def html_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], failed: Collection[tuple[int, int]]
) -> str:
    """Return a table for a notebook; the first column has names, the others have numbers.

    Parameters
    ----------
    head : sequence of str
        One word per column.
    rows : sequence of sequence of str
        The cells.
    failed : collection of (row, column)
        Cells of numbers that have not reached their goal.
    """
    lines = ["".join(f"<th>{escape(word)}</th>" for word in head)]
    for i, (name, *numbers) in enumerate(rows):
        cells = [f'<th style="text-align: left">{escape(name)}</th>']
        for j, number in enumerate(numbers, 1):
            style = f' style="{_FAILED}"' if (i, j) in failed else ""
            cells.append(f"<td{style}>{escape(number)}</td>")
        lines.append("".join(cells))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
