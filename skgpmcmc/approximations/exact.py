"""The exact posterior of f for a Gaussian likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from ..model.observations import Observations
from ..model.prior import GaussianPrior
from ..numerics import linalg
from .base import Approximation, ApproximationFit, Evaluation, GaussianApproximation, Sites
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

    def with_tolerance(self, tol: float = 0.0) -> Exact:
        """Return itself, as nothing is iterated."""
        return self

    def fit(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> ApproximationFit:
        """Return the posterior and the log evidence; `start` is not used.

        The factor of a row, ``N(y; f + offset, V)^weight``, is a Gaussian site with variance
        V / weight, times a constant.
        """
        prior, observed = _evaluate_model(model, theta)
        q = gaussian_family(prior).match_at(prior, observed, np.zeros(prior.size))
        # log N(residual; 0, K + V / weight) from B, with the constants of the sites.
        residual = q.sites.shift / q.precision
        log_evidence = observed.total(residual) - 0.5 * float(residual @ q.weights)
        log_evidence -= q.half_log_det_B
        return ApproximationFit(q, log_evidence, True, 1)

    def gradient(self, model: LatentGP, fit: ApproximationFit) -> FloatArray:
        """Gradient of log p(y | theta); R&W (5.9). Its sites are those of EP, which are exact."""
        q = fit.q
        if model.has_residuals:
            return q.evidence_gradient(model)
        # An average over q keeps digits that moments of cavities lose where noise is small.
        observed = model.observations_at(q.prior.theta)
        of_likelihood = _average_parameter_gradient(observed, q.mean, q.marginal_variance)
        return np.concatenate([q.kernel_gradient(), of_likelihood])

    def fit_with_gradient(
        self, model: LatentGP, theta: FloatArray, start: Sites | None = None
    ) -> Evaluation:
        """Return the posterior, the log evidence and its gradient.

        Unless K is of low rank, one factor of B and its inverse suffice, which takes three quarters
        of the time of `fit` and `gradient`. `fit` uses the same factor, so that both fail at the
        same theta, and predictions are possible at any theta that has been accepted here.
        """
        prior, observed = _evaluate_model(model, theta)
        if prior.low_rank:
            return super().fit_with_gradient(model, theta, start)
        sites = GaussianApproximation.match_at(prior, observed, np.zeros(prior.size)).sites
        noise = 1.0 / sites.precision
        residual = noise * sites.shift
        root_precision = np.sqrt(sites.precision)
        factor = prior.smoothed_factor(root_precision)
        weights = root_precision * linalg.cholesky_solve(factor, root_precision * residual)
        log_evidence = observed.total(residual) - 0.5 * float(residual @ weights)
        log_evidence -= linalg.half_log_det(factor)
        A = linalg.lower_gram(linalg.lower_inverse(factor, overwrite=True), overwrite=True)
        share = 1.0 - A.diagonal()  # posterior variance of f, in units of the noise variance
        of_likelihood = _average_parameter_gradient(
            observed, residual - noise * weights, noise * share
        )
        # (K + V / weight)^-1 = s B^-1 s
        A *= root_precision[:, None]
        A *= root_precision
        A.flat[:: prior.size + 1] *= 0.5
        of_kernel = -prior.contract(linalg.add_outer(A, -0.5 * weights, weights))
        gradient = np.concatenate([of_kernel, of_likelihood])
        q = GaussianApproximation.with_weights(prior, sites, weights)
        return Evaluation(q, log_evidence, gradient)


def _evaluate_model(model: LatentGP, theta: FloatArray) -> tuple[GaussianPrior, Observations]:
    """Return p(f | theta) and p(y | f, theta); an error without a Gaussian likelihood."""
    observed = model.observations_at(theta)
    if not observed.likelihood.quadratic:
        raise TypeError(f"Exact needs a Gaussian likelihood; got {observed.likelihood.name!r}.")
    return model.prior_at(theta), observed


def _average_parameter_gradient(
    observed: Observations, mean: FloatArray, var: FloatArray
) -> FloatArray:
    """Return the gradient in the likelihood's parameters, from moments of f given y; (k,).

    It is the posterior mean of the gradient of log p(y | f), which is quadratic in f.
    """
    at_mean = observed.parameter_derivatives(mean)
    return np.asarray((at_mean.log_prob + 0.5 * at_mean.second * var).sum(axis=1))
