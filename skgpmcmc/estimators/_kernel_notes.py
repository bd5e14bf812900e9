"""What a user should know of a kernel and its priors before chains run."""

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

#: Bounds of scikit-learn's kernels that nobody has set.
_USUAL_BOUNDS = (1e-5, 1e5)


def warn_about_kernel(kernel: Kernel, priors: Any, likelihood: Likelihood) -> None:
    """Say what of a kernel has no effect, or one that its user may not want.

    Parameters
    ----------
    kernel : Kernel
        A kernel that can serve.
    priors : mapping, "paper", "sparse" or None
        As the user has given them: they silence what is said of the names that they have.
    likelihood : Likelihood
        That of the estimator.
    """
    given = () if priors is None or isinstance(priors, str) else priors
    notes = [_bounds_note(kernel, given), _noise_note(kernel, likelihood)]
    if priors != "paper":
        notes.append(_unknown_note(kernel, given))
    for note in notes:
        if note is not None:
            warn(note)


def _bounds_note(kernel: Kernel, given: Collection[str]) -> str | None:
    """Bounds that were set, and are not used."""
    found = [
        h for h in kernel.hyperparameters if h.name not in given and _has_own_bounds(kernel, h)
    ]
    if not found:
        return None
    shown = ", ".join(f"{h.name!r} has {_bounds_text(h)}" for h in found)
    low, high = (float(end) for end in found[0].bounds[0])
    return (
        f"Bounds of kernel hyper-parameters have no effect, as priors take their place: {shown}. "
        f"Use priors={{{found[0].name!r}: scipy.stats.loguniform({low:g}, {high:g})}} or another "
        'prior, or the bounds "fixed" to keep the value of the kernel.'
    )


def _has_own_bounds(kernel: Kernel, hyperparameter: Hyperparameter) -> bool:
    """Whether the bounds are neither "fixed" nor those that a kernel has by default."""
    owner, own_name = owner_of(kernel, hyperparameter.name)
    parameter = inspect.signature(type(owner).__init__).parameters.get(f"{own_name}_bounds")
    if hyperparameter.fixed or parameter is None:
        return False
    usual = [_USUAL_BOUNDS, parameter.default]
    return not any(
        np.shape(bounds)[-1:] == (2,) and bool(np.all(hyperparameter.bounds == np.asarray(bounds)))
        for bounds in usual
    )


def _bounds_text(hyperparameter: Hyperparameter) -> str:
    pairs = dict.fromkeys(tuple(map(float, pair)) for pair in hyperparameter.bounds)
    return " and ".join(f"({low:g}, {high:g})" for low, high in pairs)


def _noise_note(kernel: Kernel, likelihood: Likelihood) -> str | None:
    """A WhiteKernel beside noise that is inferred anyway."""
    parts = (kernel, *kernel.get_params().values())
    inferred = isinstance(likelihood, (Gaussian, StudentT)) and likelihood.parameters
    if not inferred or not any(isinstance(part, WhiteKernel) for part in parts):
        return None
    return (
        "The kernel has a WhiteKernel, but the likelihood has noise already, whose standard "
        "deviation noise_scale is inferred. The WhiteKernel counts as part of the function, and "
        "makes the fit slower: leave it out."
    )


def _unknown_note(kernel: Kernel, given: Collection[str]) -> str | None:
    """Hyper-parameters whose default prior cannot follow from what they are."""
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
