"""The unbiased importance-sampling estimate of p(y | theta), and a density for it.

The density is a Gaussian approximation, or one with skewed margins. Where the latent variance is
large, p(f | y, theta) is skewed: a class that is certain leaves f free on one side. Importance
draws from any Gaussian then have weights that vary much. Giving every margin the skewness of the
tilted distribution of expectation propagation takes most of that away, and keeps a density that can
be drawn from and evaluated exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy import linalg
from scipy.special import kv

from .._typing import FloatArray
from ..model import GaussianPrior, LatentGP
from ..numerics.linalg import log_sum
from .base import GaussianApproximation, LatentDraws, Sites, gaussian_family

#: E sqrt(1 + z^2) for a standard normal z; Jones & Pewsey (2009), P_1.
_MEAN_ROOT = float(np.exp(0.25) / np.sqrt(8.0 * np.pi) * (kv(1, 0.25) + kv(0, 0.25)))
#: E cosh(3 asinh z), P_3 of the same paper.
_P3 = float(np.exp(0.25) / np.sqrt(8.0 * np.pi) * (kv(2, 0.25) + kv(1, 0.25)))
#: Where that adds at most such a share to the draws, N may be so many times its bound.
_RARE_SHARE, _RARELY = 0.1, (16, 8, 4, 2)
#: Largest asymmetry; its margin has a skewness of 1.34.
_MOST = 1.5


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
) -> FloatArray:
    """Log of the relative variance of a weight for each of several densities at one theta.

    They share their draws, which come from the mixture of all and the prior: places where one of
    them is far too small, which its own draws hardly ever show, are seen by draws from others. With
    w the weight that a density gives to a draw, and v that of the mixture, ``E_g w^2 = E_mix w v``.

    Returns
    -------
    ndarray of shape (k,)
        All infinite where no draw has a positive likelihood.
    """
    each, n_prior = max(n_draws // len(densities), 1), int(np.ceil(defensive * n_draws))
    prior = densities[0].q.prior
    parts = []
    for density in densities:
        parts += [density.sample(rng, each).f]
    f = np.concatenate([*parts, *([prior.sample(rng, n_prior)] if n_prior else [])], axis=1)
    log_ratio = np.array([density.log_ratio_to_prior(f) for density in densities])
    log_share = np.log(each / f.shape[1])
    log_mixture = log_sum(log_ratio + log_share, axis=0)
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


@dataclass(frozen=True, eq=False)
class SkewedApproximation:
    """Law of ``f = mu + sd o T(delta / sd)`` for mu + delta drawn from a Gaussian q with mean mu.

    T is the sinh-arcsinh transformation ``sinh(asinh z + asymmetry)``, standardized: f has the
    means of q, and its variances if `sd` are the standard deviations of q.

    Attributes
    ----------
    q : GaussianApproximation
    sd : ndarray of shape (n,)
        Positive.
    asymmetry : ndarray of shape (n,)
        0 leaves a coordinate Gaussian; positive for a tail to the right.

    References
    ----------
    Jones & Pewsey (2009), Sinh-arcsinh distributions, Biometrika 96(4).
    """

    q: GaussianApproximation
    sd: FloatArray
    asymmetry: FloatArray

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Sites, standard deviations and asymmetries, which make it again with the prior."""
        return (*self.q.sites, self.sd, self.asymmetry)

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        deviation = self.q.sample_white(rng, size)
        delta = self.q.prior.unwhiten(deviation)
        sd, (center, spread) = self.sd[:, None], self._moments()
        x = delta / sd
        root = _root(x)
        moved = sd * (self._sheared(x, root, 1.0) - center) / spread - delta
        white = self.q.prior.whiten(moved)
        pairing = np.einsum("ij,ij->j", white, 0.5 * white + deviation)
        log_ratio = self._log_ratio(delta, x / root, moved, pairing)
        return LatentDraws(self.q.mean[:, None] + delta + moved, log_ratio)

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        offset = f - self.q.mean[:, None]
        sd, (center, spread) = self.sd[:, None], self._moments()
        y = spread * offset / sd + center
        x = self._sheared(y, _root(y), -1.0)
        delta = sd * x
        moved = offset - delta
        white = self.q.prior.whiten(np.concatenate([moved, moved + 2.0 * delta], axis=1))
        m = f.shape[1]
        pairing = 0.5 * np.einsum("ij,ij->j", white[:, :m], white[:, m:])
        return self._log_ratio(delta, x / _root(x), moved, pairing)

    def _sheared(self, x: FloatArray, root: FloatArray, sign: float) -> FloatArray:
        """``sinh(asinh x + sign asymmetry)`` by the addition theorem, root^2 = 1 + x^2; (n, m)."""
        cosh, sinh = self._hyperbolic
        return x * cosh + root * (sign * sinh)

    @cached_property
    def _hyperbolic(self) -> tuple[FloatArray, FloatArray]:
        return np.cosh(self.asymmetry)[:, None], np.sinh(self.asymmetry)[:, None]

    def _log_ratio(
        self, delta: FloatArray, tangent: FloatArray, moved: FloatArray, pairing: FloatArray
    ) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] at f = mu + delta + moved, to which mu + delta was moved.

        ``g(f) = q(mu + delta) / prod T'``, with ``T' = cosh(asinh x + e) / cosh(asinh x)``, e the
        asymmetry, x = delta / sd and `tangent` = tanh asinh x; and the prior at f instead of
        mu + delta: ``moved' K^-1 (moved / 2 + delta)``, which is `pairing`, and
        ``moved' K^-1 mu = moved' a``.
        """
        cosh, sinh = self._hyperbolic
        log_slope = np.log(cosh + tangent * sinh)
        log_spread = np.log(moments_of(self.asymmetry)[1]).sum()
        return np.asarray(
            self.q.log_ratio_of_deviation(delta)
            - log_slope.sum(axis=0)
            + log_spread
            + self.q.weights @ moved
            + pairing
        )

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        center, spread = moments_of(self.asymmetry)
        return center[:, None], spread[:, None]


def _root(x: FloatArray) -> FloatArray:
    """``sqrt(1 + x^2)``, by the fast way where squares are finite."""
    return np.sqrt(1.0 + x * x) if max(x.max(), -x.min()) < 1e150 else np.hypot(1.0, x)


def density_from(prior: GaussianPrior, arrays: tuple[FloatArray, ...]) -> Density:
    """Make a density of its `arrays`: two for a Gaussian, four for a skewed one."""
    skewed = len(arrays) > 2
    q = gaussian_family(prior)(prior, Sites(*arrays[:2]), skewed)
    return SkewedApproximation(q, *arrays[2:]) if skewed else q


def moments_of(asymmetry: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of sinh(asinh z + asymmetry) for a standard normal z."""
    center = np.sinh(asymmetry) * _MEAN_ROOT
    return center, np.sqrt(1.0 + 3.0 * np.sinh(asymmetry) ** 2 - center**2)


def skewness_of(asymmetry: FloatArray) -> FloatArray:
    """Skewness of sinh(asinh z + asymmetry) for a standard normal z; increasing and odd."""
    center, spread = moments_of(asymmetry)
    third = 0.25 * (np.sinh(3.0 * asymmetry) * _P3 - 3.0 * np.sinh(asymmetry) * _MEAN_ROOT)
    second = 1.0 + 3.0 * np.sinh(asymmetry) ** 2
    return np.asarray((third - 3.0 * center * second + 2.0 * center**3) / spread**3)


_ASYMMETRIES = np.linspace(-_MOST, _MOST, 301)
_SKEWNESSES = skewness_of(_ASYMMETRIES)


def asymmetry_of(skewness: FloatArray) -> FloatArray:
    """Return the asymmetry with this skewness, from a table; at most 1.5 in size."""
    return np.interp(skewness, _SKEWNESSES, _ASYMMETRIES)
