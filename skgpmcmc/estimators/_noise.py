"""Known noise of a regression, and the scale of targets with different known noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._params import check_choice, check_in
from ..likelihoods.gaussian import Gaussian
from ._data import check_rows, find_power_of_two, root_mean_square
from ._rows import TrainingRows

#: Values of the parameter `noise`.
NOISE_KINDS = ("inferred", "known", "none")
#: Noise variance in place of none, in units of the variance of y. Its root, a thousandth, is far
#: above the rounding of K even if f varies much more than y.
_NUMERICAL_NOISE = 1e-6
#: Smallest known noise variance, in the same unit. The root of K neglects 1e-12 of the variance of
#: f, which must stay small against the noise.
_LEAST_NOISE_VARIANCE = 1e-8
#: Start of the inferred noise scale, in units of normalized targets.
_NOISE_START = 0.3
#: Largest number that may be squared and multiplied with another square without overflow.
LARGEST_FACTOR = 1e100
#: Most iterations for the scale of the targets.
_MOST_SCALE_ITERATIONS = 1000
#: Relative change of the scale that ends the iterations.
_SCALE_TOLERANCE = 1e-12
#: Scale below which it is a rounding error, relative to the size of y.
_SCALE_ROUNDING = 4.0 * float(np.finfo(float).eps)

# --- the parameters of the noise ------------------------------------------------------------------


def make_gaussian_noise(
    kind: Any, likelihood: Any, alpha: Any, noise_variance: Any, n_rows: int
) -> Gaussian | None:
    """Return Gaussian noise with its variances in units of y squared; None for other noise.

    Parameters
    ----------
    kind : {"inferred", "known", "none"}
        The parameter `noise` of the estimator.
    likelihood : str or Likelihood
        The parameter `likelihood` of the estimator.
    alpha : float
        The parameter `alpha` of the estimator.
    noise_variance : array-like of shape (n_rows,), or None
        The argument of `fit`.
    n_rows : int
        Number of rows that were given.

    Raises
    ------
    ValueError
        If a number is not legal, or if the arguments do not go together.
    """
    remedy = " For one variance per row use fit(X, y, noise_variance=...)."
    alpha = check_in("alpha", alpha, "[0, inf)", remedy)
    if noise_variance is not None:
        noise_variance = check_rows("noise_variance", noise_variance, n_rows, "not negative")
    own = _noise_without_variances(kind, likelihood, alpha > 0.0 or noise_variance is not None)
    if own is None:
        return None
    given = own.row_variance
    if given is not None:
        given = check_rows("likelihood.row_variance", given, n_rows, "not negative")
    every = [variance for variance in (given, noise_variance) if variance is not None]
    noise = replace(own, alpha=own.alpha + alpha, row_variance=sum(every) if every else None)
    if kind != "none" and not np.any(noise.variance(np.empty(n_rows))):
        said = 'noise="known"' if kind == "known" else f"likelihood={likelihood!r}"
        raise ValueError(
            f"With {said} all noise is known, and its variance is zero for every row: give alpha, "
            'or fit(X, y, noise_variance=...). With likelihood="gaussian", noise="none" is for '
            'targets without noise, and noise="inferred" for noise that is not known.'
        )
    return noise


def _noise_without_variances(kind: Any, likelihood: Any, has_variances: bool) -> Gaussian | None:
    """Return the noise by `noise` and `likelihood` alone; None if it is not Gaussian.

    `has_variances` says whether alpha or noise_variance are given as well.
    """
    check_choice("noise", kind, NOISE_KINDS)
    is_named = isinstance(likelihood, str) and likelihood == "gaussian"
    if kind != "inferred" and not is_named:
        raise ValueError(
            f'noise={kind!r} is for likelihood="gaussian"; with likelihood={likelihood!r}, which '
            'says itself what is inferred, use noise="inferred".'
        )
    if kind == "none" and has_variances:
        raise ValueError(
            'noise="none" is for targets without noise, and alpha or noise_variance was given: use '
            'noise="known" for this noise alone, or leave it out.'
        )
    if is_named:
        return Gaussian(_NOISE_START) if kind == "inferred" else Gaussian(0.0, fixed=True)
    if isinstance(likelihood, Gaussian):
        interval = "[0, inf)" if likelihood.fixed else "(0, inf)"
        check_in("likelihood.noise_scale", likelihood.noise_scale, interval)
        check_in("likelihood.alpha", likelihood.alpha, "[0, inf)")
        return likelihood
    if has_variances:
        raise ValueError(
            "alpha and noise_variance are variances of Gaussian noise; with likelihood="
            f"{likelihood!r} leave them out."
        )
    return None


# --- units ----------------------------------------------------------------------------------------


def center_and_scale(
    y: np.ndarray, weight: np.ndarray | None, noise_variance: np.ndarray | None
) -> tuple[float, float]:
    """Return the weighted mean of targets, and their weighted root mean square about it.

    Where rows have different known noise variances v_i, the weight of a row is divided by
    s^2 + v_i, where s is the scale itself: fixed-point iterations begin at the scale without these
    weights. A row with enormous noise affects neither number.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets.
    weight : ndarray of shape (n,), or None
        Positive; None is one.
    noise_variance : ndarray of shape (n,), or None
        Known noise variance of each row, in units of y squared.

    Returns
    -------
    center, scale : float
        In units of y. The scale of a constant is one.
    """
    if np.ptp(y / 2.0) == 0.0:  # an average may have a rounding error, which is no scale
        return float(y[0]), 1.0
    unit = find_power_of_two(y)
    relative = y / unit
    center, scale = _mean_and_scale(relative, weight)
    if noise_variance is not None and np.ptp(noise_variance) > 0.0:
        with np.errstate(over="ignore"):  # infinite variances are replaced by the largest
            variance = np.minimum(noise_variance / unit / unit, LARGEST_FACTOR)
        own = np.ones(len(y)) if weight is None else weight
        start = scale
        for _ in range(_MOST_SCALE_ITERATIONS):
            before = scale
            center, scale = _mean_and_scale(relative, own / (before**2 + variance))
            if scale < _SCALE_ROUNDING:  # the rows without noise are equal, and imply no scale
                scale = start
                break
            if abs(scale - before) <= _SCALE_TOLERANCE * before:
                break
    return unit * center, unit * scale


def _mean_and_scale(y: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    center = float(np.average(y, weights=weight))
    return center, root_mean_square(y - center, weight)


def normalize_noise(noise: Gaussian, scale: float) -> Gaussian:
    """Return noise with its variances in units of normalized targets, given those of y."""
    rows = noise.row_variance
    return replace(
        noise,
        alpha=float(_normalize_variance(noise.alpha, scale)),
        row_variance=None if rows is None else _normalize_variance(rows, scale),
    )


def _normalize_variance(variance: Any, scale: float) -> np.ndarray:
    """Return ``variance / scale**2``, or raise an error where it is too large to be squared."""
    with np.errstate(over="ignore", divide="ignore"):  # checked in the next lines
        normalized = np.asarray(variance / scale) / scale
    if not np.all(normalized < LARGEST_FACTOR):
        raise ValueError(
            f"alpha or noise_variance is {np.max(variance):g}, out of all proportion to y, whose "
            f"standard deviation is {scale:g}: they are in units of y squared."
        )
    return normalized


# --- data without noise ---------------------------------------------------------------------------


def add_numerical_noise(
    noise: Gaussian, rows: TrainingRows, targets: np.ndarray, spread: float
) -> Gaussian:
    """Return noise with a least variance, so that K + noise can be factored.

    Inferred noise is returned unchanged. The least variance is that of training rows alone, and not
    of new rows.

    Parameters
    ----------
    noise : Gaussian
        Noise, in units of normalized targets.
    rows : TrainingRows
        The training rows.
    targets : ndarray of shape (n_given,)
        Normalized targets.
    spread : float
        Standard deviation of y, in the same units.

    Raises
    ------
    ValueError
        If rows with equal inputs and without noise have different targets.
    """
    if not noise.fixed:
        return noise
    variance = np.broadcast_to(noise.variance(targets), targets.shape)
    least = (_LEAST_NOISE_VARIANCE if variance.any() else _NUMERICAL_NOISE) * spread**2
    noiseless = rows.kept[variance[rows.kept] < least]
    if not len(noiseless):
        return noise
    input_of = rows.input_of[noiseless]
    order = np.lexsort((targets[noiseless], input_of))
    noiseless = noiseless[order]
    first = np.flatnonzero(np.diff(input_of[order], prepend=-1))
    last = np.append(first[1:], len(noiseless)) - 1
    gap = targets[noiseless[last]] - targets[noiseless[first]]
    worst = int(np.argmax(gap))
    if gap[worst] > np.sqrt(least):
        low, high = sorted((int(noiseless[first[worst]]), int(noiseless[last[worst]])))
        raise ValueError(
            f"Rows {low} and {high} of X are equal and have no noise, but their targets differ: a "
            'function has one value at each place. Use noise="inferred", or noise="known" and a '
            "positive noise_variance for these rows, or leave one of them out."
        )
    known = 0.0 if noise.row_variance is None else noise.row_variance
    return replace(noise, row_variance=known + np.maximum(least - variance, 0.0))
