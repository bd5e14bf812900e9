"""Priors by name, with the source of each; prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .._table_repr import TableRepr
from .names import find_names

#: Probabilities of the quantiles that the table shows.
_SHOWN_PROBABILITIES = (0.05, 0.5, 0.95)
#: Names of families of distributions, by their names in SciPy; others are written as there.
_FAMILIES = {
    "expon": "Exponential",
    "halfcauchy": "HalfCauchy",
    "halfnorm": "HalfNormal",
    "invgamma": "InverseGamma",
    "lognorm": "LogNormal",
    "loguniform": "LogUniform",
    "norm": "Normal",
    "t": "StudentT",
}


class PriorTable(TableRepr, Mapping[str, Any]):
    """A mapping from names of hyper-parameters to their priors; prints as a table.

    The end of a name after a double underscore is enough if no other name ends in it.

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
        found = find_names(name, list(self._priors))
        if len(found) != 1:
            raise KeyError(name)
        return self._priors[found[0]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._priors)

    def __len__(self) -> int:
        return len(self._priors)

    def __str__(self) -> str:
        rows = [["hyper-parameter", "prior", "from"]]
        for name, law in self.items():
            rows.append([name, describe_distribution(law), self.origins.get(name, "")])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            for row in rows
        )
        return "\n".join(line.rstrip() for line in lines)


def describe_distribution(law: Any) -> str:
    """Describe a frozen distribution, such as "LogNormal(median 2, 90 % 0.4 to 10)"."""
    plain = "".join(word.capitalize() for word in law.dist.name.split("_"))
    family = _FAMILIES.get(law.dist.name, plain)
    with np.errstate(all="ignore"):  # quantiles of a wide prior may overflow
        low, median, high = (f"{float(value):.3g}" for value in law.ppf(_SHOWN_PROBABILITIES))
    return f"{family}(median {median}, 90 % {low} to {high})"
