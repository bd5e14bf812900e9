"""The similarity of fingerprints."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .._typing import FloatArray


class Tanimoto(Kernel):  # type: ignore[misc]  # scikit-learn has no types
    """Similarity of fingerprints: what two have in common, as a share of what either has.

    ``k(x, x') = x . x' / (|x|^2 + |x'|^2 - x . x')`` for rows without negative entries, such as the
    bits or counts of a molecular fingerprint; of two rows of zeros it is 1. For bits this is the
    number of bits that both rows have, divided by the number that at least one has (Jaccard's
    index). The kernel has no hyper-parameters: multiply it by a `ConstantKernel`. Features must not
    be standardized.

    References
    ----------
    Ralaivola, Swamidass, Saigo & Baldi (2005), Graph kernels for chemical informatics, Neural
    Networks 18, section 4.1.

    Examples
    --------
    >>> from skgpmcmc.kernels import Tanimoto
    >>> Tanimoto()([[1, 1, 0, 0]], [[1, 0, 1, 0], [1, 1, 0, 0]])
    array([[0.33333333, 1.        ]])
    """

    def __init__(self) -> None:
        """Make the kernel; scikit-learn asks for this signature."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel of two sets of rows, and on request its gradient.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows without negative entries.
        Y : array-like of shape (m, d), default=None
            Other rows; None is X.
        eval_gradient : bool, default=False
            Also return the gradient, which has no entries. Only if Y is None.

        Returns
        -------
        K : ndarray of shape (n, m)
            Values.
        K_gradient : ndarray of shape (n, n, 0)
            Only with `eval_gradient`.

        Raises
        ------
        ValueError
            If an entry is negative.
        """
        if Y is not None and eval_gradient:
            raise ValueError("eval_gradient=True is for one set of rows: leave Y out.")
        first = _check_not_negative(X)
        second = first if Y is None else _check_not_negative(Y)
        common = first @ second.T
        either = np.sum(first**2, axis=1)[:, None] + np.sum(second**2, axis=1) - common
        K = np.where(either > 0.0, common / np.where(either > 0.0, either, 1.0), 1.0)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X: Any) -> FloatArray:
        """Return the kernel of every row with itself, which is one; (n,)."""
        return np.ones(len(_check_not_negative(X)))

    def is_stationary(self) -> bool:
        """Whether only the difference of two rows matters, which is not so."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _check_not_negative(X: Any) -> FloatArray:
    rows = np.atleast_2d(np.asarray(X, dtype=float))
    if np.any(rows < 0.0):
        row, column = np.argwhere(rows < 0.0)[0]
        raise ValueError(
            "Tanimoto compares bits or counts, which are not negative; got "
            f"{rows[row, column]:g} in row {row} of column {column}. Leave fingerprints as they "
            "are, without a StandardScaler."
        )
    return rows
