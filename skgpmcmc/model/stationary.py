"""A constant times a stationary kernel: squared distances once, profiles by BLAS."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, Product

from .._typing import FloatArray
from .covariance import DEFAULT_JITTER, Covariance, CrossCovariance

__all__ = [
    "ConstantTimesStationary",
    "contract_distances",
    "profile_slope",
    "squared_distances",
    "stationary_nu",
]

#: Distances from which exp(-r) is zero.
_NOTHING_LEFT = 800.0


def _correlation(
    nu: float, D: FloatArray, scale: float = 1.0, *, out: FloatArray | None = None
) -> FloatArray:
    """Correlation k of RBF (nu = inf) and Matern at the squared distances ``scale * D``."""
    with np.errstate(over="ignore"):  # at an infinite distance nothing is left
        r = np.multiply(D, -0.5 * scale if nu == np.inf else 2.0 * nu * scale, out=out)
    if nu == np.inf:
        return np.exp(r, out=r)
    np.sqrt(r, out=r)
    np.minimum(r, _NOTHING_LEFT, out=r)  # an infinite distance times no correlation is none
    e = np.exp(-r)
    if nu == 0.5:
        return e
    if nu == 1.5:
        return (1.0 + r) * e
    return (1.0 + r + r * r / 3.0) * e


def profile_slope(nu: float, D: FloatArray) -> FloatArray:
    """Slope g = -2 dk/dD of the correlation.

    With D = sum_r (x_r - x'_r)^2 / tau_r^2, dk/dlog tau_r = g (x_r - x'_r)^2 / tau_r^2.
    """
    if nu == np.inf:
        return _correlation(nu, D)
    r = np.sqrt(2.0 * nu * D)
    e = np.exp(-r)
    if nu == 0.5:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(r > 0.0, e / r, 0.0)  # g D -> 0 at r = 0
    if nu == 1.5:
        return 3.0 * e
    return (5.0 / 3.0) * (1.0 + r) * e


def _inverse_square(length_scale: float) -> float:
    """``1 / length_scale**2``, a positive number however far out a chain proposes one."""
    return 1.0 / float(np.clip(length_scale, 1e-150, 1e150)) ** 2


_PROFILED_NU = (0.5, 1.5, 2.5, np.inf)


def stationary_nu(kernel: Kernel) -> float | None:
    """Smoothness of a kernel that `_correlation` covers (inf for RBF), else None."""
    if type(kernel) is RBF:
        return np.inf
    if type(kernel) is Matern and kernel.nu in _PROFILED_NU:
        return float(kernel.nu)
    return None


def contract_distances(Z: FloatArray, M: FloatArray) -> FloatArray:
    """``sum_ij M_ij (z_ir - z_jr)^2`` for every column r of Z, with one product."""
    Z = Z - Z.mean(axis=0)  # nothing changes but rounding
    sums = M.sum(axis=0) + M.sum(axis=1)
    return sums @ (Z * Z) - 2.0 * np.einsum("ir,ir->r", Z, M @ Z)


def squared_distances(Z: FloatArray, *, exact: bool) -> FloatArray:
    """Squared Euclidean distances of the rows of Z; through one product unless `exact`.

    The product form is off by about 1e-16 |z|^2, harmless where the correlation is smooth in D and
    visible where it goes as sqrt(D) (Matern with nu = 1/2), which therefore asks for `exact`.
    """
    if exact:
        return squareform(pdist(Z, "sqeuclidean"))
    Z = Z - Z.mean(axis=0)
    norms = np.einsum("ir,ir->i", Z, Z)
    # Two factors that numpy takes for different: of Z Z' it would compute one triangle and copy it
    # to the other against the order of memory, which takes longer than the product.
    D = Z @ (-2.0 * Z).T
    D += norms[:, None]
    D += norms
    np.maximum(D, 0.0, out=D)
    np.fill_diagonal(D, 0.0)
    return D


class ConstantTimesStationary(Covariance):
    """``ConstantKernel * RBF`` or ``* Matern``, isotropic or ARD, in either order.

    Attributes
    ----------
    nu : float
        Smoothness; inf for RBF.
    anisotropic : bool
        Whether there is more than one length-scale.
    """

    def __init__(self, kernel: Kernel, X: FloatArray, jitter: float = DEFAULT_JITTER) -> None:
        super().__init__(kernel, X, jitter)
        parts = (kernel.k1, kernel.k2)
        stationary = parts[1] if isinstance(parts[0], ConstantKernel) else parts[0]
        nu = stationary_nu(stationary)
        assert nu is not None  # `serves` has checked it
        self.nu = nu
        self.anisotropic = np.size(stationary.length_scale) > 1
        # Where constant and length-scale stand in (theta, fixed values).
        self._constant, self._length_scale = None, None
        position = 0
        for part in parts:
            size = part.n_dims
            where = slice(position, position + size) if size else None
            if isinstance(part, ConstantKernel):
                self._constant = where
                self._fixed_constant = float(part.constant_value)
            else:
                self._length_scale = where
                self._fixed_length_scale = np.atleast_1d(np.asarray(part.length_scale, dtype=float))
            position += size

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        if type(kernel) is not Product:
            return False
        parts = (kernel.k1, kernel.k2)
        return any(
            type(a) is ConstantKernel and stationary_nu(b) is not None
            for a, b in (parts, parts[::-1])
        )

    def __getstate__(self) -> dict[str, Any]:
        # The n x n distances are quicker to rebuild than to send or store.
        return {k: v for k, v in self.__dict__.items() if k != "_raw_distances"}

    @cached_property
    def _raw_distances(self) -> FloatArray:
        """Squared distances of the unscaled inputs, for the isotropic case."""
        return squared_distances(self.X, exact=True)

    def values(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Constant and length-scales on the natural scale."""
        constant = self._fixed_constant
        if self._constant is not None:
            constant = float(np.exp(theta[self._constant][0]))
        length_scale = self._fixed_length_scale
        if self._length_scale is not None:
            length_scale = np.exp(theta[self._length_scale])
        return constant, length_scale

    def _matrix(self, theta: FloatArray) -> FloatArray:
        constant, length_scale = self.values(theta)
        if self.anisotropic:
            D = self._scaled_distances(length_scale)
            K = _correlation(self.nu, D, out=D)
        else:
            K = _correlation(self.nu, self._raw_distances, _inverse_square(length_scale[0]))
        K *= constant
        return K.T  # symmetric: the transpose is the same matrix in Fortran order

    def _scaled_distances(self, length_scale: FloatArray) -> FloatArray:
        if not self.anisotropic:
            return self._raw_distances * _inverse_square(length_scale[0])
        return squared_distances(self.X / length_scale, exact=self.nu == 0.5)

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        constant, length_scale = self.values(theta)
        gradient = np.empty(len(theta))
        diagonal = constant * A.trace()
        np.fill_diagonal(A, 0.0)  # no distance there, and K may have its jitter
        if self._constant is not None:
            gradient[self._constant] = diagonal + np.einsum("ij,ij->", A, K)
        if self._length_scale is not None:
            A *= self._scaled_slope(constant, length_scale, K)
            if self.anisotropic:
                gradient[self._length_scale] = contract_distances(self.X / length_scale, A)
            else:
                total = np.einsum("ij,ij->", A, self._raw_distances.T)
                gradient[self._length_scale] = total * _inverse_square(length_scale[0])
        return gradient

    def _derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        constant, length_scale = self.values(theta)
        K = self._matrix(theta)
        if self._length_scale is None:
            if self._constant is not None:
                yield K
            return
        before = self._constant is not None and self._constant.start < self._length_scale.start
        if before:
            yield K.copy(order="F")
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
        if self._constant is not None and not before:
            yield K.copy(order="F")

    def _scaled_slope(self, constant: float, length_scale: FloatArray, K: FloatArray) -> FloatArray:
        """Constant times g, off the diagonal; (n, n), Fortran order."""
        if self.nu == np.inf:
            return K
        g = profile_slope(self.nu, self._scaled_distances(length_scale))
        g *= constant
        return g.T

    def at_new(self, X_new: FloatArray | CrossCovariance) -> CrossCovariance:
        """See `Covariance`."""
        return X_new if isinstance(X_new, CrossCovariance) else StationaryCross(self, X_new)

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
        K = _correlation(self.nu, D, out=D)
        K *= constant
        return K.T


class StationaryCross(CrossCovariance):
    """Keeps the distances to the training inputs, where one length-scale serves all features."""

    covariance: ConstantTimesStationary

    @cached_property
    def _raw_distances(self) -> FloatArray:
        """Squared distances of the unscaled inputs, for the isotropic case; (m, n)."""
        return cdist(self.X_new, self.covariance.X, "sqeuclidean")

    def cross(self, theta: FloatArray) -> FloatArray:
        if self.covariance.anisotropic:
            return self.covariance.between(theta, self.covariance.X, self.X_new)
        constant, length_scale = self.covariance.values(theta)
        K = _correlation(self.covariance.nu, self._raw_distances, _inverse_square(length_scale[0]))
        K *= constant
        return K.T
