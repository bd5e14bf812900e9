"""Design points of the emulator: what is known at each, and where the next ones go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, singledispatch
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from ..._typing import FloatArray, IntArray
from ...approximations import (
    Approximation,
    ClasswiseApproximation,
    Evaluation,
    GaussianApproximation,
    Sites,
    averaged,
    evaluate,
    path_to_mode,
)
from ...model import LatentGP
from ...numerics.linalg import cholesky
from ..time_limit import OutOfTimeError, check_time
from ..work import no_density
from .periods import at_best_multiple, at_best_period

#: A mode is another one if it is so far away (times the root of p, in standard deviations), or if
#: the log density is so much lower somewhere between the two, judged by so many points.
_MODE_GAP, _VALLEY, _N_ON_PATH = 2.0, 1.0, 17
#: Ends of searches nearer than this are those at one mode; most of them that are compared.
_SAME_MODE, _MOST_ENDS = 0.5, 16
#: Points nearer than this to a better one, in units of `scale`, say nothing new.
_SMALLEST_GAP = 0.1
#: Most sweeps that improve coupled sites, and the share of their precision that is kept.
_N_SWEEPS, _SHARE = 40, 0.85
#: Least precision of a site that is interpolated, as a share of the Fisher information.
_LEAST_SHARE = 0.05


class DesignPoint(NamedTuple):
    """What an approximation found at one theta."""

    theta: FloatArray  # (p,), natural logs
    log_evidence: float
    gradient: FloatArray  # (p,), of the log evidence
    log_density: float  # log evidence + log p(theta)
    sites: Sites
    skewness: FloatArray | None  # (n,), of margins; None for coupled sites

    @classmethod
    def of(cls, model: LatentGP, evaluation: Evaluation, start: Sites | None = None) -> Self:
        """Keep what the emulator and the reference need of an evaluation.

        Where sites have to be improved for that, this begins at `start`.
        """
        fit = evaluation.fit
        q = importance_gaussian(fit.q, model, start)
        return cls(
            evaluation.theta,
            fit.log_evidence,
            evaluation.gradient,
            evaluation.log_density,
            _smooth_sites(model, q),
            q.skewness(model),
        )


@singledispatch
def importance_gaussian(
    q: GaussianApproximation, model: LatentGP, start: Sites | None
) -> GaussianApproximation:
    """Return the Gaussian that importance densities are made of: q itself, but for a softmax."""
    return q


@importance_gaussian.register(ClasswiseApproximation)
def _of_softmax(
    q: ClasswiseApproximation, model: LatentGP, start: Sites | None
) -> GaussianApproximation:
    """Average the sites, and widen them.

    The Gaussian at the mode is a poor one. With averaged sites it is the nearest in the sense of
    KL(q || p), and thus too narrow.
    """
    if start is not None:
        q = ClasswiseApproximation(q.prior, start)
    return averaged(q, model.observations_at(q.prior.theta), _N_SWEEPS).widened(_SHARE)


def _smooth_sites(model: LatentGP, q: GaussianApproximation) -> Sites:
    """Sites that can be interpolated over theta: none of them vanishes.

    Where a likelihood is not log-concave, Laplace leaves sites without precision; they get a
    little of what they have on average, and the same mean.
    """
    if model.likelihood.log_concave:
        return q.sites
    usual = model.observations_at(q.prior.theta).fisher_information(q.mean)
    precision = np.maximum(q.precision, _LEAST_SHARE * usual)
    return Sites(q.weights + precision * q.mean, precision)


@dataclass(frozen=True, eq=False)
class Design:
    """Some design points, as arrays.

    Attributes
    ----------
    points : tuple of DesignPoint
    """

    points: tuple[DesignPoint, ...]

    def __len__(self) -> int:
        return len(self.points)

    @property
    def theta(self) -> FloatArray:
        """Natural logs; (D, p)."""
        return np.array([point.theta for point in self.points])

    @property
    def values(self) -> FloatArray:
        """Log evidences; (D,)."""
        return np.array([point.log_evidence for point in self.points])

    @property
    def gradients(self) -> FloatArray:
        """Gradients of the log evidence; (D, p)."""
        return np.array([point.gradient for point in self.points])

    @property
    def log_density(self) -> FloatArray:
        """Log evidence + log p(theta); (D,)."""
        return np.array([point.log_density for point in self.points])

    @property
    def best(self) -> DesignPoint:
        """The point with the largest log density."""
        return max(self.points, key=attrgetter("log_density"))

    def joined(self, points: Sequence[DesignPoint]) -> Design:
        """Return the design with more points."""
        return Design((*self.points, *points))

    def plausible(self, margin: float) -> Design:
        """Return the points whose log density is at most `margin` below the best."""
        limit = self.best.log_density - margin
        return Design(tuple(point for point in self.points if point.log_density >= limit))

    def believable(self, margin: float) -> Design:
        """Return the points whose log p(theta) is at most `margin` below that of the best."""
        best = self.best
        limit = best.log_density - best.log_evidence - margin
        return Design(tuple(p for p in self.points if p.log_density - p.log_evidence >= limit))

    def thinned(self, scale: FloatArray, most: int) -> Design:
        """Return points with at most `most` values and derivatives, none next to a better one.

        If there are more, those that are farthest from any better one are kept.
        """
        order = np.argsort(-self.log_density, kind="stable")
        z = (self.theta / scale)[order]
        squares = np.einsum("ir,ir->i", z, z)
        gaps = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * z @ z.T, 0.0))
        kept = [0]
        for i in range(1, len(order)):
            if gaps[i, kept].min() > _SMALLEST_GAP:
                kept.append(i)
        gaps = gaps[np.ix_(kept, kept)]
        gaps[np.triu_indices(len(kept))] = np.inf
        isolated = np.argsort(-gaps.min(axis=1), kind="stable")
        isolated = isolated[: most // (len(scale) + 1)]
        chosen = order[np.array(kept)[isolated]]
        return Design(tuple(self.points[i] for i in sorted(chosen)))

    def nearest(self, theta: FloatArray, scale: FloatArray) -> DesignPoint:
        """Return the point that is nearest to theta in units of `scale`."""
        return self.points[int(np.argmin(np.linalg.norm((self.theta - theta) / scale, axis=1)))]


def spread_out(candidates: FloatArray, present: FloatArray, size: int) -> IntArray:
    """Choose `size` candidates (m, p), each as far as can be from what is there and from the rest.

    Both are in coordinates in which distances mean something.
    """
    gaps = np.linalg.norm(candidates[:, None, :] - present, axis=2).min(axis=1)
    chosen = []
    for _ in range(min(size, len(candidates))):
        i = int(np.argmax(gaps))
        chosen.append(i)
        gaps = np.minimum(gaps, np.linalg.norm(candidates - candidates[i], axis=1))
    return np.array(chosen, dtype=np.intp)


#: With more hyper-parameters than this, trajectories with exact gradients come before the emulator,
#: and what it learns from has to be more precise and more.
FEW = 4
#: Tolerance of the approximation, with few hyper-parameters and with many.
_TOLERANCES = (1e-3, 1e-4)
#: When a search for a mode stops: the design needs its neighborhood, not the mode itself.
_ROUGHLY = {"ftol": 1e-5, "gtol": 0.05, "maxiter": 60}
_MAX_START_ATTEMPTS = 30
#: How often a search goes on from a multiple or a fraction of a period.
_MOST_MULTIPLES = 5


def search(model: LatentGP, approximation: Approximation, start: FloatArray) -> list[DesignPoint]:
    """Climb to a mode; returns every point on the way, the best last.

    Where the density at the start is not finite, the search begins nearer to the kernel's values.
    It ends on its way if the time is over, but not before the first point.

    Raises
    ------
    RuntimeError
        If there is no way from there; the message names theta.
    """
    precise = approximation.refined(_TOLERANCES[len(start) > FEW])
    path: list[DesignPoint] = []

    def climb(theta: FloatArray) -> None:
        path_to_mode(model, precise, theta, keep, _ROUGHLY)

    def keep(evaluation: Evaluation) -> None:
        path.append(DesignPoint.of(model, evaluation))
        check_time()

    theta = at_best_period(model, precise, start)
    for _ in range(_MAX_START_ATTEMPTS):
        with suppress(OutOfTimeError):
            climb(theta)
        if path:
            break
        theta = 0.5 * (theta + model.start)
    else:
        raise RuntimeError(no_density(model, theta))
    with suppress(OutOfTimeError):
        for _ in range(_MOST_MULTIPLES):
            check_time()
            best = max(path, key=attrgetter("log_density")).theta
            further = at_best_multiple(model, precise, best)
            if np.array_equal(further, best):
                break
            climb(further)
    return sorted(path, key=attrgetter("log_density"))


def root_at_mode(
    best: DesignPoint,
    steps: Sequence[FloatArray],
    found: Sequence[DesignPoint | None],
    prior_gradient: Callable[[FloatArray], FloatArray],
) -> FloatArray:
    """Return the Cholesky factor of the covariance by the curvature at a mode; (p, p).

    Curvature is the difference of gradients `found` as many steps away along each axis.
    """
    dim = len(best.theta)
    curvature, at_mode = np.zeros((dim, dim)), best.gradient + prior_gradient(best.theta)
    for step, point in zip(steps, found, strict=True):
        if point is not None:
            difference = point.gradient + prior_gradient(point.theta) - at_mode
            axis = int(np.argmax(np.abs(step)))
            curvature[axis] -= difference / step[axis] / (len(steps) // dim)
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    # A prior on the log scale has standard deviations of a few at most.
    deviations = 1.0 / np.sqrt(np.clip(values, 0.1, 1e6))
    return cholesky(np.asfortranarray((vectors * deviations**2) @ vectors.T))


def corners_of(theta: FloatArray, box: FloatArray) -> FloatArray:
    """Return the smallest box around points and another box; (2, p)."""
    every = np.concatenate([theta, box])
    return np.array([every.min(axis=0), every.max(axis=0)])


def highest(ends: Sequence[DesignPoint], scale: FloatArray, margin: float) -> FloatArray:
    """Return those whose log density is at most `margin` below the largest, sorted; (k, p).

    None is next to a better one, and they are few.
    """
    ends = sorted(ends, key=lambda point: -point.log_density)
    kept = [ends[0].theta]
    for end in ends[1:]:
        gaps = np.linalg.norm((np.array(kept) - end.theta) / scale, axis=1)
        if end.log_density >= ends[0].log_density - margin and gaps.min() > _SAME_MODE:
            kept.append(end.theta)
    return np.array(kept[:_MOST_ENDS])


def paths_between(ends: FloatArray) -> FloatArray:
    """Return points on the line from each of k ends to each; (k^2 `_N_ON_PATH`, p)."""
    to, share = ends[:, None], np.linspace(0.0, 1.0, _N_ON_PATH)[:, None, None, None]
    paths = to + share * (ends - to)
    return np.moveaxis(paths, 0, 2).reshape(-1, ends.shape[1])


def distinct_modes(
    ends: FloatArray, scale: FloatArray, log_prob: FloatArray | None = None
) -> FloatArray:
    """Return the ends of searches that are modes of their own, the best first; (m, p).

    They are far from all better ones, or parted from them by a valley: where there are two modes
    the scale of the posterior is about their distance, so that they do not seem far.

    Parameters
    ----------
    ends : ndarray of shape (k, p)
        The best first.
    scale : ndarray of shape (p,)
        Standard deviations of the posterior.
    log_prob : ndarray, optional
        Log density at `paths_between` the ends, if known.
    """
    gaps = np.linalg.norm((ends[:, None] - ends) / scale, axis=2)
    apart = gaps > _MODE_GAP * np.sqrt(ends.shape[1])
    if log_prob is not None:
        heights = log_prob.reshape(*gaps.shape, _N_ON_PATH)
        lower_end = np.minimum(heights[:, :, 0], heights[:, :, -1])
        apart |= heights.min(axis=2) < lower_end - _VALLEY
    modes = [0]
    for i in range(1, len(ends)):
        if apart[i, modes].all():
            modes.append(i)
    return ends[modes]


def examine(
    model: LatentGP, approximation: Approximation, theta: FloatArray, start: Sites
) -> DesignPoint | None:
    """Fit the approximation at theta from the sites of a neighbor; None where K is singular."""
    precise = approximation.refined(_TOLERANCES[len(theta) > FEW])
    keep = partial(DesignPoint.of, model, start=start)
    return evaluate(model, precise, theta, with_hyperprior=True, start=start, keep=keep)
