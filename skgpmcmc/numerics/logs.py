"""Sums of numbers that are given by their logarithms."""

from __future__ import annotations

import numpy as np

from .._typing import FloatArray


def log_sum(log_values: FloatArray, axis: int = -1, *, overwrite: bool = False) -> FloatArray:
    """Log of the sum of exponentials along an axis; minus infinity where all of them are zero.

    As `scipy.special.logsumexp`, which checks so much that a sampler would spend a tenth of its
    time there. With `overwrite` the array is used as working memory.
    """
    largest = np.max(log_values, axis=axis, keepdims=True)
    largest[~np.isfinite(largest)] = 0.0
    out = log_values if overwrite else None
    shifted = np.subtract(log_values, largest, out=out)
    total = np.exp(shifted, out=shifted).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + np.squeeze(largest, axis=axis))
