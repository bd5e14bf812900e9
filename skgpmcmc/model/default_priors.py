"""The priors of hyper-parameters that the user leaves out: the defaults, and those of the papers.

A default depends on what a hyper-parameter is. That is known from the class that owns it, and from
where that stands in the kernel: a constant that multiplies a `DotProduct` has the unit 1 / X^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    ExpSineSquared,
    Kernel,
    PairwiseKernel,
    Product,
    RationalQuadratic,
    Sum,
    WhiteKernel,
)

from .._typing import FloatArray
from ..likelihoods.base import Likelihood
from ..likelihoods.counts import NegativeBinomial
from ..likelihoods.gaussian import Gaussian
from ..likelihoods.ordinal import OrdinalProbit
from ..likelihoods.student_t import StudentT
from .covariance import Covariance
from .hyperpriors import HyperPrior
from .lengths import column_widths, length_bounds, period_bounds, size_of_rows, spread_of_rows
from .prior_table import PriorTable
from .shrinkage import SHRINKAGE

#: Share of a length's prior below its lower, and above its upper end.
_TAIL = 0.01
#: Log-normal prior of a variance: median, and standard deviation of the log.
_VARIANCE = (4.0, 2.0)
#: The same of the standard deviation of noise.
_NOISE = (0.3, 1.5)
#: The same of the shape of negative binomial counts.
_SHAPE = (10.0, 3.0)
#: The same of a pure number.
_NUMBER = (1.0, 1.0)
#: Shape and scale of the papers' Gamma prior of a variance.
_OF_PAPERS = (1.1, 10.0)
#: Where the priors of length-scales that shrink together come from, and of what they share.
_SHRUNK = "sparse: (width / length-scale)^2 is half-Cauchy(shrinkage)"
_SHRINKAGE = "sparse: shared by the length-scales"
#: Powers of units stay within these, so that priors have numbers: inputs may have any size.
_UNIT_LIMITS = (1e-100, 1e100)


class Default(NamedTuple):
    """A prior that the user has not given."""

    law: Any  # frozen scipy distribution, natural scale
    origin: str  # the rule that it follows


class Place(NamedTuple):
    """A kernel without parts, and where it stands in the whole.

    The whole, or a factor of it, is `kernel` to the power `power`, times what else there may be.
    """

    kernel: Kernel
    degree: float  # a constant here has the unit of X to this power
    power: float


class Inputs(NamedTuple):
    """What rules know of the model besides the kernel."""

    X: FloatArray  # (n, d)
    per_feature: bool  # whether every feature has a hyper-parameter of this name
    n_functions: int  # latent functions of a row


# --- the whole model ------------------------------------------------------------------------------


def default_hyperprior(
    covariance: Covariance,
    likelihood: Likelihood,
    priors: Mapping[str, Any] | str | None = None,
    n_kernels: int = 1,
) -> HyperPrior:
    """Return the prior of theta.

    Parameters
    ----------
    covariance : Covariance
        Covariance with the names of its hyper-parameters and the training inputs.
    likelihood : Likelihood
        Its parameters come last.
    priors : mapping of str to frozen scipy.stats distribution, "paper", "sparse" or None, \
            default=None
        Names left out get the priors of `default_priors`; with "paper", all get `paper_prior`. With
        "sparse", length-scales of single features shrink together; a mapping may have "sparse" for
        some of them.
    n_kernels : int, default=1
        Number of kernels, each with the hyper-parameters of the covariance.

    Raises
    ------
    ValueError
        If a prior is not a distribution, or if length-scales are to shrink that do not belong to
        single features.
    """
    parameters = likelihood.parameters
    names = (*covariance.names * n_kernels, *(parameter.name for parameter in parameters))
    real = {parameter.name for parameter in parameters if not parameter.positive}
    table = default_priors(covariance.kernel, covariance.X, likelihood)
    if priors == "paper":
        laws = {name: paper_prior(name, covariance.X, positive=name not in real) for name in table}
        table = PriorTable(laws, dict.fromkeys(table, "paper"))
    elif isinstance(priors, Mapping):
        table = PriorTable({**table, **priors}, {**table.origins, **dict.fromkeys(priors, "given")})
    shrunk = _shrinking_names(covariance, priors)
    if not shrunk:
        return HyperPrior(names, table, real, table.origins)
    origins = {**table.origins, **dict.fromkeys(shrunk, _SHRUNK), SHRINKAGE: _SHRINKAGE}
    widths = dict.fromkeys(shrunk, column_widths(covariance.X))
    return HyperPrior(names, table, real, origins, widths)


def _shrinking_names(covariance: Covariance, priors: Mapping[str, Any] | str | None) -> list[str]:
    """Return the names of the length-scales that shrink together."""
    d = covariance.X.shape[1]
    possible = [
        h.name
        for h in covariance.kernel.hyperparameters
        if not h.fixed and h.n_elements == d and is_length_scale(covariance.kernel, h.name)
    ]
    wanted = possible if priors == "sparse" else []
    if isinstance(priors, Mapping):
        wanted = [name for name, law in priors.items() if isinstance(law, str) and law == "sparse"]
    if not set(wanted) <= set(possible) or (priors == "sparse" and not possible):
        what = priors if isinstance(priors, str) else dict.fromkeys(wanted, "sparse")
        raise ValueError(
            f"priors={what!r} is for length-scales of which every feature has its own, and "
            f"kernel={covariance.kernel} has {possible or 'none'} among those that are sampled, "
            f"for {d} features: use ard=True for the default kernel, or in your own a length-scale "
            f"per feature, such as RBF(np.ones({d}))."
        )
    return wanted


def default_priors(
    kernel: Kernel, X: FloatArray, likelihood: Likelihood | None = None
) -> PriorTable:
    """Return the default prior of every hyper-parameter that is not fixed.

    Parameters
    ----------
    kernel : Kernel
        Kernel of scikit-learn's kind.
    X : ndarray of shape (n, d)
        Training inputs.
    likelihood : Likelihood, optional
        Its parameters come last.

    Returns
    -------
    PriorTable
        Frozen scipy distributions on the natural scale, by name: log-normal for positive
        hyper-parameters, else the normal distribution with mean 0 and standard deviation 3.

    Notes
    -----
    The prior depends on the class that owns a hyper-parameter; a subclass has the rules of its
    parent.

    * ``constant_value`` of a ConstantKernel is a variance: the standard deviation has median 2, and
      lies between 0.4 and 10 with probability 0.9. If it multiplies a kernel with a unit, such as
      DotProduct with the unit X^2, it has the inverse unit, and is stated for inputs divided by
      their spread (the median distance of rows from the median of every feature). Within a power p
      the same holds for ``constant_value`` to the power p. With a softmax the variance has the
      prior Gamma(1.1, rate 0.1) instead, as estimates fail at large ones.
    * ``noise_scale`` of Gaussian and Student's t noise has median 0.3, in units of the standard
      deviation of the targets; ``noise_level`` of a WhiteKernel is its square.
    * ``length_scale`` of RBF, Matern and RationalQuadratic is below half the distance of
      neighboring inputs with probability 0.01, and above three times the width of the inputs with
      probability 0.01 (see `length_bounds`): data have no information about a length-scale outside
      this range (Betancourt, 2017, "Robust Gaussian processes in Stan, part 3"). ``gamma`` of a
      PairwiseKernel follows from it: 1 / (2 length^2) for the metric "rbf", and 1 / (length
      sqrt(d)) for "laplacian" and "chi2".
    * ``periodicity`` of ExpSineSquared is below the distance of neighboring inputs, and above the
      width of the inputs, with probability 0.01 each (see `period_bounds`).
    * ``sigma_0`` of DotProduct is log-normal(0, 1) in units of the size of the rows, which is the
      root of the median of ``|x|^2``; ``gamma`` of the metrics "poly" and "sigmoid" is
      1 / sigma_0^2.
    * ``length_scale`` of ExpSineSquared, ``alpha`` of RationalQuadratic and ``threshold_gap`` of
      ordered classes are pure numbers: log-normal(0, 1). ``shape`` of negative binomial counts has
      median 10 and a long upper tail, where counts are nearly Poisson.
    * A hyper-parameter of another class counts as a pure number, whatever it is called.
    """
    laws = dict[str, Any]()
    origins = dict[str, str]()
    n_functions = 1 if likelihood is None else likelihood.n_functions
    places = dict(_places(kernel, "", 0.0, 1.0))
    for hyperparameter in kernel.hyperparameters:
        if not hyperparameter.fixed:
            owner, own_name = owner_of(kernel, hyperparameter.name)
            path = hyperparameter.name.removesuffix(own_name)
            place = places.get(path, Place(owner, 0.0, 1.0))
            inputs = Inputs(X, hyperparameter.n_elements > 1, n_functions)
            default = _of_kernel(place, own_name, inputs)
            laws[hyperparameter.name], origins[hyperparameter.name] = default
    for parameter in () if likelihood is None else likelihood.parameters:
        default = _of_likelihood(likelihood, parameter.name, positive=parameter.positive)
        laws[parameter.name], origins[parameter.name] = default
    return PriorTable(laws, origins)


def owner_of(kernel: Kernel, name: str) -> tuple[Kernel, str]:
    """Return the part of a kernel that owns a hyper-parameter, and what it is called there."""
    path, _, own_name = name.rpartition("__")
    return kernel.get_params().get(path, kernel), own_name


def is_known(kernel: Kernel, name: str) -> bool:
    """Whether the default prior of a kernel's hyper-parameter follows from what it is."""
    return _rule_of(kernel, name) is not None


def is_length_scale(kernel: Kernel, name: str) -> bool:
    """Whether a hyper-parameter is a length in the units of X, beyond which little changes."""
    return _rule_of(kernel, name) is _length


def period_positions(model: Any) -> list[tuple[int, int | None]]:
    """Return where theta has periods, each with the length-scale of its kernel, if that is free."""
    kernel = model.covariance.kernel
    names = list(model.covariance.names)
    found = []
    for name in names:
        if _rule_of(kernel, name) is _period:
            length = name.removesuffix("periodicity") + "length_scale"
            pair = names.index(name), names.index(length) if length in names else None
            found.append(pair)
    shifts = [k * len(names) for k in range(model.n_kernels)]
    return [
        (period + shift, None if length is None else length + shift)
        for shift in shifts
        for period, length in found
    ]


def paper_prior(name: str, X: FloatArray, *, positive: bool = True) -> Any:
    """Return the prior of a hyper-parameter in the papers, by the end of its name.

    ``constant_value``, ``noise_level`` and ``sigma_0`` have the prior Gamma(1.1, rate 0.1);
    ``length_scale`` and ``periodicity`` have Gamma(1, rate 1/sqrt(d)) for X of shape (n, d). These
    are the priors of Filippone & Girolami (2014), section 4.4. All other positive hyper-parameters
    have the log-normal(0, 1) prior; those that may be negative, the normal distribution with mean
    0 and standard deviation 3.
    """
    if not positive:
        return stats.norm(0.0, 3.0)
    if name.endswith(("constant_value", "noise_level", "sigma_0")):
        shape, scale = _OF_PAPERS
        return stats.gamma(shape, scale=scale)
    if name.endswith(("length_scale", "periodicity")):
        return stats.gamma(1.0, scale=np.sqrt(X.shape[1]))
    return stats.lognorm(1.0)


# --- where a kernel stands ------------------------------------------------------------------------


def _places(kernel: Kernel, path: str, degree: float, power: float) -> Iterator[tuple[str, Place]]:
    """Give all parts that have no parts themselves, by the start of their names.

    K is to have the unit X^degree. Of the factors of a product, the first with a free variance
    takes up what the others leave.
    """
    if isinstance(kernel, Exponentiation):
        inner = degree / kernel.exponent, power * kernel.exponent
        yield from _places(kernel.kernel, f"{path}kernel__", *inner)
    elif isinstance(kernel, (Sum, Product)):
        first = degree
        second = degree
        if isinstance(kernel, Product):
            first, second = _degrees_of_factors(kernel, degree)
        yield from _places(kernel.k1, f"{path}k1__", first, power)
        yield from _places(kernel.k2, f"{path}k2__", second, power)
    else:
        yield path, Place(kernel, degree, power)


def _degrees_of_factors(kernel: Product, degree: float) -> tuple[float, float]:
    """Powers of X that are the units of two factors, for their product to have X^degree."""
    first = _degree(kernel.k1)
    second = _degree(kernel.k2)
    if _takes_any(kernel.k1):
        return degree - second, second
    if _takes_any(kernel.k2):
        return first, degree - first
    return degree - second, degree - first


def _takes_any(kernel: Kernel) -> bool:
    """Whether a free variance makes the unit of a kernel what is wanted."""
    if isinstance(kernel, Exponentiation):
        return _takes_any(kernel.kernel)
    if isinstance(kernel, Sum):
        return _takes_any(kernel.k1) and _takes_any(kernel.k2)
    if isinstance(kernel, Product):
        return _takes_any(kernel.k1) or _takes_any(kernel.k2)
    return isinstance(kernel, (ConstantKernel, WhiteKernel)) and kernel.n_dims > 0


def _degree(kernel: Kernel) -> float:
    """Power of X that is the unit of a kernel; 0 if it has a free variance, which makes it so.

    Of a sum, that of the terms that cannot take another; 0 if these differ.
    """
    if _takes_any(kernel):
        return 0.0
    if isinstance(kernel, Exponentiation):
        return float(_degree(kernel.kernel) * kernel.exponent)
    if isinstance(kernel, Product):
        return _degree(kernel.k1) + _degree(kernel.k2)
    if isinstance(kernel, Sum):
        terms = {_degree(term) for term in (kernel.k1, kernel.k2) if not _takes_any(term)}
        return terms.pop() if len(terms) == 1 else 0.0
    linear = isinstance(kernel, PairwiseKernel) and kernel.metric == "linear"
    return 2.0 if linear or isinstance(kernel, DotProduct) else 0.0


# --- rules ----------------------------------------------------------------------------------------


def _variance(place: Place, inputs: Inputs) -> Default:
    unit = _unit(spread_of_rows(inputs.X), place.degree)
    if inputs.n_functions > 1:
        shape, scale = _OF_PAPERS
        law = stats.gamma(shape, scale=scale * unit)
        if place.power != 1.0:
            law = stats.gengamma(shape, place.power, scale=scale ** (1.0 / place.power) * unit)
        return Default(law, _with_unit("default: variance with a softmax", place.degree))
    median, log_sd = _to_power(_VARIANCE, 1.0 / place.power)
    return Default(_lognormal(median * unit, log_sd), _with_unit("default: variance", place.degree))


def _noise_variance(place: Place, inputs: Inputs) -> Default:
    median, log_sd = _to_power(_NOISE, 2.0 / place.power)
    unit = _unit(spread_of_rows(inputs.X), place.degree)
    return Default(
        _lognormal(median * unit, log_sd), _with_unit("default: variance of noise", place.degree)
    )


def _length(place: Place, inputs: Inputs) -> Default:
    law = _lognormal(*_length_law(inputs))
    return Default(law, "default: length-scale, from distances of the inputs")


def _period(place: Place, inputs: Inputs) -> Default:
    law = _lognormal(*_between(*period_bounds(inputs.X)))
    return Default(law, "default: period, from distances of the inputs")


def _offset(place: Place, inputs: Inputs) -> Default:
    law = _lognormal(*_of_size(inputs))
    return Default(law, "default: offset, from the size of the inputs")


def _number(place: Place, inputs: Inputs) -> Default:
    return Default(_lognormal(*_NUMBER), "default: pure number")


def _gamma(place: Place, inputs: Inputs) -> Default:
    """The prior of `gamma`, whose unit depends on the metric."""
    metric = place.kernel.metric
    if metric == "rbf":
        median, log_sd = _to_power(_length_law(inputs), -2.0)
        law = _lognormal(0.5 * median, log_sd)
        return Default(law, "default: 1 / (2 length-scale^2), from distances of the inputs")
    if metric in ("laplacian", "chi2"):
        # Distances are sums over features, which exceed the Euclidean by about this root.
        median, log_sd = _to_power(_length_law(inputs), -1.0)
        law = _lognormal(median / np.sqrt(inputs.X.shape[1]), log_sd)
        return Default(law, "default: 1 / length-scale, from distances of the inputs")
    if metric in ("poly", "polynomial", "sigmoid"):
        law = _lognormal(*_to_power(_of_size(inputs), -2.0))
        return Default(law, "default: 1 / offset^2, from the size of the inputs")
    return Default(_lognormal(*_NUMBER), f"default of no unit: metric {metric!r}")


#: What hyper-parameters are, by the class that owns them and their name there.
_OF_KERNELS: dict[tuple[type, str], Callable[[Place, Inputs], Default]] = {
    (ConstantKernel, "constant_value"): _variance,
    (WhiteKernel, "noise_level"): _noise_variance,
    (RBF, "length_scale"): _length,  # and of Matern, which is one
    (RationalQuadratic, "length_scale"): _length,
    (RationalQuadratic, "alpha"): _number,
    (ExpSineSquared, "length_scale"): _number,
    (ExpSineSquared, "periodicity"): _period,
    (DotProduct, "sigma_0"): _offset,
    (PairwiseKernel, "gamma"): _gamma,
}
_OF_LIKELIHOODS: dict[tuple[type, str], Default] = {
    (likelihood, name): Default(stats.lognorm(log_sd, scale=median), f"default: {what}")
    for likelihood, name, (median, log_sd), what in [
        (Gaussian, "noise_scale", _NOISE, "standard deviation of noise"),
        (StudentT, "noise_scale", _NOISE, "standard deviation of noise"),
        (NegativeBinomial, "shape", _SHAPE, "shape of counts"),
        (OrdinalProbit, "threshold_gap", _NUMBER, "pure number"),
    ]
}


def _rule(rules: Mapping[tuple[type, str], Any], owner: Any, name: str) -> Any:
    """Return the rule of the nearest class that has one; None without."""
    return next((rules[c, name] for c in type(owner).__mro__ if (c, name) in rules), None)


def _rule_of(kernel: Kernel, name: str) -> Callable[[Place, Inputs], Default] | None:
    found: Callable[[Place, Inputs], Default] | None
    found = _rule(_OF_KERNELS, *owner_of(kernel, name))
    return found


def _of_kernel(place: Place, name: str, inputs: Inputs) -> Default:
    rule = _rule(_OF_KERNELS, place.kernel, name)
    return _unknown(place.kernel) if rule is None else rule(place, inputs)


def _of_likelihood(likelihood: Likelihood | None, name: str, *, positive: bool) -> Default:
    if not positive:
        return Default(stats.norm(0.0, 3.0), "default: may be negative")
    default = _rule(_OF_LIKELIHOODS, likelihood, name)
    return _unknown(likelihood) if default is None else default


def _unknown(owner: Any) -> Default:
    what = f"default of no unit: class {type(owner).__name__} is not known"
    return Default(_lognormal(*_NUMBER), what)


# --- laws -----------------------------------------------------------------------------------------


def _lognormal(median: float, log_sd: float) -> Any:
    return stats.lognorm(log_sd, scale=median)


def _to_power(law: tuple[float, float], power: float) -> tuple[float, float]:
    """Law of a power of what is log-normal; both by median and standard deviation of the log."""
    median, log_sd = law
    return median**power, abs(power) * log_sd


def _between(low: float, high: float) -> tuple[float, float]:
    """Log-normal with a share of `_TAIL` below `low`, and above `high`."""
    return float(np.sqrt(low * high)), float(np.log(high / low) / (-2.0 * stats.norm.ppf(_TAIL)))


def _length_law(inputs: Inputs) -> tuple[float, float]:
    return _between(*length_bounds(inputs.X, per_feature=inputs.per_feature))


def _of_size(inputs: Inputs) -> tuple[float, float]:
    median, log_sd = _NUMBER
    return median * size_of_rows(inputs.X), log_sd


def _unit(length: float, degree: float) -> float:
    return float(np.clip(length**degree, *_UNIT_LIMITS))


def _with_unit(what: str, degree: float) -> str:
    return f"{what}, in units of inputs^{degree:g}" if degree else what
