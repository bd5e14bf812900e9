"""What autodoc needs to be told about the classes of this package.

Fields of named tuples, which the code describes in comments, become an Attributes section; members
that scikit-learn generates are left out.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from sphinx.application import Sphinx

_FIELD = re.compile(r"^    (\w+): ([^#=]+?)\s*(?:=[^#]*)?(?:#\s*(.*))?$")


def describe_fields(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Append the fields of a named tuple to its docstring."""
    if what != "class" or not hasattr(obj, "_fields"):
        return
    found = map(_FIELD.match, inspect.getsource(obj).splitlines())
    fields = {m[1]: (m[2], m[3]) for m in found if m and m[1] in obj._fields}
    lines += ["", "Attributes", "----------"]
    for field in obj._fields:
        kind, comment = fields[field]
        lines += [f"{field} : {kind}", f"    {comment}" if comment else "", ""]


def skip_generated(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out "Alias for field number" entries, and setters of metadata requests."""
    generated = type(obj).__name__ == "_tuplegetter" or re.fullmatch(r"set_\w+_request", name)
    return True if generated else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", describe_fields, priority=400)
    app.connect("autodoc-skip-member", skip_generated)
    return {"parallel_read_safe": True}
