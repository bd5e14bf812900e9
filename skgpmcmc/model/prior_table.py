"""Priors by name, with where each comes from; prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._table_repr import TableRepr

#: Quantiles that the table shows.
_SHOWN = (0.05, 0.95)


class PriorTable(TableRepr, Mapping[str, Any]):
    """A mapping from names of hyper-parameters to their priors; prints as a table.

    Parameters
    ----------
    priors : mapping of str to frozen scipy distribution
        On the natural scale.
    origins : mapping of str to str
        Where each prior comes from.

    Attributes
    ----------
    origins : dict of str to str
        For every name "given", "paper", or the rule that the default or the sparse prior follows.
    """

    def __init__(self, priors: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        self._priors = dict(priors)
        self.origins = dict(origins)

    def __getitem__(self, name: str) -> Any:
        return self._priors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._priors)

    def __len__(self) -> int:
        return len(self._priors)

    def __str__(self) -> str:
        rows = [["hyper-parameter", "prior", "5 %", "95 %", "from"]]
        for name, law in self.items():
            with np.errstate(all="ignore"):  # of a prior whose tails are beyond numbers
                ends = [f"{float(end):.3g}" for end in law.ppf(_SHOWN)]
            rows.append([name, describe(law), *ends, self.origins.get(name, "")])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(_line(row, widths) for row in rows)


def describe(law: Any) -> str:
    """Return a frozen distribution as one would write it, such as "lognorm(1, scale=2)"."""
    given = [f"{float(value):.4g}" for value in law.args]
    named = [f"{name}={float(value):.4g}" for name, value in law.kwds.items()]
    return f"{law.dist.name}({', '.join([*given, *named])})"


def _line(row: list[str], widths: list[int]) -> str:
    """Words to the left, numbers to the right."""
    numbers = (2, 3)
    cells = []
    for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
        cells.append(f"{cell:>{width}}" if i in numbers else f"{cell:<{width}}")
    return "  ".join(cells).rstrip()
