"""Gaussian approximations computed from a root of K, and the choice of the class of approximations.

With K = R R', R of shape (n, r), and f = R v, the matrix to factor is T T' = I + R'W R of shape
(r, r). It has the same determinant as B (Sylvester), and (K + W^-1)^-1 = W - W R (T T')^-1 R'W
(Woodbury).
"""

from __future__ import annotations

from functools import cached_property, singledispatch
from typing import Self

import numpy as np

from .._typing import FloatArray
from ..model.prior import Conditional, GaussianPrior
from ..numerics import linalg
from .base import GaussianApproximation


class WhitenedApproximation(GaussianApproximation):
    """q(f) = N(f; R (T T')^-1 R' nu, R (T T')^-1 R'), nu the shifts of the sites.

    This form suits priors of low rank, and approximations from which many draws are made.

    References
    ----------
    Wang & Neal (2013), (32) and (38).
    """

    @cached_property
    def half_log_det_B(self) -> float:
        """``1/2 log |B|`` = ``log |T|``."""
        return linalg.half_log_det(self.chol_white)

    @cached_property
    def _mean_of_v(self) -> FloatArray:
        """Mean of v; (r,)."""
        shift = self.prior.root.apply_transpose(self.sites.shift)
        return linalg.cholesky_solve(self.chol_white, shift)

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of q; (n,)."""
        return self.prior.unwhiten(self._mean_of_v)

    @cached_property
    def weights(self) -> FloatArray:
        """``a = nu - W mean``, which has K a = mean; (n,)."""
        return np.asarray(self.sites.shift - self.precision * self.mean)

    def factorize(self) -> Self:
        """See `GaussianApproximation`."""
        _ = self.prior.factorize(), self.chol_white, self.weights
        return self

    @cached_property
    def marginal_variance(self) -> FloatArray:
        """Diagonal of Sigma, as sums of squares without cancellation; (n,)."""
        return self.prior.variance_given(self.chol_white)

    def solve_smoothed(self, g: FloatArray) -> FloatArray:
        """Return (K + W^-1)^-1 g, for g of shape (n,) or (n, m)."""
        W = self.precision if g.ndim == 1 else self.precision[:, None]
        inner = linalg.cholesky_solve(self.chol_white, self.prior.root.apply_transpose(W * g))
        return np.asarray(W * (g - self.prior.unwhiten(inner)))

    def kernel_gradient(self, *more: tuple[FloatArray, FloatArray]) -> FloatArray:
        """See `GaussianApproximation`; R' (K + W^-1)^-1 = (T T')^-1 R'W."""
        inverse = linalg.mirror_lower(linalg.cholesky_inverse(self.chol_white))
        root = self.prior.root.factor
        X, Y = np.transpose([(0.5 * self.weights, self.weights), *more], (1, 2, 0))
        RX = root.T @ X
        RY = root.T @ Y
        # The symmetric part of x y' takes its place.
        A = np.hstack([-0.5 * inverse, 0.5 * RX, 0.5 * RY])
        B = np.vstack([root.T * self.precision, Y.T, X.T])
        S = 0.5 * (inverse - np.eye(len(inverse)) + RX @ RY.T + RY @ RX.T)
        return self.prior.contract_root(A, B, S)

    def sample_deviation(self, rng: np.random.Generator, size: int) -> FloatArray:
        """See `GaussianApproximation`."""
        return self.prior.unwhiten(self.sample_white(rng, size))

    def conditional(self) -> Conditional:
        """See `GaussianApproximation`."""
        return self.prior.condition_on_white_sites(self._mean_of_v, self.chol_white)


@singledispatch
def gaussian_family(prior: GaussianPrior, whitened: bool = False) -> type[GaussianApproximation]:
    """Return the class of Gaussian approximations that suits a prior.

    It is `WhitenedApproximation` if K has low rank, or if many draws will be made. Priors of
    several functions, whose sites couple the functions of a row, register a class of their own.
    """
    return WhitenedApproximation if whitened or prior.low_rank else GaussianApproximation
