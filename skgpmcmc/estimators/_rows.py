"""The training rows in the order of the user, and in that of a model: by distinct inputs."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel

from ..hyperposterior.rows import order_farthest_first
from ..model.parts import has_part
from ..run.leave_one_out import GivenRows
from ._data import check_weights

#: Inputs at which it is tested whether a kernel tells equal inputs apart.
_N_INPUTS_TRIED = 5
#: Relative difference by which a kernel may round the covariance of equal inputs.
_KERNEL_ROUNDING = 1e-6


class TrainingRows(NamedTuple):
    """The rows of a model: those with equal inputs are adjacent, and equal rows are merged.

    The order of inputs and rows does not depend on the order of the given rows. Rows of weight zero
    take no part in the model.
    """

    X: np.ndarray  # (n, d), the distinct inputs
    chosen: np.ndarray  # (n_rows,), position of one given row for each row of the model
    weight: np.ndarray | None  # (n_rows,), weights of the model's rows; None if all are one
    first: np.ndarray | None  # (n,), each input's first row; None if every input has one row
    row_of: np.ndarray  # (n_given,), position in the model of each given row; -1 for weight zero
    given_weight: np.ndarray  # (n_given,), weights of the given rows
    input_of: np.ndarray  # (n_given,), position of each given row's input in X, then in X_aside
    X_aside: np.ndarray  # (k, d), inputs that only rows of weight zero have

    @classmethod
    def of(
        cls, kernel: Kernel, X: np.ndarray, sample_weight: np.ndarray | None, *columns: np.ndarray
    ) -> Self:
        """Put rows in order.

        Parameters
        ----------
        kernel : Kernel
            The kernel, which may have a latent value for each row instead of for each input.
        X : ndarray of shape (n_given, d)
            Inputs.
        sample_weight : array-like of shape (n_given,), or None
            The argument of `fit`.
        *columns : ndarrays of shape (n_given,) or (n_given, k)
            The other data of the rows, such as the target; rows that differ there are not merged.

        Raises
        ------
        ValueError
            If a weight is not legal.
        """
        weight = check_weights(sample_weight, len(X))
        weight = np.ones(len(X)) if weight is None else weight
        kept = np.flatnonzero(weight > 0.0)
        own = np.arange(len(X)) if _tells_rows_apart(kernel, X[kept]) else np.zeros(len(X))
        places, place_of = _find_unique_rows(np.column_stack([X + 0.0, own]))
        has_rows = np.bincount(place_of[kept], minlength=len(places)) > 0
        inputs = np.flatnonzero(has_rows)
        inputs = inputs[order_farthest_first(places[inputs, :-1])]
        order = np.concatenate([inputs, np.flatnonzero(~has_rows)])
        input_of = np.argsort(order)[place_of]
        of_kept = [np.asarray(values, dtype=float)[kept] for values in columns]
        rows, row_of_kept = _find_unique_rows(np.column_stack([input_of[kept], *of_kept]))
        chosen = np.empty(len(rows), dtype=np.intp)
        chosen[row_of_kept[::-1]] = kept[::-1]
        # Sums in the order of the weights do not depend on the order of the rows, even by rounding.
        ascending = np.lexsort((weight[kept], row_of_kept))
        row_weight = np.bincount(row_of_kept[ascending], weight[kept][ascending], len(rows))
        row_of = np.full(len(X), -1)
        row_of[kept] = row_of_kept
        first = np.searchsorted(rows[:, 0], np.arange(len(inputs)))
        of_rows = None if np.all(row_weight == 1.0) else row_weight
        of_inputs = None if len(rows) == len(inputs) else first
        X = places[inputs, :-1]
        X_aside = places[~has_rows, :-1]
        return cls(X, chosen, of_rows, of_inputs, row_of, weight, input_of, X_aside)

    @property
    def kept(self) -> np.ndarray:
        """Positions of the given rows that take part in the model."""
        return np.flatnonzero(self.row_of >= 0)

    @property
    def given(self) -> GivenRows:
        """The rows that take part, in the order in which they were given."""
        return GivenRows(self.row_of[self.kept], self.given_weight[self.kept])

    def select_for_model(self, values: np.ndarray) -> np.ndarray:
        """Return values of the model's rows, given those of all rows that are `kept`."""
        of_rows = np.empty(len(self.chosen), dtype=values.dtype)
        of_rows[self.row_of[self.kept]] = values
        return of_rows


def _find_unique_rows(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct rows, and the position of each row among them."""
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return rows, inverse.ravel()


def _tells_rows_apart(kernel: Kernel, X: np.ndarray) -> bool:
    """Whether rows with equal inputs have different latent values, as with a `WhiteKernel`."""
    if has_part(kernel, WhiteKernel):
        return True  # whatever its present variance
    some = np.repeat(X[:_N_INPUTS_TRIED], 2, axis=0)
    K = np.asarray(kernel(some))
    return not np.allclose(
        K[::2, 1::2].diagonal(), K.diagonal()[::2], rtol=_KERNEL_ROUNDING, atol=0.0
    )
