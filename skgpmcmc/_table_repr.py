"""Results that show themselves as a table: printed, in an interactive session, in a notebook."""

from __future__ import annotations

from html import escape


class TableRepr:
    """Base of results that show the text of `__str__` everywhere."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table for a notebook, in a font of fixed width."""
        return f"<pre>{escape(str(self), quote=False)}</pre>"
