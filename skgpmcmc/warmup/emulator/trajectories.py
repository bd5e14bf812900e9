"""Trajectories on the approximate posterior itself, for where no emulator is good enough.

With dozens of length-scales an emulator of a few hundred points leads chains astray. The gradient
of the approximate evidence does not: a trajectory under it goes far, and one estimate of p(y |
theta) at its end corrects what is left of the error of the approximation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..._typing import FloatArray
from ...approximations import Approximation, InterpolatedSites, evaluate
from ...approximations.interpolated import Quadratic
from ...model import LatentGP
from ...transitions import CheapDensity, CheapPoint, Leapfrog
from ..time_limit import time_is_over
from .design import DesignPoint, examine

_TARGET_ACCEPTANCE = 0.8
#: Fewest and most leapfrog steps of a trajectory: about a quarter to half of a period.
N_LEAPS = (4, 10)


@dataclass(frozen=True, eq=False)
class ApproximatePosterior:
    """log p(theta) + log q(y | theta), q(y | theta) the corrected evidence of an approximation.

    Its iterations start from interpolated sites, so that few are needed and the result is a
    function of theta alone. Value and gradient need not be those of one function to the last
    digit: trajectories stay reversible whatever the force is.

    Attributes
    ----------
    model : LatentGP
    approximation : Approximation
    sites : InterpolatedSites or None
    correction : Quadratic
        From the approximate to the exact log evidence.
    """

    model: LatentGP
    approximation: Approximation
    sites: InterpolatedSites | None
    correction: Quadratic

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unnormalized log density and its gradient at theta of shape (p,); -inf and 0 if none."""
        found = evaluate(
            self.model,
            self.approximation,
            theta,
            with_hyperprior=True,
            start=None if self.sites is None else self.sites.sites_at(theta),
            keep=lambda evaluation: evaluation,
        )
        if found is None:
            return np.asarray(-np.inf), np.zeros_like(theta)
        correction, its_gradient = self.correction.value_and_gradient(theta)
        gradient = found.gradient + self.model.hyperprior.gradient(theta) + its_gradient
        return np.asarray(found.log_density + correction), gradient


class Tuned(NamedTuple):
    """Where trajectories went, and the step size that suits them."""

    theta: FloatArray  # (n, p), every point on the way
    log_step: float
    end: FloatArray  # (p,)


def tune_trajectories(
    target: CheapDensity,
    theta: FloatArray,
    root: FloatArray,
    n_trajectories: int,
    n_steps: tuple[int, int],
    log_step: float,
    seed: np.random.SeedSequence,
) -> Tuned:
    """Run trajectories from theta and adapt their step size in the metric `root`.

    The step size is that of Robbins & Monro with averaging over the second half. If the time is
    over, no other trajectory begins.
    """
    rng = np.random.default_rng(seed)
    point = CheapPoint.at(target, theta)
    seen: list[FloatArray] = []
    log_steps: list[float] = []
    for i in range(n_trajectories):
        if seen and time_is_over():
            break
        leapfrog = hamiltonian(root, log_step, n_steps)
        point, probability = leapfrog.move(target, point, rng)
        log_step += 1.5 / (i + 2.0) ** 0.6 * (float(probability) - _TARGET_ACCEPTANCE)
        seen.append(point.position)
        log_steps.append(log_step)
    average = float(np.mean(log_steps[len(log_steps) // 2 :]))
    return Tuned(np.array(seen), average, point.position)


def hamiltonian(root: FloatArray, log_step: float, n_steps: tuple[int, int] = N_LEAPS) -> Leapfrog:
    """Return a trajectory of that many steps, at least and at most."""
    fewest, most = n_steps
    return Leapfrog(root, float(np.exp(log_step)), most, fewest)


def first_log_step(dim: int) -> float:
    """Log of a step size to begin with."""
    return float(np.log(0.8 * dim**-0.25))


class _Explorer:
    """The approximate posterior, which remembers every point at which it was examined.

    Each examination begins at the sites of the one before.
    """

    def __init__(self, model: LatentGP, approximation: Approximation, begin: DesignPoint) -> None:
        self.model, self.approximation = model, approximation
        self.seen = [begin]

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unnormalized log density and its gradient at theta of shape (p,); -inf and 0 if none."""
        found = examine(self.model, self.approximation, theta, self.seen[-1].sites)
        if found is None:
            return np.asarray(-np.inf), np.zeros_like(theta)
        self.seen.append(found)
        gradient = found.gradient + self.model.hyperprior.gradient(theta)
        return np.asarray(found.log_density), gradient


def explore(
    model: LatentGP,
    approximation: Approximation,
    begin: DesignPoint,
    root: FloatArray,
    n_trajectories: int,
    n_steps: int,
    seed: np.random.SeedSequence,
) -> list[DesignPoint]:
    """Follow trajectories on the approximate posterior; returns every point on the way.

    With many hyper-parameters a design that an emulator of few points suggests would go astray;
    trajectories with the exact gradient go where the posterior is.
    """
    explorer, log_step = _Explorer(model, approximation, begin), first_log_step(len(begin.theta))
    every = (n_steps, n_steps)
    tune_trajectories(explorer, begin.theta, root, n_trajectories, every, log_step, seed)
    return explorer.seen[1:]
