"""Kernels and priors that a user names or leaves out: which serve, and what the defaults are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from scipy import spatial, stats
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
from ..likelihoods import Likelihood
from .covariance import Covariance, make_covariance
from .hyperpriors import HyperPrior

#: An eigenvalue below minus this share of the variance is no rounding error.
_INDEFINITE = 1e-5

#: Training rows on which a kernel is tried.
_N_TRIED = 30

#: Variances from which products overflow: a polynomial of large inputs has them.
_LARGEST_VARIANCE = 1e60

#: Share of a length-scale's prior below its lower, and above its upper end.
_TAIL = 0.01
#: How many neighbors a length-scale must reach that data can tell from a shorter one.
_N_NEIGHBORS = 5
#: Lower end, in distances to that neighbor; upper end, in widths of the data.
_OF_NEIGHBOR, _OF_WIDTH = 0.5, 3.0
#: Lower ends stay within these, which chains can reach: inputs of any size have a length-scale.
_LENGTHS = (1e-15, 1e15)
#: Log-normal priors, by median and standard deviation of the log: of a variance, of the standard
#: deviation of noise, of the shape of negative binomial counts, and of what has no rule of its own.
_VARIANCE, _NOISE, _SHAPE, _OTHER = (4.0, 2.0), (0.3, 1.5), (10.0, 3.0), (1.0, 1.0)


def default_kernel(n_features: int, *, ard: bool = False) -> Kernel:
    """``ConstantKernel() * RBF()``, with one length-scale per feature when `ard` is true."""
    return ConstantKernel() * RBF(np.ones(n_features) if ard else 1.0)


def check_kernel(kernel: Any, n_features: int) -> Kernel:
    """Return the kernel if it can serve inputs with `n_features` columns, else say why not."""
    if not _is_scalar_valued(kernel):
        raise ValueError(
            "kernel must be a scalar-valued covariance from sklearn.gaussian_process.kernels "
            f"(such as ConstantKernel() * RBF()) or None; got {kernel!r}."
        )
    values = kernel.get_params()
    for name, value in values.items():
        # The two numbers of scikit-learn's kernels that are not hyper-parameters.
        if name.split("__")[-1] in ("nu", "exponent"):
            _check_number(name, value)
            if not value > 0.0:
                raise ValueError(f"kernel parameter {name!r} must be positive; got {value!r}.")
    for hyperparameter in kernel.hyperparameters:
        _check_hyperparameter(hyperparameter, values[hyperparameter.name], n_features)
    return kernel


def variance_position(kernel: Kernel) -> int | None:
    """Return where theta has a constant that multiplies the whole of K; None without one."""
    if isinstance(kernel, ConstantKernel):
        return 0 if kernel.n_dims else None
    if not isinstance(kernel, Product):
        return None
    first, second = variance_position(kernel.k1), variance_position(kernel.k2)
    if first is not None:
        return first
    return None if second is None else int(kernel.k1.n_dims) + second


def _is_scalar_valued(kernel: Any) -> bool:
    """Whether a kernel, and all that it is made of, give one number for two rows."""
    if isinstance(kernel, (Sum, Product)):
        return _is_scalar_valued(kernel.k1) and _is_scalar_valued(kernel.k2)
    if isinstance(kernel, Exponentiation):
        return _is_scalar_valued(kernel.kernel)
    return isinstance(kernel, Kernel) and not isinstance(kernel, CompoundKernel)


def _check_hyperparameter(hyperparameter: Hyperparameter, value: Any, n_features: int) -> None:
    """Refuse a value that is not one number, or one per feature, of the right sign.

    The kernel itself is not shown: its repr fails for values that are no numbers.
    """
    name, n_elements = hyperparameter.name, hyperparameter.n_elements
    _check_number(name, value)
    if np.ndim(value) > 1 or np.size(value) != n_elements:
        shape = "one number" if n_elements == 1 else "one number per feature"
        raise ValueError(
            f"kernel hyper-parameter {name!r} must be {shape}; got "
            f"{np.asarray(value).tolist()}, of shape {np.shape(value)}."
        )
    if n_elements > 1 and n_elements != n_features:
        raise ValueError(
            f"kernel hyper-parameter {name!r} has {n_elements} elements but X has {n_features} "
            "features: give it one element, or one per feature."
        )
    if hyperparameter.fixed:
        # A fixed variance may be zero; where that makes no sense, the matrix is not finite.
        if not (np.all(np.isfinite(value)) and np.all(np.asarray(value) >= 0.0)):
            raise ValueError(
                f"kernel hyper-parameter {name!r} is fixed at {value!r}: give it a finite value "
                "that is not negative."
            )
    elif not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0.0)):
        raise ValueError(
            "kernel has a start value that is not positive and finite, but hyper-parameters are "
            f"sampled on the log scale: {name!r} is {value!r}. Give it a positive one."
        )


def _check_number(name: str, value: Any) -> None:
    kind = np.asarray(value, dtype=object).ravel().tolist()
    if not kind or not all(isinstance(part, Real) for part in kind):
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
    few = X[:_N_TRIED]
    try:
        with np.errstate(all="ignore"):
            diagonal, cross = kernel.diag(X), kernel(X, few)
            K = np.asarray(kernel(few), dtype=float)
    except Exception as error:
        raise ValueError(
            f"kernel={kernel!r} cannot be evaluated at the training rows "
            f"({type(error).__name__}: {error}): check its parameters, and what it expects of X."
        ) from error
    shapes = (np.shape(diagonal), np.shape(cross), K.shape)
    wanted = ((len(X),), (len(X), len(few)), (len(few), len(few)))
    if shapes != wanted:
        raise ValueError(
            f"kernel={kernel!r} gives arrays of shapes {shapes} for its diagonal, for all rows of "
            f"X with {len(few)} of them, and for these alone; they must be {wanted}."
        )
    _check_values(kernel, diagonal, cross, K)
    least = float(np.linalg.eigvalsh(0.5 * (K + K.T))[0])
    if least < -_INDEFINITE * float(np.max(diagonal)):
        raise ValueError(
            f"kernel={kernel!r} is no covariance: its matrix for the first {len(few)} rows of X "
            f"has the eigenvalue {least:.3g}. Use a positive semidefinite kernel."
        )


def _check_values(kernel: Kernel, diagonal: FloatArray, cross: FloatArray, K: FloatArray) -> None:
    """Refuse values that are not finite, overflow, or are all zero."""
    finite = np.isfinite(diagonal) & np.isfinite(cross).all(axis=1)
    finite[: len(K)] &= np.isfinite(K).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"kernel={kernel!r} is not finite in row {int(np.argmin(finite))} of X: check its "
            "parameters, and the scale of the features."
        )
    if not np.all(diagonal < _LARGEST_VARIANCE):
        row = int(np.argmin(diagonal < _LARGEST_VARIANCE))
        raise ValueError(
            f"kernel={kernel!r} has the variance {diagonal[row]:g} at row {row} of X: scale the "
            "features, such as with make_pipeline(StandardScaler(), ...)."
        )
    if not np.any(diagonal > 0.0):
        raise ValueError(
            f"kernel={kernel!r} has no variance at any training row, so the latent function would "
            "be zero: give its constant a positive value."
        )


def check_gradient(covariance: Covariance, remedy: str) -> None:
    """Raise a ValueError if a kernel has no gradient; a few training rows are tried.

    `remedy` says what the user may do instead of writing one.
    """
    if not len(covariance.start):
        return
    few = make_covariance(covariance.kernel, covariance.X[:_N_TRIED])
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
        f"kernel={covariance.kernel!r} has no gradient in its hyper-parameters ({problem}): make "
        f"it support eval_gradient=True, or {remedy}."
    )


# --- priors -------------------------------------------------------------------------------------


def default_prior(
    name: str, X: FloatArray, *, positive: bool = True, per_feature: bool = False
) -> Any:
    """Return the default prior of a hyper-parameter, which depends on the end of its name.

    Parameters
    ----------
    name : str
        Name, such as ``"k2__length_scale"`` or ``"noise_scale"``.
    X : ndarray of shape (n, d)
        Training inputs.
    positive : bool, default=True
        False for a hyper-parameter that may be negative.
    per_feature : bool, default=False
        Whether every feature has a length-scale of its own.

    Returns
    -------
    frozen scipy.stats distribution
        Prior on the natural scale: log-normal for positive hyper-parameters, else the normal
        distribution with mean 0 and standard deviation 3.

    Notes
    -----
    ``constant_value`` is a variance: the standard deviation has median 2, and lies between 0.4 and
    10 with probability 0.9. ``sigma_0`` has the prior of this standard deviation. ``noise_scale``
    has median 0.3, in units of the standard deviation of the targets; ``noise_level`` is its
    square. ``shape``, of negative binomial counts, has median 10 and a long upper tail, where
    counts are nearly Poisson. ``length_scale`` and ``periodicity`` are below half the distance of
    neighboring inputs with probability 0.01, and above three times the diameter of the inputs with
    probability 0.01 (see `length_bounds`): data have no information about a length-scale outside
    this range (Betancourt, 2017, "Robust Gaussian processes in Stan, part 3"). All other
    hyper-parameters have the log-normal(0, 1) prior.
    """
    if not positive:
        return stats.norm(0.0, 3.0)
    if name.endswith("constant_value"):
        return _lognormal(*_VARIANCE)
    if name.endswith("sigma_0"):
        return _of_root(_VARIANCE)
    if name.endswith("noise_scale"):
        return _lognormal(*_NOISE)
    if name.endswith("noise_level"):
        return _of_square(_NOISE)
    if name.endswith(("length_scale", "periodicity")):
        return _between(*length_bounds(X, per_feature=per_feature))
    return _lognormal(*(_SHAPE if name == "shape" else _OTHER))


def length_bounds(X: FloatArray, *, per_feature: bool = False) -> tuple[float, float]:
    """Return the range of length-scales about which data at these inputs are informative.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    per_feature : bool, default=False
        Whether every feature has its own length-scale. Then a single feature may be relevant, and
        the lower end is divided by sqrt(d), as a distance along one feature is smaller than the
        distance of the inputs by this factor.

    Returns
    -------
    tuple of float
        The lower end is half of the median distance of a row to its fifth nearest neighbor (with
        fewer than 17 rows, to a nearer one). The upper end is three
        times the diameter of the smallest ball about the mean that contains all rows. Equal rows
        count once. If there are no two different rows, 0.1 and 10.
    """
    rows = np.unique(X, axis=0)
    if len(rows) < 2:
        return 0.1, 10.0
    unit = float(
        np.ptp(rows, axis=0).max()
    )  # squares of what is very small or large are no numbers
    rows = (rows - rows[0]) / unit
    k = min(_N_NEIGHBORS, 1 + (len(rows) - 1) // 4)
    # The nearest of the training rows is the row itself.
    distances, _ = spatial.KDTree(rows).query(rows, [k + 1])
    radius = float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1)).max())
    low = _OF_NEIGHBOR * float(np.median(distances))
    low /= float(np.sqrt(X.shape[1] if per_feature else 1))
    least, most = _LENGTHS
    low = min(max(low * unit, least), most)
    return low, min(max(_OF_WIDTH * 2.0 * radius * unit, 2.0 * low), 2.0 * most)


def _lognormal(median: float, log_sd: float) -> Any:
    return stats.lognorm(log_sd, scale=median)


def _of_root(of: tuple[float, float]) -> Any:
    """Law of the root of what is log-normal."""
    return _lognormal(np.sqrt(of[0]), 0.5 * of[1])


def _of_square(of: tuple[float, float]) -> Any:
    """Law of the square of what is log-normal."""
    return _lognormal(of[0] ** 2, 2.0 * of[1])


def _between(low: float, high: float) -> Any:
    """Log-normal with a share of `_TAIL` below `low`, and above `high`."""
    return _lognormal(np.sqrt(low * high), np.log(high / low) / (-2.0 * stats.norm.ppf(_TAIL)))


def paper_prior(
    name: str, X: FloatArray, *, positive: bool = True, per_feature: bool = False
) -> Any:
    """Return the prior of a hyper-parameter in the papers, by the end of its name.

    ``constant_value``, ``noise_level`` and ``sigma_0`` have the prior Gamma(1.1, rate 0.1);
    ``length_scale`` and ``periodicity`` have Gamma(1, rate 1/sqrt(d)) for X of shape (n, d). These
    are the priors of Filippone & Girolami (2014), section 4.4. All other positive hyper-parameters
    have the log-normal(0, 1) prior; those that may be negative, the normal distribution with mean
    0 and standard deviation 3. `per_feature` has no effect.
    """
    if not positive:
        return stats.norm(0.0, 3.0)
    if name.endswith(("constant_value", "noise_level", "sigma_0")):
        return stats.gamma(1.1, scale=10.0)
    if name.endswith(("length_scale", "periodicity")):
        return stats.gamma(1.0, scale=np.sqrt(X.shape[1]))
    return stats.lognorm(1.0)


def default_hyperprior(
    covariance: Covariance,
    likelihood: Likelihood,
    priors: Mapping[str, Any] | str | None = None,
    n_kernels: int = 1,
) -> HyperPrior:
    """Return the prior of theta.

    Parameters
    ----------
    covariance : Covariance
        Covariance with the names of its hyper-parameters and the training inputs.
    likelihood : Likelihood
        Its parameters come last.
    priors : mapping of str to frozen scipy.stats distribution, "paper" or None, default=None
        Names left out get `default_prior`, except that the variance of a softmax gets
        `paper_prior`; with "paper", all get `paper_prior`.
    n_kernels : int, default=1
        Number of kernels, each with the hyper-parameters of the covariance.
    """
    parameters = likelihood.parameters
    names = (*covariance.names * n_kernels, *(parameter.name for parameter in parameters))
    real = {parameter.name for parameter in parameters if not parameter.positive}
    given = priors if isinstance(priors, Mapping) else {}
    rule = paper_prior if priors == "paper" else default_prior
    laws = {
        name: _rule_for(name, likelihood, rule)(
            name,
            covariance.X,
            positive=name not in real,
            per_feature=covariance.names.count(name) > 1,
        )
        for name in dict.fromkeys(names)
        if name not in given
    }
    return HyperPrior(names, {**laws, **given}, real)


def _rule_for(name: str, likelihood: Likelihood, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return the papers' rule for the variance of a softmax, whose estimates fail at large ones."""
    softmax = likelihood.n_functions > 1
    return paper_prior if softmax and name.endswith("constant_value") else rule
