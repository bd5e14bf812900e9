"""The base class of likelihoods p(y | f): vectorized functions of a target and its latent value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .._typing import BoolArray, FloatArray, IntArray
from ..numerics import quadrature


class Derivatives(NamedTuple):
    """First three derivatives of log p(y | f) with respect to f, for each target."""

    first: FloatArray  # (n,)
    second: FloatArray  # (n,), not positive for a log-concave likelihood
    third: FloatArray  # (n,)


class TiltedMoments(NamedTuple):
    """Log integral of p(y | f) N(f; mean, var) over f, and its derivatives, for each target.

    The tilted mean is mean + var alpha; the tilted variance is var - var^2 beta.
    """

    log_z: FloatArray  # (n,), natural log of the integral
    alpha: FloatArray  # (n,), d log_z / d mean
    beta: FloatArray  # (n,), -d^2 log_z / d mean^2


class Parameter(NamedTuple):
    """A hyper-parameter of a likelihood, which is inferred."""

    name: str  # used for its prior and in reports
    positive: bool  # if so, its natural log is sampled; otherwise the value itself
    value: float  # its value in this likelihood, natural scale

    @property
    def start(self) -> float:
        """`value` on the scale on which the parameter is sampled."""
        return float(np.log(self.value)) if self.positive else self.value


class ParameterDerivatives(NamedTuple):
    """Derivatives of log p(y | f), and of its first two derivatives in f, in k parameters.

    Every parameter is on the scale on which it is sampled.
    """

    log_prob: FloatArray  # (k, n)
    first: FloatArray  # (k, n)
    second: FloatArray  # (k, n)


class PredictiveMoments(NamedTuple):
    """Mean and variance of targets whose latent values have a Gaussian distribution."""

    mean: FloatArray  # scale of the targets
    var: FloatArray  # scale of the targets, squared


class Likelihood(ABC):
    """Base class of likelihoods: the distribution of one target y given one latent value f.

    Targets are independent given f. All functions work elementwise and broadcast, so that `y` of
    shape (n, 1) can be used with `f` of shape (n, m).

    A new log-concave likelihood defines `name`, `log_concave` and the abstract methods. Tilted
    moments and predictive densities are then computed by quadrature, for which `bend` says at what
    f log p(y | f) changes its form. For a likelihood that is not log-concave, `bend` must return
    the points at which to cut the axis of f into panels, or a bound of log p(y | f). Override a
    method that has a closed form.

    `parameters` lists the parameters to be inferred. If there are any, `with_parameters` and
    `parameter_derivatives` must be defined too.

    Attributes
    ----------
    name : str
        Name in messages and registries.
    log_concave : bool
        Whether log p(y | f) is concave in f.
    steep : bool
        Whether the curvature of log p(y | f) is unbounded, or changes its form more than once, so
        that iterations for q should start near its mode.
    quadratic : bool
        Whether log p(y | f) is a quadratic function of f, so that p(f | y, theta) is Gaussian.
    counts : bool
        Whether targets are nonnegative integers. `predictive_cdf` then increases between integers
        too.
    largest_log_count : float
        Quantiles of counts are looked for up to exp of this number, less one. Up to the default,
        far beyond all counts that can be told apart, SciPy's distribution functions are numbers.
    targets : str
        Description of the valid targets in messages.
    n_functions : int
        Number of latent functions that a target depends on: one, except for `Softmax`.
    """

    name: ClassVar[str]
    log_concave: ClassVar[bool]
    steep: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    counts: ClassVar[bool] = False
    largest_log_count: ClassVar[float] = 230.0
    targets: ClassVar[str] = "finite numbers"
    n_functions: ClassVar[int] = 1

    def check_single(self, who: str, remedy: str) -> None:
        """Raise a ValueError, naming `who` and the remedy, if there are several functions."""
        if self.n_functions > 1:
            raise ValueError(
                f"{who} works with one latent function, and the {self.name} likelihood has one "
                f"for each class: use {remedy}."
            )

    @abstractmethod
    def log_prob(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Log p(y | f), point by point.

        Parameters
        ----------
        y, f : ndarray of shape (n,), or any shapes that broadcast
            Targets as the likelihood encodes them, and latent values.

        Returns
        -------
        ndarray of the common shape
            Natural log.
        """

    @abstractmethod
    def derivatives(self, y: FloatArray, f: FloatArray) -> Derivatives:
        """First, second and third derivative of log p(y | f) in f; shapes as in `log_prob`."""

    @abstractmethod
    def fisher_information(self, f: FloatArray) -> FloatArray:
        """Return the mean over y of the squared first derivative; the shape of `f`.

        If log p(y | f) is smooth, this is also the mean of minus the second derivative.
        """

    @abstractmethod
    def sample(self, f: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw one target for each latent value; the shape of `f`."""

    def legal(self, y: FloatArray) -> BoolArray:
        """Return which targets are valid, as described by `targets`; the shape of `y`."""
        return np.isfinite(y)

    def slope_and_precision(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First derivative of log p(y | f) in f, and the precision that matches its curvature.

        Where log p(y | f) is not concave, the precision is zero.
        """
        first, second, _ = self.derivatives(y, f)
        return first, np.maximum(-second, 0.0)

    def curvature(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return a nonnegative precision that depends on f, and its derivative in f.

        Riemannian metrics use it. It is minus the second derivative of log p(y | f), or zero where
        log p(y | f) is not concave.
        """
        _, second, third = self.derivatives(y, f)
        concave = second < 0.0
        return np.where(concave, -second, 0.0), np.where(concave, -third, 0.0)

    # --- parameters that are inferred -----------------------------------------------------------

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters to be inferred, besides those of the kernel; none by default."""
        return ()

    def with_parameters(self, values: FloatArray) -> Likelihood:
        """Return the same likelihood with other values of its parameters.

        Parameters
        ----------
        values : ndarray of shape (k,)
            In the order of `parameters`, on the scale on which each is sampled.
        """
        if len(values):
            raise NotImplementedError(
                f"The {self.name} likelihood lists parameters but cannot be given their values: "
                "it needs its own `with_parameters`."
            )
        return self

    def parameter_derivatives(self, y: FloatArray, f: FloatArray) -> ParameterDerivatives:
        """Return derivatives in the k parameters, stacked; `y` and `f` broadcast."""
        if self.parameters:
            raise NotImplementedError(
                f"The {self.name} likelihood lists parameters, so it needs its own "
                "`parameter_derivatives`."
            )
        nothing = np.empty((0, *np.broadcast_shapes(np.shape(y), np.shape(f))))
        return ParameterDerivatives(nothing, nothing, nothing)

    def parameter_slopes(self, y: FloatArray, f: FloatArray) -> FloatArray:
        """Return the first of `parameter_derivatives`, which integrals over f need at many f.

        Override it if it takes less time alone.
        """
        return self.parameter_derivatives(y, f).log_prob

    # --- integrals over f -----------------------------------------------------------------------

    def bend(self, y: FloatArray) -> quadrature.Shape:
        """Where log p(y | f) changes its form as a function of f; by default at 0, with width 2.

        It affects only the speed and the accuracy of the quadrature. A likelihood that is not
        log-concave must return `Cuts`, or a `Ceiling` if log p(y | f) is bounded and smooth.
        """
        return quadrature.Bend(np.asarray(0.0), np.asarray(2.0))

    def tilted_moments(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> TiltedMoments:
        """Log normalizer of p(y | f) N(f; mean, var), and its derivatives in the mean.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets as the likelihood encodes them.
        mean, var : ndarray of shape (n,)
            Cavity mean and variance, latent scale.

        Returns
        -------
        TiltedMoments
            Each (n,); NaN for a point with a negative variance.
        """
        y, mean, var = np.broadcast_arrays(y, mean, var)
        moments = self.weighted_tilted_moments(y.ravel(), None, mean.ravel(), var.ravel())
        return TiltedMoments(*(moment.reshape(mean.shape) for moment in moments))

    def weighted_tilted_moments(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> TiltedMoments:
        """Return `tilted_moments` for p(y | f)^weight, by quadrature; all of shape (n,).

        `weight` is positive; None means one everywhere.
        """
        return TiltedMoments(*self.tilted_densities(y, mean, var, weight).moments())

    def probit_signs(self, y: FloatArray) -> FloatArray | None:
        """Return s of shape (n,) if p(y | f) = Phi(s f), else None.

        Importance draws of f use s to draw row after row. A wrong s makes them inefficient, but not
        biased.
        """
        return None

    def tilted_parameter_gradient(
        self, y: FloatArray, weight: FloatArray | None, mean: FloatArray, var: FloatArray
    ) -> FloatArray:
        """Return derivatives of the tilted log normalizer in the parameters.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Targets as the likelihood encodes them.
        weight : ndarray of shape (n,) or None
            Powers of p(y | f); None means one everywhere.
        mean, var : ndarray of shape (n,)
            Cavity mean and variance, latent scale.

        Returns
        -------
        ndarray of shape (k, n)
            Derivatives at fixed mean and variance: the mean under the tilted density of weight
            times the derivative of log p(y | f).
        """
        tilted = self.tilted_densities(y, mean, var, weight)
        mean_slope = tilted.average(self.parameter_slopes)
        return mean_slope if weight is None else weight * mean_slope

    def log_predictive(
        self, y: npt.ArrayLike, mean: npt.ArrayLike, var: npt.ArrayLike
    ) -> FloatArray:
        """Log of the mean of p(y | f) over f ~ N(mean, var).

        Parameters
        ----------
        y, mean, var : array-like, of any shapes that broadcast
            Targets as the likelihood encodes them; predictive mean and variance, latent scale. A
            variance of zero is allowed.

        Returns
        -------
        ndarray of the common shape
            Natural log; NaN where the variance is negative.
        """
        y, mean, var = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (y, mean, var)))
        tilted = self.tilted_densities(y.ravel(), mean.ravel(), var.ravel(), None)
        return tilted.log_normalizer().reshape(mean.shape)

    def log_class_probabilities(
        self, mean: FloatArray, var: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the logs of the means of p(y | f) over f ~ N(mean, var), for y = -1.0 and +1.0.

        Classifiers of two classes use it. Here it takes two integrals, which need not add up to
        one.

        Parameters
        ----------
        mean, var : ndarray, of shapes that broadcast to that of the mean
            Predictive mean and variance, latent scale.

        Returns
        -------
        tuple of two ndarrays
            Natural logs, of -1.0 and of +1.0.
        """
        return self.log_predictive(-1.0, mean, var), self.log_predictive(1.0, mean, var)

    def predictive_moments(self, mean: FloatArray, var: FloatArray) -> PredictiveMoments:
        """Mean and variance of a target over f ~ N(mean, var), if targets are numbers.

        Parameters
        ----------
        mean, var : ndarray, of any shapes that broadcast
            Predictive mean and variance, latent scale. A variance of zero is allowed.
        """
        raise NotImplementedError(
            f"The {self.name} likelihood does not define the mean of a target."
        )

    @property
    def finite_variance(self) -> bool:
        """Whether targets have a variance, so that standard deviations can be predicted."""
        return True

    def predictive_cdf(self, y: FloatArray, mean: FloatArray, var: FloatArray) -> FloatArray:
        """Probability that a target over f ~ N(mean, var) is at most y; shapes that broadcast."""
        raise NotImplementedError(
            f"The {self.name} likelihood does not define quantiles of a target."
        )

    def at_new_rows(self) -> Likelihood:
        """Return the likelihood of new rows, without data that belong to training rows."""
        return self

    def of_rows(self, rows: IntArray) -> Likelihood:
        """Return the likelihood of some of the training rows, given by their indices."""
        return self

    def row_data(self, n_rows: int) -> FloatArray:
        """Return the data by which p(y | f) differs between training rows, (n_rows, k); here k = 0.

        If a subclass defines `of_rows` alone, the data of all rows are taken to be different.
        """
        if type(self).of_rows is Likelihood.of_rows:
            return np.empty((n_rows, 0))
        return np.arange(n_rows, dtype=float)[:, None]

    def tilted_densities(
        self, y: FloatArray, mean: FloatArray, var: FloatArray, weight: FloatArray | None
    ) -> quadrature.TiltedDensities:
        """Return densities proportional to p(y | f)^weight N(f; mean, var); all of shape (n,)."""
        shape = self.bend(y)
        if not self.log_concave and isinstance(shape, quadrature.Bend):
            raise NotImplementedError(
                f"The {self.name} likelihood is not log-concave, and the quadrature for tilted "
                "moments and predictions then needs `bend` to return `Cuts`."
            )
        density = quadrature.LogDensity(self.log_prob, self.slopes, self.log_concave)
        return quadrature.TiltedDensities(density, shape, y, mean, var, weight)

    def slopes(self, y: FloatArray, f: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the first two of `derivatives`."""
        first, second, _ = self.derivatives(y, f)
        return first, second


class PositiveParameters(Likelihood):
    """Base class of likelihoods whose parameters are positive fields of the dataclass.

    Attributes
    ----------
    inferred : tuple of str
        Names of the fields that are inferred.
    farthest : float
        Largest absolute value of the log of a parameter, which is clipped there. With the default
        its fourth power and the inverse of the power are within double precision. Chains may
        propose larger values, but the likelihood is then so small that the clipping does not
        matter.
    """

    farthest: ClassVar[float] = 170.0

    @property
    @abstractmethod
    def inferred(self) -> tuple[str, ...]:
        """Names of the fields that are inferred, in the order of `parameters`."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The inferred fields."""
        return tuple(Parameter(name, True, getattr(self, name)) for name in self.inferred)

    def log_range(self, name: str) -> tuple[float, float]:
        """Return the ends at which the log of a parameter is clipped."""
        return -self.farthest, self.farthest

    def with_parameters(self, values: FloatArray) -> Self:
        """Return the likelihood with the exponentials of `values` as its parameters."""
        if not len(values):
            return self
        given = dict[str, float]()
        for name, value in zip(self.inferred, values, strict=True):
            least, most = self.log_range(name)
            given[name] = float(np.exp(min(max(float(value), least), most)))
        return replace(self, **given)  # type: ignore[type-var]


class OneScaleLikelihood(PositiveParameters):
    """Base class of likelihoods with one positive parameter, which is a field of the dataclass.

    Attributes
    ----------
    scale : str
        Name of the parameter.
    fixed : bool
        Whether the parameter is fixed instead of inferred.
    """

    scale: ClassVar[str]
    fixed: bool

    @property
    def inferred(self) -> tuple[str, ...]:
        """The scale, unless it is fixed."""
        return () if self.fixed else (self.scale,)


def mask_negative(var: FloatArray) -> FloatArray:
    """Return variances with NaN in place of negative ones."""
    return np.where(var >= 0.0, var, np.nan)
