"""Names of hyper-parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def element_names(
    names: Sequence[str], labels: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Return names of the components of theta; components of a vector carry their index.

    Components of a vector for which `labels` has as many labels carry these.
    """
    counts = Counter(names)
    seen = Counter[str]()
    elements = []
    for name in names:
        index = seen[name]
        own = (labels or {}).get(name, ())
        element = own[index] if counts[name] == len(own) else index
        elements.append(name if counts[name] == 1 else f"{name}[{element}]")
        seen[name] += 1
    return elements


def find_names(name: str, names: Sequence[str]) -> list[str]:
    """Return which of some names a name stands for: itself, or those that end in it.

    "length_scale" stands for "k1__k2__length_scale", and for all components of such a vector.
    """
    if name in names:
        return [name]
    return [
        whole
        for whole in names
        if any(f"__{own}".endswith(f"__{name}") for own in (whole, whole.partition("[")[0]))
    ]
