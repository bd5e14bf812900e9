"""scikit-learn covariances behind one adapter: matrices, and gradients by contraction.

A `Covariance` binds a kernel to the training inputs. Its hyper-parameters theta are natural logs in
scikit-learn's order (``kernel.theta``). Gradients never build an (n, n, p) array: what an
approximation needs is always ``sum_ij A_ij dK_ij / dtheta_r`` for one symmetric A, so that is the
verb, `Covariance.contract`.

The jitter j is relative and part of the model: K_ii <- K_ii (1 + j), so that K stays proportional
to a constant factor of the kernel; where K_ii = 0 it is j times the mean diagonal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist, pdist, squareform
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Exponentiation,
    Kernel,
    Matern,
    Product,
    Sum,
)

from ._typing import FloatArray

__all__ = ["Covariance", "check_kernel", "default_kernel", "make_covariance"]

DEFAULT_JITTER = 1e-8


def default_kernel(n_features: int, *, ard: bool = False) -> Kernel:
    """``ConstantKernel() * RBF()``, with one length-scale per feature when `ard` is true."""
    return ConstantKernel() * RBF(np.ones(n_features) if ard else 1.0)


def check_kernel(kernel: Any, n_features: int) -> Kernel:
    """Return the kernel if it can serve inputs with `n_features` columns, else say why not."""
    if not isinstance(kernel, Kernel) or isinstance(kernel, CompoundKernel):
        raise ValueError(
            "kernel must be a scalar-valued covariance from sklearn.gaussian_process.kernels "
            f"(such as ConstantKernel() * RBF()) or None; got {kernel!r}."
        )
    for hyperparameter in kernel.hyperparameters:
        n_elements = hyperparameter.n_elements
        if n_elements > 1 and n_elements != n_features:
            raise ValueError(
                f"kernel hyper-parameter {hyperparameter.name!r} has {n_elements} elements but X "
                f"has {n_features} features: give it one element, or one per feature."
            )
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = kernel.theta
    if not np.all(np.isfinite(theta)):
        # By name: the repr of a kernel shows the square root of a negative constant.
        values = kernel.get_params()
        start = {h.name: values[h.name] for h in kernel.hyperparameters if not h.fixed}
        raise ValueError(
            "kernel has a start value that is not positive and finite, but its hyper-parameters "
            f"are sampled on the log scale; got {start}."
        )
    return kernel


def make_covariance(kernel: Kernel, X: FloatArray, jitter: float = DEFAULT_JITTER) -> Covariance:
    """Bind a kernel to training inputs, on the fast path where there is one."""
    if _ConstantTimesStationary.serves(kernel):
        return _ConstantTimesStationary(kernel, X, jitter)
    return _KernelTree(kernel, X, jitter)


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

    def contract(self, theta: FloatArray, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r`` for a symmetric A, jitter included; shape (p,)."""
        A = A.copy(order="F")
        zero = self._zero_diagonal(theta)
        weights = A.diagonal().copy()
        A.flat[:: len(A) + 1] = weights * (1.0 + self.jitter * ~zero) + (
            self.jitter * weights[zero].sum() / len(A)
        )
        return self._contract(theta, A)

    def _zero_diagonal(self, theta: FloatArray) -> Any:
        return np.asarray(self.diagonal(theta, self.X) == 0.0)

    @abstractmethod
    def _matrix(self, theta: FloatArray) -> FloatArray:
        """K without jitter, freshly allocated in Fortran order."""

    @abstractmethod
    def _contract(self, theta: FloatArray, A: FloatArray) -> FloatArray:
        """The contraction without jitter; may overwrite A."""

    @abstractmethod
    def cross(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Covariance of the training inputs with new ones; (n, m), no jitter."""

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Prior variance at new inputs; (m,), no jitter."""
        return np.asarray(self.kernel.clone_with_theta(theta).diag(X_new))

    def square(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        """Prior covariance of new inputs with one another; (m, m), no jitter."""
        return np.asarray(self.kernel.clone_with_theta(theta)(X_new))


# --- stationary profiles: k(D) and g(D) = -2 dk/dD of the scaled squared distance D -------------


def _profile(nu: float, D: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Correlation k and slope g = -2 dk/dD of RBF (nu = inf) and Matern, at D = r^2.

    With D = sum_r (x_r - x'_r)^2 / tau_r^2, dk/dlog tau_r = g (x_r - x'_r)^2 / tau_r^2.
    """
    if nu == np.inf:
        k = np.exp(-0.5 * D)
        return k, k
    r = np.sqrt(2.0 * nu * D)
    e = np.exp(-r)
    if nu == 0.5:
        with np.errstate(divide="ignore", invalid="ignore"):
            return e, np.where(r > 0.0, e / r, 0.0)  # g D -> 0 at r = 0
    if nu == 1.5:
        return (1.0 + r) * e, 3.0 * e
    return (1.0 + r + r * r / 3.0) * e, (5.0 / 3.0) * (1.0 + r) * e


_PROFILED_NU = (0.5, 1.5, 2.5, np.inf)


def _stationary_nu(kernel: Kernel) -> float | None:
    """Smoothness of a kernel that `_profile` covers (inf for RBF), else None."""
    if type(kernel) is RBF:
        return np.inf
    if type(kernel) is Matern and kernel.nu in _PROFILED_NU:
        return float(kernel.nu)
    return None


def _contract_distances(Z: FloatArray, M: FloatArray) -> FloatArray:
    """``sum_ij M_ij (z_ir - z_jr)^2`` for every column r of Z, with one product and M symmetric."""
    row_sums = M.sum(axis=1)
    return 2.0 * (row_sums @ (Z * Z)) - 2.0 * np.einsum("ir,ir->r", Z, M @ Z)


def _squared_distances(Z: FloatArray, *, exact: bool) -> FloatArray:
    """Squared Euclidean distances of the rows of Z; through one product unless `exact`.

    The product form is off by about 1e-16 |z|^2, harmless where the correlation is smooth in D and
    visible where it goes as sqrt(D) (Matern with nu = 1/2), which therefore asks for `exact`.
    """
    if exact:
        return squareform(pdist(Z, "sqeuclidean"))
    Z = Z - Z.mean(axis=0)
    gram = Z @ Z.T
    norms = gram.diagonal().copy()
    gram *= -2.0
    gram += norms[:, None]
    gram += norms
    np.maximum(gram, 0.0, out=gram)
    np.fill_diagonal(gram, 0.0)
    return gram


class _ConstantTimesStationary(Covariance):
    """``ConstantKernel * RBF`` or ``* Matern``, isotropic or ARD, in either order."""

    def __init__(self, kernel: Kernel, X: FloatArray, jitter: float = DEFAULT_JITTER) -> None:
        super().__init__(kernel, X, jitter)
        parts = (kernel.k1, kernel.k2)
        stationary = parts[1] if isinstance(parts[0], ConstantKernel) else parts[0]
        nu = _stationary_nu(stationary)
        assert nu is not None  # `serves` has checked it
        self._nu = nu
        self._anisotropic = np.size(stationary.length_scale) > 1
        # Where constant and length-scale stand in (theta, fixed values).
        self._constant, self._length_scale = None, None
        position = 0
        for part in parts:
            size = part.n_dims
            where = slice(position, position + size) if size else None
            if isinstance(part, ConstantKernel):
                self._constant = where
                self._fixed_constant = float(part.constant_value)
            else:
                self._length_scale = where
                self._fixed_length_scale = np.atleast_1d(np.asarray(part.length_scale, dtype=float))
            position += size

    @staticmethod
    def serves(kernel: Kernel) -> bool:
        if type(kernel) is not Product:
            return False
        parts = (kernel.k1, kernel.k2)
        return any(
            type(a) is ConstantKernel and _stationary_nu(b) is not None
            for a, b in (parts, parts[::-1])
        )

    def __getstate__(self) -> dict[str, Any]:
        # The n x n distances are quicker to rebuild than to send or store.
        return {k: v for k, v in self.__dict__.items() if k != "_raw_distances"}

    @cached_property
    def _raw_distances(self) -> FloatArray:
        """Squared distances of the unscaled inputs, for the isotropic case."""
        return _squared_distances(self.X, exact=True)

    def _values(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Constant and length-scales on the natural scale."""
        constant = self._fixed_constant
        if self._constant is not None:
            constant = float(np.exp(theta[self._constant][0]))
        length_scale = self._fixed_length_scale
        if self._length_scale is not None:
            length_scale = np.exp(theta[self._length_scale])
        return constant, length_scale

    def _scaled_distances(self, length_scale: FloatArray) -> FloatArray:
        if not self._anisotropic:
            return self._raw_distances * (1.0 / length_scale[0] ** 2)
        return _squared_distances(self.X / length_scale, exact=self._nu == 0.5)

    def _matrix(self, theta: FloatArray) -> FloatArray:
        constant, length_scale = self._values(theta)
        D = self._scaled_distances(length_scale)
        if self._nu == np.inf:
            D *= -0.5
            K = np.exp(D, out=D)
        else:
            K, _ = _profile(self._nu, D)
        K *= constant
        return K.T  # symmetric: the transpose is the same matrix in Fortran order

    def _contract(self, theta: FloatArray, A: FloatArray) -> FloatArray:
        constant, length_scale = self._values(theta)
        D = self._scaled_distances(length_scale)
        k, g = _profile(self._nu, D)
        gradient = np.empty(len(theta))
        if self._constant is not None:
            gradient[self._constant] = constant * np.vdot(A.T, k)
        if self._length_scale is not None:
            if self._anisotropic:
                slope = _contract_distances(self.X / length_scale, A.T * g)
            else:
                slope = np.array([np.vdot(A.T, g * D)])
            gradient[self._length_scale] = constant * slope
        return gradient

    def cross(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        constant, length_scale = self._values(theta)
        D = cdist(X_new / length_scale, self.X / length_scale, "sqeuclidean")
        K = _profile(self._nu, D)[0]
        K *= constant
        return K.T

    def diagonal(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        return np.full(len(X_new), self._values(theta)[0])


class _KernelTree(Covariance):
    """Any other scikit-learn kernel, walked as the tree of sums, products and powers that it is."""

    def _matrix(self, theta: FloatArray) -> FloatArray:
        return np.array(self.kernel.clone_with_theta(theta)(self.X), dtype=float).T

    def _contract(self, theta: FloatArray, A: FloatArray) -> FloatArray:
        return _contract_tree(self.kernel.clone_with_theta(theta), self.X, A)

    def cross(self, theta: FloatArray, X_new: FloatArray) -> FloatArray:
        return np.asarray(self.kernel.clone_with_theta(theta)(self.X, X_new))


def _contract_tree(kernel: Kernel, X: FloatArray, A: FloatArray) -> FloatArray:
    """Contraction by the chain rule over the kernel's tree; leaves give their own gradient."""
    if kernel.n_dims == 0:
        return np.empty(0)
    if isinstance(kernel, Sum):
        parts = (_contract_tree(part, X, A) for part in (kernel.k1, kernel.k2))
        return np.concatenate(list(parts))
    if isinstance(kernel, Product):
        pairs = ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1))
        return np.concatenate([_contract_tree(part, X, A * other(X)) for part, other in pairs])
    if isinstance(kernel, Exponentiation):
        base = kernel.kernel(X)
        power = kernel.exponent
        return _contract_tree(kernel.kernel, X, A * (power * base ** (power - 1)))
    nu = _stationary_nu(kernel)
    if nu is not None and np.size(kernel.length_scale) > 1:
        # The one family whose own gradient would need an (n, n, d) array.
        Z = X / kernel.length_scale
        _, g = _profile(nu, _squared_distances(Z, exact=nu == 0.5))
        return _contract_distances(Z, A * g)
    _, dK = kernel(X, eval_gradient=True)
    return np.einsum("ij,ijr->r", A, dK)
