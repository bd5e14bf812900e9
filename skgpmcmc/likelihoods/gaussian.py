"""Normal targets: f is their mean, or the log of their standard deviation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import erf, ndtr

from .._typing import FloatArray, IntArray
from ..numerics.linalg import LOG_TWO_PI
from ..numerics.quadrature import DECREASING_TAIL, Bend, average_decreasing
from .base import (
    Derivatives,
    Likelihood,
    OneScaleLikelihood,
    ParameterDerivatives,
    PredictiveMoments,
    TiltedMoments,
    mask_negative,
)

#: Log that stands for log |y| where y is zero.
_LOG_SMALLEST = -300.0
#: Log of the standard deviations within which a normal variable lies, but for `DECREASING_TAIL`.
_LOG_REACH = 2.0


@dataclass(frozen=True, eq=False)
class Gaussian(OneScaleLikelihood):
    """Normal targets with mean f and variance noise_scale^2 + alpha + row_variance.

    Parameters
    ----------
    noise_scale : float, default=1.0
        Standard deviation of the noise. A starting value of the chains, unless `fixed`.
    fixed : bool, default=False
        Keep `noise_scale` fixed instead of inferring it (as hyper-parameter ``"noise_scale"``). A
        fixed `noise_scale` can be 0.0, so that all noise is known, if `alpha`, `row_variance` or
        the `noise_variance` of ``fit`` is positive.
    alpha : float, default=0.0
        Known noise variance that is added for every row, including new rows.
    row_variance : ndarray of shape (n,), optional
        Known noise variance of each training row, which is added as well.

    Notes
    -----
    `BayesianGPRegressor` takes `alpha` and `row_variance` in units of y squared, and adds its own
    parameter `alpha` and the `noise_variance` of ``fit``, in the same units. `noise_scale`, fixed
    or not, is in the units of all hyper-parameters: those of normalized targets, unless
    ``normalize_y=False``.
    """

    noise_scale: float = 1.0
    fixed: bool = False
    alpha: float = 0.0
    row_variance: FloatArray | None = None

    name: ClassVar[str] = "gaussian"
    scale: ClassVar[str] = "noise_scale"
    log_concave: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True

    def at_new_rows(self) -> Gaussian:
        """Return the likelihood of rows without `row_variance`."""
        return replace(self, row_variance=None)

    def of_rows(self, rows: IntArray) -> Gaussian:
        """Return the likelihood of a subset of the rows, which keep their variances."""
        own = None if self.row_variance is None else np.asarray(self.row_variance)[rows]
        return replace(self, row_variance=own)

    def row_data(self, n_rows: int) -> FloatArray:
        """Return `row_variance` as a column, (n_rows, 1), or without it nothing, (n_rows, 0)."""
        if self.row_variance is None:
            return np.empty((n_rows, 0))
        return np.asarray(self.row_variance, dtype=float)[:, None]

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log density of N(f, V) at y."""
        V = self.variance(y)
        return np.asarray(-0.5 * (LOG_TWO_PI + np.log(V) + (y - f) ** 2 / V))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return (y - f) / V, -1 / V and 0."""
        V = self.variance(y)
        first = np.asarray((y - f) / V)
        nothing = np.zeros(first.shape)
        return Derivatives(first, nothing - 1.0 / V, nothing)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return 1 / V."""
        return np.broadcast_to(1.0 / self.variance(f), np.shape(f)).copy()

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw f plus noise."""
        return np.asarray(f + np.sqrt(self.variance(f)) * rng.standard_normal(np.shape(f)))

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log noise_scale; k = 1, or 0 if it is fixed."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        V = self.variance(y)
        e = np.asarray(y - f)
        s2 = self.noise_scale**2
        second = np.zeros(e.shape) + 2.0 * s2 / (V * V)
        log_prob = s2 * (e * e / V - 1.0) / V
        return ParameterDerivatives(log_prob[None], (-2.0 * s2 * e / (V * V))[None], second[None])

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Log normalizer of p(y | f)^weight N(f; mean, var) and its derivatives, in closed form.

        N(f, V)^weight is N(f, V / weight) times a constant.
        """
        V = self.variance(mean)
        own = np.ones(np.shape(mean)) if weight is None else weight
        beta = np.where(var >= 0.0, 1.0, np.nan) / (var + V / own)
        alpha = beta * (y - mean)
        log_z = 0.5 * (np.log(V * beta / own) - (y - mean) * alpha)
        return TiltedMoments(log_z - 0.5 * own * (LOG_TWO_PI + np.log(V)), alpha, beta)

    def tilted_parameter_gradient(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return derivatives of the log normalizer in log noise_scale, closed form; (k, n)."""
        if self.fixed:
            return np.empty((0, len(y)))
        _, alpha, beta = self.weighted_tilted_moments(y, weight, mean, var)
        e = y - (mean + var * alpha)
        square = e * e + var * (1.0 - var * beta)
        V = self.variance(mean)
        gradient = self.noise_scale**2 * (square / V - 1.0) / V
        return np.asarray(gradient if weight is None else weight * gradient)[None]

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log density of N(mean, var + V) at y; any shapes that broadcast."""
        y, mean, var = (np.asarray(a, dtype=float) for a in (y, mean, var))
        V = self._target_variance(mean, mask_negative(var))
        with np.errstate(over="ignore"):  # the log of a density that underflows is minus infinity
            return np.asarray(-0.5 * (LOG_TWO_PI + np.log(V) + (y - mean) ** 2 / V))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a target over f ~ N(mean, var)."""
        return PredictiveMoments(mean, var + self.variance(mean))

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a target over f ~ N(mean, var) is at most y; shapes that broadcast."""
        return np.asarray(ndtr((y - mean) / np.sqrt(self._target_variance(mean, var))))

    def _target_variance(self, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Variance of a target over f ~ N(mean, var): at least the least positive number."""
        return np.maximum(var + self.variance(mean), np.finfo(float).tiny)

    def variance(self, like: FloatArray) -> FloatArray:
        """Return the variance V of y given f; it broadcasts with `like`, (n,) or (n, m)."""
        common = self.noise_scale**2 + self.alpha
        if self.row_variance is None:
            return np.asarray(common)
        total = common + self.row_variance
        return total if np.ndim(like) < 2 else total[:, None]


@dataclass(frozen=True)
class Volatility(Likelihood):
    """Normal targets with mean zero and standard deviation exp(f).

    Notes
    -----
    Filippone, Zhong & Girolami (2013), appendix B.3. log p is concave in f; it is linear where
    y = 0.
    """

    name: ClassVar[str] = "volatility"
    log_concave: ClassVar[bool] = True
    steep: ClassVar[bool] = True

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return -log(2 pi) / 2 - f - q / 2, q = y^2 exp(-2 f)."""
        return np.asarray(-0.5 * LOG_TWO_PI - f - 0.5 * _squared_z_score(y, f))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return q - 1, -2 q and 4 q."""
        q = _squared_z_score(y, f)
        with np.errstate(over="ignore"):
            return Derivatives(q - 1.0, -2.0 * q, 4.0 * q)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return 2 everywhere."""
        return np.full(np.shape(f), 2.0)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw normal variables of standard deviation exp(f)."""
        return np.asarray(np.exp(f) * rng.standard_normal(np.shape(f)))

    def bend(self, y: FloatArray) -> Bend:
        """Return the bend at exp(f) = abs(y).

        exp(-q / 2) decreases where the imaginary part of f is below pi/4.
        """
        with np.errstate(divide="ignore"):
            return Bend(np.maximum(np.log(np.abs(y)), _LOG_SMALLEST), np.asarray(1.5))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean (zero) and variance of a target over f ~ N(mean, var)."""
        return PredictiveMoments(np.zeros(np.shape(mean)), np.exp(2.0 * (mean + var)))

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a target over f ~ N(mean, var) is at most y; (m, 1), (m, g), (m, 1).

        P(-y < target < y | f) decreases with f from one to zero, around log y.
        """
        with np.errstate(divide="ignore"):
            log_size = np.maximum(np.log(np.abs(y)), _LOG_SMALLEST)
        inside = average_decreasing(
            lambda f: erf(np.exp(np.minimum(log_size[..., None] - f, 50.0)) / np.sqrt(2.0)),
            log_size - _LOG_REACH,
            log_size - np.log(DECREASING_TAIL),
            mean,
            var,
        )
        return np.asarray(0.5 + 0.5 * np.sign(y) * inside)


def _squared_z_score(y: FloatArray, f: FloatArray) -> FloatArray:
    """Return q = y^2 exp(-2 f), which is zero for y = 0 and any f."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.exp(2.0 * (np.log(np.abs(y)) - f))
