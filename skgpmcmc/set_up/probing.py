"""Probing: the frozen reference, the number of draws, and what is wrong with the emulator."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import BoolArray, FloatArray
from ..approximations import InterpolatedSites
from ..emulator import EmulatedPosterior, Quadratic
from ..importance import DrawCount
from ..stretches import no_density
from .design import DesignPoint
from .learner import Learner
from .pool import Pool, Tempered, run_pool
from .probes import (
    FEWEST_DRAWS,
    VARIANTS,
    Plan,
    Probe,
    cheapest_plan,
    long_enough,
    most_draws,
    plan_for,
    take_long_probe,
    take_probes,
)
from .report import EmulatorReport
from .settings import EmulatorSettings
from .work import Task

__all__ = ["Probed", "probe"]

#: Standard deviation of a linear term of the correction from the approximate to the exact evidence.
_TERM_SD = 0.3


class Probed(NamedTuple):
    """The frozen reference and what was learned of its estimates."""

    reference: InterpolatedSites
    n_importance: int | DrawCount
    target: EmulatedPosterior
    report: EmulatorReport

    def with_less_noise(self, times: float, n: int) -> Probed:
        """Return the same with so many times less noise, if N is not given; for n rows."""
        count = self.n_importance
        if isinstance(count, int):
            return self
        highest = min(int(times**2 * count.highest), most_draws(n, times**2))
        less = replace(count, target_sd=count.target_sd / times, highest=highest)
        return self._replace(n_importance=less)


def probe(
    learner: Learner, pool: Pool, settings: EmulatorSettings
) -> Generator[Sequence[Task], Sequence[Any], Probed]:
    """Choose the reference and the number of draws, and correct the emulator.

    Draws from pi* are examined by the approximation and by importance sampling: they measure
    the emulator before they join its design.

    Parameters
    ----------
    learner : Learner
        Knows the design; the probed points join it.
    pool : Pool
        Draws from pi*.
    settings : EmulatorSettings
        What the sampler wants.

    Returns
    -------
    Probed
        What is frozen.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.
    """
    target = learner.emulate()
    reference = learner.reference(0, 1.0)
    thetas, typical = _to_be_probed(learner, target, pool)
    seeds = learner.seeds(len(thetas))
    answers = yield [
        *learner.tasks(thetas),
        *(
            Task(take_probes, (learner.model, reference, theta, settings.defensive, seed))
            for theta, seed in zip(thetas, seeds, strict=True)
        ),
    ]
    learner.n_evaluations += len(answers)
    points, probes = answers[: len(thetas)], answers[len(thetas) :]
    usable = [i for i in range(len(thetas)) if points[i] is not None and probes[i] is not None]
    if not typical[usable].any():
        raise RuntimeError(no_density(learner.model, thetas[0]))
    learner.add(points)
    typical = typical[usable]
    log_variance = np.array([[probe.log_variance for probe in probes[i]] for i in usable])
    plan = cheapest_plan(log_variance[typical], len(learner.model.y), settings.noise)
    chosen = [probes[i][plan.variant] for i in usable]
    reference = learner.reference(*VARIANTS[plan.variant])
    lengths = [long_enough(probe) for probe in chosen]
    longer = [k for k, n_draws in enumerate(lengths) if n_draws > 0]
    answers = yield [
        Task(
            take_long_probe,
            (
                learner.model,
                reference,
                points[usable[k]].theta,
                lengths[k],
                settings.defensive,
                seeds[usable[k]].spawn(1)[0],
            ),
        )
        for k in longer
    ]
    for k, probe in zip(longer, answers, strict=True):
        chosen[k] = probe
    learner.n_evaluations += len(longer)
    found = [points[i] for i in usable]
    return _probed(learner, target, pool, plan, reference, found, chosen, typical, settings)


def _to_be_probed(
    learner: Learner, target: EmulatedPosterior, pool: Pool
) -> tuple[FloatArray, BoolArray]:
    """Draws from pi*, marked, and, if few hyper-parameters allow it, others from its tails."""
    draws = pool.theta.reshape(-1, learner.dim)
    n_typical = min(12 + 4 * learner.dim, 60)
    thetas = draws[learner.rng.choice(len(draws), n_typical, replace=False)]
    if learner.few:
        tempered = Tempered(target, 1.0 / learner.temperature)
        wide = run_pool(tempered, pool.theta[-1], learner.root, 20, learner.rng).theta[-1]
        thetas = np.concatenate([thetas, wide[:n_typical]])
    return thetas, np.arange(len(thetas)) < n_typical


def _probed(
    learner: Learner,
    target: EmulatedPosterior,
    pool: Pool,
    plan: Plan,
    reference: InterpolatedSites,
    points: Sequence[DesignPoint],
    probes: Sequence[Probe],
    typical: BoolArray,
    settings: EmulatorSettings,
) -> Probed:
    """Learn from the probes of points that have joined the design; `typical` draws count."""
    log_p, log_variance, noise = (np.array(part) for part in zip(*probes, strict=True))
    center, scale = learner.design.best.theta, learner.scale
    thetas = np.array([point.theta for point in points])
    evidence = np.array([point.log_evidence for point in points])
    of_log_variance = Quadratic.fit(thetas, log_variance, center, scale, noise=0.5, term_sd=1.0)
    # The cost of a plan, once more, over many draws.
    everywhere = of_log_variance.value_and_gradient(pool.theta.reshape(-1, learner.dim))[0]
    plan = plan_for(plan.variant, everywhere, len(learner.model.y), settings.noise)
    count: int | DrawCount = settings.n_importance or DrawCount(
        of_log_variance, plan.noise, FEWEST_DRAWS, plan.most
    )
    correction = Quadratic.fit(
        thetas, log_p - evidence, center, scale, noise=0.05 + noise, term_sd=_TERM_SD
    )
    emulated = target.emulator.value_and_gradient(thetas)[0]
    residual = (log_p - emulated - correction.value_and_gradient(thetas)[0])[typical]
    ratios = np.exp(np.minimum(residual[:, None] - residual, 0.0))
    counts = [count if isinstance(count, int) else count.at(t) for t in thetas[typical]]
    n_sweeps, strength = VARIANTS[plan.variant]
    report = EmulatorReport(
        n_design=len(learner.used()),
        held_out_error=float(np.std((evidence - emulated)[typical])),
        probe_error=float(residual.std()),
        predicted_acceptance=float(ratios.mean()),
        n_sweeps=n_sweeps,
        skewness=strength,
        n_importance=(min(counts), max(counts)),
    )
    return Probed(reference, count, learner.emulate(correction), report)
