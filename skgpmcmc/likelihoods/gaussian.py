"""Real targets with normal noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from .._typing import FloatArray
from .base import (
    Derivatives,
    Likelihood,
    Parameter,
    ParameterDerivatives,
    PredictiveMoments,
    TiltedMoments,
    scale_of,
)

_LOG_TWO_PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Gaussian(Likelihood):
    """Normal targets with mean f and variance noise_scale^2 + alpha + row_variance.

    Parameters
    ----------
    noise_scale : float, default=1.0
        Standard deviation of the noise. Where chains may start, unless `fixed`.
    fixed : bool, default=False
        Keep `noise_scale` as it is instead of inferring it (as ``"noise_scale"``); 0.0 is legal
        where `alpha` or `row_variance` is positive.
    alpha : float, default=0.0
        Known variance that is added for every row, also for new ones.
    row_variance : ndarray of shape (n,), optional
        Known variance that is added for each training row.
    """

    noise_scale: float = 1.0
    fixed: bool = False
    alpha: float = 0.0
    row_variance: FloatArray | None = None

    name: ClassVar[str] = "gaussian"
    log_concave: ClassVar[bool] = True
    quadratic: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The standard deviation of the noise, unless it is fixed."""
        return () if self.fixed else (Parameter("noise_scale", True, self.noise_scale),)

    def with_parameters(self, values: FloatArray) -> Gaussian:
        """Return the likelihood with the noise scale exp(values[0])."""
        return replace(self, noise_scale=scale_of(values[0])) if len(values) else self

    def at_new_rows(self) -> Gaussian:
        """Return the likelihood of rows without a variance of their own."""
        return replace(self, row_variance=None)

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log density of N(f, V) at y."""
        V = self.variance(f)
        return np.asarray(-0.5 * (_LOG_TWO_PI + np.log(V) + (y - f) ** 2 / V))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return (y - f) / V, -1 / V and 0."""
        V = self.variance(f)
        first = np.asarray((y - f) / V)
        return Derivatives(first, np.broadcast_to(-1.0 / V, first.shape), np.zeros(first.shape))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return 1 / V."""
        return np.broadcast_to(1.0 / self.variance(f), np.shape(f)).copy()

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw f plus noise."""
        return np.asarray(f + np.sqrt(self.variance(f)) * rng.standard_normal(np.shape(f)))

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log noise_scale; k = 1, or 0 where it is fixed."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        V, e = self.variance(f), np.asarray(y - f)
        s2 = self.noise_scale**2
        second = np.broadcast_to(2.0 * s2 / V**2, e.shape)
        log_prob = s2 * (e * e / V - 1.0) / V
        return ParameterDerivatives(log_prob[None], (-2.0 * s2 * e / V**2)[None], second[None])

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Log normalizer of p(y | f)^weight N(f; mean, var) and its derivatives, closed form.

        N(f, V)^weight is N(f, V / weight) times a constant.
        """
        V = self.variance(mean)
        own = np.ones(np.shape(mean)) if weight is None else weight
        beta = np.where(var >= 0.0, 1.0, np.nan) / (var + V / own)
        alpha = beta * (y - mean)
        log_z = 0.5 * (np.log(V * beta / own) - (y - mean) * alpha)
        return TiltedMoments(log_z - 0.5 * own * (_LOG_TWO_PI + np.log(V)), alpha, beta)

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
        V = np.where(var >= 0.0, var, np.nan) + self.variance(mean)
        return np.asarray(-0.5 * (_LOG_TWO_PI + np.log(V) + (y - mean) ** 2 / V))

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a target over f ~ N(mean, var)."""
        return PredictiveMoments(mean, var + self.variance(mean))

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a target over f ~ N(mean, var) is at most y; shapes that broadcast."""
        return np.asarray(ndtr((y - mean) / np.sqrt(var + self.variance(mean))))

    def variance(self, like: FloatArray) -> FloatArray:
        """Return V, ready to go with an array of shape (n,) or (n, m)."""
        common = self.noise_scale**2 + self.alpha
        if self.row_variance is None:
            return np.asarray(common)
        total = common + self.row_variance
        return total if np.ndim(like) < 2 else total[:, None]
