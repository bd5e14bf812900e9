"""Roots of covariance matrices that show the rank: K = R R' with as many columns as K has rank.

Covariances of smooth functions are singular in double precision. Only the first columns of their
pivoted Cholesky factor are more than rounding error, and the others are dropped. Jitter would be no
substitute: it adds noise to the model, whose amount relative to K a chain can change by theta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, qr

from .._typing import FloatArray, IntArray
from . import linalg
from .linalg import NotPositiveDefiniteError

#: Residual variance that counts as zero, in units of the largest variance.
_RANK_TOLERANCE = 1e-12
#: Further tolerances in this unit, tried for kernels with larger rounding errors.
_ROUGHER_TOLERANCES = (1e-9, 1e-6)
#: Weight of the last input's variance in the choice of pivots, relative to that of the first.
_LAST_PIVOT_WEIGHT = 0.1
#: Fewest rows for which a root of low rank saves time.
_FEWEST_ROWS_OF_LOW_RANK = 400
#: Size of a negative residual variance, in tolerances, that is no rounding error.
_INDEFINITE_TOLERANCES = 10.0


@dataclass(frozen=True, eq=False)
class PivotedRoot:
    """R with K = R R'. All rows of R are linear combinations of some of them, the pivots.

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
        """Return v with R v = f, for f of shape (n,) or (n, m) in the range of R."""
        return linalg.solve_lower(self.triangle, np.asfortranarray(f[self.pivots]))

    def gram(self, scale: FloatArray) -> FloatArray:
        """Lower triangle of ``R' S^2 R`` for a diagonal S, `scale` (n,), in Fortran order."""
        return linalg.tall_gram(self.factor * scale[:, None])

    def precision_root(self, root_mass: FloatArray) -> FloatArray:
        """Lower factor of ``R' M R`` for M = H H', `root_mass` being H (n, n), or its diagonal.

        Orthogonal transformations of H'R avoid the product, whose condition number is a square.
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
            return linalg.lower_product(self.factor, x, transpose=True)
        return linalg.product(self.factor.T, x)

    def solve(self, f: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.solve_lower(self.factor, f)

    def gram(self, scale: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.lower_gram(np.multiply(self.factor, scale[:, None], order="F"))


def low_rank_root(K: FloatArray) -> PivotedRoot | None:
    """Return the root of K if it has at most half as many columns as rows, else None.

    K is not tried if it has few rows, nor if the first half of the inputs, which should be spread
    over all inputs, has a covariance of full rank.
    """
    n = len(K)
    if n < _FEWEST_ROWS_OF_LOW_RANK:
        return None
    half = slice(n // 2 + 1)
    factor, info = lapack.dpotrf(K[half, half], lower=1)
    if info == 0 and factor.diagonal().min() ** 2 > _find_tolerance(K):
        linalg.count_root(len(factor), len(factor))
        return None
    root = _find_pivoted_root(K)
    return root if 2 * root.rank <= n else None


def full_root(K: FloatArray) -> PivotedRoot:
    """Return the root of K: its Cholesky factor, unless a pivot is below the tolerance.

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
        factor = linalg.cholesky(K, least=_find_tolerance(K))
        return TriangularRoot(factor, np.arange(len(K)))
    except NotPositiveDefiniteError:
        return _find_pivoted_root(K)


def _find_pivoted_root(K: FloatArray) -> PivotedRoot:
    """Return the root for the smallest tolerance at which K is positive semidefinite.

    The pivot is the input of largest residual variance, while that is above the tolerance. Full
    pivoting keeps the residual small (Higham, 2002, section 10.3), but at a nearby theta different
    inputs may be chosen among many that are equally good. Later inputs therefore have smaller
    weights: if the order of the inputs is spread, the pivots come in nearly the same order at all
    theta, and R v changes little when theta does.
    """
    n = len(K)
    share = np.geomspace(1.0, np.sqrt(_LAST_PIVOT_WEIGHT), n)
    rougher = [own * float(K.diagonal().max()) for own in _ROUGHER_TOLERANCES]
    for tolerance in [_find_tolerance(K), *rougher]:
        scaled = np.multiply(K, share[:, None], order="F")
        scaled *= share
        factor, order, rank, _ = lapack.dpstrf(
            scaled, lower=1, tol=_LAST_PIVOT_WEIGHT * tolerance, overwrite_a=1
        )
        linalg.count_root(n, rank)
        root = np.empty((n, rank), order="F")
        root[order - 1] = np.tril(factor[:, :rank])
        root /= share[:, None]
        residual = K.diagonal() - np.einsum("ij,ij->i", root, root)
        if residual.min() > -_INDEFINITE_TOLERANCES * tolerance:
            return PivotedRoot(root, order[:rank] - 1)
    raise NotPositiveDefiniteError("the matrix has a negative eigenvalue")


def _find_tolerance(K: FloatArray) -> float:
    """Return the residual variance that may consist of rounding errors alone.

    The largest variance must be positive and finite.
    """
    largest = float(K.diagonal().max())
    if not 0.0 < largest < np.inf:
        raise NotPositiveDefiniteError(f"the largest variance is {largest}")
    return max(_RANK_TOLERANCE, len(K) * float(np.finfo(float).eps)) * largest
