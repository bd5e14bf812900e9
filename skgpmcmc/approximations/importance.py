"""The unbiased importance-sampling estimate of p(y | theta), and a density for it.

Where the latent variance is large, the likelihood of a row near the border of a class acts like a
bound on f, and no Gaussian is near p(f | y, theta). The values of such rows can be drawn in turn,
from the Gaussian given those before, with the likelihood of this very row in the place of its site.
The sites of rows still to come stay Gaussian: by them a draw knows of what lies ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import lapack
from scipy.special import log_ndtr, ndtri_exp

from .._typing import BoolArray, FloatArray, IntArray
from ..model import LatentGP, Observations
from ..numerics.linalg import NotPositiveDefiniteError, log_mean, solve_lower
from ..numerics.threads import Asked, Asking, alone, side_by_side
from .base import GaussianApproximation, LatentDraws

#: Added to the covariance of the values that are drawn in turn, relative to each variance: above
#: what rounding takes away.
_ROUNDING = 1e-12
#: Values that those before leave less than this share of their variance are not drawn in turn; to
#: what is left that does not matter.
_DETERMINED = 1e-6
#: Rows in turn of which each is brought up to date after every draw of another; of more, by blocks.
_IN_TURN = 32


class Density(Protocol):
    """A density of f at one theta that can be drawn from, near p(f | y, theta)."""

    @property
    def q(self) -> GaussianApproximation:
        """The Gaussian it is made of; itself if it is Gaussian."""

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Arrays of shape (n,) that make it again, with the prior; see `density_from`."""

    def made(self) -> Density:
        """Return itself, all factors made now: this is where a K that is no covariance shows."""

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log density relative to N(f; 0, K) for each column of f of shape (n, m); (m,)."""


class ReferenceDensity(Protocol):
    """Gives an importance density at any theta, a deterministic function of (model, theta)."""

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""


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
        return ImportanceEstimate(log_mean(log_weights), particles, log_weights)


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
    return alone(estimating(model, density, n_draws, rng, defensive=defensive, retained=retained))


def estimating(
    model: LatentGP,
    density: Density,
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float = 0.0,
    retained: FloatArray | None = None,
) -> Asking[ImportanceEstimate]:
    """Make an `importance_estimate`, in step with others."""
    own = rng.uniform(size=n_draws) >= defensive  # the others come from the prior
    if retained is not None:
        own[0] = False
    if isinstance(density, SequentialApproximation):
        particles, delta = yield from density.drawing(own, rng, retained)
        (log_ratio,) = yield from density.comparing(delta)
    else:
        particles, log_ratio = _drawn(density, own, rng, retained)
    totals = model.observations_at(density.q.prior.theta).totals(particles)
    log_weights = totals - mixed(log_ratio, defensive)
    return ImportanceEstimate(log_mean(log_weights), particles, log_weights)


def _drawn(
    density: Density, own: BoolArray, rng: np.random.Generator, retained: FloatArray | None
) -> LatentDraws:
    """Draw f from the density where the mask says so, and from the prior elsewhere."""
    if own.all():
        return density.sample(rng, len(own))
    f, log_ratio = np.empty((density.q.prior.size, len(own)), order="F"), np.empty(len(own))
    if own.any():
        f[:, own], log_ratio[own] = density.sample(rng, int(own.sum()))
    others = density.q.prior.sample(rng, int((~own).sum()))
    if retained is not None:
        others[:, 0] = retained
    f[:, ~own], log_ratio[~own] = others, density.log_ratio_to_prior(others)
    return LatentDraws(f, log_ratio)


def log_importance_weights(
    model: LatentGP, density: Density, f: FloatArray, *, defensive: float = 0.0
) -> FloatArray:
    """``log [p(y | f) N(f; 0, K) / g(f)]`` for each column of f of shape (n, N); (N,).

    With `defensive` = c the denominator is the mixture (1 - c) g + c N(0, K).
    """
    return alone(weighing(model, density, f, defensive))


def weighing(
    model: LatentGP, density: Density, f: FloatArray, defensive: float
) -> Asking[FloatArray]:
    """Compute `log_importance_weights`, in step with others."""
    if isinstance(density, SequentialApproximation):
        (log_ratio,) = yield from density.comparing(f - density.q.mean[:, None])
    else:
        log_ratio = density.log_ratio_to_prior(f)
    totals = model.observations_at(density.q.prior.theta).totals(f)
    return totals - mixed(log_ratio, defensive)


def log_ratios(densities: Sequence[Density], f: FloatArray) -> FloatArray:
    """Compute `log_ratio_to_prior` of some densities at f of shape (n, m); (k, m).

    Those with rows of one q in turn are `of_first` of the one with most, and take no more time.
    """
    found = np.empty((len(densities), f.shape[1]))
    in_turn = [d for d in densities if isinstance(d, SequentialApproximation)]
    whole = max(in_turn, key=lambda d: len(d.rows), default=None)
    nested = [whole is not None and d.q is whole.q for d in densities]
    if whole is not None:
        counts = [len(d.rows) if d in in_turn else 0 for d in densities if d.q is whole.q]
        found[nested] = alone(whole.comparing(f - whole.q.mean[:, None], counts))
    for row, density, known in zip(found, densities, nested, strict=True):
        if not known:
            row[:] = density.log_ratio_to_prior(f)
    return found


def mixed(log_ratio: FloatArray, defensive: float) -> FloatArray:
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
        """See `Density`."""
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
        vars(fewer)["_turns"] = self._turns.first(count)  # nothing to be factored
        return fewer

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        f, delta = alone(self.drawing(np.full(size, True), rng))
        (log_ratio,) = alone(self.comparing(delta))
        return LatentDraws(f, log_ratio)

    def drawing(
        self, own: BoolArray, rng: np.random.Generator, retained: FloatArray | None = None
    ) -> Asking[tuple[FloatArray, FloatArray]]:
        """Draw f where the mask says so, and from the prior elsewhere, in step with others.

        Returns f and f - mean, each of shape (n, N).
        """
        turns, mean = self._turns, self.q.mean[:, None]
        delta = np.zeros((len(mean), len(own)), order="F")
        if own.any():
            shape = int(own.sum()), self.q.prior.rank
            white = np.asfortranarray(rng.standard_normal(shape).T)
            u = yield Asked(_drawn_in_turn, (turns, rng, white.shape[1]), len(turns.rows))
            white += turns.directions @ (u - turns.directions.T @ white)
            white = solve_lower(self.q.chol_white, white, transpose=True, overwrite=True)
            delta[:, own] = self.q.prior.unwhiten(white)
        f = mean + delta
        if not own.all():
            others = self.q.prior.sample(rng, int((~own).sum()))
            if retained is not None:
                others[:, 0] = retained
            f[:, ~own], delta[:, ~own] = others, others - mean
        return f, delta

    def comparing(
        self, delta: FloatArray, counts: Sequence[int] | None = None
    ) -> Asking[FloatArray]:
        """Compute `log_ratio_to_prior` of what `of_first` makes with each count; (k, m).

        Without counts, of itself.
        """
        counts = [len(self.rows)] if counts is None else counts
        counts = [self._turns.n_first(count) for count in counts]
        of_turns = yield Asked(_log_ratios, (self._turns, delta, counts), len(self._turns.rows))
        return np.asarray(self.q.log_ratio_of_deviation(delta) + of_turns)

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        (log_ratio,) = alone(self.comparing(f - self.q.mean[:, None]))
        return np.asarray(log_ratio)

    @cached_property
    def _turns(self) -> _Turns:
        return _Turns.of(self.q, self.observed, self.rows)


class _Turns(NamedTuple):
    """The rows in turn: under q, ``f = mean + R u`` with R lower and u ~ N(0, I).

    Given the rows before, f_k has a Gaussian cavity: what q says without the site of the row. Then
    ``z = (mean + offset) / (s scale)`` with the mean of the cavity and scale^2 = 1 + its variance,
    affine in those before; Z_k is proportional to Phi(z).
    """

    rows: IntArray  # (r,)
    turn: IntArray  # (r,), counted with those that are left out
    directions: FloatArray  # (rank of K, r), of u among the whitened draws of q; orthonormal
    inverse: FloatArray  # (r, r), of R
    coupling: FloatArray  # (r, r), of u in z; strictly lower
    #: For each row the constant of z, its scale with the sign s, the variance of the cavity, the
    #: standard deviation given the rows before under q, the offset, the shift of the site, and the
    #: mean of f + offset under q.
    values: FloatArray  # (7, r)

    @classmethod
    def of(cls, q: GaussianApproximation, observed: Observations, rows: IntArray) -> Self:
        """Prepare them; rows that those before determine are left out."""
        half = q.prior.half_given(q.chol_white, rows)
        gram = half.T @ half
        gram.flat[:: len(gram) + 1] *= 1.0 + _ROUNDING
        factor = _factor(gram)
        free = factor.diagonal() ** 2 > _DETERMINED * gram.diagonal()
        turn = np.flatnonzero(free)
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
        coupling = factor * (wider / scale)[:, None]
        coupling.flat[:: len(coupling) + 1] = 0.0
        constant = (wider * mean - cavity * shift + offset) / scale
        values = (constant, scale, cavity, spread, offset, shift, mean + offset)
        return cls(rows, turn, half @ inverse.T, inverse, coupling, np.array(values))

    def first(self, count: int) -> Self:
        """Return those among the first `count` turns."""
        k = slice(self.n_first(count))
        square = self.inverse[k, k], self.coupling[k, k]
        rows, turn = self.rows[k], self.turn[k]
        return type(self)(rows, turn, self.directions[:, k], *square, self.values[:, k])

    def n_first(self, count: int) -> int:
        """Return how many of the first `count` turns there are."""
        return int(np.searchsorted(self.turn, count))


def _values(several: Sequence[_Turns]) -> FloatArray:
    """What turns with equally many rows have for each of these, by quantity; (7, r, C, 1)."""
    return np.stack([turns.values for turns in several], axis=-1)[..., None]


def _drawn_in_turn(jobs: Sequence[tuple[_Turns, np.random.Generator, int]]) -> list[FloatArray]:
    """Draw u, (r, size), for each job: f_k from Phi(s (f_k + offset)) times its cavity, k in turn.

    With e ~ N(0, 1), s (f_k + offset + e) > 0 is a Gaussian that is cut at zero. A job is turns, a
    stream, and the size.
    """
    several, rngs, sizes = zip(*jobs, strict=True)
    n_rows = len(several[0].rows)
    streams = list(zip(rngs, sizes, strict=True))
    log_uniform = -side_by_side([r.standard_exponential((n_rows, m)) for r, m in streams])
    u = side_by_side([r.standard_normal((n_rows, m)) for r, m in streams])
    constant, signed_scale, cavity, spread, offset, shift, _ = _values(several)
    closer = 1.0 - spread**2 / cavity
    u = u * (np.sqrt(cavity) / (abs(signed_scale) * spread))
    u -= (offset * closer + shift * spread**2) / spread
    of_z, of_cut = signed_scale * closer / spread, cavity / (signed_scale * spread)
    # In the place of k: z, and u but for the cut; what comes later in turn is brought up to date.
    z = np.stack([np.broadcast_to(constant, u.shape), u + of_z * constant])
    coupling = np.stack([turns.coupling for turns in several], axis=-1)
    coupling = np.stack([coupling, of_z[..., 0][:, None] * coupling])[..., None]
    cut = np.empty(u.shape[1:])
    for begin in range(0, n_rows, _IN_TURN):
        some = slice(begin, min(begin + _IN_TURN, n_rows))
        for i, size in enumerate(sizes if begin else ()):
            # Each by itself and contiguous: how a product is rounded depends on its memory.
            own = np.ascontiguousarray(u[:begin, i, :size])
            before = several[i].coupling[some, :begin] @ own
            z[0, some, i, :size] += before
            z[1, some, i, :size] += of_z[some, i] * before
        of_rows = zip(*(part[some] for part in (z[0], z[1], log_uniform, of_cut, u)), strict=True)
        for k, (own_z, uncut, log_share, scale, own_u) in enumerate(of_rows, begin + 1):
            log_ndtr(own_z, out=cut)
            cut += log_share
            ndtri_exp(cut, out=cut)
            cut *= scale
            np.subtract(uncut, cut, out=own_u)
            z[:, k : some.stop] += coupling[:, k : some.stop, k - 1] * own_u
    return [u[:, i, :size] for i, size in enumerate(sizes)]


def _log_ratios(jobs: Sequence[tuple[_Turns, FloatArray, Sequence[int]]]) -> list[FloatArray]:
    """Log of what turns make of the density of q, at f = mean + delta (n, m).

    A job is turns, delta, and some counts of those that are made; its result is (counts, m).
    """
    several, deltas, counts = zip(*jobs, strict=True)
    parts = [delta[turns.rows] for turns, delta in zip(several, deltas, strict=True)]
    drawn = [turns.inverse @ part for turns, part in zip(several, parts, strict=True)]
    of_u = [turns.coupling @ part for turns, part in zip(several, drawn, strict=True)]
    constant, signed_scale, cavity, spread, _, _, mean = _values(several)
    u, z, f = side_by_side(drawn), side_by_side(of_u) + constant, side_by_side(parts) + mean
    off = (f - signed_scale * z) ** 2 / cavity + np.log(cavity / spread**2)
    log_ratio = log_ndtr(np.copysign(f, f * signed_scale)) - log_ndtr(z) + 0.5 * (u * u - off)
    # Sums of each by itself: the order in which numbers are added depends on the shape.
    each = [log_ratio[:, i, : part.shape[1]] for i, part in enumerate(parts)]
    pairs = zip(each, counts, strict=True)
    return [np.array([part[:count].sum(axis=0) for count in own]) for part, own in pairs]


def _factor(gram: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a small matrix, which counts for nothing beside those of n rows."""
    factor, info = lapack.dpotrf(gram, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"Cholesky factorization failed at pivot {info}")
    return np.asarray(factor)
