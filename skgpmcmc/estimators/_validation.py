"""Checks and resolution of constructor parameters; messages name argument, value and remedy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils import check_random_state

from .._params import check_flag
from ..approximations import APPROXIMATIONS
from ..approximations.base import Approximation
from ..approximations.exact import Exact
from ..hyperposterior.cheap import CHEAP_APPROXIMATIONS, CheapApproximation
from ..likelihoods.base import Likelihood
from ..model.covariance import Covariance
from ..model.default_priors import default_hyperprior
from ..model.hyperpriors import HyperPrior
from ..model.kernels import (
    check_kernel,
    check_matrix,
    default_kernel,
)
from ..model.names import find_names
from ..model.observations import Observations
from ..model.parts import complete_kernel
from ..numerics.quadrature import Bend
from ..samplers import MAPPED, SAMPLERS
from ..samplers.base import Sampler
from ._data import require_legal

#: Largest size of an input; squared distances of larger ones may overflow.
_LARGEST_INPUT = 1e100
#: Latent values at which a likelihood is evaluated before the fit.
_LATENT_VALUES_EVALUATED = np.linspace(-3.0, 3.0, 13)
#: Most rows whose likelihood is evaluated before the fit.
_N_ROWS_EVALUATED = 50
#: Largest second derivative that counts as a rounding error of zero.
_DERIVATIVE_ROUNDING = 1e-8
#: Mass of a prior below which its draws are never in the range where values are sampled.
_NEGLIGIBLE_MASS = 1e-12


def check_seed(value: Any) -> np.random.RandomState:
    """Return the generator that `random_state` stands for."""
    try:
        return check_random_state(value)
    except ValueError as error:
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a "
            f"numpy.random.RandomState; got {value!r} ({error})."
        ) from None


def _make_component(
    name: str, value: Any, known: Mapping[str, Callable[[], Any]], base: type
) -> Any:
    """Return a new object of the class that a string names, or the given object of that class."""
    if isinstance(value, str) and value in known:
        return known[value]()
    if isinstance(value, base):
        return value
    raise ValueError(
        f"{name} must be one of {sorted(known)} or a {base.__name__} object; got {value!r}."
    )


def resolve_likelihood(value: Any, known: Mapping[str, Callable[[], Likelihood]]) -> Likelihood:
    """Return the likelihood that `likelihood` names."""
    likelihood: Likelihood = _make_component("likelihood", value, known, Likelihood)
    if not likelihood.log_concave and isinstance(likelihood.bend(np.zeros(1)), Bend):
        raise ValueError(
            f"likelihood {likelihood.name!r} is not log-concave, and integrals over f then need "
            "its `bend` to return Cuts, the points at which to cut the axis of f."
        )
    return likelihood


def resolve_likelihood_of_classes(
    value: Any, known: Mapping[str, Callable[[], Likelihood]]
) -> Likelihood:
    """Return the likelihood that `likelihood` names, whose targets must include -1.0 and +1.0."""
    likelihood = resolve_likelihood(value, known)
    if not np.all(likelihood.legal(np.array([-1.0, 1.0]))):
        raise ValueError(
            f"likelihood {likelihood.name!r} is for {likelihood.targets}, and the targets of a "
            f"classifier are -1.0 and +1.0, one for each class: use one of {sorted(known)}, a "
            "likelihood whose `legal` accepts both, or another estimator."
        )
    return likelihood


def resolve_sampler(value: Any, names: Sequence[str], likelihood: Likelihood) -> Sampler:
    """Return the sampler that `sampler` names, one of `names` unless it is an object.

    "auto", where it is a name, integrates f out if the likelihood allows it.
    """
    best = "collapsed" if likelihood.quadratic else "pm"
    known = {name: SAMPLERS[best if name == "auto" else name] for name in names}
    sampler = _make_component("sampler", value, known, Sampler)
    sampler.check()
    sampler.check_likelihood(likelihood)
    return sampler


def make_approximation(value: Any, best: str = "ep") -> Approximation:
    """Return the approximation that `approximation` names; "auto" is the best one."""
    known = {**APPROXIMATIONS, "auto": APPROXIMATIONS[best]}
    approximation: Approximation
    approximation = _make_component("approximation", value, known, Approximation)
    approximation.check()
    return approximation


def resolve_approximation(
    value: Any, sampler: Sampler, likelihood: Likelihood
) -> tuple[Approximation, CheapApproximation | None]:
    """Return the approximation of the sampler, and its cheap posterior, or None without one.

    "auto" is the sampler's best one, and Laplace for a softmax. A sampler that needs none ignores
    names, so that a grid search can vary both; a configured object is an error.
    """
    if sampler.moves_by_cheap:
        return _resolve_cheap(value, sampler, likelihood)
    if isinstance(value, CheapApproximation) or (
        isinstance(value, str) and value in CHEAP_APPROXIMATIONS
    ):
        raise ValueError(
            f"approximation={value!r} is a cheap posterior of theta, for the samplers {MAPPED}, "
            f"and sampler={type(sampler).__name__} is not one of them: use one of "
            f"{sorted([*APPROXIMATIONS, 'auto'])}."
        )
    best = "laplace" if likelihood.n_functions > 1 else sampler.best_approximation
    approximation = make_approximation(value, best or "ep")
    if sampler.approximates:
        approximation.check_likelihood(likelihood)
        return approximation, None
    if not isinstance(value, str):
        raise ValueError(
            f"approximation={value!r} has no effect, as sampler={type(sampler).__name__} uses no "
            'approximation: use approximation="auto", or a sampler such as "pm" or "khr".'
        )
    return Exact() if sampler.integrates_f else approximation, None


def _resolve_cheap(
    value: Any, sampler: Sampler, likelihood: Likelihood
) -> tuple[Approximation, CheapApproximation]:
    """Return the approximation of the exact part of the sampler, and its cheap posterior.

    With a Gaussian likelihood the approximation is the closed form; else it is the `inner` one of
    the cheap posterior, or by default EP, and Laplace for a softmax.
    """
    if isinstance(value, Approximation) or (isinstance(value, str) and value in APPROXIMATIONS):
        raise ValueError(
            f"approximation={value!r} is not a cheap posterior of theta, from which "
            f"sampler={type(sampler).__name__} makes its proposals: use one of "
            f"{sorted(CHEAP_APPROXIMATIONS)}, or an object such as SubsetOfData(inner='laplace')."
        )
    known = {**CHEAP_APPROXIMATIONS, "auto": CHEAP_APPROXIMATIONS["sod"]}
    cheap: CheapApproximation
    cheap = _make_component("approximation", value, known, CheapApproximation)
    cheap.check()
    cheap.check_likelihood(likelihood)
    if likelihood.quadratic:
        return Exact(), cheap
    best = "laplace" if likelihood.n_functions > 1 else "ep"
    approximation = APPROXIMATIONS[best if cheap.inner == "auto" else cheap.inner]()
    approximation.check_likelihood(likelihood)
    return approximation, cheap


def resolve_kernel(
    kernel: Any,
    ard: Any,
    X: np.ndarray,
    default: Callable[..., Kernel] = default_kernel,
    feature_names: Sequence[str] | None = None,
    levels: Sequence[Sequence[str]] | None = None,
) -> Kernel:
    """Return a checked copy of the kernel for these inputs, or the default kernel.

    The latter is ``default(n_features, ard=ard)``. Columns have `feature_names`, if these are
    known, and levels if they had text.
    """
    if np.max(np.abs(X)) > _LARGEST_INPUT:
        row, column = np.unravel_index(np.argmax(np.abs(X)), X.shape)
        raise ValueError(
            f"X has the value {X[row, column]:g} in row {row} of column {column}, and squared "
            "distances between such rows overflow: divide the column by a power of ten."
        )
    if check_flag("ard", ard) and kernel is not None:
        raise ValueError(
            "ard=True only concerns the default kernel, but a "
            f"{type(kernel).__name__} was given as kernel: use ard=False and give that kernel one "
            "length-scale per feature, such as RBF(np.ones(n_features))."
        )
    if kernel is None:
        return complete_kernel(default(X.shape[1], ard=ard), X)
    kernel = clone(check_kernel(kernel, X.shape[1], feature_names))
    complete_kernel(kernel, X, feature_names, levels)
    check_matrix(kernel, X)
    return kernel


def name_priors(priors: Any, covariance: Covariance, likelihood: Likelihood) -> Any:
    """Return the parameter `priors` with whole names of hyper-parameters."""
    if priors is None or (isinstance(priors, str) and priors in ("paper", "sparse")):
        return priors
    if not isinstance(priors, Mapping):
        raise ValueError(
            "priors must be a mapping from hyper-parameter name to a frozen scipy.stats "
            f'distribution, "paper", "sparse" or None; got {priors!r}.'
        )
    names = [*covariance.names, *(parameter.name for parameter in likelihood.parameters)]
    names = list(dict.fromkeys(names))
    owner = "model" if likelihood.parameters else "kernel"
    given = {}
    for name, law in priors.items():
        found = find_names(name, names) if isinstance(name, str) else []
        if not found:
            raise ValueError(
                f"priors has a distribution for {name!r}, which is not a sampled hyper-parameter "
                f"of the {owner}; it has {names}."
            )
        if len(found) > 1:
            raise ValueError(
                f"priors has a distribution for {name!r}, which may be each of {found}: use whole "
                "names."
            )
        if found[0] in given:
            raise ValueError(
                f"priors has two distributions for {found[0]!r}, one by a shorter name: leave one "
                "out."
            )
        given[found[0]] = law
    return given


def resolve_priors(
    priors: Any, covariance: Covariance, likelihood: Likelihood, n_kernels: int = 1
) -> HyperPrior:
    """Return the prior of theta: the user's distributions, and defaults for the names left out."""
    hyperprior = default_hyperprior(covariance, likelihood, priors, n_kernels)
    of_kernels = np.tile(np.exp(covariance.start), n_kernels)
    of_likelihood = [parameter.value for parameter in likelihood.parameters]
    start = [*of_kernels, *of_likelihood, *np.exp(hyperprior.start)]
    _check_laws(hyperprior, start)
    return hyperprior


def _check_laws(hyperprior: HyperPrior, start: Sequence[float]) -> None:
    """Raise an error for a prior that excludes the start value, or the values that are sampled."""
    for name, law, value in zip(hyperprior.names, hyperprior.laws, start, strict=True):
        log_density = float(law.logpdf(value))
        if np.isnan(log_density):
            raise ValueError(
                f"priors[{name!r}] has a density of NaN at the start value {float(value):g}: check "
                "the arguments of the distribution, and its logpdf."
            )
        if not np.isfinite(log_density):
            support = tuple(float(bound) for bound in law.support())
            raise ValueError(
                f"priors[{name!r}] has support {support}, which excludes the kernel's start value "
                f"{float(value):g}: widen the prior or start the kernel inside it."
            )
    for name, law in hyperprior.distributions.items():
        least, most = hyperprior.value_limits(name)
        # Improper densities have a mass below zero or above one, and are allowed.
        with np.errstate(all="ignore"):  # the scale of a prior may overflow
            within = float(law.sf(least)), float(law.cdf(most))
        if any(0.0 <= mass < _NEGLIGIBLE_MASS for mass in within):
            raise ValueError(
                f"The prior of {name!r} has its median at {float(law.median()):.3g} and nearly no "
                f"mass from {least:.3g} to {most:.3g}, where values are sampled: give it a prior "
                "within this range, by priors, or by other units of X or y."
            )


def check_log_density(observed: Observations) -> None:
    """Evaluate log p(y | f) of some rows at some f, and raise an error if it is invalid.

    Without this check a quadrature would fail in the middle of a fit, with a less helpful message.
    """
    if observed.likelihood.n_functions > 1:
        return
    rows = observed.y[:_N_ROWS_EVALUATED, None]
    likelihood = observed.likelihood.of_rows(np.arange(len(rows)))
    f = np.broadcast_to(_LATENT_VALUES_EVALUATED, (len(rows), len(_LATENT_VALUES_EVALUATED)))
    if observed.offset is not None:
        f = f + observed.offset[:_N_ROWS_EVALUATED, None]
    with np.errstate(all="ignore"):  # checked below
        log_prob = likelihood.log_prob(rows, f)
        first, second, _ = likelihood.derivatives(rows, f)
    wrong = [("log p(y | f)", log_prob, np.isnan(log_prob))]
    wrong += [
        ("a derivative of log p(y | f)", part, ~np.isfinite(part)) for part in (first, second)
    ]
    if likelihood.log_concave:
        wrong.append(
            ("log_concave = True, but a second derivative", second, second > _DERIVATIVE_ROUNDING)
        )
    for what, values, bad in wrong:
        if np.any(bad):
            i, j = np.argwhere(np.broadcast_to(bad, f.shape))[0]
            raise ValueError(
                f"likelihood {likelihood.name!r} has {what} of "
                f"{np.broadcast_to(values, f.shape)[i, j]:.3g} at y = {rows[i, 0]:g}, "
                f"f = {f[i, j]:g}: correct it, and see skgpmcmc.testing for an examination."
            )


def check_targets(y: np.ndarray, likelihood: Likelihood, name: str = "y", remedy: str = "") -> None:
    """Raise an error for targets that are not in the domain of the likelihood."""
    rule = f"{name} must consist of {likelihood.targets} for the {likelihood.name} likelihood"
    require_legal(likelihood.legal(y), y, rule, remedy)
