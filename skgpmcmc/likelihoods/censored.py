"""Normal targets, some of which are only known to lie in an interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .._typing import BoolArray, FloatArray, IntArray
from ..numerics import quadrature
from ..numerics.normal_interval import NormalInterval
from .base import Derivatives, ParameterDerivatives, TiltedMoments, mask_negative
from .gaussian import Gaussian

#: Ends of the panels around each end of an interval, in standard deviations of the noise.
_PANELS_AT_END = np.array([-8.0, -3.0, 0.0, 3.0, 8.0])


@dataclass(frozen=True, eq=False)
class CensoredGaussian(Gaussian):
    """Normal targets that are not told apart within an interval, which each row may have.

    A target y outside of the interval of its row has the density of `Gaussian`. If it is inside,
    nothing else is known: its likelihood is the probability of the interval.

    Parameters
    ----------
    noise_scale : float, default=1.0
        Standard deviation of the noise. A starting value of the chains, unless `fixed`.
    fixed : bool, default=False
        Keep `noise_scale` fixed instead of inferring it (as hyper-parameter ``"noise_scale"``).
    alpha : float, default=0.0
        Known noise variance that is added for every row, including new rows.
    row_variance : ndarray of shape (n,), optional
        Known noise variance of each training row, which is added as well.
    low, high : ndarray of shape (n,), or float, default=inf and -inf
        Ends of the interval of each training row, or of all of them; they may be infinite. No
        target is inside if `low` is not below `high`, as by default.

    Notes
    -----
    `BayesianGPRegressor` makes it from the `censored_to` of ``fit``. New targets are those of
    `Gaussian`, and are not censored. The log probability of an interval is concave in f, as the
    normal distribution is log-concave. Integrals over f are in closed form for rows of weight one
    with inputs of their own; else they take quadrature.
    """

    low: FloatArray | float = np.inf
    high: FloatArray | float = -np.inf

    name: ClassVar[str] = "censored_gaussian"
    quadratic: ClassVar[bool] = False

    def at_new_rows(self) -> Gaussian:
        """Return the likelihood of rows without intervals, and without `row_variance`."""
        return Gaussian(self.noise_scale, self.fixed, self.alpha)

    def of_rows(self, rows: IntArray) -> CensoredGaussian:
        """Return the likelihood of a subset of the rows, which keep their variances and ends."""
        variance = super().of_rows(rows).row_variance
        low, high = (
            np.asarray(end)[rows] if np.ndim(end) else end for end in (self.low, self.high)
        )
        return replace(self, row_variance=variance, low=low, high=high)

    def row_data(self, n_rows: int) -> FloatArray:
        """Return the variances and the ends that belong to single rows, as columns."""
        ends = [np.asarray(end)[:, None] for end in (self.low, self.high) if np.ndim(end)]
        return np.concatenate([super().row_data(n_rows), *ends], axis=1)

    def is_censored(self, y: FloatArray) -> BoolArray:
        """Return which targets are inside the intervals of their rows; the shape of y."""
        low, high = self._ends(y)
        return np.asarray((low <= y) & (y <= high) & (low < high))

    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log density of N(f, V) at y, or log probability of the interval."""
        censored = self.is_censored(y)
        interval, _ = self._intervals(censored, f, self.variance(y))
        return _replace_censored(censored, super().log_prob(y, f), interval.log_mass)

    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """Return derivatives in f, which moves the center of the noise."""
        censored = self.is_censored(y)
        interval, sd = self._intervals(censored, f, self.variance(y))
        slopes = [slope / sd**k for k, slope in enumerate(interval.slopes(), 1)]
        pairs = zip(super().derivatives(y, f), slopes, strict=True)
        return Derivatives(*(_replace_censored(censored, *pair) for pair in pairs))

    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return 1 / V less the information on where targets are in the interval."""
        low, _ = self._ends(f)
        has_interval = self.is_censored(low)
        interval, _ = self._intervals(has_interval, f, self.variance(f))
        exact = super().fisher_information(f)
        kept = 1.0 - np.exp(interval.log_mass) * (1.0 + interval.slopes()[1])
        return exact * _replace_censored(has_interval, np.ones(exact.shape), kept)

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives with respect to log noise_scale; k = 1, or 0 if it is fixed."""
        exact = super().parameter_derivatives(y, f)
        if self.fixed:
            return exact
        censored = self.is_censored(y)
        interval, sd = self._intervals(censored, f, self.variance(y))
        share = (self.noise_scale / sd) ** 2
        slopes = [share * slope / sd**k for k, slope in enumerate(interval.scale_slopes())]
        pairs = zip(exact, slopes, strict=True)
        return ParameterDerivatives(*(_replace_censored(censored, *pair) for pair in pairs))

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Log normalizer and its derivatives: closed form, or quadrature for weighted intervals.

        With f integrated out, its variance is added to the variance of the noise.
        """
        censored = self.is_censored(y)
        if weight is not None and censored.any():
            return super(Gaussian, self).weighted_tilted_moments(y, weight, mean, var)
        interval, sd = self._intervals(censored, mean, self.variance(y) + mask_negative(var))
        first, second, _ = interval.slopes()
        own = interval.log_mass, first / sd, -second / sd**2
        pairs = zip(super().weighted_tilted_moments(y, weight, mean, var), own, strict=True)
        return TiltedMoments(*(_replace_censored(censored, *pair) for pair in pairs))

    def tilted_parameter_gradient(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return derivatives of the log normalizer in log noise_scale; (k, n)."""
        exact = super().tilted_parameter_gradient(y, weight, mean, var)
        censored = self.is_censored(y)
        if self.fixed or not censored.any():
            return exact
        if weight is not None:
            tilted = self.tilted_densities(y, mean, var, weight)
            return weight * tilted.average(self._at_numbers(y, "parameter_slopes"))
        interval, sd = self._intervals(censored, mean, self.variance(y) + mask_negative(var))
        _, h1 = interval.moments(2)
        return _replace_censored(censored, exact, (self.noise_scale / sd) ** 2 * h1)

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log density, or probability of the interval, over f ~ N(mean, var)."""
        y, mean, var = (np.asarray(a, dtype=float) for a in (y, mean, var))
        censored = self.is_censored(y)
        interval, _ = self._intervals(censored, mean, self.variance(y) + mask_negative(var))
        exact = super().log_predictive(y, mean, var)
        return _replace_censored(censored, exact, interval.log_mass)

    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw f plus noise; of a target inside its interval only a place there is known."""
        y = super().sample(f, rng)
        low, high = self._ends(f)
        place = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
        return np.where(self.is_censored(y), place, y)

    def bend(self, y: FloatArray) -> quadrature.Cuts:
        """Return cuts around the ends of the interval, or around a target that is seen."""
        ends = [np.where(self.is_censored(y) & np.isfinite(x), x, y) for x in self._ends(y)]
        sd = np.broadcast_to(np.sqrt(self.variance(y)), y.shape)
        places = [end[:, None] + sd[:, None] * _PANELS_AT_END for end in ends]
        return quadrature.Cuts(np.concatenate(places, axis=1))

    def tilted_densities(
        self, y: FloatArray, mean: FloatArray, var: FloatArray, weight: FloatArray | None
    ) -> quadrature.TiltedDensities:
        """See `Likelihood`; the quadrature knows points by their numbers, as each has ends."""
        density = quadrature.LogDensity(
            self._at_numbers(y, "log_prob"), self._at_numbers(y, "slopes"), self.log_concave
        )
        numbers = np.arange(len(y))
        return quadrature.TiltedDensities(density, self.bend(y), numbers, mean, var, weight)

    def _at_numbers(self, y: FloatArray, method: str) -> Callable[[IntArray, FloatArray], Any]:
        """Return a method as a function of the numbers of rows, in place of y, and of f."""
        return lambda numbers, f: getattr(self.of_rows(numbers.ravel()), method)(y[numbers], f)

    def _ends(self, like: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """Return the ends so that they broadcast with an array whose rows have them."""
        low, high = (np.asarray(end, dtype=float) for end in (self.low, self.high))
        low, high = (x[:, None] if x.ndim and np.ndim(like) >= 2 else x for x in (low, high))
        return low, high

    def _intervals(
        self, censored: BoolArray, f: FloatArray, var: FloatArray
    ) -> tuple[NormalInterval, FloatArray]:
        """Return the intervals of all censored targets one after the other, and their scales.

        They are relative to f, in units of the square root of `var`, which are the scales.
        """
        inside, *parts = np.broadcast_arrays(censored, *self._ends(censored), f, np.sqrt(var))
        low, high, at, sd = (part[inside] for part in parts)
        interval = NormalInterval.of((low - at) / sd, (high - at) / sd, (high - low) / sd)
        return interval, sd


def _replace_censored(censored: BoolArray, exact: FloatArray, own: FloatArray) -> FloatArray:
    """Return values of exact targets with those of the censored ones, one after the other."""
    found = exact.copy()
    found[np.broadcast_to(censored, exact.shape)] = own
    return found
