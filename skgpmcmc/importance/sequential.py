"""An importance density that draws the latent values of some rows sequentially.

Where the latent variance is large, the likelihood of a row near the border of a class acts like a
bound on f, and no Gaussian is near p(f | y, theta). The latent values of such rows can be drawn
sequentially (sequential importance sampling): each from the Gaussian given the values drawn before,
with the likelihood of the row in the place of its site. The rows that are drawn later keep their
Gaussian sites, so that a draw takes the data of these rows into account.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import lapack
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from .._caches import ForgetsCaches
from .._typing import FloatArray, IntArray
from ..approximations.base import GaussianApproximation, LatentDraws
from ..model.observations import Observations
from ..numerics.linalg import NotPositiveDefiniteError, solve_lower

#: Jitter on the covariance of sequential rows, as a share of each variance: larger than rounding.
_VARIANCE_ROUNDING = 1e-12
#: Least share of its variance that earlier rows leave a sequential row; less makes no difference.
_DETERMINED = 1e-6
#: Sequential rows per block with a closed form: each row conditions on all rows before it.
_PROBIT_BLOCK = 1
#: Sequential rows per block with tables: rows of a block ignore each other, which saves calls.
_TABLE_BLOCK = 8
#: Ends between the bins of a sequential value, in standard deviations given the rows before.
_ENDS = np.linspace(-4.5, 4.5, 31)
#: Gaussian probability of all bins below each bin.
_BELOW = np.concatenate([[0.0], ndtr(_ENDS)])
#: Gaussian probability of each bin.
_BIN_PROBABILITY = np.diff(_BELOW, append=1.0)
#: Value at which the likelihood of each bin is looked up, in the same standard deviations.
_MIDDLE = np.concatenate([_ENDS[:1], 0.5 * (_ENDS[1:] + _ENDS[:-1]), _ENDS[-1:]])
#: Width of the cells of a table, in standard deviations of the margin: finer than a bin.
_CELL_WIDTH = 0.125
#: Number of cells of a table: nine standard deviations on either side of the mean.
_N_CELLS = 144
#: Largest distance of the bins' center from the margin's mean, in sd: bins stay in the table.
_FARTHEST_BIN = 4.0
#: Bin masses that are computed in one call: a megabyte of doubles.
_MASSES_PER_CALL = 2**17
#: Largest fall of log(likelihood / site) below its maximum in a table, in nats: exp stays > 0.
_DEEPEST = 500.0


@dataclass(frozen=True, eq=False)
class SequentialApproximation(ForgetsCaches):
    """Law of f: a Gaussian q, except that rows i_1, ..., i_r are drawn sequentially.

    With t the likelihood of a row and t~ its site in q, the density is
    ``g(f) = q(f) prod_k [t(f_k) / t~(f_k)] / Z_k``, where Z_k is the mean of t / t~ under
    q(f_k | f_<k). The importance weight depends on the sequential rows only by the Z_k, which vary
    little. For a likelihood Phi(s f) the draws and Z_k have a closed form. Any other t / t~ is
    replaced by a function that is constant within bins of f_k, and rows are drawn in blocks, each
    given the blocks before. The importance weight corrects for both simplifications exactly.

    Attributes
    ----------
    q : GaussianApproximation
        A whitened one.
    observed : Observations
        p(y | f) of all rows, each with one latent value.
    rows : ndarray of shape (r,)
        Positions of the sequential rows in the order of drawing, the least Gaussian row first.

    References
    ----------
    Keane (1994), A computationally practical simulation estimator for panel data, Econometrica
    62(1), for q the prior. Botev (2017), The normal law under linear restrictions, JRSS B 79(1),
    for draws that look ahead by exponential tilting; here, by the sites.
    """

    q: GaussianApproximation
    observed: Observations
    rows: IntArray

    def factorize(self) -> Self:
        """See `Density`."""
        _ = self.q.factorize(), self._sequential
        return self

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """The sites, and the rank of every row in the order of drawing from 1; 0 if not sequential.

        `make_density` makes the density from them.
        """
        return (*self.q.sites, rank_rows(len(self.q.sites.shift), self.rows))

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        return draw_many([self], [rng], [size])[0]

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        return log_ratio_many([self], [f])[0]

    def _log_ratio(self, delta: FloatArray, sequential_log_ratio: FloatArray) -> FloatArray:
        return np.asarray(self.q.log_ratio_of_deviation(delta) + sequential_log_ratio)

    @cached_property
    def _sequential(self) -> _SequentialRows:
        """Factors of q at the rows; rows that the rows before determine are left out."""
        q = self.q
        rows = self.rows
        half = q.prior.half_given(q.chol_white, rows)
        gram = half.T @ half
        gram.flat[:: len(gram) + 1] *= 1.0 + _VARIANCE_ROUNDING
        factor = _factorize_gram(gram)
        free = factor.diagonal() ** 2 > _DETERMINED * gram.diagonal()
        if not free.all():
            rows = rows[free]
            half = half[:, free]
            gram = gram[np.ix_(free, free)]
            factor = _factorize_gram(gram)
        inverse, _ = lapack.dtrtri(factor, lower=1)
        spread = factor.diagonal()
        factors = _ProbitFactors.of(q, self.observed, rows, spread) or _TabulatedFactors.of(
            q, self.observed.of_inputs(rows), rows, spread, np.sqrt(gram.diagonal())
        )
        size = _PROBIT_BLOCK if isinstance(factors, _ProbitFactors) else _TABLE_BLOCK
        block = np.arange(len(rows)) // size
        coupling = np.where(block[:, None] > block, factor / spread[:, None], 0.0)
        return _SequentialRows(rows, half @ inverse.T, inverse, coupling, factors, size)


def choose_sequential_rows(skewness: FloatArray, noise: float) -> IntArray:
    """Choose the rows whose latent values are drawn sequentially, the least Gaussian row first.

    To leading order, a margin of skewness g that is replaced by a Gaussian adds ``g^2 / 6`` to the
    relative variance of an importance weight. Rows become sequential until the sum over the other
    rows, with their mean absolute skewness, is below the square of the noise.

    Parameters
    ----------
    skewness : ndarray of shape (D, n)
        Skewness of the tilted distribution of every row, at D values of theta.
    noise : float
        Wanted standard deviation of the log-likelihood estimate.
    """
    mean = np.mean(np.abs(skewness), axis=0)
    order = np.argsort(-mean, kind="stable")
    rest = np.cumsum(mean[order[::-1]] ** 2)[::-1] / 6.0  # sum over a row and all later rows
    return order[: np.count_nonzero(rest > noise**2)]


def rank_rows(n: int, sequential_rows: IntArray) -> FloatArray:
    """Return the rank of each of n rows in the order of drawing, from 1; 0 if not sequential."""
    rank = np.zeros(n)
    rank[sequential_rows] = np.arange(len(sequential_rows)) + 1.0
    return rank


def draw_many(
    densities: Sequence[Any], rngs: Sequence[np.random.Generator], sizes: Sequence[int]
) -> list[LatentDraws]:
    """Draw f from each of several densities; bit for bit the draws of its `sample`.

    Densities with equally many sequential rows draw these rows in one call.
    """
    drawn = [LatentDraws(np.empty((d.q.prior.size, 0)), np.empty(0)) for d in densities]
    for group in _group_alike(densities, sizes):
        own = [densities[i] for i in group]
        if not isinstance(own[0], SequentialApproximation):
            (i,) = group
            drawn[i] = own[0].sample(rngs[i], sizes[i])
            continue
        streams = [rngs[i] for i in group]
        counts = [sizes[i] for i in group]
        whites = [
            np.asfortranarray(rng.standard_normal((size, density.q.prior.rank)).T)
            for density, rng, size in zip(own, streams, counts, strict=True)
        ]
        several = [density._sequential for density in own]
        found = several[0].factors.draw(several, streams, counts)
        for i, white, (u, of_sequential) in zip(group, whites, found, strict=True):
            q = densities[i].q
            directions = densities[i]._sequential.directions
            white += directions @ (u - directions.T @ white)
            white = solve_lower(q.chol_white, white, transpose=True, overwrite=True)
            delta = q.prior.unwhiten(white)
            log_ratio = densities[i]._log_ratio(delta, of_sequential)
            drawn[i] = LatentDraws(q.mean[:, None] + delta, log_ratio)
    return drawn


def log_ratio_many(densities: Sequence[Any], fs: Sequence[FloatArray]) -> list[FloatArray]:
    """Compute bit for bit the `log_ratio_to_prior` of several densities, each with an f (n, m)."""
    ratios = [np.empty(0) for _ in densities]
    for group in _group_alike(densities, [f.shape[1] for f in fs]):
        own = [densities[i] for i in group]
        if not isinstance(own[0], SequentialApproximation):
            (i,) = group
            ratios[i] = own[0].log_ratio_to_prior(fs[i])
            continue
        deltas = [fs[i] - densities[i].q.mean[:, None] for i in group]
        several = [density._sequential for density in own]
        found = several[0].factors.log_ratios(several, deltas)
        for i, delta, of_sequential in zip(group, deltas, found, strict=True):
            ratios[i] = densities[i]._log_ratio(delta, of_sequential)
    return ratios


def _group_alike(densities: Sequence[Any], sizes: Sequence[int]) -> list[list[int]]:
    """Group the positions of densities that one call can handle, without densities of size 0."""
    groups: dict[Any, list[int]] = {}
    for i, (density, size) in enumerate(zip(densities, sizes, strict=True)):
        key: Any = i
        if isinstance(density, SequentialApproximation):
            sequential = density._sequential
            key = (type(sequential.factors), len(sequential.rows))
        if size:
            groups.setdefault(key, []).append(i)
    return list(groups.values())


def _pad_and_stack(parts: Sequence[FloatArray]) -> FloatArray:
    """Stack C matrices (r, m) of any m, padded with zeros; (r, C, the largest m)."""
    if len(parts) == 1:
        return parts[0][:, None]
    whole = np.zeros((len(parts[0]), len(parts), max(part.shape[1] for part in parts)))
    for i, part in enumerate(parts):
        whole[:, i, : part.shape[1]] = part
    return whole


class _SequentialRows(NamedTuple):
    """Sequential rows in innovations: under q, ``f = mean + R u`` with R lower and u ~ N(0, I).

    Given the rows of all blocks before, f_k has the mean ``mean_k + R_kk y_k``, where y is
    `coupling` times u. A draw of row k uses ``f_k = mean_k + R_kk (y_k + u_k)``, which ignores the
    rows before it in its own block.
    """

    rows: IntArray  # (r,)
    directions: FloatArray  # (rank of K, r), orthonormal: u as whitened draws of q
    inverse: FloatArray  # (r, r), of R
    coupling: FloatArray  # (r, r); lower, and zero within blocks
    factors: _ProbitFactors | _TabulatedFactors  # t / t~ of every row
    block: int  # number of rows that are drawn at once


#: Innovations u (r, size), and log prod_k [t / t~] / Z_k of each draw, (size,).
_SequentialDraws = tuple[FloatArray, FloatArray]


class _ProbitFactors(NamedTuple):
    """The factors t / t~ for likelihoods Phi(s (f + offset)), where s is a sign.

    Given the rows before, f_k has a Gaussian cavity distribution, which is q without the site of
    the row. With the mean of the cavity, and scale^2 = 1 + its variance,
    ``z = (mean + offset) / (s scale)`` is affine in y, and Z_k is proportional to Phi(z).
    """

    constant: FloatArray  # (r,), of z
    slope: FloatArray  # (r,), of z in y
    signed_scale: FloatArray  # (r,)
    cavity: FloatArray  # (r,), variance
    spread: FloatArray  # (r,), R_kk
    offset: FloatArray  # (r,)
    shift: FloatArray  # (r,), of the site
    mean: FloatArray  # (r,), of f + offset under q

    @classmethod
    def of(
        cls, q: GaussianApproximation, observed: Observations, rows: IntArray, spread: FloatArray
    ) -> Self | None:
        """Return the factors of some rows; None if p(y | f) of a row is no Phi(s f)."""
        signs = observed.probit_signs()
        if signs is None:
            return None
        shift, precision = (part[rows] for part in q.sites)
        offset = np.zeros(len(rows)) if observed.offset is None else observed.offset[rows]
        # Rounding must not make a cavity wider than the prior.
        cavity = 1.0 / np.maximum(spread**-2 - precision, 1.0 / q.prior.variance[rows])
        wider = cavity / spread**2
        scale = signs[rows] * np.sqrt(1.0 + cavity)
        mean = q.mean[rows]
        constant = (wider * mean - cavity * shift + offset) / scale
        slope = wider * spread / scale
        return cls(constant, slope, scale, cavity, spread, offset, shift, mean + offset)

    @staticmethod
    def draw(
        several: Sequence[_SequentialRows],
        rngs: Sequence[np.random.Generator],
        sizes: Sequence[int],
    ) -> list[_SequentialDraws]:
        """Draw f_k from Phi(s (f_k + offset)) times its cavity.

        With e ~ N(0, 1), the sum s (f_k + offset + e) is a Gaussian truncated to positive values.
        """
        n_rows = len(several[0].rows)
        streams = list(zip(rngs, sizes, strict=True))
        log_uniform = -_pad_and_stack([r.standard_exponential((n_rows, m)) for r, m in streams])
        noise = _pad_and_stack([r.standard_normal((n_rows, m)) for r, m in streams])
        values = _stack_factors(several)
        constant, slope, signed_scale, cavity, spread, offset, shift, _ = values
        closer = 1.0 - spread**2 / cavity
        noise *= np.sqrt(cavity) / (abs(signed_scale) * spread)
        noise -= (offset * closer + shift * spread**2) / spread
        of_z = signed_scale * closer / spread
        of_cut = cavity / (signed_scale * spread)

        def draw(rows: slice, y: FloatArray) -> FloatArray:
            z = constant[rows] + slope[rows] * y
            cut = ndtri_exp(log_ndtr(z) + log_uniform[rows])
            return np.asarray(noise[rows] + of_z[rows] * z - of_cut[rows] * cut)

        u, y = _draw_sequentially(several, sizes, draw)
        return _split_draws(u, _log_probit_ratio(values, u, y), sizes)

    @staticmethod
    def log_ratios(
        several: Sequence[_SequentialRows], deltas: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Log of prod_k [t / t~] / Z_k at each f = mean + delta of each density; (m,)."""
        u, y, sizes = _find_coordinates(several, deltas)
        log_ratio = _log_probit_ratio(_stack_factors(several), u, y)
        return [part for _, part in _split_draws(u, log_ratio, sizes)]


def _log_probit_ratio(values: Sequence[FloatArray], u: FloatArray, y: FloatArray) -> FloatArray:
    """Log of ``Phi(s f) N(f; cavity) / (Phi(z) N(u; 0, 1) / R_kk)``, f including its offset."""
    constant, slope, signed_scale, cavity, spread, _, _, mean = values
    z = constant + slope * y
    f = mean + spread * (y + u)
    off = (f - signed_scale * z) ** 2 / cavity + np.log(cavity / spread**2)
    return log_ndtr(np.copysign(f, f * signed_scale)) - log_ndtr(z) + 0.5 * (u * u - off)


class _TabulatedFactors(NamedTuple):
    """The factors t / t~ for any likelihood, constant within bins of u_k.

    A draw chooses a bin, and is Gaussian within the bin. The value of t / t~ for a bin is looked up
    at the bin's middle, in a table that all draws share.
    """

    heights: FloatArray  # (r, number of cells), relative to the largest
    share: FloatArray  # (r,), R_kk in standard deviations of the margin of f_k

    @classmethod
    def of(
        cls,
        q: GaussianApproximation,
        observed: Observations,
        rows: IntArray,
        spread: FloatArray,
        sd: FloatArray,
    ) -> Self:
        """Tabulate t / t~ of some rows around the means of q; `sd` is that of their margins."""
        middle = _CELL_WIDTH * (np.arange(_N_CELLS) + 0.5 - 0.5 * _N_CELLS)
        away = sd[:, None] * middle
        with np.errstate(over="ignore", invalid="ignore"):
            log_prob = observed.by_input(q.mean[rows][:, None] + away)
            height = log_prob - away * (
                q.weights[rows][:, None] - 0.5 * q.precision[rows][:, None] * away
            )
            height -= np.max(height, axis=1, where=height < np.inf, initial=-np.inf, keepdims=True)
        deep = ~(height > -_DEEPEST)  # also true for NaN
        return cls(np.exp(np.where(deep, -_DEEPEST, height)), spread / sd)

    @staticmethod
    def draw(
        several: Sequence[_SequentialRows],
        rngs: Sequence[np.random.Generator],
        sizes: Sequence[int],
    ) -> list[_SequentialDraws]:
        """Draw the bin of u_k first, and then u_k within the bin."""
        n_rows = len(several[0].rows)
        streams = zip(rngs, sizes, strict=True)
        uniform = _pad_and_stack([r.uniform(size=(n_rows, m)) for r, m in streams])
        mass_at = _make_mass_function(several)
        ratio = np.empty(uniform.shape)

        def draw(rows: slice, y: FloatArray) -> FloatArray:
            mass = mass_at(rows, y)
            ends = np.stack([*accumulate(mass)])  # several times as fast as `cumsum`
            total = ends[-1]
            target = uniform[rows] * total
            bins = (ends[:-1] <= target).view(np.int8).sum(axis=0, dtype=np.int8).astype(np.intp)
            place = bins * bins.size + np.arange(bins.size).reshape(bins.shape)
            own = mass.take(place)
            share = _BIN_PROBABILITY.take(bins)
            within = np.maximum(1.0 - (ends.take(place) - target) / own, 0.0)
            below = _BELOW.take(bins) + share * within
            ratio[rows] = own / (share * total)
            return np.asarray(ndtri(np.minimum(np.maximum(below, 1e-300), 1.0 - 1e-16)))

        u, _ = _draw_sequentially(several, sizes, draw)
        return _split_draws(u, np.log(ratio), sizes)

    @staticmethod
    def log_ratios(
        several: Sequence[_SequentialRows], deltas: Sequence[FloatArray]
    ) -> list[FloatArray]:
        """Log of prod_k [t / t~] / Z_k at each f = mean + delta of each density; (m,)."""
        u, y, sizes = _find_coordinates(several, deltas)
        mass_at = _make_mass_function(several)
        ratio = np.empty(u.shape)
        bins = np.searchsorted(_ENDS, u, side="right")
        n_at_once = max(_MASSES_PER_CALL // (len(_BIN_PROBABILITY) * u[0].size), 1)
        for begin in range(0, len(u), n_at_once):
            some = slice(begin, begin + n_at_once)
            mass = mass_at(some, y[some])
            own = bins[some]
            total = sum(
                mass[1:], start=mass[0]
            )  # np.sum would add in an order that depends on the shape
            ratio[some] = np.take_along_axis(mass, own[None], axis=0)[0] / (
                _BIN_PROBABILITY[own] * total
            )
        return [part for _, part in _split_draws(u, np.log(ratio), sizes)]


def _make_mass_function(
    several: Sequence[_SequentialRows],
) -> Callable[[Any, FloatArray], FloatArray]:
    """Make the function that computes the mass of each bin, for some rows and their y (..., C, m).

    The result of the function has the shape (number of bins, ..., C, m).
    """
    heights, share = _stack_factors(several)
    table = np.moveaxis(heights, 1, 2).ravel()
    per_cell = share / _CELL_WIDTH
    farthest = _FARTHEST_BIN / _CELL_WIDTH
    begin = _N_CELLS * (np.arange(share.size).reshape(share.shape) + 0.5)
    # Position of the middle of each bin in the table, at y = 0.
    place = np.multiply.outer(_MIDDLE, per_cell) + begin

    def mass_at(rows: Any, y: FloatArray) -> FloatArray:
        away = np.minimum(np.maximum(y * per_cell[rows], -farthest), farthest)
        mass = table.take((place[:, rows] + away).astype(np.int32))
        mass *= _BIN_PROBABILITY.reshape(-1, *(1 for _ in y.shape))
        return mass

    return mass_at


def _stack_factors(several: Sequence[_SequentialRows]) -> list[FloatArray]:
    """Stack each field of the factors of several densities; each (r, ..., C, 1)."""
    parts = zip(*(sequential.factors for sequential in several), strict=True)
    return [np.stack(part, axis=-1)[..., None] for part in parts]


def _draw_sequentially(
    several: Sequence[_SequentialRows],
    sizes: Sequence[int],
    draw: Callable[[slice, FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Draw u, and compute y, each (r, C, m), block after block.

    Parameters
    ----------
    several : sequence of _SequentialRows
        Sequential rows of C densities, equally many in each.
    sizes : sequence of int
        Number of draws from each density; m is the largest.
    draw : callable
        Returns u of some rows, for a slice of rows and their y.
    """
    n_rows = len(several[0].rows)
    # One contiguous array per density: the rounding of a product depends on the memory layout.
    drawn = [np.empty((n_rows, size)) for size in sizes]
    y = np.zeros((n_rows, len(sizes), max(sizes)))
    for begin in range(0, n_rows, several[0].block):
        some = slice(begin, begin + several[0].block)
        for i, size in enumerate(sizes if begin else ()):
            y[some, i, :size] = several[i].coupling[some, :begin] @ drawn[i][:begin]
        u = draw(some, y[some])
        for i, size in enumerate(sizes):
            drawn[i][some] = u[:, i, :size]
    return _pad_and_stack(drawn), y


def _find_coordinates(
    several: Sequence[_SequentialRows], deltas: Sequence[FloatArray]
) -> tuple[FloatArray, FloatArray, list[int]]:
    """Compute u and y of given f, each (r, C, m), and the number m of f for each density."""
    pairs = zip(several, deltas, strict=True)
    drawn = [sequential.inverse @ delta[sequential.rows] for sequential, delta in pairs]
    shifts = [sequential.coupling @ u for sequential, u in zip(several, drawn, strict=True)]
    return _pad_and_stack(drawn), _pad_and_stack(shifts), [u.shape[1] for u in drawn]


def _split_draws(
    u: FloatArray, log_ratio: FloatArray, sizes: Sequence[int]
) -> list[_SequentialDraws]:
    """Return u (r, size) of each density, and the sum of its log ratios over the rows.

    The sums are computed one by one, because the order of additions depends on the shape.
    """
    return [(u[:, i, :m], log_ratio[:, i, :m].sum(axis=0)) for i, m in enumerate(sizes)]


def _factorize_gram(gram: FloatArray) -> FloatArray:
    """Factorize a small matrix; it is not counted, as its cost is negligible beside n rows."""
    factor, info = lapack.dpotrf(gram, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"Cholesky factorization failed at pivot {info}")
    return np.asarray(factor)
