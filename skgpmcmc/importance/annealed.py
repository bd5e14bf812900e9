"""Annealed importance sampling: p(y | theta) by a path from a Gaussian to the posterior of f.

If a Gaussian q is far from p(f | y, theta), a few of its draws have nearly all of the importance
weight. Draws that move along the path ``q^(1 - beta) (p(y | f) p(f | theta))^beta`` accumulate
their weights in many small factors, so that the weights vary less.
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

#: Most shrinks of the bracket of a slice: beyond them only rounding decides.
_MOST_SHRINKS = 100
#: Share of the effective sample size that a step of an adaptive schedule keeps: small steps.
_KEPT_SHARE = 0.9
#: First temperature of a geometric schedule: the start is the prior, nearly.
_FIRST_TEMPERATURE = 1e-4
#: Most temperatures of an adaptive schedule: bounds the time of a pilot run.
_MOST_TEMPERATURES = 1000
#: Change of a log scale per unit error of the acceptance rate: each temperature tunes once.
_GAIN = 1.0
#: Particles of the pilot run that finds a schedule.
N_PILOT = 64


@dataclass(eq=False)
class AnnealedParticles:
    """Draws of f that move together along the path.

    Attributes
    ----------
    q : GaussianApproximation
        Start of the path; a normalized density.
    observed : Observations
        Observations with the likelihood p(y | f).
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
        """Draw particles from q."""
        observed = model.observations_at(q.prior.theta)
        delta = _draw_deviations(q, size, rng)
        return cls(q, observed, delta, _log_density_ratio(q, observed, delta))

    @property
    def f(self) -> FloatArray:
        """The particles; (n, N)."""
        return self.q.mean[:, None] + self.delta

    def place(self, which: BoolArray, delta: FloatArray) -> None:
        """Move the draws of a mask (N,) to `delta` (n, m)."""
        self.delta[:, which] = delta
        self.log_ratio[which] = _log_density_ratio(self.q, self.observed, delta)


class PathKernel(Protocol):
    """A move of all draws that leaves the density ``q(f) exp(beta rho(f))`` of the path unchanged.

    Attributes
    ----------
    operator : object or None
        Operator with a ``log_scale`` from which tuning starts, and a ``target_acceptance`` to which
        the scale is tuned; None for a move without a scale.
    """

    @property
    def operator(self) -> Any:
        """The operator whose scale is tuned, or None."""

    def move(
        self, particles: AnnealedParticles, beta: float, log_scale: float, rng: np.random.Generator
    ) -> float:
        """Move every draw once, and return the mean acceptance probability."""


@dataclass(frozen=True)
class EllipticalKernel:
    """Elliptical slice moves around the mean of q, of all draws in one batch.

    **Invariant:** leaves the density of the path unchanged, because q takes the place of the
    Gaussian prior, and exp(beta rho) the place of the likelihood. Each move costs one draw from q
    and some evaluations of rho.

    References
    ----------
    Murray, Adams & MacKay (2010), figure 2.
    """

    operator: None = None

    def move(
        self, particles: AnnealedParticles, beta: float, log_scale: float, rng: np.random.Generator
    ) -> float:
        """Move every draw; an elliptical slice move is always accepted."""
        size = len(particles.log_ratio)
        level = beta * particles.log_ratio + np.log1p(-rng.uniform(size=size))
        begun = particles.delta.copy()
        other = _draw_deviations(particles.q, size, rng)
        angle = rng.uniform(0.0, 2.0 * np.pi, size=size)
        low = angle - 2.0 * np.pi
        high = angle.copy()
        waiting = np.full(size, True)
        for _ in range(_MOST_SHRINKS):
            (which,) = np.nonzero(waiting)
            turned = angle[which]
            delta = begun[:, which] * np.cos(turned) + other[:, which] * np.sin(turned)
            log_ratio = _log_density_ratio(particles.q, particles.observed, delta)
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
class TemperedLikelihood:
    """``p(y | f)^beta (q(f) / p(f | theta))^(1 - beta)``: the path over the prior, row by row.

    Attributes
    ----------
    observed : Observations
        p(y | f).
    q : GaussianApproximation
        Start of the path; only its sites are used.
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
        """Return the Fisher information of the likelihood and the sites at f; (n,)."""
        return self._share + self.beta * self.observed.fisher_information(f)

    def curvature(self, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the curvature of the likelihood and the sites at f, and its derivative; (n,)."""
        precision, slope = self.observed.curvature(f)
        return self._share + self.beta * precision, self.beta * slope

    @property
    def _share(self) -> FloatArray:
        return (1.0 - self.beta) * self.q.precision

    @property
    def _location(self) -> FloatArray:
        """Precision times location of the sites; (n,)."""
        return np.asarray(self.q.weights + self.q.precision * self.q.mean)


def _draw_deviations(q: GaussianApproximation, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw f from q, and subtract the mean of q; (n, N)."""
    return q.sample(rng, size).f - q.mean[:, None]


def _log_density_ratio(
    q: GaussianApproximation, observed: Observations, delta: FloatArray
) -> FloatArray:
    """Log of p(y | f) p(f | theta) / q(f) for each column of f = mean + delta; (N,)."""
    f = q.mean[:, None] + delta
    return np.asarray(observed.totals(f) - q.log_ratio_of_deviation(delta))


class AnnealedEstimate(NamedTuple):
    """An unbiased estimate of p(y | theta)."""

    log_weights: FloatArray  # (N,), independent
    particles: FloatArray  # (n, N): the draws of f at the end of the path

    @classmethod
    def pool(cls, parts: Sequence[AnnealedEstimate]) -> AnnealedEstimate:
        """Return one estimate from the draws of several estimates."""
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

    temperatures: FloatArray  # (B,): inverse temperatures, 0 < beta_1 < ... < beta_B = 1
    log_scales: FloatArray  # (B,): natural log of the kernel's scale at each


def annealed_evidence(
    model: LatentGP,
    q: GaussianApproximation,
    schedule: TemperatureSchedule,
    n_particles: int,
    rng: np.random.Generator,
    *,
    kernel: PathKernel = EllipticalKernel(),
    n_moves: int = 1,
) -> AnnealedEstimate:
    """Estimate p(y | theta) by annealed importance sampling, without bias.

    Parameters
    ----------
    model : LatentGP
        Model whose likelihood p(y | f) is used.
    q : GaussianApproximation
        Start of the path, such as EP's Gaussian; without sites it is the prior.
    schedule : TemperatureSchedule
        Temperatures and scales. With one temperature the method is importance sampling from q. The
        schedule must not depend on the draws of the estimate: see `find_schedule`.
    n_particles : int
        Number N of independent runs, computed in one batch.
    rng : numpy.random.Generator
        Random stream of draws and moves.
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


def geometric_temperatures(n: int) -> FloatArray:
    """Return `n` temperatures up to 1 with equal ratios, for paths from the prior."""
    return np.append(np.geomspace(_FIRST_TEMPERATURE, 1.0, n)[:-1], 1.0)


def linear_temperatures(n: int) -> FloatArray:
    """Return `n` equally spaced temperatures, for paths that start near the posterior."""
    return np.append(np.linspace(0.0, 1.0, n + 1)[1:-1], 1.0)


def find_schedule(
    model: LatentGP,
    q: GaussianApproximation,
    temperatures: FloatArray | None,
    rng: np.random.Generator,
    *,
    kernel: PathKernel = EllipticalKernel(),
    n_pilot: int = N_PILOT,
    n_moves: int = 1,
) -> TemperatureSchedule:
    """Find the scale at each temperature by a pilot run, and the temperatures if these are None.

    Each step of temperature that is found keeps 90 % of the effective sample size of the batch. An
    estimate from the pilot draws would be biased; an estimate from new draws is unbiased.
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
            beta = _find_next_temperature(beta, particles.log_ratio)
        else:
            beta = 1.0
        found.append((beta, log_scale))
        for _ in range(n_moves if beta < 1.0 else 0):
            probability = kernel.move(particles, beta, log_scale, rng)
            if kernel.operator is not None:
                log_scale += _GAIN * (probability - kernel.operator.target_acceptance)
    return TemperatureSchedule(*np.transpose(found))


def _find_next_temperature(beta: float, log_ratio: FloatArray) -> float:
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
