"""Spacing and widths of the inputs: the range of hyper-parameters that are lengths."""

from __future__ import annotations

import numpy as np
from scipy import spatial

from .._typing import FloatArray

#: Rank of the nearest neighbor whose distance measures the spacing of the inputs.
_N_NEIGHBORS = 5
#: Lower end of a length-scale, in units of the distance to this neighbor.
_NEIGHBOR_SHARE = 0.5
#: Upper end of a length-scale, in widths of the data.
_WIDTH_FACTOR = 3.0
#: Limits of the lower end of a length-scale, in units of X: chains can move well beyond both.
_LENGTH_LIMITS = (1e-15, 1e15)
#: Distance below which rows count as equal, in widths: a root of K does not distinguish them.
_EQUAL_ROWS_SHARE = 1e-6
#: Distance below which rows count as equal before the width is known, in units of the range.
_ROUNDING_SHARE = 1e-12
#: Probability of the quantile of all radii that measures the width of the data.
_RADIUS_PROBABILITY = 0.9
#: Most of a radius that counts for the width, in units of this quantile.
_QUANTILE_FACTOR = 3.0
#: Range of a length-scale, in units of X, for inputs without two different rows.
_BOUNDS_OF_ONE_ROW = (0.1, 10.0)


def length_bounds(X: FloatArray, *, per_feature: bool = False) -> tuple[float, float]:
    """Return the range of length-scales about which data at these inputs are informative.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    per_feature : bool, default=False
        Whether every feature has its own length-scale. Then a single feature may be relevant, and
        the lower end is divided by sqrt(d), as a distance along one feature is smaller than the
        distance of the inputs by this factor.

    Returns
    -------
    tuple of float
        In units of X. The lower end is half of the median distance of a row to its fifth nearest
        neighbor (with fewer than 17 rows, to a nearer one). The upper end is three times the width
        of the data: twice the largest distance of a row from the center, which is the median of
        every feature; rows that are farther out than three times the 90 % quantile of these
        distances count as if they were that far. Rows closer than 1e-6 of the width count once. If
        there are no two different rows, 0.1 and 10.
    """
    shrink = float(np.sqrt(X.shape[1] if per_feature else 1)) / _NEIGHBOR_SHARE
    return _measure_bounds(X, shrink, _WIDTH_FACTOR)


def period_bounds(X: FloatArray) -> tuple[float, float]:
    """Return the range of periods that data at these inputs can show.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.

    Returns
    -------
    tuple of float
        In units of X. The lower end is the median distance of a row to its fifth nearest neighbor,
        twice the lower end of `length_bounds`. About three of the rows on a line are then within a
        period; with fewer than two the data cannot distinguish it from longer periods. The upper
        end is the width of the data, as the data show no repetition of longer periods.
    """
    return _measure_bounds(X, 1.0, 1.0)


def column_widths(X: FloatArray) -> FloatArray:
    """Return the width of every single feature, defined as in `length_bounds`; (d,).

    The width of a constant feature, whose length-scale has no effect, is 1.
    """
    widths = []
    for column in X.T[:, :, None]:
        _, width, unit = _merge_equal_rows(column)
        widths.append(np.clip(width * unit, *_LENGTH_LIMITS) if width > 0.0 else 1.0)
    return np.array(widths)


def size_of_rows(X: FloatArray) -> float:
    """Root of the median of ``|x|^2`` over the rows of X that are not zero; 1 if all are zero."""
    largest = float(np.abs(X).max())
    if largest == 0.0:
        return 1.0
    square = ((X / largest) ** 2).sum(axis=1)  # without overflow
    return float(np.clip(np.sqrt(np.median(square[square > 0.0])) * largest, *_LENGTH_LIMITS))


def spread_of_rows(X: FloatArray) -> float:
    """Return the median distance of distinct rows from their center; 1 if all are equal.

    The center is the median of every feature. Rows closer than 1e-6 of the width count once.
    """
    rows, _, unit = _merge_equal_rows(X)
    distances = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    spread = float(np.median(distances[distances > 0.0])) if len(rows) > 1 else 0.0
    return float(np.clip(spread * unit, *_LENGTH_LIMITS)) if spread > 0.0 else 1.0


def root_mean_square(rows: FloatArray) -> float:
    """Return the root mean square of the lengths of rows (n, d); 1 if all are zero."""
    largest = float(np.abs(rows).max())
    if largest == 0.0:
        return 1.0
    return largest * float(np.sqrt(np.mean(np.sum((rows / largest) ** 2, axis=1))))


def _measure_bounds(X: FloatArray, shrink: float, n_widths: float) -> tuple[float, float]:
    """Return the distance of neighbors divided by `shrink`, and so many widths of the data.

    Both are within the limits of lengths, and the second is at least twice the first.
    """
    rows, width, unit = _merge_equal_rows(X)
    if len(rows) < 2:
        return _BOUNDS_OF_ONE_ROW
    k = min(_N_NEIGHBORS, 1 + (len(rows) - 1) // 4)
    # The nearest of the training rows is the row itself.
    distances, _ = spatial.KDTree(rows).query(rows, [k + 1])
    least, most = _LENGTH_LIMITS
    low = min(max(float(np.median(distances)) * unit / shrink, least), most)
    return low, min(max(n_widths * (width * unit), 2.0 * low), 2.0 * most)


def _merge_equal_rows(X: FloatArray) -> tuple[FloatArray, float, float]:
    """Return one of all rows that are nearly equal, their width, and the unit of both."""
    unit = float(np.ptp(X, axis=0).max())
    if unit == 0.0:
        return X[:1], 0.0, 1.0
    rows = _drop_repeats((X - X[0]) / unit, _ROUNDING_SHARE)  # without a unit squares may underflow
    radius = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    width = 2.0 * min(
        float(radius.max()), _QUANTILE_FACTOR * float(np.quantile(radius, _RADIUS_PROBABILITY))
    )
    return _drop_repeats(rows, _EQUAL_ROWS_SHARE * width), width, unit


def _drop_repeats(rows: FloatArray, cell: float) -> FloatArray:
    """Return one of all rows that are equal when rounded to multiples of `cell`."""
    _, first = np.unique(np.rint(rows / cell), axis=0, return_index=True)
    return np.asarray(rows[np.sort(first)])
