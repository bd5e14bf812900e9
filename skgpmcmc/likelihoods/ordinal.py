"""Ordered classes (ordinal regression): each has an interval between two thresholds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from .._typing import BoolArray, FloatArray
from ..numerics import quadrature
from ..numerics.normal_interval import NormalInterval
from .base import (
    Derivatives,
    Likelihood,
    Parameter,
    ParameterDerivatives,
    TiltedMoments,
    mask_negative,
)

#: Ends of the panels around each threshold, in noise scales.
_PANELS_AT_THRESHOLD = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])


@dataclass(frozen=True)
class OrdinalProbit(Likelihood):
    """Ordinal probit: class k is observed if f plus normal noise lies in the k-th interval.

    ``P(k) = Phi((b_{k+1} - f) / noise_scale) - Phi((b_k - f) / noise_scale)`` with b_0 = -inf,
    b_r = inf, and `thresholds` in between.

    Parameters
    ----------
    thresholds : tuple of float
        The r - 1 increasing thresholds, on the latent scale. Starting values of the chains, unless
        `fixed`.
    noise_scale : float, default=1.0
        Standard deviation of the noise. It is not inferred, because thresholds, noise and f have
        one arbitrary common scale.
    fixed : bool, default=False
        Keep the thresholds fixed instead of inferring the first one (as hyper-parameter
        ``"threshold"``) and the gaps between them (as ``"threshold_gap"``).

    References
    ----------
    Chu & Ghahramani (2005), Gaussian processes for ordinal regression, JMLR 6; Filippone, Zhong &
    Girolami (2013), appendix B.4, with the sign of its second derivative corrected.
    """

    thresholds: tuple[float, ...]
    noise_scale: float = 1.0
    fixed: bool = False

    name: ClassVar[str] = "ordinal_probit"
    log_concave: ClassVar[bool] = True
    targets: ClassVar[str] = "class numbers 0.0, 1.0, ... in their order"

    @property
    def n_classes(self) -> int:
        """Number of classes r, one more than the number of thresholds."""
        return len(self.thresholds) + 1

    def legal(self, y: FloatArray) -> BoolArray:
        """Return where y is one of 0, ..., r - 1."""
        return np.isin(y, np.arange(self.n_classes))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The first threshold and the gaps, unless they are fixed."""
        if self.fixed:
            return ()
        gaps = np.diff(self.thresholds).tolist()
        return (
            Parameter("threshold", False, float(self.thresholds[0])),
            *(Parameter("threshold_gap", True, gap) for gap in gaps),
        )

    def with_parameters(self, values: FloatArray) -> OrdinalProbit:
        """Return the likelihood with other thresholds: the first, then logs of the gaps."""
        if not len(values):
            return self
        steps = np.concatenate([values[:1], np.exp(values[1:])])
        return replace(self, thresholds=tuple(np.cumsum(steps).tolist()))

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log probability of the class y."""
        return self._interval(y, f, self.noise_scale).log_mass

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return derivatives in f, which moves the center of the noise."""
        first, second, third = self._interval(y, f, self.noise_scale).slopes()
        s = self.noise_scale
        return Derivatives(first / s, second / s**2, third / s**3)

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return the sum over classes of p times the squared derivative of log p."""
        f = np.asarray(f, dtype=float)
        total = np.zeros(f.shape)
        for k in range(self.n_classes):
            interval = self._interval(np.full(f.shape, float(k)), f, self.noise_scale)
            (h0,) = interval.moments(1)
            total += np.exp(interval.log_mass) * h0 * h0
        return total / self.noise_scale**2

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw class numbers."""
        noisy = f + self.noise_scale * rng.standard_normal(np.shape(f))
        return np.searchsorted(self.thresholds, noisy).astype(float)

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives in the first threshold, then in the logs of the gaps; k = r - 1."""
        if self.fixed:
            return super().parameter_derivatives(y, f)
        y, f = np.broadcast_arrays(y, f)
        interval = self._interval(y, f, self.noise_scale)
        h0, h1 = interval.moments(2)
        s = self.noise_scale

        def of_end(sign: float, end: FloatArray) -> tuple[FloatArray, ...]:
            """Return derivatives in the position of one end of the interval."""
            u = sign * interval.end_density(end)
            x = np.where(np.isfinite(end), end, 0.0)  # any finite x: the density u is zero
            gap = x - h0
            return u / s, u * gap / s**2, u * ((x**2 - 1.0) - h1 - 2.0 * h0 * gap) / s**3

        k = y.astype(int)
        ends = zip(of_end(-1.0, interval.low), of_end(1.0, interval.high), strict=True)
        parts = [self._apply_chain_rule(k, at_low, at_high) for at_low, at_high in ends]
        return ParameterDerivatives(*parts)

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Log normalizer and its derivatives: closed form, or by quadrature where weighted.

        With f integrated out, its variance is added to the variance of the noise.
        """
        if weight is not None:
            return super().weighted_tilted_moments(y, weight, mean, var)
        scale = self._total_scale(var)
        interval = self._interval(y, mean, scale)
        first, second, _ = interval.slopes()
        return TiltedMoments(interval.log_mass, first / scale, -second / scale**2)

    def tilted_parameter_gradient(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return derivatives of the log normalizer; closed form without weights."""
        if weight is not None or self.fixed:
            return super().tilted_parameter_gradient(y, weight, mean, var)
        scale = self._total_scale(var)
        interval = self._interval(y, mean, scale)
        at_low = -interval.end_density(interval.low) / scale
        at_high = interval.end_density(interval.high) / scale
        return self._apply_chain_rule(y.astype(int), at_low, at_high)

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log probability of the class y over f ~ N(mean, var); any shapes that broadcast."""
        y, mean, var = (np.asarray(a, dtype=float) for a in (y, mean, var))
        return self._interval(y, mean, self._total_scale(var)).log_mass

    def bend(self, y: FloatArray) -> quadrature.Cuts:
        """Return cuts around the end points of the interval of y."""
        low, high = self._ends(y)
        low, high = np.where(np.isfinite(low), low, high), np.where(np.isfinite(high), high, low)
        places = self.noise_scale * _PANELS_AT_THRESHOLD
        return quadrature.Cuts(np.concatenate([low[:, None] + places, high[:, None] + places], 1))

    @cached_property
    def _edges(self) -> FloatArray:
        return np.concatenate([[-np.inf], self.thresholds, [np.inf]])

    def _ends(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        k = np.asarray(y).astype(int)
        return self._edges[k], self._edges[k + 1]

    def _interval(self, y: FloatArray, f: FloatArray, scale: float | FloatArray) -> NormalInterval:
        """Return the interval of y, in units of `scale` and relative to f."""
        low, high = self._ends(y)
        return NormalInterval.of(
            *map(np.asarray, ((low - f) / scale, (high - f) / scale, (high - low) / scale))
        )

    def _total_scale(self, var: FloatArray) -> FloatArray:
        return np.sqrt(self.noise_scale**2 + mask_negative(var))

    def _apply_chain_rule(
        self, k: npt.NDArray[np.int_], at_low: FloatArray, at_high: FloatArray
    ) -> FloatArray:
        """Chain rule from the two ends of each row's interval to the parameters; (r - 1, ...).

        Threshold j is the first one plus the gaps up to it.
        """
        result = np.empty((len(self.thresholds), *np.shape(k)))
        for j in range(len(self.thresholds)):  # thresholds from j on move together
            result[j] = np.where(k >= j + 1, at_low, 0.0) + np.where(k >= j, at_high, 0.0)
        last = k == len(self.thresholds)  # the upper end of the last class is at infinity
        result = np.where(last, np.where(np.isnan(result), 0.0, result), result)
        result[1:] *= np.diff(self.thresholds).reshape(-1, *(1 for _ in np.shape(k)))
        return result
