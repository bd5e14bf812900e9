"""Dense linear algebra without copies, a counter of the O(n^3) operations, and sums of logs.

All factorizations, triangular solves, inverses and large products are in this file, so that what a
sampler spends can be counted. A factorization, its derivative or an inverse of an m x m matrix
counts as m^3, a product of matrices of shapes (k, m) and (m, l), or a triangular solve, as k m l.
In units of n^3, see `OperationCount.per`, what is done once to an n x n matrix is one operation.

An interrupt is noticed between two calls of a routine, never within one, not even by a thread, as
SciPy's hold the interpreter's lock. Calls that would take many seconds are made piece by piece.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
from scipy.linalg import blas, eigh, lapack

from .._typing import FloatArray

_BLOCK = 64  # columns at a time, where a routine goes block by block
_CLOSED_FORM_SIZE = 32  # where going by halves ends in a closed form
_SIZE_IN_CACHE = 256  # matrices up to this size fit into the cache
_BRIEF = 2**33  # multiplications of one call: half a second to a second
_NARROWEST = 96  # columns of a piece; with fewer, products are slow


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """A matrix that must be positive definite has no Cholesky factor in double precision."""


@dataclass
class OperationCount:
    """Operations in O(n^3), by kind."""

    cholesky: float = 0.0
    inverse: float = 0.0
    product: float = 0.0
    triangular_solve: float = 0.0
    cholesky_derivative: float = 0.0

    @property
    def total(self) -> float:
        """Sum over the kinds."""
        return float(sum(getattr(self, field.name) for field in fields(self)))

    def per(self, n: int) -> OperationCount:
        """Return the same in units of n^3, such as factorizations of an n x n matrix."""
        parts = (getattr(self, field.name) / float(n) ** 3 for field in fields(self))
        return OperationCount(*parts)

    def add(self, other: OperationCount) -> None:
        """Add another count to this one."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


_active_count: ContextVar[OperationCount] = ContextVar("active_count")
_UNREAD = OperationCount()  # of what is done outside of any count


@contextmanager
def count_operations() -> Iterator[OperationCount]:
    """Count the operations of the enclosed block; an enclosing count receives them too.

    Yields
    ------
    OperationCount
        Which grows meanwhile.
    """
    count = OperationCount()
    token = _active_count.set(count)
    try:
        yield count
    finally:
        _active_count.reset(token)
        _active_count.get(_UNREAD).add(count)


def count_root(n: int, rank: int) -> None:
    """Count a root of so many columns of an n x n matrix."""
    _active_count.get(_UNREAD).cholesky += float(n * rank**2)


def _pieces(n_columns: int, work: int) -> list[slice]:
    """Part columns into pieces that are brief to handle; `work` counts multiplications of one."""
    width = max(_NARROWEST, _BRIEF // max(work, 1))
    return [slice(i, min(i + width, n_columns)) for i in range(0, n_columns, width)]


def _by_columns(
    function: Callable[[FloatArray, FloatArray], FloatArray],
    A: FloatArray,
    B: FloatArray,
    *,
    overwrite: bool = False,
) -> FloatArray:
    """Apply a product of A and B, or a solution, to pieces of the columns of B."""
    in_place = overwrite and B.flags.f_contiguous
    out = B if in_place else np.empty((len(A), B.shape[1]), order="F")
    for piece in _pieces(B.shape[1], A.size):
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
        Least square that a pivot may have.

    Raises
    ------
    NotPositiveDefiniteError
        If the square of a pivot is not above `least`, or not finite.
    """
    _active_count.get(_UNREAD).cholesky += float(len(A)) ** 3
    small = len(A) <= _SIZE_IN_CACHE
    blocks = [] if small else _pieces(len(A), len(A) ** 2 // 4)
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
    """Write the Cholesky factor over the lower triangle; returns the pivot that fails, or 0."""
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

    SciPy's wrapper would do it row by row, against the order of memory: where n is a multiple of
    256 that takes half as long as the factorization itself.
    """
    above = np.tri(_BLOCK, k=-1, dtype=bool).T
    for start in range(0, len(L), _BLOCK):
        columns = L[:, start : start + _BLOCK]
        columns[:start] = 0.0
        block = columns[start : start + _BLOCK]
        block[above[: len(block), : len(block)]] = 0.0
    return L


def cholesky_solve(L: FloatArray, B: FloatArray) -> FloatArray:
    """Solve ``L L' X = B`` for B of shape (n,) or (n, m)."""
    if B.size > max(_NARROWEST * len(L), _BRIEF // len(L)):
        return _by_columns(cholesky_solve, L, B)
    _active_count.get(_UNREAD).triangular_solve += 2.0 * len(L) * B.size
    return lapack.dpotrs(L, B, lower=1)[0]


def solve_lower(
    L: FloatArray, B: FloatArray, *, transpose: bool = False, overwrite: bool = False
) -> FloatArray:
    """Solve ``L X = B`` (or ``L' X = B``) for B of shape (n,) or (n, m)."""
    if B.size > max(_NARROWEST * len(L), _BRIEF // len(L)):
        return _by_columns(partial(solve_lower, transpose=transpose), L, B, overwrite=overwrite)
    _active_count.get(_UNREAD).triangular_solve += float(len(L) * B.size)
    X, info = lapack.dtrtrs(L, B, lower=1, trans=int(transpose), overwrite_b=int(overwrite))
    if info != 0:
        raise NotPositiveDefiniteError(f"triangular factor is singular at pivot {info}")
    return X


def lower_inverse(L: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Inverse of a lower triangular matrix, in Fortran order, with zeros above the diagonal.

    With `overwrite`, in the memory of L.
    """
    _active_count.get(_UNREAD).inverse += float(len(L)) ** 3
    if not L.diagonal().all():
        pivot = int(np.argmin(L.diagonal() != 0.0)) + 1
        raise NotPositiveDefiniteError(f"triangular factor is singular at pivot {pivot}")
    inverse = L if overwrite else L.copy(order="F")
    _invert_by_halves(inverse)
    return inverse


def _invert_by_halves(A: FloatArray) -> None:
    """``[A 0; C D]^-1 = [A^-1 0; -D^-1 C A^-1 D^-1]`` in place, mostly by products."""
    n = len(A)
    if n <= _BLOCK:
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
    for piece in _pieces(half, below.size):
        C[:, piece] = blas.dtrmm(-1.0, below, C[:, piece], lower=1)
    for piece in _pieces(n - half, above.size):
        C[piece] = blas.dtrmm(1.0, above, C[piece], side=1, lower=1)


def cholesky_inverse(L: FloatArray) -> FloatArray:
    """Lower triangle of ``(L L')^-1``, in Fortran order, with zeros above the diagonal."""
    inverse = lower_inverse(L)
    _gram_by_halves(inverse)
    return inverse


def cholesky_pullback(L: FloatArray, L_bar: FloatArray) -> FloatArray:
    """Turn derivatives of a scalar in a Cholesky factor L into those in A = L L'.

    Parameters
    ----------
    L : ndarray of shape (n, n)
        Lower factor of A, in Fortran order.
    L_bar : ndarray of shape (n, n)
        Derivatives in the entries of L; what stands above the diagonal is ignored.

    Returns
    -------
    ndarray of shape (n, n)
        Lower triangular, in Fortran order: the derivative along dA, symmetric, is the sum over its
        entries times those of dA.

    References
    ----------
    Murray (2016), *Differentiation of the Cholesky decomposition*: reverse mode, block by block
    from the last to the first, here by halves, so that nearly all of it is products.
    """
    _active_count.get(_UNREAD).cholesky_derivative += float(len(L)) ** 3
    bar = np.asfortranarray(np.tril(L_bar))
    _pull_back_by_halves(L, bar)
    return bar


def _pull_back_by_halves(L: FloatArray, bar: FloatArray) -> None:
    """Replace derivatives in L by those in A, in place.

    With L = [L1 0; C L2] and A = [A1 .; B A2], the factorization goes from A1 = L1 L1' over
    C = B L1'^-1 to A2 - C C' = L2 L2', and this goes back.
    """
    n = len(L)
    if n <= _CLOSED_FORM_SIZE:
        P = _folded(L.T @ bar)
        solved = blas.dtrsm(1.0, L, P + P.T, lower=1, trans_a=1)
        bar[:] = _folded(blas.dtrsm(1.0, L, solved, side=1, lower=1))
        return
    half = n // 2
    C = L[half:, :half]
    bar_C = bar[half:, :half]
    bar_1 = bar[:half, :half]
    bar_2 = bar[half:, half:]
    _pull_back_by_halves(L[half:, half:], bar_2)
    symmetric = bar_2 + bar_2.T
    bar_C -= _by_columns(np.matmul, symmetric, C)
    for rows in _pieces(n - half, half**2):
        bar_C[rows] = blas.dtrsm(1.0, L[:half, :half], bar_C[rows], side=1, lower=1)
    bar_1 -= np.tril(_by_columns(np.matmul, bar_C.T, C))
    _pull_back_by_halves(L[:half, :half], bar_1)


def _folded(A: FloatArray) -> FloatArray:
    """Lower triangle with half of the diagonal."""
    A = np.tril(A)
    A.flat[:: len(A) + 1] *= 0.5
    return A


def cholesky_pushforward(L: FloatArray, dA: FloatArray) -> FloatArray:
    """``L^-1 dL`` for the factor L of A and the change dL that a change dA makes of it.

    It is the lower triangle, with half of the diagonal, of L^-1 dA L'^-1.
    """
    return _folded(solve_lower(L, np.asfortranarray(solve_lower(L, dA).T)))


def lower_gram(L: FloatArray, *, overwrite: bool = False) -> FloatArray:
    """Lower triangle of ``L' L`` for a lower triangular L; above it, what L has there.

    With `overwrite`, in the memory of L, in Fortran order.
    """
    _active_count.get(_UNREAD).product += float(len(L)) ** 3
    if len(L) ** 3 <= 3 * _BRIEF:
        return lapack.dlauum(L, lower=1, overwrite_c=int(overwrite))[0]
    gram = L if overwrite else L.copy(order="F")
    _gram_by_halves(gram)
    return gram


def _gram_by_halves(A: FloatArray) -> None:
    """``[A 0; C D]' [A 0; C D] = [A'A + C'C .; D'C D'D]`` in place, at once if brief."""
    n = len(A)
    if n**3 <= 3 * _BRIEF:
        gram = lapack.dlauum(A, lower=1, overwrite_c=1)[0]
        if gram is not A:  # a block of a matrix is copied
            A[:] = gram
        return
    half = n // 2
    C = A[half:, :half]
    D = A[half:, half:]
    _gram_by_halves(A[:half, :half])
    for piece in _pieces(half, C.size):
        A[piece.start : half, piece] += np.tril(C[:, piece.start :].T @ C[:, piece])
        C[:, piece] = blas.dtrmm(1.0, D, C[:, piece], lower=1, trans_a=1)
    _gram_by_halves(D)


def lower_product(L: FloatArray, B: FloatArray) -> FloatArray:
    """``L B`` for a lower triangular L and B of shape (n,) or (n, m)."""
    if B.size > max(_NARROWEST * len(L), _BRIEF // len(L)):
        return _by_columns(lower_product, L, B)
    _active_count.get(_UNREAD).product += float(len(L) * B.size)
    if B.ndim == 1:
        return blas.dtrmv(L, B, lower=1)
    return blas.dtrmm(1.0, L, B, lower=1)


def transposed_lower_product(L: FloatArray, B: FloatArray) -> FloatArray:
    """``L' B`` for a lower triangular L and B of shape (n,) or (n, m)."""
    if B.size > max(_NARROWEST * len(L), _BRIEF // len(L)):
        return _by_columns(transposed_lower_product, L, B)
    _active_count.get(_UNREAD).product += float(len(L) * B.size)
    if B.ndim == 1:
        return blas.dtrmv(L, B, lower=1, trans=1)
    return blas.dtrmm(1.0, L, B, lower=1, trans_a=1)


def product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A B`` for A of shape (k, n) and B of shape (n,) or (n, m), in Fortran order."""
    if B.size > max(_NARROWEST * len(B), _BRIEF // max(len(A), 1)):
        return _by_columns(product, A, B)
    _active_count.get(_UNREAD).product += float(len(A) * B.size)
    return A @ B if B.ndim == 1 else (B.T @ A.T).T


def tall_gram(A: FloatArray) -> FloatArray:
    """Lower triangle of ``A' A`` for a tall A of shape (n, m), in Fortran order."""
    n, m = A.shape
    _active_count.get(_UNREAD).product += float(m * A.size)
    gram = np.zeros((m, m), order="F")
    for piece in _pieces(n, m * m // 2):
        gram = blas.dsyrk(1.0, A[piece], beta=1.0, c=gram, lower=1, trans=1, overwrite_c=1)
    return gram


def eigenpairs(A: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalues of a symmetric matrix, ascending, and their eigenvectors as columns.

    Not counted among the operations, and not interrupted either: for references, not for samplers.
    """
    values, vectors = eigh(A, subset_by_index=(len(A) - rank, len(A) - 1), check_finite=False)
    return values, vectors


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

    As `scipy.special.logsumexp`, which checks so much that a sampler would spend a tenth of its
    time there. With `overwrite` the array is used as working memory.
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


@dataclass(frozen=True, eq=False)
class DenseRoot:
    """B of a few hyper-parameters, with its inverse; its operations are not counted.

    It maps vectors (p,), or each row of a batch of them (m, p).

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
    """

    matrix: FloatArray

    @classmethod
    def of_covariance(cls, covariance: FloatArray) -> DenseRoot:
        """Return B with ``B B'`` the given matrix, lower triangular."""
        return cls(np.asarray(np.linalg.cholesky(covariance), dtype=float))

    @classmethod
    def of_precision(cls, precision: FloatArray) -> DenseRoot:
        """Return B with ``(B B')^-1`` the given matrix."""
        return cls(np.linalg.inv(np.linalg.cholesky(precision)).T)

    def apply(self, z: FloatArray) -> FloatArray:
        """``B z``."""
        return z @ self.matrix.T

    def apply_transpose(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""
        return gradient @ self.matrix

    def solve(self, step: FloatArray) -> FloatArray:
        """``B^-1 step``, for one vector."""
        return np.asarray(np.linalg.solve(self.matrix, step))

    @property
    def log_det(self) -> float:
        """``log |det B|``."""
        return float(np.linalg.slogdet(self.matrix).logabsdet)


def ridge_regression(
    features: FloatArray, targets: FloatArray, precision: FloatArray
) -> FloatArray:
    """Return the b that minimizes ``|targets - features b|^2 + sum_r precision_r b_r^2``.

    By orthogonal transformations, so that features of very different size do no harm.

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
        The terms b, one column per column of targets.
    """
    p = len(precision)
    rows = np.concatenate([features, np.diag(np.sqrt(precision))])
    size = np.linalg.norm(rows, axis=0)
    wanted = np.concatenate([targets, np.zeros((p, *targets.shape[1:]))])
    found = np.linalg.lstsq(rows / size, wanted, rcond=None)[0]
    return np.asarray((found.T / size).T)
