"""Dates and durations in X: their numbers depend on a unit, which a table does not show."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

#: Pattern of the names of types of dates, times and durations in NumPy, pandas and polars.
_DATE_TYPE_NAME = re.compile(r"date|time|duration|period", re.IGNORECASE)
#: Types of dates, times and durations in columns of objects; those of pandas are subclasses.
_DATE_TYPES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)


def refuse_dates(X: Any) -> None:
    """Raise a ValueError that names the columns of X that hold dates or durations."""
    columns = [f"{name} ({kind})" for name, kind in _find_date_columns(X)]
    if columns:
        raise ValueError(
            f"X has dates or durations in column {', '.join(columns)}, and their numbers would "
            "depend on a unit that nobody has stated: turn them into numbers such as days since a "
            "start, (t - start) / pd.Timedelta(days=1) in pandas, with the same start in fit and "
            "in predictions."
        )


def _find_date_columns(X: Any) -> list[tuple[str, str]]:
    """Return the names of columns of dates or durations, and the names of their types."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        names = [repr(name) for name in X.columns]
        columns = (X[name] for name in X.columns)
        types = [str(dtype) for dtype in X.dtypes]
    else:
        array = _to_table(X)
        names = [str(j) for j in range(array.shape[1])]
        columns = iter(array.T)
        types = [str(array.dtype)] * len(names)
    found = []
    for name, column, kind in zip(names, columns, types, strict=True):
        if _DATE_TYPE_NAME.match(kind):
            found.append((name, kind))
        elif kind.lower() == "object":
            date_types = _find_date_type(np.asarray(column, dtype=object))
            found += [(name, own) for own in date_types]
    return found


def _to_table(X: Any) -> np.ndarray:
    """Return X as an array with two axes, which is empty if X is no table."""
    try:
        array = np.asarray(X)
    except (TypeError, ValueError):  # scikit-learn raises the error later
        array = np.empty(0)
    return array if array.ndim == 2 else np.empty((0, 0))


def _find_date_type(values: Iterable[Any]) -> list[str]:
    """Return the type name of the first date among some values, as a list of at most one."""
    return [type(value).__name__ for value in values if isinstance(value, _DATE_TYPES)][:1]
