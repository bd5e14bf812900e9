"""Text in columns that a kernel takes as categories: numbers take its place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels import Categorical
from ..kernels.categorical import is_text, sort_levels
from ..model.parts import find_category_columns, has_part
from ._labels import check_labels

#: Sorted levels of each column; those of columns without text are empty.
Levels = tuple[tuple[str, ...], ...]


def number_text(kernel: Any, X: Any) -> tuple[Any, Levels | None]:
    """Replace text in training inputs by its position among the sorted levels of its column.

    Parameters
    ----------
    kernel : object
        The parameter of the estimator. Columns of its `Categorical` parts may have text.
    X : array-like or data frame of shape (n, d)
        The inputs; they are not changed.

    Returns
    -------
    X : array or data frame of shape (n, d)
        `X` itself if there is nothing to replace.
    levels : tuple of d tuples of str, or None
        None if there is nothing to replace.
    """
    if not has_part(kernel, Categorical):
        return X, None
    shape = np.shape(X)
    if len(shape) != 2:
        return X, None  # the check of the estimator finds the wrong shape
    names = _list_names(X)
    levels: list[tuple[str, ...]] = [()] * shape[1]
    for k in find_category_columns(kernel, shape[1], names):
        values = _take(X, k)
        if is_text(values):
            levels[k] = sort_levels(check_labels(_describe(k, names), values))
    if not any(levels):
        return X, None
    return number_levels(X, tuple(levels)), tuple(levels)


def number_levels(X: Any, levels: Levels | None) -> Any:
    """Replace text in inputs (n, d) by its position among levels; new levels have larger numbers.

    Raises
    ------
    ValueError
        If a column with levels has something else than text.
    """
    if levels is None or len(np.shape(X)) != 2 or np.shape(X)[1] != len(levels):
        return X  # the check of the estimator finds the wrong shape
    numbers = {k: _number(X, k, own) for k, own in enumerate(levels) if own}
    if not hasattr(X, "columns"):
        table = np.array(X, dtype=object)
        for k, values in numbers.items():
            table[:, k] = values
        return table
    names = list(X.columns)
    if hasattr(X, "with_columns"):  # polars
        series = type(X[names[0]])
        return X.with_columns(*(series(names[k], values) for k, values in numbers.items()))
    return X.assign(**{names[k]: values for k, values in numbers.items()})


def _number(X: Any, k: int, levels: tuple[str, ...]) -> np.ndarray:
    """Return the numbers of the levels in column k; (n,)."""
    what = _describe(k, _list_names(X))
    values = check_labels(what, _take(X, k))
    if not is_text(values):
        raise ValueError(
            f"{what} has numbers, and had text in fit: use the same levels, such as {levels[0]!r}."
        )
    position = {level: number for number, level in enumerate(levels)}
    for level in sort_levels(values):
        position.setdefault(level, len(position))
    return np.array([position[str(value)] for value in values], dtype=float)


def _list_names(X: Any) -> list[str] | None:
    names = getattr(X, "columns", None)
    return None if names is None else [str(name) for name in names]


def _take(X: Any, k: int) -> np.ndarray:
    """Return column k of an array or a data frame, as an array of objects."""
    names = getattr(X, "columns", None)
    if names is None:
        return np.array([row[k] for row in X], dtype=object)
    return np.asarray(X[list(names)[k]], dtype=object)


def _describe(k: int, names: list[str] | None) -> str:
    return f"column {k if names is None else repr(names[k])} of X"
