"""Priors of the hyper-parameters that the user leaves out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import spatial, stats

from .._typing import FloatArray
from ..likelihoods import Likelihood
from .covariance import Covariance
from .hyperpriors import HyperPrior

#: Share of a length-scale's prior below its lower, and above its upper end.
_TAIL = 0.01
#: How many neighbors a length-scale must reach that data can tell from a shorter one.
_N_NEIGHBORS = 5
#: Lower end, in distances to that neighbor; upper end, in widths of the data.
_OF_NEIGHBOR, _OF_WIDTH = 0.5, 3.0
#: Log-normal priors, by median and standard deviation of the log: of a variance, of the standard
#: deviation of noise, of the shape of negative binomial counts, and of what has no rule of its own.
_VARIANCE, _NOISE, _SHAPE, _OTHER = (4.0, 3.0), (0.3, 1.5), (10.0, 3.0), (1.0, 1.0)


def default_prior(
    name: str, X: FloatArray, *, positive: bool = True, per_feature: bool = False
) -> Any:
    """Prior of a hyper-parameter that the user left out, by the end of its name.

    Parameters
    ----------
    name : str
        Such as ``"k2__length_scale"`` or ``"noise_scale"``.
    X : ndarray of shape (n, d)
        Training inputs.
    positive : bool, default=True
        False for a hyper-parameter that may be negative.
    per_feature : bool, default=False
        Whether every feature has a length-scale of its own.

    Returns
    -------
    frozen scipy.stats distribution
        On the natural scale. Log-normal, but for one that may be negative, which gets the normal
        distribution with mean 0 and standard deviation 3.

    Notes
    -----
    ``constant_value`` is a variance: its root has median 2, and nine of ten draws are between 0.2
    and 24. ``sigma_0`` is such a root. ``noise_scale`` has median 0.3, in units of the standard
    deviation of the targets; ``noise_level`` is its square. ``shape``, of negative binomial counts,
    has median 10 and reaches far beyond, where counts are Poisson. Of the draws of
    ``length_scale`` and ``periodicity`` one of a hundred is below half the distance of neighbors,
    and one above three times the width of the inputs, see `length_bounds`: beyond those, data say
    nothing about a length-scale (Betancourt, 2017, "Robust Gaussian processes in Stan, part 3").
    Any other name gets the log-normal(0, 1).
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
    """Return the ends of the length-scales that data at the inputs can tell from others.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Inputs.
    per_feature : bool, default=False
        Whether every feature has a length-scale of its own. Then one may be all that matters, and
        the lower end is divided by sqrt(d): the share of one feature in a distance.

    Returns
    -------
    tuple of float
        Half of the median distance of a row to its fifth neighbor (of few rows, to that which a
        quarter of them are nearer than), and three times the diameter of the ball about the mean
        that holds all rows. Equal rows count once. Without two different rows, 0.1 and 10.
    """
    rows = np.unique(X, axis=0)
    if len(rows) < 2:
        return 0.1, 10.0
    k = min(_N_NEIGHBORS, 1 + (len(rows) - 1) // 4)
    # The nearest of the training rows is the row itself.
    distances, _ = spatial.KDTree(rows).query(rows, [k + 1])
    width = 2.0 * float(np.sqrt(((rows - rows.mean(axis=0)) ** 2).sum(axis=1)).max())
    low = _OF_NEIGHBOR * float(np.median(distances))
    return low / float(np.sqrt(X.shape[1] if per_feature else 1)), _OF_WIDTH * width


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
    """Prior of a hyper-parameter in the papers, by the end of its name.

    Scales (``constant_value``, ``noise_level``, ``sigma_0``) get Gamma(1.1, rate 0.1);
    ``length_scale`` and ``periodicity`` get Gamma(1, rate 1/sqrt(d)) for X of shape (n, d); any
    other name gets the log-normal(0, 1). The first two are those of Filippone & Girolami (2014),
    section 4.4. One that may be negative gets the normal distribution with mean 0 and standard
    deviation 3. `per_feature` makes no difference.
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
        Has names and training inputs.
    likelihood : Likelihood
        Its parameters follow.
    priors : mapping of str to frozen scipy.stats distribution, "paper" or None, default=None
        Names left out get `default_prior`; with "paper", all get `paper_prior`.
    n_kernels : int, default=1
        With several kernels, each has the hyper-parameters of the covariance.
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
