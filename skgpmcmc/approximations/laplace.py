"""The Laplace approximation: a Gaussian at the mode of p(f | y, theta)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple, Self

import numpy as np

from .._params import check_in, check_integer
from .._typing import FloatArray
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.observations import Observations
from ..model.prior import GaussianPrior
from .base import Approximation, ApproximationFit, GaussianApproximation, Sites
from .whitened import gaussian_family

#: Least share of a Newton step.
_SMALLEST_STEP = 1e-6
#: Relative rounding error of the objective, by which the last step may decrease it.
_DENSITY_ROUNDING = 1e-14


@dataclass(eq=False)
class Laplace(Approximation):
    """Laplace approximation: a Gaussian at the mode of p(f | y, theta).

    Newton's method starts from f = 0. For inputs at which log p(y | f) is not concave at the mode,
    the curvature is set to zero: their sites have no precision, and q remains a valid importance
    distribution.

    Parameters
    ----------
    tol : float, default=1e-8
        Newton's method stops once a step increases the log posterior of f by less than `tol` times
        n and changes f by less than the root of `tol`. As convergence is quadratic, the remaining
        error is far smaller. Gradients need 1e-12.
    max_iter : int, default=100
        Maximum number of Newton steps.

    References
    ----------
    Rasmussen & Williams (2006), algorithms 3.1 and 5.1; Filippone & Girolami (2014), (9)-(13).
    """

    tol: float = 1e-8
    max_iter: int = 100

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_in("approximation: tol", self.tol, "(0, inf)")
        check_integer("approximation: max_iter", self.max_iter, 1)

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Accept any likelihood."""

    def with_tolerance(self, tol: float = 1e-13) -> Self:
        """Return a Laplace approximation with a tolerance small enough for gradients."""
        return replace(self, tol=min(self.tol, tol))

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return q at the mode and log q(y | theta).

        Newton's method starts from f = 0, or from the posterior mean under the sites `start`.
        """
        prior = model.prior_at(theta)
        observed = model.observations_at(theta)
        if start is None:
            point = _NewtonPoint.of(observed, np.zeros(prior.size), np.zeros(prior.size))
        else:
            q = gaussian_family(prior)(prior, start)
            point = _NewtonPoint.of(observed, q.weights, q.mean)
        threshold = self.tol * len(observed)
        iteration = 0
        gain = np.inf
        shift = np.inf  # largest change of f, on which the evidence depends to first order
        while iteration < self.max_iter and (gain > threshold or shift > np.sqrt(self.tol)):
            iteration += 1
            previous = point
            point = _take_newton_step(observed, prior, point)
            gain = point.objective - previous.objective
            shift = float(np.abs(point.f - previous.f).max())
        # The curvature is that at the last point, not at the point before it.
        q = gaussian_family(prior).match_at(prior, observed, point.f, point.weights)
        log_evidence = point.objective - q.half_log_det_B  # R&W (3.32)
        return ApproximationFit(q, log_evidence, gain <= threshold, iteration)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log q(y | theta), including that of the mode; R&W algorithm 5.1."""
        return laplace_gradient(fit.q, model.observations_at(fit.q.prior.theta))


@singledispatch
def laplace_gradient(q: GaussianApproximation, observed: Observations) -> FloatArray:
    """Gradient of Laplace's log evidence in theta, from q at the mode; R&W algorithm 5.1."""
    f = q.mean
    first, second, third = observed.derivatives(f)
    concave = second < 0.0  # elsewhere the precision is zero, and so is its derivative
    # d log q / d f_hat, and (I - d2 K)^-1 of it, the derivative in d log p(y | f) / df at the mode.
    mode_shift = 0.5 * q.marginal_variance * third * concave
    if np.any(second > 0.0):
        # The movement of the mode depends on the true curvature, also where q has none.
        implicit = q.prior.solve_with_precision(-second, mode_shift)
    else:
        implicit = mode_shift - q.solve_smoothed(q.prior.times(mode_shift))
    of_kernel = q.kernel_gradient((implicit, first))
    if not observed.likelihood.parameters:
        return of_kernel
    of_log_prob, of_first, of_second = observed.parameter_derivatives(f)
    of_likelihood = (
        of_log_prob.sum(axis=1)
        + 0.5 * (of_second * concave) @ q.marginal_variance
        + of_first @ q.prior.times(implicit)
    )
    return np.concatenate([of_kernel, of_likelihood])


class _NewtonPoint(NamedTuple):
    """A point of Newton's method."""

    weights: FloatArray  # (n,), K^-1 f
    f: FloatArray  # (n,)
    objective: float  # log p(y | f) - f'K^-1 f / 2

    @classmethod
    def of(cls, observed: Observations, weights: FloatArray, f: FloatArray) -> _NewtonPoint:
        """Return the point at f, where `weights` is K^-1 f."""
        return cls(weights, f, observed.total(f) - 0.5 * float(weights @ f))


# If a step overflows, the objective is NaN, and the step is halved until it is finite.
@np.errstate(over="ignore", invalid="ignore")
def _take_newton_step(
    observed: Observations, prior: GaussianPrior, point: _NewtonPoint
) -> _NewtonPoint:
    """Return the point after a Newton step, halved until the objective does not decrease."""
    # K^-1 times the full step; R&W algorithm 3.1, lines 4 to 7.
    weights = gaussian_family(prior).match_at(prior, observed, point.f).weights
    direction = weights - point.weights
    f_direction = prior.times(direction)
    step = 1.0
    while step > _SMALLEST_STEP:
        new = _NewtonPoint.of(
            observed, point.weights + step * direction, point.f + step * f_direction
        )
        if new.objective >= point.objective - _DENSITY_ROUNDING * (1.0 + abs(point.objective)):
            return new
        step *= 0.5
    return point  # the mode, to within rounding errors
