"""The default kernel, and checks of kernels that the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    Exponentiation,
    Hyperparameter,
    Kernel,
    Product,
    Sum,
)

from .._typing import FloatArray
from ..kernels import Categorical, Linear, On
from .covariance import Covariance, make_covariance
from .parts import find_columns, owner_of

#: Size of a negative eigenvalue, in units of the largest variance, that is no rounding error.
_INDEFINITE_SHARE = 1e-5
#: Number of training rows at which a kernel is evaluated for a check.
_N_ROWS_TRIED = 30
#: Variance from which products may overflow; polynomials of large inputs reach it.
_LARGEST_VARIANCE = 1e60


def smooth_kernel(n_features: int, *, ard: bool = False) -> Kernel:
    """``ConstantKernel() * RBF()``, with one length-scale per feature when `ard` is true."""
    return ConstantKernel() * RBF(np.ones(n_features) if ard else 1.0)


def default_kernel(n_features: int, *, ard: bool = False) -> Kernel:
    """``ConstantKernel() * RBF() + Linear()``: a smooth function around a plane.

    With one length-scale per feature there is no plane: the length-scales are to show which
    features matter, and would not show linear effects beside a plane.
    """
    smooth = smooth_kernel(n_features, ard=ard)
    return smooth if ard else smooth + Linear()


def check_kernel(
    kernel: Any, n_features: int, feature_names: Sequence[str] | None = None
) -> Kernel:
    """Return the kernel if it is valid for inputs with `n_features` columns of some names."""
    if not _is_scalar_valued(kernel):
        raise ValueError(
            "kernel must be a scalar-valued covariance from sklearn.gaussian_process.kernels "
            '(such as ConstantKernel() * RBF()), None, a list of these, or "auto"; got '
            f"{_repr(kernel)}."
        )
    values = kernel.get_params()
    for hyperparameter in kernel.hyperparameters:
        if hyperparameter.name not in values:
            raise ValueError(
                f"kernel={_repr(kernel)} has the hyper-parameter {hyperparameter.name!r}, which "
                f"is not among the names of its get_params, {sorted(values)}: name the "
                "hyper-parameters of its parts as there, such as 'k1__length_scale'."
            )
    for name, value in values.items():
        # These two numbers of scikit-learn's kernels are not hyper-parameters.
        if name.split("__")[-1] in ("nu", "exponent"):
            _check_real(name, value)
            if not value > 0.0:
                raise ValueError(f"kernel parameter {name!r} must be positive; got {value!r}.")
    columns = find_columns(kernel, n_features, feature_names)
    for hyperparameter in kernel.hyperparameters:
        name = hyperparameter.name
        _check_hyperparameter(hyperparameter, values[name])
        if not isinstance(owner_of(kernel, name)[0], Categorical):
            _check_length(hyperparameter, len(columns[name]), n_features)
    return kernel


def _repr(kernel: Any) -> str:
    """Return the repr of a kernel, or its class if the repr fails."""
    try:
        return repr(kernel)
    except Exception:  # invalid arguments, or another package's __repr__, may raise any error
        return f"a {type(kernel).__name__} with invalid arguments"


def variance_position(kernel: Kernel) -> int | None:
    """Return the position in theta of a constant that multiplies all of K; None without one."""
    if isinstance(kernel, ConstantKernel):
        return 0 if kernel.n_dims else None
    if isinstance(kernel, On):
        return variance_position(kernel.kernel)
    if not isinstance(kernel, Product):
        return None
    first = variance_position(kernel.k1)
    second = variance_position(kernel.k2)
    if first is not None:
        return first
    return None if second is None else int(kernel.k1.n_dims) + second


def _is_scalar_valued(kernel: Any) -> bool:
    """Whether a kernel and all of its parts give one number for two rows."""
    if isinstance(kernel, (Sum, Product)):
        return _is_scalar_valued(kernel.k1) and _is_scalar_valued(kernel.k2)
    if isinstance(kernel, (Exponentiation, On)):
        return _is_scalar_valued(kernel.kernel)
    return isinstance(kernel, Kernel) and not isinstance(kernel, CompoundKernel)


def _check_length(hyperparameter: Hyperparameter, n_columns: int, n_features: int) -> None:
    """Refuse a vector without one element for each of the columns that a part of a kernel sees."""
    n_elements = hyperparameter.n_elements
    if n_elements in (1, n_columns):
        return
    if n_columns == n_features:
        columns = f"X has {n_features} features: give it one element, or one per feature."
    else:
        columns = (
            f"its On(...) selects {n_columns} of the {n_features} columns of X: give it one "
            "element, or one per selected column."
        )
    raise ValueError(
        f"kernel hyper-parameter {hyperparameter.name!r} has {n_elements} elements but {columns}"
    )


def _check_hyperparameter(hyperparameter: Hyperparameter, value: Any) -> None:
    """Refuse a value that is not one number, or one per feature, of the right sign.

    Messages do not contain the kernel, as its repr fails for values that are not numbers.
    """
    name = hyperparameter.name
    n_elements = hyperparameter.n_elements
    _check_real(name, value)
    if np.ndim(value) > 1 or np.size(value) != n_elements:
        shape = "one number" if n_elements == 1 else "one number per feature"
        raise ValueError(
            f"kernel hyper-parameter {name!r} must be {shape}; got "
            f"{np.asarray(value).tolist()}, of shape {np.shape(value)}."
        )
    if hyperparameter.fixed:
        # A fixed variance may be zero, and a fixed distance of levels infinite. Where such a value
        # makes the matrix not finite, `check_matrix` says so.
        if not np.all(np.asarray(value) >= 0.0):
            raise ValueError(
                f"kernel hyper-parameter {name!r} is fixed at {value!r}: give it a value that is "
                "not negative."
            )
    elif not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0.0)):
        raise ValueError(
            "kernel has a start value that is not positive and finite, but hyper-parameters are "
            f"sampled on the log scale: {name!r} is {value!r}. Give it a positive one."
        )


def _check_real(name: str, value: Any) -> None:
    """Refuse a value that is not a real number or an array of real numbers."""
    entries = np.asarray(value, dtype=object).ravel().tolist()
    if not entries or not all(isinstance(entry, Real) for entry in entries):
        raise ValueError(f"kernel parameter {name!r} must be a number; got {value!r}.")


def check_matrix(kernel: Kernel, X: FloatArray) -> None:
    """Evaluate the kernel at a few training rows, and raise an error if the result is invalid.

    Parameters
    ----------
    kernel : Kernel
        Kernel with its own values of the hyper-parameters.
    X : ndarray of shape (n, d)
        Training inputs.

    Raises
    ------
    ValueError
        If the kernel cannot be evaluated, or its matrix is not a covariance matrix.
    """
    few = X[:_N_ROWS_TRIED]
    try:
        with np.errstate(all="ignore"):
            diagonal = kernel.diag(X)
            cross = kernel(X, few)
            K = np.asarray(kernel(few), dtype=float)
    except Exception as error:
        raise ValueError(
            f"kernel={_repr(kernel)} cannot be evaluated at the training rows "
            f"({type(error).__name__}: {error}): check its parameters, and what it expects of X."
        ) from error
    shapes = (np.shape(diagonal), np.shape(cross), K.shape)
    wanted = ((len(X),), (len(X), len(few)), (len(few), len(few)))
    if shapes != wanted:
        raise ValueError(
            f"kernel={_repr(kernel)} gives arrays of shapes {shapes} for its diagonal, for all "
            f"rows of X with {len(few)} of them, and for these alone; they must be {wanted}."
        )
    _check_entries(kernel, diagonal, cross, K)
    least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    if least < -_INDEFINITE_SHARE * float(np.max(diagonal)):
        raise ValueError(
            f"kernel={_repr(kernel)} is no covariance: its matrix for the first {len(few)} rows "
            f"of X has the eigenvalue {least:.3g}. Use a positive semidefinite kernel."
        )


def _check_entries(kernel: Kernel, diagonal: FloatArray, cross: FloatArray, K: FloatArray) -> None:
    """Refuse values that are not finite or too large, and variances that are all zero."""
    finite = np.isfinite(diagonal) & np.isfinite(cross).all(axis=1)
    finite[: len(K)] &= np.isfinite(K).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"kernel={_repr(kernel)} is not finite in row {int(np.argmin(finite))} of X: check "
            "its parameters, and the scale of the features."
        )
    if not np.all(diagonal < _LARGEST_VARIANCE):
        row = int(np.argmin(diagonal < _LARGEST_VARIANCE))
        raise ValueError(
            f"kernel={_repr(kernel)} has the variance {diagonal[row]:g} at row {row} of X: scale "
            "the features, such as with make_pipeline(StandardScaler(), ...)."
        )
    if not np.any(diagonal > 0.0):
        raise ValueError(
            f"kernel={_repr(kernel)} has no variance at any training row, so the latent function "
            "would be zero: give its constant a positive value."
        )


def check_gradient(covariance: Covariance, remedy: str) -> None:
    """Raise a ValueError if a kernel has no gradient at a few training rows.

    `remedy` tells the user of an alternative to writing the gradient.
    """
    if not len(covariance.start):
        return
    few = make_covariance(covariance.kernel, covariance.X[:_N_ROWS_TRIED])
    try:
        with np.errstate(all="ignore"):
            gradient = few.contract(few.start, np.eye(len(few.X)))
    except Exception as error:
        problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    else:
        if gradient.shape == few.start.shape:
            return
        problem = f"it has {gradient.size} derivatives for {few.start.size} of them"
    raise ValueError(
        f"kernel={_repr(covariance.kernel)} has no gradient in its hyper-parameters ({problem}): "
        f"make it support eval_gradient=True, or {remedy}."
    )
