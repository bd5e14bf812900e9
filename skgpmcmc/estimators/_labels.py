"""Checks of labels of classes and of categories."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np


def check_labels(name: str, labels: Any) -> Any:
    """Return labels that can be sorted: none is missing, and text does not mix with other types.

    Numbers in an array of objects become an array of numbers. scikit-learn checks labels that are
    not a list of single values.
    """
    dtype = getattr(labels, "dtype", None)
    if labels is None or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return labels
    values = np.asarray(labels, dtype=object)
    if values.ndim != 1:
        return labels
    for row, value in enumerate(values):
        same = value == value  # not so for NaN, and no truth value for the missing one of pandas
        missing = value is None or not isinstance(same, (bool, np.bool_)) or not same
        if missing or isinstance(value, (list, np.ndarray)):
            raise ValueError(
                f"{name} has {value!r} in row {row}, which is no label: give one, or leave it out."
            )
    is_text = np.array([isinstance(value, str) for value in values])
    if 0 < is_text.sum() < len(values):
        text = values[int(np.argmax(is_text))]
        other = values[int(np.argmin(is_text))]
        raise ValueError(
            f"{name} mixes text and other labels, such as {text!r} and {other!r}, which have no "
            "common order: make all of them text, or none."
        )
    is_numeric = len(values) > 0 and all(isinstance(value, (Real, np.bool_)) for value in values)
    return np.array(values.tolist()) if is_numeric else labels
