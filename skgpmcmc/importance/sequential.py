"""An importance density that draws the values of some rows in turn, each given its target.

Where the latent variance is large, the likelihood of a row near the border of a class acts like a
bound on f, and no Gaussian is near p(f | y, theta). The values of such rows can be drawn in turn,
from the Gaussian given those before, with the likelihood of this very row in the place of its site.
The sites of rows still to come stay Gaussian: by them a draw knows of what lies ahead.
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

from .._typing import FloatArray, IntArray
from ..approximations.base import GaussianApproximation, LatentDraws
from ..model.observations import Observations
from ..numerics.linalg import NotPositiveDefiniteError, solve_lower

#: Added to the covariance of the values that are drawn in turn, relative to each variance: above
#: what rounding takes away.
_VARIANCE_ROUNDING = 1e-12
#: Values that those before leave less than this share of their variance are not drawn in turn; to
#: what is left that does not matter.
_DETERMINED = 1e-6
#: Rows in turn that are drawn at once and do not know of one another, with a likelihood in closed
#: form and with tables, where calls take most of the time.
_BLOCKS = (1, 8)
#: Bins of a value in turn: the ends between them, in its standard deviations given those before;
#: the probability of each under the Gaussian, and of all below it; and where a likelihood is looked
#: up in it.
_ENDS = np.linspace(-4.5, 4.5, 31)
_BELOW = np.concatenate([[0.0], ndtr(_ENDS)])
_BIN_PROBABILITY = np.diff(_BELOW, append=1.0)
_MIDDLE = np.concatenate([_ENDS[:1], 0.5 * (_ENDS[1:] + _ENDS[:-1]), _ENDS[-1:]])
#: Width of the cells of a table, in standard deviations of a margin.
_CELL_WIDTH = 0.125
#: Number of the cells of a table.
_N_CELLS = 144
#: How far from the mean of a margin the middle of the bins may be, in its standard deviations.
_FARTHEST_BIN = 4.0
#: Masses of bins that are made at once.
_MASSES_PER_CALL = 2**17
#: How far a log likelihood over its site falls, below its largest value in a table.
_DEEPEST = 500.0


@dataclass(frozen=True, eq=False)
class SequentialApproximation:
    """Law of f under a Gaussian q, but for rows i_1, ..., i_r, whose values come in turn.

    With t the likelihood of a row and t~ its site in q,
    ``g(f) = q(f) prod_k [t(f_k) / t~(f_k)] / Z_k``, Z_k the mean of t / t~ under q(f_k | f_<k). The
    importance weight of a draw knows of these rows by the Z_k only, which vary little. That is in
    closed form for a likelihood Phi(s f). Any other t / t~ is constant within bins of f_k, and rows
    come in blocks, of which each knows of those before; what that changes is in the weight.

    Attributes
    ----------
    q : GaussianApproximation
        A whitened one.
    observed : Observations
        p(y | f) of all rows, each with one latent value.
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

    def factorize(self) -> Self:
        """See `Density`."""
        _ = self.q.factorize(), self._turns
        return self

    @property
    def arrays(self) -> tuple[FloatArray, ...]:
        """Sites, and the turn of every row, counted from 1, or 0; they make it again."""
        turn = np.zeros(len(self.q.sites.shift))
        turn[self.rows] = np.arange(len(self.rows)) + 1.0
        return (*self.q.sites, turn)

    def sample(self, rng: np.random.Generator, size: int) -> LatentDraws:
        """Independent draws of f."""
        return _draw_together([self], [rng], [size])[0]

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        return _log_ratio_together([self], [f])[0]

    def _from_white(
        self, white: FloatArray, u: FloatArray, log_ratio_of_turns: FloatArray
    ) -> LatentDraws:
        """Make draws of f of whitened ones (rank, m), with u (r, m) of the rows in turn."""
        turns = self._turns
        white += turns.directions @ (u - turns.directions.T @ white)
        white = solve_lower(self.q.chol_white, white, transpose=True, overwrite=True)
        delta = self.q.prior.unwhiten(white)
        log_ratio = self._log_ratio(delta, log_ratio_of_turns)
        return LatentDraws(self.q.mean[:, None] + delta, log_ratio)

    def _log_ratio(self, delta: FloatArray, log_ratio_of_turns: FloatArray) -> FloatArray:
        return np.asarray(self.q.log_ratio_of_deviation(delta) + log_ratio_of_turns)

    @cached_property
    def _turns(self) -> _Turns:
        return _Turns.of(self.q, self.observed, self.rows)


def rows_in_turn(skewness: FloatArray, noise: float) -> IntArray:
    """Return the rows whose values are to be drawn in turn, the least Gaussian first.

    To leading order a margin of skewness g that is taken for a Gaussian adds ``g^2 / 6`` to the
    relative variance of a weight. So rows are taken until the sum over the rest, with the mean
    absolute skewness, is below the square of the noise: no more than one draw allows.

    Parameters
    ----------
    skewness : ndarray of shape (D, n)
        Of every margin at D points.
    noise : float
        Standard deviation of the log estimate that is wanted.
    """
    mean = np.mean(np.abs(skewness), axis=0)
    order = np.argsort(-mean, kind="stable")
    rest = np.cumsum(mean[order[::-1]] ** 2)[::-1] / 6.0  # of a row and all that come later
    return order[: np.count_nonzero(rest > noise**2)]


def draw_many(
    densities: Sequence[Any], rngs: Sequence[np.random.Generator], sizes: Sequence[int]
) -> list[LatentDraws]:
    """Draw f from each of several densities, as its `sample` does, to the last bit.

    Rows in turn are drawn in one call for all densities that have as many of them.
    """
    drawn = [_no_draws(density) for density in densities]
    for group in _alike(densities, sizes):
        streams = [rngs[i] for i in group]
        counts = [sizes[i] for i in group]
        own = [densities[i] for i in group]
        if isinstance(own[0], SequentialApproximation):
            found = _draw_together(own, streams, counts)
        else:
            found = [own[0].sample(streams[0], counts[0])]
        for i, draws in zip(group, found, strict=True):
            drawn[i] = draws
    return drawn


def log_ratio_many(densities: Sequence[Any], fs: Sequence[FloatArray]) -> list[FloatArray]:
    """Compute `log_ratio_to_prior` of each of several densities, to the last bit; f (n, m) each."""
    ratios = [np.empty(0) for _ in densities]
    for group in _alike(densities, [f.shape[1] for f in fs]):
        own = [densities[i] for i in group]
        latent = [fs[i] for i in group]
        if isinstance(own[0], SequentialApproximation):
            found = _log_ratio_together(own, latent)
        else:
            found = [own[0].log_ratio_to_prior(latent[0])]
        for i, log_ratio in zip(group, found, strict=True):
            ratios[i] = log_ratio
    return ratios


def _no_draws(density: Any) -> LatentDraws:
    return LatentDraws(np.empty((density.q.prior.size, 0)), np.empty(0))


def _alike(densities: Sequence[Any], sizes: Sequence[int]) -> list[list[int]]:
    """Positions of densities that can be handled in one call; those of size 0 are left out."""
    groups: dict[Any, list[int]] = {}
    for i, (density, size) in enumerate(zip(densities, sizes, strict=True)):
        key: Any = i
        if isinstance(density, SequentialApproximation):
            turns = density._turns
            key = (type(turns.factors), len(turns.rows))
        if size:
            groups.setdefault(key, []).append(i)
    return list(groups.values())


def _draw_together(
    densities: Sequence[SequentialApproximation],
    rngs: Sequence[np.random.Generator],
    sizes: Sequence[int],
) -> list[LatentDraws]:
    """Draw f from densities that are alike."""
    whites = [
        np.asfortranarray(rng.standard_normal((size, density.q.prior.rank)).T)
        for density, rng, size in zip(densities, rngs, sizes, strict=True)
    ]
    turns = [density._turns for density in densities]
    in_turn = turns[0].factors.draw(list(zip(turns, rngs, sizes, strict=True)))
    return [
        density._from_white(white, *own)
        for density, white, own in zip(densities, whites, in_turn, strict=True)
    ]


def _log_ratio_together(
    densities: Sequence[SequentialApproximation], fs: Sequence[FloatArray]
) -> list[FloatArray]:
    """Compute `log_ratio_to_prior` of densities that are alike."""
    deltas = [f - density.q.mean[:, None] for density, f in zip(densities, fs, strict=True)]
    turns = [density._turns for density in densities]
    in_turn = turns[0].factors.log_ratios(list(zip(turns, deltas, strict=True)))
    return [
        density._log_ratio(delta, of_turns)
        for density, delta, of_turns in zip(densities, deltas, in_turn, strict=True)
    ]


def _side_by_side(parts: Sequence[FloatArray]) -> FloatArray:
    """Put C matrices (r, m), m of any size, side by side, zeros between; (r, C, the largest m)."""
    if len(parts) == 1:
        return parts[0][:, None]
    whole = np.zeros((len(parts[0]), len(parts), max(part.shape[1] for part in parts)))
    for i, part in enumerate(parts):
        whole[:, i, : part.shape[1]] = part
    return whole


class _Turns(NamedTuple):
    """The rows in turn: under q, ``f = mean + R u`` with R lower and u ~ N(0, I).

    Given the rows of all blocks before, f_k has the mean ``mean_k + R_kk y_k``, y being `coupling`
    times u. What is known of f_k where it is drawn is ``mean_k + R_kk (y_k + u_k)``.
    """

    rows: IntArray  # (r,)
    directions: FloatArray  # (rank of K, r), of u among the whitened draws of q; orthonormal
    inverse: FloatArray  # (r, r), of R
    coupling: FloatArray  # (r, r); lower, and zero within blocks
    factors: _Probits | _Tables  # t / t~ of every row
    block: int  # rows that are drawn at once

    @classmethod
    def of(cls, q: GaussianApproximation, observed: Observations, rows: IntArray) -> Self:
        """Prepare them; rows that those before determine are left out."""
        half = q.prior.half_given(q.chol_white, rows)
        gram = half.T @ half
        gram.flat[:: len(gram) + 1] *= 1.0 + _VARIANCE_ROUNDING
        factor = _factor(gram)
        free = factor.diagonal() ** 2 > _DETERMINED * gram.diagonal()
        if not free.all():
            rows = rows[free]
            half = half[:, free]
            gram = gram[np.ix_(free, free)]
            factor = _factor(gram)
        inverse, _ = lapack.dtrtri(factor, lower=1)
        spread = factor.diagonal()
        sd = np.sqrt(gram.diagonal())
        factors = _Probits.of(q, observed, rows, spread) or _Tables.of(
            q, observed.of_inputs(rows), rows, spread, sd
        )
        size = _BLOCKS[isinstance(factors, _Tables)]
        block = np.arange(len(rows)) // size
        coupling = np.where(block[:, None] > block, factor / spread[:, None], 0.0)
        return cls(rows, half @ inverse.T, inverse, coupling, factors, size)


#: Turns, a random stream, and how many draws.
_Drawing = tuple[_Turns, np.random.Generator, int]
#: u, (r, size), and the log of what turns make of the density of q there, (size,).
_Drawn = tuple[FloatArray, FloatArray]
#: Turns, and f - mean of all rows, (n, m).
_Comparing = tuple[_Turns, FloatArray]


class _Probits(NamedTuple):
    """Likelihoods Phi(s (f + offset)), s a sign.

    Given the rows before, f_k has a Gaussian cavity: what q says without the site of the row. Then
    ``z = (mean + offset) / (s scale)`` with the mean of the cavity and scale^2 = 1 + its variance;
    z is affine in y, and Z_k is proportional to Phi(z).
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
        """Return those of some rows, or None where p(y | f) is something else."""
        signs = observed.probit_signs()
        if signs is None:
            return None
        shift, precision = (part[rows] for part in q.sites)
        offset = np.zeros(len(rows)) if observed.offset is None else observed.offset[rows]
        # No cavity is wider than the prior; rounding must not say so.
        cavity = 1.0 / np.maximum(spread**-2 - precision, 1.0 / q.prior.variance[rows])
        wider = cavity / spread**2
        scale = signs[rows] * np.sqrt(1.0 + cavity)
        mean = q.mean[rows]
        constant = (wider * mean - cavity * shift + offset) / scale
        slope = wider * spread / scale
        return cls(constant, slope, scale, cavity, spread, offset, shift, mean + offset)

    @staticmethod
    def draw(jobs: Sequence[_Drawing]) -> list[_Drawn]:
        """Draw f_k from Phi(s (f_k + offset)) times its cavity.

        With e ~ N(0, 1), s (f_k + offset + e) > 0 is a Gaussian that is cut at zero.
        """
        several, rngs, sizes = zip(*jobs, strict=True)
        n_rows = len(several[0].rows)
        streams = list(zip(rngs, sizes, strict=True))
        log_uniform = -_side_by_side([r.standard_exponential((n_rows, m)) for r, m in streams])
        noise = _side_by_side([r.standard_normal((n_rows, m)) for r, m in streams])
        values = _stack(several)
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

        u, y = _in_turn(several, sizes, draw)
        return _split_draws(u, _of_probits(values, u, y), sizes)

    @staticmethod
    def log_ratios(jobs: Sequence[_Comparing]) -> list[FloatArray]:
        """Log of what turns make of the density of q, for each job; (m,)."""
        u, y, sizes = _places(jobs)
        log_ratio = _of_probits(_stack([turns for turns, _ in jobs]), u, y)
        return [part for _, part in _split_draws(u, log_ratio, sizes)]


def _of_probits(values: Sequence[FloatArray], u: FloatArray, y: FloatArray) -> FloatArray:
    """Log of ``Phi(s f) N(f; cavity) / (Phi(z) N(u; 0, 1) / R_kk)``, f with its offset."""
    constant, slope, signed_scale, cavity, spread, _, _, mean = values
    z = constant + slope * y
    f = mean + spread * (y + u)
    off = (f - signed_scale * z) ** 2 / cavity + np.log(cavity / spread**2)
    return log_ndtr(np.copysign(f, f * signed_scale)) - log_ndtr(z) + 0.5 * (u * u - off)


class _Tables(NamedTuple):
    """Any t / t~, constant within bins of u_k: a draw is in one of them, and Gaussian within it.

    What belongs to a bin is looked up at its middle, in a table that all draws share.
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
        """Tabulate what was `observed` at some rows, around the means of q; `sd` is of margins."""
        middle = _CELL_WIDTH * (np.arange(_N_CELLS) + 0.5 - 0.5 * _N_CELLS)
        away = sd[:, None] * middle
        with np.errstate(over="ignore", invalid="ignore"):
            log_prob = observed.by_input(q.mean[rows][:, None] + away)
            height = log_prob - away * (
                q.weights[rows][:, None] - 0.5 * q.precision[rows][:, None] * away
            )
            height -= np.max(height, axis=1, where=height < np.inf, initial=-np.inf, keepdims=True)
        deep = ~(height > -_DEEPEST)  # or no number
        return cls(np.exp(np.where(deep, -_DEEPEST, height)), spread / sd)

    @staticmethod
    def draw(jobs: Sequence[_Drawing]) -> list[_Drawn]:
        """Draw the bin of u_k first, and then the place in it."""
        several, rngs, sizes = zip(*jobs, strict=True)
        n_rows = len(several[0].rows)
        streams = zip(rngs, sizes, strict=True)
        uniform = _side_by_side([r.uniform(size=(n_rows, m)) for r, m in streams])
        mass_at = _mass(several)
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

        u, _ = _in_turn(several, sizes, draw)
        return _split_draws(u, np.log(ratio), sizes)

    @staticmethod
    def log_ratios(jobs: Sequence[_Comparing]) -> list[FloatArray]:
        """Log of what turns make of the density of q, for each job; (m,)."""
        u, y, sizes = _places(jobs)
        mass_at = _mass([turns for turns, _ in jobs])
        ratio = np.empty(u.shape)
        bins = np.searchsorted(_ENDS, u, side="right")
        n_at_once = max(_MASSES_PER_CALL // (len(_BIN_PROBABILITY) * u[0].size), 1)
        for begin in range(0, len(u), n_at_once):
            some = slice(begin, begin + n_at_once)
            mass = mass_at(some, y[some])
            own = bins[some]
            total = sum(mass[1:], start=mass[0])  # in the same order whatever the shape
            ratio[some] = np.take_along_axis(mass, own[None], axis=0)[0] / (
                _BIN_PROBABILITY[own] * total
            )
        return [part for _, part in _split_draws(u, np.log(ratio), sizes)]


def _mass(several: Sequence[_Turns]) -> Callable[[Any, FloatArray], FloatArray]:
    """Return a function of rows and of their y, (..., C, m), that gives the mass of each bin.

    Its result is of shape (number of bins, ..., C, m).
    """
    heights, share = _stack(several)
    table = np.moveaxis(heights, 1, 2).ravel()
    per_cell = share / _CELL_WIDTH
    farthest = _FARTHEST_BIN / _CELL_WIDTH
    begin = _N_CELLS * (np.arange(share.size).reshape(share.shape) + 0.5)
    # Where the middle of each bin is in the table, at y = 0.
    place = np.multiply.outer(_MIDDLE, per_cell) + begin

    def mass_at(rows: Any, y: FloatArray) -> FloatArray:
        away = np.minimum(np.maximum(y * per_cell[rows], -farthest), farthest)
        mass = table.take((place[:, rows] + away).astype(np.int32))
        mass *= _BIN_PROBABILITY.reshape(-1, *(1 for _ in y.shape))
        return mass

    return mass_at


def _stack(several: Sequence[_Turns]) -> list[FloatArray]:
    """What the factors of several turns have for each row, side by side; each (r, ..., C, 1)."""
    parts = zip(*(turns.factors for turns in several), strict=True)
    return [np.stack(part, axis=-1)[..., None] for part in parts]


def _in_turn(
    several: Sequence[_Turns], sizes: Sequence[int], draw: Callable[[slice, FloatArray], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Make u and y, each (r, C, m), block after block.

    Parameters
    ----------
    several : sequence of _Turns
        C of them, with equally many rows.
    sizes : sequence of int
        Draws of each; m is the largest.
    draw : callable
        Returns u of some rows, given those rows and their y.
    """
    n_rows = len(several[0].rows)
    # Each by itself and contiguous: how a product is rounded depends on its memory.
    drawn = [np.empty((n_rows, size)) for size in sizes]
    y = np.zeros((n_rows, len(sizes), max(sizes)))
    for begin in range(0, n_rows, several[0].block):
        some = slice(begin, begin + several[0].block)
        for i, size in enumerate(sizes if begin else ()):
            y[some, i, :size] = several[i].coupling[some, :begin] @ drawn[i][:begin]
        u = draw(some, y[some])
        for i, size in enumerate(sizes):
            drawn[i][some] = u[:, i, :size]
    return _side_by_side(drawn), y


def _places(jobs: Sequence[_Comparing]) -> tuple[FloatArray, FloatArray, list[int]]:
    """Return u and y, each (r, C, m), and m of each job."""
    drawn = [turns.inverse @ delta[turns.rows] for turns, delta in jobs]
    shifts = [turns.coupling @ u for (turns, _), u in zip(jobs, drawn, strict=True)]
    return _side_by_side(drawn), _side_by_side(shifts), [u.shape[1] for u in drawn]


def _split_draws(u: FloatArray, log_ratio: FloatArray, sizes: Sequence[int]) -> list[_Drawn]:
    """Return u, (r, size), of each, and the sum of the log ratios over its rows.

    Each sum by itself: the order in which numbers are added depends on the shape.
    """
    return [(u[:, i, :m], log_ratio[:, i, :m].sum(axis=0)) for i, m in enumerate(sizes)]


def _factor(gram: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a small matrix, which counts for nothing beside those of n rows."""
    factor, info = lapack.dpotrf(gram, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"Cholesky factorization failed at pivot {info}")
    return np.asarray(factor)
