"""Searches for a mode over the period of a kernel, whose posterior often has many modes.

For kernels without a period these functions change nothing.
"""

from __future__ import annotations

import numpy as np

from ..._typing import FloatArray
from ...approximations.base import Approximation
from ...hyperposterior.posterior import HyperPosterior
from ...model.default_priors import period_positions
from ...model.joint import LatentGP
from ...model.parts import find_columns
from ...transitions.metropolis import PERIOD_FACTORS, multiply_period
from .options import EmulatorOptions


def move_to_best_period(
    model: LatentGP, approximation: Approximation, theta: FloatArray, n_tried: int
) -> FloatArray:
    """Return theta (p,) with the period, of many tried, that has the largest density.

    The periods tried are evenly spaced in their logs, over all but the tails of the prior.
    """
    tail = 0.5 / n_tried
    for period, _ in period_positions(model):
        law = model.hyperprior.distributions[model.hyperprior.names[period]]
        ends = np.clip(np.log(law.ppf([tail, 1.0 - tail])), *model.hyperprior.bounds[period])
        tried = np.repeat(theta[None], n_tried + 1, axis=0)
        tried[1:, period] = np.linspace(ends[0], ends[1], n_tried)
        theta = _choose_best(model, approximation, tried)
    return theta


def move_to_best_multiple(
    model: LatentGP, approximation: Approximation, theta: FloatArray
) -> FloatArray:
    """Return the best of theta (p,), and theta with a multiple or a fraction of its period.

    The multiples and fractions are those of the proposal `PeriodMultiples`.
    """
    for place in period_positions(model):
        others = [multiply_period(theta, place, factor) for factor in PERIOD_FACTORS]
        theta = _choose_best(model, approximation, np.array([theta, *others]))
    return theta


def choose_step_sizes(model: LatentGP, theta: FloatArray, options: EmulatorOptions) -> FloatArray:
    """Choose steps along each axis over which the log density at a mode theta is about quadratic.

    A step of a period changes no phase in the data by more radians than a step has natural logs.
    """
    sizes = np.full(len(theta), options.gradient_step)
    X = model.covariance.X
    names = model.covariance.names
    columns = find_columns(model.covariance.kernel, X.shape[1])
    for period, _ in period_positions(model):
        own = X[:, columns[names[period % len(names)]]]
        width = float(np.ptp(own, axis=0).max())
        phase = 2.0 * np.pi * width / np.exp(theta[period])
        sizes[period] /= max(phase, 1.0)
    return sizes


def _choose_best(model: LatentGP, approximation: Approximation, tried: FloatArray) -> FloatArray:
    """Return the theta (p,) of several (m, p) with the largest density; the first if all have 0."""
    posterior = HyperPosterior(model, approximation, with_gradient=False)
    points = [posterior.at(theta) for theta in tried]
    densities = [-np.inf if point is None else point.log_density for point in points]
    return np.asarray(tried[int(np.argmax(densities))])
