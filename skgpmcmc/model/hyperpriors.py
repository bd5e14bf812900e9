"""Priors of the hyper-parameters.

A prior is a frozen ``scipy.stats`` distribution of the hyper-parameter x on its *natural* scale.
Chains move on u = log x, whose density includes the Jacobian: log p(u) = log p_X(e^u) + u. The few
hyper-parameters that may be negative, such as a threshold, are sampled on their own scale: u = x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import differentiate, special, stats

from .._typing import FloatArray, IntArray
from ..numerics.linalg import LOG_TWO_PI
from .prior_table import PriorTable
from .shrinkage import SHRINKAGE, Shrinkage

#: Largest |log x| of a positive hyper-parameter x: beyond, its density is zero, and exp of theta
#: never overflows.
LOG_SCALE_LIMIT = 50.0
#: Largest absolute value of a hyper-parameter that may be negative.
REAL_LIMIT = 1e8
#: Probabilities of the quantiles between which searches look for theta.
_TAILS = (1e-12, 1.0 - 1e-12)


class HyperPrior:
    """Priors on the hyper-parameters, evaluated on the scale of sampling.

    The priors are independent, except for length-scales that shrink together.

    Parameters
    ----------
    names : sequence of str
        One name per component of theta; the components of a vector have the same name.
    distributions : mapping of str to frozen scipy distribution
        A univariate continuous distribution for every name, on the natural scale; on (0, inf) for
        a positive hyper-parameter.
    real : collection of str, default=()
        Names of the hyper-parameters that may be negative: their components of theta are the values
        themselves, all other components are natural logs of the values.
    origins : mapping of str to str, optional
        Description of the source of each prior.
    shrunk : mapping of str to ndarray of shape (d,), optional
        Names of length-scales that have the prior of `Shrinkage` together, with the width of each
        feature. Their scale tau, "shrinkage", is then one more component of theta, the last one.

    Attributes
    ----------
    names : tuple of str
        One name per component of theta.
    laws : tuple of frozen scipy distribution
        The marginal prior of each component, on the natural scale.
    distributions : dict of str to frozen scipy distribution
        The priors of independent hyper-parameters by name.
    positive : ndarray of bool of shape (p,)
        Which components are logs.

    Raises
    ------
    ValueError
        If a distribution is not a frozen continuous distribution, or its support is not within
        (0, inf) for a positive hyper-parameter.
    """

    def __init__(
        self,
        names: Sequence[str],
        distributions: Mapping[str, Any],
        real: Collection[str] = (),
        origins: Mapping[str, str] | None = None,
        shrunk: Mapping[str, FloatArray] | None = None,
    ) -> None:
        shrunk = dict(shrunk or {})
        self.names = (*names, SHRINKAGE) if shrunk else tuple(names)
        self.distributions = {
            name: distributions[name] for name in dict.fromkeys(names) if name not in shrunk
        }
        self.origins = dict(origins or {})
        self.positive = np.array([name not in real for name in self.names], dtype=bool)
        self._positions = {
            name: np.flatnonzero([name == other for other in self.names])
            for name in dict.fromkeys(self.names)
        }
        self._n_widths = {name: len(widths) for name, widths in shrunk.items()}
        coefficients = dict[str, _Coefficients]()
        others: list[tuple[IntArray, _NumericalPrior | Shrinkage]] = []
        for name, law in self.distributions.items():
            _check_distribution(name, law, positive=name not in real)
            form = _find_form(law, positive=name not in real)
            if isinstance(form, _Coefficients):
                coefficients[name] = form
            else:
                others.append((self._positions[name], form))
        self._groups = [self._make_shrinkage(shrunk)] if shrunk else []
        laws = {j: law for at, group in self._groups for j, law in zip(at, group.laws, strict=True)}
        self.laws = tuple(
            laws[j] if j in laws else self.distributions[name] for j, name in enumerate(self.names)
        )
        in_closed_form = [coefficients.get(name, _ZERO_COEFFICIENTS) for name in self.names]
        self._density = _ThetaDensity(in_closed_form, [*others, *self._groups])

        # The density may be positive within these bounds: supports within the limits of theta.
        supports = np.array([law.support() for law in self.laws], dtype=float).reshape(-1, 2)
        with np.errstate(divide="ignore"):
            supports[self.positive] = np.log(supports[self.positive])
        limit = np.where(self.positive, LOG_SCALE_LIMIT, REAL_LIMIT)
        self._lower = np.maximum(supports[:, 0], -limit)
        self._upper = np.minimum(supports[:, 1], limit)
        # Radius of the largest ball about the origin within the bounds: it contains most theta.
        self._radius = float(np.min([-self._lower, self._upper], initial=LOG_SCALE_LIMIT))

    def _make_shrinkage(self, shrunk: Mapping[str, FloatArray]) -> tuple[IntArray, Shrinkage]:
        """Return the positions of the length-scales that shrink and of tau, and their prior."""
        log_width = np.full(len(self.names), np.nan)
        for name, widths in shrunk.items():
            own = self._positions[name]
            log_width[own] = np.log(np.resize(widths, len(own)))  # kernel after kernel
        at = np.flatnonzero(np.isfinite(log_width))
        return np.append(at, len(self.names) - 1), Shrinkage(log_width[at])

    @property
    def start(self) -> FloatArray:
        """Start of the components that neither kernel nor likelihood has: log tau, or none."""
        return np.array([group.start for _, group in self._groups])

    @property
    def table(self) -> PriorTable:
        """The marginal priors by name; each of the length-scales that shrink has its own entry."""
        laws = dict[str, Any]()
        origins = dict[str, str]()
        for name, position in self._positions.items():
            n = self._n_widths.get(name, 1)
            elements = [f"{name}[{k}]" for k in range(n)] if n > 1 else [name]
            laws.update(zip(elements, (self.laws[j] for j in position), strict=False))
            origins.update(dict.fromkeys(elements, self.origins.get(name, "")))
        return PriorTable(laws, origins)

    @cached_property
    def bounds(self) -> FloatArray:
        """Quantiles of each prior at 1e-12 and 1 - 1e-12; (p, 2), on the scale of theta."""
        with np.errstate(all="ignore"):  # quantiles of a wide prior may overflow
            ends = np.array([law.ppf(_TAILS) for law in self.laws])
            ends = np.where(self.positive[:, None], np.log(np.abs(ends)), ends)
        ends = np.nan_to_num(ends, neginf=-REAL_LIMIT)
        return np.clip(ends, self._lower[:, None], self._upper[:, None])

    def value_limits(self, name: str) -> tuple[float, float]:
        """Return the least and the largest value of a hyper-parameter; natural scale."""
        (i, *_) = self._positions[name]
        if not self.positive[i]:
            return -REAL_LIMIT, REAL_LIMIT
        return math.exp(-LOG_SCALE_LIMIT), math.exp(LOG_SCALE_LIMIT)

    def to_natural(self, theta: FloatArray) -> FloatArray:
        """Return theta of shape (..., p) on the natural scale."""
        value = np.array(theta, dtype=float)
        value[..., self.positive] = np.exp(value[..., self.positive])
        return value

    def describe(self, theta: FloatArray) -> dict[str, Any]:
        """Return theta (p,) on the natural scale by name; vector hyper-parameters are lists."""
        natural = self.to_natural(theta).tolist()
        found = dict[str, Any]()
        for name in dict.fromkeys(self.names):
            own = [value for n, value in zip(self.names, natural, strict=True) if n == name]
            found[name] = own[0] if len(own) == 1 else own
        return found

    def _holds(self, theta: FloatArray) -> Any:
        """Whether theta, or each row of a batch, lies within the bounds; false for NaN."""
        # Python's norm takes a fraction of the time of NumPy's comparisons, and never warns.
        if theta.ndim == 1 and math.hypot(*theta.tolist()) <= self._radius:
            return True
        return ((self._lower <= theta) & (theta <= self._upper)).all(axis=-1)

    def log_prob(self, theta: FloatArray) -> Any:
        """Log density of theta, including the Jacobian; -inf outside the support.

        Parameters
        ----------
        theta : ndarray of shape (p,) or (m, p)
            Natural logs of positive hyper-parameters, the values of others; one point, or one per
            row.

        Returns
        -------
        float, or ndarray of shape (m,) for a batch
            Natural log.
        """
        if theta.ndim == 1:
            return float(self._density.value(theta)) if self._holds(theta) else -np.inf
        value = np.full(len(theta), -np.inf)
        rows = self._holds(theta)
        value[rows] = self._density.value(theta[rows])
        return value

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient of `log_prob` with respect to theta, of the shape of theta; 0 outside."""
        return np.asarray(self.value_and_gradient(theta)[1])

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return minus the second derivatives of `log_prob` at theta, clipped at 0; both (p,)."""
        return np.asarray(np.maximum(self._density.curvature(theta), 0.0))

    def value_and_gradient(self, theta: FloatArray) -> tuple[Any, FloatArray]:
        """Return `log_prob` and `gradient` in one call, which is faster.

        Parameters
        ----------
        theta : ndarray of shape (p,) or (m, p)
            As for `log_prob`.

        Returns
        -------
        value : float, or ndarray of shape (m,) for a batch
            Natural log.
        gradient : ndarray of the shape of theta
            Zero outside the support, so that trajectories remain finite.
        """
        if theta.ndim == 1:
            if not self._holds(theta):
                return -np.inf, np.zeros(theta.shape)
            total, slope = self._density.value_and_slope(theta)
            return float(total), slope
        value = np.full(len(theta), -np.inf)
        gradient = np.zeros(theta.shape)
        rows = self._holds(theta)
        value[rows], gradient[rows] = self._density.value_and_slope(theta[rows])
        return value, gradient

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """One draw of theta, of shape (p,)."""
        theta = np.empty(len(self.names))
        with np.errstate(over="ignore"):  # draws from a wide prior may overflow
            for name, law in self.distributions.items():
                at = self._positions[name]
                theta[at] = law.rvs(size=len(at), random_state=rng)
            for at, group in self._groups:
                theta[at] = np.exp(group.sample(rng))
        # A gamma variable of small shape may underflow to zero, the log of which is not finite.
        ends = np.exp([-LOG_SCALE_LIMIT, LOG_SCALE_LIMIT])
        theta[self.positive] = np.log(np.clip(theta[self.positive], *ends))
        return theta


def _check_distribution(name: str, distribution: Any, *, positive: bool) -> None:
    # Frozen distributions have the attribute "dist", their families only the other two.
    if not all(hasattr(distribution, part) for part in ("dist", "logpdf", "support")):
        raise ValueError(
            f"priors[{name!r}] must be a frozen continuous scipy.stats distribution, such as "
            f"scipy.stats.gamma(1.1, scale=10.0); got {distribution!r}."
        )
    lower, upper = distribution.support()
    if np.isnan(lower).any() or np.isnan(upper).any():
        raise ValueError(
            f"priors[{name!r}] has an invalid parameter, so that its support is undefined: "
            f"check its arguments {distribution.args} and {distribution.kwds}."
        )
    if not (np.ndim(lower) == 0 and lower < upper and (lower >= 0.0 or not positive)):
        raise ValueError(
            f"priors[{name!r}] has support ({lower}, {upper}), but the hyper-parameter is "
            f"{'positive' if positive else 'one number'} and the prior is stated on its natural "
            "scale: use a distribution on (0, inf), such "
            "as scipy.stats.gamma, scipy.stats.lognorm or scipy.stats.halfnorm."
        )


class _Coefficients(NamedTuple):
    """log p(u) = constant + linear z - square z^2 - exp(power z) with z = u - center.

    A family without the last term has power 0, and a constant larger by 1, which cancels the term;
    this is cheaper than one more coefficient.
    """

    center: float
    constant: float
    linear: float
    square: float
    power: float


#: Coefficients of a component whose log density is not of this form and is added separately.
_ZERO_COEFFICIENTS = _Coefficients(0.0, 1.0, 0.0, 0.0, 0.0)


class _ThetaDensity:
    """Log density of theta: components of the form of `_Coefficients` at once, then the others."""

    def __init__(
        self,
        coefficients: Sequence[_Coefficients],
        others: Sequence[tuple[IntArray, _NumericalPrior | Shrinkage]] = (),
    ) -> None:
        columns = np.array(coefficients, dtype=float).reshape(-1, len(_Coefficients._fields)).T
        self._center, constant, self._linear, self._square, self._power = columns.copy()
        self._constant = float(constant.sum())
        self._has_square = bool(np.any(self._square))
        self._ones = np.ones(len(coefficients))  # a product with ones is cheaper than a sum
        self._others = others

    def value(self, theta: FloatArray) -> Any:
        """Return the sum over the components, of shape () or (m,)."""
        z = theta - self._center
        total = z.dot(self._linear) - np.exp(self._power * z).dot(self._ones) + self._constant
        if self._has_square:
            total = total - (z * z).dot(self._square)
        for position, form in self._others:
            total = total + form.log_density(theta[..., position]).sum(axis=-1)
        return total

    def value_and_slope(self, theta: FloatArray) -> tuple[Any, FloatArray]:
        """Return the sum and its derivatives in theta, which have the shape of theta."""
        z = theta - self._center
        growth = np.exp(self._power * z)
        total = z.dot(self._linear) - growth.dot(self._ones) + self._constant
        slope = self._linear - self._power * growth
        if self._has_square:
            total = total - (z * z).dot(self._square)
            slope -= 2.0 * self._square * z
        for position, form in self._others:
            u = theta[..., position]
            total = total + form.log_density(u).sum(axis=-1)
            slope[..., position] = form.slope(u)
        return total, slope

    def curvature(self, theta: FloatArray) -> FloatArray:
        """Return minus the second derivatives; (p,)."""
        growth = np.exp(self._power * (theta - self._center))
        curvature = np.asarray(2.0 * self._square + self._power**2 * growth)
        for position, form in self._others:
            curvature[position] = form.curvature(theta[position])
        return curvature


#: Coefficients of families by class, as another package's family may also have the name "gamma".
#: Each function takes the log of the scale, then the shapes.
_FAMILY_COEFFICIENTS: dict[type, Callable[..., _Coefficients]] = {
    type(stats.gamma): lambda center, shape: _Coefficients(
        center, -float(special.gammaln(shape)), shape, 0.0, 1.0
    ),
    type(stats.invgamma): lambda center, shape: _Coefficients(
        center, -float(special.gammaln(shape)), -shape, 0.0, -1.0
    ),
    type(stats.expon): lambda center: _Coefficients(center, 0.0, 1.0, 0.0, 1.0),
    type(stats.weibull_min): lambda center, shape: _Coefficients(
        center, np.log(shape), shape, 0.0, shape
    ),
    # The center takes up the factor 1/2 in exp(2 z) / 2.
    type(stats.halfnorm): lambda center: _Coefficients(
        center + 0.5 * np.log(2.0), 0.5 * np.log(4.0 / np.pi), 1.0, 0.0, 2.0
    ),
    type(stats.lognorm): lambda center, sd: _Coefficients(
        center, 1.0 - np.log(sd) - 0.5 * LOG_TWO_PI, 0.0, 0.5 / sd**2, 0.0
    ),
    type(stats.loguniform): lambda center, low, high: _Coefficients(
        center, 1.0 - np.log(np.log(high / low)), 0.0, 0.0, 0.0
    ),
    type(stats.uniform): lambda center: _Coefficients(center, 1.0, 1.0, 0.0, 0.0),
}


def parameters_of(distribution: Any) -> tuple[list[np.float64], np.float64, np.float64]:
    """Return the shapes, the location and the scale of a frozen distribution.

    They are NumPy's floats, which overflow to infinity where Python's raise an error.
    """
    shapes = (distribution.dist.shapes or "").replace(",", " ").split()
    given = dict(zip([*shapes, "loc", "scale"], distribution.args, strict=False))
    given |= distribution.kwds
    loc = given.get("loc", 0.0)
    scale = given.get("scale", 1.0)
    return [np.float64(given[shape]) for shape in shapes], np.float64(loc), np.float64(scale)


def _find_form(distribution: Any, *, positive: bool) -> _Coefficients | _NumericalPrior:
    """Return the coefficients of a distribution, or its density if it is not of this form."""
    family = type(distribution.dist)
    shapes, loc, scale = parameters_of(distribution)
    if not positive and family is type(stats.norm):
        # The log of a log-normal variable is normal.
        return _FAMILY_COEFFICIENTS[type(stats.lognorm)](float(loc), float(scale))
    if positive and loc == 0.0 and family is type(stats.halfcauchy):
        return _HalfCauchyPrior(distribution)
    # With a location only the uniform density keeps this form: it is constant everywhere.
    in_place = loc == 0.0 or family is type(stats.uniform)
    if positive and in_place and family in _FAMILY_COEFFICIENTS:
        with np.errstate(all="ignore"):
            coefficients = _FAMILY_COEFFICIENTS[family](float(np.log(scale)), *shapes)
            ends = np.array([[-LOG_SCALE_LIMIT], [LOG_SCALE_LIMIT]])
            total, slope = _ThetaDensity([coefficients]).value_and_slope(ends)
        # All terms are largest at the ends: if they are finite there, no call overflows between.
        if np.all(np.isfinite(total)) and np.all(np.isfinite(slope)):
            return coefficients
    return _NumericalPrior(distribution, positive=positive)


class _NumericalPrior:
    """Components with any common prior, evaluated by SciPy, which is a hundred times slower."""

    def __init__(self, distribution: Any, *, positive: bool) -> None:
        self._distribution = distribution
        self._positive = positive
        self._lower, self._upper = distribution.support()
        if positive:
            with np.errstate(divide="ignore"):
                self._lower, self._upper = np.log([self._lower, self._upper])

    def log_density(self, u: FloatArray) -> FloatArray:
        """Return the log density of each component."""
        with np.errstate(all="ignore"):
            if not self._positive:
                return np.asarray(self._distribution.logpdf(u))
            return np.asarray(self._distribution.logpdf(np.exp(u)) + u)

    def slope(self, u: FloatArray) -> FloatArray:
        """Return the derivative of the log density, by finite differences; 0 if not finite."""
        # Within a step of an end of the support, the difference must be one-sided.
        step = 0.1
        near_lower = u - self._lower <= step
        near_upper = self._upper - u <= step
        direction = near_lower.astype(int) - near_upper.astype(int)
        with np.errstate(all="ignore"):
            slope = differentiate.derivative(
                self.log_density, u, initial_step=step, step_direction=direction
            ).df
        return np.where(np.isfinite(slope), slope, 0.0)

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return minus the second derivative of the log density."""
        # A few correct digits are enough for a metric.
        step = 1e-3
        return (self.slope(u - step) - self.slope(u + step)) / (2.0 * step)


class _HalfCauchyPrior(_NumericalPrior):
    """Components with a common half-Cauchy prior, in closed form."""

    def __init__(self, distribution: Any) -> None:
        super().__init__(distribution, positive=True)
        self._center = float(np.log(parameters_of(distribution)[2]))

    def log_density(self, u: FloatArray) -> FloatArray:
        """Return the log density of each component."""
        z = u - self._center
        return np.asarray(np.log(2.0 / np.pi) - np.logaddexp(z, -z))

    def slope(self, u: FloatArray) -> FloatArray:
        """Return the derivative of the log density."""
        return np.asarray(-np.tanh(u - self._center))

    def curvature(self, u: FloatArray) -> FloatArray:
        """Return minus the second derivative of the log density."""
        return np.asarray(1.0 - np.tanh(u - self._center) ** 2)
