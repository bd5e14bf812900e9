"""The Gaussian approximation of p(f | y, theta) that Laplace and EP both give.

Both have the form q(f) = N(f; mu, Sigma) with Sigma^-1 = K^-1 + W, W diagonal and not negative, and
mu = K a. Everything is computed from B = I + W^1/2 K W^1/2, whose eigenvalues are at least one, so
that neither K nor W is ever inverted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from .._linalg import (
    add_to_diagonal,
    cholesky,
    cholesky_inverse,
    cholesky_solve,
    half_log_det,
    product,
    solve_lower,
)
from .._params import Configuration, check_in
from .._typing import FloatArray
from ..gaussian import GaussianPrior, LatentMoments
from ..model import LatentGP

__all__ = ["Approximation", "ApproximationFit", "GaussianApproximation", "factor_B"]


def factor_B(K: FloatArray, root_precision: FloatArray) -> FloatArray:
    """Cholesky factor of B = I + s s' o K for s = W^1/2 of shape (n,)."""
    B = np.multiply(K, root_precision[:, None], order="F")
    B *= root_precision
    return cholesky(add_to_diagonal(B, 1.0), overwrite=True)


@dataclass(frozen=True, eq=False)
class GaussianApproximation:
    """q(f) = N(f; K a, (K^-1 + W)^-1) at one theta.

    Attributes
    ----------
    prior : GaussianPrior
        p(f | theta); holds K.
    weights : ndarray of shape (n,)
        a, with mean K a; a = K^-1 mean without ever inverting K.
    precision : ndarray of shape (n,)
        W >= 0, the diagonal that q adds to K^-1.
    """

    prior: GaussianPrior
    weights: FloatArray
    precision: FloatArray

    def __getstate__(self) -> dict[str, Any]:
        names = ("prior", "weights", "precision")  # factors are rebuilt on demand
        return {name: self.__dict__[name] for name in names}

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of q; (n,)."""
        return product(self.prior.K, self.weights)

    @cached_property
    def root_precision(self) -> FloatArray:
        """``s = W^1/2``; (n,)."""
        return np.sqrt(self.precision)

    @cached_property
    def chol_B(self) -> FloatArray:
        """Lower Cholesky factor of B = I + W^1/2 K W^1/2."""
        return factor_B(self.prior.K, self.root_precision)

    @property
    def half_log_det_B(self) -> float:
        """``1/2 log |B|``, which equals ``1/2 (log |K| - log |Sigma|)``."""
        return half_log_det(self.chol_B)

    @cached_property
    def marginal_variance(self) -> FloatArray:
        """Diagonal of Sigma; (n,). Costs one triangular solve with n columns."""
        half = np.multiply(self.prior.K, self.root_precision[:, None], order="F")
        half = solve_lower(self.chol_B, half, overwrite=True)
        return np.asarray(self.prior.K.diagonal() - np.einsum("ij,ij->j", half, half))

    def solve_smoothed(self, g: FloatArray) -> FloatArray:
        """Return ``s o B^-1 s o g`` = (K + W^-1)^-1 g, for g of shape (n,) or (n, m)."""
        s = self.root_precision if g.ndim == 1 else self.root_precision[:, None]
        return s * cholesky_solve(self.chol_B, s * g)

    def smoothed_inverse(self) -> FloatArray:
        """``(K + W^-1)^-1 = s s' o B^-1`` as an (n, n) matrix; one inverse."""
        inverse = cholesky_inverse(self.chol_B)
        inverse *= self.root_precision[:, None]
        inverse *= self.root_precision
        return inverse

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Independent draws of f, one per column: (n, size)."""
        return self.mean[:, None] + self.sample_deviations(rng, size)[0]

    def sample_deviations(
        self, rng: np.random.Generator, size: int
    ) -> tuple[FloatArray, FloatArray]:
        """Draw f - mean under q, and return the prior draws it was made of too; both (n, size).

        Matheron's rule: with u ~ N(0, K) and e ~ N(0, I),
        ``u - K s o B^-1 (s o u + e)`` has covariance (K^-1 + W)^-1. No factor of Sigma is needed,
        no division by W occurs, and all draws come from one set of matrix products.
        """
        n = len(self.weights)
        u = self.prior.sample(rng, size)
        noise = np.asfortranarray(rng.standard_normal((size, n)).T)
        s = self.root_precision[:, None]
        t = s * cholesky_solve(self.chol_B, s * u + noise)
        return u - product(self.prior.K, t), u

    def predict(self, X_new: FloatArray) -> LatentMoments:
        """Return moments of f* at new inputs, f integrated out under q; mean (m, 1), var (m,).

        Rasmussen & Williams (2006), (3.21) and (3.24), in the form without K^-1.
        """
        covariance, theta = self.prior.covariance, self.prior.theta
        cross = covariance.cross(theta, X_new)
        half = solve_lower(self.chol_B, self.root_precision[:, None] * cross)
        var = covariance.diagonal(theta, X_new) - np.einsum("im,im->m", half, half)
        return LatentMoments((cross.T @ self.weights)[:, None], np.maximum(var, 0.0))

    def predict_jointly(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (m, 1) and full covariance (m, m) of f* at new inputs under q."""
        covariance, theta = self.prior.covariance, self.prior.theta
        cross = covariance.cross(theta, X_new)
        half = solve_lower(self.chol_B, self.root_precision[:, None] * cross)
        square = covariance.square(theta, X_new) - half.T @ half
        return (cross.T @ self.weights)[:, None], square


class ApproximationFit(NamedTuple):
    """What an approximation found at one theta."""

    q: GaussianApproximation
    log_evidence: float  # deterministic estimate of log p(y | theta), natural log
    converged: bool
    n_iterations: int


class Approximation(Configuration, ABC):
    """A way to find a Gaussian q(f) near p(f | y, theta); always started from the same point.

    The result is a function of (y, theta) alone, never of the state of a chain: that is what keeps
    a pseudo-marginal chain exact whatever the tolerance.
    """

    @abstractmethod
    def fit(self, model: LatentGP, theta: FloatArray) -> ApproximationFit:
        """Return q at theta, and the approximate log evidence."""

    @abstractmethod
    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of the log evidence in theta, at a fit iterated to a tight tolerance; (p,)."""

    @abstractmethod
    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""

    @abstractmethod
    def refined(self, tol: float = ...) -> Approximation:
        """Return the same approximation with a tighter tolerance, by default for gradients."""


def check_tolerance(tol: Any) -> None:
    """Refuse a tolerance that is not a positive number."""
    check_in("approximation", "tol", tol, "(0, inf)")


def check_iterations(name: str, value: Any) -> None:
    """Refuse a number of iterations that is not an integer of at least one."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"approximation: {name} must be an integer >= 1; got {value!r}.")
