"""Predictions of new targets that are numbers: a point, and standard deviations and quantiles.

Also of functions of f: the probability that f is above a threshold, and the moments of exp(f).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..likelihoods.base import Likelihood
from ._data import check_numbers, to_units_of_y


class Curve(NamedTuple):
    """What `PredictionDisplay` draws: predictions at some rows, and observed targets.

    All are in units of y, or as rates per unit of exposure, shares of trials, or probabilities.
    """

    label: str  # name of the quantity
    mean: np.ndarray  # (n,)
    function: np.ndarray  # (k, n), posterior quantiles of the function of the inputs
    targets: np.ndarray | None  # (k, n), quantiles of new targets; None for class labels
    observed: np.ndarray | None  # (n_observed,), or None without data


def check_probabilities(return_quantiles: Any) -> list[float]:
    """Return the probabilities of the quantiles as a list; each must lie between 0 and 1."""
    probabilities = np.atleast_1d(check_numbers("return_quantiles", return_quantiles))
    if probabilities.ndim != 1 or not np.all((probabilities > 0) & (probabilities < 1)):
        raise ValueError(
            f"return_quantiles must be probabilities between 0 and 1; got {return_quantiles!r}."
        )
    values: list[float] = probabilities.tolist()
    return values


def share_above(
    likelihood: Likelihood, mean: np.ndarray, var: np.ndarray, *, threshold: float
) -> np.ndarray:
    """Return the probability that f* ~ N(mean, var) is above a threshold, with an axis in front."""
    sd = np.sqrt(np.maximum(var, np.finfo(float).tiny))
    return np.asarray(ndtr((mean - threshold) / sd))[None]


def exceedance(
    estimator: Any, X: np.ndarray, threshold: float, offset: np.ndarray | float = 0.0
) -> np.ndarray:
    """Return the posterior probability that f plus the offset is above a threshold, (n,).

    The threshold is on the scale of the function that is sampled.
    """
    above = partial(share_above, threshold=threshold)
    found: np.ndarray = estimator._predictor.expectation(above, X, estimator.n_jobs, offset)
    return found[0]


def mean_of_exp(likelihood: Likelihood, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return the mean of exp(f) over f ~ N(mean, var), with an axis in front."""
    return np.exp(mean + 0.5 * var)[None]


def moments_of_exp(likelihood: Likelihood, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    """Return the means of exp(f) and of its square over f ~ N(mean, var), stacked."""
    square = mean_of_exp(likelihood, 2.0 * mean, 4.0 * var)
    return np.concatenate([mean_of_exp(likelihood, mean, var), square])


def unwrap_single(results: list[Any]) -> Any:
    """Return a single result itself, and several as a tuple."""
    return results[0] if len(results) == 1 else tuple(results)


def predict_targets(
    estimator: Any,
    X: np.ndarray,
    return_std: Any,
    return_quantiles: Any,
    offset: np.ndarray | float = 0.0,
    point: np.ndarray | None = None,
) -> Any:
    """Return a point prediction for each row, with standard deviations and quantiles if asked for.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator whose targets are numbers.
    X : ndarray of shape (n, d)
        Rows to predict.
    return_std : bool
        Whether to return the standard deviation of the target.
    return_quantiles : sequence of float, or None
        Probabilities of the quantiles of the target to return; None for no quantiles.
    offset : ndarray of shape (n,), or float
        Added to f.
    point : ndarray of shape (n,), optional
        The point prediction; by default the mean of the target.

    Returns
    -------
    ndarray, or tuple of ndarray
        In units of y: the point, (n,), and if asked for the standard deviations, (n,), and the
        quantiles, (n_quantiles, n).
    """
    predictor = estimator._predictor
    shift, scale = estimator._target_units
    probabilities = None if return_quantiles is None else check_probabilities(return_quantiles)
    deviations = []
    if return_std:
        mean, var = predictor.target_moments(X, estimator.n_jobs, offset)
        deviations = [to_units_of_y(np.sqrt(var), 0.0, scale)]
    elif point is None:
        mean = predictor.target_mean(X, estimator.n_jobs, offset)
    results = [to_units_of_y(mean, shift, scale) if point is None else point, *deviations]
    if probabilities is not None:
        quantiles = predictor.target_quantiles(probabilities, X, offset)
        results.append(to_units_of_y(quantiles, shift, scale))
    return unwrap_single(results)
