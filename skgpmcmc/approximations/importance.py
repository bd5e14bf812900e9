"""The unbiased importance-sampling estimate of p(y | theta), and how many draws it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy import linalg

from .._typing import FloatArray
from ..model import LatentGP
from ..numerics.linalg import log_sum
from .base import GaussianApproximation, LatentDraws

#: Where that adds at most such a share to the draws, N may be so many times its bound.
_RARE_SHARE, _RARELY = 0.1, (16, 8, 4, 2)


class Density(Protocol):
    """A density of f at one theta that can be drawn from, near p(f | y, theta)."""

    @property
    def q(self) -> GaussianApproximation:
        """The Gaussian it is made of; itself if it is Gaussian."""
        ...

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays of shape (n,) that make it again, with the prior; see `density_from`."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        ...

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log density relative to N(f; 0, K) for each column of f of shape (n, m); (m,)."""
        ...


class ReferenceDensity(Protocol):
    """Gives an importance density at any theta, a deterministic function of (model, theta)."""

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""
        ...


@dataclass(frozen=True, eq=False)
class DrawCount:
    """How many importance draws an estimate takes: a fixed function of theta.

    With N draws the log of the estimate has a variance of about v(theta) / N, where v is the
    relative variance of a single weight. N keeps that near a target all over the posterior.

    Attributes
    ----------
    log_variance : Quadratic
        Log of v.
    target_sd : float
        Standard deviation of the log estimate that is aimed at.
    lowest, highest : int
        Bounds of N.
    """

    log_variance: Quadratic
    target_sd: float
    lowest: int
    highest: int

    def at(self, theta: FloatArray) -> int:
        """N at theta of shape (p,)."""
        log_n = float(self.log_variance.value(theta)) - 2.0 * np.log(self.target_sd)
        return int(np.clip(np.ceil(np.exp(min(log_n, 50.0))), self.lowest, self.highest))

    def raised(self, theta: FloatArray, largest: int) -> DrawCount:
        """Return a count that may be larger than `highest` where that is rare.

        A chain that comes there would stay for long. At draws of theta (m, p) from the posterior
        the mean of N grows by at most a tenth; no N exceeds `largest`, unless `highest` does.
        """
        wanted = np.exp(self.log_variance.value(theta)) / self.target_sd**2
        limit = (1.0 + _RARE_SHARE) * np.clip(wanted, self.lowest, self.highest).mean()
        tops = [min(times * self.highest, max(largest, self.highest)) for times in _RARELY]
        paid = [top for top in tops if np.clip(wanted, self.lowest, top).mean() <= limit]
        return replace(self, highest=max(paid, default=self.highest))


class ImportanceEstimate(NamedTuple):
    """An estimate of p(y | theta) and the weighted draws of f that it was made of."""

    log_likelihood: float  # log of the unbiased estimate, natural log
    particles: FloatArray  # (n, N): draws of f, one per column
    log_weights: FloatArray  # (N,)

    def draw_index(self, rng: np.random.Generator) -> int:
        """Position of one particle, with probability proportional to its weight.

        Under the extended target of the pseudo-marginal chain that particle is an exact draw from
        p(f | y, theta) (Andrieu, Doucet & Holenstein, 2010).
        """
        cumulative = np.cumsum(np.exp(self.log_weights - self.log_weights.max()))
        index = np.searchsorted(cumulative, rng.uniform() * cumulative[-1], side="right")
        return min(int(index), len(cumulative) - 1)

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One particle with probability proportional to its weight; (n,)."""
        return self.particles[:, self.draw_index(rng)]

    def with_particle(self, index: int, f: FloatArray, log_weight: float) -> ImportanceEstimate:
        """Return the estimate with another f of shape (n,) in the place of one particle."""
        particles, log_weights = self.particles.copy(order="K"), self.log_weights.copy()
        particles[:, index] = f
        log_weights[index] = log_weight
        return ImportanceEstimate(_log_mean(log_weights), particles, log_weights)


def _log_mean(log_weights: FloatArray) -> float:
    return float(log_sum(log_weights) - np.log(len(log_weights)))


def importance_estimate(
    model: LatentGP,
    density: Density,
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float = 0.0,
    retained: FloatArray | None = None,
) -> ImportanceEstimate:
    """Estimate p(y | theta) = E_g[p(y | f) p(f | theta) / g(f)] without bias.

    Parameters
    ----------
    model : LatentGP
        Gives p(y | f).
    density : Density
        The density g(f) at the theta in question. Any g is valid; a good one has little variance.
    n_draws : int
        Number of independent draws N.
    rng : numpy.random.Generator
        For the draws.
    defensive : float in [0, 1), default=0.0
        Probability with which a draw is taken from the prior instead of g. A positive value
        bounds the weights of a bounded likelihood by max p(y | f) / defensive; with 0, as in
        the paper, their variance can be infinite.
    retained : ndarray of shape (n,), optional
        Put this f in place of the first draw. If it comes from p(f | y, theta), the particles
        have their law under the extended target (conditional importance sampling), instead of
        their law under g.

    Returns
    -------
    ImportanceEstimate
        The log of the estimate, and the weighted draws.

    References
    ----------
    Filippone & Girolami (2014), (25)-(27); Owen & Zhou (2000) for the defensive mixture.
    """
    particles = np.empty((model.n_latent, n_draws), order="F")
    log_ratio = np.empty(n_draws)
    own = rng.uniform(size=n_draws) >= defensive  # the others come from the prior
    if retained is not None:
        own[0] = False
    n_own = int(own.sum())
    if n_own == n_draws:
        particles, log_ratio = density.sample(rng, n_draws)
    elif n_own > 0:
        particles[:, own], log_ratio[own] = density.sample(rng, n_own)
    if n_own < n_draws:
        others = density.q.prior.sample(rng, n_draws - n_own)
        if retained is not None:
            others[:, 0] = retained
        particles[:, ~own], log_ratio[~own] = others, density.log_ratio_to_prior(others)
    observed = model.observations_at(density.q.prior.theta)
    log_weights = observed.totals(particles) - _mixed(log_ratio, defensive)
    return ImportanceEstimate(_log_mean(log_weights), particles, log_weights)


def log_importance_weights(
    model: LatentGP, density: Density, f: FloatArray, *, defensive: float = 0.0
) -> FloatArray:
    """``log [p(y | f) N(f; 0, K) / g(f)]`` for each column of f of shape (n, N); (N,).

    With `defensive` = c the denominator is the mixture (1 - c) g + c N(0, K).
    """
    observed = model.observations_at(density.q.prior.theta)
    return observed.totals(f) - _mixed(density.log_ratio_to_prior(f), defensive)


def log_relative_variances(
    model: LatentGP,
    densities: Sequence[Density],
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float = 0.0,
    drawn: Sequence[int] = (),
) -> FloatArray:
    """Log of the relative variance of a weight for each of several densities at one theta.

    They share their draws, which come from the mixture of some and the prior: places where one of
    them is far too small, which its own draws hardly ever show, are seen by draws from others. With
    w the weight that a density gives to a draw, and v that of the mixture, ``E_g w^2 = E_mix w v``.
    `drawn` are positions of the densities that are drawn from; by default all.

    Returns
    -------
    ndarray of shape (k,)
        All infinite where no draw has a positive likelihood.
    """
    drawn = list(drawn) or list(range(len(densities)))
    each, n_prior = max(n_draws // len(drawn), 1), int(np.ceil(defensive * n_draws))
    prior = densities[0].q.prior
    parts = []
    for position in drawn:
        parts += [densities[position].sample(rng, each).f]
    f = np.concatenate([*parts, *([prior.sample(rng, n_prior)] if n_prior else [])], axis=1)
    log_ratio = np.array([density.log_ratio_to_prior(f) for density in densities])
    log_share = np.log(each / f.shape[1])
    log_mixture = log_sum(log_ratio[drawn] + log_share, axis=0)
    if n_prior:
        log_mixture = np.logaddexp(log_mixture, np.log(n_prior / f.shape[1]))
    totals = model.observations_at(prior.theta).totals(f)
    log_v = totals - log_mixture
    if np.isneginf(log_v.max()):
        return np.full(len(densities), np.inf)
    log_square = log_sum(totals - _mixed(log_ratio, defensive) + log_v) - np.log(f.shape[1])
    ratio = np.exp(np.minimum(log_square - 2.0 * _log_mean(log_v), 700.0))
    return np.log(np.maximum(ratio - 1.0, 1e-6))


def _mixed(log_ratio: FloatArray, defensive: float) -> FloatArray:
    """Log of the density relative to the prior, a share of the draws being from that."""
    if defensive == 0.0:
        return log_ratio
    return np.asarray(np.logaddexp(np.log1p(-defensive) + log_ratio, np.log(defensive)))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A polynomial of degree two that stays tame.

    Attributes
    ----------
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``, clipped to [-3, 3], so that nothing is
        extrapolated.
    constant : float
    linear : ndarray of shape (p,)
        Of z.
    curvature : ndarray of shape (p, p)
        Symmetric; its term is z' curvature z.
    """

    center: FloatArray
    scale: FloatArray
    constant: float
    linear: FloatArray
    curvature: FloatArray

    @classmethod
    def fit(
        cls,
        theta: FloatArray,
        values: FloatArray,
        center: FloatArray,
        scale: FloatArray,
        *,
        noise: FloatArray | float,
        term_sd: float,
    ) -> Self:
        """Regress values (D,) at theta (D, p), whose noise has standard deviations `noise`.

        `term_sd` is that of the linear terms before seeing data, half of it that of the others;
        the constant is free.
        """
        p = theta.shape[1]
        z = np.clip((theta - center) / scale, -3.0, 3.0)
        rows, columns = np.triu_indices(p)
        features = np.concatenate([np.ones((len(z), 1)), z, z[:, rows] * z[:, columns]], axis=1)
        sd = np.concatenate([np.full(p, term_sd), np.full(len(rows), 0.5 * term_sd)])
        weights = np.broadcast_to(np.asarray(noise, dtype=float) ** -2, values.shape)
        gram = (features.T * weights) @ features + np.diag(np.concatenate([[1e-8], sd**-2]))
        coefficients = linalg.solve(gram, features.T @ (weights * values), assume_a="pos")
        upper = np.zeros((p, p))
        upper[rows, columns] = coefficients[p + 1 :]
        return cls(
            center, scale, float(coefficients[0]), coefficients[1 : p + 1], 0.5 * (upper + upper.T)
        )

    @classmethod
    def flat(cls, center: FloatArray, scale: FloatArray, constant: float = 0.0) -> Self:
        """Return the same value everywhere."""
        p = len(center)
        return cls(center, scale, constant, np.zeros(p), np.zeros((p, p)))

    def value(self, theta: FloatArray) -> FloatArray:
        """Return values (...) at theta (..., p)."""
        z = np.minimum(np.maximum((theta - self.center) / self.scale, -3.0), 3.0)
        return np.asarray(self.constant + z @ self.linear + ((z @ self.curvature) * z).sum(axis=-1))

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return values (...) and gradients (..., p) at theta (..., p)."""
        raw = (theta - self.center) / self.scale
        z = np.clip(raw, -3.0, 3.0)
        slope = z @ self.curvature
        value = self.constant + z @ self.linear + (z * slope).sum(axis=-1)
        return value, (self.linear + 2.0 * slope) / self.scale * (z == raw)
