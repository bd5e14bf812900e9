"""The unbiased importance-sampling estimate of p(y | theta), and a density for it.

Where the latent variance is large, the likelihood of a row near the border of a class acts like a
bound on f, and no Gaussian is near p(f | y, theta). The values of such rows can be drawn in turn,
from the Gaussian given those before, with the likelihood of this very row in the place of its site.
The sites of all rows still to come stay Gaussian: by them a draw knows of what lies ahead. Given
these values the others follow the Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import lapack
from scipy.special import log_ndtr, ndtri_exp

from .._typing import FloatArray, IntArray
from ..model import LatentGP, Observations
from ..numerics.linalg import NotPositiveDefiniteError, log_sum, solve_lower
from .base import GaussianApproximation, LatentDraws

#: Added to the covariance of the values that are drawn in turn, relative to each variance: above
#: what rounding takes away.
_JITTER = 1e-12
#: Values that those before leave less than this share of their variance are not drawn in turn; to
#: what is left the jitter does not matter.
_DETERMINED = 1e-6


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

    def made(self) -> Density:
        """Return itself, all factors made now: this is where a singular K shows."""
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
class SequentialApproximation:
    """Law of f under a Gaussian q, but for rows i_1, ..., i_r, whose values come in turn.

    With t the likelihood of a row, Phi(s f), and t~ its site in q,
    ``g(f) = q(f) prod_k [t(f_k) / t~(f_k)] / Z_k``, Z_k the mean of t / t~ under q(f_k | f_<k). The
    importance weight of a draw knows of these rows by the Z_k only, which vary little.

    Attributes
    ----------
    q : GaussianApproximation
        A whitened one.
    observed : Observations
        p(y | f) of all rows; one that has `probit_signs`.
    rows : ndarray of shape (r,)
        Positions of the rows, in turn; those first that are the least Gaussian.

    References
    ----------
    Keane (1994), A computationally practical simulation estimator for panel data, Econometrica
    62(1), for q the prior. Botev (2017), The normal law under linear restrictions, JRSS B 79(1),
    for draws that look ahead by exponential tilting; here, by the sites.
    """

    q: GaussianApproximation
    observed: Observations
    rows: IntArray

    def __getstate__(self) -> dict[str, Any]:
        # What is cached is rebuilt on demand.
        return {name: vars(self)[name] for name in ("q", "observed", "rows")}

    def made(self) -> Self:
        """Return itself, all factors made now: this is where a singular K shows."""
        _ = self.q.made(), self._turns
        return self

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Sites, and the turn of every row, counted from 1, or 0; they make it again."""
        turn = np.zeros(len(self.q.sites.shift))
        turn[self.rows] = np.arange(len(self.rows)) + 1.0
        return (*self.q.sites, turn)

    def of_first(self, count: int) -> Density:
        """Return the same with so many rows in turn, no more than its own; cheaply."""
        if count == 0:
            return self.q
        fewer = SequentialApproximation(self.q, self.observed, self.rows[:count])
        vars(fewer)["_turns"] = self._turns.first(count)  # a prefix: nothing to be factored
        return fewer

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        Q = self._turns.directions
        white = np.asfortranarray(rng.standard_normal((size, len(Q))).T)
        white += Q @ (self._turns.draw(rng, size) - Q.T @ white)
        white = solve_lower(self.q.chol_white, white, transpose=True, overwrite=True)
        delta = self.q.prior.unwhiten(white)
        log_ratio = self.q.log_ratio_of_deviation(delta) + self._turns.log_ratios(delta)
        return LatentDraws(self.q.mean[:, None] + delta, log_ratio)

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        delta = f - self.q.mean[:, None]
        return np.asarray(self.q.log_ratio_of_deviation(delta) + self._turns.log_ratios(delta))

    @cached_property
    def _turns(self) -> _Turns:
        return _Turns.of(self.q, self.observed, self.rows)


class _Turns(NamedTuple):
    """The rows in turn: under q, ``f = mean + R u`` with R lower and u ~ N(0, I).

    Given the rows before, f_k has a Gaussian cavity: what q says without the site of the row. Then
    ``z = (mean + offset) / (s scale)`` with the mean of the cavity and scale^2 = 1 + its variance,
    affine in those before; Z_k is proportional to Phi(z). All but the first four of shape (r, 1).
    """

    rows: IntArray  # (r,)
    directions: FloatArray  # (n, r), of u among the whitened draws of q; orthonormal
    inverse: FloatArray  # (r, r), of R
    coupling: FloatArray  # (r, r), of u in z; strictly lower
    constant: FloatArray  # of z
    signed_scale: FloatArray
    cavity: FloatArray  # its variance
    spread: FloatArray  # standard deviation given the rows before, under q
    offset: FloatArray  # added to f
    shift: FloatArray  # of the site
    mean: FloatArray  # of f + offset under q

    @classmethod
    def of(cls, q: GaussianApproximation, observed: Observations, rows: IntArray) -> Self:
        """Prepare them; rows that those before determine are left out."""
        half = q.prior.half_given(q.chol_white, rows)
        gram = half.T @ half
        gram.flat[:: len(gram) + 1] *= 1.0 + _JITTER
        factor = _factor(gram)
        free = factor.diagonal() ** 2 > _DETERMINED * gram.diagonal()
        if not free.all():
            rows, half, factor = rows[free], half[:, free], _factor(gram[np.ix_(free, free)])
        inverse, _ = lapack.dtrtri(factor, lower=1)
        spread = factor.diagonal()
        shift, precision = (part[rows] for part in q.sites)
        offset = np.zeros(len(rows)) if observed.offset is None else observed.offset[rows]
        signs = observed.probit_signs()
        if signs is None:
            raise ValueError(
                f"p(y | f) of the {observed.likelihood.name} likelihood is no Phi(s f)."
            )
        # No cavity is wider than the prior; rounding must not say so.
        cavity = 1.0 / np.maximum(spread**-2 - precision, 1.0 / q.prior.variance[rows])
        wider, scale = cavity / spread**2, signs[rows] * np.sqrt(1.0 + cavity)
        mean = q.mean[rows]
        coupling = np.tril(factor, -1) * (wider / scale)[:, None]
        constant = (wider * mean - cavity * shift + offset) / scale
        columns = (constant, scale, cavity, spread, offset, shift, mean + offset)
        return cls(rows, half @ inverse.T, inverse, coupling, *(c[:, None] for c in columns))

    def first(self, count: int) -> Self:
        """Return the first ones, so many at most."""
        square = (self.inverse[:count, :count], self.coupling[:count, :count])
        columns = (column[:count] for column in self[4:])
        return type(self)(self.rows[:count], self.directions[:, :count], *square, *columns)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Draw u, (r, size): f_k from Phi(s (f_k + offset)) times its cavity, k in turn.

        With e ~ N(0, 1), s (f_k + offset + e) > 0 is a Gaussian that is cut at zero.
        """
        closer = 1.0 - self.spread**2 / self.cavity
        log_uniform = -rng.standard_exponential((len(self.rows), size))
        normal = rng.standard_normal(log_uniform.shape)
        u = np.sqrt(self.cavity) / abs(self.signed_scale) * normal
        u = (u - self.offset * closer - self.shift * self.spread**2) / self.spread
        of_z = (self.signed_scale * closer / self.spread).ravel().tolist()
        of_cut = (self.cavity / (self.signed_scale * self.spread)).ravel().tolist()
        constant = self.constant.ravel().tolist()
        for k, row in enumerate(self.coupling):
            z = row[:k].dot(u[:k])
            z += constant[k]
            cut = log_ndtr(z)
            cut += log_uniform[k]
            cut = ndtri_exp(cut, out=cut)
            cut *= of_cut[k]
            z *= of_z[k]
            z -= cut
            u[k] += z
        return u

    def log_ratios(self, delta: FloatArray) -> FloatArray:
        """Log of what the turns make of the density of q, at f = mean + delta (n, m); (m,)."""
        deviation = delta[self.rows]
        u = self.inverse @ deviation
        z = self.coupling @ u + self.constant
        f = self.mean + deviation  # with the offset
        off = (f - self.signed_scale * z) ** 2 / self.cavity + np.log(self.cavity / self.spread**2)
        own = log_ndtr(np.copysign(f, f * self.signed_scale)) - log_ndtr(z)
        return np.asarray((own + 0.5 * (u * u - off)).sum(axis=0))


def _factor(gram: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a small matrix, which counts for nothing beside those of n rows."""
    factor, info = lapack.dpotrf(gram, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"Cholesky factorization failed at pivot {info}")
    return np.asarray(factor)
