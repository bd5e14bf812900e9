"""The covariance of categories, whose levels are numbered once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .._typing import BoolArray, FloatArray
from ..kernels import Categorical
from ..kernels.categorical import correlation_of_levels, find_different
from .covariance import Covariance


class CategoricalCovariance(Covariance):
    """The kernel `Categorical` bound to the training inputs."""

    def __init__(self, kernel: Kernel, X: FloatArray) -> None:
        super().__init__(kernel, X)
        (self._numbers,) = kernel.number_levels(X)  # (n_columns, n)

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return type(kernel) is Categorical

    def _distance(self, theta: FloatArray) -> FloatArray:
        fixed = np.atleast_1d(np.asarray(self.kernel.distance, dtype=float))
        return np.exp(theta) if len(theta) else fixed

    @cached_property
    def _different(self) -> list[BoolArray]:
        return find_different(self._numbers, self._numbers)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        own = self.kernel.similarity(self._distance(theta), self._numbers)
        K = correlation_of_levels(own, own, self._different)
        return K.T  # symmetric: the same matrix in Fortran order

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        gradient = np.zeros(len(theta))
        if len(theta):
            A *= K
            for own, differ in zip(self._numbers, self._different, strict=True):
                differing = A * differ
                of_rows = differing.sum(axis=0) + differing.sum(axis=1)
                gradient += of_rows @ self.kernel.slopes(self._distance(theta), own)
        return gradient

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`.

        Yields
        ------
        ndarray of shape (n, n)
            Freshly allocated.
        """
        K = self.matrix(theta)
        distance = self._distance(theta)
        slopes = [self.kernel.slopes(distance, own) for own in self._numbers]
        for r in range(len(theta)):
            of_pairs = np.zeros(K.shape, order="F")
            for own, differ in zip(slopes, self._different, strict=True):
                of_pairs += differ * (own[:, None, r] + own[:, r])
            yield K * of_pairs
