"""Check of an approximation on two points, for which quadrature gives the evidence."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from .._typing import FloatArray
from ..approximations.base import Approximation, Sites
from ..importance.estimate import importance_estimate
from ..likelihoods.base import Likelihood
from ..likelihoods.bernoulli import Probit
from ..model.covariance import make_covariance
from ..model.default_priors import default_hyperprior
from ..model.joint import LatentGP
from ..model.kernels import smooth_kernel
from ..model.observations import Observations
from .likelihoods import _DIFFERENCE_STEP, _N_SAMPLED, _assert_agree, _assert_mean


def check_approximation(
    approximation: Approximation,
    likelihood: Likelihood | None = None,
    *,
    evidence_tolerance: float = 0.2,
    rng: np.random.Generator | None = None,
) -> None:
    """Check an approximation on a problem with two points, where the evidence is known.

    The approximation must be a function of (y, theta) alone, because otherwise a pseudo-marginal
    chain would not be exact. Its log evidence must be close to the truth. The result of
    `with_tolerance` must be of the same class and have the same fields, converge, and have a
    gradient that agrees with finite differences, also in the parameters of the likelihood. From the
    sites of another theta it must converge as well, to the same evidence if the likelihood is
    log-concave. Importance sampling from the Gaussian of the approximation must estimate the
    evidence without bias.

    Parameters
    ----------
    approximation : Approximation
        The approximation to check. Give its fields values that are not their defaults: a field that
        `with_tolerance` loses has its default.
    likelihood : Likelihood, optional
        `Probit` by default.
    evidence_tolerance : float, default=0.2
        Largest accepted error of the log evidence.
    rng : numpy.random.Generator, optional
        Random numbers for the targets and the importance draws; by default from a fixed seed.

    Raises
    ------
    AssertionError
        If something disagrees; the message says what, and by how much.
    ValueError
        If the `check` of the approximation refuses one of its fields, or its `check_likelihood` the
        likelihood.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    likelihood = Probit() if likelihood is None else likelihood
    approximation.check()
    approximation.check_likelihood(likelihood)
    model = _make_two_points(likelihood, rng)
    refined = _refine(approximation)
    sites = None
    for kernel_theta in np.array([[0.0, 0.0], [1.2, -0.5]]):
        theta = np.concatenate([kernel_theta, model.start[len(kernel_theta) :]])
        where = f"at theta = {theta}"
        fit = approximation.fit(model, theta)
        again = approximation.fit(model, theta)
        same = np.array_equal(fit.q.weights, again.q.weights)
        same &= np.array_equal(fit.q.precision, again.q.precision)
        assert same, f"two fits {where} differ"
        assert np.all(fit.q.precision >= 0.0), f"q.precision is negative {where}"
        exact = _integrate_two_points(model, theta)
        gap = abs(fit.log_evidence - np.log(exact))
        assert gap <= evidence_tolerance, (
            f"log evidence {where}: {fit.log_evidence:.5g}, where {np.log(exact):.5g} is right"
        )
        estimate = importance_estimate(model, fit.q, _N_SAMPLED, rng, defensive=0.05)
        _assert_mean(f"importance weights {where}", np.exp(estimate.log_weights), exact)
        _check_gradient(refined, model, theta)
        sites = _check_convergence(refined, model, theta, sites)


def _refine(approximation: Approximation) -> Approximation:
    """Return the form with a small tolerance, which must have the class and the other fields."""
    refined = approximation.with_tolerance()
    assert type(refined) is type(approximation), (
        f"with_tolerance() returns a {type(refined).__name__}: samplers would use that in place "
        f"of the {type(approximation).__name__}"
    )
    again = refined.with_tolerance()
    for field in fields(approximation):  # type: ignore[arg-type]
        given, found = (getattr(own, field.name) for own in (approximation, refined))
        # A limit of iterations may grow, but then it grows again.
        lost = found == field.default != given and found == getattr(again, field.name)
        assert field.name == "tol" or not lost, (
            f"with_tolerance() sets {field.name}={given!r} to its default {found!r}: use "
            "dataclasses.replace(self, tol=...), which keeps all other fields"
        )
    return refined


def _check_convergence(
    approximation: Approximation, model: LatentGP, theta: FloatArray, start: Sites | None
) -> Sites:
    """Check that fits converge, also from given sites; return the sites at theta."""
    fit = approximation.fit(model, theta)
    where = f"at theta = {theta}"
    assert fit.converged, (
        f"the fit of with_tolerance() {where} says converged=False after {fit.n_iterations} "
        "iterations: its gradient is that of a fit that has converged"
    )
    if start is None:
        return fit.q.sites
    try:
        other = approximation.fit(model, theta, start=start)
    except Exception as error:
        raise AssertionError(
            f"fit(model, theta, start=sites) {where} fails with {type(error).__name__}: {error}; "
            "searches for a mode start at the sites of the theta before"
        ) from error
    assert other.converged, f"the fit {where} from the sites at another theta does not converge"
    if model.likelihood.log_concave:
        what = f"log evidence {where} from the sites at another theta"
        _assert_agree(what, np.array([other.log_evidence]), np.array([fit.log_evidence]))
    return fit.q.sites


def _make_two_points(likelihood: Likelihood, rng: np.random.Generator) -> LatentGP:
    covariance = make_covariance(smooth_kernel(1), np.array([[0.0], [0.8]]))
    y = likelihood.sample(np.array([0.7, -0.4]), rng)
    return LatentGP(
        covariance, Observations(likelihood, y), default_hyperprior(covariance, likelihood)
    )


def _integrate_two_points(model: LatentGP, theta: FloatArray) -> float:
    """Return p(y | theta) by the trapezoidal rule in whitened coordinates.

    The integrand is smooth there, and nearly zero at the ends of the grid.
    """
    nodes = np.linspace(-9.0, 9.0, 181)
    v = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)])
    log_lik = model.observations_at(theta).totals(model.prior_at(theta).unwhiten(v))
    density = np.exp(log_lik - 0.5 * (v**2).sum(axis=0)) / (2.0 * np.pi)
    return float(density.sum() * (nodes[1] - nodes[0]) ** 2)


def _check_gradient(approximation: Approximation, model: LatentGP, theta: FloatArray) -> None:
    gradient = approximation.gradient(model, approximation.fit(model, theta))
    for j, step in enumerate(_DIFFERENCE_STEP * np.eye(len(theta))):
        above, below = (approximation.fit(model, theta + s).log_evidence for s in (step, -step))
        slope = (above - below) / (2.0 * _DIFFERENCE_STEP)
        what = f"derivative {j} of the log evidence at theta = {theta}"
        _assert_agree(what, gradient[j : j + 1], np.array([slope]))
