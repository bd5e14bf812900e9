"""The Gaussian prior of the latent function at a theta, and what follows at new inputs.

A `Conditional` holds one factor, and no more: predictions keep them from one call to the next.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from .._typing import BoolArray, FloatArray, IntArray
from ..numerics import linalg
from ..numerics.dynamics import MassRoot
from .covariance import Covariance, CrossCovariance

T = TypeVar("T")


# --- new inputs ----------------------------------------------------------------------------------


class LatentMoments(NamedTuple):
    """Gaussian moments of f* at m new inputs, for g posterior draws that share theta."""

    mean: FloatArray  # (m, g), latent scale; (C, m, g) for C latent functions
    var: FloatArray  # (m,), latent scale, shared by the draws; (C, m)


class Conditional(ABC):
    """f* at new inputs, Gaussian, for g things that may be known of f."""

    @abstractmethod
    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """Return moments at new inputs of shape (m, d), or what `Covariance.at_new` made of them.

        A row depends on its own input alone.
        """

    @abstractmethod
    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """Mean (m, g) and covariance (m, m) of f* at all rows, or (C, m, g) and (C, m, m)."""

    @abstractmethod
    def of(self, columns: IntArray) -> Conditional:
        """Return the same for some of the g, (k,), which may occur several times."""

    @property
    @abstractmethod
    def n_bytes(self) -> int:
        """Of the arrays that it holds."""


@dataclass(frozen=True, eq=False)
class OfFunction(Conditional):
    """f* of one function: its variance is k** less ``half' half``.

    Attributes
    ----------
    covariance : Covariance
    kernel_theta : ndarray of shape (p,)
        Natural logs.
    factor : ndarray of shape (n, n)
        Lower triangle.
    coefficients : ndarray of shape (n, g)
        What means are linear in.
    """

    covariance: Covariance
    kernel_theta: FloatArray
    factor: FloatArray
    coefficients: FloatArray

    @abstractmethod
    def _projected(self, cross: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (m, g) and half (n, m) from k* of shape (n, m), which may be overwritten."""

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """See `Conditional`."""
        new = self.covariance.at_new(X_new)
        mean, half = self._projected(self.covariance.cross(self.kernel_theta, new))
        var = self.covariance.diagonal(self.kernel_theta, new.X_new)
        return LatentMoments(mean, np.maximum(var - np.einsum("im,im->m", half, half), 0.0))

    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """See `Conditional`."""
        new = self.covariance.at_new(X_new)
        mean, half = self._projected(self.covariance.cross(self.kernel_theta, new))
        return mean, self.covariance.square(self.kernel_theta, new.X_new) - half.T @ half

    def of(self, columns: IntArray) -> Conditional:
        """See `Conditional`."""
        return replace(self, coefficients=self.coefficients[:, columns])

    @property
    def n_bytes(self) -> int:
        """See `Conditional`."""
        return self.factor.nbytes + self.coefficients.nbytes


class GivenLatent(OfFunction):
    """f* given f: k*' K^-1 f and k** - k*' K^-1 k*, from L and L^-1 f."""

    def _projected(self, cross: FloatArray) -> tuple[FloatArray, FloatArray]:
        half = linalg.solve_lower(self.factor, cross, overwrite=True)
        return half.T @ self.coefficients, half


@dataclass(frozen=True, eq=False)
class GivenSites(OfFunction):
    """f* given Gaussian sites of precision W: k*' a and k** - k*' (K + W^-1)^-1 k*.

    From the factor of B = I + s s' o K with s = W^1/2; Rasmussen & Williams (2006), (3.21) and
    (3.24), in the form without K^-1.
    """

    root_precision: FloatArray  # s, (n,)

    def _projected(self, cross: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = cross.T @ self.coefficients
        cross *= self.root_precision[:, None]
        return mean, linalg.solve_lower(self.factor, cross, overwrite=True)


@dataclass(frozen=True, eq=False)
class OfFunctions(Conditional):
    """f* of C independent functions that have hyper-parameters of their own."""

    functions: Sequence[Conditional]

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """See `Conditional`."""
        return LatentMoments(*_stacked([own.predict(X_new) for own in self.functions]))

    def predict_jointly(self, X_new: FloatArray | CrossCovariance) -> tuple[FloatArray, FloatArray]:
        """See `Conditional`."""
        return _stacked([own.predict_jointly(X_new) for own in self.functions])

    def of(self, columns: IntArray) -> Conditional:
        """See `Conditional`."""
        return OfFunctions([own.of(columns) for own in self.functions])

    @property
    def n_bytes(self) -> int:
        """See `Conditional`."""
        return sum(own.n_bytes for own in self.functions)


@dataclass(frozen=True, eq=False)
class OfAlikeFunctions(Conditional):
    """f* of C independent functions that share their hyper-parameters, and so a factor.

    Attributes
    ----------
    side_by_side : Conditional
        Its columns are those of the first function, then of the second, and so on.
    n_functions, n_columns : int
        Functions, and columns of each.
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

    def of(self, columns: IntArray) -> Conditional:
        """See `Conditional`."""
        first = np.arange(self.n_functions)[:, None] * self.n_columns
        return replace(
            self,
            side_by_side=self.side_by_side.of((first + columns).ravel()),
            n_columns=len(columns),
        )

    def _by_function(self, mean: FloatArray) -> FloatArray:
        return np.moveaxis(mean.reshape(len(mean), self.n_functions, -1), 1, 0)

    @property
    def n_bytes(self) -> int:
        """See `Conditional`."""
        return self.side_by_side.n_bytes


def _stacked(pairs: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    first, second = zip(*pairs, strict=True)
    return np.stack(first), np.stack(second)


# --- the prior -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GaussianPrior:
    """p(f | theta) = N(f; 0, K): the only holder of a Cholesky factor of K.

    Attributes
    ----------
    covariance : Covariance
    theta : ndarray of shape (p,)
        Hyper-parameters of the model: first the kernel's, natural logs. What follows belongs to
        the likelihood.
    matrix : ndarray of shape (n, n), optional
        K, where it has been made.
    """

    covariance: Covariance
    theta: FloatArray
    matrix: FloatArray | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Matrices are rebuilt on demand: states stay O(n) when they travel between processes.
        return {"covariance": self.covariance, "theta": self.theta, "matrix": None}

    @property
    def kernel_theta(self) -> FloatArray:
        """Hyper-parameters of the kernel alone, natural logs."""
        return self.theta[: len(self.covariance.start)]

    @cached_property
    def K(self) -> FloatArray:
        """Covariance matrix, jitter included; (n, n), Fortran order."""
        return self.covariance.matrix(self.kernel_theta) if self.matrix is None else self.matrix

    @cached_property
    def chol(self) -> FloatArray:
        """Lower Cholesky factor L of K.

        Raises
        ------
        NotPositiveDefiniteError
            If K is singular in double precision in spite of its jitter.
        """
        return linalg.cholesky(self.K)

    def made(self) -> Self:
        """Return itself, its factor made now: this is where a singular K shows."""
        _ = self.chol
        return self

    @property
    def half_log_det(self) -> float:
        """``1/2 log |K|``."""
        return linalg.half_log_det(self.chol)

    @property
    def size(self) -> int:
        """Number of latent values."""
        return len(self.covariance.X)

    @cached_property
    def _remembered(self) -> dict[Hashable, Any]:
        return {}

    def remember(self, what: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once and kept as long as the factor of K is.

        For matrices that belong to theta and the data alone, such as a mass matrix: they serve all
        states that share this prior. `what` names them and the model that they belong to.
        """
        if what not in self._remembered:
            self._remembered[what] = make()
        found: T = self._remembered[what]
        return found

    def split(self, f: FloatArray) -> FloatArray:
        """Return values of shape (n, ...) by latent function; (1, n, ...)."""
        return f[None]

    def forget(self) -> None:
        """Drop what was remembered, which may refer to this prior and so keep it in memory."""
        self._remembered.clear()

    def derivatives(self) -> Iterator[FloatArray]:
        """Give ``dK / dtheta_r`` for the kernel's hyper-parameters, one after the other."""
        return self.covariance.derivatives(self.kernel_theta)

    def contract(self, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r`` for the kernel's hyper-parameters; overwrites A."""
        return self.covariance.contract(self.kernel_theta, A, K=self.K, overwrite=True)

    def times(self, g: FloatArray) -> FloatArray:
        """``K g``, of the shape of g: (n,) or (n, m)."""
        return linalg.product(self.K, g)

    @property
    def variance(self) -> FloatArray:
        """Variances of f, the diagonal of K; (n,)."""
        return self.K.diagonal()

    def solve(self, f: FloatArray) -> FloatArray:
        """``K^-1 f`` for f of shape (n,) or (n, m)."""
        return linalg.cholesky_solve(self.chol, f)

    def solve_added(self, precision: FloatArray, g: FloatArray) -> FloatArray:
        """``(I + W K)^-1 g`` for a diagonal W of any sign and g of shape (n,)."""
        B = np.eye(self.size) + precision[:, None] * self.K
        return np.asarray(np.linalg.solve(B, g), dtype=float)

    def inverse(self) -> FloatArray:
        """Lower triangle of ``K^-1``, in Fortran order, with zeros above the diagonal."""
        return linalg.cholesky_inverse(self.chol)

    def inverse_added(self, noise: FloatArray, factor: FloatArray) -> FloatArray:
        """``(K + S)^-1`` for a diagonal S, from T = `whitened_factor` of S^-1/2; (n, n)."""
        half = linalg.solve_lower(factor, np.asfortranarray(self.chol.T / noise))
        return linalg.add_to_diagonal(-linalg.product(half.T, half), 1.0 / noise)

    def pull(self, x: FloatArray) -> FloatArray:
        """``L' x`` for x of shape (n,) or (n, m)."""
        if x.ndim == 1:
            return linalg.transposed_lower_product(self.chol, x)
        return linalg.product(self.chol.T, x)

    def unpull(self, x: FloatArray) -> FloatArray:
        """``L'^-1 x`` for x of shape (n,) or (n, m)."""
        return linalg.solve_lower(self.chol, x, transpose=True)

    def columns(self, which: BoolArray) -> FloatArray:
        """Return columns of K where the mask of shape (n,) says so; copied in Fortran order."""
        return self.K.T[which].T  # K is symmetric

    def smoothed_factor(self, root_precision: FloatArray) -> FloatArray:
        """Lower Cholesky factor of B = I + s s' o K for s = W^1/2 of shape (n,)."""
        if (root_precision == root_precision[0]).all():  # the noise of all rows is the same
            B = np.multiply(self.K, root_precision[0] ** 2, order="F")
        else:
            B = np.multiply(self.K, root_precision[:, None], order="F")
            B *= root_precision
        return linalg.cholesky(linalg.add_to_diagonal(B, 1.0), overwrite=True)

    def whitened_factor(self, root_precision: FloatArray) -> FloatArray:
        """Lower Cholesky factor T of I + L'W L, the precision of L^-1 f given sites W."""
        scaled = np.multiply(self.chol, root_precision[:, None], order="F")
        return linalg.cholesky(
            linalg.add_to_diagonal(linalg.lower_gram(scaled), 1.0), overwrite=True
        )

    def variance_given(self, factor: FloatArray) -> FloatArray:
        """Return variances of f given sites, from T = `whitened_factor`; (n,), one solve."""
        half = self.half_given(factor, np.arange(self.size))
        return np.asarray(np.einsum("ij,ij->j", half, half))

    def half_given(self, factor: FloatArray, rows: IntArray) -> FloatArray:
        """``T^-1 L'`` of some rows: ``half' half`` is their covariance given sites; (n, r)."""
        return linalg.solve_lower(factor, np.asfortranarray(self.chol[rows].T), overwrite=True)

    def smoothed(self, E: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``E K`` and the diagonal of K - K E K, for E = (K + W^-1)^-1 of shape (n, n).

        The latter are variances of f given sites W.
        """
        half = linalg.product(E, self.K)
        return half, self.variance - np.einsum("ij,ij->j", self.K, half)

    def gram(self, weight: FloatArray) -> FloatArray:
        """``L'W L`` for a diagonal W of any sign; (n, n)."""
        return linalg.product(self.chol.T, weight[:, None] * self.chol)

    def gram_pullback(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``L A`` and the diagonal of ``L A L'``, for a symmetric A of shape (n, n).

        A being derivatives in L'W L, 2 W L A are those in L, and the diagonal is those in W.
        """
        LA = self.unwhiten(A)
        return LA, np.einsum("ij,ij->i", LA, self.chol)

    def root_pullback(self, L_bar: FloatArray) -> FloatArray:
        """Turn derivatives in L into those in K, ready for `contract`; see `cholesky_pullback`."""
        return linalg.cholesky_pullback(self.chol, L_bar)

    def root_pushforward(self, dK: FloatArray) -> FloatArray:
        """``L^-1 dL`` for the change dL that a change dK makes of L; (n, n), lower triangular."""
        return linalg.cholesky_pushforward(self.chol, dK)

    def mass_root(self, root_mass: FloatArray) -> MassRoot:
        """Return the root of M^-1, as v = L^-1 f sees it, for a root of a mass matrix M of f."""
        return MassRoot(self.chol, root_mass)

    def log_prob(self, f: FloatArray) -> float:
        """Log density of f of shape (n,)."""
        v = self.whiten(f)
        return -0.5 * float(v @ v) - self.half_log_det - 0.5 * len(f) * np.log(2 * np.pi)

    def whiten(self, f: FloatArray) -> FloatArray:
        """``v = L^-1 f``, of the shape of f: (n,) or (n, m)."""
        return linalg.solve_lower(self.chol, f)

    def unwhiten(self, v: FloatArray) -> FloatArray:
        """``f = L v``, of the shape of v: (n,) or (n, m)."""
        return linalg.lower_product(self.chol, v)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> FloatArray:
        """Draw f: (n,) without `size`, else one draw per column, (n, size)."""
        if size is None:
            return self.unwhiten(rng.standard_normal(self.size))
        return self.unwhiten(rng.standard_normal((size, self.size)).T)

    def given(self, f: FloatArray) -> Conditional:
        """Return f* at new inputs given f of shape (n, g), one draw per column."""
        return GivenLatent(self.covariance, self.kernel_theta, self.chol, self.whiten(f))
