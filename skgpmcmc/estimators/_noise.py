"""Noise of a regression that is known, and the scale of targets whose noise differs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._params import check_choice, check_in
from ..likelihoods.gaussian import Gaussian
from ._data import check_rows, power_of_two, root_mean_square
from ._rows import TrainingRows

#: Values of the parameter `noise`.
KINDS = ("inferred", "known", "none")
#: Noise variance that stands for none at all, in units of the variance of y: a standard deviation
#: of a thousandth, which is far above the rounding of K even if f varies much more than y.
_NUMERICAL_NOISE = 1e-6
#: Smallest known noise variance, in the same unit. The root of K ends at 1e-12 of the variance of
#: f, and what it leaves out must stay small against the noise.
_LEAST_VARIANCE = 1e-8
#: Where chains may start: the inferred noise of normalized targets.
_NOISE_START = 0.3
#: Largest size of numbers that are squared, and multiplied with others of their kind.
LARGEST = 1e100
#: Most steps towards the scale of the targets.
_MOST_SCALE_STEPS = 1000
#: Relative change of the scale that ends these steps.
_CHANGE = 1e-12
#: A scale of so many units of y is its rounding.
_SCALE_ROUNDING = 4.0 * float(np.finfo(float).eps)

# --- what a user says of the noise ----------------------------------------------------------------


def gaussian_noise(
    kind: Any, likelihood: Any, alpha: Any, noise_variance: Any, n_rows: int
) -> Gaussian | None:
    """Return Gaussian noise with its variances in units of y squared; None for other noise.

    Parameters
    ----------
    kind : {"inferred", "known", "none"}
        The parameter `noise` of the estimator.
    likelihood : str or Likelihood
        The parameter of this name.
    alpha : float
        The parameter of this name.
    noise_variance : array-like of shape (n_rows,), or None
        As `fit` has got it.
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
    own = _own_noise(kind, likelihood, alpha > 0.0 or noise_variance is not None)
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


def _own_noise(kind: Any, likelihood: Any, more: bool) -> Gaussian | None:
    """Return what `noise` and `likelihood` say without alpha and variances; None if not Gaussian.

    `more` is whether any of the latter are given.
    """
    check_choice("noise", kind, KINDS)
    named = isinstance(likelihood, str) and likelihood == "gaussian"
    if kind != "inferred" and not named:
        raise ValueError(
            f'noise={kind!r} is for likelihood="gaussian"; with likelihood={likelihood!r}, which '
            'says itself what is inferred, use noise="inferred".'
        )
    if kind == "none" and more:
        raise ValueError(
            'noise="none" is for targets without noise, and alpha or noise_variance was given: use '
            'noise="known" for this noise alone, or leave it out.'
        )
    if named:
        return Gaussian(_NOISE_START) if kind == "inferred" else Gaussian(0.0, fixed=True)
    if isinstance(likelihood, Gaussian):
        interval = "[0, inf)" if likelihood.fixed else "(0, inf)"
        check_in("likelihood.noise_scale", likelihood.noise_scale, interval)
        check_in("likelihood.alpha", likelihood.alpha, "[0, inf)")
        return likelihood
    if more:
        raise ValueError(
            "alpha and noise_variance are variances of Gaussian noise; with likelihood="
            f"{likelihood!r} leave them out."
        )
    return None


# --- units ----------------------------------------------------------------------------------------


def center_and_scale(
    y: np.ndarray, weight: np.ndarray | None, noise_variance: np.ndarray | None
) -> tuple[float, float]:
    """Weighted mean of targets, and their weighted root mean square about it.

    Where rows have different known noise variances v_i, the weight of a row is divided by
    s^2 + v_i, and s is the scale that follows from these weights: steps go from the scale without
    them until it no longer moves. A row whose noise is enormous has no part in either number.

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
    if np.ptp(y / 2.0) == 0.0:  # an average may be off by a rounding, which is no scale
        return float(y[0]), 1.0
    unit = power_of_two(y)
    inside = y / unit
    center, scale = _moments(inside, weight)
    if noise_variance is not None and np.ptp(noise_variance) > 0.0:
        with np.errstate(over="ignore"):  # what is beyond the largest number counts as that
            variance = np.minimum(noise_variance / unit / unit, LARGEST)
        center, scale = _weigh(inside, weight, variance, scale)
    return unit * center, unit * scale


def _moments(y: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    center = float(np.average(y, weights=weight))
    return center, root_mean_square(y - center, weight)


def _weigh(
    y: np.ndarray, weight: np.ndarray | None, variance: np.ndarray, plain: float
) -> tuple[float, float]:
    """Center and scale with the weights that they imply; from the scale without variances."""
    own = np.ones(len(y)) if weight is None else weight
    scale = plain
    for _ in range(_MOST_SCALE_STEPS):
        before = scale
        center, scale = _moments(y, own / (before**2 + variance))
        if (
            scale < _SCALE_ROUNDING
        ):  # rows without noise are equal: they have a center, and no scale
            return center, plain
        if abs(scale - before) <= _CHANGE * before:
            break
    return center, scale


def in_normalized_units(noise: Gaussian, scale: float) -> Gaussian:
    """Return noise with its variances in units of normalized targets, given those of y."""
    rows = noise.row_variance
    return replace(
        noise,
        alpha=float(_normalized_variance(noise.alpha, scale)),
        row_variance=None if rows is None else _normalized_variance(rows, scale),
    )


def _normalized_variance(variance: Any, scale: float) -> np.ndarray:
    """Return ``variance / scale**2``, whose square may not be a number."""
    with np.errstate(over="ignore", divide="ignore"):  # looked for in the next line
        normalized = np.asarray(variance / scale) / scale
    if not np.all(normalized < LARGEST):
        raise ValueError(
            f"alpha or noise_variance is {np.max(variance):g}, out of all proportion to y, whose "
            f"standard deviation is {scale:g}: they are in units of y squared."
        )
    return normalized


# --- no noise at all ------------------------------------------------------------------------------


def with_numerical_noise(
    noise: Gaussian, rows: TrainingRows, targets: np.ndarray, spread: float
) -> Gaussian:
    """Return noise that K can be factored with, where none of it is inferred.

    Training rows have it, and new rows do not.

    Parameters
    ----------
    noise : Gaussian
        In units of normalized targets.
    rows : TrainingRows
        Which of the rows take part, and which have equal inputs.
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
    least = (_LEAST_VARIANCE if variance.any() else _NUMERICAL_NOISE) * spread**2
    bare = rows.kept[variance[rows.kept] < least]
    if not len(bare):
        return noise
    _check_one_value(bare, rows.input_of[bare], targets, np.sqrt(least))
    known = 0.0 if noise.row_variance is None else noise.row_variance
    return replace(noise, row_variance=known + np.maximum(least - variance, 0.0))


def _check_one_value(
    bare: np.ndarray, input_of: np.ndarray, targets: np.ndarray, tolerance: float
) -> None:
    """Refuse rows without noise, `bare`, that have one input, and different targets."""
    order = np.lexsort((targets[bare], input_of))
    bare = bare[order]
    input_of = input_of[order]
    first = np.flatnonzero(np.diff(input_of, prepend=-1))
    last = np.append(first[1:], len(bare)) - 1
    gap = targets[bare[last]] - targets[bare[first]]
    worst = int(np.argmax(gap))
    if gap[worst] > tolerance:
        low, high = sorted((int(bare[first[worst]]), int(bare[last[worst]])))
        raise ValueError(
            f"Rows {low} and {high} of X are equal and have no noise, but their targets differ: a "
            'function has one value at each place. Use noise="inferred", or noise="known" and a '
            "positive noise_variance for these rows, or leave one of them out."
        )
