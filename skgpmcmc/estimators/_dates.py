"""Dates and durations in X: their numbers depend on a unit, which a table does not show."""

from __future__ import annotations

import datetime
import re
from itertools import islice
from typing import Any

import numpy as np

#: Pattern of the names of types of dates, times and durations in NumPy, pandas and polars.
_DATE_TYPE_NAME = re.compile(r"date|time|duration|period", re.IGNORECASE)
#: Types of dates, times and durations in columns of objects; those of pandas are subclasses.
_DATE_TYPES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)


def refuse_dates(X: Any) -> None:
    """Raise a ValueError that names the columns of X that hold dates or durations."""
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        names = [repr(name) for name in X.columns]
        columns = (X[name] for name in X.columns)
        types = [str(dtype) for dtype in X.dtypes]
    else:
        try:
            array = np.asarray(X)
        except (TypeError, ValueError):  # scikit-learn raises the error later
            return
        if array.ndim != 2:
            return
        names = [str(j) for j in range(array.shape[1])]
        columns = iter(array.T)
        types = [str(array.dtype)] * len(names)
    found = []
    for name, column, kind in zip(names, columns, types, strict=True):
        if _DATE_TYPE_NAME.match(kind):
            found.append(f"{name} ({kind})")
        elif kind.lower() == "object":
            dates = (v for v in np.asarray(column, dtype=object) if isinstance(v, _DATE_TYPES))
            found += [f"{name} ({type(date).__name__})" for date in islice(dates, 1)]
    if found:
        raise ValueError(
            f"X has dates or durations in column {', '.join(found)}, and their numbers would "
            "depend on a unit that nobody has stated: turn them into numbers such as days since a "
            "start, (t - start) / pd.Timedelta(days=1) in pandas, with the same start in fit and "
            "in predictions."
        )
