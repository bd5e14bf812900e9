"""The posterior of f where the likelihood is Gaussian: no approximation at all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..likelihoods import Gaussian
from ..model import LatentGP
from ..numerics.linalg import add_outer
from .base import Approximation, ApproximationFit, GaussianApproximation, Sites


@dataclass(eq=False)
class Exact(Approximation):
    """p(f | y, theta) and log p(y | theta) in closed form, for Gaussian likelihoods.

    References
    ----------
    Rasmussen & Williams (2006), algorithm 2.1 and (5.9).
    """

    def check(self) -> None:
        """Accept itself: there is nothing to set."""

    def refined(self, tol: float = 0.0) -> Exact:
        """Return itself: nothing is iterated."""
        return self

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return the posterior and the log evidence; `start` does not matter.

        A row is ``N(y; f + offset, V)^weight``: a Gaussian site with variance V / weight, and a
        constant.
        """
        observed = model.observations_at(theta)
        likelihood = observed.likelihood
        if not isinstance(likelihood, Gaussian):
            raise TypeError(f"Exact needs a Gaussian likelihood; got {likelihood.name!r}.")
        n = len(observed)
        V = np.broadcast_to(likelihood.variance(observed.y), n)
        weight = np.ones(n) if observed.weight is None else observed.weight
        residual = observed.y if observed.offset is None else observed.y - observed.offset
        precision = weight / V
        q = GaussianApproximation(model.prior_at(theta), precision, precision)
        posterior = GaussianApproximation(q.prior, q.solve_smoothed(residual), precision)
        posterior.__dict__["chol_B"] = q.chol_B
        q = posterior
        # log N(residual; 0, K + V / weight) by its parts, and the constants of the sites.
        log_evidence = -0.5 * float(residual @ q.weights) - q.half_log_det_B
        log_evidence -= 0.5 * float(weight @ np.log(2.0 * np.pi * V))
        return ApproximationFit(q, log_evidence, True, 1)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log p(y | theta); R&W (5.9)."""
        q = fit.q
        A = add_outer(q.folded_smoothed_inverse(), -0.5 * q.weights, q.weights)
        of_kernel = -q.prior.contract(A)
        observed = model.observations_at(q.prior.theta)
        if not observed.likelihood.parameters:
            return of_kernel
        slopes = observed.tilted_parameter_gradient(*q.cavities().moments)
        return np.concatenate([of_kernel, slopes.sum(axis=1)])
