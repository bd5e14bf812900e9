"""The emulator: a Gaussian process over theta, given values and gradients of a log evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy import linalg

from ..._typing import FloatArray
from ...model.default_priors import is_length_scale
from ...model.joint import LatentGP
from .options import EmulatorOptions


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

    def stretch(self, factor: FloatArray) -> Coordinates:
        """Return the coordinates divided by length-scales (p,)."""
        return replace(self, scale=self.scale * factor)

    def at(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coordinates of theta (..., p), and their derivatives in theta; both (..., p)."""
        inverse_square = np.exp(-2.0 * theta)
        # Not through the total, whose logarithm would lose a theta beyond 300.
        flattened = theta - 0.5 * np.log1p(self.flat / inverse_square)
        slope = inverse_square / (inverse_square + self.flat)
        return (flattened - self.center) / self.scale, slope / self.scale


def find_flattening(model: LatentGP, least: float) -> FloatArray:
    """Find inverse squares of length-scales beyond which little changes; 0 for other theta.

    At such a length-scale the mean squared difference of two rows, in length-scales, is `least`.
    """
    X = model.covariance.X
    kernel = model.covariance.kernel
    spread = 2.0 * X.var(axis=0)  # mean squared difference of two rows
    parts = []
    for h in kernel.hyperparameters:
        if h.fixed:
            continue
        if not is_length_scale(kernel, h.name):
            parts.append(np.zeros(h.n_elements))
            continue
        squares = spread if h.n_elements == len(spread) else np.array([spread.sum()])
        parts.append(least / np.maximum(squares, 1e-12))
    return model.pad(np.concatenate([np.empty(0), *parts * model.n_kernels]))


@dataclass(frozen=True, eq=False)
class Emulator:
    """Posterior mean of a Gaussian process over theta, given values and gradients.

    The process models ``-s log(1 + (top - v) / s)`` for values v. The transform is close to v - top
    near the largest value, while values hundreds of nats lower become only a few s lower: such
    points show where the function is low without dominating the scale of the process. The
    covariance function is 1 / (1 + r^2 / 2), the rational quadratic with exponent 1. It is a
    mixture of length-scales, which suits functions that are steep on one side and flat on the
    other, and it is cheap.

    Attributes
    ----------
    coordinates : Coordinates
    nodes : ndarray of shape (D, p)
        Design points in these coordinates.
    top, span, depth : float
        Largest value, s, and how far below the largest any value can be; natural logs.
    trend : float
        Mean of the process, by generalized least squares: a constant. A trend that decreases away
        from the design would make pi* too small there, so that chains would get stuck.
    sd : float
        Standard deviation of the process.
    value_weights : ndarray of shape (D,)
    gradient_weights : ndarray of shape (D, p)

    References
    ----------
    Rasmussen & Williams (2006), section 9.4, for derivative observations.
    """

    coordinates: Coordinates
    nodes: FloatArray
    top: float
    span: float
    depth: float
    trend: float
    sd: float
    value_weights: FloatArray
    gradient_weights: FloatArray

    @classmethod
    def fit(
        cls,
        theta: FloatArray,
        values: FloatArray,
        gradients: FloatArray,
        *,
        draws: FloatArray,
        flat: FloatArray,
        options: EmulatorOptions,
    ) -> Self:
        """Condition on values (D,) and gradients (D, p) at theta (D, p), natural logs.

        Parameters
        ----------
        theta, values, gradients : ndarrays
            Design points with their log evidences and gradients.
        draws : ndarray of shape (m, p)
            Typical points of the posterior, which determine the scale of the coordinates.
        flat : ndarray of shape (p,)
            See `Coordinates`.
        options : EmulatorOptions
            Tuning constants of the set-up.
        """
        dim = theta.shape[1]
        top = float(values.max())
        span = options.height_span + dim
        spans = (top - values) / span
        values = -span * np.log1p(spans)
        gradients = gradients / (1.0 + spans)[:, None]
        # A subset of the values decides on the length-scales, because each trial factorizes it.
        some = np.argsort(values)[-(options.most_values // (options.subset_divisor * (dim + 1))) :]
        compared = theta[some], values[some], gradients[some]
        typical = Coordinates.typical(draws, flat)
        coordinates = _stretch_to_likelihood(typical, *compared, options)
        nodes, slopes = coordinates.at(theta)
        c = _condition(nodes, values, gradients / slopes, options.nugget)
        weights = c.value_weights, c.gradient_weights
        return cls(coordinates, nodes, top, span, options.deepest(dim), c.trend, c.sd, *weights)

    def value_and_gradient(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the emulated function at theta (..., p): values (...) and gradients (..., p)."""
        z, slopes = self.coordinates.at(theta)
        squared, slope = self._near_nodes(z)
        k, first, second = _differentiate_covariance(squared)
        inner = self.trend + k @ self.value_weights + (first * slope).sum(axis=-1)
        pull = second * slope - first * self.value_weights
        gradient = pull.sum(axis=-1)[..., None] * z - pull @ self.nodes
        gradient += first @ self.gradient_weights
        gradient *= slopes
        stretch = self._stretch(inner)
        return self.top - self.span * (stretch - 1.0), gradient * stretch[..., None]

    def value(self, theta: FloatArray) -> FloatArray:
        """Return the emulated function at theta (..., p) without gradients; (...)."""
        squared, slope = self._near_nodes(self.coordinates.at(theta)[0])
        k, first, _ = _differentiate_covariance(squared)
        inner = self.trend + k @ self.value_weights + (first * slope).sum(axis=-1)
        return np.asarray(self.top - self.span * (self._stretch(inner) - 1.0))

    def deviation(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a bound of the standard deviation of the process, and its gradient, at theta.

        The bound is the standard deviation given value and gradient at the nearest node only, since
        that given all nodes would need a triangular solve for every theta. With r the distance and
        u = r^2 / 2, it is the process's own times ``u sqrt(5 + 4 u + u^2) / (1 + u)^2``.

        Parameters
        ----------
        theta : ndarray of shape (..., p)
            Natural logs.

        Returns
        -------
        deviation : ndarray of shape (...)
            The bound.
        gradient : ndarray of shape (..., p)
            Its gradient in theta.
        """
        z, slopes = self.coordinates.at(theta)
        nearest = self._near_nodes(z)[0].argmin(axis=-1)
        gap = z - self.nodes[nearest]
        u = 0.5 * (gap * gap).sum(axis=-1)
        quadratic = 5.0 + u * (4.0 + u)
        slope = self.sd * np.sqrt(quadratic) / (1.0 + u) ** 2
        relative = 1.0 + u * (2.0 + u) / quadratic - 2.0 * u / (1.0 + u)
        return u * slope, (slope * relative)[..., None] * gap * slopes

    def _near_nodes(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return squared distances of z (..., p) to the nodes, and slopes there; (..., D)."""
        squares, offsets = self._of_nodes
        gap = squares + (z * z).sum(axis=-1)[..., None] - 2.0 * (z @ self.nodes.T)
        slope = z @ self.gradient_weights.T - offsets
        return np.maximum(gap, 0.0), slope

    def _stretch(self, inner: FloatArray) -> FloatArray:
        return np.exp(np.minimum(-inner / self.span, np.log1p(self.depth / self.span)))

    @cached_property
    def _of_nodes(self) -> tuple[FloatArray, FloatArray]:
        """Squares of the nodes, and their products with the gradients' weights; both (D,)."""
        products = self.nodes * self.nodes, self.nodes * self.gradient_weights
        return products[0].sum(axis=1), products[1].sum(axis=1)


def _stretch_to_likelihood(
    typical: Coordinates,
    theta: FloatArray,
    values: FloatArray,
    gradients: FloatArray,
    options: EmulatorOptions,
) -> Coordinates:
    """Stretch the coordinates by length-scales that maximize the marginal likelihood.

    The length-scales change by a factor while the likelihood grows, first all of them together, and
    then each of them alone.
    """

    def score_of(coordinates: Coordinates) -> float:
        """Log density of values and gradients by theta."""
        nodes, slopes = coordinates.at(theta)
        conditioned = _condition(nodes, values, gradients / slopes, options.nugget)
        return conditioned.log_likelihood - float(np.log(slopes).sum())

    p = len(typical.scale)
    found = typical.stretch(np.full(p, options.first_length_scale))
    score = score_of(found)
    for which in (np.ones(p), *np.eye(p)):
        for sign in (1.0, -1.0):
            factor = options.stretch_factor ** (sign * which)
            for _ in range(options.n_stretches):
                further = found.stretch(factor)
                better = score_of(further)
                if better <= score:
                    break
                found = further
                score = better
    return found


class _ConditionedProcess(NamedTuple):
    """A Gaussian process given values and gradients; see `Emulator` for trend and weights."""

    log_likelihood: float
    trend: float
    sd: float
    value_weights: FloatArray
    gradient_weights: FloatArray


def _differentiate_covariance(squared: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return k = 1 / (1 + r^2 / 2), k1 = -2 dk/dr^2 and k2 = 2 dk1/dr^2."""
    k = 1.0 / (1.0 + 0.5 * squared)
    first = k * k
    return k, first, -2.0 * first * k


def _joint_covariance(nodes: FloatArray) -> FloatArray:
    """Covariance of all values, then all gradients, node after node; (D (p + 1),) squared."""
    n, p = nodes.shape
    gap = nodes[:, None, :] - nodes
    k, first, second = _differentiate_covariance(np.einsum("ijr,ijr->ij", gap, gap))
    K = np.empty((n * (p + 1), n * (p + 1)))
    K[:n, :n] = k
    K[:n, n:] = (first[:, :, None] * gap).reshape(n, n * p)
    K[n:, :n] = K[:n, n:].T
    blocks = K[n:, n:].reshape(n, p, n, p)
    np.einsum("ij,ijr,ijs->irjs", second, gap, gap, out=blocks, optimize=True)
    for r in range(p):
        blocks[:, r, :, r] += first
    return K


def _condition(
    nodes: FloatArray, values: FloatArray, gradients: FloatArray, nugget: float
) -> _ConditionedProcess:
    """Condition on values and gradients in the coordinates of the nodes, with profile likelihood.

    The factorization is not counted among the O(n^3) operations, as its size is that of the design.
    """
    n, p = nodes.shape
    K = _joint_covariance(nodes)
    K.flat[:: len(K) + 1] += nugget
    factor = linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    observed = np.concatenate([values, gradients.ravel()])
    constant = np.concatenate([np.ones(n), np.zeros(n * p)])
    solved, of_constant = linalg.cho_solve((factor, True), np.stack([observed, constant], 1)).T
    precision = float(constant @ of_constant)
    trend = float(constant @ solved) / precision
    weights = solved - trend * of_constant
    variance = max(float(weights @ (observed - trend * constant)) / len(observed), 1e-300)
    log_det = float(np.log(factor.diagonal()).sum()) + 0.5 * np.log(precision)
    log_likelihood = -0.5 * len(observed) * np.log(variance) - log_det
    sd = float(np.sqrt(variance))
    return _ConditionedProcess(log_likelihood, trend, sd, weights[:n], weights[n:].reshape(n, p))
