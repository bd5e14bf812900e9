"""Check of a kernel: its gradient, its two arguments, its copies, and its use by the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._typing import FloatArray
from ..model import kernels
from ..model.covariance import make_covariance
from ..model.default_priors import default_priors
from .likelihoods import _DIFFERENCE_STEP, _assert_agree

#: Distance on the log scale of the second value of every hyper-parameter that is examined.
_SECOND_VALUE = 0.3
#: Rounding error of an entry, relative to the largest one.
_ENTRY_ROUNDING = 1e-9


def check_kernel(kernel: Any, X: FloatArray) -> None:
    """Check that a kernel can be used in a fit.

    The matrix must be a covariance matrix, and have the values of the kernel of two sets of rows
    and of `diag`. The gradient in the logs of the free hyper-parameters is compared with finite
    differences. Copies must be equal to the kernel. The covariance that a fit would make of it, and
    may evaluate in another way, must agree with it, and it must be possible to make default priors.
    Values and gradients are compared at the kernel's own hyper-parameters and at larger ones.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel to check; an object, not a class. Give its parameters values that are not their
        defaults: a copy that loses a parameter has its default.
    X : ndarray of shape (n, d)
        Some inputs, n >= 3, whose distances are not large compared with the length-scale.

    Raises
    ------
    AssertionError
        If something disagrees; the message says what, and by how much.
    """
    X = np.asarray(X, dtype=float)
    assert X.ndim == 2, f"X must have the shape (n, d); got {X.shape}"
    assert len(X) >= 3, f"X must have at least 3 rows; got {len(X)}"
    assert not isinstance(kernel, type), (
        f"kernel is the class {kernel.__name__}: pass an object, {kernel.__name__}()"
    )
    with _errors_as_failures():
        kernels.check_kernel(kernel, X.shape[1])
        default_priors(kernel, X)
    _check_copy(kernel, X)
    for theta in (kernel.theta, kernel.theta + _SECOND_VALUE):
        _check_values(kernel, X, theta)
        _check_gradient(kernel, X, theta)
        _check_covariance(kernel, X, theta)
    with _errors_as_failures():
        kernels.check_matrix(kernel, X)


@contextmanager
def _errors_as_failures() -> Iterator[None]:
    """Raise the errors of a fit as those of a check."""
    try:
        yield
    except ValueError as error:
        raise AssertionError(str(error)) from error


def _check_copy(kernel: Any, X: FloatArray) -> None:
    try:
        copy = kernel.clone_with_theta(kernel.theta)  # by scikit-learn's `clone`
    except (AttributeError, RuntimeError, TypeError) as error:
        raise AssertionError(
            f"a copy of {type(kernel).__name__} fails ({type(error).__name__}: {error}): __init__ "
            "must store every argument, unchanged, under its own name"
        ) from error
    _assert_near(f"matrix of a copy of {kernel}", copy(X), kernel(X))


def _check_values(kernel: Any, X: FloatArray, theta: FloatArray) -> None:
    own = kernel.clone_with_theta(theta)
    where = f"of {own}"
    K = own(X)
    _assert_near(f"transpose of the matrix {where}", K.T, K)
    _assert_near(f"diag {where}", own.diag(X), np.diagonal(K))
    # Different numbers of rows, so that a transpose has another shape.
    few, more = X[: len(X) // 3], X[len(X) // 3 :]
    cross = np.asarray(own(few, more))
    expected = K[: len(few), len(few) :]
    assert cross.shape == expected.shape, (
        f"k(X, Y) {where} has the shape {cross.shape} for {len(few)} and {len(more)} rows; it must "
        f"be {expected.shape}"
    )
    _assert_near(f"k(X, Y) {where}", cross, expected)
    least = float(np.linalg.eigvalsh(K)[0])
    assert least >= -_ENTRY_ROUNDING * len(K) * np.abs(K).max(), (
        f"the matrix {where} has the eigenvalue {least:.3g}: a covariance matrix has none below "
        "zero"
    )


def _check_gradient(kernel: Any, X: FloatArray, theta: FloatArray) -> None:
    own = kernel.clone_with_theta(theta)
    try:
        K, gradient = own(X, eval_gradient=True)
    except Exception as error:
        raise AssertionError(
            f"{own} has no gradient ({type(error).__name__}: {error}): __call__ must return K and "
            "the gradient if eval_gradient is True"
        ) from error
    _assert_near(f"matrix with eval_gradient=True of {own}", K, own(X))
    shape = (len(X), len(X), len(theta))
    assert np.shape(gradient) == shape, (
        f"the gradient of {own} has the shape {np.shape(gradient)}; it must be {shape}, with one "
        "matrix for each free hyper-parameter"
    )
    names = [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]
    scale = np.abs(K).max()
    for r, step in enumerate(_DIFFERENCE_STEP * np.eye(len(theta))):
        above, below = (kernel.clone_with_theta(theta + s)(X) for s in (step, -step))
        slope = (above - below) / (2.0 * _DIFFERENCE_STEP)
        what = f"gradient of {own} in the log of {names[r]} (number {r})"
        _assert_agree(what, gradient[:, :, r] / scale, slope / scale)


def _check_covariance(kernel: Any, X: FloatArray, theta: FloatArray) -> None:
    """Check the covariance that a fit would use, which may be a faster form of the kernel."""
    covariance = make_covariance(kernel, X)
    own = kernel.clone_with_theta(theta)
    where = f"of {type(covariance).__name__} for {own}"
    few = X[: len(X) // 3]
    K, gradient = own(X, eval_gradient=True)
    _assert_near(f"matrix {where}", covariance.matrix(theta), K)
    _assert_near(f"cross {where}", covariance.cross(theta, few), own(X, few))
    _assert_near(f"diagonal {where}", covariance.diagonal(theta, few), own.diag(few))
    A = 1.0 / (1.0 + np.add.outer(np.arange(len(X)), np.arange(len(X))))
    contraction = np.einsum("ij,ijr->r", A, gradient)
    _assert_near(f"contract {where}", covariance.contract(theta, A), contraction)


def _assert_near(what: str, value: FloatArray, expected: FloatArray) -> None:
    """Compare arrays with a tolerance that is relative to the largest entry."""
    assert np.shape(value) == np.shape(expected), (
        f"{what} has the shape {np.shape(value)}; it must be {np.shape(expected)}"
    )
    scale = float(np.max(np.abs(expected), initial=0.0))
    gap = np.abs(value - expected)
    assert np.all(gap <= _ENTRY_ROUNDING * (scale or 1.0)), (
        f"{what}: {np.asarray(value).ravel()[np.argmax(gap)]:.6g} where "
        f"{np.asarray(expected).ravel()[np.argmax(gap)]:.6g} is expected"
    )
