"""The priors of hyper-parameters for which the user gives none: defaults, and the papers' priors.

The default depends on the meaning of a hyper-parameter, which follows from the class that owns it
and from its position in the kernel: a constant that multiplies a `DotProduct` has the unit 1 / X^2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from ..kernels import Categorical, Linear, On
from ..likelihoods.base import Likelihood
from ..likelihoods.counts import NegativeBinomial
from ..likelihoods.gaussian import Gaussian
from ..likelihoods.ordinal import OrdinalProbit
from ..likelihoods.psychometric import PsychometricProbit
from ..likelihoods.student_t import StudentT
from ..likelihoods.zero_inflated import ZeroInflated, ZeroInflatedNegativeBinomial
from .covariance import Covariance
from .hyperpriors import HyperPrior
from .lengths import (
    column_widths,
    length_bounds,
    period_bounds,
    root_mean_square,
    size_of_rows,
    spread_of_rows,
)
from .parts import find_columns, owner_of
from .prior_table import PriorTable
from .shrinkage import SHRINKAGE

#: Prior probability that a length is below the lower end of its range, and above the upper end.
_TAIL = 0.01
#: Log-normal prior of a variance: median, and standard deviation of the log.
_VARIANCE = (4.0, 2.0)
#: Log-normal prior of the variance of a linear function at a typical row: median, and standard
#: deviation of the log. It allows for no slope as well as for a steep one.
_SLOPE_VARIANCE = (1.0, 3.0)
#: Log-normal prior of the standard deviation of noise: median, and standard deviation of the log.
_NOISE = (0.3, 1.5)
#: Log-normal prior of the shape of negative binomial counts: median, and sd of the log.
_SHAPE = (10.0, 3.0)
#: Log-normal prior of the odds of additional zeros: median, and sd of the log. The probability is
#: between 0.7 % and 84 % with probability 0.9.
_ZERO_ODDS = (0.2, 2.0)
#: Log-normal prior of the odds of a guess or a lapse: median, and sd of the log. They are near
#: probabilities, which are between 0.6 % and 13 % with probability 0.9, like Beta(1, 19).
_LAPSE_ODDS = (0.03, 1.0)
#: Gamma prior of the degrees of freedom of noise (Juarez & Steel, 2010): shape and scale.
_DEGREES_OF_FREEDOM = (2.0, 10.0)
#: Log-normal prior of a pure number: median, and standard deviation of the log.
_NUMBER = (1.0, 1.0)
#: Log-normal prior of the distance u of a level, whose correlation with another is exp(-2 u):
#: median, and standard deviation of the log. The median of the correlation is one half.
_LEVEL_DISTANCE = (0.35, 1.0)
#: Gamma prior of a variance in the papers: shape and scale.
_PAPER_VARIANCE = (1.1, 10.0)
#: Origin of the priors of length-scales that shrink together.
_SHRUNK_ORIGIN = "sparse: (width / length-scale)^2 is half-Cauchy(shrinkage)"
#: Origin of the prior of their common scale.
_SHRINKAGE_ORIGIN = "sparse: shared by the length-scales"
#: Limits of powers of units, so that priors have finite parameters for inputs of any size.
_UNIT_LIMITS = (1e-100, 1e100)


class DefaultPrior(NamedTuple):
    """A prior that the user has not given, and the rule behind it."""

    law: Any  # frozen scipy distribution, natural scale
    origin: str  # the rule that it follows


class HyperparameterPlace(NamedTuple):
    """What a rule needs to know about a hyper-parameter of a kernel.

    The whole kernel, or one of its terms, is `owner` to the power `power` times other factors.
    """

    owner: Kernel  # a kernel without parts
    degree: float  # a constant at this position has the unit of X to this power
    power: float
    per_feature: bool  # whether every feature has a hyper-parameter of this name
    X: FloatArray  # (n, d), the columns that the owner sees
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
        Likelihood, whose parameters come last.
    priors : mapping of str to frozen scipy.stats distribution, "paper", "sparse" or None, \
            default=None
        Names left out get the priors of `default_priors`; with "paper", all get `paper_prior`. With
        "sparse", length-scales of single features shrink together; a mapping may have "sparse" as
        the value of some length-scales.
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
    X = covariance.X
    columns = find_columns(covariance.kernel, X.shape[1])
    table = default_priors(covariance.kernel, X, likelihood)
    if priors == "paper":
        laws = {
            name: paper_prior(name, X[:, columns.get(name, [])], positive=name not in real)
            for name in table
        }
        table = PriorTable(laws, dict.fromkeys(table, "paper"))
    elif isinstance(priors, Mapping):
        table = PriorTable({**table, **priors}, table.origins | dict.fromkeys(priors, "given"))
    shrunk = _shrinking_names(covariance, priors, columns)
    if not shrunk:
        return HyperPrior(names, table, real, table.origins)
    origins = table.origins | dict.fromkeys(shrunk, _SHRUNK_ORIGIN) | {SHRINKAGE: _SHRINKAGE_ORIGIN}
    widths = {name: column_widths(X[:, columns[name]]) for name in shrunk}
    return HyperPrior(names, table, real, origins, widths)


def _shrinking_names(
    covariance: Covariance,
    priors: Mapping[str, Any] | str | None,
    columns: Mapping[str, Sequence[int]],
) -> list[str]:
    """Return the names of the length-scales that shrink together."""
    d = covariance.X.shape[1]
    possible = [
        h.name
        for h in covariance.kernel.hyperparameters
        if not h.fixed
        and h.n_elements == len(columns[h.name])
        and is_length_scale(covariance.kernel, h.name)
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
        Likelihood, whose parameters come last.

    Returns
    -------
    PriorTable
        Frozen scipy distributions on the natural scale, by name: log-normal for positive
        hyper-parameters, else the normal distribution with mean 0 and standard deviation 3.

    Notes
    -----
    The prior depends on the class that owns a hyper-parameter; a subclass has the rules of its
    parent. Within `On`, inputs are the chosen columns.

    * ``constant_value`` of a ConstantKernel is a variance: the standard deviation has median 2, and
      lies between 0.4 and 10 with probability 0.9. If it multiplies a kernel with a unit, such as
      DotProduct with the unit X^2, it has the inverse unit, and is stated for inputs divided by
      their spread (the median distance of rows from the median of every feature). Within a power p
      the same holds for ``constant_value`` to the power p. With a softmax the variance has the
      prior Gamma(1.1, rate 0.1) instead, as estimates fail at large ones.
    * ``slope_variance`` of Linear: the linear function has, at a row whose distance from the center
      is the root mean square of all distances, a standard deviation with median 1, which lies
      between 0.08 and 12 with probability 0.9. With a softmax its variance there has the prior
      Gamma(1.1, rate 0.1).
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
    * ``distance`` of Categorical has median 0.35, which makes the correlation of two levels 1/2;
      the correlation lies between 0.03 and 0.87 with probability 0.9.
    * ``length_scale`` of ExpSineSquared, ``alpha`` of RationalQuadratic and ``threshold_gap`` of
      ordered classes are pure numbers: log-normal(0, 1). ``shape`` of negative binomial counts has
      median 10 and a long upper tail, where counts are nearly Poisson.
    * ``zero_odds`` of zero-inflated counts has median 0.2, and is between 0.007 and 5 with
      probability 0.9. ``guess_odds`` and ``lapse_odds`` have median 0.03, and are between 0.006 and
      0.16. ``df`` of Student's t noise has the prior Gamma(2, rate 0.1) (Juarez & Steel, 2010).
    * A hyper-parameter of another class counts as a pure number, whatever it is called.
    """
    laws = dict[str, Any]()
    origins = dict[str, str]()
    n_functions = 1 if likelihood is None else likelihood.n_functions
    parts = _find_parts(kernel, "", 0.0, 1.0)
    columns = find_columns(kernel, X.shape[1])
    for h in kernel.hyperparameters:
        if not h.fixed:
            owner, own_name = owner_of(kernel, h.name)
            rule = _find_rule(_KERNEL_RULES, owner, own_name)
            unit = parts.get(h.name.removesuffix(own_name), (0.0, 1.0))
            own_X = X[:, columns[h.name]]
            place = HyperparameterPlace(owner, *unit, h.n_elements > 1, own_X, n_functions)
            default = _unknown_class_prior(owner) if rule is None else rule(place)
            laws[h.name], origins[h.name] = default
    for parameter in () if likelihood is None else likelihood.parameters:
        default = DefaultPrior(stats.norm(0.0, 3.0), "default: may be negative")
        if parameter.positive:
            known = _find_rule(_LIKELIHOOD_PRIORS, likelihood, parameter.name)
            default = known or _unknown_class_prior(likelihood)
        laws[parameter.name], origins[parameter.name] = default
    return PriorTable(laws, origins)


def has_default_rule(kernel: Kernel, name: str) -> bool:
    """Whether there is a default rule for a hyper-parameter of a kernel."""
    return _find_rule(_KERNEL_RULES, *owner_of(kernel, name)) is not None


def is_length_scale(kernel: Kernel, name: str) -> bool:
    """Whether a hyper-parameter is a length in the units of X, beyond which little changes."""
    return _find_rule(_KERNEL_RULES, *owner_of(kernel, name)) is _length_prior


def period_positions(model: Any) -> list[tuple[int, int | None]]:
    """Return the position of every period in theta, and of its kernel's length-scale if free."""
    kernel = model.covariance.kernel
    names = list(model.covariance.names)
    found = []
    for period, name in enumerate(names):
        if _find_rule(_KERNEL_RULES, *owner_of(kernel, name)) is _period_prior:
            length = name.removesuffix("periodicity") + "length_scale"
            found.append((period, names.index(length) if length in names else None))
    return [
        (period + k * len(names), None if length is None else length + k * len(names))
        for k in range(model.n_kernels)
        for period, length in found
    ]


def paper_prior(name: str, X: FloatArray, *, positive: bool = True) -> Any:
    """Return the prior of a hyper-parameter in the papers, by the end of its name.

    ``constant_value``, ``noise_level`` and ``sigma_0`` have the prior Gamma(1.1, rate 0.1);
    ``length_scale`` and ``periodicity`` have Gamma(1, rate 1/sqrt(d)) for X of shape (n, d). These
    are the priors of Filippone & Girolami (2014), section 4.4. All other positive hyper-parameters
    have the log-normal(0, 1) prior; hyper-parameters that may be negative have the normal prior
    with mean 0 and standard deviation 3.
    """
    if not positive:
        return stats.norm(0.0, 3.0)
    if name.endswith(("constant_value", "noise_level", "sigma_0")):
        shape, scale = _PAPER_VARIANCE
        return stats.gamma(shape, scale=scale)
    if name.endswith(("length_scale", "periodicity")):
        return stats.gamma(1.0, scale=np.sqrt(X.shape[1]))
    return stats.lognorm(1.0)


# --- parts of a kernel and their units ------------------------------------------------------------


def _find_parts(
    kernel: Kernel, path: str, degree: float, power: float
) -> dict[str, tuple[float, float]]:
    """Return degree and power of all parts that have no parts, by the prefix of their names.

    The kernel must have the unit X^degree. In a product, the first factor with a free variance gets
    the unit that the other factor leaves.
    """
    if isinstance(kernel, Exponentiation):
        inner = degree / kernel.exponent, power * kernel.exponent
        return _find_parts(kernel.kernel, f"{path}kernel__", *inner)
    if isinstance(kernel, On):
        return _find_parts(kernel.kernel, f"{path}kernel__", degree, power)
    if not isinstance(kernel, (Sum, Product)):
        return {path: (degree, power)}
    first = degree
    second = degree
    if isinstance(kernel, Product):
        own_first = _unit_degree(kernel.k1)
        own_second = _unit_degree(kernel.k2)
        first -= own_second or 0.0
        second -= own_first or 0.0
        if own_first is None:
            second = own_second or 0.0
        elif own_second is None:
            first = own_first
    return {
        **_find_parts(kernel.k1, f"{path}k1__", first, power),
        **_find_parts(kernel.k2, f"{path}k2__", second, power),
    }


def _unit_degree(kernel: Kernel) -> float | None:
    """Return the power of X that is the unit of a kernel; None if a free variance gives any unit.

    The unit of a sum is the unit of its terms without a free variance; 0 if these differ.
    """
    if isinstance(kernel, On):
        return _unit_degree(kernel.kernel)
    if isinstance(kernel, Exponentiation):
        base = _unit_degree(kernel.kernel)
        return None if base is None else float(base * kernel.exponent)
    if isinstance(kernel, (Sum, Product)):
        degrees = [_unit_degree(kernel.k1), _unit_degree(kernel.k2)]
        known = [degree for degree in degrees if degree is not None]
        if isinstance(kernel, Product):
            return sum(known) if len(known) == 2 else None
        return (known[0] if len(set(known)) == 1 else 0.0) if known else None
    if isinstance(kernel, (ConstantKernel, WhiteKernel, Linear)) and kernel.n_dims > 0:
        return None
    linear = isinstance(kernel, PairwiseKernel) and kernel.metric == "linear"
    return 2.0 if linear or isinstance(kernel, DotProduct) else 0.0


# --- rules ----------------------------------------------------------------------------------------


def _lognormal_prior(median: float, log_sd: float, origin: str) -> DefaultPrior:
    return DefaultPrior(stats.lognorm(log_sd, scale=median), origin)


def _variance_prior(place: HyperparameterPlace) -> DefaultPrior:
    """Return the prior of a variance to the power 1 / `power`, in units of X^degree."""
    power = 1.0 / place.power
    unit = float(np.clip(spread_of_rows(place.X) ** place.degree, *_UNIT_LIMITS))
    in_units = f", in units of inputs^{place.degree:g}" if place.degree else ""
    if isinstance(place.owner, WhiteKernel):
        median = _NOISE[0] ** (2.0 / place.power) * unit
        log_sd = 2.0 / place.power * _NOISE[1]
        return _lognormal_prior(median, log_sd, f"default: variance of noise{in_units}")
    if place.n_functions == 1:
        median = _VARIANCE[0] ** power * unit
        return _lognormal_prior(median, power * _VARIANCE[1], f"default: variance{in_units}")
    return DefaultPrior(
        _softmax_law(place.power, unit), f"default: variance with a softmax{in_units}"
    )


def _softmax_law(power: float, unit: float) -> Any:
    """Return the law of a variance to the power 1 / `power`, times a unit, with a softmax."""
    shape, scale = _PAPER_VARIANCE
    if power == 1.0:
        return stats.gamma(shape, scale=scale * unit)
    return stats.gengamma(shape, power, scale=scale ** (1.0 / power) * unit)


def _slope_prior(place: HyperparameterPlace) -> DefaultPrior:
    """Return the prior of the variance of slopes, which is one of a linear function if typical."""
    median, log_sd = _SLOPE_VARIANCE
    power = 1.0 / place.power
    typical = root_mean_square(place.owner.standardize(place.X))  # 1 with the scale of a fit
    unit = float(np.clip(spread_of_rows(place.X) ** place.degree / typical**2, *_UNIT_LIMITS))
    origin = "default: variance of a linear function at a typical row"
    if place.n_functions > 1:
        return DefaultPrior(_softmax_law(place.power, unit), f"{origin}, with a softmax")
    return _lognormal_prior(median**power * unit, power * log_sd, origin)


def _length_prior(place: HyperparameterPlace) -> DefaultPrior:
    law = _fit_law_between(*length_bounds(place.X, per_feature=place.per_feature))
    return _lognormal_prior(*law, "default: length-scale, from distances of the inputs")


def _fit_law_between(low: float, high: float) -> tuple[float, float]:
    """Return median and sd of the log of the log-normal law with `_TAIL` beyond each end."""
    return float(np.sqrt(low * high)), float(np.log(high / low) / (-2.0 * stats.norm.ppf(_TAIL)))


def _period_prior(place: HyperparameterPlace) -> DefaultPrior:
    law = _fit_law_between(*period_bounds(place.X))
    return _lognormal_prior(*law, "default: period, from distances of the inputs")


def _offset_prior(place: HyperparameterPlace) -> DefaultPrior:
    median, log_sd = _NUMBER
    origin = "default: offset, from the size of the inputs"
    return _lognormal_prior(median * size_of_rows(place.X), log_sd, origin)


def _number_prior(place: HyperparameterPlace) -> DefaultPrior:
    return _lognormal_prior(*_NUMBER, "default: pure number")


def _level_prior(place: HyperparameterPlace) -> DefaultPrior:
    return _lognormal_prior(*_LEVEL_DISTANCE, "default: distance of levels")


def _gamma_prior(place: HyperparameterPlace) -> DefaultPrior:
    """Return the prior of `gamma`, whose unit depends on the metric."""
    metric = place.owner.metric
    if metric in ("poly", "polynomial", "sigmoid"):
        offset = (_NUMBER[0] * size_of_rows(place.X)) ** -2.0
        origin = "default: 1 / offset^2, from the size of the inputs"
        return _lognormal_prior(offset, 2.0 * _NUMBER[1], origin)
    if metric not in ("rbf", "laplacian", "chi2"):
        return _lognormal_prior(*_NUMBER, f"default of no unit: metric {metric!r}")
    length, log_sd = _fit_law_between(*length_bounds(place.X, per_feature=place.per_feature))
    if metric == "rbf":
        origin = "default: 1 / (2 length-scale^2), from distances of the inputs"
        return _lognormal_prior(0.5 * length**-2.0, 2.0 * log_sd, origin)
    # These distances are sums over features, about sqrt(d) times the Euclidean distance.
    inverse = length**-1.0 / np.sqrt(place.X.shape[1])
    origin = "default: 1 / length-scale, from distances of the inputs"
    return _lognormal_prior(inverse, log_sd, origin)


#: Rules of the hyper-parameters of kernels, by the class that owns one and its name there.
_KERNEL_RULES: dict[tuple[type, str], Callable[[HyperparameterPlace], DefaultPrior]] = {
    (ConstantKernel, "constant_value"): _variance_prior,
    (WhiteKernel, "noise_level"): _variance_prior,
    (RBF, "length_scale"): _length_prior,  # also of Matern, which is a subclass
    (RationalQuadratic, "length_scale"): _length_prior,
    (RationalQuadratic, "alpha"): _number_prior,
    (ExpSineSquared, "length_scale"): _number_prior,
    (ExpSineSquared, "periodicity"): _period_prior,
    (DotProduct, "sigma_0"): _offset_prior,
    (Linear, "slope_variance"): _slope_prior,
    (PairwiseKernel, "gamma"): _gamma_prior,
    (Categorical, "distance"): _level_prior,
}
#: Default priors of the parameters of likelihoods, by class and name.
_LIKELIHOOD_PRIORS: dict[tuple[type, str], DefaultPrior] = {
    (likelihood, name): _lognormal_prior(*law, f"default: {what}")
    for likelihood, name, law, what in [
        (Gaussian, "noise_scale", _NOISE, "standard deviation of noise"),
        (StudentT, "noise_scale", _NOISE, "standard deviation of noise"),
        (NegativeBinomial, "shape", _SHAPE, "shape of counts"),
        (ZeroInflatedNegativeBinomial, "shape", _SHAPE, "shape of counts"),
        (ZeroInflated, "zero_odds", _ZERO_ODDS, "odds of additional zeros"),
        (PsychometricProbit, "guess_odds", _LAPSE_ODDS, "odds of a guess"),
        (PsychometricProbit, "lapse_odds", _LAPSE_ODDS, "odds of a lapse"),
        (OrdinalProbit, "threshold_gap", _NUMBER, "pure number"),
    ]
}
_LIKELIHOOD_PRIORS[StudentT, "df"] = DefaultPrior(
    stats.gamma(_DEGREES_OF_FREEDOM[0], scale=_DEGREES_OF_FREEDOM[1]),
    "default: degrees of freedom of noise",
)


def _find_rule(rules: Mapping[tuple[type, str], Any], owner: Any, name: str) -> Any:
    """Return the rule of the nearest parent class that has one; None without a rule."""
    return next((rules[c, name] for c in type(owner).__mro__ if (c, name) in rules), None)


def _unknown_class_prior(owner: Any) -> DefaultPrior:
    origin = f"default of no unit: class {type(owner).__name__} is not known"
    return _lognormal_prior(*_NUMBER, origin)
