"""Annealing of the draws of an estimate, where importance sampling is too noisy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..._typing import FloatArray
from ...approximations import ReferenceDensity
from ...approximations.annealing import Annealing, EllipticalSlices, PathKernel, scheduled
from ...model import LatentGP
from ...transitions import DrawCount, Pool, Trajectory
from ...transitions.annealed import TrajectoryKernel
from ..report import EmulatorSettings
from ..time_limit import check_time
from ..work import Task
from .learn import Knowledge, Step
from .probe import Probed

#: Leapfrog steps at each temperature.
_N_LEAPS = 3


def annealed(
    known: Knowledge, pool: Pool, probed: Probed, settings: EmulatorSettings
) -> Step[EmulatorSettings]:
    """Find temperatures and step sizes where the noise of estimates is as in the middle of pi*.

    Parameters
    ----------
    known : Knowledge
        Of the model.
    pool : Pool
        Draws from pi*.
    probed : Probed
        What importance sampling makes of them.
    settings : EmulatorSettings
        What the sampler wants.

    Returns
    -------
    EmulatorSettings
        The same with annealing.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    count = probed.n_importance
    assert isinstance(count, DrawCount)
    draws = pool.theta.reshape(-1, known.dim)
    log_variance = count.log_variance.value_and_gradient(draws)[0]
    theta = draws[np.argsort(log_variance)[len(draws) // 2]]
    (seed,) = known.seeds(1)
    arguments = known.model, probed.reference, theta, seed
    (found,) = yield [Task(find_annealing, arguments, "temperatures of annealed estimates")]
    check_time()
    return replace(settings, annealing=found)


def find_annealing(
    model: LatentGP, reference: ReferenceDensity, theta: FloatArray, seed: np.random.SeedSequence
) -> Annealing:
    """Let a pilot batch at theta find the schedule; of slices for a softmax, or trajectories."""
    several = model.likelihood.n_functions > 1
    kernel: PathKernel = (
        EllipticalSlices() if several else TrajectoryKernel(Trajectory(max_steps=_N_LEAPS))
    )
    q, rng = reference.at(model, theta).q, np.random.default_rng(seed)
    return Annealing(scheduled(model, q, None, rng, kernel=kernel), kernel)
