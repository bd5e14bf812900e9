"""The emulated posterior of theta, from which proposals are made.

The emulator is a Gaussian process over theta, conditioned on the values and the gradients of an
approximate log evidence at a few dozen design points. Chains use it only for proposals, so that its
errors make sampling slower but not wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import linalg

from ..._typing import FloatArray, IntArray
from ...approximations.interpolated import Quadratic
from ...model import HyperPrior, LatentGP, is_length_scale
from ...transitions import CheapPoint
from .design import DesignPoint

#: Length-scales in units of the standard deviation of the posterior: where they begin, and how they
#: are changed, so often at most in one direction.
_LENGTH_SCALE, _FACTOR, _MOST_STEPS = 4.24, np.sqrt(2.0), 3
#: Relative variance of the observations around the process: their tolerance, and rounding.
_NUGGET = 1e-6
#: Least and largest factor of the base.
_SHARE_OF_BASE = (0.5, 4.0)
#: Largest log(1 + (top - v) / s) that is undone.
_MAX_DEPTH = 20.0
#: Length-scales are compared on so many observations at most.
_MAX_COMPARED = 600
#: Scaled mean squared difference of two rows below which a length-scale hardly matters.
_FLAT = 0.005
#: Operations that a call is worth, about.
_PER_CALL = 2e6


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Transformed theta, in which the log evidence is about equally smooth everywhere.

    A length-scale far beyond the spread of its feature no longer matters, so that the log evidence
    is flat in its logarithm there and steep where it is short. ``-1/2 log(exp(-2 theta) + flat)``
    is theta for short length-scales and tends to a constant for long ones.

    Attributes
    ----------
    flat : ndarray of shape (p,)
        Inverse squares of the length-scales beyond which little changes; 0 leaves a component
        unchanged.
    center, scale : ndarray of shape (p,)
        Subtracted from the transformed theta, which is then divided by `scale`.
    """

    flat: FloatArray
    center: FloatArray
    scale: FloatArray

    @classmethod
    def typical(cls, draws: FloatArray, flat: FloatArray) -> Self:
        """Return coordinates in which the draws (m, p) have mean 0 and standard deviation 1."""
        flattened, _ = cls(flat, np.zeros_like(flat), np.ones_like(flat)).at(draws)
        return cls(flat, flattened.mean(axis=0), np.maximum(flattened.std(axis=0), 1e-6))

    def stretched(self, factor: FloatArray) -> Coordinates:
        """Return the coordinates divided by length-scales (p,)."""
        return replace(self, scale=self.scale * factor)

    def at(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coordinates of theta (..., p), and their derivatives in theta; both (..., p)."""
        inverse_square = np.exp(-2.0 * theta)
        # Not through the total, whose logarithm would lose a theta beyond 300.
        flattened = theta - 0.5 * np.log1p(self.flat / inverse_square)
        slope = inverse_square / (inverse_square + self.flat)
        return (flattened - self.center) / self.scale, slope / self.scale


def flattening(model: LatentGP) -> FloatArray:
    """Return inverse squares of length-scales beyond which little changes; 0 for others."""
    X, kernel = model.covariance.X, model.covariance.kernel
    spread = 2.0 * X.var(axis=0)  # mean squared difference of two rows
    parts = []
    for h in kernel.hyperparameters:
        if h.fixed:
            continue
        if not is_length_scale(kernel, h.name):
            parts.append(np.zeros(h.n_elements))
            continue
        squares = spread if h.n_elements == len(spread) else np.array([spread.sum()])
        parts.append(_FLAT / np.maximum(squares, 1e-12))
    return model.padded(np.concatenate([np.empty(0), *parts * model.n_kernels]))


@dataclass(frozen=True, eq=False)
class Emulator:
    """Posterior mean of a Gaussian process over theta, given values and gradients.

    The process models ``-s log(1 + (top - v) / s)`` for values v. This is close to v - top near the
    largest value, while values hundreds lower, far from the posterior, become only a few s lower:
    such points show where the function is low without dominating its scale. The covariance function
    is 1 / (1 + r^2 / 2), the rational quadratic with exponent 1. It is a mixture of length-scales,
    which suits functions that are steep on one side and flat on the other, and is cheap.

    Attributes
    ----------
    coordinates : Coordinates
    nodes : ndarray of shape (D, p)
        Design points in these coordinates.
    top, span : float
        Largest value, and s; natural logs.
    trend : ndarray of shape (1,) or (2,)
        Mean of the process, by generalized least squares: a constant and, with a `base`, a factor
        of that. A trend that decreases away from the design would make pi* too small there, so that
        chains would get stuck.
    value_weights : ndarray of shape (D,)
    gradient_weights : ndarray of shape (D, p)
    base : Emulator or None
        Emulator of a cheaper function of a similar form; the difference is smooth.

    References
    ----------
    Rasmussen & Williams (2006), section 9.4, for derivative observations; Kennedy & O'Hagan (2000)
    for the base: an autoregressive model of two codes, of which one is cheap.
    """

    coordinates: Coordinates
    nodes: FloatArray
    top: float
    span: float
    trend: FloatArray
    value_weights: FloatArray
    gradient_weights: FloatArray
    base: Emulator | None = None

    @classmethod
    def fit(
        cls,
        theta: FloatArray,
        values: FloatArray,
        gradients: FloatArray,
        *,
        draws: FloatArray,
        flat: FloatArray,
        span: float,
        base: Emulator | None = None,
    ) -> Self:
        """Condition on values (D,) and gradients (D, p) at theta (D, p), natural logs.

        Parameters
        ----------
        theta, values, gradients : ndarrays
            The design.
        draws : ndarray of shape (m, p)
            Typical points of the posterior, which determine the scale of the coordinates.
        flat : ndarray of shape (p,)
            See `Coordinates`.
        span : float
            Depth s below which values are compressed.
        base : Emulator, optional
            Emulator of a cheaper function.
        """
        top = float(values.max())
        depth = (top - values) / span
        values = -span * np.log1p(depth)
        gradients = gradients / (1.0 + depth)[:, None]
        n_compared = max(10, _MAX_COMPARED // (theta.shape[1] + 1))
        some = np.argsort(values)[-n_compared:]
        observed = _Observed.of(theta, values, gradients, base)
        coordinates = _most_likely(Coordinates.typical(draws, flat), observed.at(some))
        nodes, _ = coordinates.at(theta)
        c = _condition(nodes, *observed.columns(coordinates))
        weights = c.value_weights, c.gradient_weights
        return cls(coordinates, nodes, top, span, c.trend, *weights, base)

    def value_and_gradient(
        self, theta: FloatArray, *, compressed: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return the emulated function at theta (..., p): values (...) and gradients (..., p).

        With `compressed`, the process itself, whose values at the design are at most 0.
        """
        z, slopes = self.coordinates.at(theta)
        squared, slope = self._near_nodes(z)
        k, first, second = _covariance(squared)
        inner = self.trend[0] + k @ self.value_weights + (first * slope).sum(axis=-1)
        pull = second * slope - first * self.value_weights
        gradient = pull.sum(axis=-1)[..., None] * z - pull @ self.nodes
        gradient += first @ self.gradient_weights
        gradient *= slopes
        if self.base is not None:
            below, slope_below = self.base.value_and_gradient(theta, compressed=True)
            inner += self.trend[1] * below
            gradient += self.trend[1] * slope_below
        if compressed:
            return inner, gradient
        stretch = self._stretch(inner)
        return self.top - self.span * (stretch - 1.0), gradient * stretch[..., None]

    def value(self, theta: FloatArray, *, compressed: bool = False) -> FloatArray:
        """Return the emulated function at theta (..., p) without gradients; (...)."""
        squared, slope = self._near_nodes(self.coordinates.at(theta)[0])
        k, first, _ = _covariance(squared)
        inner = self.trend[0] + k @ self.value_weights + (first * slope).sum(axis=-1)
        if self.base is not None:
            inner = inner + self.trend[1] * self.base.value(theta, compressed=True)
        if compressed:
            return np.asarray(inner)
        return np.asarray(self.top - self.span * (self._stretch(inner) - 1.0))

    def _near_nodes(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return squared distances of z (..., p) to the nodes, and slopes there; (..., D)."""
        squares, offsets = self._of_nodes
        gap = squares + (z * z).sum(axis=-1)[..., None] - 2.0 * (z @ self.nodes.T)
        slope = z @ self.gradient_weights.T - offsets
        return np.maximum(gap, 0.0), slope

    def _stretch(self, inner: FloatArray) -> FloatArray:
        return np.exp(np.clip(-inner / self.span, -_MAX_DEPTH, _MAX_DEPTH))

    @cached_property
    def _of_nodes(self) -> tuple[FloatArray, FloatArray]:
        """Squares of the nodes, and their products with the gradients' weights; both (D,)."""
        products = self.nodes * self.nodes, self.nodes * self.gradient_weights
        return products[0].sum(axis=1), products[1].sum(axis=1)


class _Observed(NamedTuple):
    """Values and gradients in theta of the emulated function, and of each term of its trend."""

    theta: FloatArray  # (D, p)
    values: FloatArray  # (D, 1 + q), of the function first
    gradients: FloatArray  # (D, p, 1 + q)

    @classmethod
    def of(
        cls, theta: FloatArray, values: FloatArray, gradients: FloatArray, base: Emulator | None
    ) -> Self:
        """Collect them: the trend is a constant and, with a base, what that says."""
        columns = [(values, gradients), (np.ones(len(theta)), np.zeros_like(theta))]
        if base is not None:
            columns.append(base.value_and_gradient(theta, compressed=True))
        return cls(theta, *(np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)))

    def at(self, some: IntArray) -> _Observed:
        """Return some of the points."""
        return _Observed(*(part[some] for part in self))

    def columns(self, coordinates: Coordinates) -> tuple[FloatArray, FloatArray]:
        """Return the function, (D (p + 1),), and the trend, (D (p + 1), q), in coordinates."""
        _, slopes = coordinates.at(self.theta)
        gradients = (self.gradients / slopes[..., None]).reshape(slopes.size, -1)
        every = np.concatenate([self.values, gradients])
        return every[:, 0], every[:, 1:]


def _most_likely(typical: Coordinates, observed: _Observed) -> Coordinates:
    """Stretch coordinates by length-scales, which climb to where the observations are likeliest.

    First all in proportion, and then, with three coordinates or more, each by itself.
    """
    p = len(typical.scale)
    found = typical.stretched(np.full(p, _LENGTH_SCALE))
    score = _score(found, observed)
    for which in (np.ones(p), *(np.eye(p) if p > 2 else ())):
        for factor in (_FACTOR**which, _FACTOR**-which):
            for _ in range(_MOST_STEPS):
                further = found.stretched(factor)
                better = _score(further, observed)
                if better <= score:
                    break
                found, score = further, better
    return found


def _score(coordinates: Coordinates, observed: _Observed) -> float:
    """Log marginal likelihood of values and gradients in some coordinates."""
    nodes, slopes = coordinates.at(observed.theta)
    conditioned = _condition(nodes, *observed.columns(coordinates))
    # The density is that of the gradients by theta.
    return conditioned.log_likelihood - float(np.log(slopes).sum())


@dataclass(frozen=True, eq=False)
class _Conditioned:
    log_likelihood: float
    trend: FloatArray
    value_weights: FloatArray
    gradient_weights: FloatArray


def _covariance(squared: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return k = 1 / (1 + r^2 / 2), k1 = -2 dk/dr^2 and k2 = 2 dk1/dr^2."""
    k = 1.0 / (1.0 + 0.5 * squared)
    first = k * k
    return k, first, -2.0 * first * k


def _joint_covariance(nodes: FloatArray) -> FloatArray:
    """Covariance of all values, then all gradients, node after node; (D (p + 1),) squared."""
    n, p = nodes.shape
    gap = nodes[:, None, :] - nodes
    k, first, second = _covariance(np.einsum("ijr,ijr->ij", gap, gap))
    K = np.empty((n * (p + 1), n * (p + 1)))
    K[:n, :n] = k
    K[:n, n:] = (first[:, :, None] * gap).reshape(n, n * p)
    K[n:, :n] = K[:n, n:].T
    blocks = K[n:, n:].reshape(n, p, n, p)
    np.einsum("ij,ijr,ijs->irjs", second, gap, gap, out=blocks, optimize=True)
    for r in range(p):
        blocks[:, r, :, r] += first
    return K


def _condition(nodes: FloatArray, observed: FloatArray, trend: FloatArray) -> _Conditioned:
    """Condition on values and gradients in the coordinates of the nodes; profile likelihood.

    Not counted among the O(n^3) operations: the size is that of the design, not of the data.
    """
    n, p = nodes.shape
    K = _joint_covariance(nodes)
    K.flat[:: len(K) + 1] += _NUGGET
    factor = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    columns = np.concatenate([observed[:, None], trend], axis=1)
    solved = linalg.cho_solve((factor, True), columns)
    precision = trend.T @ solved[:, 1:]
    # A ridge too small to matter, unless two terms of the trend are the same at all nodes.
    precision.flat[:: len(precision) + 1] *= 1.0 + 1e-10
    root = linalg.cholesky(precision, lower=True)
    terms = linalg.cho_solve((root, True), trend.T @ solved[:, 0])
    if len(terms) > 1:  # a base that a few nodes contradict is still the best guess of the tails
        terms[1] = np.clip(terms[1], *_SHARE_OF_BASE)
        terms[0] = (solved[:, 1] @ (observed - trend[:, 1] * terms[1])) / precision[0, 0]
    weights = solved[:, 0] - solved[:, 1:] @ terms
    variance = max(float(weights @ (observed - trend @ terms)) / len(observed), 1e-300)
    log_likelihood = -0.5 * len(observed) * np.log(variance) - float(
        np.log(factor.diagonal()).sum() + np.log(root.diagonal()).sum()
    )
    return _Conditioned(log_likelihood, terms, weights[:n], weights[n:].reshape(n, p))


@dataclass(frozen=True, eq=False)
class EmulatedPosterior:
    """``pi*(theta) = p(theta) [exp m(theta) + c]``: exact prior, emulated likelihood.

    The constant c > 0 and the ceiling of m keep the ratio of the target and pi* bounded if the
    likelihood estimate is bounded. Outside the box of the design, m has its value at the edge, so
    that pi* is positive wherever the prior is, and has its tails.

    Attributes
    ----------
    hyperprior : HyperPrior
    emulator : Emulator
        Emulator of the approximate log evidence.
    correction : Quadratic
        Correction from the approximate to the exact log evidence.
    low, high : ndarray of shape (p,)
        Box of the design, natural logs.
    ceiling : float
        Largest value of m; larger ones are clipped.
    log_floor : float
        Log of c.
    power : float, default=1.0
        Power to which the density is raised.
    """

    hyperprior: HyperPrior
    emulator: Emulator
    correction: Quadratic
    low: FloatArray
    high: FloatArray
    ceiling: float
    log_floor: float
    power: float = 1.0

    def tempered(self, power: float) -> EmulatedPosterior:
        """Return the density raised to a power; powers below 1 give wider tails."""
        return replace(self, power=power * self.power)

    @property
    def cost(self) -> float:
        """Floating-point operations that take as long as one evaluation; see `CheapPosterior`."""
        return _PER_CALL + 10.0 * self.emulator.nodes.size

    def at(self, position: FloatArray) -> CheapPoint | None:
        """Return the point at theta of shape (p,), for operators; None without a density."""
        point = CheapPoint.at(self, position)
        return point if np.isfinite(point.log_density) else None

    def log_prob(self, theta: FloatArray) -> FloatArray:
        """Unnormalized log pi* at theta (..., p); (...)."""
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        m = self.emulator.value(inside) + self.correction.value(inside)
        log_lik = np.logaddexp(np.minimum(m, self.ceiling), self.log_floor)
        return np.asarray(self.power * (self.hyperprior.log_prob(theta) + log_lik))

    def excess(self, point: DesignPoint) -> float:
        """Return the emulated minus the true log evidence at an examined point."""
        return float(self.emulator.value(point.theta)) - point.log_evidence

    def error(
        self, points: Sequence[DesignPoint | None], limit: float, *, everywhere: bool
    ) -> float:
        """Root mean square error of prediction, over points that the posterior could visit.

        These have a log density above the limit. With `everywhere`, points whose emulated density
        is above it count too; with many hyper-parameters these are too many at first.
        """
        gaps = []
        for point in points:
            if point is None:
                continue
            gap = self.excess(point)
            if point.log_density + (max(gap, 0.0) if everywhere else 0.0) > limit:
                gaps.append(gap)
        return float(np.sqrt(np.mean(np.square(gaps)))) if gaps else np.inf

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unnormalized log pi* at theta (..., p), shape (...), and its gradient, (..., p)."""
        log_prior, prior_gradient = self.hyperprior.value_and_gradient(theta)
        inside = np.minimum(np.maximum(theta, self.low), self.high)
        value, gradient = self.emulator.value_and_gradient(inside)
        corrected, correction_gradient = self.correction.value_and_gradient(inside)
        m = np.minimum(value + corrected, self.ceiling)
        log_lik = np.logaddexp(m, self.log_floor)
        share = np.exp(m - log_lik) * (m < self.ceiling)
        slope = (gradient + correction_gradient) * (inside == theta) * share[..., None]
        return self.power * (log_prior + log_lik), self.power * (prior_gradient + slope)
