"""A summary of the posterior as a data frame; imported only where pandas is installed."""

from __future__ import annotations

from typing import Any, ClassVar

import pandas


class SummaryFrame(pandas.DataFrame):  # type: ignore[misc]
    """A data frame that is printed whole, and marks in a notebook what is short of the goal.

    Parts of it, and results of operations, are ordinary data frames.
    """

    _metadata: ClassVar[list[str]] = ["summary"]

    @property
    def _constructor(self) -> Any:
        return pandas.DataFrame

    def __repr__(self) -> str:
        return str(self.summary)

    def _repr_html_(self) -> str:
        return str(self.summary._repr_html_())
