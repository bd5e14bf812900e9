"""Training rows as they are given, and as a model has them: by distinct inputs."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, WhiteKernel

from ..hyperposterior.rows import order_farthest_first
from ..likelihoods.base import Likelihood
from ..model.observations import Observations
from ..run.leave_one_out import GivenRows
from ._data import check_weights

#: Inputs with which a kernel is tried.
_N_INPUTS_TRIED = 5
#: Relative difference by which a kernel may round the covariance of equal inputs.
_KERNEL_ROUNDING = 1e-6


class TrainingRows(NamedTuple):
    """Rows with equal inputs follow one another, and those that are equal in all are one.

    The order of inputs and rows does not depend on that in which they are given. Rows of weight
    zero take no part in the model.
    """

    X: np.ndarray  # (n, d), the distinct inputs
    chosen: np.ndarray  # (n_rows,), for each row of the model the position of one that was given
    weight: np.ndarray | None  # (n_rows,), of rows of the model; None is one
    first: np.ndarray | None  # (n,), position of the first row of each input; None is one for each
    row_of: np.ndarray  # (n_given,), position in the model of each given row; -1 for weight zero
    given_weight: np.ndarray  # (n_given,)
    input_of: np.ndarray  # (n_given,), position of each given row's input: in X, then in X_aside
    X_aside: np.ndarray  # (k, d), inputs of rows of weight zero that no other row has

    @classmethod
    def of(
        cls, kernel: Kernel, X: np.ndarray, sample_weight: np.ndarray | None, *columns: np.ndarray
    ) -> Self:
        """Put rows in order.

        Parameters
        ----------
        kernel : Kernel
            Whether rows with equal inputs have one latent value is for it to say.
        X : ndarray of shape (n_given, d)
            Inputs.
        sample_weight : array-like of shape (n_given,), or None
            As the user has given it.
        columns : ndarrays of shape (n_given,) or (n_given, k)
            What tells rows with equal inputs apart, such as the target.

        Raises
        ------
        ValueError
            If a weight is not legal.
        """
        weight = check_weights(sample_weight, len(X))
        weight = np.ones(len(X)) if weight is None else weight
        kept = np.flatnonzero(weight > 0.0)
        own = np.arange(len(X)) if _tells_rows_apart(kernel, X[kept]) else np.zeros(len(X))
        places, place_of = _distinct(np.column_stack([X + 0.0, own]))
        has_rows = np.bincount(place_of[kept], minlength=len(places)) > 0
        inputs = np.flatnonzero(has_rows)
        inputs = inputs[order_farthest_first(places[inputs, :-1])]
        order = np.concatenate([inputs, np.flatnonzero(~has_rows)])
        input_of = np.argsort(order)[place_of]
        of_kept = [np.asarray(values, dtype=float)[kept] for values in columns]
        rows, row_of_kept = _distinct(np.column_stack([input_of[kept], *of_kept]))
        chosen = np.empty(len(rows), dtype=np.intp)
        chosen[row_of_kept[::-1]] = kept[::-1]
        ascending = np.lexsort((weight[kept], row_of_kept))  # sums that no order changes
        row_weight = np.bincount(row_of_kept[ascending], weight[kept][ascending], len(rows))
        row_of = np.full(len(X), -1)
        row_of[kept] = row_of_kept
        first = np.searchsorted(rows[:, 0], np.arange(len(inputs)))
        of_rows = None if np.all(row_weight == 1.0) else row_weight
        of_inputs = None if len(rows) == len(inputs) else first
        X = places[inputs, :-1]
        X_aside = places[~has_rows, :-1]
        return cls(X, chosen, of_rows, of_inputs, row_of, weight, input_of, X_aside)

    def observed(
        self, likelihood: Likelihood, y: np.ndarray, offset: np.ndarray | None = None
    ) -> Observations:
        """Return what a model has of them, for a target (n_rows,) of each of its rows."""
        return Observations(likelihood.of_rows(self.chosen), y, offset, self.weight, self.first)

    @property
    def kept(self) -> np.ndarray:
        """Positions of the given rows that take part."""
        return np.flatnonzero(self.row_of >= 0)

    @property
    def given(self) -> GivenRows:
        """The rows that take part, in the order in which they were given."""
        return GivenRows(self.row_of[self.kept], self.given_weight[self.kept])

    def of_model(self, values: np.ndarray) -> np.ndarray:
        """Return those of the model's rows, for values of all rows that are `kept`."""
        found = np.empty(len(self.chosen), dtype=values.dtype)
        found[self.row_of[self.kept]] = values
        return found


def _distinct(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted distinct rows, and the position of each row among them."""
    rows, inverse = np.unique(table, axis=0, return_inverse=True)
    return rows, inverse.ravel()


def _tells_rows_apart(kernel: Kernel, X: np.ndarray) -> bool:
    """Whether rows with equal inputs have values of their own, as with a `WhiteKernel`."""
    if any(isinstance(part, WhiteKernel) for part in (kernel, *kernel.get_params().values())):
        return True  # however small its variance is now
    some = np.repeat(X[:_N_INPUTS_TRIED], 2, axis=0)
    K = np.asarray(kernel(some))
    return not np.allclose(
        K[::2, 1::2].diagonal(), K.diagonal()[::2], rtol=_KERNEL_ROUNDING, atol=0.0
    )
