"""Class labels to the numbers that likelihoods want, and back."""

from __future__ import annotations

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets


def numbered_classes(y):
    """Sorted classes, at least two, and the position of each label among them."""
    check_classification_targets(y)
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
    y = column_or_1d(y)
    if len(y) != n_rows:
        raise ValueError(f"X has {n_rows} rows but y has {len(y)} labels.")
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y has labels {unknown.tolist()} that were not seen in fit; classes_ is "
            f"{classes.tolist()}."
        )
    return np.searchsorted(classes, y)
