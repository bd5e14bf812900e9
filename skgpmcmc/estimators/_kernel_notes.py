"""Warnings about a kernel and its priors before chains run."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, WhiteKernel

from .._warnings import warn
from ..likelihoods.base import Likelihood
from ..likelihoods.gaussian import Gaussian
from ..likelihoods.student_t import StudentT
from ..model.default_priors import has_default_rule, owner_of

#: Default bounds of scikit-learn's kernels.
_DEFAULT_BOUNDS = (1e-5, 1e5)


def warn_about_kernel(kernel: Kernel, priors: Any, likelihood: Likelihood) -> None:
    """Warn about parts of a kernel that have no effect, or an effect that the user may not want.

    Parameters
    ----------
    kernel : Kernel
        A valid kernel.
    priors : mapping, "paper", "sparse" or None
        The parameter of the estimator. There are no warnings about names that the mapping has.
    likelihood : Likelihood
        The likelihood of the estimator.
    """
    given = () if priors is None or isinstance(priors, str) else priors
    messages = [_bounds_message(kernel, given), _noise_message(kernel, likelihood)]
    if priors != "paper":
        messages.append(_unknown_prior_message(kernel, given))
    for message in messages:
        if message is not None:
            warn(message)


def has_white_kernel(kernel: Kernel) -> bool:
    """Whether a kernel is a WhiteKernel, or has one as a part."""
    return any(isinstance(part, WhiteKernel) for part in (kernel, *kernel.get_params().values()))


def _bounds_message(kernel: Kernel, given: Collection[str]) -> str | None:
    """Return the message on bounds that were set, and are not used; None without such bounds."""
    found = [
        h for h in kernel.hyperparameters if h.name not in given and _has_own_bounds(kernel, h)
    ]
    if not found:
        return None
    shown = ", ".join(f"{h.name!r} has {_format_bounds(h)}" for h in found)
    low, high = (float(end) for end in found[0].bounds[0])
    return (
        f"Bounds of kernel hyper-parameters have no effect, as priors take their place: {shown}. "
        f"Use priors={{{found[0].name!r}: scipy.stats.loguniform({low:g}, {high:g})}} or another "
        'prior, or the bounds "fixed" to keep the value of the kernel.'
    )


def _has_own_bounds(kernel: Kernel, hyperparameter: Hyperparameter) -> bool:
    """Whether the bounds are neither "fixed" nor defaults of the kernel or of scikit-learn."""
    owner, own_name = owner_of(kernel, hyperparameter.name)
    parameter = inspect.signature(type(owner).__init__).parameters.get(f"{own_name}_bounds")
    if hyperparameter.fixed or parameter is None:
        return False
    defaults = [_DEFAULT_BOUNDS, parameter.default]
    return not any(
        np.shape(bounds)[-1:] == (2,) and bool(np.all(hyperparameter.bounds == np.asarray(bounds)))
        for bounds in defaults
    )


def _format_bounds(hyperparameter: Hyperparameter) -> str:
    pairs = dict.fromkeys(tuple(map(float, pair)) for pair in hyperparameter.bounds)
    return " and ".join(f"({low:g}, {high:g})" for low, high in pairs)


def _noise_message(kernel: Kernel, likelihood: Likelihood) -> str | None:
    """Return the message on a WhiteKernel beside inferred noise; None without it."""
    is_inferred = isinstance(likelihood, (Gaussian, StudentT)) and likelihood.parameters
    if not is_inferred or not has_white_kernel(kernel):
        return None
    return (
        "The kernel has a WhiteKernel, but the likelihood has noise already, whose standard "
        "deviation noise_scale is inferred. The WhiteKernel counts as part of the function, and "
        "makes the fit slower: leave it out."
    )


def _unknown_prior_message(kernel: Kernel, given: Collection[str]) -> str | None:
    """Return the message on hyper-parameters of unknown kernels, whose default prior is generic."""
    names = [h.name for h in kernel.hyperparameters if not h.fixed and h.name not in given]
    unknown = [name for name in names if not has_default_rule(kernel, name)]
    if not unknown:
        return None
    classes = dict.fromkeys(type(owner_of(kernel, name)[0]).__name__ for name in unknown)
    return (
        f"The default prior of {', '.join(map(repr, unknown))} is log-normal(0, 1) whatever the "
        f"unit of X, as what it means in {' or '.join(classes)} is not known: give one that suits "
        f"the data, such as priors={{{unknown[0]!r}: scipy.stats.lognorm(1.0, scale=1.0)}}."
    )
