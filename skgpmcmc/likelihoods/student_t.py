"""Real targets with heavy-tailed noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln, ndtr

from .._typing import FloatArray
from ..numerics import quadrature
from ..numerics.linalg import LOG_TWO_PI
from .base import (
    Derivatives,
    ParameterDerivatives,
    PositiveParameters,
    PredictiveMoments,
    TiltedMoments,
    mask_negative,
)

#: Ends of Gauss-Legendre panels, as distances from y in noise scales.
_PANEL_ENDS = np.array([0.4, 1.5, 6.0, 25.0, 100.0])
#: Largest step of the log precision. The nearest singularity is pi / 2 away: the error is
#: exp(-pi^2 / 0.3).
_LOG_PRECISION_STEP = 0.3
#: Largest step in standard deviations of the log precision, for many degrees of freedom.
_MANY_DF_STEP = 0.7
#: Minus the log of the precision of doubles.
_LOG_RESOLUTION = 36.0
#: Largest log of the inverse precision of noise, near which exp overflows.
_LARGEST_LOG = 700.0
#: Largest square of a residual, in squared noise scales: beyond, the density is NaN.
_LARGEST_SQUARE = 1e300
#: Ends of the degrees of freedom that are told apart: with fewer, integrals take ever more nodes;
#: with more, the noise is Gaussian.
_DF_RANGE = (0.1, 1e6)
#: Points whose predictive density is computed at once, which bounds the memory.
_POINTS_PER_CALL = 4096


@dataclass(frozen=True)
class StudentT(PositiveParameters):
    """Targets with location f and Student's t noise, which makes f robust to outliers.

    Parameters
    ----------
    noise_scale : float, default=1.0
        Scale of the noise; its standard deviation is ``sqrt(df / (df - 2))`` times larger, for
        df > 2. A starting value of the chains, unless `fixed`.
    df : float, default=4.0
        Degrees of freedom; with `infer_df`, a starting value of the chains.
    fixed : bool, default=False
        Keep `noise_scale` fixed instead of inferring it (as hyper-parameter ``"noise_scale"``).
    infer_df : bool, default=False
        Infer the degrees of freedom (as hyper-parameter ``"df"``). The default prior is
        Gamma(2, rate 0.1), with mean 20 [1]_; values are told apart between 0.1 and a million.

    Notes
    -----
    The variance of a new target is infinite for df <= 2. With inferred degrees of freedom, the
    posterior may include such values: there are no standard deviations of new targets then, and
    quantiles take their place.

    References
    ----------
    .. [1] Juarez, M. A. & Steel, M. F. J. (2010). Model-based clustering of non-Gaussian panel data
           based on skew-t distributions. Journal of Business & Economic Statistics 28(1), 52-66.
    """

    noise_scale: float = 1.0
    df: float = 4.0
    fixed: bool = False
    infer_df: bool = False

    name: ClassVar[str] = "student_t"
    log_concave: ClassVar[bool] = False
    steep: ClassVar[bool] = True

    @property
    def inferred(self) -> tuple[str, ...]:
        """The scale unless it is fixed, and with `infer_df` the degrees of freedom."""
        return ("noise_scale",) * (not self.fixed) + ("df",) * self.infer_df

    def log_range(self, name: str) -> tuple[float, float]:
        """See `PositiveParameters`."""
        if name == "df":
            return float(np.log(_DF_RANGE[0])), float(np.log(_DF_RANGE[1]))
        return super().log_range(name)

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log density of the t distribution with location f at y."""
        nu = self.df
        s = self.noise_scale
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi)
        z = (y - f) / s
        return np.asarray(constant - np.log(s) - 0.5 * (nu + 1.0) * np.log1p(z * z / nu))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return derivatives in f, with e = y - f, A = df noise_scale^2 and D = A + e^2."""
        e, A, D = self._residual_terms(y, f)
        c = self.df + 1.0
        ratio = e / D
        return Derivatives(
            c * ratio, c * (e * ratio - A / D) / D, 2.0 * c * ratio * (e * ratio - 3.0 * A / D) / D
        )

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return (df + 1) / ((df + 3) noise_scale^2)."""
        value = (self.df + 1.0) / ((self.df + 3.0) * self.noise_scale**2)
        return np.full(np.shape(f), value)

    def curvature(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Fisher information, which does not depend on f, and its derivative, zero."""
        information = self.fisher_information(f)
        return information, np.zeros_like(information)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw f plus noise."""
        return np.asarray(f + self.noise_scale * rng.standard_t(self.df, np.shape(f)))

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives in the logs of the inferred ones of noise_scale and df."""
        e, A, D = self._residual_terms(y, f)
        c = self.df + 1.0
        share = A / D
        ratio = e / D
        square = e * ratio
        of_scale = (
            c * square - 1.0,
            -2.0 * c * share * ratio,
            -2.0 * c * share * (1.0 + 2.0 * (square - share)) / D,
        )
        slope = self._slope_of_constant - np.log1p(e * e / A) + c * square / self.df
        ratio_slope = self.df - c * share  # of df times the log of c / D
        of_df = (
            0.5 * self.df * slope,
            ratio * ratio_slope,
            ((square - share) * (ratio_slope - c * share) - c * share) / D,
        )
        wanted = [of_scale] * (not self.fixed) + [of_df] * self.infer_df
        shape = np.broadcast_shapes(np.shape(y), np.shape(f))
        parts = (np.reshape([own[i] for own in wanted], (-1, *shape)) for i in range(3))
        return ParameterDerivatives(*parts)

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Log normalizer and its derivatives; without weights, by a scale mixture of Gaussians.

        Given the precision of its noise, a target is Gaussian, and f is integrated out in closed
        form.
        """
        if weight is not None:
            return super().weighted_tilted_moments(y, weight, mean, var)
        mixture = _ScaleMixture.of(self, y - mean, var)
        slope = mixture.average(mixture.residual / mixture.var)
        square = mixture.average((mixture.residual / mixture.var) ** 2)
        inverse = mixture.average(1.0 / mixture.var)
        return TiltedMoments(mixture.log_mass, slope, inverse - square + slope**2)

    def tilted_parameter_gradient(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return derivatives of the log normalizer in the logs of the parameters; (k, n)."""
        if weight is not None or not self.inferred:
            return super().tilted_parameter_gradient(y, weight, mean, var)
        mixture = _ScaleMixture.of(self, y - mean, var)
        slope = (mixture.residual / mixture.var) ** 2 - 1.0 / mixture.var
        of_scale = mixture.average(slope * mixture.noise)
        tilt = mixture.weight @ (mixture.log_precision - np.exp(mixture.log_precision))
        of_df = 0.5 * self.df * (np.log(0.5 * self.df) + 1.0 - digamma(0.5 * self.df) + tilt)
        return np.array([of_scale] * (not self.fixed) + [of_df] * self.infer_df)

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log of the mean of p(y | f) over f ~ N(mean, var); any shapes that broadcast."""
        y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        log_p = np.empty(y.size)
        residual = (y - mean).ravel()
        flat = var.ravel()
        for start in range(0, y.size, _POINTS_PER_CALL):
            rows = slice(start, start + _POINTS_PER_CALL)
            log_p[rows] = _ScaleMixture.of(self, residual[rows], flat[rows]).log_mass
        return log_p.reshape(y.shape)

    def bend(self, y: FloatArray) -> quadrature.Cuts:
        """Return cuts whose spacing grows with the distance from y."""
        places = self.noise_scale * np.concatenate([-_PANEL_ENDS[::-1], [0.0], _PANEL_ENDS])
        return quadrature.Cuts(y[:, None] + places)

    @property
    def finite_variance(self) -> bool:
        """Whether there are more than two degrees of freedom."""
        return self.df > 2.0

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a target over f ~ N(mean, var); infinite for df <= 2."""
        noise = np.inf if self.df <= 2.0 else self.noise_scale**2 * self.df / (self.df - 2.0)
        return PredictiveMoments(mean, var + noise)

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a target over f ~ N(mean, var) is at most y; shapes that broadcast."""
        y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        u = np.arange(*self._log_precisions, self._step)
        weight = np.exp(0.5 * self.df * (u - np.expm1(u)))
        noise = self.noise_scale**2 * np.exp(np.minimum(-u, _LARGEST_LOG))
        z = (y - mean)[..., None] / np.sqrt(var[..., None] + noise)
        return np.asarray(ndtr(z) @ (weight / weight.sum()))

    @property
    def _step(self) -> float:
        return min(_LOG_PRECISION_STEP, _MANY_DF_STEP * float(np.sqrt(2.0 / self.df)))

    @property
    def _log_precisions(self) -> tuple[float, float]:
        """Range of the log of the relative precision u of the noise under its prior.

        With c = 2 resolution / df, exp(u) - u - 1 is above c at both ends.
        """
        c = 2.0 * _LOG_RESOLUTION / self.df
        spread = float(np.sqrt(2.0 * c))
        return -c - min(spread, 1.0), float(np.log1p(c + spread))

    @property
    def _slope_of_constant(self) -> float:
        """Return twice the derivative of the constant of `log_prob` in df."""
        half = 0.5 * self.df
        return float(digamma(half + 0.5) - digamma(half) - 0.5 / half)

    def _residual_terms(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """Return e, A and D of `derivatives`."""
        e = np.asarray(y - f)
        A = self.df * self.noise_scale**2
        return e, A, np.asarray(A + e * e)


class _ScaleMixture(NamedTuple):
    """Student-t noise as Gaussian noise of unknown precision, integrated by the trapezoidal rule.

    The relative precision e^u of the noise has the density exp(df (u - e^u) / 2) in u, up to a
    constant: analytic, and vanishing at both ends, so the rule converges geometrically.
    """

    residual: FloatArray  # (n, 1), y - mean
    var: FloatArray  # (n, nodes), of y given u
    noise: FloatArray  # (n, nodes), variance of the noise given u
    log_precision: FloatArray  # (nodes,), u
    weight: FloatArray  # (n, nodes), posterior; each row sums to one
    log_mass: FloatArray  # (n,)

    @classmethod
    def of(cls, likelihood: StudentT, residual: FloatArray, var: FloatArray) -> _ScaleMixture:
        """Return the mixture for the residuals y - mean and the variances of f; both (n,)."""
        nu = likelihood.df
        s2 = likelihood.noise_scale**2
        var = mask_negative(var)[:, None]
        e = residual[:, None]
        # For a large residual the precision of its noise is small: u is near this center.
        square = np.minimum((residual / likelihood.noise_scale) ** 2, _LARGEST_SQUARE)
        center = np.minimum(np.log((nu + 1.0) / (nu + np.nan_to_num(square))), 0.0)
        (low, high) = likelihood._log_precisions
        step = likelihood._step
        n_nodes = int(np.ceil((high - low) / step)) + int(np.ceil(-center.min() / step))
        u = np.asarray(high - step * np.arange(n_nodes + 1.0), dtype=float)
        noise = np.broadcast_to(s2 * np.exp(np.minimum(-u, _LARGEST_LOG)), (len(e), len(u)))
        total = var + noise
        log_weight = 0.5 * (nu * (u - np.exp(u)) - np.log(total) - e * e / total)
        top = log_weight.max(axis=1)
        weight = np.exp(log_weight - top[:, None])
        mass = weight.sum(axis=1)
        constant = 0.5 * nu * np.log(0.5 * nu) - gammaln(0.5 * nu) - 0.5 * LOG_TWO_PI
        log_mass = top + np.log(mass * step) + constant
        return cls(e, total, noise, u, weight / mass[:, None], log_mass)

    def average(self, values: FloatArray) -> FloatArray:
        """Mean over the posterior of u; (n,)."""
        return np.asarray(np.einsum("ij,ij->i", self.weight, values))
