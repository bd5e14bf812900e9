"""Choice of a subset of the rows, and an order of all rows, by their distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import FloatArray, IntArray

#: Most rows that are ordered by distance: the work grows with its product with n.
_MOST_IN_ORDER = 3000
#: Names of the ways to choose rows.
ROW_CHOICES = ("random", "kmeans++", "maximin")


def choose_rows(X: FloatArray, size: int, way: str, rng: np.random.Generator) -> IntArray:
    """Choose different rows of X.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs. Distances are computed after dividing the columns by their standard deviations.
    size : int
        Number of rows that are chosen, at most n.
    way : {"random", "kmeans++", "maximin"}
        "random": every subset with equal probability. The others choose one row after the other,
        the first at random: "kmeans++" draws a row with probability proportional to its squared
        distance from the rows already chosen, "maximin" takes the farthest row.
    rng : Generator
        Random stream of the choice.

    Returns
    -------
    ndarray of int of shape (size,)
        Indices of the rows, in ascending order.

    References
    ----------
    Arthur & Vassilvitskii (2007), *k-means++*; Johnson, Moore & Ylvisaker (1990) for maximin.
    """
    if way == "random" or size == len(X):
        return np.sort(rng.choice(len(X), size, replace=False))

    def draw_in_proportion(squared: FloatArray) -> np.intp:
        """Draw a row with a probability in proportion to its squared distance."""
        return np.searchsorted(np.cumsum(squared), rng.uniform() * squared.sum(), side="right")

    first = int(rng.integers(len(X)))
    next_row = np.argmax if way == "maximin" else draw_in_proportion
    return np.sort(_choose_one_by_one(X, size, first, next_row))


def order_farthest_first(X: FloatArray) -> IntArray:
    """Order different rows of X such that the first rows are spread over all rows.

    The order begins with the row nearest to the mean, and goes on with the row that is farthest
    from the rows before. After many rows the remaining rows follow in the order of X. The order of
    rows with equal distances depends on the order of X.
    """
    order = _choose_one_by_one(X, min(len(X), _MOST_IN_ORDER), None, np.argmax)
    return np.concatenate([order, np.delete(np.arange(len(X)), order)])


def _choose_one_by_one(
    X: FloatArray, size: int, row: int | None, next_row: Callable[[FloatArray], Any]
) -> IntArray:
    """Choose rows one after the other, beginning with `row`, or with that nearest to the mean.

    Columns are divided by their standard deviations. `next_row` returns a row for the squared
    distances of all rows from the nearest row chosen before: `np.argmax` returns the farthest.
    """
    spread = X.std(axis=0)
    Z = X / np.where(spread > 0.0, spread, 1.0)
    if row is None:
        row = int(np.argmin(((Z - Z.mean(axis=0)) ** 2).sum(axis=1)))
    left = np.ones(len(Z), dtype=bool)
    squared = np.full(len(Z), np.inf)
    chosen = np.empty(size, dtype=np.intp)
    for i in range(size):
        chosen[i] = row
        left[row] = False
        squared = np.minimum(squared, ((Z - Z[row]) ** 2).sum(axis=1))
        # Rounding must not choose a row twice; all remaining rows may equal chosen rows.
        eligible = np.where(left, squared, 0.0) if squared[left].any() else left.astype(float)
        row = next_row(eligible) if left.any() else row
    return chosen
