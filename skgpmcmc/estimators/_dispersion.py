"""Warning about counts that vary more than Poisson counts do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from .._warnings import warn
from ..approximations.laplace import Laplace
from ..hyperposterior.modes import find_mode
from ..likelihoods.base import Likelihood
from ..likelihoods.counts import NegativeBinomial
from ..model.joint import LatentGP
from ..model.kernels import check_gradient
from ..parallel.threads import one_thread

#: Shapes of the negative binomial distributions that are tried: the variance is mu + mu^2 / shape.
_SHAPES = (0.5, 2.0, 8.0, 32.0)
#: Least difference of the logs of maximized evidences. Of Poisson counts, twice the difference is
#: zero or has a chi-squared distribution of one degree of freedom, each with probability one half
#: (a limit for many rows): 0.1 % of them would be above this number.
_LEAST_GAIN = 4.8
#: Most inputs that are compared: a search with more would take as long as a good part of the fit.
_MOST_INPUTS = 300


def warn_of_overdispersion(estimator: Any) -> None:
    """Say that counts vary more around any smooth rate than Poisson counts do.

    A kernel without a gradient in its hyper-parameters is not examined.

    Parameters
    ----------
    estimator : estimator
        Fitted, with Poisson counts.
    """
    model = estimator._predictor.model
    try:
        check_gradient(model.covariance, "")
    except ValueError:
        return
    gain, shape = compare_with_poisson(model, estimator.theta_samples_.mean(axis=(0, 1)))
    if gain < _LEAST_GAIN:
        return
    warn(
        "The counts vary more than Poisson counts do (overdispersion): negative binomial counts, "
        f"whose variance is mu + mu^2 / {shape:g} for the mean mu, explain them better by "
        f"{gain:.1f} in the log evidence. With Poisson counts the rate follows single counts, or "
        "its intervals are too narrow: use BayesianGPCountRegressor."
    )


def compare_with_poisson(model: LatentGP, theta: np.ndarray) -> tuple[float, float]:
    """Return how much better negative binomial counts explain the data, and their best shape.

    The Laplace approximation of the log evidence, plus the log prior of the hyper-parameters, is
    maximized with Poisson and with negative binomial counts, so that the function and its
    length-scale may differ between them. There are no random numbers.

    Parameters
    ----------
    model : LatentGP
        Model of Poisson counts.
    theta : ndarray of shape (p,)
        Hyper-parameters at which a search begins, natural logs; another begins at the medians of
        their priors.

    Returns
    -------
    gain : float
        Difference of the maxima, natural log.
    shape : float
        The shape with the largest maximum.
    """
    # Few inputs need no inducing inputs, if the model has some.
    model = LatentGP(model.covariance, model.observations, model.hyperprior)
    model = model.of_inputs(np.arange(min(model.n_inputs, _MOST_INPUTS)))
    medians = np.log([law.median() for law in model.hyperprior.laws])
    starts = [theta, np.clip(medians, *model.hyperprior.bounds.T)]
    fractional = model.likelihood.fractional
    laws = [NegativeBinomial(shape, fixed=True, fractional=fractional) for shape in _SHAPES]
    with one_thread():
        others = [_maximize(model, law, starts) for law in laws]
        best = int(np.argmax([value for value, _ in others]))
        value, end = others[best]
        # Poisson counts also begin where the others end, so that a failed search is no reason.
        of_poisson, _ = _maximize(model, model.likelihood, [*starts, end])
    return value - of_poisson, _SHAPES[best]


def _maximize(
    model: LatentGP, likelihood: Likelihood, starts: list[np.ndarray]
) -> tuple[float, np.ndarray]:
    """Return the maximum, with a likelihood, of log evidence plus log prior, and its theta."""
    model = replace(model, observations=replace(model.observations, likelihood=likelihood))
    fit = find_mode(model, Laplace(), starts, with_hyperprior=True).fit
    theta = fit.q.prior.theta
    return float(fit.log_evidence + model.hyperprior.log_prob(theta)), theta
