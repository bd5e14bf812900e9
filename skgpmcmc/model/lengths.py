"""Lengths of the inputs, which tell what a kernel's hyper-parameters can be in units of X."""

from __future__ import annotations

import numpy as np
from scipy import spatial

from .._typing import FloatArray

#: How many neighbors a length-scale must reach that data can tell from a shorter one.
_N_NEIGHBORS = 5
#: Lower end of a length-scale, in distances to that neighbor.
_OF_NEIGHBOR = 0.5
#: Upper end of a length-scale, in widths of the data.
_OF_WIDTH = 3.0
#: Lower ends stay within these, which chains can reach: inputs of any size have a length-scale.
_LENGTHS = (1e-15, 1e15)
#: Rows as close as this share of the width are one: a root of K does not tell them apart.
_ONE_ROW = 1e-6
#: The same before the width is known, as a share of the range: differences of rounding alone.
_WIDTH_ROUNDING = 1e-12
#: Probability of the quantile of all radii that measures the width of the data.
_QUANTILE = 0.9
#: Rows farther out than so many times this quantile do not widen the data.
_OF_QUANTILE = 3.0
#: What inputs without two different rows have.
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
    low, width = _spacing_and_width(X)
    if width == 0.0:
        return _BOUNDS_OF_ONE_ROW
    return _order_bounds(low / float(np.sqrt(X.shape[1] if per_feature else 1)), _OF_WIDTH * width)


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
        twice that of `length_bounds`: of rows in a line about three are within such a period, and
        fewer than two do not tell it from longer ones. The upper end is the width of the data: a
        longer period is not seen to repeat.
    """
    low, width = _spacing_and_width(X)
    return _BOUNDS_OF_ONE_ROW if width == 0.0 else _order_bounds(low / _OF_NEIGHBOR, width)


def column_widths(X: FloatArray) -> FloatArray:
    """Return the width of every feature alone, in its unit, as `length_bounds` has it; (d,).

    Of a constant feature, whose length-scale has no effect, it is 1.
    """
    found = []
    for column in X.T[:, :, None]:
        _, width, unit = _distinct(column)
        found.append(_within_reach(width * unit) if width > 0.0 else 1.0)
    return np.array(found)


def size_of_rows(X: FloatArray) -> float:
    """Root of the median of ``|x|^2`` over all rows of X that are not zero; 1 if all are."""
    largest = float(np.abs(X).max())
    if largest == 0.0:
        return 1.0
    square = ((X / largest) ** 2).sum(axis=1)  # without overflow
    return _within_reach(float(np.sqrt(np.median(square[square > 0.0]))) * largest)


def spread_of_rows(X: FloatArray) -> float:
    """Return the median distance of distinct rows from their center; 1 if all are equal.

    The center is the median of every feature. Rows closer than 1e-6 of the width count once.
    """
    rows, _, unit = _distinct(X)
    distances = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    spread = float(np.median(distances[distances > 0.0])) if len(rows) > 1 else 0.0
    return _within_reach(spread * unit) if spread > 0.0 else 1.0


def _spacing_and_width(X: FloatArray) -> tuple[float, float]:
    """Half the distance of neighbors, and the width; zeros without two different rows."""
    rows, width, unit = _distinct(X)
    if len(rows) < 2:
        return 0.0, 0.0
    k = min(_N_NEIGHBORS, 1 + (len(rows) - 1) // 4)
    # The nearest of the training rows is the row itself.
    distances, _ = spatial.KDTree(rows).query(rows, [k + 1])
    return _OF_NEIGHBOR * float(np.median(distances)) * unit, width * unit


def _distinct(X: FloatArray) -> tuple[FloatArray, float, float]:
    """Rows that are not equal to the model, and their width, in a unit, which comes last."""
    unit = float(np.ptp(X, axis=0).max())
    if unit == 0.0:
        return X[:1], 0.0, 1.0
    rows = _apart((X - X[0]) / unit, _WIDTH_ROUNDING)  # squares of very small numbers are none
    radius = np.linalg.norm(rows - np.median(rows, axis=0), axis=1)
    width = 2.0 * min(float(radius.max()), _OF_QUANTILE * float(np.quantile(radius, _QUANTILE)))
    return _apart(rows, _ONE_ROW * width), width, unit


def _apart(rows: FloatArray, cell: float) -> FloatArray:
    """One of all rows that are equal when they are rounded to multiples of `cell`."""
    _, first = np.unique(np.rint(rows / cell), axis=0, return_index=True)
    return np.asarray(rows[np.sort(first)])


def _within_reach(length: float) -> float:
    least, most = _LENGTHS
    return min(max(length, least), most)


def _order_bounds(low: float, high: float) -> tuple[float, float]:
    """Both within what chains can reach, the second at least twice the first."""
    low = _within_reach(low)
    return low, min(max(high, 2.0 * low), 2.0 * _LENGTHS[1])
