"""An importance density that is a smooth function of theta, and the choice among several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np
from scipy import linalg

from .._typing import FloatArray, IntArray
from ..model import GaussianPrior, LatentGP
from ..numerics.linalg import log_mean, log_sum, ridge_regression
from ..numerics.threads import alone
from .base import Approximation, GaussianApproximation, Shape, Sites
from .importance import Density, SequentialApproximation, log_ratios, mixed
from .skewed import SkewedApproximation, asymmetry_of
from .whitened import gaussian_family

#: Variance of the residuals around the trend that is taken for noise, relative to the process.
_NUGGET = 1e-6
#: Length-scale of the interpolation, in units of `scale`.
_LENGTH_SCALE = 3.0
#: Site precisions below this share of the largest are not told apart.
_SMALLEST_PRECISION = 1e-12
#: Sweeps that are compared, and grades of what is not Gaussian: rows whose values are drawn in
#: turn, or shares of the skewness where a likelihood cannot do that.
SWEEPS, TURNS, SHARES = (0, 1), (0, 16, 32, 64, 128), (0.0, 0.25, 0.5, 0.75, 1.0)
#: Log of the relative variance up to which weights are taken for even.
_EVEN = 0.0
#: Fewest rows in turn with many hyper-parameters: places that are compared are then far apart, and
#: other rows may be the least Gaussian between them.
_FEWEST_TURNS = 64


class Variant(NamedTuple):
    """An importance density to choose."""

    n_sweeps: int  # that improve the interpolated sites
    skewed: bool  # whether margins are skewed
    n_turns: int  # rows whose values are drawn in turn


#: With skewed margins, all of the skewness is best where the latent variance is large, and none
#: where f is smooth: skewed neighbors then do not move together. So its share depends on theta.
VARIANTS = tuple(
    Variant(n, skewed, count)
    for n in SWEEPS
    for skewed, count in [(False, 0), (True, 0), *((False, count) for count in TURNS[1:])]
)
#: A Gaussian is seen by this many times fewer draws first: if its weights then vary this many times
#: too much, no others are made of it alone.
_AT_A_GLANCE = 4
#: Error of the best share at one theta, at least, and standard deviation of its linear terms.
_SHARE_NOISE, _SHARE_TERM_SD = 0.1, 0.2


@dataclass(frozen=True, eq=False)
class InterpolatedSites:
    """A density of f at any theta from the sites that an approximation has at design points.

    Each site is interpolated over theta: a linear trend and a Gaussian process with the covariance
    1 / (1 + r^2 / 2) on its residuals, for the log of the precision and for the shift over the root
    of the precision, which stay of order one when the kernel's variance grows. The standard
    deviations and skewnesses of the margins are interpolated in the same way. The result is a
    function of (y, theta) alone, and nothing is iterated: where the design is dense it is as good a
    density as the approximation itself, for one Cholesky factorization.

    Attributes
    ----------
    approximation : Approximation
        What the sites come from; improves them `n_sweeps` times more at every theta.
    n_sweeps : int
    strength : Quadratic or None
        Share of the skewness that the density has: a function of theta, cut to [0, 1]. None for a
        Gaussian density.
    center, scale : ndarray of shape (p,)
        Coordinates are ``z = (theta - center) / scale``.
    low, high : ndarray of shape (p,)
        Box of the design in natural logs; outside it the sites are those of the nearest edge.
    nodes : ndarray of shape (D, p)
        Design points in coordinates z.
    trend : ndarray of shape (p + 1, k n)
        Of log precision, shift over root precision and, unless `strength` is None, the logs of the
        standard deviations and the skewnesses.
    coefficients : ndarray of shape (D, k n)
        Of the Gaussian process.
    least, most : ndarray of shape (k n,)
        Range over the design of what is interpolated, which no interpolation leaves.
    turns : ndarray of shape (r,)
        Rows whose values are drawn in turn, see `SequentialApproximation`; the same for all theta.
    whitened : bool
        Make the Gaussian by the factors that many draws want, see `GaussianApproximation`.
    """

    approximation: Approximation
    n_sweeps: int
    strength: Quadratic | None
    center: FloatArray
    scale: FloatArray
    low: FloatArray
    high: FloatArray
    nodes: FloatArray
    trend: FloatArray
    coefficients: FloatArray
    least: FloatArray
    most: FloatArray
    turns: IntArray
    whitened: bool = True

    @classmethod
    def fit(
        cls,
        approximation: Approximation,
        theta: FloatArray,
        sites: Sequence[Sites],
        shapes: Sequence[Shape | None],
        center: FloatArray,
        scale: FloatArray,
        *,
        n_sweeps: int = 0,
        strength: float | Quadratic = 0.0,
        n_turns: int = 0,
    ) -> Self:
        """Interpolate the sites, and the shapes if they matter, at theta of shape (D, p).

        Of `n_turns` rows that are the least Gaussian values are drawn in turn.
        """
        share = _share(strength, center, scale)
        scale = scale * _LENGTH_SCALE
        nodes = (theta - center) / scale
        targets = np.stack([_coordinates(s) for s in sites])
        if share is not None:
            known = [m for m in shapes if m is not None]
            margins = np.stack([np.concatenate([np.log(m.sd), m.skewness]) for m in known])
            targets = np.concatenate([targets, margins], axis=1)
        features = np.concatenate([np.ones((len(nodes), 1)), nodes], axis=1)
        K = _covariance(nodes, nodes)
        K.flat[:: len(K) + 1] += _NUGGET
        factor = linalg.cho_factor(K, lower=True, overwrite_a=True)
        root, _ = factor
        columns, wanted = (
            linalg.solve_triangular(root, part, lower=True) for part in (features, targets)
        )
        # A ridge too small to matter, unless there are fewer design points than trend terms.
        trend = ridge_regression(columns, wanted, np.full(features.shape[1], 1e-8))
        coefficients = linalg.cho_solve(factor, targets - features @ trend)
        box, limits = ((a.min(axis=0), a.max(axis=0)) for a in (theta, targets))
        turns = _least_gaussian(shapes, n_turns)
        fields = (center, scale, *box, nodes, trend, coefficients, *limits, turns)
        return cls(approximation, n_sweeps, share, *fields)

    def with_strength(self, strength: float | Quadratic) -> InterpolatedSites:
        """Return the same interpolation with another share of skewness, which was not 0 before."""
        share = _share(strength, self.center, self.scale)
        if share is not None:
            return replace(self, strength=share)
        half = self.trend.shape[1] // 2
        names = ("trend", "coefficients", "least", "most")
        sites_alone = {name: getattr(self, name)[..., :half].copy() for name in names}
        return replace(self, strength=None, **sites_alone)

    def at(self, model: LatentGP, theta: FloatArray) -> Density:
        """Return the density at theta."""
        return self.made_of(self.gaussian_at(model, theta), model)

    def gaussian_at(self, model: LatentGP, theta: FloatArray) -> GaussianApproximation:
        """Return the Gaussian that the density at theta is made of."""
        prior, whitened = model.prior_at(theta), self.whitened and self.n_sweeps == 0
        q = gaussian_family(prior, whitened)(prior, self.sites_at(theta))
        for _ in range(self.n_sweeps):
            q = self.approximation.improved(model, q)
        return q

    def made_of(self, q: GaussianApproximation, model: LatentGP) -> Density:
        """Return the density that is made of q."""
        theta = q.prior.theta
        if len(self.turns):
            return SequentialApproximation(q, model.observations_at(theta), self.turns)
        if self.strength is None:
            return q
        log_sd, skewness = self._interpolated(theta).reshape(4, -1)[2:]
        # Where K is singular, margins that are skewed one by one leave the range of its root.
        share = self.share_at(theta) * (q.prior.rank == q.prior.size)
        return SkewedApproximation(q, np.exp(log_sd), asymmetry_of(share * skewness))

    def graded(self, q: GaussianApproximation, model: LatentGP) -> list[Density]:
        """Return the densities made of q with every grade of what is not Gaussian."""
        if len(self.turns):
            whole = SequentialApproximation(q, model.observations_at(q.prior.theta), self.turns)
            return [whole.of_first(count) for count in TURNS]
        if self.strength is None:  # coupled sites have no margins to skew
            return [q]
        return [self.with_strength(share).made_of(q, model) for share in SHARES]

    def share_at(self, theta: FloatArray) -> FloatArray:
        """Share of the skewness (...) that the density has at theta (..., p)."""
        if self.strength is None:
            return np.zeros(theta.shape[:-1])
        return np.clip(self.strength.value(theta), 0.0, 1.0)

    def sites_at(self, theta: FloatArray) -> Sites:
        """Interpolated sites at theta of shape (p,), before any sweep."""
        n_parts = 2 if self.strength is None else 4
        log_precision, ratio = self._interpolated(theta).reshape(n_parts, -1)[:2]
        root = np.exp(0.5 * log_precision)
        return Sites(ratio * root, root * root)

    def _interpolated(self, theta: FloatArray) -> FloatArray:
        # Not `np.clip`, which takes several times as long for few numbers.
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        z = (inside - self.center) / self.scale
        smooth = _covariance(z[None], self.nodes)[0] @ self.coefficients
        values = self.trend[0] + z @ self.trend[1:] + smooth
        return np.minimum(np.maximum(values, self.least), self.most)


def _least_gaussian(shapes: Sequence[Shape | None], n: int) -> IntArray:
    """Positions of the n rows with the largest skewness over the design."""
    if n == 0:
        return np.empty(0, dtype=np.intp)
    skewness = np.sum([abs(m.skewness) for m in shapes if m is not None], axis=0)
    return np.argsort(-skewness, kind="stable")[:n]


def _share(strength: float | Quadratic, center: FloatArray, scale: FloatArray) -> Quadratic | None:
    if isinstance(strength, Quadratic):
        return strength
    return Quadratic.flat(center, scale, strength) if strength > 0.0 else None


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
        weights = 1.0 / np.broadcast_to(np.asarray(noise, dtype=float), values.shape)
        precision = np.concatenate([[1e-8], sd**-2])
        coefficients = ridge_regression(features * weights[:, None], weights * values, precision)
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


def density_from(model: LatentGP, prior: GaussianPrior, arrays: tuple[FloatArray, ...]) -> Density:
    """Make a density of its `arrays`: two, or three if some rows come in turn, or four."""
    q = gaussian_family(prior, len(arrays) > 2)(prior, Sites(*arrays[:2]))
    if len(arrays) == 3:
        turns = np.argsort(arrays[2], kind="stable")[np.count_nonzero(arrays[2] == 0.0) :]
        return SequentialApproximation(q, model.observations_at(prior.theta), turns)
    return SkewedApproximation(q, *arrays[2:]) if len(arrays) > 2 else q


def variances_of_variants(
    reference: InterpolatedSites,
    model: LatentGP,
    theta: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
    *,
    defensive: float,
    enough: tuple[float, float],
) -> FloatArray:
    """Log of the relative variance of a weight with each of SWEEPS and grades at theta; (2, 5).

    Infinity for a variant that does not exist, and where no draw has a positive likelihood.
    Variants that cannot pay for their cost are given what a cheaper one has: grades if the variance
    of a Gaussian is at most ``enough[0]``, a sweep if the least of all is at most ``enough[1]``.
    What a sweep changes is taken from the Gaussian.
    """
    log_variances = partial(log_relative_variances, model, rng=rng, defensive=defensive)
    found = np.full((len(SWEEPS), len(SHARES)), np.inf)
    plain = reference.graded(reference.gaussian_at(model, theta).made(), model)
    # Rows in turn are nested: the ends show what is between.
    drawn = [0, len(plain) - 1] if len(reference.turns) else list(range(len(plain)))
    some = log_variances(plain[:1], glance := n_draws // _AT_A_GLANCE)
    if np.exp(some[0]) <= _AT_A_GLANCE * enough[0]:
        some = log_variances(plain[:1], n_draws - glance)
    if np.exp(some[0]) > enough[0]:
        some = log_variances(plain, n_draws, drawn=drawn)
    found[:, : len(plain)] = some
    if np.isfinite(some.min()) and np.exp(some.min()) > enough[1]:
        swept = replace(reference, n_sweeps=1).gaussian_at(model, theta)
        drawn = [*drawn, len(plain)]
        *every, other = log_variances([*plain, swept], n_draws, drawn=drawn)
        found[0, : len(plain)] = every
        found[1, : len(plain)] = np.array(every) + other - every[0]
    return found


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
        density = densities[position]
        if isinstance(density, SequentialApproximation):
            f, _ = alone(density.drawing(np.full(each, True), rng))  # not weighed
        else:
            f = density.sample(rng, each).f
        parts.append(f)
    f = np.concatenate([*parts, *([prior.sample(rng, n_prior)] if n_prior else [])], axis=1)
    log_ratio = log_ratios(densities, f)
    log_share = np.log(each / f.shape[1])
    log_mixture = log_sum(log_ratio[drawn] + log_share, axis=0)
    if n_prior:
        log_mixture = np.logaddexp(log_mixture, np.log(n_prior / f.shape[1]))
    totals = model.observations_at(prior.theta).totals(f)
    log_v = totals - log_mixture
    if np.isneginf(log_v.max()):
        return np.full(len(densities), np.inf)
    log_square = log_sum(totals - mixed(log_ratio, defensive) + log_v) - np.log(f.shape[1])
    ratio = np.exp(np.minimum(log_square - 2.0 * log_mean(log_v), 700.0))
    return np.log(np.maximum(ratio - 1.0, 1e-6))


def by_variant(
    log_variance: FloatArray, share: FloatArray | None, *, many_hyperparameters: bool = False
) -> FloatArray:
    """Sort what `variances_of_variants` found at m places, (m, 2, 5), by VARIANTS; (m, 12).

    The grades are shares of the skewness, those wanted being `share` (m,); or, if that is None,
    rows in turn. Infinity for what does not exist, and for a Gaussian whose weights vary much
    somewhere if rows can come in turn: what few draws show of rare weights there is too little.
    With many hyper-parameters the same holds for few rows in turn.
    """
    found = np.full((*log_variance.shape[:2], 1 + len(TURNS)), np.inf)
    found[:, :, 0] = log_variance[:, :, 0]
    if share is None:
        found[:, :, 2:] = log_variance[:, :, 1:]
        if many_hyperparameters:
            found[:, :, 2:][:, :, np.array(TURNS[1:]) < _FEWEST_TURNS] = np.inf
        if log_variance[:, 0, 0].max() > _EVEN:
            found[:, :, 0] = np.inf
    else:
        for place, rows, wanted in zip(found, log_variance, np.clip(share, 0.0, 1.0), strict=True):
            place[:, 1] = [np.interp(wanted, SHARES, row) for row in rows]
    return found.reshape(len(found), len(VARIANTS))


def best_share(
    theta: FloatArray, log_variance: FloatArray, center: FloatArray, scale: FloatArray
) -> Quadratic:
    """Regress on theta (m, p) the share with the least variance of a weight.

    `log_variance` (m, 5) is that of SHARES. The best share is where a parabola through the best of
    them and its neighbors has its minimum; the flatter that is, the less it says.
    """
    middle = np.clip(log_variance.argmin(axis=1), 1, len(SHARES) - 2)
    before, at, after = np.take_along_axis(log_variance, middle[:, None] + [-1, 0, 1], axis=1).T
    step = SHARES[1] - SHARES[0]
    slope, curvature = (after - before) / (2.0 * step), (after - 2.0 * at + before) / step**2
    steep = np.maximum(np.maximum(curvature, abs(slope)), 0.01)  # towards an end without minimum
    best = np.clip(np.array(SHARES)[middle] - slope / steep, 0.0, 1.0)
    noise = _SHARE_NOISE + 1.0 / np.sqrt(steep)
    return Quadratic.fit(theta, best, center, scale, noise=noise, term_sd=_SHARE_TERM_SD)


def _covariance(a: FloatArray, b: FloatArray) -> FloatArray:
    gap = a[:, None, :] - b
    return np.asarray(1.0 / (1.0 + 0.5 * np.vecdot(gap, gap)))


def _coordinates(sites: Sites) -> FloatArray:
    """Log precision, then shift over root precision; (2 n,)."""
    # Rows of next to no weight leave no precision at all.
    least = max(_SMALLEST_PRECISION * sites.precision.max(), np.finfo(float).tiny)
    precision = np.maximum(sites.precision, least)
    return np.concatenate([np.log(precision), sites.shift / np.sqrt(precision)])
