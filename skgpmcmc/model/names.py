"""Names of hyper-parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def element_names(names: Sequence[str]) -> list[str]:
    """Return names of the components of theta; components of a vector carry their index."""
    counts = Counter(names)
    seen = Counter[str]()
    elements = []
    for name in names:
        elements.append(name if counts[name] == 1 else f"{name}[{seen[name]}]")
        seen[name] += 1
    return elements
