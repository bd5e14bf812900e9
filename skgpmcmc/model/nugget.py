"""A covariance with a nugget, for samplers that hold f still while theta moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .._typing import FloatArray, IntArray
from ..numerics.linalg import add_to_diagonal
from .covariance import Covariance, CrossCovariance


class NuggetCovariance(Covariance):
    """The sum of a covariance and of independent noise on f at the training inputs.

    The noise has the same variance at all inputs: a share of the largest variance of f, so that K
    remains proportional to a constant factor of the kernel. K then has an inverse and a determinant
    in double precision, on which the density of a given f depends.

    Attributes
    ----------
    plain : Covariance
        The covariance without noise.
    nugget : float
        Variance of the noise, as a share of the largest variance of f; it is part of the model.
    """

    def __init__(self, plain: Covariance, nugget: float) -> None:
        super().__init__(plain.kernel, plain.X)
        self.plain = plain
        self.nugget = nugget

    def of_inputs(self, inputs: IntArray) -> NuggetCovariance:
        """See `Covariance`."""
        return NuggetCovariance(self.plain.of_inputs(inputs), self.nugget)

    @property
    def by_columns(self) -> bool:
        """See `Covariance`: new inputs have no noise. K has full rank in any case."""
        return False

    def _locate_largest(self, theta: FloatArray) -> int:
        """Return the position of the input with the largest variance."""
        return int(np.argmax(self.plain.diagonal(theta, self.X)))

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        K = self.plain.matrix(theta)
        return add_to_diagonal(K, self.nugget * K.diagonal().max())

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`.

        Yields
        ------
        ndarray of shape (n, n)
            Freshly allocated.
        """
        at = self._locate_largest(theta)
        for dK in self.plain.derivatives(theta):
            yield add_to_diagonal(dK, self.nugget * dK[at, at])

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        at = self._locate_largest(theta)
        A[at, at] += self.nugget * A.trace()
        return self.plain.contract(theta, A, overwrite=True)

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        return self.plain.cross(theta, self.at_new(X_new))

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.plain.diagonal(theta, X_new)

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.plain.square(theta, X_new)
