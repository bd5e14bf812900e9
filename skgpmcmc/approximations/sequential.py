"""A density that draws the latent values of a few rows one after another, each given its class.

Where the latent variance is large, the likelihood of a row near the border of a class acts like a
bound on f, and no Gaussian is near p(f | y, theta). The values of such rows are drawn in turn, from
the Gaussian given those before, with the likelihood of this very row in the place of its site. The
sites of all rows still to come stay Gaussian: by them a draw knows of what lies ahead. Given these
values the others follow the Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import lapack
from scipy.special import log_ndtr, ndtri_exp

from .._typing import FloatArray, IntArray
from ..model import Observations
from ..numerics.linalg import NotPositiveDefiniteError, solve_lower
from .base import GaussianApproximation, LatentDraws
from .importance import Density

#: Added to the covariance of the values that are drawn in turn, relative to each variance.
_JITTER = 1e-10
#: Values that those before leave less than this share of their variance are not drawn in turn.
_DETERMINED = 1e-8


class _Turns(NamedTuple):
    """The rows in turn: under q, ``f = mean + R u`` with R lower and u ~ N(0, I).

    Given the rows before, f_k has a Gaussian cavity: what q says without the site of the row. Then
    ``z = (mean + offset) / (s scale)`` with the mean of the cavity and scale^2 = 1 + its variance,
    affine in those before; Z_k is proportional to Phi(z). All but the first three of shape (r, 1).
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
        half = np.asfortranarray(q.prior.chol[rows].T)
        half = solve_lower(q.chol_white, half, overwrite=True)
        gram = half.T @ half
        gram.flat[:: len(gram) + 1] *= 1.0 + _JITTER
        factor = _factor(gram)
        free = factor.diagonal() ** 2 > _DETERMINED * gram.diagonal()
        if not free.all():
            rows, half, factor = rows[free], half[:, free], _factor(gram[np.ix_(free, free)])
        inverse, _ = lapack.dtrtri(factor, lower=1)
        spread = factor.diagonal()
        shift, precision = (part[rows] for part in q.sites)
        offset, signs = _offset_and_signs(observed, rows)
        # No cavity is wider than the prior; rounding must not say so.
        cavity = 1.0 / np.maximum(spread**-2 - precision, 1.0 / q.prior.variance[rows])
        wider, scale, mean = cavity / spread**2, signs * np.sqrt(1.0 + cavity), q.mean[rows]
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
        noise = (
            np.sqrt(self.cavity) / abs(self.signed_scale) * rng.standard_normal(log_uniform.shape)
        )
        u = (noise - self.offset * closer - self.shift * self.spread**2) / self.spread
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

    def log_ratios(self, deviation: FloatArray) -> FloatArray:
        """Log of what all turns make of the density of q, at f - mean of these rows (r, m); (m,)."""
        u = self.inverse @ deviation
        z = self.coupling @ u + self.constant
        f = self.mean + deviation  # with the offset
        off = (f - self.signed_scale * z) ** 2 / self.cavity + np.log(self.cavity / self.spread**2)
        own = log_ndtr(np.copysign(f, f * self.signed_scale)) - log_ndtr(z)
        return np.asarray((own + 0.5 * (u * u - off)).sum(axis=0))


def _offset_and_signs(observed: Observations, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    signs, offset = observed.probit_signs(), observed.offset
    if signs is None:
        raise ValueError(f"The {observed.likelihood.name} likelihood is no Phi(s f).")
    return np.zeros(len(rows)) if offset is None else offset[rows], signs[rows]


def _factor(gram: FloatArray) -> FloatArray:
    """Lower Cholesky factor of a small matrix, which counts for nothing beside those of n rows."""
    factor, info = lapack.dpotrf(gram, lower=1, clean=1)
    if info != 0:
        raise NotPositiveDefiniteError(f"Cholesky factorization failed at pivot {info}")
    return np.asarray(factor)


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
        delta = self.q.colored(white)
        return LatentDraws(self.q.mean[:, None] + delta, self._log_ratio(delta))

    def log_ratio_to_prior(self, f: FloatArray) -> FloatArray:
        """Log [g(f) / N(f; 0, K)] for each column of f of shape (n, m); (m,)."""
        return self._log_ratio(f - self.q.mean[:, None])

    def _log_ratio(self, delta: FloatArray) -> FloatArray:
        own = self._turns.log_ratios(delta[self._turns.rows])
        return np.asarray(self.q.log_ratio_of_deviation(delta) + own)

    @cached_property
    def _turns(self) -> _Turns:
        return _Turns.of(self.q, self.observed, self.rows)
