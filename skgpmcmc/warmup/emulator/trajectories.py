"""Trajectories on the approximate posterior itself, for where no emulator is good enough.

With dozens of length-scales an emulator of a few hundred points leads chains astray. The gradient
of the approximate evidence does not: a trajectory under it goes far, and one estimate of p(y |
theta) at its end corrects what is left of the error of the approximation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..._typing import FloatArray
from ...approximations import Approximation, InterpolatedSites, evaluate
from ...approximations.importance import Quadratic
from ...model import LatentGP
from ...transitions import CheapPoint, Leapfrog
from ..work import Task
from .learn import Knowledge, Step, root_of

_TARGET_ACCEPTANCE = 0.8
#: Trajectories of every chain that tune a metric, and then a step size; fewest and most leapfrog
#: steps of each: about a quarter to half of a period.
_TUNING_TRAJECTORIES, _N_LEAPS = (20, 20, 10), (4, 10)
#: Share of the correlations that a metric learned from so few points keeps.
_CORRELATED = 0.5


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
    target: ApproximatePosterior,
    theta: FloatArray,
    root: FloatArray,
    n_trajectories: int,
    n_steps: tuple[int, int],
    log_step: float,
    seed: np.random.SeedSequence,
) -> Tuned:
    """Run trajectories from theta and adapt their step size in the metric `root`.

    The step size is that of Robbins & Monro with averaging over the second half.
    """
    rng = np.random.default_rng(seed)
    point = CheapPoint.at(target, theta)
    seen, log_steps = [], []
    for i in range(n_trajectories):
        leapfrog = _leapfrog(root, log_step, n_steps)
        point, probability = leapfrog.move(target, point, rng)
        log_step += 1.5 / (i + 2.0) ** 0.6 * (float(probability) - _TARGET_ACCEPTANCE)
        seen.append(point.position)
        log_steps.append(log_step)
    average = float(np.mean(log_steps[len(log_steps) // 2 :]))
    return Tuned(np.array(seen), average, point.position)


def _leapfrog(root: FloatArray, log_step: float, n_steps: tuple[int, int]) -> Leapfrog:
    fewest, most = n_steps
    return Leapfrog(root, float(np.exp(log_step)), most, fewest)


class Trajectories(NamedTuple):
    """A tuned trajectory on the approximate posterior, and where the chains that tuned it were."""

    target: ApproximatePosterior
    leapfrog: Leapfrog
    visited: FloatArray  # (m, p), in the later part
    ends: FloatArray  # (n_chains, p)

    def corrected(self, sites: InterpolatedSites, correction: Quadratic) -> Trajectories:
        """Return the same with another start of iterations, and another correction."""
        return self._replace(target=replace(self.target, sites=sites, correction=correction))


def tuned_trajectories(
    known: Knowledge, sites: InterpolatedSites | None
) -> Step[tuple[Knowledge, Trajectories]]:
    """Tune trajectories on the approximate posterior itself, from explored points.

    Parameters
    ----------
    known : Knowledge
        Has where searches and explorations ended.
    sites : InterpolatedSites or None
        Where the approximation starts from at any theta; None for its own start.

    Returns
    -------
    tuple of Knowledge and Trajectories
        What is frozen, and overdispersed starts.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    approximation = known.approximation.roughened()
    target = ApproximatePosterior(known.model, approximation, sites, known.no_correction)
    starts, root = known.pool_starts()[: len(known.ends)], known.root
    if len(known.explored):
        root = root_of(known.explored, correlated=_CORRELATED)
    log_step, later, n_points = float(np.log(0.8 * known.dim**-0.25)), [], 0
    for n_trajectories in _TUNING_TRAJECTORIES:
        seeds = known.seeds(len(starts))
        tuned = yield [
            Task(tune_trajectories, (target, start, root, n_trajectories, _N_LEAPS, log_step, seed))
            for start, seed in zip(starts, seeds, strict=True)
        ]
        n_points += len(starts) * (n_trajectories * sum(_N_LEAPS) // 2 + 1)
        starts = np.array([chain.end for chain in tuned])
        log_step = float(np.mean([chain.log_step for chain in tuned]))
        # The step size belongs to the metric that it was tuned with.
        leapfrog = _leapfrog(root, log_step, _N_LEAPS)
        later.append(np.concatenate([chain.theta[len(chain.theta) // 3 :] for chain in tuned]))
        root = root_of(later[-1], correlated=_CORRELATED)
    known = replace(known, n_evaluations=known.n_evaluations + n_points)
    return known, Trajectories(target, leapfrog, np.concatenate(later[1:]), starts)
