"""Probing: the frozen reference, the number of draws, and what is wrong with the emulator."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._typing import BoolArray, FloatArray
from ..approximations import DrawCount, InterpolatedSites
from ..approximations.importance import Quadratic
from .design import DesignPoint
from .emulator import EmulatedPosterior
from .learner import Learner, Pool, Tempered, run_pool
from .probes import (
    FEWEST_DRAWS,
    VARIANTS,
    Plan,
    Probe,
    cheapest_plan,
    compare_variants,
    most_draws,
    most_operations,
    plan_for,
    take_probe,
)
from .report import EmulatorReport
from .segments import no_density
from .settings import EmulatorSettings
from .work import Task, require_factors

#: Points at which the variants of a reference are compared: draws from pi*, and, where chains have
#: shown corners of the posterior, those and draws.
_N_COMPARED = (12, 48)
#: Standard deviation of a linear term of the correction from the approximate to the exact evidence.
_TERM_SD = 0.3


class Probed(NamedTuple):
    """The frozen reference and what was learned of its estimates."""

    reference: InterpolatedSites
    n_importance: int | DrawCount
    target: EmulatedPosterior
    report: EmulatorReport


def probe(
    learner: Learner,
    pool: Pool,
    settings: EmulatorSettings,
    visited: FloatArray | None = None,
    less_noise: float = 1.0,
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
    visited : ndarray of shape (m, p), optional
        Places that chains went to, examined with the draws.
    less_noise : float, default=1.0
        How many times less noise the estimates of chains have than the settings ask for, where
        these do not give the number of draws.

    Returns
    -------
    Probed
        What is frozen.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.

    Raises
    ------
    SingularCovarianceError
        If K has no factor at a draw from pi*, and can be given more jitter.
    """
    target = learner.emulate()
    reference = learner.reference(0, 0.0 if learner.coupled else 1.0)
    thetas, typical = _to_be_probed(learner, target, pool)
    if visited is not None:
        thetas = np.concatenate([visited, thetas])
        typical = np.concatenate([np.full(len(visited), True), typical])
    compared = thetas[: _N_COMPARED[0 if visited is None else 1]]
    points, log_variance = yield from _examined(
        learner,
        thetas,
        thetas[typical],
        _tasks(compare_variants, learner, reference, compared, settings, settings.noise),
    )
    budget = most_operations(learner.coupled)
    plan = cheapest_plan(log_variance, len(learner.model.y), settings.noise, budget)
    reference = learner.reference(*VARIANTS[plan.variant])
    probes = yield _tasks(take_probe, learner, reference, thetas, settings)
    learner.n_evaluations += len(probes)
    usable = [i for i in range(len(thetas)) if points[i] is not None and probes[i] is not None]
    if not typical[usable].any():
        raise RuntimeError(no_density(learner.model, thetas[0]))
    found = [point for i in usable if (point := points[i]) is not None]
    chosen = [probes[i] for i in usable]
    return _probed(
        learner, target, pool, plan, reference, found, chosen, typical[usable], settings, less_noise
    )


def _examined(
    learner: Learner, thetas: FloatArray, in_posterior: FloatArray, comparisons: list[Task]
) -> Generator[Sequence[Task], Sequence[Any], tuple[list[DesignPoint | None], FloatArray]]:
    """Evaluate points, which join the design, and compare variants of the reference there.

    Returns the points, None where there is none, and the rows of the comparisons.
    """
    answers = yield [*learner.factor_tasks(in_posterior), *learner.tasks(thetas), *comparisons]
    require_factors(learner.model, answers[: len(in_posterior)])
    answers = answers[len(in_posterior) :]
    learner.n_evaluations += len(answers)
    points, variances = answers[: len(thetas)], answers[len(thetas) :]
    log_variance = np.array([row for row in variances if row is not None])
    if not len(log_variance):
        raise RuntimeError(no_density(learner.model, thetas[0]))
    learner.add(points)
    return list(points), log_variance


def _tasks(
    function: Callable[..., Any],
    learner: Learner,
    reference: InterpolatedSites,
    thetas: FloatArray,
    settings: EmulatorSettings,
    *more: float,
) -> list[Task]:
    """Return one task for each theta, with a seed of its own."""
    return [
        Task(function, (learner.model, reference, theta, settings.defensive, seed, *more))
        for theta, seed in zip(thetas, learner.seeds(len(thetas)), strict=True)
    ]


def _to_be_probed(
    learner: Learner, target: EmulatedPosterior, pool: Pool
) -> tuple[FloatArray, BoolArray]:
    """Draws from pi*, marked, and, if few hyper-parameters allow it, others from its tails."""
    draws = pool.theta.reshape(-1, learner.dim)
    n_typical = min(12 + 4 * learner.dim, 60, len(draws))
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
    less_noise: float,
) -> Probed:
    """Learn from the probes of points that have joined the design; `typical` draws count."""
    log_p, log_variance, noise = (np.array(part) for part in zip(*probes, strict=True))
    center, scale = learner.design.best.theta, learner.scale
    thetas = np.array([point.theta for point in points])
    evidence = np.array([point.log_evidence for point in points])
    of_log_variance = Quadratic.fit(thetas, log_variance, center, scale, noise=0.5, term_sd=1.0)
    # The cost of a plan, once more, over many draws.
    everywhere = of_log_variance.value_and_gradient(pool.theta.reshape(-1, learner.dim))[0]
    n = len(learner.model.y)
    plan = plan_for(plan.variant, everywhere, n, settings.noise, most_operations(learner.coupled))
    more = less_noise**2  # times as many draws
    most = min(int(more * plan.most), most_draws(n, more))
    count: int | DrawCount = settings.n_importance or DrawCount(
        of_log_variance, plan.noise / less_noise, FEWEST_DRAWS, most
    )
    reference = replace(reference, whitened=plan.whitened)
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
