"""The Gaussian prior of the latent function at a theta, and its conditionals at new inputs.

A `Conditional` holds a single factor, because predictions keep many of them between calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from .._typing import BoolArray, FloatArray, IntArray
from ..numerics import linalg
from ..numerics.memory import most_columns
from ..numerics.roots import (
    N_TRIED,
    PivotedRoot,
    TriangularRoot,
    full_root,
    low_rank_root,
    root_by_columns,
)
from .covariance import Covariance, CrossCovariance

Result = TypeVar("Result")

#: Most inputs for which K is made in any case: with more, columns of K are made first.
_MOST_INPUTS_WITH_MATRIX = 2000
#: Matrices of the size of K that work with K needs at once.
_N_FULL_MATRICES = 3
#: Matrices of the size of R that work with R needs at once.
_N_ROOTS = 4
#: Relative precision of doubles.
_EPS = float(np.finfo(float).eps)


# --- new inputs ----------------------------------------------------------------------------------


class LatentMoments(NamedTuple):
    """Gaussian moments of f* at m new inputs, for g posterior draws that share theta."""

    mean: FloatArray  # (m, g), latent scale; (C, m, g) for C latent functions
    var: FloatArray  # (m,), latent scale, shared by the draws; (C, m)


class Conditional(ABC):
    """The Gaussian distribution of f* at new inputs, given each of g draws or moments of f."""

    @abstractmethod
    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """Return moments at new inputs of shape (m, d), or at those that `Covariance.at_new` bound.

        The moments of a row depend on its own input alone.
        """

    @abstractmethod
    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """Mean (m, g) and covariance (m, m) of f* at all rows, or (C, m, g) and (C, m, m)."""

    @abstractmethod
    def select(self, columns: IntArray) -> Conditional:
        """Return the conditional for some of the g columns, (k,), which may repeat."""

    @abstractmethod
    def arrays(self) -> list[FloatArray | IntArray]:
        """Return the arrays that it holds, without those of the covariance."""


@dataclass(frozen=True, eq=False)
class FunctionConditional(Conditional):
    """Conditional of one latent function.

    Attributes
    ----------
    covariance : Covariance
    kernel_theta : ndarray of shape (p,)
        Natural logs.
    factor : ndarray of shape (n, n) or (r, r)
        Lower triangular.
    coefficients : ndarray of shape (n, g) or (r, g)
        Coefficients in which the means are linear.
    """

    covariance: Covariance
    kernel_theta: FloatArray
    factor: FloatArray
    coefficients: FloatArray

    @abstractmethod
    def _project(self, cross: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        """Return what the training inputs say of m new ones, by k* of shape (n, m).

        These are the mean of f*, (m, g), and two matrices with m columns: f at the training inputs
        reduces the covariance by known' known, and uncertainty of f, if any, adds unknown' unknown.
        k* may be overwritten.
        """

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """See `Conditional`."""
        new = self.covariance.at_new(X_new)
        mean, known, unknown = self._project(self.covariance.cross(self.kernel_theta, new))
        var = self.covariance.diagonal(self.kernel_theta, new.X_new)
        var = np.maximum(var - np.einsum("im,im->m", known, known), 0.0)
        if unknown is not None:
            var += np.einsum("im,im->m", unknown, unknown)
        return LatentMoments(mean, var)

    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """See `Conditional`."""
        new = self.covariance.at_new(X_new)
        mean, known, unknown = self._project(self.covariance.cross(self.kernel_theta, new))
        covariance = self.covariance.square(self.kernel_theta, new.X_new) - known.T @ known
        return mean, covariance if unknown is None else covariance + unknown.T @ unknown

    def select(self, columns: IntArray) -> Conditional:
        """See `Conditional`."""
        return replace(self, coefficients=self.coefficients[:, columns])

    def arrays(self) -> list[FloatArray | IntArray]:
        """See `Conditional`."""
        return [own for own in vars(self).values() if isinstance(own, np.ndarray)]


@dataclass(frozen=True, eq=False)
class ConditionalGivenLatent(FunctionConditional):
    """Conditional given f: mean k_P*' R_P'^-1 v, covariance k** - k_P*' K_PP^-1 k_P*.

    The pivots P determine f at all training inputs; v = R_P^-1 f_P.
    """

    pivots: IntArray

    def _project(self, cross: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        half = linalg.solve_lower(self.factor, np.asfortranarray(cross[self.pivots]))
        return half.T @ self.coefficients, half, None


@dataclass(frozen=True, eq=False)
class ConditionalGivenWhiteSites(ConditionalGivenLatent):
    """Conditional given Gaussian sites: given f, with v ~ N(mean, (T T')^-1) integrated out.

    `coefficients` is the mean of v.
    """

    white_factor: FloatArray  # T, (r, r)

    def _project(self, cross: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        mean, half, _ = super()._project(cross)
        return mean, half, linalg.solve_lower(self.white_factor, half)


@dataclass(frozen=True, eq=False)
class ConditionalGivenSites(FunctionConditional):
    """Conditional given sites of precision W: k*' a and k** - k*' (K + W^-1)^-1 k*.

    `factor` is that of B = I + s s' o K with s = W^1/2; Rasmussen & Williams (2006), (3.21) and
    (3.24), in the form without K^-1.
    """

    root_precision: FloatArray  # s, (n,)

    def _project(self, cross: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray | None]:
        mean = cross.T @ self.coefficients
        cross *= self.root_precision[:, None]
        return mean, linalg.solve_lower(self.factor, cross, overwrite=True), None


@dataclass(frozen=True, eq=False)
class StackedConditional(Conditional):
    """Conditional of C independent functions, each with hyper-parameters of its own."""

    functions: Sequence[Conditional]

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """See `Conditional`."""
        return LatentMoments(*_stack_pairs([own.predict(X_new) for own in self.functions]))

    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """See `Conditional`."""
        return _stack_pairs([own.predict_jointly(X_new) for own in self.functions])

    def select(self, columns: IntArray) -> Conditional:
        """See `Conditional`."""
        return StackedConditional([own.select(columns) for own in self.functions])

    def arrays(self) -> list[FloatArray | IntArray]:
        """See `Conditional`."""
        return [array for own in self.functions for array in own.arrays()]


@dataclass(frozen=True, eq=False)
class SharedKernelConditional(Conditional):
    """Conditional of C independent functions that share hyper-parameters, and thus a factor.

    Attributes
    ----------
    side_by_side : Conditional
        Conditional of one function; its columns are those of the first function, then of the
        second, and so on.
    n_functions, n_columns : int
        Number of functions, and of the columns of each.
    """

    side_by_side: Conditional
    n_functions: int
    n_columns: int

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """See `Conditional`."""
        mean, var = self.side_by_side.predict(X_new)
        return LatentMoments(self._by_function(mean), np.tile(var, (self.n_functions, 1)))

    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """See `Conditional`."""
        mean, covariance = self.side_by_side.predict_jointly(X_new)
        return self._by_function(mean), np.tile(covariance, (self.n_functions, 1, 1))

    def select(self, columns: IntArray) -> Conditional:
        """See `Conditional`."""
        first = np.arange(self.n_functions)[:, None] * self.n_columns
        return replace(
            self,
            side_by_side=self.side_by_side.select((first + columns).ravel()),
            n_columns=len(columns),
        )

    def _by_function(self, mean: FloatArray) -> FloatArray:
        return np.moveaxis(mean.reshape(len(mean), self.n_functions, -1), 1, 0)

    def arrays(self) -> list[FloatArray | IntArray]:
        """See `Conditional`."""
        return self.side_by_side.arrays()


def _stack_pairs(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    first, second = zip(*pairs, strict=True)
    return np.stack(first), np.stack(second)


# --- the prior -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """p(f | theta) = N(f; 0, K): the only holder of a root of K.

    With K = R R' and R of shape (n, r), f = R v for v ~ N(0, I). Where K is singular, r is its rank
    in double precision, and r rows of f, the pivots, determine all others.

    Attributes
    ----------
    covariance : Covariance
    theta : ndarray of shape (p,)
        Hyper-parameters of the model: first those of the kernel, natural logs. K depends on these
        alone.
    matrix : ndarray of shape (n, n), optional
        K, if it is known already.
    """

    covariance: Covariance
    theta: FloatArray
    matrix: FloatArray | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Matrices are rebuilt on demand: states stay O(n) when they travel between processes.
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**own, "matrix": None}

    @property
    def kernel_theta(self) -> FloatArray:
        """Hyper-parameters of the kernel alone, natural logs."""
        return self.theta[: len(self.covariance.start)]

    @cached_property
    def K(self) -> FloatArray:
        """Covariance matrix; (n, n), Fortran order."""
        return self.covariance.matrix(self.kernel_theta) if self.matrix is None else self.matrix

    @property
    def by_columns(self) -> bool:
        """Whether R is made from some columns of K, without K, if r is small beside n."""
        many = self.size > _MOST_INPUTS_WITH_MATRIX
        return many and self.matrix is None and self.covariance.by_columns

    @cached_property
    def _root_by_columns(self) -> PivotedRoot | None:
        """R from columns of K; None if r is above n / 2, or too large."""
        n = self.size
        most = N_TRIED - 1 if self._matrix_fits else most_columns(n, _N_ROOTS)
        K = MatrixOfInputs(self.covariance.of_training, self.kernel_theta)
        return root_by_columns(K, min(most, n // 2))

    @property
    def _matrix_fits(self) -> bool:
        """Whether there is memory for K; then a root of many columns is made from K."""
        return self.size <= most_columns(self.size, _N_FULL_MATRICES)

    @cached_property
    def _low_rank_root(self) -> PivotedRoot | None:
        if not self.by_columns:
            return low_rank_root(self.K)
        if self._root_by_columns is not None or self.size // 2 < N_TRIED:
            return self._root_by_columns
        if not self._matrix_fits:
            raise RankError(self.size)
        return low_rank_root(self.K)

    def find_small_rank(self) -> int | None:
        """Return r if there are many inputs and few columns of K suffice; otherwise None."""
        try:
            root = self._root_by_columns if self.by_columns else None
        except linalg.NotPositiveDefiniteError:
            return None
        return None if root is None else root.rank

    @property
    def low_rank(self) -> bool:
        """Whether to factor matrices of r rows instead of n: r is at most n / 2 and n not small.

        For small n this would not save time.
        """
        return self._low_rank_root is not None

    @cached_property
    def root(self) -> PivotedRoot:
        """R and its pivots: a deterministic function of theta.

        Raises
        ------
        NotPositiveDefiniteError
            If K is not finite, or has negative eigenvalues.
        """
        return self._low_rank_root or full_root(self.K)

    def factorize(self) -> Self:
        """Compute the root, which raises an error if K is no covariance, and return itself."""
        _ = self.root
        return self

    @property
    def rank(self) -> int:
        """Length r of v."""
        return self.root.rank

    @property
    def size(self) -> int:
        """Number of latent values."""
        return len(self.covariance.X)

    @cached_property
    def _remembered(self) -> dict[Hashable, Any]:
        return {}

    def remember(self, what: Hashable, make: Callable[[], Result]) -> Result:
        """Return the result of `make`, computed once and kept as long as the root of K.

        The result must depend on theta and the data alone, as a mass matrix does, so that it is
        valid for all states that share this prior. `what` identifies it and its model.
        """
        if what not in self._remembered:
            self._remembered[what] = make()
        found: Result = self._remembered[what]
        return found

    def split(self, f: FloatArray) -> FloatArray:
        """Return values of shape (n, ...) by latent function; (1, n, ...)."""
        return f[None]

    def forget(self) -> None:
        """Drop remembered results, which may refer to this prior and so keep it in memory."""
        self._remembered.clear()

    @cached_property
    def variance(self) -> FloatArray:
        """Variances of f, none of them zero; (n,)."""
        if self.by_columns:
            training = self.covariance.of_training
            variance = training.diagonal(self.kernel_theta, training.X)
        else:
            variance = self.K.diagonal()
        return np.maximum(variance, _EPS / len(variance) * variance.sum())

    # --- functions of K ---------------------------------------------------------------------------

    def derivatives(self) -> Iterator[FloatArray]:
        """Give ``dK / dtheta_r`` for the kernel's hyper-parameters, one after the other."""
        return self.covariance.derivatives(self.kernel_theta)

    def contract(self, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r`` for the kernel's hyper-parameters; overwrites A."""
        return self.covariance.contract(self.kernel_theta, A, K=self.K, overwrite=True)

    def times(self, g: FloatArray) -> FloatArray:
        """``K g``, of the shape of g: (n,) or (n, m)."""
        if self.low_rank:
            return self.unwhiten(self.root.apply_transpose(g))
        return linalg.product(self.K, g)

    def solve_with_precision(self, precision: FloatArray, g: FloatArray) -> FloatArray:
        """``(I + W K)^-1 g`` for a diagonal W of any sign and g of shape (n,)."""
        inner = linalg.add_to_diagonal(self.gram(precision), 1.0)
        solved = np.asarray(np.linalg.solve(inner, self.root.apply_transpose(g)), dtype=float)
        return np.asarray(g - precision * self.unwhiten(solved))

    def columns(self, which: BoolArray) -> FloatArray:
        """Return columns of K where the mask of shape (n,) says so; copied in Fortran order."""
        return self.K.T[which].T  # K is symmetric

    def smoothed_factor(self, root_precision: FloatArray) -> FloatArray:
        """Lower Cholesky factor of B = I + s s' o K for s = W^1/2 of shape (n,)."""
        if (root_precision == root_precision[0]).all():  # the usual case of one noise variance
            B = np.multiply(self.K, root_precision[0] ** 2, order="F")
        else:
            B = np.multiply(self.K, root_precision[:, None], order="F")
            B *= root_precision
        return linalg.cholesky(linalg.add_to_diagonal(B, 1.0), overwrite=True)

    def smooth(self, E: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``E K`` and the diagonal of K - K E K, for E = (K + W^-1)^-1 of shape (n, n).

        The diagonal has the variances of f given sites of precision W.
        """
        half = linalg.product(E, self.K)
        return half, self.K.diagonal() - np.einsum("ij,ij->j", self.K, half)

    # --- the coordinates v ------------------------------------------------------------------------

    def whiten(self, f: FloatArray) -> FloatArray:
        """Return v with R v = f, (r,) or (r, m), for f of shape (n,) or (n, m)."""
        return self.root.solve(f)

    def unwhiten(self, v: FloatArray) -> FloatArray:
        """``f = R v``, (n,) or (n, m), for v of shape (r,) or (r, m)."""
        return self.root.apply(v)

    def whiten_by_input(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return v with one entry for each input, (n,), for f of shape (n,).

        Entries of inputs that are not pivots have no influence on f; they are drawn from N(0, 1),
        their distribution given f.
        """
        v = np.empty(self.size)
        v[self.root.pivots] = self.whiten(f)
        others = np.delete(np.arange(self.size), self.root.pivots)
        v[others] = rng.standard_normal(len(others))
        return v

    def sample(self, rng: np.random.Generator, size: int | None = None) -> FloatArray:
        """Draw f: (n,) without `size`, else one draw per column, (n, size)."""
        shape = self.rank if size is None else (size, self.rank)
        return self.unwhiten(rng.standard_normal(shape).T)

    def whitened_factor(self, root_precision: FloatArray) -> FloatArray:
        """Lower Cholesky factor T of I + R'W R, the precision of v given sites W; (r, r)."""
        gram = self.root.gram(root_precision)
        return linalg.cholesky(linalg.add_to_diagonal(gram, 1.0), overwrite=True)

    def half_given(self, factor: FloatArray, rows: IntArray | slice = slice(None)) -> FloatArray:
        """``H = T^-1 R'`` for some rows, whose covariance given sites is H'H; (r, n)."""
        copied = np.array(self.root.factor[rows].T, order="F")
        return linalg.solve_lower(factor, copied, overwrite=True)

    def variance_given(self, factor: FloatArray) -> FloatArray:
        """Return variances of f given sites, from T = `whitened_factor`; (n,), one solve."""
        half = self.half_given(factor)
        squares = np.einsum("ij,ij->j", half, half)
        return np.maximum(squares, _EPS * self.variance)

    def inverse_plus_noise(self, noise: FloatArray, factor: FloatArray) -> FloatArray:
        """``(K + S)^-1`` for a diagonal S, from T = `whitened_factor` of S^-1/2; (n, n)."""
        half = self.half_given(factor) / noise
        return linalg.add_to_diagonal(-linalg.product(half.T, half), 1.0 / noise)

    def gram(self, weight: FloatArray) -> FloatArray:
        """``R'W R`` for a diagonal W of any sign; (r, r)."""
        return self.root.apply_transpose(weight[:, None] * self.root.factor)

    def gram_pullback(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``R A`` and the diagonal of ``R A R'``, for a symmetric A of shape (r, r).

        If A has the derivatives in R'W R, the derivatives in R are 2 W R A, and those in W are the
        diagonal.
        """
        RA = self.unwhiten(A)
        return RA, np.einsum("ij,ij->i", RA, self.root.factor)

    def root_change(self, dK: FloatArray, v: FloatArray | None = None) -> FloatArray:
        """Return the change dR of R that a change dK of K makes, (n, r), or dR v, (n,).

        For fixed pivots ``dR = (dK_P - R dR_P') R_P'^-1``, with dK_P the columns of the pivots.
        """
        pivots = self.root.pivots
        triangle = self.root.triangle
        square = np.asfortranarray(dK[pivots[:, None], pivots])
        whitened = linalg.cholesky_pushforward(triangle, square)  # R_P^-1 dR_P
        if isinstance(self.root, TriangularRoot):
            return self.unwhiten(whitened if v is None else whitened @ v)
        change = linalg.lower_product(triangle, whitened)
        rest = dK.T[pivots] - linalg.product(change, self.root.factor.T)
        dR = linalg.solve_lower(triangle, np.asfortranarray(rest)).T
        return dR if v is None else dR @ v

    def root_gradient(self, R_bar: FloatArray) -> FloatArray:
        """Turn derivatives in R, (n, r), into derivatives in the kernel's hyper-parameters, (p,).

        R = K_P R_P'^-1, with K_P the columns of the pivots and R_P the Cholesky factor of K_PP.
        """
        triangle = self.root.triangle
        if isinstance(self.root, TriangularRoot):
            return self.contract(linalg.cholesky_pullback(triangle, R_bar))
        of_columns = linalg.solve_lower(triangle, np.asfortranarray(R_bar.T), transpose=True)
        of_triangle = -np.tril(linalg.product(of_columns, self.root.factor))
        of_square = linalg.cholesky_pullback(triangle, of_triangle)
        return self.contract_columns(of_columns, of_square)

    def contract_root(self, A: FloatArray, B: FloatArray, S: FloatArray) -> FloatArray:
        """``sum_ij G_ij dK_ij / dtheta_r`` for a symmetric G with R'G = A B, and S = R'G R.

        With P = R R_P^-1 and the columns dK_P of the pivots, dK = dK_P P' + P dK_P' - P dK_PP P'.
        """
        triangle = self.root.triangle
        left = linalg.solve_lower(triangle, np.asfortranarray(A), transpose=True)
        half = linalg.solve_lower(triangle, np.asfortranarray(S), transpose=True)
        square = linalg.solve_lower(triangle, np.asfortranarray(half.T), transpose=True)
        return self.contract_columns(linalg.product(2.0 * left, B), -square)

    def contract_columns(self, A: FloatArray, S: FloatArray) -> FloatArray:
        """Sum of ``A_ij dK_ij / dtheta_r`` over pivots i and all j, plus that of S over two pivots.

        A has the shape (r, n), and S the shape (r, r); only S + S' matters.
        """
        pivots = self.root.pivots
        own = self.covariance.of_inputs(pivots)
        total = np.zeros(len(self.kernel_theta))
        K_square = np.empty((len(pivots), len(pivots)), order="F")
        for columns, K in self.pivot_columns():
            inside = (pivots >= columns.start) & (pivots < columns.stop)
            at = pivots[inside] - columns.start
            K_square[:, inside] = K[:, at]
            others = A[:, columns].copy()
            others[:, at] = 0.0
            new = own.at_new(self.covariance.X[columns])
            total += own.contract_cross(self.kernel_theta, new, others, K)
        square = np.asfortranarray(S + A[:, pivots])
        return total + own.contract(self.kernel_theta, square, K=K_square, overwrite=True)

    def pivot_columns(self) -> Iterator[tuple[slice, FloatArray]]:
        """Give the covariances of the pivots with all inputs, by blocks.

        Yields
        ------
        tuple of slice and ndarray of shape (r, m)
            Which inputs, and their covariances.
        """
        pivots = self.root.pivots
        if self.by_columns:
            yield from MatrixOfInputs(self.covariance, self.kernel_theta).blocks(pivots)
        else:
            yield slice(0, self.size), self.K.T[pivots]

    # --- K of full rank ---------------------------------------------------------------------------

    @property
    def chol(self) -> FloatArray:
        """Lower Cholesky factor L of K.

        Raises
        ------
        NotPositiveDefiniteError
            If K is singular in double precision.
        """
        if not isinstance(self.root, TriangularRoot):
            raise linalg.NotPositiveDefiniteError(
                f"K has the rank {self.rank}, and {self.size} rows: its inverse does not exist"
            )
        return self.root.factor

    @property
    def half_log_det(self) -> float:
        """``1/2 log |K|``."""
        return linalg.half_log_det(self.chol)

    def solve(self, f: FloatArray) -> FloatArray:
        """``K^-1 f`` for f of shape (n,) or (n, m)."""
        return linalg.cholesky_solve(self.chol, f)

    def inverse(self) -> FloatArray:
        """Lower triangle of ``K^-1``, in Fortran order, with zeros above the diagonal."""
        return linalg.cholesky_inverse(self.chol)

    def log_prob(self, f: FloatArray) -> float:
        """Log density of f of shape (n,)."""
        v = self.whiten(f)
        return -0.5 * float(v @ v) - self.half_log_det - 0.5 * len(f) * linalg.LOG_TWO_PI

    # --- new inputs -------------------------------------------------------------------------------

    def condition_on(self, f: FloatArray) -> Conditional:
        """Return f* at new inputs given f of shape (n, g), one draw per column."""
        covariance, pivots = self._pivots_of_conditionals()
        common = (covariance, self.kernel_theta, self.root.triangle)
        return ConditionalGivenLatent(*common, self.whiten(f), pivots)

    def condition_on_white_sites(self, mean: FloatArray, factor: FloatArray) -> Conditional:
        """Return f* at new inputs given sites, from T = `whitened_factor` and the mean of v."""
        covariance, pivots = self._pivots_of_conditionals()
        common = (covariance, self.kernel_theta, self.root.triangle)
        return ConditionalGivenWhiteSites(*common, mean[:, None], pivots, factor)

    def _pivots_of_conditionals(self) -> tuple[Covariance, IntArray]:
        """Return a covariance, and the positions of the pivots among its inputs.

        Few inputs share their distances to new inputs, whatever the pivots. Of many inputs only the
        pivots are compared with new ones.
        """
        pivots = self.root.pivots
        many = self.size > _MOST_INPUTS_WITH_MATRIX and self.covariance.by_columns
        if many and self.low_rank:
            return self.covariance.of_inputs(pivots), np.arange(len(pivots))
        return self.covariance, pivots


@dataclass(frozen=True, eq=False)
class MatrixOfInputs:
    """K at a theta, by columns; see `MatrixByColumns`.

    Attributes
    ----------
    covariance : Covariance
    theta : ndarray of shape (p,)
        Hyper-parameters of the kernel, natural logs.
    """

    covariance: Covariance
    theta: FloatArray

    @property
    def diagonal(self) -> FloatArray:
        """See `MatrixByColumns`."""
        return self.covariance.diagonal(self.theta, self.covariance.X)

    def square(self, rows: IntArray) -> FloatArray:
        """See `MatrixByColumns`."""
        return self.covariance.of_inputs(rows).matrix(self.theta)

    def blocks(self, rows: IntArray) -> Iterator[tuple[slice, FloatArray]]:
        """See `MatrixByColumns`.

        Yields
        ------
        tuple of slice and ndarray
        """
        own = self.covariance.of_inputs(rows)
        for columns in linalg.split_entries(len(self.covariance.X), len(rows)):
            new = own.at_new(self.covariance.X[columns])
            yield columns, own.fast_cross(self.theta, new)


class RankError(MemoryError):
    """The memory is too small for a root of K, as K has nearly full rank."""

    def __init__(self, n: int) -> None:
        super().__init__(
            f"The covariance matrix of n = {n} distinct inputs is too large for the memory of this "
            "machine, and its rank is so large that a root does not fit in memory either: use a "
            "smoother kernel, such as RBF, on fewer columns, or a random subset of the rows. "
            "skgpmcmc.kernels.effective_rank finds the rank for a kernel and inputs."
        )
