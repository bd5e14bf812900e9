"""Priors by name, with the source of each; prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._table_repr import TableRepr

#: Probabilities of the quantiles that the table shows.
_SHOWN_PROBABILITIES = (0.05, 0.95)


class PriorTable(TableRepr, Mapping[str, Any]):
    """A mapping from names of hyper-parameters to their priors; prints as a table.

    Parameters
    ----------
    priors : mapping of str to frozen scipy distribution
        Priors on the natural scale.
    origins : mapping of str to str
        Description of the source of each prior.

    Attributes
    ----------
    origins : dict of str to str
        For every name "given", "paper", or the rule of the default or the sparse prior.
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
            with np.errstate(all="ignore"):  # quantiles of a wide prior may overflow
                ends = [f"{float(end):.3g}" for end in law.ppf(_SHOWN_PROBABILITIES)]
            arguments = [f"{float(value):.4g}" for value in law.args]
            arguments += [f"{own}={float(value):.4g}" for own, value in law.kwds.items()]
            call = f"{law.dist.name}({', '.join(arguments)})"
            rows.append([name, call, *ends, self.origins.get(name, "")])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        # Words are aligned to the left, numbers to the right.
        formats = [f"{side}{width}" for side, width in zip("<<>><", widths, strict=True)]
        lines = ("  ".join(map(format, row, formats)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)
