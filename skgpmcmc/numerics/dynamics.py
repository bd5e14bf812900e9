"""Linear maps that shape steps and momenta, and the trajectories of Hamiltonian dynamics.

A root B stands for the covariance B B'. A random walk takes steps B z with z ~ N(0, I), a
Hamiltonian trajectory has the inverse mass matrix B B', and a Langevin proposal the inverse metric.
That of a few hyper-parameters is a `DenseRoot`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .._typing import FloatArray
from .linalg import half_log_det, solve_lower, transposed_lower_product


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


#: The only one there has to be.
IDENTITY = IdentityRoot()


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

    def apply_transpose(self, gradient: FloatArray) -> FloatArray:
        """``B' gradient``."""
        return solve_lower(self.factor, gradient)

    def solve(self, step: FloatArray) -> FloatArray:
        """``B^-1 step``."""
        return transposed_lower_product(self.factor, step)

    @property
    def log_det(self) -> float:
        """``log |det B|``."""
        return -half_log_det(self.factor)


class DensityPoint(Protocol):
    """A position in some coordinates, with the density there."""

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


class Path(NamedTuple, Generic[P]):
    """Result of a leapfrog trajectory."""

    end: P | None  # None if a point on the way has no density
    momentum: FloatArray
    n_evaluations: int
    position: FloatArray  # the last one that was tried


def leapfrog(
    at: Callable[[FloatArray], P | None],
    begin: P,
    momentum: FloatArray,
    step: FloatArray | float,
    root: Root,
    n_steps: int,
) -> Path[P]:
    """Integrate Hamilton's equations by the leapfrog method, which is reversible and keeps volume.

    Parameters
    ----------
    at : callable
        Returns the point at a position, or None without a density.
    begin : DensityPoint
        Where the trajectory starts.
    momentum : ndarray of shape (..., k)
        Momentum in coordinates in which its covariance is I.
    step : float or ndarray that goes with the momentum
        Step size.
    root : Root
        B, for the mass matrix (B B')^-1.
    n_steps : int
        Number of steps; the trajectory ends earlier if a point has no density.

    Returns
    -------
    Path
        The end of the trajectory, its momentum and the number of evaluations.
    """
    here = begin
    momentum = momentum + 0.5 * step * root.apply_transpose(here.gradient)
    for i in range(n_steps):
        position = here.position + step * root.apply(momentum)
        there = at(position)
        if there is None:
            return Path(None, momentum, i + 1, position)
        here = there
        share = 0.5 if i == n_steps - 1 else 1.0
        momentum = momentum + share * step * root.apply_transpose(here.gradient)
    return Path(here, momentum, n_steps, here.position)


def tune_log_scale(log_scale: float, probability: float, target: float, step: int) -> float:
    """Robbins-Monro update of a log scale towards a target acceptance probability.

    `step` counts from 0. Gains are in units of one over the slope of the acceptance rate in the log
    scale, which is about 2.5 t (1 - t) at the target t, for random walks as for trajectories. They
    fall as the power 0.6: all together they reach any scale, while their noise dies out.
    """
    slope = 2.5 * target * (1.0 - target)
    return log_scale + (step + 4.0) ** -0.6 * (probability - target) / slope
