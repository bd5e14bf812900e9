"""Checks of constructor parameters; messages name argument, value and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from ..approximations import APPROXIMATIONS, Approximation
from ..covariance import Covariance, check_kernel, default_kernel, make_covariance
from ..hyperpriors import HyperPrior, default_prior
from ..likelihoods import Likelihood
from ..samplers import SAMPLERS, Sampler


def check_integer(name: str, value: Any, minimum: int, remedy: str = "") -> int:
    """Return an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}; got {value!r}.{remedy}")
    return int(value)


def check_real_above(name: str, value: Any, bound: float, remedy: str = "") -> float:
    """Return a finite number greater than `bound`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not bound < value < np.inf:
        raise ValueError(f"{name} must be a number greater than {bound}; got {value!r}.{remedy}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def _named_or_configured(name: str, value: Any, known: Mapping[str, type], base: type) -> Any:
    """Make the object that a string names, or take an object of the right kind as it is."""
    if isinstance(value, str) and value in known:
        return known[value]()
    if isinstance(value, base):
        return value
    raise ValueError(
        f"{name} must be one of {sorted(known)} or a {base.__name__} object; got {value!r}."
    )


def resolve_likelihood(value: Any, known: Mapping[str, type[Likelihood]]) -> Likelihood:
    """Return the likelihood that `likelihood` names."""
    return _named_or_configured("likelihood", value, known, Likelihood)


def resolve_sampler(value: Any) -> Sampler:
    """Return the sampler that `sampler` names."""
    sampler = _named_or_configured("sampler", value, SAMPLERS, Sampler)
    sampler.check()
    return sampler


def resolve_approximation(value: Any, likelihood: Likelihood) -> Approximation:
    """Return the approximation that `approximation` names; "auto" is EP."""
    name = "ep" if isinstance(value, str) and value == "auto" else value
    known = {**APPROXIMATIONS, "auto": APPROXIMATIONS["ep"]}
    approximation = _named_or_configured("approximation", name, known, Approximation)
    approximation.check()
    if not likelihood.log_concave:
        raise ValueError(
            f"approximation={value!r} needs a log-concave likelihood, and likelihood "
            f"{likelihood.name!r} is not."
        )
    return approximation


def resolve_n_importance(value: Any) -> int | None:
    """Return the number of importance draws; "auto" is None, the sampler's choice."""
    if isinstance(value, str) and value == "auto":
        return None
    return check_integer("n_importance", value, 1, ' Use "auto" for as many as it takes.')


def resolve_covariance(kernel: Any, ard: Any, X: np.ndarray) -> Covariance:
    """Bind the kernel, or the default one, to the training inputs."""
    if check_flag("ard", ard) and kernel is not None:
        raise ValueError(
            f"ard=True only concerns the default kernel, but kernel={kernel!r} was given: use "
            "ard=False and give that kernel one length-scale per feature, such as "
            "RBF(np.ones(n_features))."
        )
    if kernel is None:
        return make_covariance(default_kernel(X.shape[1], ard=ard), X)
    kernel = clone(check_kernel(kernel, X.shape[1]))
    if not np.any(kernel.diag(X) > 0.0):
        raise ValueError(
            f"kernel={kernel!r} has no variance at any training row, so the latent function would "
            "be zero: give its constant a positive value."
        )
    return make_covariance(kernel, X)


def resolve_priors(priors: Any, covariance: Covariance, n_features: int) -> HyperPrior:
    """Return the prior of theta: the user's distributions, and defaults for the names left out."""
    names = list(dict.fromkeys(covariance.names))
    given = {} if priors is None else priors
    if not isinstance(given, Mapping):
        raise ValueError(
            "priors must be a mapping from hyper-parameter name to a frozen scipy.stats "
            f"distribution, or None; got {priors!r}."
        )
    for name in given:
        if name not in names:
            raise ValueError(
                f"priors has a distribution for {name!r}, which is not a sampled hyper-parameter "
                f"of the kernel; it has {names}."
            )
    distributions = {
        name: given[name] if name in given else default_prior(name, n_features) for name in names
    }
    hyperprior = HyperPrior(covariance.names, distributions)
    _check_start_in_support(hyperprior, covariance)
    return hyperprior


def _check_start_in_support(hyperprior: HyperPrior, covariance: Covariance) -> None:
    """Refuse a prior that excludes the kernel's own value: one of the two is a mistake."""
    for name, value in zip(covariance.names, np.exp(covariance.start), strict=True):
        if not np.isfinite(hyperprior.distributions[name].logpdf(value)):
            support = tuple(float(bound) for bound in hyperprior.distributions[name].support())
            raise ValueError(
                f"priors[{name!r}] has support {support}, which excludes the kernel's start value "
                f"{float(value):g}: widen the prior or start the kernel inside it."
            )
