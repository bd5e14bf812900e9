"""Probing: the frozen reference, the number of draws, and what is wrong with the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..._typing import BoolArray, FloatArray
from ...approximations import InterpolatedSites, Quadratic
from ...transitions import DrawCount, Pool, independence_acceptance
from ..report import EmulatorReport, EmulatorSettings
from ..time_limit import check_time
from ..work import Task, no_density
from .design import DesignPoint
from .fit import EmulatedPosterior
from .learn import LEAST_ACCEPTANCE, Knowledge, Step
from .noise import Probe, draw_count, take_probe

#: Standard deviation of a linear term of the correction to the exact evidence: few and many theta.
_TERM_SD = (0.07, 0.3)


class Probed(NamedTuple):
    """The frozen reference and what was learned of its estimates."""

    reference: InterpolatedSites
    n_importance: int | DrawCount
    target: EmulatedPosterior
    report: EmulatorReport

    @property
    def trusted(self) -> bool:
        """Whether the emulator may lead chains."""
        return self.report.predicted_acceptance > LEAST_ACCEPTANCE


class _Places(NamedTuple):
    """Where approximation and estimate were both examined."""

    theta: FloatArray  # (m, p)
    log_evidence: FloatArray  # (m,), approximate
    log_p: FloatArray  # (m,), of many importance draws
    log_variance: FloatArray  # (m,), of one weight, relative
    noise: FloatArray  # (m,), of log_p
    typical: BoolArray  # (m,), whether it counts for the report


def probe(
    known: Knowledge,
    pool: Pool,
    settings: EmulatorSettings,
    visited: FloatArray | None = None,
    less_noise: float = 1.0,
) -> Step[tuple[Knowledge, Probed]]:
    """Choose the number of draws, and correct the emulator.

    Draws from pi* measure the emulator, and the noise of estimates, before they join its design.

    Parameters
    ----------
    known, pool : Knowledge, Pool
        The design, and draws from pi*.
    settings : EmulatorSettings
        What the sampler wants.
    visited : ndarray of shape (m, p), optional
        Places that chains went to, examined with the draws.
    less_noise : float, default=1.0
        So many times less noise than the settings ask for, where N is not given.

    Returns
    -------
    tuple of Knowledge and Probed
        The probed points have joined the design; what is frozen.

    Yields
    ------
    sequence of Task
        Work whose results are to be sent back.

    Raises
    ------
    OutOfTimeError
        If the time is over before all is known.
    """
    check_time()
    known = known.emulated()
    target = known.target()
    thetas = _some_of(pool, known)
    tails = known.tails(target, len(thetas) // 2)
    thetas = thetas if visited is None else np.concatenate([visited, thetas])
    n_draws = len(thetas)
    thetas = np.concatenate([thetas, tails])
    points = yield known.tasks(thetas, "examining the emulator")
    check_time()
    known = known.joined(points)
    noise = settings.noise / less_noise
    reference = known.reference(noise)
    probes = yield [
        Task(
            take_probe,
            (known.model, reference, theta, settings, seed),
            "measuring the noise of estimates",
        )
        for theta, seed in zip(thetas, known.seeds(len(thetas)), strict=True)
    ]
    check_time()
    known = replace(known, n_evaluations=known.n_evaluations + len(probes))
    places = _places(points, probes, np.arange(len(thetas)) < n_draws)
    if places is None:
        raise RuntimeError(no_density(known.model, thetas[0]))
    known = known.emulated().confirmed(target.emulator)
    center, scale = known.design.best.theta, known.scale
    n_latent = known.model.n_latent
    count = draw_count(places.theta, places.log_variance, center, scale, n_latent, noise)
    used = settings.n_importance or count
    correction = Quadratic.fit(
        places.theta,
        places.log_p - places.log_evidence,
        center,
        scale,
        noise=0.05 + places.noise,
        term_sd=_TERM_SD[not known.few],
    )
    report = _report(known, target, reference, correction, used, places)
    return known, Probed(reference, used, known.target(correction), report)


def _some_of(pool: Pool, known: Knowledge) -> FloatArray:
    """Draws of a pool, as many as are probed; (m, p)."""
    draws = pool.theta.reshape(-1, known.dim)
    wanted = (8 if known.few else 12) + 2 * known.dim
    return draws[known.rng.choice(len(draws), min(wanted, 60, len(draws)), replace=False)]


def _places(
    points: Sequence[DesignPoint | None], probes: Sequence[Probe | None], typical: BoolArray
) -> _Places | None:
    """Join what was found; None where nothing was at any typical place."""
    rows = [
        (point.theta, point.log_evidence, *found, counts)
        for point, found, counts in zip(points, probes, typical, strict=True)
        if point is not None and found is not None
    ]
    places = _Places(*map(np.array, zip(*rows, strict=True))) if rows else None
    return places if places is not None and places.typical.any() else None


def _report(
    known: Knowledge,
    target: EmulatedPosterior,
    reference: InterpolatedSites,
    correction: Quadratic,
    count: int | DrawCount,
    places: _Places,
) -> EmulatorReport:
    """Say how good the emulator was before the probed points joined its design."""
    emulated = target.emulator.value_and_gradient(places.theta)[0]
    residual = places.log_p - emulated - correction.value_and_gradient(places.theta)[0]
    residual, typical = residual[places.typical], places.theta[places.typical]
    counts = [count if isinstance(count, int) else count.at(theta) for theta in typical]
    return EmulatorReport(
        n_design=len(known.used),
        held_out_error=float(np.std((places.log_evidence - emulated)[places.typical])),
        probe_error=float(residual.std()),
        predicted_acceptance=independence_acceptance(residual),
        n_in_turn=len(reference.turns),
        n_importance=(min(counts), max(counts)),
        noise=float(np.median(np.exp(0.5 * places.log_variance[places.typical]) / np.sqrt(counts))),
    )
