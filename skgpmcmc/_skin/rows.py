"""What goes with the rows of the training data: weights, and rows that have none."""

from __future__ import annotations

from typing import Any

import numpy as np

from .validation import check_weights


def weighted_rows(
    sample_weight: Any, X: np.ndarray, y: np.ndarray, *others: np.ndarray | None
) -> tuple[Any, ...]:
    """Drop rows of weight zero: they are not there.

    Returns the weights, or None where all that are left are one, then X, y and the others, of
    which those that are None stay so.
    """
    weight = check_weights(sample_weight, len(X))
    if weight is None:
        return (None, X, y, *others)
    kept = weight > 0.0
    arrays = [None if array is None else array[kept] for array in (X, y, *others)]
    weight = weight[kept]
    return (None if np.all(weight == 1.0) else weight, *arrays)
