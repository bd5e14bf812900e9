"""The Laplace approximation: a Gaussian at the mode of p(f | y, theta)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._linalg import add_outer, product
from .._typing import FloatArray
from ..gaussian import GaussianPrior
from ..model import LatentGP
from .base import (
    Approximation,
    ApproximationFit,
    GaussianApproximation,
    Sites,
    check_iterations,
    check_tolerance,
)

__all__ = ["Laplace"]

_SMALLEST_STEP = 1e-6


@dataclass(eq=False)
class Laplace(Approximation):
    """Laplace approximation by Newton's method from f = 0.

    Parameters
    ----------
    tol : float, default=1e-8
        Newton stops once a step raises the log posterior of f by less than `tol` times n.
        Quadratic convergence makes what is left far smaller. Gradients want 1e-12.
    max_iter : int, default=100
        At most so many Newton steps.

    References
    ----------
    Rasmussen & Williams (2006), algorithms 3.1 and 5.1; Filippone & Girolami (2014), (9)-(13).
    """

    tol: float = 1e-8
    max_iter: int = 100

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_tolerance(self.tol)
        check_iterations("max_iter", self.max_iter)

    def refined(self, tol: float = 1e-13) -> Laplace:
        """Return a Laplace approximation that is tight enough for gradients."""
        return Laplace(tol=min(self.tol, tol), max_iter=self.max_iter)

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return q at the mode and log q(y | theta), for a log-concave likelihood.

        Newton begins at f = 0, or at the mean that the prior has with the sites `start`.
        """
        if not model.likelihood.log_concave:
            raise ValueError(
                f"Laplace needs a log-concave likelihood; {model.likelihood.name!r} is not."
            )
        prior = model.prior_at(theta)
        if start is None:
            point = _Point.of(model, np.zeros(len(model.y)), np.zeros(len(model.y)))
        else:
            q = GaussianApproximation.from_sites(prior, start)
            point = _Point.of(model, q.weights, q.mean)
        threshold = self.tol * len(model.y)
        iteration, gain = 0, np.inf
        while iteration < self.max_iter and gain > threshold:
            iteration += 1
            previous, point = point, _newton_step(model, prior, point)
            gain = point.objective - previous.objective
        q = _gaussian_at(model, prior, point)
        log_evidence = point.objective - q.half_log_det_B  # R&W (3.32)
        return ApproximationFit(q, log_evidence, gain <= threshold, iteration)

    def improved(self, model: LatentGP, q: GaussianApproximation) -> GaussianApproximation:
        """Return the Gaussian one Newton step, with its line search, from the mean of q."""
        point = _newton_step(model, q.prior, _Point.of(model, q.weights, q.mean))
        return _gaussian_at(model, q.prior, point)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log q(y | theta), the moving mode included; R&W algorithm 5.1."""
        q = fit.q
        f = q.mean
        first, _, third = model.likelihood.derivatives(model.y, f)
        mode_shift = 0.5 * q.marginal_variance * third  # d log q / d f_hat
        implicit = mode_shift - q.solve_smoothed(product(q.prior.K, mode_shift))
        A = add_outer(q.folded_smoothed_inverse(), -0.5 * q.weights, q.weights)
        A = add_outer(A, -implicit, first)
        return -q.prior.covariance.contract(q.prior.theta, A, K=q.prior.K, overwrite=True)


class _Point(NamedTuple):
    """Where Newton is."""

    weights: FloatArray  # (n,), K^-1 f
    f: FloatArray  # (n,)
    objective: float  # log p(y | f) - f'K^-1 f / 2

    @classmethod
    def of(cls, model: LatentGP, weights: FloatArray, f: FloatArray) -> _Point:
        return cls(weights, f, model.log_lik(f) - 0.5 * float(weights @ f))


def _gaussian_at(model: LatentGP, prior: GaussianPrior, point: _Point) -> GaussianApproximation:
    """Gaussian with the curvature at its own mean, not at the step before."""
    precision = -model.likelihood.derivatives(model.y, point.f).second
    return GaussianApproximation(prior, point.weights, precision)


def _newton_weights(model: LatentGP, prior: GaussianPrior, f: FloatArray) -> FloatArray:
    """K^-1 times the full Newton step from f; R&W algorithm 3.1, lines 4 to 7."""
    derivatives = model.likelihood.derivatives(model.y, f)
    precision = -derivatives.second
    b = precision * f + derivatives.first
    return GaussianApproximation.from_sites(prior, Sites(b, precision)).weights


def _newton_step(model: LatentGP, prior: GaussianPrior, point: _Point) -> _Point:
    """Halve the Newton step until the objective does not fall."""
    direction = _newton_weights(model, prior, point.f) - point.weights
    f_direction = product(prior.K, direction)
    step = 1.0
    while step > _SMALLEST_STEP:
        new = _Point.of(model, point.weights + step * direction, point.f + step * f_direction)
        if new.objective >= point.objective:
            return new
        step *= 0.5
    return point  # at the mode to rounding
