"""Annealed importance sampling: p(y | theta) by a path from a Gaussian to the posterior of f.

If a Gaussian q is far from p(f | y, theta), a few of its draws have nearly all of the importance
weight. Draws that are moved along the path ``q^(1 - beta) (p(y | f) p(f | theta))^beta`` accumulate
their weights in many small factors, so that these vary less.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy import optimize

from .._typing import BoolArray, FloatArray
from ..approximations.base import GaussianApproximation
from ..likelihoods.base import Derivatives
from ..model.joint import LatentGP
from ..model.observations import Observations
from ..numerics.linalg import log_sum

#: Sizes of a bracket after which a slice is given up, where rounding decides.
_MOST_SHRINKS = 100
#: Share of the effective sample size that each temperature of an adaptive schedule keeps.
_KEPT_SHARE = 0.9
#: Most temperatures of an adaptive schedule.
_MOST_TEMPERATURES = 1000
#: How far the log of a scale moves, times the error of the acceptance rate.
_GAIN = 1.0
#: Draws that find a schedule.
N_PILOT = 64


@dataclass(eq=False)
class AnnealedParticles:
    """Draws of f along the path, all moved together.

    Attributes
    ----------
    q : GaussianApproximation
        Start of the path; normalized.
    observed : Observations
        Gives p(y | f).
    delta : ndarray of shape (n, N)
        f minus the mean of q.
    log_ratio : ndarray of shape (N,)
        rho(f) = log [p(y | f) p(f | theta) / q(f)].
    """

    q: GaussianApproximation
    observed: Observations
    delta: FloatArray
    log_ratio: FloatArray

    @classmethod
    def draw(
        cls, model: LatentGP, q: GaussianApproximation, size: int, rng: np.random.Generator
    ) -> Self:
        """Draw them from q."""
        observed = model.observations_at(q.prior.theta)
        delta = _deviations(q, size, rng)
        return cls(q, observed, delta, _log_ratio(q, observed, delta))

    @property
    def f(self) -> FloatArray:
        """The draws; (n, N)."""
        return self.q.mean[:, None] + self.delta

    def place(self, which: BoolArray, delta: FloatArray) -> None:
        """Move the draws of a mask (N,) to `delta` (n, m)."""
        self.delta[:, which] = delta
        self.log_ratio[which] = _log_ratio(self.q, self.observed, delta)


class PathKernel(Protocol):
    """A move of all draws; leaves ``q(f) exp(beta rho(f))``, the density of the path, unchanged.

    Attributes
    ----------
    operator : object or None
        Has the ``log_scale`` from which tuning starts, and the ``target_acceptance`` to which the
        scale is tuned; None for moves without a scale.
    """

    @property
    def operator(self) -> Any:
        """What has a scale."""

    def move(
        self, particles: AnnealedParticles, beta: float, log_scale: float, rng: np.random.Generator
    ) -> float:
        """Move every draw once, and return the mean acceptance probability."""


@dataclass(frozen=True)
class EllipticalSlices:
    """Elliptical slice moves around the mean of q, all draws in one batch.

    **Invariant:** leaves the density of the path unchanged: q takes the place of the Gaussian prior
    of the move, and the other factor that of its likelihood. Each move costs one draw from q and
    some evaluations of rho.

    References
    ----------
    Murray, Adams & MacKay (2010), figure 2.
    """

    operator: None = None

    def move(
        self, particles: AnnealedParticles, beta: float, log_scale: float, rng: np.random.Generator
    ) -> float:
        """Move every draw; none is ever rejected."""
        size = len(particles.log_ratio)
        level = beta * particles.log_ratio + np.log1p(-rng.uniform(size=size))
        begun = particles.delta.copy()
        other = _deviations(particles.q, size, rng)
        angle = rng.uniform(0.0, 2.0 * np.pi, size=size)
        low = angle - 2.0 * np.pi
        high = angle.copy()
        waiting = np.full(size, True)
        for _ in range(_MOST_SHRINKS):
            (which,) = np.nonzero(waiting)
            turned = angle[which]
            delta = begun[:, which] * np.cos(turned) + other[:, which] * np.sin(turned)
            log_ratio = _log_ratio(particles.q, particles.observed, delta)
            inside = log_ratio > level[which] / beta
            found = which[inside]
            particles.delta[:, found] = delta[:, inside]
            particles.log_ratio[found] = log_ratio[inside]
            waiting[found] = False
            if not waiting.any():
                break
            low = np.where(waiting & (angle < 0.0), angle, low)
            high = np.where(waiting & (angle >= 0.0), angle, high)
            angle = np.where(waiting, rng.uniform(low, high), angle)
        return 1.0


@dataclass(frozen=True, eq=False)
class Tempered:
    """``p(y | f)^beta (q(f) / p(f | theta))^(1 - beta)``: the path over the prior, row by row.

    Attributes
    ----------
    observed : Observations
        p(y | f).
    q : GaussianApproximation
        Start of the path; only its sites matter.
    beta : float
        Inverse temperature.

    References
    ----------
    Paquet & Fraccaro, (4), with the sites of q instead of its covariance.
    """

    observed: Observations
    q: GaussianApproximation
    beta: float

    def total(self, f: FloatArray) -> float:
        """Return its log for f of shape (n,), up to a constant."""
        return float(self.totals(f))

    def totals(self, f: FloatArray) -> FloatArray:
        """Return its log for each column of f of shape (n, m), up to a constant; (m,)."""
        of_sites = self._location @ f - 0.5 * self.q.precision @ (f * f)
        return np.asarray(self.beta * self.observed.totals(f) + (1.0 - self.beta) * of_sites)

    def derivatives(self, f: FloatArray) -> Derivatives:
        """Return derivatives of the log in f of shape (n,) or (n, m), row by row."""
        first, second, third = (self.beta * part for part in self.observed.derivatives(f))
        column = (slice(None),) + (None,) * (f.ndim - 1)
        location = self._location[column]
        precision = self._share[column]
        of_sites = (1.0 - self.beta) * location - precision * f
        return Derivatives(first + of_sites, second - precision, third)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return a precision that depends on f; (n,)."""
        return self._share + self.beta * self.observed.fisher_information(f)

    def curvature(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return another precision that depends on f, and its derivative; each (n,)."""
        precision, slope = self.observed.curvature(f)
        return self._share + self.beta * precision, self.beta * slope

    @property
    def _share(self) -> FloatArray:
        return (1.0 - self.beta) * self.q.precision

    @property
    def _location(self) -> FloatArray:
        """Precision times location of the sites; (n,)."""
        return np.asarray(self.q.weights + self.q.precision * self.q.mean)


def _deviations(q: GaussianApproximation, size: int, rng: np.random.Generator) -> FloatArray:
    """Draws from q less its mean; (n, N)."""
    return q.sample(rng, size).f - q.mean[:, None]


def _log_ratio(q: GaussianApproximation, observed: Observations, delta: FloatArray) -> FloatArray:
    """Log of p(y | f) p(f | theta) / q(f) for each column of f = mean + delta; (N,)."""
    f = q.mean[:, None] + delta
    return np.asarray(observed.totals(f) - q.log_ratio_of_deviation(delta))


class AnnealedEstimate(NamedTuple):
    """An unbiased estimate of p(y | theta)."""

    log_weights: FloatArray  # (N,), independent
    particles: FloatArray  # (n, N): where the draws of f have ended

    @classmethod
    def pool(cls, parts: Sequence[AnnealedEstimate]) -> AnnealedEstimate:
        """Return the estimate from all draws together."""
        log_weights, particles = zip(*parts, strict=True)
        return cls(np.concatenate(log_weights), np.concatenate(particles, axis=1))

    @property
    def log_evidence(self) -> float:
        """Log of the mean weight."""
        return float(log_sum(self.log_weights) - np.log(len(self.log_weights)))

    @property
    def effective_size(self) -> float:
        """Effective sample size of the weights, (sum w)^2 / sum w^2."""
        return float(np.exp(2.0 * log_sum(self.log_weights) - log_sum(2.0 * self.log_weights)))

    @property
    def standard_error(self) -> float:
        """Standard error of `log_evidence`, from the variance of the weights."""
        n = len(self.log_weights)
        return float(np.sqrt(max(1.0 / self.effective_size - 1.0 / n, 0.0)))


class TemperatureSchedule(NamedTuple):
    """Temperatures of a path, and the scale of the moves at each."""

    temperatures: FloatArray  # (B,): inverse ones, 0 < beta_1 < ... < beta_B = 1
    log_scales: FloatArray  # (B,), of the kernel


def annealed_evidence(
    model: LatentGP,
    q: GaussianApproximation,
    schedule: TemperatureSchedule,
    n_particles: int,
    rng: np.random.Generator,
    *,
    kernel: PathKernel = EllipticalSlices(),
    n_moves: int = 1,
) -> AnnealedEstimate:
    """Estimate p(y | theta) by annealed importance sampling, without bias.

    Parameters
    ----------
    model : LatentGP
        Gives p(y | f).
    q : GaussianApproximation
        Start of the path, such as EP's Gaussian; without sites it is the prior.
    schedule : Schedule
        Temperatures and scales. With one temperature this is importance sampling from q. It must
        not depend on these draws: see `find_schedule`.
    n_particles : int
        Number N of independent runs, made together.
    rng : numpy.random.Generator
        For draws and moves.
    kernel : PathKernel
        The move at each temperature.
    n_moves : int, default=1
        Number of moves at each temperature but the last.

    Returns
    -------
    AnnealedEstimate
        The log of the estimate, and the weighted draws.

    References
    ----------
    Neal (2001), *Annealed importance sampling*; Paquet & Fraccaro, (4).
    """
    particles = AnnealedParticles.draw(model, q, n_particles, rng)
    log_weights = np.zeros(n_particles)
    before = 0.0
    for beta, log_scale in zip(*(part.tolist() for part in schedule), strict=True):
        log_weights += (beta - before) * particles.log_ratio
        before = beta
        for _ in range(n_moves if beta < 1.0 else 0):
            kernel.move(particles, beta, log_scale, rng)
    return AnnealedEstimate(log_weights, particles.f)


def geometric_temperatures(n: int, first: float = 1e-4) -> FloatArray:
    """Return `n` temperatures from `first` to 1 with equal ratios, for paths from the prior."""
    return np.append(np.geomspace(first, 1.0, n)[:-1], 1.0)


def linear_temperatures(n: int) -> FloatArray:
    """Return `n` equally spaced temperatures, for paths that start near the posterior."""
    return np.append(np.linspace(0.0, 1.0, n + 1)[1:-1], 1.0)


def find_schedule(
    model: LatentGP,
    q: GaussianApproximation,
    temperatures: FloatArray | None,
    rng: np.random.Generator,
    *,
    kernel: PathKernel = EllipticalSlices(),
    n_pilot: int = N_PILOT,
    n_moves: int = 1,
) -> TemperatureSchedule:
    """Find the scale at each temperature by a pilot run, and the temperatures if they are None.

    Each temperature found then keeps 90 % of the effective sample size of the batch. An estimate
    from the pilot draws themselves would be biased; with other draws it is unbiased.
    """
    particles = AnnealedParticles.draw(model, q, n_pilot, rng)
    log_scale = 0.0 if kernel.operator is None else kernel.operator.log_scale
    wanted = None if temperatures is None else iter(temperatures.tolist())
    found: list[tuple[float, float]] = []
    beta = 0.0
    while beta < 1.0:
        if wanted is not None:
            beta = next(wanted)
        elif len(found) < _MOST_TEMPERATURES:
            beta = _next(beta, particles.log_ratio)
        else:
            beta = 1.0
        found.append((beta, log_scale))
        for _ in range(n_moves if beta < 1.0 else 0):
            probability = kernel.move(particles, beta, log_scale, rng)
            if kernel.operator is not None:
                log_scale += _GAIN * (probability - kernel.operator.target_acceptance)
    return TemperatureSchedule(*np.transpose(found))


def _next(beta: float, log_ratio: FloatArray) -> float:
    """Return the next temperature, 1 if the effective sample size allows it."""

    def excess(step: float) -> float:
        """Return the log effective sample size after a step, minus the log of the wanted size."""
        weights = step * log_ratio
        size = 2.0 * log_sum(weights) - log_sum(2.0 * weights)
        return float(size - np.log(_KEPT_SHARE * len(log_ratio)))

    rest = 1.0 - beta
    if excess(rest) >= 0.0:
        return 1.0
    return beta + float(optimize.brentq(excess, 0.0, rest, xtol=1e-12))
