"""A kernel of some of the columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from .._typing import FloatArray
from .columns import Columns, OfColumns, list_columns, take_columns


class On(OfColumns, Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """A kernel of some of the columns of X, which ignores all others.

    ``k(x, x') = kernel(x[columns], x'[columns])``. Sums and products of such kernels make additive
    models, models of space and time, and interactions. A kernel with one length-scale per feature
    has one for each of `columns`.

    Parameters
    ----------
    kernel : Kernel
        Any kernel. Its hyper-parameters have the prefix ``kernel__``.
    columns : int, str, or sequence of these
        Positions from 0, or names if X is a data frame.
    feature_names : sequence of str or None, default=None
        Names of all columns of X, for names in `columns` if X is an array. The estimators of this
        package put those of the training data in the place of None.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from skgpmcmc.kernels import On
    >>> space_and_time = On(RBF([1.0, 1.0]), [0, 1]) + On(RBF(5.0), 2)
    >>> space_and_time(np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 5.0]])).round(2)
    array([[2.  , 1.61],
           [1.61, 2.  ]])
    >>> space_and_time
    On(RBF(length_scale=[1, 1]), [0, 1]) + On(RBF(length_scale=5), 2)
    """

    def __init__(
        self, kernel: Kernel, columns: Columns, feature_names: Sequence[str] | None = None
    ) -> None:
        self.kernel = kernel
        self.columns = columns
        self.feature_names = feature_names

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, and with `deep` those of the kernel with the prefix ``kernel__``.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the parameters of the kernel.

        Returns
        -------
        dict
            Values by name.
        """
        params = super().get_params(deep=False)
        if deep:
            own = self.kernel.get_params().items()
            params.update((f"kernel__{name}", value) for name, value in own)
        return params

    @property
    def hyperparameters(self) -> list[Hyperparameter]:
        """The hyper-parameters of the kernel, as scikit-learn describes them."""
        return [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> FloatArray:
        """Natural logs of the hyper-parameters that are not fixed."""
        return np.asarray(self.kernel.theta)

    @theta.setter
    def theta(self, theta: FloatArray) -> None:
        self.kernel.theta = theta

    @property
    def bounds(self) -> FloatArray:
        """Natural logs of the bounds of these hyper-parameters."""
        return np.asarray(self.kernel.bounds)

    def select(self, X: Any) -> FloatArray:
        """Return the columns of X (n, d) that the kernel sees."""
        own = take_columns(X, self.columns, self.feature_names)
        return np.column_stack([np.asarray(column, dtype=float) for column in own])

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of two sets of rows, and on request its gradient.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            Rows.
        Y : array-like or data frame of shape (m, d), default=None
            Other rows; None is X.
        eval_gradient : bool, default=False
            Also return the derivatives with respect to the natural logs of the hyper-parameters.
            Only if Y is None.

        Returns
        -------
        K : ndarray of shape (n, m)
            Values.
        K_gradient : ndarray of shape (n, n, n_dims)
            Only with `eval_gradient`.

        Raises
        ------
        ValueError
            If X does not have the columns.
        """
        other = None if Y is None else self.select(Y)
        return self.kernel(self.select(X), other, eval_gradient=eval_gradient)

    def diag(self, X: Any) -> FloatArray:
        """Return the kernel of every row with itself, without the others; (n,)."""
        return np.asarray(self.kernel.diag(self.select(X)))

    def is_stationary(self) -> bool:
        """Whether only the difference of two rows matters."""
        return bool(self.kernel.is_stationary())

    def __repr__(self) -> str:
        columns = list_columns(self.columns)
        shown = columns if len(columns) > 1 else columns[0]
        return f"{type(self).__name__}({self.kernel!r}, {shown!r})"
