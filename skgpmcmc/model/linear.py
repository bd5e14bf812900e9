"""The covariance of linear functions, whose products of inputs are computed once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .._typing import FloatArray
from ..kernels import Linear
from .covariance import Covariance


class LinearCovariance(Covariance):
    """The kernel `Linear` bound to the training inputs."""

    def __init__(self, kernel: Kernel, X: FloatArray) -> None:
        super().__init__(kernel, X)
        rows = kernel.centered(X)
        self._products = np.asfortranarray(rows @ rows.T)

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return type(kernel) is Linear

    def _variance(self, theta: FloatArray) -> float:
        return float(np.exp(theta[0]) if len(theta) else self.kernel.slope_variance)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self._variance(theta) * self._products

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        return np.full(len(theta), np.vdot(A, K))

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`."""
        return (self.matrix(theta) for _ in theta)
