"""Roots of covariance matrices that show the rank: K = R R' with as many columns as K has rank.

Smooth covariances are singular in double precision. Of their Cholesky factors rounding leaves only
the first columns; what is left over is dropped here, as no jitter could be: a chain can buy noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg import blas, lapack, qr

from .._typing import FloatArray, IntArray
from . import linalg
from .linalg import NotPositiveDefiniteError

#: Variance that a column must still have, in units of the largest at the beginning, in each pass.
_PASSES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
#: With fewer rows calls take longer than what is done to matrices.
_FEWEST_ROWS = 400
#: Columns that are chosen at once.
_BLOCK = 32
#: A variance below minus this share of the largest is no rounding error.
_INDEFINITE = 1e-6


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

    def pull(self, x: FloatArray) -> FloatArray:
        """``R' x`` for x of shape (n,) or (n, m)."""
        return linalg.product(self.factor.T, x)

    def undo(self, f: FloatArray) -> FloatArray:
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

    def pull(self, x: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        if x.ndim == 1:
            return linalg.transposed_lower_product(self.factor, x)
        return linalg.product(self.factor.T, x)

    def undo(self, f: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.solve_lower(self.factor, f)

    def gram(self, scale: FloatArray) -> FloatArray:
        """See `PivotedRoot`."""
        return linalg.lower_gram(np.multiply(self.factor, scale[:, None], order="F"))


def low_rank_root(K: FloatArray) -> PivotedRoot | None:
    """Return the root of K if it has at most half as many columns as rows, else None.

    It gives up early, where a pass takes more than its share of these columns: the first one two
    sevenths, as it takes the most, and every other one a seventh. It does not begin with few rows.
    """
    n = len(K)
    if n < _FEWEST_ROWS:
        return None
    limits = [n * share // 14 for share in range(2, 2 + len(_PASSES))]
    first = slice(limits[0] + 1)
    factor, info = lapack.dpotrf(K[first, first], lower=1)
    if info == 0 and factor.diagonal().min() ** 2 > _PASSES[0] * _largest(K):
        return None  # the first pass would take all of these
    return _pivoted(K, limits)


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
        return TriangularRoot.of(linalg.cholesky(K, least=_tolerance(K) * _largest(K)))
    except NotPositiveDefiniteError:
        root = _pivoted(K, (len(K),) * len(_PASSES))
    assert root is not None  # no rank exceeds the number of rows
    return root


def _tolerance(K: FloatArray) -> float:
    """Share of the largest variance below which rounding determines what is left of one."""
    return max(_PASSES[-1], len(K) * float(np.finfo(float).eps))


def _largest(K: FloatArray) -> float:
    largest = float(K.diagonal().max())
    if not 0.0 < largest < np.inf:
        raise NotPositiveDefiniteError(f"the largest variance is {largest}")
    return largest


def _pivoted(K: FloatArray, limits: Sequence[int]) -> PivotedRoot | None:
    """Factor K by its columns in their order, as long as they have enough variance left.

    Passes with falling thresholds keep the errors of what is left small, as full pivoting would
    (Higham, 2002, section 10.3); unlike that, they let the columns follow one another in nearly
    the same order at all theta, and so R v change little when theta does.

    Returns None as soon as there are more columns than the `limits` of a pass allow.
    """
    n, largest = len(K), _largest(K)
    factor, rank = np.empty((n, limits[-1]), order="F"), 0
    pivots = np.empty(limits[-1], dtype=np.intp)
    left = K.diagonal().copy()  # variances given the pivots so far
    for share, limit in zip((*_PASSES[:-1], _tolerance(K)), limits, strict=True):
        threshold, begin = share * largest, 0
        while len(waiting := begin + np.flatnonzero(left[begin:] > threshold)):
            block = waiting[: min(_BLOCK, limit + 1 - rank)]
            begin = int(block[-1]) + 1
            before = factor[:, :rank]
            known = before[block]
            square = K[block[:, None], block] - known @ known.T
            chosen, triangle = _chosen(square, threshold)
            if rank + len(chosen) > limit:
                return None
            new, end = block[chosen], rank + len(chosen)
            panel = K.T[new].T  # K is symmetric; columns in Fortran order
            panel -= linalg.product(before, known[chosen].T)
            panel = blas.dtrsm(1.0, triangle, panel, side=1, lower=1, trans_a=1, overwrite_b=1)
            pivots[rank:end] = new
            panel[pivots[:rank]] = 0.0  # where rounding has left something
            panel[new] = triangle
            left -= np.einsum("ij,ij->i", panel, panel)
            left[new] = 0.0
            factor[:, rank:end], rank = panel, end
    if not left.min() > -_INDEFINITE * largest:
        raise NotPositiveDefiniteError("the matrix has a negative eigenvalue")
    return PivotedRoot(factor[:, :rank], pivots[:rank])


def _chosen(square: FloatArray, threshold: float) -> tuple[IntArray, FloatArray]:
    """Choose rows of a small matrix whose variance given those before exceeds a threshold.

    Returns their positions, and the lower Cholesky factor of their square.
    """
    rows = np.arange(len(square))
    while True:
        factor, info = lapack.dpotrf(square[rows[:, None], rows], lower=1, clean=1)
        n_factored = info - 1 if info > 0 else len(rows)
        low = factor.diagonal()[:n_factored] ** 2 <= threshold
        count = int(np.argmax(low)) if low.any() else n_factored
        if count == len(rows):
            return rows, factor
        first, others = rows[:count], rows[count + 1 :]  # without the row that has failed
        left = square.diagonal()[others]
        if count and len(others):
            half, _ = lapack.dtrtrs(factor[:count, :count], square[first[:, None], others], lower=1)
            left = left - np.einsum("ij,ij->j", half, half)
        rows = np.concatenate([first, others[left > threshold]])
