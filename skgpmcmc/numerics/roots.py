"""Roots of covariance matrices that show the rank: K = R R' with as many columns as K has rank.

Smooth covariances are singular in double precision. Of their Cholesky factors rounding leaves only
the first columns; what is left over is dropped here, as no jitter could be: a chain can buy noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import lapack, qr

from .._typing import FloatArray, IntArray
from . import linalg
from .linalg import NotPositiveDefiniteError

#: Variance that is left out, in units of the largest, and what it is where a kernel rounds by more.
_RANK_TOLERANCE = 1e-12
_ROUGHER = (1e-9, 1e-6)
#: How much less the variance of the last input counts than that of the first, as a pivot.
_LAST = 0.1
#: With fewer rows a root of low rank does not save time.
_FEWEST_ROWS_OF_LOW_RANK = 400
#: A negative variance of so many tolerances is no rounding error.
_INDEFINITE_TOLERANCES = 10.0


@dataclass(frozen=True, eq=False)
class PivotedRoot:
    """R with K = R R'. Its pivots are rows of which all others are combinations.

    Attributes
    ----------
    factor : ndarray of shape (n, r)
        R, in Fortran order.
    pivots : ndarray of int of shape (r,)
        The rows that determine all others, in the order of the columns.
    """

    factor: FloatArray
    pivots: IntArray

    @property
    def rank(self) -> int:
        """Number of columns r."""
        return len(self.pivots)

    @property
    def triangle(self) -> FloatArray:
        """R_P, the rows of the pivots: lower triangular; (r, r), Fortran order."""
        return np.asfortranarray(self.factor[self.pivots])

    def apply(self, v: FloatArray) -> FloatArray:
        """``f = R v`` for v of shape (r,) or (r, m)."""
        return linalg.product(self.factor, v)

    def apply_transpose(self, x: FloatArray) -> FloatArray:
        """``R' x`` for x of shape (n,) or (n, m)."""
        return linalg.product(self.factor.T, x)

    def solve(self, f: FloatArray) -> FloatArray:
        """``v`` with R v = f, for f of shape (n,) or (n, m) in the range of R."""
        return linalg.solve_lower(self.triangle, np.asfortranarray(f[self.pivots]))

    def gram(self, scale: FloatArray) -> FloatArray:
        """Lower triangle of ``R' S^2 R`` for a diagonal S, `scale` (n,), in Fortran order."""
        return linalg.tall_gram(self.factor * scale[:, None])

    def precision_root(self, root_mass: FloatArray) -> FloatArray:
        """Lower factor of ``R' M R`` for M = H H', `root_mass` being H (n, n), or its diagonal.

        By orthogonal transformations of H'R, as the product would square its condition.
        """
        if root_mass.ndim == 1:
            scaled = self.factor * root_mass[:, None]
        else:
            scaled = linalg.product(root_mass.T, self.factor)
        (upper,) = qr(scaled, mode="r", overwrite_a=True, check_finite=False)
        lower = upper[: self.rank].T
        return np.asfortranarray(lower * np.sign(lower.diagonal()))


class TriangularRoot(PivotedRoot):
    """The Cholesky factor of a K of full rank: all rows are pivots, in their order."""

    @classmethod
    def of(cls, factor: FloatArray) -> Self:
        """Return the root for a lower Cholesky factor."""
        return cls(factor, np.arange(len(factor)))

    @property
    def triangle(self) -> FloatArray:
        """R itself."""
        return self.factor

    def apply(self, v: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.lower_product(self.factor, v)

    def apply_transpose(self, x: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        if x.ndim == 1:
            return linalg.transposed_lower_product(self.factor, x)
        return linalg.product(self.factor.T, x)

    def solve(self, f: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.solve_lower(self.factor, f)

    def gram(self, scale: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.lower_gram(np.multiply(self.factor, scale[:, None], order="F"))


def low_rank_root(K: FloatArray) -> PivotedRoot | None:
    """Return the root of K if it has at most half as many columns as rows, else None.

    With few rows it does not try; nor where the first half of the inputs, which should be spread
    over all, have no values that others of them determine.
    """
    n = len(K)
    if n < _FEWEST_ROWS_OF_LOW_RANK:
        return None
    half = slice(n // 2 + 1)
    factor, info = lapack.dpotrf(K[half, half], lower=1)
    if info == 0 and factor.diagonal().min() ** 2 > _tolerance(K):
        linalg.count_root(len(factor), len(factor))
        return None
    root = _root(K)
    return root if 2 * root.rank <= n else None


def full_root(K: FloatArray) -> PivotedRoot:
    """Return the root of K, its Cholesky factor where that has no pivot below the tolerance.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric and, but for rounding, positive semidefinite.

    Raises
    ------
    NotPositiveDefiniteError
        If K is not finite, or has clearly negative eigenvalues.
    """
    try:
        return TriangularRoot.of(linalg.cholesky(K, least=_tolerance(K)))
    except NotPositiveDefiniteError:
        return _root(K)


def _root(K: FloatArray) -> PivotedRoot:
    """Return the root by the least tolerance at which K is positive semidefinite."""
    for tolerance in (_tolerance(K), *(share * _largest(K) for share in _ROUGHER)):
        root = _factor_with_pivots(K, tolerance)
        left = K.diagonal() - np.einsum("ij,ij->i", root.factor, root.factor)
        if left.min() > -_INDEFINITE_TOLERANCES * tolerance:
            return root
    raise NotPositiveDefiniteError("the matrix has a negative eigenvalue")


def _tolerance(K: FloatArray) -> float:
    """Variance below which rounding determines what is left of one."""
    return max(_RANK_TOLERANCE, len(K) * float(np.finfo(float).eps)) * _largest(K)


def _largest(K: FloatArray) -> float:
    largest = float(K.diagonal().max())
    if not 0.0 < largest < np.inf:
        raise NotPositiveDefiniteError(f"the largest variance is {largest}")
    return largest


def _factor_with_pivots(K: FloatArray, tolerance: float) -> PivotedRoot:
    """Factor K by the input with the most variance left, as long as that is above the tolerance.

    Full pivoting keeps errors of what is left small (Higham, 2002, section 10.3), but at theta
    nearby it may choose other inputs of many that are as good. Inputs therefore count less the
    later they are: where their order is spread, pivots come in nearly the same order at all theta,
    and R v changes little when theta does.
    """
    n = len(K)
    share = np.geomspace(1.0, np.sqrt(_LAST), n)
    scaled = np.multiply(K, share[:, None], order="F")
    scaled *= share
    factor, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=_LAST * tolerance, overwrite_a=1)
    linalg.count_root(n, rank)
    root = np.empty((n, rank), order="F")
    root[order - 1] = np.tril(factor[:, :rank])
    root /= share[:, None]
    return PivotedRoot(root, order[:rank] - 1)
