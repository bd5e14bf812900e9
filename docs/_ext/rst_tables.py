"""Tables in reStructuredText, and the line that says where figures come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Chains with fewer effective draws than this are not taken for converged, see
#: `skgpmcmc.convergence`; a time that is scaled from so few says nothing.
FEWEST_EFFECTIVE = 100.0


def two(value: float) -> str:
    """Two decimals."""
    return f"{value:.2f}"


def decimals(value: float | None, digits: int) -> str:
    """A number, which JSON holds as null where it is infinite or undefined."""
    return "none" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def list_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table; none without rows."""
    if not rows:
        return []
    lines = [f".. list-table:: {title}".rstrip(), "   :header-rows: 1", ""]
    for row in (head, *rows):
        lines += [f"   {'*' if j == 0 else ' '} - {cell}" for j, cell in enumerate(row)]
    return [*lines, ""]


def provenance(document: dict[str, Any], *, settings: bool = True) -> list[str]:
    """Versions, machine and, if wanted, settings of a file of results."""
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    machine = document["machine"]
    made = f"Made with {versions}, on {machine['machine']} with {machine['cpus']} CPUs"
    if settings:
        made += "; settings: "
        made += ", ".join(f"{key} = {value}" for key, value in document["settings"].items())
    return [f"{made}.", ""]
