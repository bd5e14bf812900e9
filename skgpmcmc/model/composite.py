"""Covariances made of others: of some of the columns, sums, products and powers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import ClassVar

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Exponentiation, Kernel, Product, Sum

from .._typing import FloatArray
from ..kernels import On
from .covariance import Covariance, CrossCovariance, make_covariance


class ConstantCovariance(Covariance):
    """A constant, the covariance of all pairs of rows."""

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return type(kernel) is ConstantKernel

    def _value(self, theta: FloatArray) -> float:
        return float(np.exp(theta[0]) if len(theta) else self.kernel.constant_value)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return np.full((len(self.X),) * 2, self._value(theta), order="F")

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        return np.full(len(theta), self._value(theta) * A.sum())


def _move_constant_inside(kernel: Kernel) -> On | None:
    """Return ``On(c * k, columns)`` for ``c * On(k, columns)``; None for kernels of other kinds.

    A constant times RBF or Matern has a faster covariance than a product of any kernels. The order
    of the factors stays, as that of the hyper-parameters follows it.
    """
    if type(kernel) is On:
        return kernel
    if type(kernel) is not Product:
        return None
    if type(kernel.k1) is ConstantKernel and type(kernel.k2) is On:
        own = kernel.k2
        return On(kernel.k1 * own.kernel, own.columns, own.feature_names)
    if type(kernel.k2) is ConstantKernel and type(kernel.k1) is On:
        own = kernel.k1
        return On(own.kernel * kernel.k2, own.columns, own.feature_names)
    return None


class CovarianceOnColumns(Covariance):
    """``On(kernel, columns)``, also times a constant, bound to the training inputs.

    Attributes
    ----------
    part : Covariance
        The covariance of the kernel, bound to the chosen columns.
    columns : tuple of int
        Their positions.
    """

    def __init__(self, kernel: Kernel, X: FloatArray) -> None:
        super().__init__(kernel, X)
        own = _move_constant_inside(kernel)
        assert own is not None  # `serves` has checked it
        self.columns = tuple(own.find_positions(X.shape[1]))
        self.part = make_covariance(own.kernel, X[:, self.columns])

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return _move_constant_inside(kernel) is not None

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.part.matrix(theta)

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        return self.part._contract(theta, A, K)

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`."""
        return self.part.derivatives(theta)

    def _select(self, new: CrossCovariance) -> CrossCovariance:
        return new.on_columns(self.part, self.columns)

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        return self.part.cross(theta, self._select(self.at_new(X_new)))

    def fast_cross(self, theta: FloatArray, new: CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        return self.part.fast_cross(theta, self._select(new))

    def contract_cross(
        self, theta: FloatArray, new: CrossCovariance, A: FloatArray, K: FloatArray
    ) -> FloatArray:
        """See `Covariance`."""
        return self.part.contract_cross(theta, self._select(new), A, K)

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.part.diagonal(theta, X_new[:, self.columns])

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.part.square(theta, X_new[:, self.columns])


class CompositeCovariance(Covariance):
    """Base class of covariances whose entries are functions of the entries of other covariances.

    Attributes
    ----------
    parts : sequence of Covariance
        The combined covariances.
    """

    kind: ClassVar[type[Kernel]]

    def __init__(self, kernel: Kernel, X: FloatArray) -> None:
        super().__init__(kernel, X)
        kernels = [kernel.kernel] if isinstance(kernel, Exponentiation) else [kernel.k1, kernel.k2]
        self.parts = [make_covariance(part, X) for part in kernels]
        ends = accumulate((len(part.start) for part in self.parts), initial=0)
        self._shares = [slice(*pair) for pair in pairwise(ends)]

    @classmethod
    def serves(cls, kernel: Kernel) -> bool:
        """Whether a kernel is of this kind."""
        return type(kernel) is getattr(cls, "kind", None)

    @abstractmethod
    def combine(self, *entries: FloatArray) -> FloatArray:
        """Return the entries, computed from those of the parts; may overwrite the first array."""

    @abstractmethod
    def slopes(self, *entries: FloatArray) -> Sequence[FloatArray | float]:
        """Return the derivatives of an entry with respect to the entries of the parts."""

    def split_theta(self, theta: FloatArray) -> list[tuple[Covariance, FloatArray]]:
        """Return every part with its own hyper-parameters."""
        return [(part, theta[own]) for part, own in zip(self.parts, self._shares, strict=True)]

    def contract_parts(
        self,
        theta: FloatArray,
        A: FloatArray,
        entries: Sequence[FloatArray],
        contract: Callable[[Covariance, FloatArray, FloatArray, FloatArray], FloatArray],
    ) -> FloatArray:
        """Return the contraction by the chain rule, with `contract` for a part; shape (p,)."""
        slopes = self.slopes(*entries)
        triples = zip(self.split_theta(theta), entries, slopes, strict=True)
        pieces = [contract(*share, A * slope, K) for share, K, slope in triples if len(share[1])]
        return np.concatenate([np.empty(0), *pieces])

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.combine(*self._matrices(theta))

    def _matrices(self, theta: FloatArray) -> list[FloatArray]:
        return [part.matrix(own) for part, own in self.split_theta(theta)]

    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        entries = self._matrices(theta)
        return self.contract_parts(theta, A, entries, lambda part, *rest: part._contract(*rest))

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """See `Covariance`.

        Yields
        ------
        ndarray of shape (n, n)
            Freshly allocated.
        """
        slopes = self.slopes(*self._matrices(theta))
        for (part, own), slope in zip(self.split_theta(theta), slopes, strict=True):
            if len(own):
                yield from (dK * slope for dK in part.derivatives(own))

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        new = self.at_new(X_new)
        return self.combine(*(part.cross(own, new) for part, own in self.split_theta(theta)))

    def fast_cross(self, theta: FloatArray, new: CrossCovariance) -> FloatArray:
        """See `Covariance`."""
        return self.combine(*self._fast_crosses(theta, new))

    def _fast_crosses(self, theta: FloatArray, new: CrossCovariance) -> list[FloatArray]:
        return [part.fast_cross(own, new) for part, own in self.split_theta(theta)]

    def contract_cross(
        self, theta: FloatArray, new: CrossCovariance, A: FloatArray, K: FloatArray
    ) -> FloatArray:
        """See `Covariance`."""
        return self.contract_parts(
            theta,
            A,
            self._fast_crosses(theta, new),
            lambda part, own, A, K: part.contract_cross(own, new, A, K),
        )

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.combine(*(part.diagonal(own, X_new) for part, own in self.split_theta(theta)))

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        return self.combine(*(part.square(own, X_new) for part, own in self.split_theta(theta)))


class SumOfCovariances(CompositeCovariance):
    """The covariance of a sum of independent functions."""

    kind = Sum

    def combine(self, *entries: FloatArray) -> FloatArray:
        """See `CompositeCovariance`."""
        first, second = entries
        return np.add(first, second, out=first)

    def slopes(self, *entries: FloatArray) -> Sequence[FloatArray | float]:
        """See `CompositeCovariance`."""
        return 1.0, 1.0


class ProductOfCovariances(CompositeCovariance):
    """The covariance of a product of independent functions."""

    kind = Product

    def combine(self, *entries: FloatArray) -> FloatArray:
        """See `CompositeCovariance`."""
        first, second = entries
        return np.multiply(first, second, out=first)

    def slopes(self, *entries: FloatArray) -> Sequence[FloatArray | float]:
        """See `CompositeCovariance`."""
        return entries[::-1]


class PowerOfCovariance(CompositeCovariance):
    """A covariance to some power."""

    kind = Exponentiation

    def combine(self, *entries: FloatArray) -> FloatArray:
        """See `CompositeCovariance`."""
        return entries[0] ** self.kernel.exponent

    def slopes(self, *entries: FloatArray) -> Sequence[FloatArray | float]:
        """See `CompositeCovariance`."""
        power = self.kernel.exponent
        return (power * entries[0] ** (power - 1),)
