"""The rank of a covariance matrix, which decides how many rows a fit can have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_array

from .._params import check_integer
from .._typing import FloatArray, IntArray
from ..numerics.linalg import split_entries
from ..numerics.roots import root_by_columns


def effective_rank(kernel: Kernel, X: Any, *, max_rank: int = 4000) -> int | None:
    """Return the rank of the covariance matrix of some inputs in double precision.

    With more than 2000 distinct inputs and a rank r, the time of a fit is of order n r^2, and its
    memory of order n r, if r is small. The rank depends on the length-scales: ``model.kernel_`` of
    a fitted estimator has plausible ones. It is larger for shorter length-scales, more columns and
    rougher kernels.

    Parameters
    ----------
    kernel : Kernel
        A kernel with its present values.
    X : array-like of shape (n, d)
        Inputs, in the units of the fit.
    max_rank : int, default=4000
        Largest rank that is tried: time is of order n times its square, memory n times itself.

    Returns
    -------
    int or None
        Columns of a root R with K = R R', up to 1e-12 of the largest variance, or n times the
        rounding error if this is more. None if there are more than `max_rank`.

    Raises
    ------
    NotPositiveDefiniteError
        If the kernel is no covariance function.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, Matern
    >>> from skgpmcmc.kernels import effective_rank
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> effective_rank(RBF(0.5), X) < 100
    True
    >>> print(effective_rank(Matern(0.5, nu=1.5), X, max_rank=500))
    None
    """
    check_integer("max_rank", max_rank, 1)
    X = check_array(X, dtype=float)
    root = root_by_columns(_KernelMatrix(kernel, X), min(max_rank, len(X)))
    return None if root is None else root.rank


@dataclass(frozen=True, eq=False)
class _KernelMatrix:
    """The matrix of a kernel by columns; see `MatrixByColumns`."""

    kernel: Kernel
    X: FloatArray

    @property
    def diagonal(self) -> FloatArray:
        diagonal: FloatArray = self.kernel.diag(self.X)
        return diagonal

    def square(self, rows: IntArray) -> FloatArray:
        square: FloatArray = self.kernel(self.X[rows])
        return square

    def blocks(self, rows: IntArray) -> Iterator[tuple[slice, FloatArray]]:
        for columns in split_entries(len(self.X), len(rows)):
            yield columns, self.kernel(self.X[rows], self.X[columns])
