"""Class labels to the numbers that likelihoods want, and back."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets


def check_labels(name: str, labels: Any) -> Any:
    """Return labels that can be sorted: none is missing, and text does not mix with other types.

    Numbers in an array of objects become an ordinary array. What is no list of single values is
    left to scikit-learn.
    """
    dtype = getattr(labels, "dtype", None)
    if labels is None or (isinstance(dtype, np.dtype) and dtype.kind != "O"):
        return labels
    values = np.asarray(labels, dtype=object)
    if values.ndim != 1:
        return labels
    for row, value in enumerate(values):
        if _missing(value) or isinstance(value, (list, np.ndarray)):
            raise ValueError(
                f"{name} has {value!r} in row {row}, which is no label: give one, or leave it out."
            )
    is_text = np.array([isinstance(value, str) for value in values])
    if 0 < is_text.sum() < len(values):
        text, other = values[int(np.argmax(is_text))], values[int(np.argmin(is_text))]
        raise ValueError(
            f"{name} mixes text and other labels, such as {text!r} and {other!r}, which have no "
            "common order: make all of them text, or none."
        )
    numbers = len(values) > 0 and all(isinstance(value, (Real, np.bool_)) for value in values)
    return np.array(values.tolist()) if numbers else labels


def _missing(label: Any) -> bool:
    """Whether a label is None, NaN or the missing value of pandas, which is not even itself."""
    same = label == label
    return label is None or not isinstance(same, (bool, np.bool_)) or not same


def check_labels_are_classes(y):
    """Refuse targets that are quantities."""
    with np.errstate(invalid="ignore"):  # the check compares numbers with their integer parts
        check_classification_targets(y)


def numbered_classes(y):
    """Sorted classes, at least two, and the position of each label among them."""
    check_labels_are_classes(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) == 1:
        raise ValueError(
            f"y has only one class, {classes.tolist()[0]!r}: a classifier needs at least two."
        )
    return classes, index


def one_versus_rest(index, n_classes):
    """Return one target vector of -1.0 / +1.0 per binary problem.

    Two classes make one problem, whose positive class is the second; more make one per class.
    """
    positives = [1] if n_classes == 2 else range(n_classes)
    return [np.where(index == k, 1.0, -1.0) for k in positives]


def known_labels(y, classes, n_rows):
    """Positions of labels in the sorted `classes`; an error names labels that are not there."""
    y = column_or_1d(check_labels("y", y))
    if len(y) != n_rows:
        raise ValueError(f"X has {n_rows} rows but y has {len(y)} labels.")
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y has labels {unknown.tolist()} that were not seen in fit; classes_ is "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, y)
