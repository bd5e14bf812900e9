"""Warnings about a kernel and its priors before chains run."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, WhiteKernel

from .._warnings import warn
from ..likelihoods.base import Likelihood
from ..likelihoods.gaussian import Gaussian
from ..likelihoods.student_t import StudentT
from ..model.default_priors import has_default_rule
from ..model.parts import has_part, owner_of

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
    hyperparameters = [h for h in kernel.hyperparameters if h.name not in given]
    bounded = [h for h in hyperparameters if _has_own_bounds(kernel, h)]
    if bounded:
        pairs = {
            h.name: dict.fromkeys(tuple(map(float, pair)) for pair in h.bounds) for h in bounded
        }
        shown = ", ".join(
            f"{name!r} has {' and '.join(f'({low:g}, {high:g})' for low, high in own)}"
            for name, own in pairs.items()
        )
        name = bounded[0].name
        low, high = next(iter(pairs[name]))
        warn(
            "Bounds of kernel hyper-parameters have no effect, as priors take their place: "
            f"{shown}. Use priors={{{name!r}: scipy.stats.loguniform({low:g}, {high:g})}} or "
            'another prior, or the bounds "fixed" to keep the value of the kernel.'
        )
    is_inferred = isinstance(likelihood, (Gaussian, StudentT)) and not likelihood.fixed
    if is_inferred and has_part(kernel, WhiteKernel):
        warn(
            "The kernel has a WhiteKernel, but the likelihood has noise already, whose standard "
            "deviation noise_scale is inferred. The WhiteKernel counts as part of the function, "
            "and makes the fit slower: leave it out."
        )
    free = [h.name for h in hyperparameters if not h.fixed]
    unknown = [name for name in free if not has_default_rule(kernel, name)]
    if unknown and priors != "paper":
        classes = dict.fromkeys(type(owner_of(kernel, name)[0]).__name__ for name in unknown)
        warn(
            f"The default prior of {', '.join(map(repr, unknown))} is log-normal(0, 1) whatever "
            f"the unit of X, as what it means in {' or '.join(classes)} is not known: give one "
            "that suits the data, such as "
            f"priors={{{unknown[0]!r}: scipy.stats.lognorm(1.0, scale=1.0)}}."
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
