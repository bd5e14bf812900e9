"""Choice of some of the rows, and an order of all, by how they are spread over the inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import FloatArray, IntArray

#: Rows that are put in order by distances at most.
_MOST_IN_ORDER = 3000
#: From the squared distances of all rows to the nearest one chosen so far, the next one.
Choice = Callable[[FloatArray, np.random.Generator], int]


def _in_proportion(squared: FloatArray, rng: np.random.Generator) -> int:
    """Draw a row with a probability in proportion to its squared distance (k-means++)."""
    return int(np.searchsorted(np.cumsum(squared), rng.uniform() * squared.sum(), side="right"))


def _farthest(squared: FloatArray, rng: np.random.Generator) -> int:
    """Return the row that is farthest from all that were chosen."""
    return int(np.argmax(squared))


_SPREAD: dict[str, Choice] = {"kmeans++": _in_proportion, "maximin": _farthest}

#: The ways to choose rows.
WAYS = ("random", *_SPREAD)


def choose_rows(X: FloatArray, size: int, way: str, rng: np.random.Generator) -> IntArray:
    """Choose different rows of X.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs. Distances are computed after dividing the columns by their standard deviations.
    size : int
        Number of rows to choose, at most n.
    way : {"random", "kmeans++", "maximin"}
        "random": every subset with equal probability. The others choose one row after the other,
        the first at random: "kmeans++" draws a row with probability proportional to its squared
        distance from the rows already chosen, "maximin" takes the farthest row.
    rng : Generator
        Random numbers.

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
    first = int(rng.integers(len(X)))
    return np.sort(_one_by_one(X, size, first, lambda squared: _SPREAD[way](squared, rng)))


def farthest_first(X: FloatArray) -> IntArray:
    """Order different rows of X such that those at the beginning are spread over all.

    It begins in the middle, and goes on with the row that is farthest from those before. Beyond
    many rows the others follow as they are. The order depends on that of X where distances are
    equal.
    """
    Z = _standardized(X)
    middle = int(np.argmin(((Z - Z.mean(axis=0)) ** 2).sum(axis=1)))
    size = min(len(X), _MOST_IN_ORDER)
    order = _one_by_one(X, size, middle, lambda squared: int(np.argmax(squared)))
    return np.concatenate([order, np.delete(np.arange(len(X)), order)])


def _one_by_one(
    X: FloatArray, size: int, first: int, next_row: Callable[[FloatArray], int]
) -> IntArray:
    """Choose rows one after the other by the squared distances to those before; (size,)."""
    Z = _standardized(X)
    row = first
    left = np.ones(len(X), dtype=bool)
    squared = np.full(len(X), np.inf)
    chosen = np.empty(size, dtype=np.intp)
    for i in range(size):
        chosen[i] = row
        left[row] = False
        squared = np.minimum(squared, ((Z - Z[row]) ** 2).sum(axis=1))
        # Rounding must not choose a row twice; what is left may be copies of what was chosen.
        eligible = np.where(left, squared, 0.0) if squared[left].any() else left.astype(float)
        row = next_row(eligible) if left.any() else row
    return chosen


def _standardized(X: FloatArray) -> FloatArray:
    """Divide the columns by their standard deviations."""
    spread = X.std(axis=0)
    return np.asarray(X / np.where(spread > 0.0, spread, 1.0))
