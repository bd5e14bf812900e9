"""The covariance of functions of categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from .._typing import BoolArray, FloatArray, IntArray
from .columns import Columns, OfColumns, list_columns, take_columns


class Categorical(OfColumns, Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """Categories without an order, such as species or soil; also groups, such as herds or people.

    In one column, ``k(x, x')`` is 1 for equal levels, and ``exp(-u - u')`` for different ones, with
    the distances ``u > 0`` and ``u'`` of the two levels. With one distance for all levels, any two
    have the correlation ``exp(-2 u)``. The kernel of several columns is the product over columns,
    so that rows are less alike the more of their levels differ. A new level, which was not seen in
    training, counts as one whose ``exp(-u)`` is the mean of the known levels; it differs from each.

    Parameters
    ----------
    columns : int, str, or sequence of these
        Positions from 0, or names if X is a data frame. Levels are numbers or text.
    distance : float or array-like of shape (n_levels,), default=0.35
        The distances, a pure number, which makes two levels uncorrelated if it is large. An array
        has one for each of the sorted levels, and needs a single column.
    distance_bounds : pair of floats or "fixed", default=(1e-5, 1e5)
        With "fixed" distances keep their values; ``np.inf`` then makes levels independent. The
        estimators of this package use priors in place of other bounds.
    feature_names : sequence of str or None, default=None
        Names of all columns of X, for names in `columns` if X is an array. The estimators of this
        package put those of the training data in the place of None.
    levels : sequence or None, default=None
        The sorted levels of the column, if each has its own distance. The estimators of this
        package put those of the training data in the place of None. Where levels are text and a
        column has numbers, these are positions among the levels.

    Notes
    -----
    The matrix for different levels is ``v v'`` plus a diagonal with entries ``1 - v^2``, where
    ``v = exp(-u)``, so that it is positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from skgpmcmc.kernels import Categorical
    >>> soil = np.array([["clay"], ["sand"], ["clay"]])
    >>> Categorical(0)(soil).round(2)
    array([[1. , 0.5, 1. ],
           [0.5, 1. , 0.5],
           [1. , 0.5, 1. ]])
    """

    def __init__(
        self,
        columns: Columns,
        distance: Any = 0.35,
        distance_bounds: tuple[float, float] | str = (1e-5, 1e5),
        feature_names: Sequence[str] | None = None,
        levels: Sequence[Any] | None = None,
    ) -> None:
        self.columns = columns
        self.distance = distance
        self.distance_bounds = distance_bounds
        self.feature_names = feature_names
        self.levels = levels

    @property
    def per_level(self) -> bool:
        """Whether every level has its own distance."""
        return np.size(self.distance) > 1

    @property
    def hyperparameter_distance(self) -> Hyperparameter:
        """The hyper-parameter, as scikit-learn describes it."""
        bounds = self.distance_bounds
        if self.per_level:
            return Hyperparameter("distance", "numeric", bounds, len(self.distance))
        return Hyperparameter("distance", "numeric", bounds)

    def number_levels(self, *tables: Any) -> list[IntArray]:
        """Return the numbers of the levels in some tables, each of shape (n_columns, n).

        Known levels have their positions in `levels`; others have larger numbers, which are the
        same in all tables.
        """
        taken = [take_columns(X, self.columns, self.feature_names) for X in tables]
        n_rows = np.cumsum([len(columns[0]) for columns in taken])[:-1]
        if self.per_level and len(taken[0]) > 1:
            raise ValueError(
                f"Categorical has {np.size(self.distance)} distances and the columns "
                f"{list_columns(self.columns)}: give it one distance, or a single column."
            )
        numbers = [_number_entries(_join(parts), self.levels) for parts in zip(*taken, strict=True)]
        return np.split(np.array(numbers), n_rows, axis=1)

    def similarity(self, distance: FloatArray, numbers: IntArray) -> FloatArray:
        """Return ``exp(-u)`` of rows with these levels; the shape of `numbers`."""
        if len(distance) == 1:
            return np.full(numbers.shape, np.exp(-distance[0]))
        if self.levels is None or len(self.levels) != len(distance):
            found = "no levels" if self.levels is None else f"the levels {list(self.levels)}"
            raise ValueError(
                f"Categorical has {len(distance)} distances and {found} of the column "
                f"{list_columns(self.columns)[0]!r}: give one distance for all levels, or one for "
                "each."
            )
        known = np.exp(-distance)
        return np.append(known, np.mean(known))[np.minimum(numbers, len(distance))]

    def slopes(self, distance: FloatArray, numbers: IntArray) -> FloatArray:
        """Return the derivatives of the log of `similarity` of rows; (n, n_dims).

        They are of one column, with respect to the natural logs of the distances; `numbers` have
        the shape (n,).
        """
        if len(distance) == 1:
            return np.full((len(numbers), 1), -distance[0])
        new = -distance * softmax(-distance)
        return np.vstack([np.diag(-distance), new])[np.minimum(numbers, len(distance))]

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of two sets of rows, and on request its gradient.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        Y : array-like or data frame of shape (m, d), default=None
            Other rows; None is X.
        eval_gradient : bool, default=False
            Also return the derivatives with respect to the natural logs of the distances. Only if
            Y is None.

        Returns
        -------
        K : ndarray of shape (n, m)
            Values.
        K_gradient : ndarray of shape (n, n, n_dims)
            Only with `eval_gradient`.

        Raises
        ------
        ValueError
            If X does not have the columns, or if there are not as many distances as levels.
        """
        if Y is not None and eval_gradient:
            raise ValueError("eval_gradient=True is for one set of rows: leave Y out.")
        tables = self.number_levels(X) if Y is None else self.number_levels(X, Y)
        first = tables[0]
        second = tables[-1]
        distance = np.atleast_1d(np.asarray(self.distance, dtype=float))
        different = find_different(first, second)
        v_first = self.similarity(distance, first)
        v_second = self.similarity(distance, second)
        K = correlation_of_levels(v_first, v_second, different)
        if not eval_gradient:
            return K
        if self.hyperparameter_distance.fixed:
            return K, np.empty((*K.shape, 0))
        gradient = np.zeros((*K.shape, len(distance)))
        for own, differ in zip(first, different, strict=True):
            slopes = self.slopes(distance, own)
            gradient += differ[:, :, None] * (slopes[:, None] + slopes)
        return K, K[:, :, None] * gradient

    def diag(self, X: Any) -> FloatArray:
        """Return the kernel of every row with itself, which is one; (n,)."""
        (numbers,) = self.number_levels(X)
        return np.ones(numbers.shape[1])

    def is_stationary(self) -> bool:
        """Whether only the difference of two rows matters, which is not so."""
        return False

    def __repr__(self) -> str:
        columns = list_columns(self.columns)
        shown = columns if len(columns) > 1 else columns[0]
        if self.per_level:
            distance = "[{}]".format(", ".join(f"{value:.3g}" for value in self.distance))
        else:
            distance = f"{np.ravel(self.distance)[0]:.3g}"
        return f"{type(self).__name__}({shown!r}, distance={distance})"


def correlation_of_levels(
    first: FloatArray, second: FloatArray, different: Sequence[BoolArray]
) -> FloatArray:
    """Return the kernel of rows from the similarities ``exp(-u)`` of their levels; (n, m).

    `first` has the shape (n_columns, n), `second` (n_columns, m). `different` says for each column
    which rows have different levels, (n, m).
    """
    K = np.ones(different[0].shape)
    for own, other, differ in zip(first, second, different, strict=True):
        np.multiply(K, np.multiply.outer(own, other), out=K, where=differ)
    return K


def find_different(first: IntArray, second: IntArray) -> list[BoolArray]:
    """Return for each column which rows have different levels; each of shape (n, m)."""
    return [own[:, None] != other for own, other in zip(first, second, strict=True)]


def sort_levels(column: Any) -> tuple[Any, ...]:
    """Return the sorted levels of a column (n,), as Python's numbers or text."""
    return tuple(np.unique(_without_type(column)).tolist())


def is_text(column: Any) -> bool:
    """Whether a column has text instead of numbers."""
    values = np.asarray(column)
    return values.dtype.kind in "US" or any(isinstance(v, str) for v in values.ravel().tolist())


def _without_type(column: Any) -> np.ndarray:
    """Return a column of numbers as floats, and any other as text."""
    return np.asarray(column, dtype=str if is_text(column) else float)


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the entries of a column of several tables, all text or all numbers."""
    plain = [_without_type(part) for part in parts]
    if len({part.dtype.kind for part in plain}) > 1:
        raise ValueError(
            "Categorical got text in one table and numbers in the other: use the same levels in "
            "both."
        )
    return np.concatenate(plain)


def _number_entries(values: np.ndarray, levels: Sequence[Any] | None) -> IntArray:
    """Return the number of each entry (n,): its position in `levels`, or beyond them."""
    known = np.array([] if levels is None else list(levels))
    if known.dtype.kind == "U" and values.dtype.kind != "U":
        return np.asarray(values, dtype=np.intp)
    distinct, inverse = np.unique(values, return_inverse=True)
    position = {value: k for k, value in enumerate(known.tolist())}
    new = iter(range(len(known), len(known) + len(distinct)))
    numbers = [position[v] if v in position else next(new) for v in distinct.tolist()]
    return np.array(numbers, dtype=np.intp)[inverse]
