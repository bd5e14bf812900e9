"""Dates and durations in X: their numbers depend on a unit, which a table does not show."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

#: How NumPy, pandas and polars call their types of dates, times and durations.
_NAME = re.compile(r"date|time|duration|period", re.IGNORECASE)
#: What columns of objects may hold; those of pandas are among them.
_DATES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)


def refuse_dates(X: Any) -> None:
    """Raise a ValueError that names the columns of X that hold dates or durations."""
    found = [f"{name} ({kind})" for name, kind in _with_dates(X)]
    if found:
        raise ValueError(
            f"X has dates or durations in column {', '.join(found)}, and their numbers would "
            "depend on a unit that nobody has stated: turn them into numbers such as days since a "
            "start, (t - start) / pd.Timedelta(days=1) in pandas, with the same start in fit and "
            "in predictions."
        )


def _with_dates(X: Any) -> Iterator[tuple[str, str]]:
    """Give the names of such columns and what they hold."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        names = [repr(name) for name in X.columns]
        columns = (X[name] for name in X.columns)
        types = [str(dtype) for dtype in X.dtypes]
    else:
        array = _as_table(X)
        names = [str(j) for j in range(array.shape[1])]
        columns = iter(array.T)
        types = [str(array.dtype)] * len(names)
    for name, column, kind in zip(names, columns, types, strict=True):
        if _NAME.match(kind):
            yield name, kind
        elif kind.lower() == "object":
            yield from ((name, own) for own in _kinds_of(np.asarray(column, dtype=object)))


def _as_table(X: Any) -> np.ndarray:
    """Return X as an array with two axes; what is no table has no columns."""
    try:
        array = np.asarray(X)
    except (TypeError, ValueError):  # scikit-learn says what is wrong
        array = np.empty(0)
    return array if array.ndim == 2 else np.empty((0, 0))


def _kinds_of(values: Iterable[Any]) -> list[str]:
    """Return the type of the first date among some values, if there is one."""
    return [type(value).__name__ for value in values if isinstance(value, _DATES)][:1]
