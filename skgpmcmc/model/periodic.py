"""The covariance of periodic functions, whose distances of inputs are computed once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import ExpSineSquared, Kernel

from .._typing import FloatArray
from .covariance import MOST_ROWS_WITH_DISTANCES, Covariance, CrossCovariance

#: Length-scale below which, and the inverse above which, nothing changes any more: its square and
#: the inverse of the square are within double precision.
_LEAST_LENGTH = 1e-150


class PeriodicCovariance(Covariance):
    """``ExpSineSquared`` bound to the training inputs: k = exp(-2 s^2 / l^2), s = sin(pi d / p).

    d is the distance of two inputs, l the length-scale and p the period. The derivatives are
    dk/dlog l = 4 s^2 k / l^2, and dk/dlog p = 2 pi d sin(2 pi d / p) k / (p l^2).
    """

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return type(kernel) is ExpSineSquared

    @property
    def _keeps(self) -> bool:
        return len(self.X) <= MOST_ROWS_WITH_DISTANCES

    @cached_property
    def _kept_distances(self) -> FloatArray:
        return cdist(self.X, self.X).T

    @cached_property
    def _kept_squares(self) -> FloatArray:
        """Squares s^2 for a fixed period."""
        return _squared_sines(self._distances(), self.kernel.periodicity)

    def _distances(self) -> FloatArray:
        return self._kept_distances if self._keeps else cdist(self.X, self.X).T

    def _values(self, theta: FloatArray) -> tuple[float, float]:
        """Length-scale and period on the natural scale."""
        kernel = self.kernel
        of_length = 0 if kernel.hyperparameter_length_scale.fixed else 1
        length = float(np.exp(theta[0])) if of_length else float(kernel.length_scale)
        length = min(max(length, _LEAST_LENGTH), 1.0 / _LEAST_LENGTH)
        period = theta[of_length:]
        return length, float(np.exp(period[0])) if len(period) else float(kernel.periodicity)

    def _squares(self, period: float) -> FloatArray:
        """Squares s^2 of the training inputs; (n, n), Fortran order."""
        if self._keeps and self.kernel.hyperparameter_periodicity.fixed:
            return self._kept_squares
        return _squared_sines(self._distances(), period)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        length, period = self._values(theta)
        return _correlation(self._squares(period), length)

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`.

        Yields
        ------
        ndarray of shape (n, n)
            Freshly allocated.
        """
        return self._derivatives(theta, self.matrix(theta))

    def _derivatives(self, theta: FloatArray, K: FloatArray) -> Iterator[FloatArray]:
        length, period = self._values(theta)
        squares = self._squares(period)
        if not self.kernel.hyperparameter_length_scale.fixed:
            yield squares * K * (4.0 / length**2)
        if not self.kernel.hyperparameter_periodicity.fixed:
            phase = self._distances() * (2.0 * np.pi / period)
            yield phase * np.sin(phase) * K / length**2

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        return np.array([np.vdot(A, dK) for dK in self._derivatives(theta, K)])

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        length, period = self._values(theta)
        distances = np.sqrt(self.at_new(X_new).distances).T
        return _correlation(_squared_sines(distances, period), length)


def _squared_sines(distances: FloatArray, period: float) -> FloatArray:
    """Return ``sin(pi d / p)^2``, of the shape and order of the distances."""
    sines = np.sin(distances * (np.pi / period))
    return np.multiply(sines, sines, out=sines)


def _correlation(squares: FloatArray, length: float) -> FloatArray:
    """Return ``exp(-2 s^2 / l^2)``, of the shape and order of the squares."""
    with np.errstate(over="ignore"):  # the correlation at an infinite distance is zero
        exponent = squares * (-2.0 / length**2)
    return np.exp(exponent, out=exponent)
