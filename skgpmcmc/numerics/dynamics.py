"""Linear maps that shape steps and momenta, and the trajectories of Hamiltonian dynamics.

A root B represents the covariance B B'. A random walk takes steps B z with z ~ N(0, I); B B' is the
inverse mass matrix of a Hamiltonian trajectory, and the inverse metric of a Langevin proposal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from .._typing import FloatArray
from .linalg import half_log_det, lower_product, solve_lower


class Root(Protocol):
    """A linear map and its transpose, for vectors of shape (k,)."""

    def apply(self, z: FloatArray) -> FloatArray:
        """``B z``."""

    def apply_transpose(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""


class SquareRoot(Root, Protocol):
    """A root with an inverse."""

    def solve(self, step: FloatArray) -> FloatArray:
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

    def apply_transpose(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient."""
        return gradient


#: The one instance of `IdentityRoot`, which has no fields.
IDENTITY = IdentityRoot()


@dataclass(frozen=True, eq=False)
class FactorRoot:
    """``B = T'^-1`` for the factor T of a precision matrix of v, where f = L v.

    Attributes
    ----------
    factor : ndarray of shape (n, n)
        T, lower triangular.
    """

    factor: FloatArray

    def apply(self, z: FloatArray) -> FloatArray:
        """``B z``."""
        return solve_lower(self.factor, z, transpose=True)

    def apply_transpose(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""
        return solve_lower(self.factor, gradient)

    def solve(self, step: FloatArray) -> FloatArray:
        """``B^-1 step``."""
        return lower_product(self.factor, step, transpose=True)

    @property
    def log_det(self) -> float:
        """``log |det B|``."""
        return -half_log_det(self.factor)


@dataclass(frozen=True, eq=False)
class DenseRoot:
    """B of a few hyper-parameters, as a matrix; its operations are not counted.

    B maps vectors of shape (p,), or each row of a batch of shape (m, p).

    Attributes
    ----------
    matrix : ndarray of shape (p, p)
    """

    matrix: FloatArray

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


class DensityPoint(Protocol):
    """A position in some coordinates, with its log density and the gradient."""

    @property
    def position(self) -> FloatArray:
        """The coordinates; (k,)."""

    @property
    def log_density(self) -> Any:
        """Log of the density, up to a constant: a number, or (m,) for a batch."""

    @property
    def gradient(self) -> FloatArray:
        """Gradient of `log_density`; (k,)."""


P = TypeVar("P", bound=DensityPoint)


class LeapfrogPath(NamedTuple, Generic[P]):
    """Result of a leapfrog trajectory."""

    end: P | None  # None if a point on the way has no density
    momentum: FloatArray  # at the end
    n_evaluations: int  # of the density and its gradient
    position: FloatArray  # of the last evaluation


def leapfrog(
    at: Callable[[FloatArray], P | None],
    begin: P,
    momentum: FloatArray,
    step: FloatArray | float,
    root: Root,
    n_steps: int,
) -> LeapfrogPath[P]:
    """Integrate Hamilton's equations by the leapfrog method, which is reversible and keeps volume.

    Parameters
    ----------
    at : callable
        Function of a position that returns the point there, or None if it has no density.
    begin : DensityPoint
        The point where the trajectory starts.
    momentum : ndarray of shape (..., k)
        Momentum in coordinates in which its covariance is I.
    step : float or ndarray
        Step size; an array must broadcast with the momentum.
    root : Root
        B, for the mass matrix (B B')^-1.
    n_steps : int
        Number of steps; the trajectory ends earlier if a point has no density.

    Returns
    -------
    LeapfrogPath
        The end of the trajectory, its momentum and the number of evaluations.
    """
    point = begin
    momentum = momentum + 0.5 * step * root.apply_transpose(point.gradient)
    for i in range(n_steps):
        position = point.position + step * root.apply(momentum)
        next_point = at(position)
        if next_point is None:
            return LeapfrogPath(None, momentum, i + 1, position)
        point = next_point
        share = 0.5 if i == n_steps - 1 else 1.0
        momentum = momentum + share * step * root.apply_transpose(point.gradient)
    return LeapfrogPath(point, momentum, n_steps, point.position)


def tune_log_scale(log_scale: float, probability: float, target: float, step: int) -> float:
    """Robbins-Monro update of a log scale towards a target acceptance probability.

    `step` counts from 0. Gains are in units of one over the slope of the acceptance rate in the log
    scale, which is about 2.5 t (1 - t) at the target t, for random walks and for trajectories.
    Gains fall as step^-0.6: their sum diverges, so that any scale can be reached, while the sum of
    their squares converges, so that the noise dies out.
    """
    slope = 2.5 * target * (1.0 - target)
    return log_scale + (step + 4.0) ** -0.6 * (probability - target) / slope
