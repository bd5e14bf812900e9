"""Posteriors in a few numbers: hyper-parameters with their convergence, and linear effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._table_repr import TableRepr, html_table, text_table
from .._typing import FloatArray
from .convergence import ConvergenceGoal, summarize_convergence

#: Probabilities of the quantiles.
_PROBABILITIES = (0.05, 0.5, 0.95)
#: Columns of the table, with the format of their numbers.
_COLUMNS = {
    "mean": ".3g",
    "sd": ".3g",
    "5%": ".3g",
    "median": ".3g",
    "95%": ".3g",
    "r_hat": ".3f",
    "ess_bulk": ".0f",
    "ess_tail": ".0f",
}


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorSummary(TableRepr):
    """Posterior of every hyper-parameter on its natural scale; prints as a table.

    Attributes
    ----------
    names : list of str
        One per row.
    columns : dict of str to ndarray of shape (n_rows,)
        "mean", "sd", "5%", "median", "95%": moments and quantiles of the draws, on the natural
        scale.
        "r_hat", "ess_bulk", "ess_tail": convergence of the draws, as in `Diagnostics`.
    goal : ConvergenceGoal
        Goal of the fit. A notebook marks the numbers that are short of it.
    """

    names: list[str]
    columns: dict[str, FloatArray]
    goal: ConvergenceGoal

    @classmethod
    def of_draws(
        cls,
        names: Sequence[str],
        draws: FloatArray,
        positive: np.ndarray,
        unit: FloatArray,
        goal: ConvergenceGoal,
    ) -> PosteriorSummary:
        """Summarize draws of one model.

        Parameters
        ----------
        names : sequence of str
            One per hyper-parameter.
        draws : ndarray of shape (n_chains, n_draws, p)
            Draws of theta; natural logs where `positive`.
        positive : ndarray of bool of shape (p,)
            Which components of theta are logs.
        unit : ndarray of shape (p,)
            Factors by which values on the natural scale are multiplied.
        goal : ConvergenceGoal
            Goal of the fit.
        """
        with np.errstate(over="ignore"):
            values = np.where(positive, np.exp(np.where(positive, draws, 0.0)), draws) * unit
        values = values.reshape(draws.shape[0] * draws.shape[1], len(names))
        low, median, high = np.quantile(values, _PROBABILITIES, axis=0)
        found = summarize_convergence(draws)
        columns = {
            "mean": values.mean(axis=0),
            "sd": values.std(axis=0),
            "5%": low,
            "median": median,
            "95%": high,
            "r_hat": found.r_hat,
            "ess_bulk": found.ess_bulk,
            "ess_tail": found.ess_tail,
        }
        return cls(list(names), columns, goal)

    def join(self, other: PosteriorSummary) -> PosteriorSummary:
        """Return the rows of this summary, and below them those of another one."""
        columns = {
            key: np.concatenate([column, other.columns[key]])
            for key, column in self.columns.items()
        }
        return PosteriorSummary(self.names + other.names, columns, self.goal)

    def to_frame(self) -> Any:
        """Return a data frame of pandas, with a row per hyper-parameter."""
        from .summary_frame import SummaryFrame

        frame = SummaryFrame(self.columns, index=self.names)
        frame.summary = self
        return frame

    def __str__(self) -> str:
        return text_table(["", *_COLUMNS], self._rows())

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with marks where the goal is not reached."""
        order = list(_COLUMNS)
        columns = self.columns
        short = {
            "r_hat": ~(columns["r_hat"] <= self.goal.max_rhat),
            "ess_bulk": ~(columns["ess_bulk"] >= self.goal.min_ess),
            "ess_tail": ~(columns["ess_tail"] >= self.goal.min_ess),
        }
        failed = {
            (int(row), 1 + order.index(key))
            for key, of_column in short.items()
            for row in np.flatnonzero(of_column)
        }
        return html_table(["", *order], self._rows(), failed)

    def _rows(self) -> list[list[str]]:
        return _format_rows(self.names, self.columns)


def _format_rows(names: Sequence[str], columns: Mapping[str, FloatArray]) -> list[list[str]]:
    """Return the cells of a table, a row for each name."""
    formats = [_COLUMNS[key] for key in columns]
    rows = zip(*columns.values(), strict=True)
    return [
        [name, *(format(float(value), how) for value, how in zip(row, formats, strict=True))]
        for name, row in zip(names, rows, strict=True)
    ]


@dataclass(frozen=True, eq=False, repr=False)
class Effects(TableRepr):
    """Posterior of linear effects; prints as a table.

    Attributes
    ----------
    names : list of str
        The columns of X, one per row.
    columns : dict of str to ndarray of shape (n_rows,)
        "mean", "sd", "5%", "95%": posterior moments and quantiles.
    """

    names: list[str]
    columns: dict[str, FloatArray]

    def to_frame(self) -> Any:
        """Return a data frame of pandas, with a row per column of X."""
        import pandas as pd

        return pd.DataFrame(self.columns, index=self.names)

    def __str__(self) -> str:
        return text_table(["", *self.columns], _format_rows(self.names, self.columns))
