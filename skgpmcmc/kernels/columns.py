"""Choice of columns by position or by name, in arrays and in data frames."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np

Columns = int | str | Sequence[int | str]


def list_columns(columns: Columns) -> list[int | str]:
    """Return the columns as a list: one column may stand alone."""
    single = isinstance(columns, (str, Integral))
    return [columns] if single else list(columns)  # type: ignore[list-item, arg-type]


def find_positions(
    columns: Columns, n_features: int, feature_names: Sequence[str] | None = None
) -> list[int]:
    """Return the positions of columns among `n_features`.

    Raises
    ------
    ValueError
        If there is no such column, if a column occurs twice, or if there are no names to find a
        name among.
    """
    wanted = list_columns(columns)
    if not wanted:
        raise ValueError("columns=[] has no column: give at least one position or name.")
    names = None if feature_names is None else list(feature_names)
    positions = [_find_position(column, n_features, names) for column in wanted]
    if len(set(positions)) < len(positions):
        raise ValueError(f"columns={columns!r} has a column twice: leave one out.")
    return positions


def _find_position(column: Any, n_features: int, names: list[str] | None) -> int:
    if isinstance(column, str):
        if names is None:
            raise ValueError(
                f"columns has the name {column!r}, but X has no names: pass a data frame, or use "
                "positions. A scaler in front of the estimator keeps names with "
                '.set_output(transform="pandas").'
            )
        if column not in names:
            raise ValueError(f"columns has {column!r}, which is not among the columns {names}.")
        return names.index(column)
    if not isinstance(column, (int, np.integer)) or isinstance(column, bool):
        raise ValueError(f"columns must be names, or positions from 0; got {column!r}.")
    if not 0 <= column < n_features:
        raise ValueError(
            f"columns has the position {column}, and X has {n_features} columns: positions are "
            f"from 0 to {n_features - 1}."
        )
    return int(column)


def take_columns(
    X: Any, columns: Columns, feature_names: Sequence[str] | None = None
) -> list[np.ndarray]:
    """Return columns of an array or data frame (n, d), each of shape (n,).

    Names are looked up in a data frame itself, and for an array among `feature_names`.
    """
    own_names = getattr(X, "columns", None)
    if own_names is not None:
        names = [str(name) for name in own_names]
        positions = find_positions(columns, len(names), names)
        return [np.asarray(X[own_names[position]]) for position in positions]
    table = np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must have two dimensions; got shape {table.shape}.")
    positions = find_positions(columns, table.shape[1], feature_names)
    return [table[:, position] for position in positions]


class OfColumns:
    """Part of a kernel of some columns, which are given by positions or names.

    Attributes
    ----------
    columns : int, str or sequence of these
    feature_names : sequence of str or None
        Names of all columns of X, if X is an array without names.
    """

    columns: Columns
    feature_names: Sequence[str] | None

    def find_positions(
        self, n_features: int, feature_names: Sequence[str] | None = None
    ) -> list[int]:
        """Return the positions of the columns in X; own names have precedence."""
        names = feature_names if self.feature_names is None else self.feature_names
        return find_positions(self.columns, n_features, names)
