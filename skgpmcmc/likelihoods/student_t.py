"""Real targets with heavy-tailed noise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, stdtr

from .. import _quadrature as quadrature
from .._typing import FloatArray
from .base import Derivatives, Likelihood, Parameter, ParameterDerivatives, PredictiveMoments

__all__ = ["StudentT"]

#: Where the density changes its character, in noise scales from y; Gauss-Legendre panels between.
_CUTS = np.array([0.4, 1.5, 6.0, 25.0, 100.0])


@dataclass(frozen=True)
class StudentT(Likelihood):
    """Targets with mean f and Student's t noise: outliers do not move f.

    Parameters
    ----------
    noise_scale : float, default=1.0
        Scale of the noise (its standard deviation is ``sqrt(df / (df - 2))`` times larger). Where
        chains may start, unless `fixed`.
    df : float, default=4.0
        Degrees of freedom, not inferred.
    fixed : bool, default=False
        Keep `noise_scale` as it is instead of inferring it (as ``"noise_scale"``).
    """

    noise_scale: float = 1.0
    df: float = 4.0
    fixed: bool = False

    name: ClassVar[str] = "student_t"
    log_concave: ClassVar[bool] = False
    steep: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The scale of the noise, unless it is fixed."""
        return () if self.fixed else (Parameter("noise_scale", True, self.noise_scale),)

    def with_parameters(self, values: FloatArray) -> StudentT:
        """Return the likelihood with the noise scale exp(values[0])."""
        return replace(self, noise_scale=float(np.exp(values[0]))) if len(values) else self

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log density of the t distribution with location f at y."""
        nu, s = self.df, self.noise_scale
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * np.pi)
        z = (y - f) / s
        return np.asarray(constant - np.log(s) - 0.5 * (nu + 1.0) * np.log1p(z * z / nu))

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return derivatives in f, with e = y - f, A = df noise_scale^2 and D = A + e^2."""
        e, A, D = self._parts(y, f)
        c = self.df + 1.0
        ratio = e / D
        return Derivatives(
            c * ratio,
            c * (e * ratio - A / D) / D,
            2.0 * c * ratio * (e * ratio - 3.0 * A / D) / D,
        )

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return (df + 1) / ((df + 3) noise_scale^2)."""
        value = (self.df + 1.0) / ((self.df + 3.0) * self.noise_scale**2)
        return np.full(np.shape(f), value)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw f plus noise."""
        return np.asarray(f + self.noise_scale * rng.standard_t(self.df, np.shape(f)))

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log noise_scale; k = 1, or 0 where it is fixed."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        e, A, D = self._parts(y, f)
        c = self.df + 1.0
        share, ratio = A / D, e / D
        log_prob = c * e * ratio - 1.0
        second = -2.0 * c * share * (1.0 + 2.0 * (e * ratio - share)) / D
        return ParameterDerivatives(
            np.asarray(log_prob)[None], np.asarray(-2.0 * c * share * ratio)[None], second[None]
        )

    def bend(self, y: FloatArray) -> quadrature.Cuts:
        """Return panels whose width grows with the distance from y."""
        places = self.noise_scale * np.concatenate([-_CUTS[::-1], [0.0], _CUTS])
        return quadrature.Cuts(y[:, None] + places)

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a target over f ~ N(mean, var); infinite for df <= 2."""
        noise = np.inf if self.df <= 2.0 else self.noise_scale**2 * self.df / (self.df - 2.0)
        return PredictiveMoments(mean, var + noise)

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a target over f ~ N(mean, var) is at most y; shapes that broadcast."""
        y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        nothing = quadrature.LogDensity(_zero, _no_slope, False)

        def probability(y: FloatArray, f: FloatArray) -> FloatArray:
            value = stdtr(self.df, (y - f) / self.noise_scale)
            return np.asarray(value, dtype=float)[None]

        flat = y.ravel()
        value = quadrature.average(
            probability, nothing, self.bend(flat), flat, mean.ravel(), var.ravel()
        )
        return value.reshape(y.shape)

    def _parts(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        e, A = np.asarray(y - f), self.df * self.noise_scale**2
        return e, A, np.asarray(A + e * e)


def _zero(y: FloatArray, f: FloatArray) -> FloatArray:
    return np.zeros(np.shape(f))


def _no_slope(y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
    return np.zeros(np.shape(f)), np.zeros(np.shape(f))
