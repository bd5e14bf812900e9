"""Roots of covariance matrices that show the rank: K = R R' with as many columns as K has rank.

Covariances of smooth functions are singular in double precision. Only the first columns of their
pivoted Cholesky factor are more than rounding error, and the others are dropped. Jitter would be no
substitute: it adds noise to the model, whose amount relative to K a chain can change by theta.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

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
#: Size of a residual variance, in tolerances, that is no rounding error.
_INDEFINITE_TOLERANCES = 10.0
#: Inputs among which pivots are chosen at once: their matrix is small beside a root of many rows.
_N_CANDIDATES = 1024
#: Least residual variance of pivots chosen at once, as a share of the largest: it bounds rounding.
_LEAST_SHARE_OF_LARGEST = 1e-4
#: Inputs at the beginning whose covariance shows, at a small cost, that K has a large rank.
N_TRIED = 2048


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
        return linalg.tall_gram(self.factor, scale)

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
    if _has_full_rank(K[half, half], _list_tolerances(K.diagonal())[0]):
        return None
    root = _find_pivoted_root(K)
    return root if 2 * root.rank <= n else None


class MatrixByColumns(Protocol):
    """A symmetric matrix, positive semidefinite but for rounding, whose entries are made on demand.

    Attributes
    ----------
    diagonal : ndarray of shape (n,)
    """

    @property
    def diagonal(self) -> FloatArray:
        """The diagonal; (n,)."""

    def square(self, rows: IntArray) -> FloatArray:
        """Return the entries of k rows in the columns of the same rows; (k, k), a new array."""

    def blocks(self, rows: IntArray) -> Iterator[tuple[slice, FloatArray]]:
        """Give the entries of k rows in all columns, by blocks: columns, and (k, m), new arrays."""


def root_by_columns(K: MatrixByColumns, most: int) -> PivotedRoot | None:
    """Return the root of K from few of its columns, or None if it has more than `most` columns.

    The time is O(n r^2) for the rank r, and the memory O(n r). If the first inputs, which should be
    spread over all inputs, show that the rank is larger than `most`, no columns are made.

    Raises
    ------
    NotPositiveDefiniteError
        If K is not finite, or has clearly negative eigenvalues.
    """
    n = len(K.diagonal)
    tolerances = _list_tolerances(K.diagonal)
    if most < min(n, N_TRIED) and _has_full_rank(K.square(np.arange(most + 1)), tolerances[0]):
        return None
    for tolerance in tolerances:
        root = _grow_root(K, tolerance, most)
        if root is None:
            return None
        if _is_complete(root, K.diagonal, tolerance):
            return root
    raise NotPositiveDefiniteError("the matrix has a negative eigenvalue")


def leading_root(K: MatrixByColumns, most: int) -> PivotedRoot:
    """Return the first `most` columns of the root of K, or all if there are fewer.

    Their pivots are inputs that leave little variance at the others.
    """
    root = _grow_root(K, _list_tolerances(K.diagonal)[0], most, cut=True)
    assert root is not None
    return root


def _grow_root(
    K: MatrixByColumns, tolerance: float, most: int, *, cut: bool = False
) -> PivotedRoot | None:
    """Add pivots until no residual variance is above the tolerance.

    With more than `most` columns the result is None, or the first columns for ``cut=True``.

    Several pivots are found at once, among the inputs that have the largest residual variances.
    These pivots are no better than full pivoting only where other inputs have smaller residual
    variances; smaller pivots wait until the other inputs have been compared with them.
    """
    n = len(K.diagonal)
    share = _weigh_by_order(n)
    least = _LAST_PIVOT_WEIGHT * tolerance
    root = PivotedRoot(np.empty((n, 0), order="F"), np.empty(0, dtype=np.intp))
    unexplained = share**2 * K.diagonal
    while unexplained.max() > least and not (cut and root.rank == most):
        candidates = np.argsort(-unexplained, kind="stable")[:_N_CANDIDATES]
        known = root.factor[candidates]
        residual = K.square(candidates) - known @ known.T
        limit = max(_LEAST_SHARE_OF_LARGEST * float(unexplained.max()), least)
        triangle, order = _factor_by_pivots(residual, share[candidates], limit)
        if not len(order):
            break  # what is left are rounding errors
        if root.rank + len(order) > most and not cut:
            return None
        order = order[: most - root.rank]
        chosen = triangle[order, : len(order)]
        root = _add_pivots(K, root, candidates[order], chosen)
        unexplained = share**2 * (K.diagonal - _row_squares(root.factor))
        unexplained[root.pivots] = 0.0
    return root


def _add_pivots(
    K: MatrixByColumns, root: PivotedRoot, chosen: IntArray, triangle: FloatArray
) -> PivotedRoot:
    """Return the root with more pivots, from the factor of their residual matrix."""
    n = len(K.diagonal)
    factor = np.empty((n, root.rank + len(chosen)), order="F")
    factor[:, : root.rank] = root.factor
    added = factor[:, root.rank :]
    known = root.factor[chosen]
    triangle = np.asfortranarray(triangle)
    for columns, entries in K.blocks(chosen):
        residual = np.asfortranarray(entries - known @ root.factor[columns].T)
        added[columns] = linalg.solve_lower(triangle, residual, overwrite=True).T
    added[root.pivots] = 0.0
    added[chosen] = triangle
    linalg.count_root(n, len(chosen))
    return PivotedRoot(factor, np.concatenate([root.pivots, chosen]))


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
        factor = linalg.cholesky(K, least=_list_tolerances(K.diagonal())[0])
        return TriangularRoot(factor, np.arange(len(K)))
    except NotPositiveDefiniteError:
        return _find_pivoted_root(K)


def _find_pivoted_root(K: FloatArray) -> PivotedRoot:
    """Return the root for the smallest tolerance at which K is positive semidefinite."""
    n = len(K)
    share = _weigh_by_order(n)
    for tolerance in _list_tolerances(K.diagonal()):
        factor, order = _factor_by_pivots(K, share, _LAST_PIVOT_WEIGHT * tolerance)
        linalg.count_root(n, len(order))
        root = PivotedRoot(factor, order)
        if _is_complete(root, K.diagonal(), tolerance):
            return root
    raise NotPositiveDefiniteError("the matrix has a negative eigenvalue")


def _weigh_by_order(n: int) -> FloatArray:
    """Return weights of inputs in the choice of pivots, decreasing; (n,).

    The pivot is the input of largest residual variance, while that is above the tolerance. Full
    pivoting keeps the residual small (Higham, 2002, section 10.3), but at a nearby theta different
    inputs may be chosen among many that are equally good. Later inputs therefore have smaller
    weights: if the order of the inputs is spread, the pivots come in nearly the same order at all
    theta, and R v changes little when theta does.
    """
    return np.geomspace(1.0, np.sqrt(_LAST_PIVOT_WEIGHT), n)


def _factor_by_pivots(
    K: FloatArray, share: FloatArray, tolerance: float
) -> tuple[FloatArray, IntArray]:
    """Return R (n, r) with K = R R' up to the tolerance, and its pivots (r,) in their order.

    Residual variances are multiplied by the squares of `share` before they are compared with one
    another and with the tolerance.
    """
    n = len(K)
    scaled = np.multiply(K, share[:, None], order="F")
    scaled *= share
    factor, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=tolerance, overwrite_a=1)
    root = np.empty((n, rank), order="F")
    root[order - 1] = np.tril(factor[:, :rank])
    root /= share[:, None]
    return root, order[:rank] - 1


def _has_full_rank(K: FloatArray, tolerance: float) -> bool:
    """Whether no pivot is below the tolerance, in the order of the rows."""
    factor, info = lapack.dpotrf(K, lower=1)
    full = info == 0 and factor.diagonal().min() ** 2 > tolerance
    if full:
        linalg.count_root(len(factor), len(factor))
    return bool(full)


def _row_squares(A: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", A, A))


def _is_complete(root: PivotedRoot, diagonal: FloatArray, tolerance: float) -> bool:
    """Whether residual variances are about zero."""
    residual = diagonal - _row_squares(root.factor)
    return bool(np.abs(residual).max() < _INDEFINITE_TOLERANCES * tolerance)


def _list_tolerances(diagonal: FloatArray) -> list[float]:
    """Return residual variances that may consist of rounding errors alone, ascending.

    The largest variance must be positive and finite.
    """
    largest = float(diagonal.max())
    if not 0.0 < largest < np.inf:
        raise NotPositiveDefiniteError(f"the largest variance is {largest}")
    finest = max(_RANK_TOLERANCE, len(diagonal) * float(np.finfo(float).eps))
    return [share * largest for share in (finest, *_ROUGHER_TOLERANCES)]
