"""Hyper-parameters that maximize an approximate evidence, with or without their prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from ._linalg import NotPositiveDefiniteError
from ._typing import FloatArray
from .approximations import Approximation, ApproximationFit
from .hyperpriors import LOG_SCALE_LIMIT
from .model import LatentGP

__all__ = ["Mode", "find_mode"]

#: What the optimizer sees where K cannot be factored: worse than any data, and finite.
_WORST_OBJECTIVE = 1e10
#: Site tolerance of the searches; the error of the gradient is of this order.
_SEARCH_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class Mode:
    """Where a search ended.

    Attributes
    ----------
    fit : ApproximationFit
        The approximation there; ``fit.q.prior.theta`` is the place (natural logs).
    converged : bool
        Whether L-BFGS converged from at least one start.
    message : str
        The optimizer's last word on the best run.
    """

    fit: ApproximationFit
    converged: bool
    message: str


def find_mode(
    model: LatentGP,
    approximation: Approximation,
    starts: Sequence[FloatArray],
    *,
    with_hyperprior: bool,
    bounds: FloatArray | None = None,
) -> Mode:
    """Maximize log q(y | theta), plus log p(theta) if asked for, by L-BFGS from several starts.

    Parameters
    ----------
    model : LatentGP
        Gives prior and likelihood.
    approximation : Approximation
        Iterated to a tighter tolerance than its own, as gradients need.
    starts : sequence of ndarray of shape (p,)
        Natural logs.
    with_hyperprior : bool
        True: posterior mode on the log scale of theta. False: type-II maximum likelihood.
    bounds : ndarray of shape (p, 2), optional
        Natural logs.
    """
    precise = approximation.refined(_SEARCH_TOLERANCE)

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        log_hyperprior = model.hyperprior.log_prob(theta) if with_hyperprior else 0.0
        if not np.isfinite(log_hyperprior):
            return _WORST_OBJECTIVE, np.zeros(len(theta))
        try:
            fit = precise.fit(model, theta)
            gradient = precise.gradient(model, fit)
        except NotPositiveDefiniteError:
            return _WORST_OBJECTIVE, np.zeros(len(theta))
        if with_hyperprior:
            gradient = gradient + model.hyperprior.gradient(theta)
        return -fit.log_evidence - log_hyperprior, -gradient

    if len(starts[0]) == 0:
        return Mode(precise.fit(model, starts[0]), True, "nothing to maximize over")
    if bounds is None:
        bounds = np.tile([-LOG_SCALE_LIMIT, LOG_SCALE_LIMIT], (len(starts[0]), 1))
    limits = [(float(low), float(high)) for low, high in bounds]
    options: Any = {"ftol": 1e-8, "gtol": 1e-4, "maxiter": 200}
    runs = [
        optimize.minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=limits,
            options=options,
        )
        for start in starts
    ]
    best = min(runs, key=lambda run: float(run.fun))
    return Mode(precise.fit(model, best.x), any(run.success for run in runs), str(best.message))
