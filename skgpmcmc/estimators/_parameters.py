"""Constructor parameters that all estimators share, in the order of their documentation.

A dataclass puts the fields of its bases before its own, the last base first. Each estimator adds
parameters of its own by a subclass of `ModelParameters`, which it names as its last base. They then
follow the kernel and its priors, and precede `RunParameters`, which few users change as often.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats.distributions import rv_frozen
from sklearn.gaussian_process.kernels import Kernel

from ..approximations.base import Approximation
from ..hyperposterior.cheap import CheapApproximation
from ..samplers.base import Sampler


@dataclass(eq=False, repr=False, kw_only=True)
class ModelParameters:
    """Parameters of the model; `_docs` describes them."""

    kernel: Kernel | Sequence[Kernel | None] | str | None = field(default=None, kw_only=False)
    ard: bool = False
    priors: Mapping[str, rv_frozen | str] | str | None = None
    weights: str = "evidence"


@dataclass(eq=False, repr=False, kw_only=True)
class RunParameters:
    """Parameters of a fit, of its chains, and of the sampler; `_docs` describes them."""

    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None
    verbose: int = 0
    # Sampling: how many chains, how long, and where they are kept.
    n_chains: int = 4
    n_draws: int = 2000
    target_ess: float | None = 400.0
    max_rhat: float = 1.01
    n_warmup: int | str = "auto"
    max_time: float | None = None
    checkpoint: str | os.PathLike[str] | None = None
    warm_start: bool = False
    # Advanced.
    sampler: str | Sampler = "pm"
    approximation: str | Approximation | CheapApproximation = "auto"
    n_importance: int | str = "auto"
    covariance: str = "exact"
    n_inducing: int = 500
    max_predict_draws: int | str | None = "auto"
    predict_cache_bytes: int = 2**29
