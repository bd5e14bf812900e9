"""Probing: the frozen reference, the number of draws, and what is wrong with the emulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..._typing import BoolArray, FloatArray
from ...approximations import InterpolatedSites, Quadratic, ReferenceDensity
from ...approximations.interpolated import (
    TURNS,
    VARIANTS,
    best_share,
    by_variant,
    variances_of_variants,
)
from ...model import LatentGP
from ...numerics.linalg import NotPositiveDefiniteError, log_sum
from ...transitions import DrawCount, Pool, independence_acceptance
from ...transitions.pseudo_marginal import fresh_particles
from ..report import EmulatorReport, EmulatorSettings
from ..time_limit import check_time
from ..work import Task, no_density
from .design import DesignPoint
from .fit import EmulatedPosterior
from .learn import LEAST_ACCEPTANCE, Knowledge, Step

#: Points at which the variants of a reference are compared, besides tails: draws from pi*, and,
#: where chains have shown corners of the posterior, those and draws.
_N_COMPARED = (8, 32)
#: Standard deviation of a linear term of the correction to the exact evidence: few and many theta.
_TERM_SD = (0.07, 0.3)
#: How much pi* may exceed the posterior, in logs, where importance densities are compared.
_PROMISED = 3.0
#: Importance draws of a probe.
N_DRAWS = 256
#: Noise of a probe; most draws of one, in all and at once.
_NOISE, _MOST_DRAWS, _MOST_AT_ONCE = 0.1, 4096, 512
#: Fewest importance draws of a chain's estimate, and most of them where they are annealed.
FEWEST_DRAWS, MOST_ANNEALED = 16, 64
#: Noise of estimates from which annealing their draws is worth its price.
TOO_NOISY = 1.0
#: From this share of n on, draws through the whitened factor take less time.
_MANY_DRAWS = 0.1
#: What the calls of an evaluation take, whatever its size, and each number of a particle, of a
#: Gaussian or a skewed density; times n^-3 and N / n^2, in O(n^3) operations.
_CALLS, _PER_NUMBER = 6e7, (750.0, 1500.0)
#: What values drawn in turn take, whatever n: all of them, each, and each number; times n^-3.
_TURN = (6e6, 6.5e5, 5e3)
#: Power of the largest variance in a score: between near ties it is heavy tails that matter.
_WARY = 0.04
#: Most numbers in the particles of one estimate (32 MB); sampling holds several such arrays.
_MOST_NUMBERS = 4_000_000
_FEW_ENOUGH = 1000  # draws, which are no reason to save any, however small n is
#: O(n^3) operations that an evaluation may take on average over the posterior; with several latent
#: functions, for each of them. There chains stay more, and densities of another kind are missing.
_MOST_OPERATIONS, _MOST_OPERATIONS_EACH = 5.4, 10.0


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

    @property
    def too_noisy(self) -> bool:
        """Whether chains would stay, with as many importance draws as they may have."""
        return isinstance(self.n_importance, DrawCount) and self.report.noise > TOO_NOISY


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
    """Choose the reference and the number of draws, and correct the emulator.

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
    first = thetas[: _N_COMPARED[visited is not None]]
    comparisons = _comparisons(known, first, settings)
    n_draws = len(thetas)
    thetas = np.concatenate([thetas, tails])
    answers = yield [*known.tasks(thetas, "comparing importance densities"), *comparisons]
    check_time()
    points, rows = answers[: len(thetas)], answers[len(thetas) :]
    known = known.joined(points)
    if len(tails):
        # With their own sites: bad ones would hide what skewness does.
        rows = [*rows, *(yield _comparisons(known, tails, settings))]
        check_time()
    found = list(zip([*points[: len(first)], *points[n_draws:]], rows, strict=True))
    plan, strength = _planned(known, target, found, settings)
    n_sweeps, _, n_turns = VARIANTS[plan.variant]
    reference = known.reference(n_sweeps, strength, n_turns)
    probes = yield _tasks(take_probe, known, reference, thetas, settings)
    check_time()
    known = replace(known, n_evaluations=known.n_evaluations + len(rows) + len(probes))
    places = _places(points, probes, np.arange(len(thetas)) < n_draws)
    if places is None:
        raise RuntimeError(no_density(known.model, thetas[0]))
    known = known.emulated().confirmed(target.emulator)
    return _probed(known, target, pool, plan, reference, places, settings, less_noise)


def _comparisons(known: Knowledge, thetas: FloatArray, settings: EmulatorSettings) -> list[Task]:
    """Return the work of comparing variants, with sites interpolated as they are known so far."""
    strength, n_turns = (0.0, TURNS[-1]) if known.in_turn else (float(not known.coupled), 0)
    return _tasks(compare_variants, known, known.reference(0, strength, n_turns), thetas, settings)


def _tasks(
    function: Callable[..., Any],
    known: Knowledge,
    reference: InterpolatedSites,
    thetas: FloatArray,
    settings: EmulatorSettings,
) -> list[Task]:
    """Return one task for each theta, with a seed of its own."""
    stage = _STAGES[function]
    return [
        Task(function, (known.model, reference, theta, settings, seed), stage)
        for theta, seed in zip(thetas, known.seeds(len(thetas)), strict=True)
    ]


def _some_of(pool: Pool, known: Knowledge) -> FloatArray:
    """Draws of a pool, as many as are probed; (m, p)."""
    draws = pool.theta.reshape(-1, known.dim)
    wanted = (8 if known.few else 12) + 2 * known.dim
    return draws[known.rng.choice(len(draws), min(wanted, 60, len(draws)), replace=False)]


def _planned(
    known: Knowledge,
    target: EmulatedPosterior,
    compared: Sequence[tuple[DesignPoint | None, FloatArray | None]],
    settings: EmulatorSettings,
) -> tuple[Plan, float | Quadratic]:
    """Choose variant and skewness by what was found where pi* does not promise far too much."""
    found = [
        (target.excess(point), point.theta, row)
        for point, row in compared
        if point is not None and row is not None
    ]
    if not found:
        raise RuntimeError(no_density(known.model, known.design.best.theta))
    limit = max(min(excess for excess, *_ in found), 0.0) + _PROMISED
    believed = [rest for excess, *rest in found if excess <= limit]
    theta, rows = map(np.array, zip(*believed, strict=True))
    strength = Quadratic.flat(known.design.best.theta, known.scale, 1.0)
    if not (known.coupled or known.in_turn):
        strength = best_share(theta, rows[:, 0], strength.center, strength.scale)
    share = None if known.in_turn else strength.value(theta)
    log_variance = by_variant(rows, share, many_hyperparameters=not known.few)
    # By little noise: with more a Gaussian seems cheap where its weights have heavy tails.
    plan = cheapest_plan(
        log_variance, known.model.n_inputs, *goals(settings, known)[:2], quiet=True
    )
    return plan, strength if VARIANTS[plan.variant].skewed else 0.0


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


def _probed(
    known: Knowledge,
    target: EmulatedPosterior,
    pool: Pool,
    plan: Plan,
    reference: InterpolatedSites,
    places: _Places,
    settings: EmulatorSettings,
    less_noise: float,
) -> tuple[Knowledge, Probed]:
    """Learn from the probes of points that have joined the design."""
    theta, center, scale = places.theta, known.design.best.theta, known.scale
    # Chains hardly come to where pi* promises too much.
    excess = target.emulator.value(theta) - places.log_evidence
    of_log_variance = Quadratic.fit(
        theta, places.log_variance, center, scale, noise=0.5 + np.maximum(excess, 0.0), term_sd=1.0
    )
    # The cost of a plan, once more, over many draws.
    draws = pool.theta.reshape(-1, known.dim)
    everywhere = of_log_variance.value(draws)
    n, (*aims, quiet) = known.model.n_inputs, goals(settings, known)
    plan = plan_for(plan.variant, everywhere, n, *aims, quiet=quiet or less_noise > 1.0)
    more = less_noise**2  # times as many draws
    most = MOST_ANNEALED if settings.annealing else min(int(more * plan.most), most_draws(n, more))
    count = DrawCount(of_log_variance, plan.noise / less_noise, FEWEST_DRAWS, most)
    if not settings.annealing:
        count = count.raised(draws, _MOST_NUMBERS // n)
    used = settings.n_importance or count
    gap = places.log_p - places.log_evidence
    noise, term_sd = 0.05 + places.noise, _TERM_SD[not known.few]
    correction = Quadratic.fit(theta, gap, center, scale, noise=noise, term_sd=term_sd)
    frozen = replace(reference, whitened=plan.whitened)
    report = _report(known, target, frozen, correction, used, places, settings)
    return known, Probed(frozen, used, known.target(correction), report)


def _report(
    known: Knowledge,
    target: EmulatedPosterior,
    reference: InterpolatedSites,
    correction: Quadratic,
    count: int | DrawCount,
    places: _Places,
    settings: EmulatorSettings,
) -> EmulatorReport:
    """Say how good the emulator was before the probed points joined its design."""
    emulated = target.emulator.value_and_gradient(places.theta)[0]
    residual = places.log_p - emulated - correction.value_and_gradient(places.theta)[0]
    residual, typical = residual[places.typical], places.theta[places.typical]
    counts = [count if isinstance(count, int) else count.at(theta) for theta in typical]
    annealed = settings.annealing
    return EmulatorReport(
        n_design=len(known.used),
        held_out_error=float(np.std((places.log_evidence - emulated)[places.typical])),
        probe_error=float(residual.std()),
        predicted_acceptance=independence_acceptance(residual),
        n_sweeps=reference.n_sweeps,
        skewness=float(reference.share_at(typical).mean()),
        n_in_turn=len(reference.turns),
        n_importance=(min(counts), max(counts)),
        noise=float(np.median(np.exp(0.5 * places.log_variance[places.typical]) / np.sqrt(counts))),
        n_temperatures=len(annealed.schedule.temperatures) if annealed else 0,
    )


class Probe(NamedTuple):
    """An importance estimate with many draws."""

    log_likelihood: float
    log_variance: float  # log of the relative variance of one weight
    noise: float  # standard deviation of the log estimate


def compare_variants(
    model: LatentGP,
    reference: InterpolatedSites,
    theta: FloatArray,
    settings: EmulatorSettings,
    seed: np.random.SeedSequence,
) -> FloatArray | None:
    """Log of the relative variance of a weight, see `variances_of_variants`; (2, 5).

    None where K is singular, or no draw has a positive likelihood. Skewness cannot pay where the
    fewest draws of a Gaussian bring the noise that is aimed at, and a sweep costs as much as n.
    """
    rng, variance = np.random.default_rng(seed), (0.5 * settings.noise) ** 2
    enough = (FEWEST_DRAWS * variance, model.n_inputs * variance)
    defensive = settings.defensive
    arguments = (reference, model, theta, N_DRAWS, rng)
    try:
        found = variances_of_variants(*arguments, defensive=defensive, enough=enough)
    except NotPositiveDefiniteError:
        return None
    return found if np.isfinite(found.min()) else None


def take_probe(
    model: LatentGP,
    reference: ReferenceDensity,
    theta: FloatArray,
    settings: EmulatorSettings,
    seed: np.random.SeedSequence,
) -> Probe | None:
    """Estimate p(y | theta) with so many draws that their noise does not matter.

    None where K is singular, or no draw has a positive likelihood.
    """
    rng, log_weights, wanted = np.random.default_rng(seed), np.empty(0), N_DRAWS
    try:
        density = reference.at(model, theta).made()
        while len(log_weights) < wanted:
            size = min(wanted - len(log_weights), _MOST_AT_ONCE)
            more = fresh_particles(model, density, size, rng, settings)
            log_weights = np.concatenate([log_weights, more.log_weights])
            if len(log_weights) == N_DRAWS:
                if np.isneginf(log_weights.max()):
                    return None
                enough = np.exp(_log_variance(log_weights)) / _NOISE**2
                most = N_DRAWS if settings.annealing else _MOST_DRAWS
                wanted = int(np.clip(enough, N_DRAWS, most))
    except NotPositiveDefiniteError:
        return None
    log_variance, size = _log_variance(log_weights), len(log_weights)
    noise = float(np.exp(0.5 * log_variance) / np.sqrt(size))
    return Probe(float(log_sum(log_weights)) - float(np.log(size)), log_variance, noise)


#: What a set-up does by a task, for whoever waits for it.
_STAGES: dict[Callable[..., Any], str] = {
    compare_variants: "comparing importance densities",
    take_probe: "measuring the noise of estimates",
}


def _log_variance(log_weights: FloatArray) -> float:
    """Log of the relative variance of one weight; infinite where all are zero."""
    if np.isneginf(log_weights.max()):
        return np.inf
    weights = np.exp(log_weights - log_weights.max())
    return float(np.log(max(weights.var(ddof=1) / weights.mean() ** 2, 1e-6)))


class Plan(NamedTuple):
    """How estimates are made."""

    variant: int  # position among VARIANTS
    noise: float  # standard deviation of the log estimate that N aims at
    most: int  # largest N
    whitened: bool  # see `InterpolatedSites`
    score: float  # the smaller the better


def goals(settings: EmulatorSettings, known: Knowledge) -> tuple[float, float, bool]:
    """Noise to aim at, operations that an evaluation may take, and whether it is to be quiet.

    With many hyper-parameters, or a softmax, noise makes chains stay longer where they do anyway.
    """
    budget = _MOST_OPERATIONS_EACH if known.coupled else _MOST_OPERATIONS
    return settings.noise, budget, known.coupled or not known.few


def cheapest_plan(log_variance: FloatArray, n: int, *aims: float, quiet: bool = False) -> Plan:
    """Choose the variant whose plan has little cost and few rejections.

    `log_variance` has a column for each variant, and `aims` are noise and budget; see `plan_for`.
    """
    plans = [
        plan_for(k, column, n, *aims, quiet=quiet)
        for k, column in enumerate(log_variance.T)
        if np.isfinite(column).all()
    ]
    return min(plans, key=lambda plan: plan.score)


def plan_for(
    variant: int,
    log_variance: FloatArray,
    n: int,
    noise: float,
    budget: float = _MOST_OPERATIONS,
    *,
    quiet: bool = False,
) -> Plan:
    """Choose the number of draws for a variant: the plan with the best score.

    An evaluation takes two factorizations, two operations a sweep, 4 N / n for N draws (1 + 2 N / n
    by the whitened factor, N / n more if skewed), r / n for r rows in turn, and what calls take.

    Parameters
    ----------
    variant : int
        Position among VARIANTS.
    log_variance : ndarray of shape (m,)
        Log of the relative variance of one weight at m points of the posterior.
    n, noise : int, float
        Number of rows; standard deviation of the log estimate, where the largest N allows it.
    budget : float
        Of operations, on average, but for calls: draws may take as long. More where that pays.
    quiet : bool, default=False
        Try less noise first.
    """
    n_sweeps, skewed, n_turns = VARIANTS[variant]
    variance, calls = np.exp(log_variance), _CALLS / n**3
    ways, plans = _noise_and_most(noise, n, quiet), []
    targets, largest = np.array(ways).T[:, :, None]
    every = np.clip(variance / targets**2, FEWEST_DRAWS, largest)
    # Acceptance of what only noise can reject, at the tenth with most noise: chains stay there. It
    # counts by a power in the score, as few draws do not show the rarest weights.
    rates = 2.0 * np.quantile(ndtr(-np.sqrt(variance / every / 2.0)), 0.1, axis=1)
    for (target, most), counts, accepted in zip(ways, every, rates, strict=True):
        share = float(counts.mean()) / n
        whitened = skewed or n_turns > 0 or n_sweeps > 0 or share > _MANY_DRAWS
        each = _PER_NUMBER[skewed] / n + ((3.0 if skewed else 2.0) if whitened else 4.0)
        turn = 1.0 / n + (_TURN[1] + _TURN[2] * float(counts.mean())) / n**3
        turns = (n_turns > 0) * _TURN[0] / n**3 + min(n_turns, n) * turn
        cost = 2.0 + (2.0 + 0.5 * calls) * n_sweeps + whitened + each * share + turns + calls
        score = cost * (1.0 + variance.max()) ** _WARY / max(float(accepted), 1e-50) ** 4
        plans.append(Plan(variant, target, most, whitened, score))
        if cost <= budget + 1.25 * calls:
            break  # those to come cost less, and are rejected more
    return min(plans, key=lambda plan: plan.score)


def _noise_and_most(noise: float, n: int, quiet: bool) -> list[tuple[float, int]]:
    """Noise and largest N, from the dearest to the cheapest: chains stay where N is bounded."""
    largest = most_draws(n)
    even = [(share * noise, largest) for share in (np.geomspace(0.5, 1.0, 6) if quiet else [1.0])]
    capped = [(noise, min(most, largest)) for most in np.geomspace(4.0, 0.25, 12) * n]
    return [(float(target), max(int(most), FEWEST_DRAWS)) for target, most in [*even, *capped]]


def most_draws(n: int, times: float = 1.0) -> int:
    """Most importance draws for n rows: `times` 4 n or a thousand, if they fit in memory."""
    return max(FEWEST_DRAWS, min(int(max(4 * n, _FEW_ENOUGH) * times), _MOST_NUMBERS // n))
