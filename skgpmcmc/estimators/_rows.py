"""What goes with the rows of the training data: weights, rows that have none, scales of y."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._validation import check_weights


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


def power_of_two(values: np.ndarray) -> float:
    """Return a power of two near the largest size of some numbers; one where all are zero.

    What is divided by it can be squared, and has not been rounded.
    """
    _, exponent = np.frexp(np.max(np.abs(values)))
    return float(np.ldexp(1.0, int(exponent) - 1)) if np.any(values) else 1.0


def root_mean_square(values: np.ndarray, weight: np.ndarray | None) -> float:
    """Root of the weighted mean of squares, whatever the size of the numbers."""
    unit = power_of_two(values)
    return unit * float(np.sqrt(np.average((values / unit) ** 2, weights=weight)))
