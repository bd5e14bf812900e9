"""Dense linear algebra without copies, a counter of the O(n^3) operations, and sums of logs.

All factorizations, triangular solves, inverses and large products are in this file, so that the
work of a sampler can be counted. A factorization, its derivative or an inverse of an m x m matrix
counts as m^3, a product of matrices of shapes (k, m) and (m, l), or a triangular solve, as k m l.
In units of n^3, see `OperationCount.per`, a factorization of an n x n matrix is one operation.

Python notices an interrupt between two calls of a LAPACK routine, never within one: SciPy's
wrappers hold the interpreter's lock. An operation that would take many seconds is therefore split
into several calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import blas, eigh, lapack

from .._typing import FloatArray

#: Logarithm of 2 pi, of the constant of normal densities.
LOG_TWO_PI = float(np.log(2.0 * np.pi))
#: Columns that a blocked routine handles at a time.
_COLUMNS_PER_BLOCK = 64
#: Rows of a matrix at which a recursion by halves ends in a closed form.
_CLOSED_FORM_SIZE = 32
#: Rows of the largest matrix that fits into the processor's cache.
_SIZE_IN_CACHE = 256
#: Most multiplications of one call, which take half a second to a second.
_MULTIPLICATIONS_PER_CALL = 2**33
#: Most entries of a block of a matrix with many rows: 32 MB, which is little memory.
_ENTRIES_PER_BLOCK = 2**22
#: Fewest columns of a piece: products of fewer are slow.
_LEAST_COLUMNS = 96


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A matrix that must be positive definite has no Cholesky factor in double precision."""


@dataclass
class OperationCount:
    """Number of multiplications in O(n^3) operations, by kind."""

    cholesky: float = 0.0
    inverse: float = 0.0
    product: float = 0.0
    triangular_solve: float = 0.0
    cholesky_derivative: float = 0.0

    @property
    def total(self) -> float:
        """Sum over the kinds."""
        return float(sum(vars(self).values()))

    def per(self, n: int) -> OperationCount:
        """Return the counts in units of n^3, the cost of a factorization of an n x n matrix."""
        return OperationCount(*(own / float(n) ** 3 for own in vars(self).values()))

    def add(self, other: OperationCount) -> None:
        """Add another count to this one."""
        for kind, number in vars(other).items():
            setattr(self, kind, getattr(self, kind) + number)


_active_count: ContextVar[OperationCount] = ContextVar("active_count")
#: Receives the operations outside of any `count_operations`; nobody reads it.
_UNCOUNTED = OperationCount()


@contextmanager
def count_operations() -> Iterator[OperationCount]:
    """Count the operations of the enclosed block; an enclosing count receives them too.

    Yields
    ------
    OperationCount
        The count, which grows while the block runs.
    """
    count = OperationCount()
    token = _active_count.set(count)
    try:
        yield count
    finally:
        _active_count.reset(token)
        _active_count.get(_UNCOUNTED).add(count)


def count_root(n: int, rank: int) -> None:
    """Count the computation of a root with `rank` columns of an n x n matrix."""
    _active_count.get(_UNCOUNTED).cholesky += float(n * rank**2)


def _split_columns(n_columns: int, work: int) -> list[slice]:
    """Split columns into pieces, one per call; a column takes `work` multiplications."""
    width = max(_LEAST_COLUMNS, _MULTIPLICATIONS_PER_CALL // max(work, 1))
    return [slice(i, min(i + width, n_columns)) for i in range(0, n_columns, width)]


def split_entries(n: int, width: int) -> list[slice]:
    """Split n rows of some width into blocks that take little memory beside all n rows."""
    size = max(_ENTRIES_PER_BLOCK // max(width, 1), _LEAST_COLUMNS)
    return [slice(i, min(i + size, n)) for i in range(0, n, size)]


def _is_long(B: FloatArray, work: int) -> bool:
    """Whether an operation on B, with `work` multiplications per entry, takes several calls."""
    return B.size > max(_LEAST_COLUMNS * len(B), _MULTIPLICATIONS_PER_CALL // max(work, 1))


def _apply_by_columns(
    function: Callable[[FloatArray, FloatArray], FloatArray],
    A: FloatArray,
    B: FloatArray,
    *,
    overwrite: bool = False,
) -> FloatArray:
    """Return ``function(A, B)``, a product or a solution, by pieces of the columns of B."""
    in_place = overwrite and B.flags.f_contiguous
    out = B if in_place else np.empty((len(A), B.shape[1]), order="F")
    for piece in _split_columns(B.shape[1], A.size):
        out[:, piece] = function(A, B[:, piece])
    return out


def cholesky(A: FloatArray, *, overwrite: bool = False, least: float = 0.0) -> FloatArray:
    """Lower Cholesky factor, in Fortran order, with zeros above the diagonal.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Symmetric; only the lower triangle is read.
    overwrite : bool
        Let LAPACK work in the memory of `A` (no copy when `A` is in Fortran order).
    least : float, default=0.0
        Every squared pivot must be larger.

    Raises
    ------
    NotPositiveDefiniteError
        If the square of a pivot is not above `least`, or not finite.
    """
    _active_count.get(_UNCOUNTED).cholesky += float(len(A)) ** 3
    small = len(A) <= _SIZE_IN_CACHE
    blocks = [] if small else _split_columns(len(A), len(A) ** 2 // 4)
    if len(blocks) <= 1:
        L, info = lapack.dpotrf(A, lower=1, clean=int(small), overwrite_a=int(overwrite))
    else:
        L = A if overwrite and A.flags.f_contiguous else A.copy(order="F")
        info = _factor_by_blocks(L, blocks, least)
    pivots = L.diagonal()
    # LAPACK does not promise to notice NaN, which always reaches the diagonal of the factor.
    if info != 0 or not (pivots.min() ** 2 > least and pivots.max() < math.inf):
        raise NotPositiveDefiniteError(f"Cholesky factorization failed at pivot {info}")
    return L if small else _clear_above_diagonal(L)


def _factor_by_blocks(A: FloatArray, blocks: list[slice], least: float) -> int:
    """Write the Cholesky factor over the lower triangle; return the pivot that fails, or 0."""
    for block in blocks:
        before = A[block.start :, : block.start]
        panel = A[block.start :, block]
        width = panel.shape[1]
        panel -= before @ before[:width].T
        own, info = lapack.dpotrf(panel[:width], lower=1)
        if info != 0:
            return block.start + int(info)
        if own.diagonal().min() ** 2 <= least:
            return block.start + int(np.argmin(own.diagonal())) + 1
        panel[:width] = own
        panel[width:] = blas.dtrsm(1.0, own, panel[width:], side=1, lower=1, trans_a=1)
    return 0


def _clear_above_diagonal(L: FloatArray) -> FloatArray:
    """Write zeros above the diagonal of a matrix in Fortran order, in place, block by block.

    SciPy's wrapper would write the zeros row by row, against the order of memory: if n is a
    multiple of 256, this takes half as long as the factorization itself.
    """
    above = np.tri(_COLUMNS_PER_BLOCK, k=-1, dtype=bool).T
    for start in range(0, len(L), _COLUMNS_PER_BLOCK):
        columns = L[:, start : start + _COLUMNS_PER_BLOCK]
        columns[:start] = 0.0
        block = columns[start : start + _COLUMNS_PER_BLOCK]
        block[above[: len(block), : len(block)]] = 0.0
    return L


def cholesky_solve(L: FloatArray, B: FloatArray) -> FloatArray:
    """Solve ``L L' X = B`` for B of shape (n,) or (n, m)."""
    if _is_long(B, len(L)):
        return _apply_by_columns(cholesky_solve, L, B)
    _active_count.get(_UNCOUNTED).triangular_solve += 2.0 * len(L) * B.size
    return lapack.dpotrs(L, B, lower=1)[0]


def solve_lower(
    L: FloatArray, B: FloatArray, *, transpose: bool = False, overwrite: bool = False
) -> FloatArray:
    """Solve ``L X = B`` (or ``L' X = B``) for B of shape (n,) or (n, m)."""
    if _is_long(B, len(L)):
        solve = partial(solve_lower, transpose=transpose)
        return _apply_by_columns(solve, L, B, overwrite=overwrite)
    _active_count.get(_UNCOUNTED).triangular_solve += float(len(L) * B.size)
    X, info = lapack.dtrtrs(L, B, lower=1, trans=int(transpose), overwrite_b=int(overwrite))
    if info != 0:
        raise NotPositiveDefiniteError(f"triangular factor is singular at pivot {info}")
    return X


def lower_inverse(L: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Inverse of a lower triangular matrix, in Fortran order, with zeros above the diagonal.

    With `overwrite`, the result is written into the memory of L.
    """
    _active_count.get(_UNCOUNTED).inverse += float(len(L)) ** 3
    if not L.diagonal().all():
        pivot = int(np.argmin(L.diagonal() != 0.0)) + 1
        raise NotPositiveDefiniteError(f"triangular factor is singular at pivot {pivot}")
    inverse = L if overwrite else L.copy(order="F")
    _invert_by_halves(inverse)
    return inverse


def _invert_by_halves(A: FloatArray) -> None:
    """Invert in place, mostly by products: ``[A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1 D^-1]``."""
    n = len(A)
    if n <= _COLUMNS_PER_BLOCK:
        inverse = lapack.dtrtri(A, lower=1, overwrite_c=1)[0]
        if inverse is not A:  # a block of a matrix is copied
            A[:] = inverse
        return
    half = n // 2
    above = A[:half, :half]
    C = A[half:, :half]
    below = A[half:, half:]
    _invert_by_halves(above)
    _invert_by_halves(below)
    for piece in _split_columns(half, below.size):
        C[:, piece] = blas.dtrmm(-1.0, below, C[:, piece], lower=1)
    for piece in _split_columns(n - half, above.size):
        C[piece] = blas.dtrmm(1.0, above, C[piece], side=1, lower=1)


def cholesky_inverse(L: FloatArray) -> FloatArray:
    """Lower triangle of ``(L L')^-1``, in Fortran order, with zeros above the diagonal."""
    inverse = lower_inverse(L)
    _gram_by_halves(inverse)
    return inverse


def cholesky_pullback(L: FloatArray, L_bar: FloatArray) -> FloatArray:
    """Turn derivatives of a scalar in a Cholesky factor L into derivatives in A = L L'.

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Lower factor of A, in Fortran order.
    L_bar : ndarray of shape (n, n)
        Derivatives in the entries of L; entries above the diagonal are ignored.

    Returns
    -------
    ndarray of shape (n, n)
        Lower triangular, in Fortran order. The derivative along a symmetric dA is the sum of the
        products of its entries with those of dA.

    References
    ----------
    Murray (2016), *Differentiation of the Cholesky decomposition*, reverse mode. His method goes
    block by block from the last to the first; here the blocks are halves, so that nearly all of the
    work consists of products.
    """
    _active_count.get(_UNCOUNTED).cholesky_derivative += float(len(L)) ** 3
    bar = np.asfortranarray(np.tril(L_bar))
    _pull_back_by_halves(L, bar)
    return bar


def _pull_back_by_halves(L: FloatArray, bar: FloatArray) -> None:
    """Replace derivatives in L by derivatives in A, in place.

    With L = [L1 0; C L2] and A = [A1 .; B A2], a factorization computes A1 = L1 L1', then
    C = B L1'^-1, then A2 - C C' = L2 L2'. Reverse mode takes these steps in the opposite order.
    """
    n = len(L)
    if n <= _CLOSED_FORM_SIZE:
        P = _fold_lower(L.T @ bar)
        solved = blas.dtrsm(1.0, L, P + P.T, lower=1, trans_a=1)
        bar[:] = _fold_lower(blas.dtrsm(1.0, L, solved, side=1, lower=1))
        return
    half = n // 2
    C = L[half:, :half]
    bar_C = bar[half:, :half]
    bar_1 = bar[:half, :half]
    bar_2 = bar[half:, half:]
    _pull_back_by_halves(L[half:, half:], bar_2)
    symmetric = bar_2 + bar_2.T
    bar_C -= _apply_by_columns(np.matmul, symmetric, C)
    for rows in _split_columns(n - half, half**2):
        bar_C[rows] = blas.dtrsm(1.0, L[:half, :half], bar_C[rows], side=1, lower=1)
    bar_1 -= np.tril(_apply_by_columns(np.matmul, bar_C.T, C))
    _pull_back_by_halves(L[:half, :half], bar_1)


def _fold_lower(A: FloatArray) -> FloatArray:
    """Return the lower triangle of A with half of its diagonal."""
    A = np.tril(A)
    A.flat[:: len(A) + 1] *= 0.5
    return A


def cholesky_pushforward(L: FloatArray, dA: FloatArray) -> FloatArray:
    """``L^-1 dL`` for the factor L of A and its change dL under a change dA of A.

    The result is the lower triangle, with half of the diagonal, of L^-1 dA L'^-1.
    """
    return _fold_lower(solve_lower(L, np.asfortranarray(solve_lower(L, dA).T)))


def lower_gram(L: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Lower triangle of ``L' L`` for a lower triangular L; entries above it are those of L.

    With `overwrite`, the result is written into the memory of L, in Fortran order.
    """
    _active_count.get(_UNCOUNTED).product += float(len(L)) ** 3
    gram = L if overwrite else L.copy(order="F")
    _gram_by_halves(gram)
    return gram


def _gram_by_halves(A: FloatArray) -> None:
    """Write L'L over L: ``[A 0; C D]' [A 0; C D] = [A'A + C'C .; D'C D'D]``."""
    n = len(A)
    if n**3 <= 3 * _MULTIPLICATIONS_PER_CALL:
        gram = lapack.dlauum(A, lower=1, overwrite_c=1)[0]
        if gram is not A:  # a block of a matrix is copied
            A[:] = gram
        return
    half = n // 2
    C = A[half:, :half]
    D = A[half:, half:]
    _gram_by_halves(A[:half, :half])
    for piece in _split_columns(half, C.size):
        A[piece.start : half, piece] += np.tril(C[:, piece.start :].T @ C[:, piece])
        C[:, piece] = blas.dtrmm(1.0, D, C[:, piece], lower=1, trans_a=1)
    _gram_by_halves(D)


def lower_product(L: FloatArray, B: FloatArray, *, transpose: bool = False) -> FloatArray:
    """``L B`` (or ``L' B``) for a lower triangular L and B of shape (n,) or (n, m)."""
    if _is_long(B, len(L)):
        return _apply_by_columns(partial(lower_product, transpose=transpose), L, B)
    _active_count.get(_UNCOUNTED).product += float(len(L) * B.size)
    if B.ndim == 1:
        return blas.dtrmv(L, B, lower=1, trans=int(transpose))
    return blas.dtrmm(1.0, L, B, lower=1, trans_a=int(transpose))


def product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A B`` for A of shape (k, n) and B of shape (n,) or (n, m), in Fortran order."""
    if _is_long(B, len(A)):
        return _apply_by_columns(product, A, B)
    _active_count.get(_UNCOUNTED).product += float(len(A) * B.size)
    return A @ B if B.ndim == 1 else (B.T @ A.T).T


def tall_gram(A: FloatArray, scale: FloatArray) -> FloatArray:
    """Lower triangle of ``A' S^2 A`` for a tall A (n, m) and a diagonal S, `scale` (n,).

    The result is in Fortran order.
    """
    n, m = A.shape
    _active_count.get(_UNCOUNTED).product += float(m * A.size)
    gram = np.zeros((m, m), order="F")
    work = max(m // 2, _MULTIPLICATIONS_PER_CALL // _ENTRIES_PER_BLOCK)
    for piece in _split_columns(n, m * work):
        scaled = np.multiply(A[piece], scale[piece, None], order="F")
        gram = blas.dsyrk(1.0, scaled, beta=1.0, c=gram, lower=1, trans=1, overwrite_c=1)
    return gram


def eigenpairs(A: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalues of a symmetric matrix, ascending, and their eigenvectors as columns.

    The operations are not counted and cannot be interrupted, as only reference methods use them.
    """
    return eigh(A, subset_by_index=(len(A) - rank, len(A) - 1), check_finite=False)


def mirror_lower(A: FloatArray) -> FloatArray:
    """Return the symmetric matrix whose lower triangle is that of A."""
    lower = np.tril(A, -1)
    return add_to_diagonal(lower + lower.T, A.diagonal())


def half_log_det(L: FloatArray) -> float:
    """``1/2 log |L L'|``, the sum of the log diagonal."""
    return float(np.log(L.diagonal()).sum())


def add_outer(A: FloatArray, x: FloatArray, y: FloatArray) -> FloatArray:
    """Add ``x y'`` to a square matrix, in place when it is in Fortran order, and return it."""
    return blas.dger(1.0, x, y, a=A, overwrite_a=1)


def add_to_diagonal(A: FloatArray, values: FloatArray | float) -> FloatArray:
    """Add to the diagonal of a square matrix in place, and return it."""
    A.flat[:: len(A) + 1] += values
    return A


def log_sum(log_values: FloatArray, axis: int = -1, *, overwrite: bool = False) -> FloatArray:
    """Log of the sum of exponentials along an axis; minus infinity where all of them are zero.

    `scipy.special.logsumexp` computes the same, but checks so much that a sampler would spend a
    tenth of its time there. With `overwrite` the array is used as working memory.
    """
    largest = log_values.max(axis=axis, keepdims=True)
    largest[~np.isfinite(largest)] = 0.0
    out = log_values if overwrite else None
    shifted = np.subtract(log_values, largest, out=out)
    total = np.exp(shifted, out=shifted).sum(axis=axis)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(total) + largest.squeeze(axis))


def log_mean(log_values: FloatArray) -> float:
    """Log of the mean of exponentials of a vector."""
    if not math.isfinite(largest := float(log_values.max())):
        return largest
    return largest + math.log(np.exp(log_values - largest).sum() / len(log_values))


def ridge_regression(
    features: FloatArray, targets: FloatArray, precision: FloatArray
) -> FloatArray:
    """Return the b that minimizes ``|targets - features b|^2 + sum_r precision_r b_r^2``.

    Orthogonal transformations keep the result accurate for features of very different column_norm.

    Parameters
    ----------
    features : ndarray of shape (n, p)
        One row per target.
    targets : ndarray of shape (n,) or (n, m)
        One column, or several with the same features.
    precision : ndarray of shape (p,)
        Positive.

    Returns
    -------
    ndarray of shape (p,) or (p, m)
        The coefficients b, one column per column of targets.
    """
    p = len(precision)
    rows = np.concatenate([features, np.diag(np.sqrt(precision))])
    column_norm = np.linalg.norm(rows, axis=0)
    padded_targets = np.concatenate([targets, np.zeros((p, *targets.shape[1:]))])
    coefficients = np.linalg.lstsq(rows / column_norm, padded_targets, rcond=None)[0]
    return np.asarray((coefficients.T / column_norm).T)
