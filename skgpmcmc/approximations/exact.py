"""The exact posterior of f for a Gaussian likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..model import LatentGP
from .base import Approximation, ApproximationFit, Sites
from .ep import likelihood_gradient
from .whitened import gaussian_family


@dataclass(eq=False)
class Exact(Approximation):
    """p(f | y, theta) and log p(y | theta) in closed form, for Gaussian likelihoods.

    References
    ----------
    Rasmussen & Williams (2006), algorithm 2.1 and (5.9).
    """

    def check(self) -> None:
        """Accept any instance: there are no parameters."""

    def refined(self, tol: float = 0.0) -> Exact:
        """Return itself, as nothing is iterated."""
        return self

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return the posterior and the log evidence; `start` is not used.

        The factor of a row, ``N(y; f + offset, V)^weight``, is a Gaussian site with variance
        V / weight, times a constant.
        """
        prior, observed = model.prior_at(theta), model.observations_at(theta)
        if not observed.likelihood.quadratic:
            raise TypeError(f"Exact needs a Gaussian likelihood; got {observed.likelihood.name!r}.")
        family = gaussian_family(prior)
        sites = family.sites_at(prior, observed, np.zeros(prior.size))
        q = family(prior, sites)
        # log N(residual; 0, K + V / weight) by its parts, and the constants of the sites.
        residual = sites.shift / sites.precision
        log_evidence = observed.total(residual) - 0.5 * float(residual @ q.weights)
        log_evidence -= q.half_log_det_B
        return ApproximationFit(q, log_evidence, True, 1)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log p(y | theta); R&W (5.9)."""
        of_likelihood = likelihood_gradient(fit.q, model.observations_at(fit.q.prior.theta))
        return np.concatenate([fit.q.kernel_gradient(), of_likelihood])
