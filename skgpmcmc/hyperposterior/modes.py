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

#: Objective without a density, in nats: finite for L-BFGS, and worse than for any data.
_VALUE_WITHOUT_DENSITY = 1e10
#: Site tolerance of searches: the relative error of the gradient is of this order.
_SEARCH_TOLERANCE = 1e-6
#: Stopping criteria of L-BFGS-B for point estimates: tighter than those of a design.
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
        Model with the prior and the likelihood.
    approximation : Approximation
        Approximation of the evidence. It is iterated to a tight tolerance, from its last sites.
    starts : sequence of ndarray of shape (p,)
        Natural logs.
    with_hyperprior : bool
        True: posterior mode on the log scale of theta. False: type-II maximum likelihood.
    bounds : ndarray of shape (p, 2), optional
        Bounds on the natural-log scale; by default they contain nearly all of the prior.
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
    scale: FloatArray | float = 1.0,
) -> optimize.OptimizeResult:
    """Climb from a start to a mode by L-BFGS; each fit begins at the sites of the last point.

    Parameters
    ----------
    posterior : HyperPosterior
        Posterior of theta; its approximation is iterated to its own tolerance.
    start : ndarray of shape (p,)
        Natural logs.
    options : mapping of str to float
        Stopping criteria of L-BFGS-B.
    visit : callable
        Called with every point that has a density, in order. An exception that it raises ends the
        search.
    bounds : ndarray of shape (p, 2), optional
        Bounds on the natural-log scale; by default they contain nearly all of the prior.
    scale : ndarray of shape (p,) or float, default=1.0
        Length of the first step along each axis, about: standard deviations of theta if known.

    Returns
    -------
    OptimizeResult
        SciPy's result for minus the log density, as a function of theta.
    """
    sites: Sites | None = None

    def descend(z: FloatArray) -> tuple[float, FloatArray]:
        nonlocal sites
        point = posterior.at(scale * z, sites)
        if point is None:
            return _VALUE_WITHOUT_DENSITY, np.zeros(len(z))
        sites = point.sites
        visit(point)
        return -point.log_density, -scale * point.gradient

    within = posterior.model.hyperprior.bounds if bounds is None else bounds
    each = np.broadcast_to(scale, len(start))
    settings: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "options": dict(options)}
    minimize: Any = optimize.minimize
    found = minimize(descend, start / each, bounds=within / each[:, None], **settings)
    found.x = scale * found.x
    return found
