"""A covariance with a nugget, for samplers that hold f still while theta moves."""

from __future__ import annotations

from collections.abc import Iterator

from .._typing import FloatArray, IntArray
from ..numerics.linalg import add_to_diagonal
from .covariance import Covariance, CrossCovariance


class WithNugget(Covariance):
    """Another covariance, and independent noise on f at the training inputs.

    The noise has the same variance everywhere: a share of the mean variance of f, so that K stays
    proportional to a constant factor of the kernel. K then has an inverse and a determinant in
    double precision, which the density of a given f needs.

    Attributes
    ----------
    plain : Covariance
        The covariance without noise.
    nugget : float
        The share. It is part of the model.
    """

    def __init__(self, plain: Covariance, nugget: float) -> None:
        super().__init__(plain.kernel, plain.X)
        self.plain = plain
        self.nugget = nugget

    def of_inputs(self, inputs: IntArray) -> WithNugget:
        """See `Covariance`."""
        return WithNugget(self.plain.of_inputs(inputs), self.nugget)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self._noisy(self.plain.matrix(theta))

    def _noisy(self, matrix: FloatArray) -> FloatArray:
        """Add the share of its mean diagonal to the diagonal of a matrix."""
        return add_to_diagonal(matrix, self.nugget * matrix.diagonal().mean())

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`."""
        return map(self._noisy, self.plain.derivatives(theta))

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        return self.plain.contract(theta, self._noisy(A), overwrite=True)

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        return self.plain.cross(theta, self.at_new(X_new))

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.plain.diagonal(theta, X_new)

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.plain.square(theta, X_new)
