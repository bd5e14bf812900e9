"""The search for modes of the approximate posterior of theta, and the scale at the best mode."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from operator import attrgetter

import numpy as np

from ..._typing import FloatArray
from ...approximations.base import Approximation
from ...chain.executor import Executor
from ...chain.segment import MOST_ATTEMPTS, no_density_message
from ...chain.time_limit import OutOfTimeError, check_time, require_time
from ...hyperposterior.modes import climb
from ...hyperposterior.posterior import HyperPosterior, PosteriorPoint
from ...model.joint import LatentGP
from ...model.low_rank import bound_rank
from ...numerics.linalg import cholesky
from ..request import Request
from .design import Design, DesignPoint, choose_spread_out, fit_design_point, summarize_q
from .options import EmulatorOptions
from .periods import choose_step_sizes, move_to_best_multiple, move_to_best_period
from .posterior import scales_of_root


def search(
    model: LatentGP,
    approximation: Approximation,
    start: FloatArray,
    options: EmulatorOptions,
    scale: FloatArray | float = 1.0,
) -> list[DesignPoint]:
    """Climb to a mode, by first steps of a scale; returns every visited point, the best last.

    If the density at the start is not finite, the search begins nearer to the kernel's values. It
    ends early if the time is over, but not before the first point.

    Raises
    ------
    RuntimeError
        If no attempt finds a density; the message names theta.
    """
    stops = {"ftol": options.tolerance}
    posterior = HyperPosterior(model, approximation, keep=partial(summarize_q, options=options))
    path: list[DesignPoint] = []

    def visit(point: PosteriorPoint) -> None:
        path.append(DesignPoint.of(point))
        check_time()

    theta = move_to_best_period(model, approximation, start, options.n_pooled)
    for _ in range(MOST_ATTEMPTS):
        with suppress(OutOfTimeError):
            climb(posterior, theta, stops, visit, scale=scale)
        if path:
            break
        theta = 0.5 * (theta + model.start)
    else:
        raise RuntimeError(no_density_message(model, theta))
    with suppress(OutOfTimeError):
        best = max(path, key=attrgetter("log_density"))
        before = None
        while best is not before:
            further = move_to_best_multiple(model, approximation, best.theta)
            if not np.array_equal(further, best.theta):
                climb(posterior, further, stops, visit, scale=scale)
            best, before = max(path, key=attrgetter("log_density")), best
    return sorted(path, key=attrgetter("log_density"))


def find_modes(
    request: Request, options: EmulatorOptions, workers: Executor
) -> tuple[Design, float, FloatArray]:
    """Climb from every start; with many rows, from the modes given a subset of the rows.

    An evaluation with a subset costs the third power of its share of the rows, and its modes are
    near the modes given all rows. First steps with all rows are the standard deviations given the
    subset: longer ones would go where K may have a far larger rank. If the time is over, searches
    after the first are left out.

    Returns
    -------
    design : Design
        All visited points.
    n_evaluations : float
        Number of evaluations; those with a subset count by their share of the operations.
    scale : ndarray of shape (p,)
        Standard deviations of theta given the subset; one without a subset.
    """
    model = request.model
    approximation = request.approximation
    n = model.n_inputs
    starts = list(request.starts)
    n_before = 0.0
    scale = np.ones(len(starts[0]))
    if n >= options.fewest_rows:
        rows = np.sort(request.rng.choice(n, n // options.subset_divisor, replace=False))
        small = request._replace(model=model.of_inputs(rows))
        before, n_before, scale = find_modes(small, options, workers)
        before, root = estimate_scale(small, before, scale, options, workers)
        n_before += len(root)
        scale = scales_of_root(root)
        starts = _choose_starts(before, options)
        model = bound_rank(model, before.best.theta)
    s = "s" * (len(starts) > 1)
    paths = workers.map(
        search,
        [(model, approximation, start, options, scale) for start in starts],
        f"search for modes: from {len(starts)} start{s} with {n} inputs",
        n_needed=1,
    )
    design = Design(point for path in paths if path is not None for point in path)
    require_time(len(design), model)
    return design, len(design) + n_before / options.subset_divisor**3, scale


def _choose_starts(design: Design, options: EmulatorOptions) -> list[FloatArray]:
    """Choose the best point, and a distant point that is not much worse; (p,) each."""
    high = design.above(options.negligible_depth).theta
    best = design.best.theta
    chosen = choose_spread_out(high, best[None], 1)
    return [best, *high[chosen]]


def estimate_scale(
    request: Request,
    design: Design,
    largest: FloatArray,
    options: EmulatorOptions,
    workers: Executor,
) -> tuple[Design, FloatArray]:
    """Estimate a first scale from the curvature at the best point, by differences of gradients.

    Steps along each axis are at most `largest` (p,).

    Returns
    -------
    tuple of Design and ndarray of shape (p, p)
        The design with the new points, and a lower factor of the covariance.
    """
    best = design.best
    model = request.model
    steps = np.minimum(choose_step_sizes(model, best.theta, options), largest)
    common = model, request.approximation, options
    found = workers.map(
        fit_design_point,
        [(*common, best.theta + step, best.sites) for step in np.diag(steps)],
        "scale of the posterior at a mode",
        n_needed=len(steps),  # every move needs a scale, and the evaluations are few
    )
    root = _root_at_mode(model, best, steps, found)
    return design.with_points([point for point in found if point is not None]), root


def _root_at_mode(
    model: LatentGP,
    best: DesignPoint,
    steps: FloatArray,
    found: Sequence[DesignPoint | None],
) -> FloatArray:
    """Compute a factor of the covariance from gradients at a mode and a step along each axis."""
    dim = len(steps)
    gradient = model.hyperprior.gradient
    curvature = np.zeros((dim, dim))
    at_mode = best.gradient + gradient(best.theta)
    for axis, point in enumerate(found):
        if point is not None:
            difference = point.gradient + gradient(point.theta) - at_mode
            curvature[axis] = -difference / steps[axis]
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    # A prior on the log scale has standard deviations of a few at most.
    deviations = 1.0 / np.sqrt(np.clip(values, 0.1, 1e6))
    return cholesky(np.asfortranarray((vectors * deviations**2) @ vectors.T))
