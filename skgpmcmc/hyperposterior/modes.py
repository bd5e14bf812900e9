"""Hyper-parameters that maximize an approximate evidence, with or without their prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize

from .._typing import FloatArray
from ..approximations.base import Approximation, ApproximationFit, Sites
from ..model.joint import LatentGP
from .posterior import HyperPosterior, PosteriorPoint

#: What the optimizer sees where K cannot be factored: worse than any data, and finite.
_VALUE_WITHOUT_DENSITY = 1e10
#: Site tolerance of the searches; the error of the gradient is of this order.
_SEARCH_TOLERANCE = 1e-6
#: L-BFGS-B as a point estimate wants it.
_PRECISE_STOPPING: Mapping[str, float] = {"ftol": 1e-8, "gtol": 1e-4, "maxiter": 200}


@dataclass(frozen=True, eq=False)
class Mode:
    """Result of a search for the mode.

    Attributes
    ----------
    fit : ApproximationFit
        The approximation at the mode; ``fit.q.prior.theta`` is the mode (natural logs).
    converged : bool
        Whether L-BFGS converged from at least one start.
    message : str
        Message of the optimizer for the best run.
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
    """Maximize log q(y | theta), optionally plus log p(theta), by L-BFGS from several starts.

    Parameters
    ----------
    model : LatentGP
        Gives prior and likelihood.
    approximation : Approximation
        Approximation; it is iterated to a tight tolerance, each time from its last result.
    starts : sequence of ndarray of shape (p,)
        Natural logs.
    with_hyperprior : bool
        True: posterior mode on the log scale of theta. False: type-II maximum likelihood.
    bounds : ndarray of shape (p, 2), optional
        Bounds on the scale of theta; by default they contain nearly all of the prior.
    """
    precise = approximation.with_tolerance(_SEARCH_TOLERANCE)
    if len(starts[0]) == 0:
        return Mode(precise.fit(model, starts[0]), True, "nothing to maximize over")
    posterior = HyperPosterior(model, precise, with_hyperprior=with_hyperprior)
    runs = [climb(posterior, start, _PRECISE_STOPPING, bounds=bounds) for start in starts]
    best = min(runs, key=lambda run: run.fun)
    fit = precise.fit(model, best.x)
    return Mode(fit, any(run.success for run in runs), str(best.message))


def climb(
    posterior: HyperPosterior,
    start: FloatArray,
    options: Mapping[str, float],
    visit: Callable[[PosteriorPoint], Any] = lambda point: None,
    bounds: FloatArray | None = None,
) -> optimize.OptimizeResult:
    """Search for a mode from a start, by L-BFGS; iterations begin at the sites of the last point.

    Parameters
    ----------
    posterior : HyperPosterior
        Its approximation is iterated to its own tolerance.
    start : ndarray of shape (p,)
        Natural logs.
    options : mapping of str to float
        Stopping criteria of L-BFGS-B.
    visit : callable
        Is given every point with a density, in order. What it raises ends the search.
    bounds : ndarray of shape (p, 2), optional
        Bounds on the scale of theta; by default they contain nearly all of the prior.

    Returns
    -------
    OptimizeResult
        What SciPy returns for minus the log density.
    """
    sites: Sites | None = None

    def descend(theta: FloatArray) -> tuple[float, FloatArray]:
        nonlocal sites
        point = posterior.at(theta.copy(), sites)
        if point is None:
            return _VALUE_WITHOUT_DENSITY, np.zeros(len(theta))
        sites = point.sites
        visit(point)
        return -point.log_density, -point.gradient

    within = posterior.model.hyperprior.bounds if bounds is None else bounds
    settings: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "options": dict(options)}
    minimize: Any = optimize.minimize
    return minimize(descend, start, bounds=within, **settings)
