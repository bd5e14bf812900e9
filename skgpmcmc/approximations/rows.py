"""Choice of a subset of the rows: at random, or spread over the inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._typing import FloatArray, IntArray

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
    spread = X.std(axis=0)
    Z = X / np.where(spread > 0.0, spread, 1.0)
    left = np.ones(len(X), dtype=bool)
    squared = np.full(len(X), np.inf)
    row = int(rng.integers(len(X)))
    for _ in range(size):
        left[row] = False
        squared = np.minimum(squared, ((Z - Z[row]) ** 2).sum(axis=1))
        if not left.any():
            break
        # Rounding must not choose a row twice; what is left may be copies of what was chosen.
        eligible = np.where(left, squared, 0.0) if squared[left].any() else left.astype(float)
        row = _SPREAD[way](eligible, rng)
    return np.flatnonzero(~left)
