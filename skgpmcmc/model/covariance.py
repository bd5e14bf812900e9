"""The covariance of f as a function of theta: matrices, and gradients by contraction.

A `Covariance` binds a kernel to the training inputs. Its hyper-parameters theta are natural logs in
scikit-learn's order (``kernel.theta``). Gradients never build an (n, n, p) array: what an
approximation needs is always ``sum_ij A_ij dK_ij / dtheta_r`` for one matrix A, so that is the
verb, `Covariance.contract`.

The jitter j is relative and part of the model: K_ii <- K_ii (1 + j), so that K stays proportional
to a constant factor of the kernel; where K_ii = 0 it is j times the mean diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Product

from .._typing import FloatArray

__all__ = ["DEFAULT_JITTER", "Covariance", "CrossCovariance"]

DEFAULT_JITTER = 1e-8


class Covariance(ABC):
    """A kernel bound to the training inputs X of shape (n, d).

    Attributes
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
    X : ndarray of shape (n, d)
    jitter : float
        Relative jitter j on the diagonal; the same for the whole run.
    names : tuple of str
        Name of each component of theta, as in ``kernel.hyperparameters``; the components of a
        vector share theirs.
    start : ndarray of shape (p,)
        ``kernel.theta``: natural logs of the kernel's own values.
    """

    def __init__(self, kernel: Kernel, X: FloatArray, jitter: float = DEFAULT_JITTER) -> None:
        self.kernel = kernel
        self.X = X
        self.jitter = jitter
        self.names: tuple[str, ...] = tuple(
            h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)
        )
        self.start: FloatArray = np.asarray(kernel.theta, dtype=float)

    def with_jitter(self, jitter: float) -> Covariance:
        """Return the same covariance with another relative jitter."""
        return type(self)(self.kernel, self.X, jitter)

    def matrix(self, theta: FloatArray) -> FloatArray:
        """K at the training inputs, jitter included; (n, n), Fortran order."""
        K = self._matrix(theta)
        diagonal = K.diagonal()
        K.flat[:: len(K) + 1] = diagonal + self.jitter * np.where(
            diagonal > 0.0, diagonal, diagonal.mean()
        )
        return K

    def contract(
        self,
        theta: FloatArray,
        A: FloatArray,
        *,
        K: FloatArray | None = None,
        overwrite: bool = False,
    ) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r``, jitter included; shape (p,).

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Hyper-parameters, natural logs.
        A : ndarray of shape (n, n)
            Only A + A' matters: a lower triangle with half the diagonal stands for half of the
            symmetric matrix.
        K : ndarray of shape (n, n), optional
            ``matrix(theta)``, where it is at hand.
        overwrite : bool
            Work in the memory of `A`.
        """
        A = A if overwrite else A.copy(order="F")
        zero = self._zero_diagonal(theta)
        weights = A.diagonal().copy()
        A.flat[:: len(A) + 1] = weights * (1.0 + self.jitter * ~zero) + (
            self.jitter * weights[zero].sum() / len(A)
        )
        return self._contract(theta, A, self._matrix(theta) if K is None else K)

    def derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """Give ``dK / dtheta_r``, jitter included, one (n, n) matrix after the other.

        For what no contraction yields, such as the Fisher information of theta.

        Parameters
        ----------
        theta : ndarray of shape (p,)
            Hyper-parameters, natural logs.

        Yields
        ------
        ndarray of shape (n, n)
            Freshly allocated.
        """
        zero = self._zero_diagonal(theta)
        for dK in self._derivatives(theta):
            diagonal = dK.diagonal().copy()
            mean = diagonal.mean()
            dK.flat[:: len(dK) + 1] = diagonal + self.jitter * np.where(zero, mean, diagonal)
            yield dK

    @property
    def variance(self) -> int | None:
        """Where theta has a constant that multiplies the whole of K; None without one."""
        return _variance_in(self.kernel)

    def _zero_diagonal(self, theta: FloatArray) -> Any:
        return np.asarray(self.diagonal(theta, self.X) == 0.0)

    @abstractmethod
    def _matrix(self, theta: FloatArray) -> FloatArray:
        """K without jitter, freshly allocated in Fortran order."""

    @abstractmethod
    def _contract(self, theta: FloatArray, A: FloatArray, K: FloatArray) -> FloatArray:
        """The contraction without jitter; may overwrite A, and trusts K off the diagonal only."""

    def _derivatives(self, theta: FloatArray) -> Iterator[FloatArray]:
        """Derivatives without jitter, freshly allocated."""
        _, dK = self.kernel.clone_with_theta(theta)(self.X, eval_gradient=True)
        return (np.array(dK[:, :, r], order="F") for r in range(len(theta)))

    def at_new(self, X_new: FloatArray | CrossCovariance) -> CrossCovariance:
        """Bind new inputs of shape (m, d) too; what is bound already is returned as it is."""
        return X_new if isinstance(X_new, CrossCovariance) else CrossCovariance(self, X_new)

    def cross(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Covariance of the training inputs with new ones; (n, m), no jitter."""
        return self.at_new(X_new).cross(theta)

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Prior variance at new inputs; (m,), no jitter."""
        return np.asarray(self.kernel.clone_with_theta(theta).diag(X_new))

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Prior covariance of new inputs with one another; (m, m), no jitter."""
        return np.asarray(self.kernel.clone_with_theta(theta)(X_new))


def _variance_in(kernel: Kernel) -> int | None:
    """Where a free constant factor of a kernel stands among its hyper-parameters."""
    if isinstance(kernel, ConstantKernel):
        return 0 if kernel.n_dims else None
    if not isinstance(kernel, Product):
        return None
    first, second = _variance_in(kernel.k1), _variance_in(kernel.k2)
    if first is not None:
        return first
    return None if second is None else int(kernel.k1.n_dims) + second


class CrossCovariance:
    """A covariance bound to m new inputs as well, for predictions at many values of theta.

    Attributes
    ----------
    covariance : Covariance
    X_new : ndarray of shape (m, d)
    """

    def __init__(self, covariance: Covariance, X_new: FloatArray) -> None:
        self.covariance = covariance
        self.X_new = X_new

    def cross(self, theta: FloatArray) -> FloatArray:
        """Covariance of the training inputs with the new ones; (n, m), Fortran order, no jitter.

        Freshly allocated. A column depends on its own new input alone.
        """
        kernel = self.covariance.kernel.clone_with_theta(theta)
        return np.asfortranarray(kernel(self.covariance.X, self.X_new))

    def diagonal(self, theta: FloatArray) -> FloatArray:
        """Prior variance at the new inputs; (m,), no jitter."""
        return self.covariance.diagonal(theta, self.X_new)

    def square(self, theta: FloatArray) -> FloatArray:
        """Prior covariance of the new inputs with one another; (m, m), no jitter."""
        return self.covariance.square(theta, self.X_new)
