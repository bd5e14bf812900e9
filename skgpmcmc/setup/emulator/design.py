"""Design points of the emulator, and their choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from ..._typing import BoolArray, FloatArray, IntArray
from ...approximations.base import Approximation, GaussianApproximation, Sites
from ...hyperposterior.posterior import HyperPosterior, PosteriorPoint
from ...importance.gaussian import importance_gaussian
from ...model.joint import LatentGP
from .options import EmulatorOptions


class DesignPoint(NamedTuple):
    """Result of an approximation at one theta."""

    theta: FloatArray  # (p,), natural logs
    log_evidence: float
    gradient: FloatArray  # (p,), of the log evidence
    log_density: float  # log evidence + log p(theta)
    sites: Sites
    skewness: FloatArray | None  # (n,), of margins; None for coupled sites, and if exact

    @classmethod
    def of(cls, point: PosteriorPoint) -> Self:
        """Make a design point of a posterior point that has kept the result of `summarize_q`."""
        return cls(
            point.position,
            point.log_evidence,
            point.evidence_gradient,
            point.log_density,
            *point.kept,
        )


def summarize_q(
    q: GaussianApproximation,
    model: LatentGP,
    options: EmulatorOptions,
    start: Sites | None = None,
) -> tuple[Sites, FloatArray | None]:
    """Return the sites of a design point, and the skewness of its margins.

    Sites of a softmax are averaged, beginning at `start`.
    """
    if model.likelihood.quadratic:  # the evidence is exact
        return q.sites, None
    wide = importance_gaussian(q, model, start)
    return _smooth_sites(model, wide, options), q.skewness(model)


def fit_design_point(
    model: LatentGP,
    approximation: Approximation,
    options: EmulatorOptions,
    theta: FloatArray,
    start: Sites,
) -> DesignPoint | None:
    """Fit the approximation at theta, beginning at the sites `start`; None without a density.

    The approximation is iterated to its own tolerance.
    """
    keep = partial(summarize_q, options=options, start=start)
    posterior = HyperPosterior(model, approximation, keep=keep)
    point = posterior.at(theta, start)
    return None if point is None else DesignPoint.of(point)


def _smooth_sites(model: LatentGP, q: GaussianApproximation, options: EmulatorOptions) -> Sites:
    """Return sites with positive precisions, so that their logs can be interpolated over theta.

    If a likelihood is not log-concave, Laplace's sites may have no precision. Such sites get a
    small share of the Fisher information as precision, and the same mean.
    """
    if model.likelihood.log_concave:
        return q.sites
    usual = model.observations_at(q.prior.theta).fisher_information(q.mean)
    precision = np.maximum(q.precision, options.least_precision * usual)
    return Sites(q.weights + precision * q.mean, precision)


class Design:
    """A set of design points, with their fields as arrays.

    Attributes
    ----------
    points : tuple of DesignPoint
    theta : ndarray of shape (D, p)
        Natural logs.
    values : ndarray of shape (D,)
        Log evidences.
    gradients : ndarray of shape (D, p)
        Gradients of the log evidence.
    log_density : ndarray of shape (D,)
        Log evidence + log p(theta).
    best : DesignPoint
        The point with the largest log density.
    """

    def __init__(self, points: Iterable[DesignPoint]) -> None:
        self.points = tuple(points)
        self.theta = np.array([point.theta for point in self.points])
        self.values = np.array([point.log_evidence for point in self.points])
        self.gradients = np.array([point.gradient for point in self.points])
        self.log_density = np.array([point.log_density for point in self.points])
        self.best = max(self.points, key=attrgetter("log_density"))

    def __len__(self) -> int:
        return len(self.points)

    def with_points(self, points: Sequence[DesignPoint]) -> Design:
        """Return the design with more points."""
        return Design((*self.points, *points))

    def above(self, depth: float) -> Design:
        """Return the points whose log density is at most `depth` below the best."""
        return self.select(self.log_density >= self.best.log_density - depth)

    def select(self, chosen: BoolArray) -> Design:
        """Return some points; `chosen` is a mask, (D,)."""
        return Design(self.points[i] for i in np.flatnonzero(chosen))

    def thin(self, scale: FloatArray, most: int) -> Design:
        """Return the `most` points that are farthest from any better point."""
        order = np.argsort(-self.log_density, kind="stable")
        z = (self.theta / scale)[order]
        squares = np.einsum("ir,ir->i", z, z)
        gaps = squares[:, None] + squares - 2.0 * z @ z.T
        gaps[np.triu_indices(len(z))] = np.inf
        nearest = gaps.min(axis=1)
        chosen = order[np.argsort(-nearest, kind="stable")[:most]]
        return Design(self.points[i] for i in sorted(chosen))

    def modes(
        self,
        scale: FloatArray,
        log_prob: Callable[[FloatArray], FloatArray],
        options: EmulatorOptions,
    ) -> FloatArray:
        """Find the points that a valley of the density separates from all better points; (k, p).

        Parameters
        ----------
        scale : ndarray of shape (p,)
            Standard deviations of the posterior.
        log_prob : callable
            Emulated log density at theta (..., p); (...).
        options : EmulatorOptions
            Tuning constants of the set-up.
        """
        high = self.above(options.negligible_depth)
        theta = high.theta[np.argsort(-high.log_density, kind="stable")]
        n_compared = options.batch(len(scale))
        chosen = choose_spread_out(theta / scale, theta[:1] / scale, n_compared)
        ends = theta[[0, *sorted(set(chosen.tolist()) - {0})]]
        share = np.linspace(0.0, 1.0, n_compared + 1)[:, None]
        modes = [0]
        for i in range(1, len(ends)):
            paths = ends[i] + share * (ends[modes] - ends[i])[:, None]
            heights = log_prob(paths.reshape(-1, theta.shape[1])).reshape(paths.shape[:2])
            lower = np.minimum(heights[:, 0], heights[:, -1])
            if (heights.min(axis=1) < lower - options.height_span).all():
                modes.append(i)
        return ends[modes]


def choose_spread_out(candidates: FloatArray, present: FloatArray, size: int) -> IntArray:
    """Choose `size` candidates (m, p), each the farthest from `present` and all chosen before.

    Candidates and `present` are in units in which all coordinates have similar scales.
    """
    gaps = np.linalg.norm(candidates[:, None, :] - present, axis=2).min(axis=1)
    chosen = []
    for _ in range(min(size, len(candidates))):
        i = int(np.argmax(gaps))
        chosen.append(i)
        gaps = np.minimum(gaps, np.linalg.norm(candidates - candidates[i], axis=1))
    return np.array(chosen, dtype=np.intp)
