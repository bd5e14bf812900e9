"""Results that show a table: to `print`, to an interactive session and to a notebook alike."""

from __future__ import annotations

from html import escape


class TableRepr:
    """Base of results whose `__str__` is what everyone is to see."""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table for a notebook, in letters of one width."""
        return f"<pre>{escape(str(self), quote=False)}</pre>"
