"""Names of hyper-parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def element_names(names: Sequence[str], features: Sequence[str] = ()) -> list[str]:
    """Return names of the components of theta; components of a vector carry their index.

    Components of a vector with one element per feature carry the names of the features, if these
    are known.
    """
    counts = Counter(names)
    seen = Counter[str]()
    elements = []
    for name in names:
        index = seen[name]
        element = features[index] if counts[name] == len(features) else index
        elements.append(name if counts[name] == 1 else f"{name}[{element}]")
        seen[name] += 1
    return elements
