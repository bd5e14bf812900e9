"""Estimates of the evidence: p(y | theta), and its integral over theta."""

from __future__ import annotations

import warnings
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
from ..parallel.workers import make_pool
from ..setup.request import N_IMPORTANCE
from ..transitions.metropolis import MarginalMetropolis, MetropolisHastings, RandomWalk
from ..transitions.pseudo_marginal import PseudoMarginalMetropolis
from ..transitions.surrogate import TMixture
from .annealed import AnnealedImportance, approximate_posterior
from .convergence import MAX_PARETO_K
from .records import split_into_tasks

#: Draws of theta for an integrated evidence.
_N_THETA = 500
#: Draws of f for a conditional evidence.
_N_CONDITIONAL = 4096
#: Draws of f that are made in one call, which limits the memory.
_DRAWS_PER_CALL = 256
#: Share of the draws of f that come from the prior, which bounds the weights.
_DEFENSIVE_SHARE = 0.05
#: Mass of a prior above which the excess over one is more than an error of quadrature.
_MOST_PRIOR_MASS = 1.01
#: Methods that estimate p(y | theta) without further settings.
CONDITIONAL_METHODS = ("is", "ep", "ep2", "laplace")
#: Share of the sum of weights up to which the largest one is harmless, whatever the tail.
_HARMLESS_SHARE = 0.02
#: Ratio to the mean up to which the largest weight is harmless: of few weights, one of ordinary
#: size has a larger share than the one above.
_HARMLESS_RATIO = 10.0


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
    n_theta: int = _N_THETA,
) -> Evidence:
    """Estimate log p(y), with theta integrated out under its prior.

    Importance sampling: p(y) is the mean of p^(y | theta) p(theta) / g(theta) over theta ~ g, where
    g is a mixture of t distributions that covers the posterior. The estimate of p(y) has no bias
    for any g and any unbiased p^(y | theta), as the posterior draws determine g and nothing else.
    So chains that have not converged cost precision, which the standard error shows. With a
    Gaussian likelihood p(y | theta) is exact.

    Parameters
    ----------
    model : LatentGP
        A model with a proper prior of theta.
    theta : ndarray of shape (..., p)
        Draws from the posterior, natural logs. If p = 0, the result is p(y | theta).
    estimator : PseudoMarginalMetropolis or None
        The transition that estimates p(y | theta) in the chains. None estimates it by importance
        sampling from EP's Gaussian with 64 draws.
    seed : int
        Seed of all random numbers.
    n_jobs : int, optional
        Workers of joblib; the result does not depend on it.
    n_theta : int
        Number of draws of theta from g.

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
    chosen = proposal.sample(rng, n_theta)
    tasks = split_into_tasks(chosen)
    still = RandomWalk(0.0)  # a proposal that is never used
    target: MetropolisHastings[Any]  # evaluates p(theta) p(y | theta), or an unbiased estimate
    if model.likelihood.quadratic:
        target = MarginalMetropolis(Exact(), still, with_latent=False)
    elif estimator is not None:
        target = estimator
    else:
        target = PseudoMarginalMetropolis(EP(), still, N_IMPORTANCE, _DEFENSIVE_SHARE)
    log_targets = make_pool(n_jobs)(
        joblib.delayed(_log_targets)(target, model, some, own)
        for some, own in zip(tasks, rng.spawn(len(tasks)), strict=True)
    )
    return _log_mean(np.concatenate(log_targets) - proposal.log_prob(chosen), "integrated")


def _log_targets(
    target: MetropolisHastings[Any], model: LatentGP, theta: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return log p(theta) p^(y | theta) at each row of theta, (m, p); -inf for zero."""
    with one_thread():
        points = [target.evaluate(model, row, rng) for row in theta]
    return np.array([-np.inf if point is None else point.log_target for point in points])


def _check_proper(hyperprior: HyperPrior) -> None:
    """Raise an error for a prior with a mass above one: an improper prior has no evidence."""
    positive = dict(zip(hyperprior.names, hyperprior.positive, strict=True))
    for name in hyperprior.distributions:  # shrinkage priors are proper, and not among these
        real = () if positive[name] else (name,)
        mass = _integrate_density(HyperPrior([name], hyperprior.distributions, real))
        if mass > _MOST_PRIOR_MASS:
            raise ValueError(
                f"priors[{name!r}] has a mass of {mass:.3g} and not of one, so that there is no "
                "evidence: use a proper prior, such as scipy.stats.gamma or scipy.stats.lognorm, "
                'or ask for the evidence at one theta, such as log_evidence("is").'
            )


def _integrate_density(prior: HyperPrior) -> float:
    """Return the integral of the density of a single component over the range of the chains."""
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
    """Estimate log p(y | theta) at one theta.

    Parameters
    ----------
    model : LatentGP
        A model with any likelihood.
    theta : ndarray of shape (p,)
        Natural logs.
    method : str or AnnealedImportance
        One of `CONDITIONAL_METHODS`, "ais" for annealed importance sampling with its defaults, or
        the latter with other parameters. With a Gaussian likelihood all are exact.
    seed : int
        Seed of all random numbers.
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
            if model.likelihood.quadratic:
                return _approximate(Exact(), model, theta)
            return _log_mean(settings.estimate(model, theta, rng, n_jobs).log_weights, "ais")
        with one_thread():
            return _estimate(settings, model, theta, rng)
    except NotPositiveDefiniteError as error:
        raise ValueError(
            f"theta={model.hyperprior.to_natural(theta).tolist()} has no evidence, as the "
            f"covariance matrix is singular there ({error}): use another theta."
        ) from error


def _estimate(
    method: str, model: LatentGP, theta: FloatArray, rng: np.random.Generator
) -> Evidence:
    """Estimate log p(y | theta) by one of `CONDITIONAL_METHODS`."""
    if method == "laplace":
        return _approximate(Laplace(), model, theta)
    if method in ("ep", "ep2"):
        model.likelihood.check_single(f'method="{method}"', 'method="laplace" or "is"')
        if method == "ep":
            return _approximate(EP(), model, theta)
        return Evidence(second_order_log_evidence(model, theta), 0.0)
    if model.likelihood.quadratic:
        return _approximate(Exact(), model, theta)
    # The mean of importance weights of f drawn from a Gaussian near p(f | y, theta).
    density = approximate_posterior(model, theta)
    parts = [
        importance_estimate(
            model, density, _DRAWS_PER_CALL, rng, defensive=_DEFENSIVE_SHARE
        ).log_weights
        for _ in range(_N_CONDITIONAL // _DRAWS_PER_CALL)
    ]
    return _log_mean(np.concatenate(parts), "is")


def _approximate(approximation: Approximation, model: LatentGP, theta: FloatArray) -> Evidence:
    return Evidence(approximation.with_tolerance().fit(model, theta).log_evidence, 0.0)


# --- means of weights -----------------------------------------------------------------------------


def _log_mean(log_weights: FloatArray, method: str) -> Evidence:
    """Return the log of the mean of weights, and its standard error by the delta method."""
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
    if weights.max() > max(_HARMLESS_SHARE * n, _HARMLESS_RATIO) * mean:  # it may dominate the mean
        k = float(array_stats.pareto_khat(weights, None, r_eff=1.0, tail="right"))
        if k > MAX_PARETO_K:
            integrated = method == "integrated"
            remedy = "run longer chains" if integrated else 'use "ais", or another theta'
            warn(
                f"log_evidence(method={method!r}): the weights have a Pareto k of {k:.2f}, above "
                f"{MAX_PARETO_K}: rely neither on the value nor on its standard error; {remedy}."
            )
    return Evidence(float(top + np.log(mean)), error)
