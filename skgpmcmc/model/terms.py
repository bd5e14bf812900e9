"""Single terms of a sum of kernels: their share of the latent function at new inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, Kernel, Product

from .._typing import FloatArray, IntArray
from ..kernels import Linear, On
from .composite import CovarianceOnColumns, SumOfCovariances
from .covariance import Covariance, CrossCovariance, make_covariance

#: A term of a sum, and where its hyper-parameters stand in those of the sum.
Term = tuple[Covariance, slice]


def list_terms(covariance: Covariance, start: int = 0) -> list[Term]:
    """Return the terms of a sum, those of sums within it included; a single one if it is none.

    The sum may be on some of the columns, ``On(k1 + k2, columns)``, as each of its terms then is.
    """
    if isinstance(covariance, SumOfCovariances):
        first, second = covariance.parts
        return [*list_terms(first, start), *list_terms(second, start + len(first.start))]
    on = covariance.kernel
    if isinstance(covariance, CovarianceOnColumns) and isinstance(on, On):
        inner = list_terms(covariance.part, start)
        kernels = [On(term.kernel, on.columns, on.feature_names) for term, _ in inner]
        bound = (make_covariance(kernel, covariance.X) for kernel in kernels)
        return [(term, own) for term, (_, own) in zip(bound, inner, strict=True)]
    return [(covariance, slice(start, start + len(covariance.start)))]


def is_linear(kernel: Kernel) -> bool:
    """Whether the functions of a kernel are linear: `Linear` or DotProduct, also times a constant.

    Both may be on some of the columns.
    """
    if isinstance(kernel, On):
        return is_linear(kernel.kernel)
    if isinstance(kernel, Product):
        constant = isinstance(kernel.k1, ConstantKernel), isinstance(kernel.k2, ConstantKernel)
        other = kernel.k2 if constant[0] else kernel.k1
        return any(constant) and is_linear(other)
    return isinstance(kernel, (Linear, DotProduct))


class TermsCovariance(Covariance):
    """A sum of covariances of which new inputs have some terms only.

    The training inputs have all terms. The latent function at new inputs is the sum of the wanted
    terms, or the difference of this sum from the sum at a reference. As both are jointly Gaussian
    with f at the training inputs, all formulas of predictions apply.

    Attributes
    ----------
    whole : Covariance
        The sum.
    terms : sequence of (Covariance, slice)
        The wanted ones of `list_terms`.
    reference : ndarray of shape (d,), or None
        An input; None asks for the terms themselves.
    """

    def __init__(
        self, whole: Covariance, terms: Sequence[Term], reference: FloatArray | None = None
    ) -> None:
        super().__init__(whole.kernel, whole.X)
        self.whole = whole
        self.terms = terms
        self.reference = reference

    def of_inputs(self, inputs: IntArray) -> TermsCovariance:
        """See `Covariance`."""
        terms = [(term.of_inputs(inputs), own) for term, own in self.terms]
        return TermsCovariance(self.whole.of_inputs(inputs), terms, self.reference)

    @property
    def of_training(self) -> Covariance:
        """See `Covariance`: the sum."""
        return self.whole

    def matrix(self, theta: FloatArray) -> FloatArray:
        """See `Covariance`: the matrix of the sum."""
        return self.whole.matrix(theta)

    def cross(self, theta: FloatArray, X_new: FloatArray | CrossCovariance) -> FloatArray:
        """See `Covariance`: the covariance of the sum with the wanted terms."""
        new = self.at_new(X_new)
        K = np.zeros((len(self.X), len(new.X_new)), order="F")
        for term, own in self.terms:
            K += term.cross(theta[own], new)
            if self.reference is not None:
                K -= term.cross(theta[own], self.reference[None])
        return K

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        inputs = X_new if self.reference is None else np.vstack([X_new, self.reference])
        K = np.zeros((len(inputs), len(inputs)))
        for term, own in self.terms:
            K += term.square(theta[own], inputs)
        if self.reference is None:
            return K
        return K[:-1, :-1] - K[:-1, -1:] - K[-1:, :-1] + K[-1, -1]

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """See `Covariance`."""
        if self.reference is not None:
            return np.array([self.square(theta, row[None])[0, 0] for row in X_new])
        return np.sum([term.diagonal(theta[own], X_new) for term, own in self.terms], axis=0)
