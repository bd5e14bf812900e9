"""The evidence: p(y | theta), and its integral over theta."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import joblib
import numpy as np
from arviz_stats.base.array import array_stats
from scipy import integrate

from .._typing import FloatArray
from .._warnings import warn
from ..approximations.base import Approximation
from ..approximations.corrected import second_order_log_evidence
from ..approximations.ep import EP
from ..approximations.exact import Exact
from ..approximations.laplace import Laplace
from ..importance.estimate import importance_estimate
from ..model.hyperpriors import LOG_SCALE_LIMIT, REAL_LIMIT, HyperPrior
from ..model.joint import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from ..parallel.threads import one_thread
from ..setup.request import N_IMPORTANCE
from ..transitions.metropolis import MarginalMetropolis, MetropolisHastings, RandomWalk
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from ..transitions.surrogate import TMixture
from .annealed import AnnealedImportance, near_posterior

#: Draws of theta for an integrated evidence.
_N_THETA = 500
#: Draws of theta in a task of a worker.
_THETAS_PER_TASK = 25
#: Draws of f for a conditional evidence.
_N_CONDITIONAL = 4096
#: Draws of f that are made in one call.
_DRAWS_PER_CALL = 256
#: Share of the draws of f that come from the prior.
_DEFENSIVE = 0.05
#: A mass of the prior from which on it is no mere error of quadrature.
_TOO_MUCH = 1.01
#: A Pareto k above which means of weights, and their standard errors, are not to be trusted.
_HEAVY = 0.7
#: A share of all weights below which the largest one is harmless whatever the tail looks like.
_HARMLESS = 0.02


class Evidence(NamedTuple):
    """Log evidence (log marginal likelihood), and its Monte Carlo error.

    Attributes
    ----------
    value : float
        Natural log of p(y), or of p(y | theta).
    standard_error : float
        Monte Carlo standard error of `value`; 0 for a deterministic method. It does not include
        the error of an approximation.
    """

    value: float
    standard_error: float


def integrated_evidence(
    model: LatentGP,
    theta: FloatArray,
    estimator: PseudoMarginalMetropolis | None,
    seed: int,
    n_jobs: int | None = None,
) -> Evidence:
    """Estimate log p(y), theta integrated out under its prior.

    Importance sampling: p(y) is the mean of p^(y | theta) p(theta) / g(theta) over theta ~ g, a
    mixture of t distributions in the place of the posterior. Whatever g is, and however noisy the
    unbiased p^(y | theta), the estimate of p(y) has no bias: draws from the posterior shape g and
    enter in no other way. So chains that have not converged cost precision, which the standard
    error shows. With a Gaussian likelihood p(y | theta) is exact.

    Parameters
    ----------
    model : LatentGP
        With a proper prior of theta.
    theta : ndarray of shape (..., p)
        Draws from the posterior, natural logs; where p = 0, the result is p(y | theta).
    estimator : PseudoMarginalMetropolis or None
        What estimates p(y | theta) in the chains; None has EP and 64 draws do it.
    seed : int
        Seed of all random numbers.
    n_jobs : int, optional
        Workers of joblib; the result does not depend on it.

    Raises
    ------
    ValueError
        If a prior has an infinite mass.
    """
    dim = theta.shape[-1]
    if not dim:
        return conditional_evidence(model, np.empty(0), "is", seed)
    _check_proper(model.hyperprior)
    draws = theta.reshape(-1, dim)
    proposal = TMixture.of_draws(draws, draws.mean(axis=0)[None], np.ones(dim))
    rng = np.random.default_rng(seed)
    chosen = proposal.sample(rng, _N_THETA)
    tasks = np.split(chosen, _N_THETA // _THETAS_PER_TASK)
    target = _target(model, estimator)
    found = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_log_targets)(target, model, some, own)
        for some, own in zip(tasks, rng.spawn(len(tasks)), strict=True)
    )
    return _log_mean(np.concatenate(found) - proposal.log_prob(chosen), "integrated")


def _target(model: LatentGP, estimator: PseudoMarginalMetropolis | None) -> MetropolisHastings[Any]:
    """Return what evaluates p(theta) p(y | theta), or an unbiased estimate of it."""
    still = RandomWalk(0.0)  # nobody moves
    if model.likelihood.quadratic:
        return MarginalMetropolis(Exact(), still, with_latent=False)
    if estimator is not None:
        return estimator
    return PseudoMarginalMetropolis(EP(), still, N_IMPORTANCE, _DEFENSIVE)


def _log_targets(
    target: MetropolisHastings[Any], model: LatentGP, theta: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Log of p(theta) p^(y | theta) at each row of theta (m, p); -inf where the chains say so."""
    with one_thread():
        found = [target.evaluate(model, row, rng) for row in theta]
    return np.array([-np.inf if point is None else point.log_target for point in found])


def _check_proper(hyperprior: HyperPrior) -> None:
    """Refuse a prior whose mass is beyond one: what is improper has no evidence."""
    positive = dict(zip(hyperprior.names, hyperprior.positive, strict=True))
    for name in hyperprior.distributions:  # what shrinks together is proper
        real = () if positive[name] else (name,)
        mass = _mass(HyperPrior([name], hyperprior.distributions, real))
        if mass > _TOO_MUCH:
            raise ValueError(
                f"priors[{name!r}] has a mass of {mass:.3g} and not of one, so that there is no "
                "evidence: use a proper prior, such as scipy.stats.gamma or scipy.stats.lognorm, "
                'or ask for the evidence at one theta, such as log_evidence("is").'
            )


def _mass(prior: HyperPrior) -> float:
    """Integral of the density of one component, where chains may be."""
    limit = LOG_SCALE_LIMIT if prior.positive[0] else REAL_LIMIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", integrate.IntegrationWarning)
        mass, _ = integrate.quad(lambda u: np.exp(prior.log_prob(np.array([u]))), -limit, limit)
    return float(mass)


# --- at one theta ---------------------------------------------------------------------------------


def conditional_evidence(
    model: LatentGP,
    theta: FloatArray,
    method: str | AnnealedImportance,
    seed: int,
    n_jobs: int | None = None,
) -> Evidence:
    """Log p(y | theta) by one of `CONDITIONAL`, or by annealing that is configured.

    Parameters
    ----------
    model : LatentGP
        With any likelihood.
    theta : ndarray of shape (p,)
        Natural logs.
    method : str or AnnealedImportance
        Where the likelihood is Gaussian, all are exact.
    seed : int
        Of all random numbers.
    n_jobs : int, optional
        Workers of joblib for annealing; the result does not depend on it.

    Raises
    ------
    ValueError
        If the method does not work with the likelihood, or K is singular at theta.
    """
    rng = np.random.default_rng(seed)
    settings = AnnealedImportance() if method == "ais" else method
    try:
        if isinstance(settings, AnnealedImportance):
            return _by_annealing(settings, model, theta, rng, n_jobs)
        with one_thread():
            return CONDITIONAL[settings](model, theta, rng)
    except NotPositiveDefiniteError as error:
        raise ValueError(
            f"theta={model.hyperprior.to_natural(theta).tolist()} has no evidence, as the "
            f"covariance matrix is singular there ({error}): use another theta."
        ) from error


def _by_laplace(model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> Evidence:
    return _approximate(Laplace(), model, theta)


def _by_ep(model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> Evidence:
    model.likelihood.check_single('method="ep"', 'method="laplace" or "is"')
    return _approximate(EP(), model, theta)


def _by_corrected_ep(model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> Evidence:
    model.likelihood.check_single('method="ep2"', 'method="laplace" or "is"')
    return Evidence(second_order_log_evidence(model, theta), 0.0)


def _approximate(approximation: Approximation, model: LatentGP, theta: FloatArray) -> Evidence:
    return Evidence(approximation.with_tolerance().fit(model, theta).log_evidence, 0.0)


def _by_importance(model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> Evidence:
    """Return the mean of importance weights, with f drawn from near p(f | y, theta)."""
    if model.likelihood.quadratic:
        return _approximate(Exact(), model, theta)
    density = near_posterior(model, theta)
    parts = [
        importance_estimate(model, density, _DRAWS_PER_CALL, rng, defensive=_DEFENSIVE).log_weights
        for _ in range(_N_CONDITIONAL // _DRAWS_PER_CALL)
    ]
    return _log_mean(np.concatenate(parts), "is")


def _by_annealing(
    settings: AnnealedImportance,
    model: LatentGP,
    theta: FloatArray,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> Evidence:
    """Return the mean of annealed weights, with f moved from near p(f | y, theta) to there."""
    if model.likelihood.quadratic:
        return _approximate(Exact(), model, theta)
    return _log_mean(settings.estimate(model, theta, rng, n_jobs).log_weights, "ais")


#: Methods for p(y | theta), by the names that estimators know.
CONDITIONAL: dict[str, Callable[[LatentGP, FloatArray, np.random.Generator], Evidence]] = {
    "is": _by_importance,
    "ep": _by_ep,
    "ep2": _by_corrected_ep,
    "laplace": _by_laplace,
}


# --- means of weights -----------------------------------------------------------------------------


def _log_mean(log_weights: FloatArray, method: str) -> Evidence:
    """Log of the mean of independent weights, and its standard error by the delta method."""
    top = log_weights.max()
    if not np.isfinite(top):
        raise ValueError(
            f"method={method!r}: no draw has a finite evidence, so that nothing can be averaged: "
            "see whether the chains have converged (diagnostics_)."
        )
    weights = np.exp(log_weights - top)
    mean = weights.mean()
    n = len(weights)
    error = float(weights.std(ddof=1) / np.sqrt(n) / mean)
    if weights.max() > _HARMLESS * n * mean:
        _warn_if_heavy(weights, method)
    return Evidence(float(top + np.log(mean)), error)


def _warn_if_heavy(weights: FloatArray, method: str) -> None:
    """Say that the largest weights dominate, by the shape of their tail."""
    k = float(array_stats.pareto_khat(weights, None, r_eff=1.0, tail="right"))
    if k > _HEAVY:
        integrated = method == "integrated"
        remedy = "run longer chains" if integrated else 'use "ais", or another theta'
        warn(
            f"log_evidence(method={method!r}): the weights have a Pareto k of {k:.2f}, above "
            f"{_HEAVY}: rely neither on the value nor on its standard error; {remedy}."
        )
