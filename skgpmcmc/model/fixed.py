"""The covariance of a kernel without free hyper-parameters, which is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .._typing import FloatArray
from .covariance import MOST_ROWS_WITH_DISTANCES, Covariance


class FixedCovariance(Covariance):
    """Any kernel without free hyper-parameters bound to the training inputs."""

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return bool(kernel.n_dims == 0)

    @cached_property
    def _matrix(self) -> FloatArray:
        return self._evaluate()

    def _evaluate(self) -> FloatArray:
        return np.asfortranarray(self.kernel(self.X), dtype=float)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`; a copy, which may be overwritten."""
        few = len(self.X) <= MOST_ROWS_WITH_DISTANCES
        return self._matrix.copy(order="F") if few else self._evaluate()

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        return np.empty(0)

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`."""
        return iter(())
