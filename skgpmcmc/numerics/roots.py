"""Roots of covariances: the linear maps that shape proposals and momenta.

A root B stands for the covariance B B'. A random walk takes steps B z with z ~ N(0, I), a
Hamiltonian trajectory has the inverse mass matrix B B', and a Langevin proposal the inverse metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .._typing import FloatArray
from .linalg import half_log_det, solve_lower, transposed_lower_product


class Root(Protocol):
    """A linear map and its transpose, for vectors of shape (k,)."""

    def apply(self, z: FloatArray) -> FloatArray:
        """``B z``."""

    def pull(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""


class SquareRoot(Root, Protocol):
    """A root with an inverse."""

    def undo(self, step: FloatArray) -> FloatArray:
        """``B^-1 step``."""

    @property
    def log_det(self) -> float:
        """``log |det B|``."""


@dataclass(frozen=True)
class IdentityRoot:
    """B = I. In whitened coordinates of f it represents the covariance K."""

    def apply(self, z: FloatArray) -> FloatArray:
        """Return z."""
        return z

    def pull(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient."""
        return gradient


#: The only one there has to be.
IDENTITY = IdentityRoot()


@dataclass(frozen=True, eq=False)
class DenseRoot:
    """A small matrix, such as a covariance of hyper-parameters; its operations are not counted.

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

    def pull(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""
        return gradient @ self.matrix

    def undo(self, step: FloatArray) -> FloatArray:
        """``B^-1 step``, for one vector."""
        return np.asarray(np.linalg.solve(self.matrix, step))

    @property
    def log_det(self) -> float:
        """``log |det B|``."""
        return float(np.linalg.slogdet(self.matrix).logabsdet)


@dataclass(frozen=True, eq=False)
class FactorRoot:
    """``B = T'^-1`` for the factor T of a precision of v, v = L^-1 f.

    Attributes
    ----------
    factor : ndarray of shape (n, n)
        T, lower triangular.
    """

    factor: FloatArray

    def apply(self, z: FloatArray) -> FloatArray:
        """``B z``."""
        return solve_lower(self.factor, z, transpose=True)

    def pull(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""
        return solve_lower(self.factor, gradient)

    def undo(self, step: FloatArray) -> FloatArray:
        """``B^-1 step``."""
        return transposed_lower_product(self.factor, step)

    @property
    def log_det(self) -> float:
        """``log |det B|``."""
        return -half_log_det(self.factor)


@dataclass(frozen=True, eq=False)
class MassRoot:
    """``B = L^-1 M^-1/2``: the mass matrix M of f, transformed to whitened coordinates.

    Attributes
    ----------
    chol : ndarray of shape (n, n)
        L, the factor of K.
    root_mass : ndarray of shape (n,) or (n, n)
        Root of a diagonal M, or lower factor of a full one.
    """

    chol: FloatArray
    root_mass: FloatArray

    def apply(self, z: FloatArray) -> FloatArray:
        """``B z``."""
        if self.root_mass.ndim == 1:
            return solve_lower(self.chol, z / self.root_mass)
        return solve_lower(self.chol, solve_lower(self.root_mass, z, transpose=True))

    def pull(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""
        of_f = solve_lower(self.chol, gradient, transpose=True)
        if self.root_mass.ndim == 1:
            return of_f / self.root_mass
        return solve_lower(self.root_mass, of_f)
