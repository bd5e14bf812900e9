"""The covariance of f as a function of theta: matrices, and gradients by contraction.

A `Covariance` binds a kernel to the training inputs. Its hyper-parameters theta are natural logs in
scikit-learn's order (``kernel.theta``). Gradients never build an (n, n, p) array: approximations
only need ``sum_ij A_ij dK_ij / dtheta_r`` for one matrix A, which `Covariance.contract` computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    Kernel,
    Matern,
    Product,
)

from .._caches import ForgetsCaches
from .._typing import FloatArray, IntArray

#: Classes that evaluate some kernels without scikit-learn; the first that serves a kernel is used.
_FAST_COVARIANCES: list[type[Covariance]] = []


def make_covariance(kernel: Kernel, X: FloatArray) -> Covariance:
    """Bind a kernel to training inputs, by the first fast covariance that serves the kernel."""
    kind = next((own for own in _FAST_COVARIANCES if own.serves(kernel)), Covariance)
    return kind(kernel, X)


class Covariance(ForgetsCaches):
    """Any scikit-learn kernel bound to the training inputs X of shape (n, d).

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    names : tuple of str
        Name of each component of theta, as in ``kernel.hyperparameters``; the components of a
        vector share theirs.
    start : ndarray of shape (p,)
        ``kernel.theta``: natural logs of the kernel's own values.
    """

    def __init__(self, kernel: Kernel, X: FloatArray) -> None:
        self.kernel = kernel
        self.X = X
        self.names: tuple[str, ...] = tuple(
            h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)
        )
        self.start: FloatArray = np.asarray(kernel.theta, dtype=float)

    def __init_subclass__(cls) -> None:
        # A class that is defined again, as in a notebook, takes the place of its earlier version.
        own = (cls.__module__, cls.__qualname__)
        others = [kind for kind in _FAST_COVARIANCES if (kind.__module__, kind.__qualname__) != own]
        _FAST_COVARIANCES[:] = [*others, cls]

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether this class can evaluate a kernel; this base class can evaluate any kernel."""
        return False

    def of_inputs(self, inputs: IntArray) -> Covariance:
        """Return the covariance of some of the inputs, given by their positions."""
        return type(self)(self.kernel, self.X[inputs])

    def matrix(self, theta: FloatArray) -> FloatArray:
        """K at the training inputs; (n, n), Fortran order."""
        return np.array(self.kernel.clone_with_theta(theta)(self.X), dtype=float).T

    def contract(
        self,
        theta: FloatArray,
        A: FloatArray,
        *,
        K: FloatArray | None = None,
        overwrite: bool = False,
    ) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r``; shape (p,).

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Hyper-parameters, natural logs.
        A : ndarray of shape (n, n)
            Only A + A' matters: a lower triangle with half the diagonal stands for half of the
            symmetric matrix.
        K : ndarray of shape (n, n), optional
            ``matrix(theta)``, if it is known already.
        overwrite : bool
            Work in the memory of `A`.
        """
        A = A if overwrite else A.copy(order="F")
        return self._contract(theta, A, self.matrix(theta) if K is None else K)

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """Give ``dK / dtheta_r``, one (n, n) matrix after the other, freshly allocated.

        They serve where a contraction does not suffice, as for the Fisher information of theta.
        theta has shape (p,), natural logs.
        """
        _, dK = self.kernel.clone_with_theta(theta)(self.X, eval_gradient=True)
        return (np.array(dK[:, :, r], order="F") for r in range(len(theta)))

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        """Return the contraction; may overwrite A."""
        if not len(theta):
            return np.empty(0)
        _, dK = self.kernel.clone_with_theta(theta)(self.X, eval_gradient=True)
        return np.einsum("ij,ijr->r", A, dK)

    @property
    def of_training(self) -> Covariance:
        """Covariance of the training inputs with one another, where that with new ones differs."""
        return self

    @property
    def by_columns(self) -> bool:
        """Whether the rows that `fast_cross` makes are those of `matrix`."""
        return True

    def at_new(self, X_new: FloatArray | CrossCovariance) -> CrossCovariance:
        """Bind new inputs of shape (m, d) too.

        A `CrossCovariance` is returned unchanged, unless its training inputs are more.
        """
        if not isinstance(X_new, CrossCovariance):
            return CrossCovariance(self, X_new)
        alike = len(X_new.covariance.X) == len(self.X)
        return X_new if alike else CrossCovariance(self, X_new.X_new)

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """Covariance of the training inputs with new ones; (n, m), Fortran order.

        Freshly allocated. A column depends on its own new input alone.
        """
        kernel = self.kernel.clone_with_theta(theta)
        return np.asfortranarray(kernel(self.X, self.at_new(X_new).X_new))

    def fast_cross(self, theta: FloatArray, new: CrossCovariance) -> FloatArray:
        """``cross(theta, new)`` by the fastest method; (n, m), Fortran order.

        Rounding errors of an entry may depend on all inputs.
        """
        return self.cross(theta, new)

    def contract_cross(
        self, theta: FloatArray, new: CrossCovariance, A: FloatArray, K: FloatArray
    ) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r`` for K = ``cross(theta, new)``; shape (p,).

        A and K have the shape (n, m).
        """
        n = len(self.X)
        total = np.zeros(len(theta))
        # Kernels have gradients for one set of inputs only: both sets are stacked, block by block.
        for start in range(0, len(new.X_new), n):
            block = slice(start, start + n)
            X = np.concatenate([self.X, new.X_new[block]])
            stacked = np.zeros((len(X), len(X)), order="F")
            stacked[:n, n:] = A[:, block]
            total += Covariance(self.kernel, X)._contract(theta, stacked, stacked)
        return total

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Prior variance at new inputs; (m,)."""
        return np.asarray(self.kernel.clone_with_theta(theta).diag(X_new))

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Prior covariance of new inputs with one another; (m, m)."""
        return np.asarray(self.kernel.clone_with_theta(theta)(X_new))


@dataclass(frozen=True, eq=False)
class CrossCovariance:
    """A covariance bound to m new inputs as well, for predictions at many values of theta.

    Attributes
    ----------
    covariance : Covariance
    X_new : ndarray of shape (m, d)
    """

    covariance: Covariance
    X_new: FloatArray

    @cached_property
    def distances(self) -> FloatArray:
        """Squared distances to the training inputs, (m, n), computed once for all theta."""
        return cdist(self.X_new, self.covariance.X, "sqeuclidean")

    @cached_property
    def _of_columns(self) -> dict[tuple[int, ...], CrossCovariance]:
        return {}

    def on_columns(self, part: Covariance, columns: tuple[int, ...]) -> CrossCovariance:
        """Bind these columns of the new inputs to the covariance of a part, once for all theta.

        Parts that see the same columns share the result, as they have the same inputs.
        """
        if columns not in self._of_columns:
            self._of_columns[columns] = CrossCovariance(part, self.X_new[:, columns])
        return self._of_columns[columns]


#: Most rows for which a covariance keeps the distances of its inputs.
MOST_ROWS_WITH_DISTANCES = 2000
#: Entries of a matrix that are computed in one call, so that they stay in the processor's cache.
_ENTRIES_PER_CALL = 2**16
#: Distance r from which exp(-r) is zero in double precision.
_MOST_SCALED_DISTANCE = 800.0


def correlation(
    nu: float,
    D: FloatArray,
    scale: float = 1.0,
    *,
    constant: float = 1.0,
    out: FloatArray | None = None,
) -> FloatArray:
    """Constant times the correlation of RBF (nu = inf) or Matern; scale D are squared distances."""
    with np.errstate(over="ignore"):  # the correlation at an infinite distance is zero
        r = np.multiply(D, -0.5 * scale if nu == np.inf else 2.0 * nu * scale, out=out)
    if nu == np.inf:
        k = np.exp(r, out=r)
    else:
        np.sqrt(r, out=r)
        # Infinity times a correlation of zero would be NaN.
        np.minimum(r, _MOST_SCALED_DISTANCE, out=r)
        k = np.exp(-r)
    if nu == 1.5:
        k = (1.0 + r) * k
    elif nu == 2.5:
        k = (1.0 + r + r * r / 3.0) * k
    k *= constant
    return k


def correlation_slope(nu: float, D: FloatArray, scale: float = 1.0) -> FloatArray:
    """Slope g = -2 dk/dD of the correlation k, at squared distances ``scale * D``.

    With D = sum_r (x_r - x'_r)^2 / tau_r^2, dk/dlog tau_r = g (x_r - x'_r)^2 / tau_r^2.
    """
    if nu == np.inf:
        return correlation(nu, D, scale)
    r = np.sqrt(2.0 * nu * scale * D)
    e = np.exp(-r)
    if nu == 0.5:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(r > 0.0, e / r, 0.0)  # g D -> 0 at r = 0
    return 3.0 * e if nu == 1.5 else (5.0 / 3.0) * (1.0 + r) * e


def _inverse_square(length_scale: FloatArray) -> FloatArray:
    """``1 / length_scale**2``, positive and finite for any length-scale that a chain proposes."""
    return 1.0 / np.minimum(np.maximum(length_scale, 1e-150), 1e150) ** 2


#: Smoothness of the stationary kernels that `correlation` covers; inf is RBF.
_COVERED_NU = (0.5, 1.5, 2.5, np.inf)
#: The constant of a kernel that has none.
_UNIT_CONSTANT = ConstantKernel(1.0, "fixed")


def _split_factors(kernel: Kernel) -> tuple[ConstantKernel, Kernel, float] | None:
    """Return constant, stationary factor and its smoothness; None for other kernels."""
    parts = (kernel.k1, kernel.k2) if type(kernel) is Product else (_UNIT_CONSTANT, kernel)
    for constant, stationary in (parts, parts[::-1]):
        kind = type(stationary)
        nu = np.inf if kind is RBF else stationary.nu if kind is Matern else None
        if type(constant) is ConstantKernel and nu in _COVERED_NU:
            return constant, stationary, float(nu)
    return None


@dataclass(frozen=True, eq=False)
class CenteredInputs:
    """Coordinates of some inputs, as `contract_distances` uses them."""

    with_ones: FloatArray  # (n, d + 1): coordinates relative to a middle, and a column of ones
    squares: FloatArray  # (n, d): squares of these coordinates

    @classmethod
    def of(cls, Z: FloatArray, middle: FloatArray) -> CenteredInputs:
        """Subtract a middle from the coordinates, which reduces rounding errors of distances."""
        with_ones = np.ones((len(Z), Z.shape[1] + 1))
        np.subtract(Z, middle, out=with_ones[:, :-1])
        return cls(with_ones, with_ones[:, :-1] ** 2)


def contract_distances(Z: CenteredInputs, Z_new: CenteredInputs, M: FloatArray) -> FloatArray:
    """``sum_ij M_ij (z_ir - z'_jr)^2`` for every column r of Z and of Z', with one product."""
    products = M @ Z_new.with_ones
    squares = products[:, -1] @ Z.squares + M.sum(axis=0) @ Z_new.squares
    return np.asarray(squares - 2.0 * np.vecdot(Z.with_ones.T, products.T)[:-1])


def squared_distances(Z: FloatArray, Z_new: FloatArray, *, exact: bool) -> FloatArray:
    """Squared distances of rows of Z_new and of Z, (m, n); by one product unless `exact`.

    The product has an error of about 1e-16 |z|^2. It is harmless if the correlation is smooth in D,
    but not if the correlation depends on sqrt(D), as for Matern with nu = 1/2, which needs `exact`.
    """
    if exact:
        return cdist(Z_new, Z, "sqeuclidean")
    middle = Z.mean(axis=0)
    return np.maximum(np.matmul(*_factor_distances(Z - middle, Z_new - middle)), 0.0)


def _factor_distances(Z: FloatArray, Z_new: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two matrices, (m, d + 2) and (d + 2, n), whose product has the squared distances.

    The coordinates should be relative to a middle, which reduces rounding errors.
    """
    d = Z.shape[1]
    squares = np.vecdot(Z, Z)
    left = np.empty((len(Z_new), d + 2))
    right = np.empty((d + 2, len(Z)))
    np.multiply(Z_new, -2.0, out=left[:, :d])
    left[:, d] = squares if Z_new is Z else np.vecdot(Z_new, Z_new)
    left[:, d + 1] = 1.0
    right[:d] = Z.T
    right[d] = 1.0
    right[d + 1] = squares
    return left, right


class ConstantTimesStationary(Covariance):
    """``ConstantKernel * RBF`` or ``* Matern``, isotropic or ARD, in either order, or alone.

    Attributes
    ----------
    nu : float
        Smoothness; inf for RBF.
    anisotropic : bool
        Whether there is more than one length-scale.
    of_constant, of_length_scale : slice
        Where the constant and the length-scales stand in theta.
    """

    def __init__(self, kernel: Kernel, X: FloatArray) -> None:
        super().__init__(kernel, X)
        factors = _split_factors(kernel)
        assert factors is not None  # `serves` has checked it
        constant, stationary, self.nu = factors
        last = getattr(kernel, "k2", None) is constant
        middle = (stationary if last else constant).n_dims
        where = slice(0, middle), slice(middle, None)
        self.of_constant = where[1] if last else where[0]
        self.of_length_scale = where[not last]
        self._fixed_constant = float(constant.constant_value)
        self._fixed_length_scale = np.atleast_1d(np.asarray(stationary.length_scale, dtype=float))
        self.anisotropic = np.size(stationary.length_scale) > 1
        # Distances that change with theta, or take much memory, are computed in every call.
        self._from_inputs = self.anisotropic or len(X) > MOST_ROWS_WITH_DISTANCES
        self._exact = self.nu == 0.5 or not self.anisotropic  # see `squared_distances`

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return _split_factors(kernel) is not None

    @cached_property
    def _raw_distances(self) -> FloatArray:
        """Squared distances of the unscaled inputs, for the isotropic case."""
        return squareform(pdist(self.X, "sqeuclidean"))

    def _map_distances(
        self, function: Callable[[FloatArray], FloatArray], length_scale: FloatArray
    ) -> FloatArray:
        """Apply a function to the squared distances of the scaled inputs, block by block; (n, n).

        The function may overwrite the distances and return them, which saves the allocation of
        large arrays.
        """
        X = self.X if self._exact else self.centered_inputs.with_ones[:, :-1]
        Z = np.asarray(X / length_scale)
        n = len(Z)
        left, right = (Z, Z) if self._exact else _factor_distances(Z, Z)
        out = np.empty((n, n))
        n_rows = max(_ENTRIES_PER_CALL // n, 1)
        for start in range(0, n, n_rows):
            rows = slice(start, start + n_rows)
            D = out[rows]
            if self._exact:
                cdist(left[rows], right, "sqeuclidean", out=D)
            else:
                np.matmul(left[rows], right, out=D)
            np.maximum(D, 0.0, out=D)
            D.flat[start :: n + 1] = 0.0  # the distance of a row to itself, without rounding errors
            found = function(D)
            if found is not D:
                D[:] = found
        return out

    @cached_property
    def centered_inputs(self) -> CenteredInputs:
        """The inputs relative to their mean, for contractions."""
        return CenteredInputs.of(self.X, self.X.mean(axis=0))

    def values(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Constant and length-scales on the natural scale."""
        constant = theta[self.of_constant]
        length_scale = theta[self.of_length_scale]
        return (
            float(np.exp(constant[0])) if len(constant) else self._fixed_constant,
            np.exp(length_scale) if len(length_scale) else self._fixed_length_scale,
        )

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        constant, length_scale = self.values(theta)
        if self._from_inputs:
            K = self._map_distances(
                lambda D: correlation(self.nu, D, constant=constant, out=D), length_scale
            )
        else:
            scale = _inverse_square(length_scale)[0]
            K = correlation(self.nu, self._raw_distances, scale, constant=constant)
        K.flat[:: len(K) + 1] = constant
        return K.T  # symmetric: the same matrix in Fortran order

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        constant, length_scale = self.values(theta)
        gradient = np.empty(len(theta))
        on_diagonal = A.flat[:: len(A) + 1]
        A.flat[:: len(A) + 1] = 0.0  # the distance of an input to itself does not change
        if len(gradient[self.of_constant]):
            gradient[self.of_constant] = constant * on_diagonal.sum() + np.einsum("ij,ij->", A, K)
        if len(gradient[self.of_length_scale]):
            A *= self._scaled_slope(constant, length_scale, K)
            if self._from_inputs:
                slopes = contract_distances(self.centered_inputs, self.centered_inputs, A)
            else:
                slopes = np.einsum("ij,ij->", A, self._raw_distances.T)
            slopes = slopes * _inverse_square(length_scale)
            gradient[self.of_length_scale] = slopes if self.anisotropic else slopes.sum()
        return gradient

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`.

        Yields
        ------
        ndarray of shape (n, n)
            Freshly allocated.
        """
        constant, length_scale = self.values(theta)
        K = self.matrix(theta)
        whole = [K] if len(theta[self.of_constant]) else []
        if self.of_constant.start == 0:
            yield from (dK.copy(order="F") for dK in whole)
        if len(theta[self.of_length_scale]):
            slope = self._scaled_slope(constant, length_scale, K)
            for r, tau in enumerate(length_scale):
                if self.anisotropic:
                    distance = np.subtract.outer(self.X[:, r], self.X[:, r]) ** 2
                else:
                    distance = self._raw_distances
                dK = np.multiply(slope, distance.T, order="F")
                dK /= tau**2
                np.fill_diagonal(dK, 0.0)
                yield dK
        if self.of_constant.start > 0:
            yield from (dK.copy(order="F") for dK in whole)

    def _scaled_slope(self, constant: float, length_scale: FloatArray, K: FloatArray) -> FloatArray:
        """Constant times g, off the diagonal; (n, n), Fortran order."""
        if self.nu == np.inf:
            return K
        if self._from_inputs:
            g = self._map_distances(partial(correlation_slope, self.nu), length_scale)
        else:
            g = correlation_slope(self.nu, self._raw_distances, _inverse_square(length_scale)[0])
        g *= constant
        return g.T

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        new = self.at_new(X_new)
        if self.anisotropic:
            return self.between(theta, self.X, new.X_new)
        constant, length_scale = self.values(theta)
        (scale,) = _inverse_square(length_scale)
        return correlation(self.nu, new.distances, scale, constant=constant).T

    def fast_cross(self, theta: FloatArray, new: CrossCovariance) -> FloatArray:
        """See `Covariance`: distances that change with theta are computed by one product."""
        if not self.anisotropic:
            return self.cross(theta, new)
        constant, length_scale = self.values(theta)
        Z = self.X / length_scale
        D = squared_distances(Z, new.X_new / length_scale, exact=self.nu == 0.5).T
        return correlation(self.nu, D, constant=constant, out=D)

    def contract_cross(
        self, theta: FloatArray, new: CrossCovariance, A: FloatArray, K: FloatArray
    ) -> FloatArray:
        """See `Covariance`: K is c k(D), and dK/dlog tau_r is c g (x_r - x'_r)^2 / tau_r^2."""
        gradient = np.empty(len(theta))
        constant, length_scale = self.values(theta)
        weighted = A * K
        gradient[self.of_constant] = weighted.sum()
        if len(gradient[self.of_length_scale]):
            Z = self.X / length_scale
            Z_new = new.X_new / length_scale
            if self.nu < np.inf:  # for RBF the slope c g is K
                D = squared_distances(Z, Z_new, exact=self.nu == 0.5).T
                weighted = A * (constant * correlation_slope(self.nu, D))
            middle = Z.mean(axis=0)
            centered = CenteredInputs.of(Z, middle), CenteredInputs.of(Z_new, middle)
            slopes = contract_distances(*centered, weighted)
            gradient[self.of_length_scale] = slopes if self.anisotropic else slopes.sum()
        return gradient

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return np.full(len(X_new), self.values(theta)[0])

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.between(theta, X_new, X_new)

    def between(self, theta: FloatArray, X: FloatArray, X_new: FloatArray) -> FloatArray:
        """Covariance of some inputs with new ones, from their scaled distances."""
        constant, length_scale = self.values(theta)
        D = cdist(X_new / length_scale, X / length_scale, "sqeuclidean")
        return correlation(self.nu, D, constant=constant, out=D).T
