"""Hyper-parameters that maximize an approximate evidence, with or without their prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import optimize

from .._typing import FloatArray
from ..model import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from . import Approximation, ApproximationFit, Sites

#: What the optimizer sees where K cannot be factored: worse than any data, and finite.
_NOWHERE = 1e10
#: Site tolerance of the searches; the error of the gradient is of this order.
_SEARCH_TOLERANCE = 1e-6
#: L-BFGS-B as a point estimate wants it.
_PRECISE: Mapping[str, float] = {"ftol": 1e-8, "gtol": 1e-4, "maxiter": 200}


_Kept = TypeVar("_Kept")


class Evaluation(NamedTuple):
    """The log evidence of an approximation at one theta, and its gradient."""

    fit: ApproximationFit
    gradient: FloatArray  # (p,)
    log_density: float  # log evidence plus, where it is asked for, log p(theta)

    @property
    def theta(self) -> FloatArray:
        """Hyper-parameters, natural logs; (p,)."""
        return self.fit.q.prior.theta


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


@dataclass(eq=False)
class _Descent:
    """Minus the log density of theta and its gradient, as an optimizer wants them.

    Every fit begins with the sites of the last one.
    """

    model: LatentGP
    approximation: Approximation
    with_hyperprior: bool
    sites: Sites | None
    keep: Callable[[Evaluation], Any]
    kept: list[Any] = field(default_factory=list)

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Value and gradient; a flat and high place where there is no density."""
        theta = theta.copy()
        log_hyperprior, slope = 0.0, np.zeros(len(theta))
        if self.with_hyperprior:
            log_hyperprior, slope = self.model.hyperprior.value_and_gradient(theta)
        if not np.isfinite(log_hyperprior):
            return _NOWHERE, np.zeros(len(theta))
        try:
            fit = self.approximation.fit(self.model, theta, self.sites)
            gradient = self.model.padded(self.approximation.gradient(self.model, fit))
            if not (np.isfinite(fit.log_evidence) and np.isfinite(gradient).all()):
                return _NOWHERE, np.zeros(len(theta))
            log_density = float(fit.log_evidence + log_hyperprior)
            self.kept.append(self.keep(Evaluation(fit, gradient, log_density)))
        except NotPositiveDefiniteError:  # K, or what is made of it to be kept
            return _NOWHERE, np.zeros(len(theta))
        self.sites = fit.q.sites
        return -log_density, -(gradient + slope)


def evaluate(
    model: LatentGP,
    approximation: Approximation,
    theta: FloatArray,
    *,
    with_hyperprior: bool,
    start: Sites | None = None,
    keep: Callable[[Evaluation], _Kept],
) -> _Kept | None:
    """Evaluate log evidence and gradient at theta; None where K is singular or p(theta) is 0.

    `approximation` is iterated to its own tolerance, which should be tight for gradients, from the
    sites `start`. Returns the result of `keep` for the `Evaluation`.
    """
    descent = _Descent(model, approximation, with_hyperprior, start, keep)
    descent(theta)
    return descent.kept[0] if descent.kept else None


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
    precise = approximation.refined(_SEARCH_TOLERANCE)
    if len(starts[0]) == 0:
        return Mode(precise.fit(model, starts[0]), True, "nothing to maximize over")
    descent = _Descent(model, precise, with_hyperprior, None, lambda evaluation: None)
    settings = _settings(model, bounds, _PRECISE)
    runs: list[Any] = [optimize.minimize(descent, start, **settings) for start in starts]
    best = min(runs, key=lambda run: run.fun)
    fit = precise.fit(model, best.x, descent.sites)
    return Mode(fit, any(run.success for run in runs), str(best.message))


def path_to_mode(
    model: LatentGP,
    approximation: Approximation,
    start: FloatArray,
    keep: Callable[[Evaluation], Any],
    options: Mapping[str, float],
) -> list[Any]:
    """Search for a mode of the posterior of theta from a start, by L-BFGS.

    Parameters
    ----------
    model : LatentGP
        Gives prior and likelihood.
    approximation : Approximation
        Approximation; it is iterated to its own tolerance, each time from its last result.
    start : ndarray of shape (p,)
        Natural logs.
    keep : callable
        Function that returns what to keep of every `Evaluation`, as these hold matrices.
    options : mapping of str to float
        Stopping criteria of L-BFGS-B.

    Returns
    -------
    list
        The results of `keep`, in order; empty if the density at the start is not finite.
    """
    descent = _Descent(model, approximation, True, None, keep)
    optimize.minimize(descent, start, **_settings(model, None, options))
    return descent.kept


def _settings(
    model: LatentGP, bounds: FloatArray | None, options: Mapping[str, float]
) -> dict[str, Any]:
    """Arguments of the optimizer, which stays within most of the prior if no bounds are given."""
    within = model.hyperprior.bounds if bounds is None else bounds
    return {"jac": True, "method": "L-BFGS-B", "bounds": within, "options": dict(options)}
