r"""Moments of exp(log_prob(f)) N(f; mean, var) for many points at once.

The term exp(log_prob(f)) is given by its logarithm and the first two derivatives. Most terms are
log-concave and bend at one place (`Bend`). With x = (f - mean) / sd the integrand is exp(g(x)),
g(x) = log_prob(mean + sd x) - x^2 / 2, so that g'' <= -1 everywhere. Hence

* the mode lies between 0 and sd d1(mean), where d1 is the first derivative of `log_prob`;
* at a point with abs(g') <= 1 the integrand is at least exp(-1/2) times its maximum, so that a
  rough mode is enough;
* g has dropped by 40 at a distance of 10 from such a point, or closer.

Between the two places where g has dropped by 40 the trapezoidal rule converges geometrically, as
it does for any analytic function that vanishes at both ends [1]_. The nodes are
x = c + a sinh(u), u equally spaced. They are dense where `log_prob` bends: a bend of width 1 under
a Gaussian of standard deviation 100 takes about a hundred nodes, and their number grows only with
the logarithm of the ratio of the two.

Other terms come with the points at which to cut the line into panels (`Cuts`), each of which gets a
Gauss-Legendre rule. If such a term is not log-concave, it must not fall faster than a power of f:
the integrand is then negligible farther than ten standard deviations from `mean`.

A smooth term that is not log-concave is cheaper with a bound of its logarithm (`Ceiling`). If
log_prob is at most t, then g(x) <= t - x^2 / 2, and g(0) = log_prob(mean), so that the integrand is
negligible where x^2 > 2 (t - log_prob(mean) + 40). The trapezoidal rule begins between these ends.
It shows where the integrand is negligible, and is made anew in what remains, until every other node
gives the same integrals. As the rule converges geometrically, the error of all nodes is then about
the square of their difference. For a term with one maximum, a guess of its precision as a Gaussian
mostly gives the right range at once: the integrand falls outside of a range that holds both `mean`
and the maximum, so that it is negligible there if it is at both ends.

References
----------
.. [1] Trefethen & Weideman (2014), The exponentially convergent trapezoidal rule, SIAM Review 56.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from scipy.special import ndtr

from .._typing import BoolArray, FloatArray, IntArray
from .linalg import LOG_TWO_PI

#: Drop of the log of the integrand beyond which the integrand is negligible: exp(-40) is 4e-18.
_LARGEST_DROP = 40.0
#: Distance from the mode where a log-concave integrand has dropped by as much: x - x^2 / 2 < -40.
_FARTHEST_EDGE = 10.0
#: Distance of the mode, in standard deviations, from which its bracket is found by doubling steps.
_FAR_MODE = 30.0
#: Distance in standard deviations from which the search for the mode ends.
_FARTHEST_MODE = 1e8
#: Least standard deviation that is distinguished from zero, latent scale.
_LEAST_SD = 1e-150
#: Step in u. The singularities of a bend are 0.52 away: the error is exp(-2 pi 0.52 / 0.08).
_SINH_STEP = 0.08
#: Step in standard deviations of a Gaussian, which has the error exp(-2 pi^2 / 0.5^2).
GAUSSIAN_STEP = 0.5
#: Nodes around a mode, in standard deviations of a Gaussian there; 4e-18 of it lies beyond them.
_GAUSSIAN_NODES = GAUSSIAN_STEP * np.arange(-17.0, 18.0)
#: Steps of Newton's method from the mean to such a mode.
_MODE_STEPS = 2
#: Largest a, in standard deviations: with it c + a sinh(u) is nearly linear between the edges.
_MOST_SINH_SCALE = 20.0
#: Nodes that no term needs within the resolution of double precision; beyond, the result is NaN.
_MOST_NODES = 10_000.0
#: Nodes of the Gauss-Legendre rule of a panel.
_PANEL_NODES = 32
#: Cuts that suit the Gaussian factor, in standard deviations from its mean.
_GAUSSIAN_CUTS = np.array([-10.0, -6.0, -3.0, 0.0, 3.0, 6.0, 10.0])
#: Largest number of peaks of an integrand around which cuts are added.
_N_PEAKS = 4
#: Steps of Newton's method to each peak.
_PEAK_STEPS = 8
#: Ends of the panels around a peak, in units of its width.
_PEAK_CUTS = np.array([-9.0, -4.5, -1.5, 0.0, 1.5, 4.5, 9.0])
#: Nodes of the first rule under a ceiling, which only shows where the integrand is.
_FIRST_NODES = 25
#: Nodes of the later rules, at first.
_CEILING_NODES = 49
#: Most rules under a ceiling. Each narrows its range twentyfold, or has twice as many nodes.
_MOST_RULES = 10
#: Largest a under a ceiling, in standard deviations: nodes are then all but equally spaced.
_MOST_CEILING_SCALE = 100.0
#: Ratio of two ranges from which the nodes of the narrower one need not be doubled.
_NARROWER = 0.7
#: Ends of a guessed range, in standard deviations of the guess.
_GUESSED_EDGE = 11.0
#: Largest share of a node at the end of a guessed range.
_LEAST_WEIGHT = 1e-13
#: Largest difference between the integrals by all and by every other node of a rule.
_HALF_TOLERANCE = 1e-6
#: Narrower Gaussians, unless the term is strong, take the derivatives of the term for those of the
#: normalizer: the moments of f would be divided by the variance.
_NARROW_SD = 0.1
#: Least share of the variance of the Gaussian by which a strong term changes it.
_STRONG_SHARE = 0.3
#: Largest distance of a decreasing function from one at its lower end, and from zero at its upper.
DECREASING_TAIL = 1e-10
#: Limit of the average of a decreasing function, in standard deviations: 4e-11 of a Gaussian lies
#: beyond.
_DECREASING_REACH = 6.5
#: Nodes between the ends of a decreasing function.
_DECREASING_NODES = 40
#: Points per block: their nodes stay in the processor's cache.
_POINTS_PER_BLOCK = 256


class Bend(NamedTuple):
    """Where log p(y | f) changes from one form to another as a function of f, and how fast.

    The nodes are spaced in proportion to sqrt(width^2 + (f - center)^2). Away from the center,
    log p(y | f) must be nearly linear or quadratic, or vary on a scale that grows with the
    distance. A good `width` is twice the distance from `center` to the nearest complex singularity.
    A term with several bends has its center between them, the smallest of their widths, and as
    `apart` their largest distance from the center; the nodes are then dense enough at every bend.
    """

    center: FloatArray  # (n,) or (), latent scale
    width: FloatArray  # (n,) or (), latent scale, positive
    apart: FloatArray = np.asarray(0.0)  # (n,) or (), latent scale, from the center


class Cuts(NamedTuple):
    """Points at which to cut the axis of f so that log p(y | f) is smooth between two cuts.

    The quadrature adds the ends, the mean, and some points around the mean at fixed multiples of
    the standard deviation.
    """

    places: FloatArray  # (n, k), latent scale


class Ceiling(NamedTuple):
    """Upper bound of log p(y | f), a smooth function of f, and where it changes its form.

    `center` and `width` are those of a `Bend`. If log p(y | f) has several maxima, they must be
    about as wide as `width` and near the center, or narrow ones may be overlooked. `precision` is
    zero, or about that of p(y | f) as a Gaussian around the center, which then must be near the
    only maximum, or log p(y | f) nearly constant between the two. It spares the search for the
    range of the integrand.
    """

    top: FloatArray  # (n,) or (), natural log
    center: FloatArray  # (n,) or (), latent scale
    width: FloatArray  # (n,) or (), latent scale, positive
    precision: FloatArray = np.asarray(0.0)  # (n,) or (), inverse square of the latent scale


Shape: TypeAlias = Bend | Cuts | Ceiling


class LogDensity(NamedTuple):
    """The logarithm of a term p(y | f) and its first two derivatives in f.

    A term that is not log-concave comes with `Cuts` or a `Ceiling`. Both functions are called with
    `y` of shape (m,) or (m, 1) and `f` of shape (m,), (2, m) or (m, number of nodes); `y` is only
    cut into blocks, so that it may hold whatever identifies a point.
    """

    log_prob: Callable[[Any, FloatArray], FloatArray]
    slopes: Callable[[Any, FloatArray], Sequence[FloatArray]]
    log_concave: bool = True


class _Block(NamedTuple):
    """Some of the points; each field has shape (m,), or (m, 1) to broadcast with nodes."""

    density: LogDensity
    y: Any
    mean: FloatArray
    sd: FloatArray
    power: FloatArray

    @property
    def column(self) -> _Block:
        """The block with fields of shape (m, 1), which broadcast with nodes."""
        return _Block(self.density, *(values[:, None] for values in self[1:]))

    def of(self, rows: IntArray | BoolArray) -> _Block:
        """The block of some of the points."""
        return _Block(self.density, *(values[rows] for values in self[1:]))

    def height(self, x: FloatArray) -> FloatArray:
        """Log of the integrand at mean + sd x, g(x)."""
        log_prob = self.density.log_prob(self.y, self.mean + self.sd * x)
        return np.asarray(self.power * log_prob - 0.5 * x * x)

    def slopes(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First two derivatives in f of the logarithm of the term, at mean + sd x."""
        d1, d2 = self.density.slopes(self.y, self.mean + self.sd * x)
        return self.power * d1, self.power * d2


class _Nodes(NamedTuple):
    """Nodes and normalized weights of a quadrature rule; a node is at f = mean + sd x."""

    x: FloatArray  # (m, number of nodes)
    weight: FloatArray  # (m, number of nodes); each row sums to one
    log_z: FloatArray  # (m,), log normalizer

    @classmethod
    def of(
        cls, block: _Block, x: FloatArray, measure: FloatArray, step: FloatArray | float = 1.0
    ) -> Self:
        """Return nodes whose weights are `step` times `measure` times the integrand, normalized."""
        log_height = block.column.height(x)
        top = log_height.max(axis=1)
        unseen = np.isneginf(top)
        impossible = unseen & (block.sd == 0.0)  # the term is zero at the only possible f
        # NaN where the integrand underflows at all nodes, as between cuts that rounding has merged.
        top = np.where(unseen, np.nan, top)
        weight = np.exp(log_height - top[:, None]) * measure
        total = weight.sum(axis=1)
        total = np.where(total > 0.0, total, np.nan)
        weight /= total[:, None]
        log_z = top + np.log(total * step) - 0.5 * LOG_TWO_PI
        return cls(x, weight, np.where(impossible, -np.inf, log_z))

    @classmethod
    def joined(cls, parts: Sequence[tuple[IntArray, Self]], n_rows: int) -> Self:
        """Return the nodes of all points from those of some; more nodes have the weight zero."""
        n_nodes = max(nodes.x.shape[1] for _, nodes in parts)
        joined = cls(np.empty((n_rows, n_nodes)), np.zeros((n_rows, n_nodes)), np.empty(n_rows))
        for rows, nodes in parts:
            n_own = nodes.x.shape[1]
            joined.x[rows, :n_own] = nodes.x
            joined.x[rows, n_own:] = nodes.x[:, -1:]
            joined.weight[rows, :n_own] = nodes.weight
            joined.log_z[rows] = nodes.log_z
        return joined

    def of_rows(self, rows: BoolArray) -> Self:
        """Return the nodes of some of the points."""
        return type(self)(*(values[rows] for values in self))

    def average(self, values: FloatArray) -> FloatArray:
        """Mean of values at the nodes, (..., m, number of nodes); (..., m)."""
        return np.asarray(np.einsum("ij,...ij->...i", self.weight, values))


class TiltedDensities(NamedTuple):
    """The densities proportional to p(y | f)^power N(f; mean, var), p being exp(log_prob).

    All integrals are NaN where `mean` or `var` is not finite or `var` is negative, and where the
    mode is so far out that double precision does not resolve the integrand around it.
    """

    density: LogDensity
    shape: Shape  # where the term bends, where to cut, or a bound
    y: FloatArray | IntArray  # (n,), argument of the term that identifies each point
    mean: FloatArray  # (n,), latent scale
    var: FloatArray  # (n,); zero is legal
    power: FloatArray | None = None  # (n,), positive; None is one

    def log_normalizer(self) -> FloatArray:
        """Log of the integral over f; (n,), natural log."""
        log_z = np.full(self.mean.shape, np.nan)
        for rows, _, nodes in self._blocks(of_bend=_apply_gaussian_rule):
            log_z[rows] = nodes.log_z
        return log_z

    def average(self, function: Callable[[Any, FloatArray], FloatArray]) -> FloatArray:
        """Return the means of functions of (y, f); (k, n).

        Parameters
        ----------
        function : callable
            Function of y (m, 1) and f (m, number of nodes) that returns the values of k functions,
            (k, m, number of nodes).
        """
        parts = []
        for rows, block, nodes in self._blocks():
            _, row, center, sd, _ = block.column
            parts.append((rows, nodes.average(function(row, center + sd * nodes.x))))
        result = np.full((len(parts[0][1]) if parts else 0, len(self.mean)), np.nan)
        for rows, part in parts:
            result[:, rows] = part
        return result

    def powers(self, center: FloatArray, scale: FloatArray, degree: int) -> FloatArray:
        """Return the means of ((f - center) / scale)^k for k = 1 to `degree`; (degree, n).

        `center` and `scale` have shape (n,), latent scale. Points whose mean or variance is not
        valid have NaN.
        """
        result = np.full((degree, len(self.mean)), np.nan)
        for rows, block, nodes in self._blocks():
            _, _, mean, sd, _ = block.column
            z = (mean - center[rows, None] + sd * nodes.x) / scale[rows, None]
            result[:, rows] = [nodes.average(z**k) for k in range(1, degree + 1)]
        return result

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Log normalizer and its derivatives in the mean.

        Returns
        -------
        log_z : ndarray of shape (n,)
            Natural log of Z.
        alpha : ndarray of shape (n,)
            Its derivative in the mean; the tilted mean is mean + var alpha.
        beta : ndarray of shape (n,)
            Minus its second derivative; the tilted variance is var - var^2 beta.

        Notes
        -----
        With E, Var and Cov under the tilted distribution and d1, d2 the derivatives of the term,
        integration by parts (Stein's identity) gives

            alpha = E d1 = (E f - mean) / var,   beta = -E d2 - Var d1 = -Cov(f, d1) / var.

        The first forms do not divide by `var`, and are used for terms that are weak compared with
        the Gaussian. For a strong term their parts cancel, and the second forms are used.
        """
        log_z, alpha, beta = (np.full(self.mean.shape, np.nan) for _ in range(3))
        differentiate = _differentiate_normalizer
        if isinstance(self.shape, Ceiling):
            differentiate = _differentiate_by_moments
        for rows, block, nodes in self._blocks():
            log_z[rows] = nodes.log_z
            with np.errstate(over="ignore", invalid="ignore"):
                alpha[rows], beta[rows] = differentiate(block, nodes)
        return log_z, alpha, beta

    def _blocks(
        self, of_bend: Callable[[_Block, Bend], _Nodes] | None = None
    ) -> Iterator[tuple[IntArray, _Block, _Nodes]]:
        """Cut the valid points into blocks of bounded memory; yields indices, points and nodes.

        Nodes are NaN where double precision cannot resolve the integrand. `of_bend` is the rule for
        terms with a `Bend`.
        """
        density, shape, y, mean, var, power = self
        legal = np.flatnonzero(np.isfinite(mean) & np.isfinite(var) & (var >= 0.0))
        power = np.ones(len(mean)) if power is None else power
        rules: dict[type[Shape], Callable[[_Block, Any], _Nodes]] = {
            Bend: of_bend or _apply_sinh_rule,
            Cuts: _apply_panel_rule,
            Ceiling: _apply_ceiling_rule,
        }
        rule = rules[type(shape)]
        if not isinstance(shape, Cuts):
            shape = type(shape)(*(np.broadcast_to(part, mean.shape) for part in shape))
        for start in range(0, len(legal), _POINTS_PER_BLOCK):
            rows = legal[start : start + _POINTS_PER_BLOCK]
            block = _Block(density, y[rows], mean[rows], np.sqrt(var[rows]), power[rows])
            with np.errstate(over="ignore", invalid="ignore"):
                nodes = rule(block, type(shape)(*(part[rows] for part in shape)))
            yield rows, block, nodes


def _differentiate_normalizer(block: _Block, nodes: _Nodes) -> tuple[FloatArray, FloatArray]:
    """Return alpha and beta of `Tilted.moments` for a block."""
    d1, d2 = block.column.slopes(nodes.x)
    mean_d1 = nodes.average(d1)
    d1 = d1 - mean_d1[:, None]
    curvature = -nodes.average(d2)
    weak = block.sd**2 * np.abs(curvature) < 1.0
    sd = np.where(weak, 1.0, block.sd)  # the second forms divide by it
    alpha = np.where(weak, mean_d1, nodes.average(nodes.x) / sd)
    weak_beta = curvature - nodes.average(d1 * d1)
    strong_beta = -nodes.average(d1 * nodes.x) / sd  # d1 is centered, so x need not be
    beta = np.where(weak, weak_beta, strong_beta)
    if block.density.log_concave:  # by rounding alone beta could be negative
        beta = np.maximum(beta, 0.0)
    return alpha, beta


def _differentiate_by_moments(block: _Block, nodes: _Nodes) -> tuple[FloatArray, FloatArray]:
    """Return alpha and beta of `Tilted.moments` for a block, from the moments of f where they can.

    Few terms then need their derivatives at all nodes.
    """
    mean_x = nodes.average(nodes.x)
    gain = 1.0 - nodes.average((nodes.x - mean_x[:, None]) ** 2)
    alpha = mean_x / block.sd
    beta = gain / block.sd**2
    narrow = (block.sd < _NARROW_SD) & ~(np.abs(gain) > _STRONG_SHARE)
    if narrow.any():
        own = block.of(narrow), nodes.of_rows(narrow)
        alpha[narrow], beta[narrow] = _differentiate_normalizer(*own)
    return alpha, beta


def _apply_ceiling_rule(block: _Block, ceiling: Ceiling) -> _Nodes:
    """Return nodes of the trapezoidal rule, in a range that is narrowed to where the integrand is.

    Fields of `ceiling` are (m,).
    """
    sd = np.maximum(block.sd, _LEAST_SD)
    center = (ceiling.center - block.mean) / sd
    width = np.minimum(ceiling.width / sd, _MOST_CEILING_SCALE)
    low, high, plausible = _guess_range(block.power * ceiling.precision * sd**2, center)
    nodes = _place_under_ceiling(block, low, high, center, width, _CEILING_NODES)
    good = plausible & _agrees_with_half(nodes) & _vanishes_at_ends(nodes)
    if good.all():
        return nodes
    parts: list[tuple[IntArray, _Nodes]] = [(np.flatnonzero(good), nodes.of_rows(good))]

    rows = np.flatnonzero(~good)
    at_mean = block.of(rows).height(np.zeros(len(rows)))
    fall = np.maximum((block.power * ceiling.top)[rows] - at_mean, 0.0)
    high = np.minimum(np.sqrt(2.0 * (fall + _LARGEST_DROP)), _FARTHEST_MODE)
    low = -high
    n_nodes = _FIRST_NODES
    for left_rules in reversed(range(_MOST_RULES)):
        if not len(rows):
            break
        nodes = _place_under_ceiling(block.of(rows), low, high, center[rows], width[rows], n_nodes)
        good = _agrees_with_half(nodes) if left_rules else np.ones(len(rows), dtype=bool)
        parts.append((rows[good], nodes.of_rows(good)))
        rows = rows[~good]
        old_range = (high - low)[~good]
        low, high = _narrow_range(nodes.of_rows(~good))
        narrowed = np.all(high - low < _NARROWER * old_range)
        n_nodes = max(_CEILING_NODES, n_nodes if narrowed else 2 * n_nodes - 1)
    return _Nodes.joined(parts, len(sd))


def _guess_range(
    precision: FloatArray, center: FloatArray
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return ends for a term like a Gaussian at `center` with a precision, in x; (m,) each.

    Third, where they enclose 0 and the center: the integrand of a term with one maximum falls
    beyond them.
    """
    middle = center * precision / (1.0 + precision)
    half = _GUESSED_EDGE / np.sqrt(1.0 + precision)
    low, high = middle - half, middle + half
    enclosed = (np.minimum(center, 0.0) > low) & (np.maximum(center, 0.0) < high)
    return low, high, enclosed & (precision > 0.0)


def _vanishes_at_ends(nodes: _Nodes) -> BoolArray:
    """Return where the integrand is negligible at the first and the last node; (m,)."""
    ends = np.maximum(nodes.weight[:, 0], nodes.weight[:, -1])
    return np.asarray(ends < _LEAST_WEIGHT)


def _place_under_ceiling(
    block: _Block,
    low: FloatArray,
    high: FloatArray,
    center: FloatArray,
    width: FloatArray,
    n_nodes: int,
) -> _Nodes:
    """Return nodes x = c + a sinh(u) from `low` to `high` (m,), u equally spaced."""
    c = np.clip(center, low - _MOST_SINH_SCALE, high + _MOST_SINH_SCALE)
    u_low = np.arcsinh((low - c) / width)
    step = (np.arcsinh((high - c) / width) - u_low) / (n_nodes - 1)
    growth = np.exp(u_low[:, None] + step[:, None] * np.arange(n_nodes))
    half = 0.5 * width[:, None]
    x = c[:, None] + half * (growth - 1.0 / growth)
    return _Nodes.of(block, x, half * (growth + 1.0 / growth), step)


def _agrees_with_half(nodes: _Nodes) -> BoolArray:
    """Return where every other node gives the same mass and mean; (m,).

    Where the phase of the nodes hides the error of one of the two, it shows that of the other.
    """
    mean = nodes.average(nodes.x)[:, None]
    z = nodes.x - mean
    spread = np.sqrt(nodes.average(z * z))
    mass, shift = (
        2.0 * np.einsum("ij,ij->i", nodes.weight[:, ::2], values)
        for values in (np.ones_like(z[:, ::2]), z[:, ::2])
    )
    # A rule of NaN, which no other rule improves, counts as settled.
    return ~((np.abs(mass - 1.0) > _HALF_TOLERANCE) | (np.abs(shift) > _HALF_TOLERANCE * spread))


def _narrow_range(nodes: _Nodes) -> tuple[FloatArray, FloatArray]:
    """Return the nodes next to those where the integrand is not negligible; (m,) each."""
    seen = nodes.weight > np.exp(-_LARGEST_DROP) * nodes.weight.max(axis=1, keepdims=True)
    last = seen.shape[1] - 1
    first_seen = np.argmax(seen, axis=1)
    last_seen = last - np.argmax(seen[:, ::-1], axis=1)
    every = np.arange(len(seen))
    low = nodes.x[every, np.maximum(first_seen - 1, 0)]
    high = nodes.x[every, np.minimum(last_seen + 1, last)]
    return low, high


def _apply_panel_rule(block: _Block, cuts: Cuts) -> _Nodes:
    """Return Gauss-Legendre nodes between the cuts; empty panels have weight zero."""
    sd = np.maximum(block.sd, _LEAST_SD)[:, None]
    places = (cuts.places - block.mean[:, None]) / sd
    if block.density.log_concave:
        middle = _find_near_mode(block)
        ends = np.stack(_find_edges(block, middle), axis=1)
        inner = 0.5 * (ends + middle[:, None])
        own = np.concatenate([ends, inner, middle[:, None]], axis=1)
        places = np.clip(places, own.min(axis=1, keepdims=True), own.max(axis=1, keepdims=True))
    else:  # a peak may be as far from the mean as the rows that cause it
        own = np.broadcast_to(_GAUSSIAN_CUTS, (len(sd), len(_GAUSSIAN_CUTS)))
    edges = np.sort(np.concatenate([places, own], axis=1), axis=1)
    if not block.density.log_concave:
        edges = np.sort(np.concatenate([edges, _cut_around_peaks(block, edges)], axis=1), axis=1)
    node, share = _legendre_rule(_PANEL_NODES)
    half = 0.5 * np.diff(edges, axis=1)[:, :, None]
    x = (edges[:, :-1, None] + half * (1.0 + node)).reshape(len(sd), -1)
    return _Nodes.of(block, x, (half * share).reshape(len(sd), -1))


def _cut_around_peaks(block: _Block, edges: FloatArray) -> FloatArray:
    """Return cuts around the highest peaks, which a large power makes narrower than panels; (m, k).

    The logarithm of the term is smooth between the edges (m, number of edges), whatever its power,
    so that a grid of the edges and their midpoints shows where the peaks are.
    """
    column = block.column
    grid = np.sort(np.concatenate([edges, 0.5 * (edges[:, 1:] + edges[:, :-1])], axis=1), axis=1)
    height = column.height(grid)
    inner = height[:, 1:-1]
    is_peak = (inner >= height[:, :-2]) & (inner >= height[:, 2:])
    order = np.argsort(np.where(is_peak, -inner, np.inf), axis=1, kind="stable")[:, :_N_PEAKS]
    low, x, high = (np.take_along_axis(grid, order + shift, axis=1) for shift in range(3))
    for _ in range(_PEAK_STEPS):
        d1, d2 = column.slopes(x)
        curvature = column.sd**2 * d2 - 1.0
        newton = x - (column.sd * d1 - x) / np.minimum(curvature, -1.0)
        x = np.clip(newton, low, high)
    spread = 1.0 / np.sqrt(np.maximum(1.0 - column.sd**2 * column.slopes(x)[1], 1.0))
    cuts = (x[:, :, None] + spread[:, :, None] * _PEAK_CUTS).reshape(len(x), -1)
    return np.clip(cuts, edges[:, :1], edges[:, -1:])


@cache
def _legendre_rule(n: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of the Gauss-Legendre rule on [-1, 1]."""
    return np.polynomial.legendre.leggauss(n)


def _apply_gaussian_rule(block: _Block, bend: Bend) -> _Nodes:
    """Return equally spaced nodes around a mode that two of Newton's steps find.

    They suffice where the integrand is nearly Gaussian; elsewhere `_apply_sinh_rule` has more. The
    error of all nodes is about the square of that of every other node.
    """
    mode = np.zeros_like(block.sd)
    for _ in range(_MODE_STEPS):
        d1, d2 = block.slopes(mode)
        precision = 1.0 + block.sd**2 * np.maximum(-d2, 0.0)
        mode = mode + (block.sd * d1 - mode) / precision
    scale = 1.0 / np.sqrt(precision)
    x = mode[:, None] + scale[:, None] * _GAUSSIAN_NODES
    nodes = _Nodes.of(block, x, np.ones(1), GAUSSIAN_STEP * scale)
    good = _agrees_with_half(nodes) & _vanishes_at_ends(nodes)
    if good.all():
        return nodes
    rows = np.flatnonzero(~good)
    others = _apply_sinh_rule(block.of(rows), Bend(*(part[rows] for part in bend)))
    return _Nodes.joined([(np.flatnonzero(good), nodes.of_rows(good)), (rows, others)], len(good))


def _apply_sinh_rule(block: _Block, bend: Bend) -> _Nodes:
    """Return nodes of the trapezoidal rule in u, for a log-concave term."""
    near_mode = _find_near_mode(block)
    low, high = _find_edges(block, near_mode)
    # The center c and the scale a of the bend in units of x. A bend far outside the edges, or much
    # wider than their distance, does not matter; the limits keep c + a sinh(u) free of cancellation
    # and avoid a division by sd = 0.
    sd = np.maximum(block.sd, _LEAST_SD)
    c = np.clip(
        (bend.center - block.mean) / sd,
        near_mode - _MOST_SINH_SCALE,
        near_mode + _MOST_SINH_SCALE,
    )
    a = np.minimum(bend.width / sd, _MOST_SINH_SCALE)
    u_low = np.arcsinh((low - c) / a)
    u_high = np.arcsinh((high - c) / a)
    # A Gaussian has its edges at sqrt(2 * 40) = 8.9 standard deviations.
    scale = np.minimum(near_mode - low, high - near_mode) / np.sqrt(2.0 * _LARGEST_DROP)
    of_bend = _SINH_STEP * bend.width / np.hypot(bend.width, bend.apart)
    largest_step = np.minimum(of_bend, GAUSSIAN_STEP * scale / np.hypot(a, near_mode - c))
    wanted = (u_high - u_low) / largest_step
    lost = ~(wanted <= _MOST_NODES)  # the mode is too far away for double precision
    n_steps = int(np.ceil(max(wanted[~lost].max(initial=0.0), 1.0)))
    step = np.where(lost, 0.0, u_high - u_low) / n_steps

    begin = np.where(lost, 0.0, u_low)
    growth = np.exp(begin[:, None] + step[:, None] * np.arange(n_steps + 1))
    half_a = 0.5 * a[:, None]
    x = c[:, None] + half_a * (growth - 1.0 / growth)
    jacobian = half_a * (growth + 1.0 / growth)
    jacobian[lost] = np.nan
    return _Nodes.of(block, x, jacobian, step)


def _find_near_mode(block: _Block) -> FloatArray:
    """Return x with abs(g'(x)) <= 1, by Newton's method kept inside a shrinking bracket."""

    def slope_at(x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first two derivatives of g at x."""
        d1, d2 = block.slopes(x)
        # For sd = 0 the term does not matter, even where its slope overflows.
        d1 = np.where(block.sd > 0.0, d1, 0.0)
        d2 = np.where(block.sd > 0.0, d2, 0.0)
        return block.sd * d1 - x, block.sd * block.sd * d2 - 1.0

    low, high, x = _bracket_mode(slope_at, block)
    slope, curvature = slope_at(x)
    halve = np.zeros(x.shape, dtype=bool)
    seen = np.zeros((2, *x.shape), dtype=bool)
    for _ in range(200):
        # A slope is near zero if rounding of x, or of f = mean + sd x, changes it by more.
        spacing = np.finfo(float).eps * (
            np.abs(x) + np.abs(block.mean) / np.maximum(block.sd, _LEAST_SD)
        )
        tolerance = np.maximum(np.abs(curvature) * (8.0 * spacing), 1.0)
        # A slope that overflows shows on which side the mode is, but not at what distance.
        near = np.isfinite(tolerance) & (np.abs(slope) <= tolerance)
        # Between two neighboring values of f a slope can go from far above 0 to below, or overflow.
        lost = ~np.isfinite(slope)
        seen |= np.array([(slope > 0.0) | lost, (slope < 0.0) | lost])
        near |= seen.all(axis=0) & (high - low <= 4.0 * spacing)
        unfinished = ~near & (np.abs(x) < _FARTHEST_MODE)
        if not unfinished.any():
            return x
        low = np.where(slope > 0.0, x, low)
        high = np.where(slope < 0.0, x, high)
        newton = x - slope / curvature
        # Where a slope overflows, Newton's step is not a number and fails both comparisons.
        halve |= ~((newton > low) & (newton < high))
        x = np.where(unfinished, np.where(halve, 0.5 * (low + high), newton), x)
        previous = np.abs(slope)
        slope, curvature = slope_at(x)
        # Under an exponential each of Newton's steps gains only a factor of e, so that every other
        # step may be a bisection.
        halve = ~halve & (np.abs(slope) > 0.2 * previous)
    raise RuntimeError(
        "No mode of the tilted density after 200 steps: the slopes do not belong to a log-concave "
        f"density (first such point: y = {block.y[unfinished][0]}, "
        f"mean = {block.mean[unfinished][0]}, sd = {block.sd[unfinished][0]})."
    )


def _bracket_mode(
    slope_at: Callable[[FloatArray], tuple[FloatArray, FloatArray]], block: _Block
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return two ends with the mode between them, and a start for Newton's method.

    d1 decreases, so the mode lies between 0 and sd d1(mean), which is the slope at 0. If this slope
    is large, steps in f of one, two, four and so on lead beyond the mode sooner.
    """
    slope, _ = slope_at(np.zeros_like(block.mean))
    farthest = np.abs(slope)
    step = 1.0 / np.maximum(block.sd, 1.0)
    side = np.sign(slope)
    reached = np.zeros_like(slope)
    outer = np.where(farthest > _FAR_MODE, np.minimum(step, farthest), farthest)
    while True:
        # Written so that a slope of NaN ends the search.
        beyond = ~((outer < farthest) & (side * slope_at(side * outer)[0] > 0.0))
        if beyond.all():
            break
        reached = np.where(beyond, reached, outer)
        step = np.where(beyond, step, 2.0 * step)
        outer = np.where(beyond, outer, np.minimum(outer + step, farthest))
    low = np.where(side > 0.0, reached, -outer)
    high = np.where(side > 0.0, outer, -reached)
    return low, high, np.where(reached > 0.0, 0.5 * (low + high), 0.0)


def _find_edges(block: _Block, near_mode: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return two points outside which exp(g) is negligible, not much farther out than needed."""
    sides = np.array([[-1.0], [1.0]])

    floor = block.height(near_mode) - _LARGEST_DROP
    outer = np.full((2, len(near_mode)), _FARTHEST_EDGE)
    for _ in range(100):
        negligible = block.height(near_mode + sides * 0.5 * outer) < floor
        if not negligible.any():
            break
        outer = np.where(negligible, 0.5 * outer, outer)
    inner = 0.5 * outer
    for _ in range(2):
        middle = 0.5 * (inner + outer)
        negligible = block.height(near_mode + sides * middle) < floor
        outer = np.where(negligible, middle, outer)
        inner = np.where(negligible, inner, middle)
    low, high = near_mode + sides * outer
    return low, high


def average_decreasing(
    function: Callable[[FloatArray], FloatArray],
    low: FloatArray,
    high: FloatArray,
    mean: FloatArray,
    var: FloatArray,
) -> FloatArray:
    """Mean over f ~ N(mean, var) of a function that decreases from one to zero.

    The Gauss-Legendre nodes lie where the function decreases and the Gaussian is not negligible, so
    that a narrow function and a narrow Gaussian are both resolved.

    Parameters
    ----------
    function : callable
        Function of f of shape (m, g, number of nodes).
    low, high : ndarray of shape (m, 1)
        The function is one below `low` and zero above `high`, to within `DECREASING_TAIL`. Both
        may be infinite.
    mean, var : ndarray of shape (m, g) and (m, 1)
        A variance of zero is allowed.

    Returns
    -------
    ndarray of shape (m, g)
        For counts the error is below 1e-7 where the standard deviation is below 2, and below 1e-4
        everywhere; see `tests/unit/likelihoods/test_falling.py`.
    """
    sd = np.maximum(np.sqrt(var), _LEAST_SD)
    with np.errstate(over="ignore"):
        begin, end = (
            np.clip((x - mean) / sd, -_DECREASING_REACH, _DECREASING_REACH) for x in (low, high)
        )
    node, share = _legendre_rule(_DECREASING_NODES)
    half = 0.5 * (end - begin)
    x = begin[..., None] + half[..., None] * (1.0 + node)
    values = function(mean[..., None] + sd[..., None] * x) * np.exp(-0.5 * x * x)
    return np.asarray(ndtr(begin) + half * (values @ share) / np.sqrt(2.0 * np.pi))
