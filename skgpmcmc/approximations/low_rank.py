"""Gaussian approximations under a prior of low rank.

With K^ = R'R the matrix to factor is C = I + R W R', of the size of the rank, whose determinant is
that of B (Sylvester), and which gives (K^ + W^-1)^-1 = W - W R' C^-1 R W (Woodbury).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._typing import FloatArray
from ..model import LowRankPrior
from ..numerics import linalg
from .base import GaussianApproximation, gaussian_family


@dataclass(frozen=True, eq=False)
class LowRankGaussian(GaussianApproximation):
    """q(f) = N(f; R'C^-1 R nu, R'C^-1 R), nu the shifts of the sites: of low rank as the prior.

    For the evidence of a cheaper model and its gradient; predictions of f are no use of it.

    References
    ----------
    Wang & Neal (2013), (32) and (38).
    """

    prior: LowRankPrior

    @cached_property
    def half_log_det_B(self) -> float:
        """``1/2 log |B|`` = ``1/2 log |C|``."""
        return linalg.half_log_det(self.chol_white)

    @cached_property
    def weights(self) -> FloatArray:
        """``a = nu - W mean``, which has K^ a = mean; (n,)."""
        return np.asarray(self.sites.shift - self.precision * self.mean)

    @cached_property
    def mean(self) -> FloatArray:
        """Mean of q; (n,)."""
        return self.prior.unwhiten(self._white_mean)

    @cached_property
    def _inverse_factor(self) -> FloatArray:
        """Inverse of the factor of C."""
        return linalg.lower_inverse(self.chol_white)

    @cached_property
    def marginal_variance(self) -> FloatArray:
        """Diagonal of Sigma: sums of squares, in which nothing cancels; (n,)."""
        half = linalg.lower_product(self._inverse_factor, self.prior.root)
        squares = np.einsum("ij,ij->j", half, half)
        return np.maximum(squares, np.finfo(float).eps * self.prior.variance)

    def solve_smoothed(self, g: FloatArray) -> FloatArray:
        """Return (K^ + W^-1)^-1 g, for g of shape (n,) or (n, m)."""
        W = self.precision if g.ndim == 1 else self.precision[:, None]
        inner = linalg.cholesky_solve(self.chol_white, self.prior.pull(W * g))
        return np.asarray(W * (g - self.prior.unwhiten(inner)))

    def kernel_gradient(self, *more: tuple[FloatArray, FloatArray]) -> FloatArray:
        """See `GaussianApproximation`; R (K^ + W^-1)^-1 = C^-1 R W."""
        inverse = linalg.mirrored(linalg.lower_gram(self._inverse_factor))
        root = self.prior.root
        X, Y = np.transpose([(0.5 * self.weights, self.weights), *more], (1, 2, 0))
        RX, RY = root @ X, root @ Y
        # Of x y' the symmetric part.
        A = np.hstack([-0.5 * inverse, 0.5 * RX, 0.5 * RY])
        B = np.asfortranarray(np.vstack([root * self.precision, Y.T, X.T]))
        S = 0.5 * (inverse - np.eye(len(inverse)) + RX @ RY.T + RY @ RX.T)
        return self.prior.contract_root(A, B, S)


@gaussian_family.register(LowRankPrior)
def _gaussian_family(prior: LowRankPrior) -> type[LowRankGaussian]:
    return LowRankGaussian
