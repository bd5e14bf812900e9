"""What workers find out about the approximate posterior of theta: modes, points, trajectories."""

from __future__ import annotations

import numpy as np

from .._typing import FloatArray
from ..approximations import Approximation, Evaluation, Sites, evaluate, find_mode
from ..model import LatentGP
from .design import DesignPoint
from .segments import no_density

__all__ = ["examine", "explore", "search"]

#: Tolerance of the approximation.
_TOLERANCE = 1e-4
#: When a search for a mode stops: the design needs its neighborhood, not the mode itself.
_ROUGHLY = {"ftol": 1e-5, "gtol": 0.05, "maxiter": 60}
_MAX_START_ATTEMPTS = 30
_TARGET_ACCEPTANCE = 0.85


def search(model: LatentGP, approximation: Approximation, start: FloatArray) -> list[DesignPoint]:
    """Climb to a mode; returns every point on the way, the best last.

    Where the density at the start is not finite, the search begins nearer to the kernel's values.

    Raises
    ------
    RuntimeError
        If there is no way from there; the message names theta.
    """
    theta = start
    points: list[DesignPoint] = []

    def keep(found: Evaluation) -> None:
        points.append(DesignPoint.of(model, found))

    for _ in range(_MAX_START_ATTEMPTS):
        precise = approximation.refined(_TOLERANCE)
        if evaluate(model, precise, theta, with_hyperprior=True) is not None:
            find_mode(
                model,
                approximation,
                [theta],
                with_hyperprior=True,
                tol=_TOLERANCE,
                options=_ROUGHLY,
                on_visit=keep,
            )
            return sorted(points, key=_log_density)
        theta = 0.5 * (theta + model.start)
    raise RuntimeError(no_density(model, theta))


def _log_density(point: DesignPoint) -> float:
    return point.log_density


def examine(
    model: LatentGP, approximation: Approximation, theta: FloatArray, start: Sites
) -> DesignPoint | None:
    """Fit the approximation at theta from the sites of a neighbor; None where K is singular."""
    precise = approximation.refined(_TOLERANCE)
    found = evaluate(model, precise, theta, with_hyperprior=True, start=start)
    return None if found is None else DesignPoint.of(model, found, start)


def explore(
    model: LatentGP,
    approximation: Approximation,
    begin: DesignPoint,
    root: FloatArray,
    n_trajectories: int,
    n_steps: int,
    seed: np.random.SeedSequence,
) -> list[DesignPoint]:
    """Hamiltonian Monte Carlo on the approximate posterior itself; returns every point it saw.

    With many hyper-parameters a design that an emulator of few points suggests would go astray;
    trajectories with the exact gradient go where the posterior is. The step size, in the metric
    `root`, adapts all the way, as only the points matter here and not their law.
    """
    rng = np.random.default_rng(seed)
    seen: list[DesignPoint] = []
    point, log_step = begin, np.log(0.8 * len(begin.theta) ** -0.25)
    for _ in range(n_trajectories):
        momentum = rng.standard_normal(len(point.theta))
        energy = point.log_density - 0.5 * float(momentum @ momentum)
        step = float(np.exp(log_step)) * rng.uniform(0.8, 1.2)
        end, failed = point, False
        momentum = momentum + 0.5 * step * (root.T @ _slope(model, point))
        for _ in range(n_steps):
            there = end.theta + step * (root @ momentum)
            reached = examine(model, approximation, there, end.sites)
            if reached is None:
                failed = True
                break
            end = reached
            seen.append(end)
            momentum = momentum + step * (root.T @ _slope(model, end))
        probability = 0.0
        if not failed:
            momentum = momentum - 0.5 * step * (root.T @ _slope(model, end))
            change = end.log_density - 0.5 * float(momentum @ momentum) - energy
            probability = float(np.exp(min(change, 0.0)))
            if rng.uniform() < probability:
                point = end
        log_step += 0.5 * (probability - _TARGET_ACCEPTANCE)
    return seen


def _slope(model: LatentGP, point: DesignPoint) -> FloatArray:
    """Gradient of the log density."""
    return np.asarray(point.gradient + model.hyperprior.gradient(point.theta))
