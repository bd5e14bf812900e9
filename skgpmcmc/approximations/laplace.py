"""The Laplace approximation: a Gaussian at the mode of p(f | y, theta)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._linalg import product
from .._typing import FloatArray
from ..gaussian import GaussianPrior
from ..model import LatentGP
from .base import (
    Approximation,
    ApproximationFit,
    GaussianApproximation,
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

    def fit(self, model: LatentGP, theta: FloatArray) -> ApproximationFit:
        """Return q at the mode and log q(y | theta), for a log-concave likelihood."""
        if not model.likelihood.log_concave:
            raise ValueError(
                f"Laplace needs a log-concave likelihood; {model.likelihood.name!r} is not."
            )
        prior = model.prior_at(theta)
        weights, f = np.zeros(len(model.y)), np.zeros(len(model.y))
        objective = model.log_lik(f)
        iteration, gain = 0, np.inf
        while iteration < self.max_iter and gain > self.tol * len(f):
            iteration += 1
            proposal = _newton_weights(model, prior, f)
            weights, f, gain = _line_search(model, prior, weights, f, objective, proposal)
            objective += gain
        # The curvature at the final f, so that q belongs to the mode and not to the step before.
        precision = -model.likelihood.derivatives(model.y, f).second
        q = GaussianApproximation(prior, weights, precision)
        log_evidence = objective - q.half_log_det_B  # R&W (3.32)
        return ApproximationFit(q, log_evidence, gain <= self.tol * len(f), iteration)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log q(y | theta), the moving mode included; R&W algorithm 5.1."""
        q = fit.q
        f = q.mean
        first, _, third = model.likelihood.derivatives(model.y, f)
        mode_shift = 0.5 * q.marginal_variance * third  # d log q / d f_hat
        implicit = mode_shift - q.solve_smoothed(product(q.prior.K, mode_shift))
        A = -0.5 * q.smoothed_inverse()
        A += 0.5 * np.outer(q.weights, q.weights)
        A += 0.5 * (np.outer(implicit, first) + np.outer(first, implicit))
        return q.prior.covariance.contract(q.prior.theta, A)


def _newton_weights(model: LatentGP, prior: GaussianPrior, f: FloatArray) -> FloatArray:
    """K^-1 times the full Newton step from f; R&W algorithm 3.1, lines 4 to 7."""
    derivatives = model.likelihood.derivatives(model.y, f)
    precision = -derivatives.second
    b = precision * f + derivatives.first
    step = GaussianApproximation(prior, b, precision)
    return b - step.solve_smoothed(product(prior.K, b))


def _line_search(
    model: LatentGP,
    prior: GaussianPrior,
    weights: FloatArray,
    f: FloatArray,
    objective: float,
    proposal: FloatArray,
) -> tuple[FloatArray, FloatArray, float]:
    """Halve the Newton step until log p(y|f) - f'K^-1 f / 2 does not fall; returns the gain."""
    direction = proposal - weights
    f_direction = product(prior.K, direction)
    step = 1.0
    while step > _SMALLEST_STEP:
        new_weights, new_f = weights + step * direction, f + step * f_direction
        gain = model.log_lik(new_f) - 0.5 * float(new_weights @ new_f) - objective
        if gain >= 0.0:
            return new_weights, new_f, gain
        step *= 0.5
    return weights, f, 0.0  # at the mode to rounding
