"""What autodoc needs to be told about the classes of this package.

Fields of named tuples, which the code describes in comments, become an Attributes section; members
that come from elsewhere, such as scikit-learn's base classes, are left out.
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


def skip_foreign(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out members that this package does not define, and its named tuples' fields."""
    function = next(
        (f for key in ("fget", "func", "__func__") if (f := getattr(obj, key, None))), obj
    )
    if what == "class" and not str(getattr(function, "__module__", "")).startswith("skgpmcmc"):
        return True
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Run before numpydoc reads the docstrings."""
    app.connect("autodoc-process-docstring", describe_fields, priority=400)
    app.connect("autodoc-skip-member", skip_foreign)
    return {"parallel_read_safe": True}
