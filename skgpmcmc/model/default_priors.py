"""The priors of hyper-parameters for which the user gives none: defaults, and the papers' priors.

The default depends on the meaning of a hyper-parameter, which follows from the class that owns it
and from its position in the kernel: a constant that multiplies a `DotProduct` has the unit 1 / X^2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

#: Prior probability that a length is below the lower end of its range, and above the upper end.
_TAIL = 0.01
#: Log-normal prior of a variance: median, and standard deviation of the log.
_VARIANCE = (4.0, 2.0)
#: Log-normal prior of the standard deviation of noise: median, and standard deviation of the log.
_NOISE = (0.3, 1.5)
#: Log-normal prior of the shape of negative binomial counts: median, and sd of the log.
_SHAPE = (10.0, 3.0)
#: Log-normal prior of a pure number: median, and standard deviation of the log.
_NUMBER = (1.0, 1.0)
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


class KernelPart(NamedTuple):
    """A kernel without parts that is a part of a larger kernel.

    The larger kernel, or one of its terms, is `kernel` to the power `power` times other factors.
    """

    kernel: Kernel
    degree: float  # a constant at this position has the unit of X to this power
    power: float


class RuleInputs(NamedTuple):
    """The properties of the model on which rules depend, apart from the kernel."""

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
    table = default_priors(covariance.kernel, covariance.X, likelihood)
    if priors == "paper":
        laws = {name: paper_prior(name, covariance.X, positive=name not in real) for name in table}
        table = PriorTable(laws, dict.fromkeys(table, "paper"))
    elif isinstance(priors, Mapping):
        table = PriorTable({**table, **priors}, {**table.origins, **dict.fromkeys(priors, "given")})
    shrunk = _shrinking_names(covariance, priors)
    if not shrunk:
        return HyperPrior(names, table, real, table.origins)
    origins = {
        **table.origins,
        **dict.fromkeys(shrunk, _SHRUNK_ORIGIN),
        SHRINKAGE: _SHRINKAGE_ORIGIN,
    }
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
        Likelihood, whose parameters come last.

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
    parts = _find_parts(kernel, "", 0.0, 1.0)
    for hyperparameter in kernel.hyperparameters:
        if not hyperparameter.fixed:
            owner, own_name = owner_of(kernel, hyperparameter.name)
            path = hyperparameter.name.removesuffix(own_name)
            part = parts.get(path, KernelPart(owner, 0.0, 1.0))
            inputs = RuleInputs(X, hyperparameter.n_elements > 1, n_functions)
            default = _apply_kernel_rule(part, own_name, inputs)
            laws[hyperparameter.name], origins[hyperparameter.name] = default
    for parameter in () if likelihood is None else likelihood.parameters:
        default = _find_likelihood_prior(likelihood, parameter.name, positive=parameter.positive)
        laws[parameter.name], origins[parameter.name] = default
    return PriorTable(laws, origins)


def owner_of(kernel: Kernel, name: str) -> tuple[Kernel, str]:
    """Return the part of a kernel that owns a hyper-parameter, and its name in this part."""
    path, _, own_name = name.rpartition("__")
    return kernel.get_params().get(path, kernel), own_name


def has_default_rule(kernel: Kernel, name: str) -> bool:
    """Whether there is a default rule for a hyper-parameter of a kernel."""
    return _find_kernel_rule(kernel, name) is not None


def is_length_scale(kernel: Kernel, name: str) -> bool:
    """Whether a hyper-parameter is a length in the units of X, beyond which little changes."""
    return _find_kernel_rule(kernel, name) is _length_prior


def period_positions(model: Any) -> list[tuple[int, int | None]]:
    """Return the position of every period in theta, and of its kernel's length-scale if free."""
    kernel = model.covariance.kernel
    names = list(model.covariance.names)
    found = []
    for name in names:
        if _find_kernel_rule(kernel, name) is _period_prior:
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


def _find_parts(kernel: Kernel, path: str, degree: float, power: float) -> dict[str, KernelPart]:
    """Return all parts that have no parts themselves, by the prefix of their names.

    The kernel must have the unit X^degree. In a product, the first factor with a free variance gets
    the unit that the other factor leaves.
    """
    if isinstance(kernel, Exponentiation):
        inner = degree / kernel.exponent, power * kernel.exponent
        return _find_parts(kernel.kernel, f"{path}kernel__", *inner)
    if not isinstance(kernel, (Sum, Product)):
        return {path: KernelPart(kernel, degree, power)}
    first = degree
    second = degree
    if isinstance(kernel, Product):
        first, second = _split_degree(kernel, degree)
    return {
        **_find_parts(kernel.k1, f"{path}k1__", first, power),
        **_find_parts(kernel.k2, f"{path}k2__", second, power),
    }


def _split_degree(kernel: Product, degree: float) -> tuple[float, float]:
    """Return the powers of X that are the units of two factors, whose product has X^degree."""
    first = _unit_degree(kernel.k1)
    second = _unit_degree(kernel.k2)
    if _has_free_unit(kernel.k1):
        return degree - second, second
    if _has_free_unit(kernel.k2):
        return first, degree - first
    return degree - second, degree - first


def _has_free_unit(kernel: Kernel) -> bool:
    """Whether a free variance gives a kernel any unit."""
    if isinstance(kernel, Exponentiation):
        return _has_free_unit(kernel.kernel)
    if isinstance(kernel, Sum):
        return _has_free_unit(kernel.k1) and _has_free_unit(kernel.k2)
    if isinstance(kernel, Product):
        return _has_free_unit(kernel.k1) or _has_free_unit(kernel.k2)
    return isinstance(kernel, (ConstantKernel, WhiteKernel)) and kernel.n_dims > 0


def _unit_degree(kernel: Kernel) -> float:
    """Return the power of X that is the unit of a kernel; 0 for a kernel with a free variance.

    The unit of a sum is the unit of its terms without a free variance; 0 if these differ.
    """
    if _has_free_unit(kernel):
        return 0.0
    if isinstance(kernel, Exponentiation):
        return float(_unit_degree(kernel.kernel) * kernel.exponent)
    if isinstance(kernel, Product):
        return _unit_degree(kernel.k1) + _unit_degree(kernel.k2)
    if isinstance(kernel, Sum):
        terms = {_unit_degree(term) for term in (kernel.k1, kernel.k2) if not _has_free_unit(term)}
        return terms.pop() if len(terms) == 1 else 0.0
    linear = isinstance(kernel, PairwiseKernel) and kernel.metric == "linear"
    return 2.0 if linear or isinstance(kernel, DotProduct) else 0.0


# --- rules ----------------------------------------------------------------------------------------


def _variance_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    unit = _raise_unit(spread_of_rows(inputs.X), part.degree)
    if inputs.n_functions > 1:
        shape, scale = _PAPER_VARIANCE
        law = stats.gamma(shape, scale=scale * unit)
        if part.power != 1.0:
            law = stats.gengamma(shape, part.power, scale=scale ** (1.0 / part.power) * unit)
        return DefaultPrior(law, _append_unit("default: variance with a softmax", part.degree))
    median, log_sd = _raise_law(_VARIANCE, 1.0 / part.power)
    return DefaultPrior(
        _freeze_lognormal(median * unit, log_sd), _append_unit("default: variance", part.degree)
    )


def _noise_variance_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    median, log_sd = _raise_law(_NOISE, 2.0 / part.power)
    unit = _raise_unit(spread_of_rows(inputs.X), part.degree)
    return DefaultPrior(
        _freeze_lognormal(median * unit, log_sd),
        _append_unit("default: variance of noise", part.degree),
    )


def _length_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    law = _freeze_lognormal(*_find_length_law(inputs))
    return DefaultPrior(law, "default: length-scale, from distances of the inputs")


def _period_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    law = _freeze_lognormal(*_fit_law_between(*period_bounds(inputs.X)))
    return DefaultPrior(law, "default: period, from distances of the inputs")


def _offset_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    law = _freeze_lognormal(*_find_size_law(inputs))
    return DefaultPrior(law, "default: offset, from the size of the inputs")


def _number_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    return DefaultPrior(_freeze_lognormal(*_NUMBER), "default: pure number")


def _gamma_prior(part: KernelPart, inputs: RuleInputs) -> DefaultPrior:
    """Return the prior of `gamma`, whose unit depends on the metric."""
    metric = part.kernel.metric
    if metric == "rbf":
        median, log_sd = _raise_law(_find_length_law(inputs), -2.0)
        law = _freeze_lognormal(0.5 * median, log_sd)
        return DefaultPrior(law, "default: 1 / (2 length-scale^2), from distances of the inputs")
    if metric in ("laplacian", "chi2"):
        # These distances are sums over features, about sqrt(d) times the Euclidean distance.
        median, log_sd = _raise_law(_find_length_law(inputs), -1.0)
        law = _freeze_lognormal(median / np.sqrt(inputs.X.shape[1]), log_sd)
        return DefaultPrior(law, "default: 1 / length-scale, from distances of the inputs")
    if metric in ("poly", "polynomial", "sigmoid"):
        law = _freeze_lognormal(*_raise_law(_find_size_law(inputs), -2.0))
        return DefaultPrior(law, "default: 1 / offset^2, from the size of the inputs")
    return DefaultPrior(_freeze_lognormal(*_NUMBER), f"default of no unit: metric {metric!r}")


#: Rules of the hyper-parameters of kernels, by the class that owns one and its name there.
_KERNEL_RULES: dict[tuple[type, str], Callable[[KernelPart, RuleInputs], DefaultPrior]] = {
    (ConstantKernel, "constant_value"): _variance_prior,
    (WhiteKernel, "noise_level"): _noise_variance_prior,
    (RBF, "length_scale"): _length_prior,  # also of Matern, which is a subclass
    (RationalQuadratic, "length_scale"): _length_prior,
    (RationalQuadratic, "alpha"): _number_prior,
    (ExpSineSquared, "length_scale"): _number_prior,
    (ExpSineSquared, "periodicity"): _period_prior,
    (DotProduct, "sigma_0"): _offset_prior,
    (PairwiseKernel, "gamma"): _gamma_prior,
}
#: Default priors of the parameters of likelihoods, by class and name.
_LIKELIHOOD_PRIORS: dict[tuple[type, str], DefaultPrior] = {
    (likelihood, name): DefaultPrior(stats.lognorm(log_sd, scale=median), f"default: {what}")
    for likelihood, name, (median, log_sd), what in [
        (Gaussian, "noise_scale", _NOISE, "standard deviation of noise"),
        (StudentT, "noise_scale", _NOISE, "standard deviation of noise"),
        (NegativeBinomial, "shape", _SHAPE, "shape of counts"),
        (OrdinalProbit, "threshold_gap", _NUMBER, "pure number"),
    ]
}


def _find_rule(rules: Mapping[tuple[type, str], Any], owner: Any, name: str) -> Any:
    """Return the rule of the nearest parent class that has one; None without a rule."""
    return next((rules[c, name] for c in type(owner).__mro__ if (c, name) in rules), None)


def _find_kernel_rule(
    kernel: Kernel, name: str
) -> Callable[[KernelPart, RuleInputs], DefaultPrior] | None:
    found: Callable[[KernelPart, RuleInputs], DefaultPrior] | None
    found = _find_rule(_KERNEL_RULES, *owner_of(kernel, name))
    return found


def _apply_kernel_rule(part: KernelPart, name: str, inputs: RuleInputs) -> DefaultPrior:
    rule = _find_rule(_KERNEL_RULES, part.kernel, name)
    return _unknown_class_prior(part.kernel) if rule is None else rule(part, inputs)


def _find_likelihood_prior(
    likelihood: Likelihood | None, name: str, *, positive: bool
) -> DefaultPrior:
    if not positive:
        return DefaultPrior(stats.norm(0.0, 3.0), "default: may be negative")
    default = _find_rule(_LIKELIHOOD_PRIORS, likelihood, name)
    return _unknown_class_prior(likelihood) if default is None else default


def _unknown_class_prior(owner: Any) -> DefaultPrior:
    what = f"default of no unit: class {type(owner).__name__} is not known"
    return DefaultPrior(_freeze_lognormal(*_NUMBER), what)


# --- laws -----------------------------------------------------------------------------------------


def _freeze_lognormal(median: float, log_sd: float) -> Any:
    return stats.lognorm(log_sd, scale=median)


def _raise_law(law: tuple[float, float], power: float) -> tuple[float, float]:
    """Return the law of a power of a log-normal variable, as median and sd of the log."""
    median, log_sd = law
    return median**power, abs(power) * log_sd


def _fit_law_between(low: float, high: float) -> tuple[float, float]:
    """Return the log-normal law with probability `_TAIL` below `low` and above `high`."""
    return float(np.sqrt(low * high)), float(np.log(high / low) / (-2.0 * stats.norm.ppf(_TAIL)))


def _find_length_law(inputs: RuleInputs) -> tuple[float, float]:
    return _fit_law_between(*length_bounds(inputs.X, per_feature=inputs.per_feature))


def _find_size_law(inputs: RuleInputs) -> tuple[float, float]:
    median, log_sd = _NUMBER
    return median * size_of_rows(inputs.X), log_sd


def _raise_unit(length: float, degree: float) -> float:
    return float(np.clip(length**degree, *_UNIT_LIMITS))


def _append_unit(what: str, degree: float) -> str:
    return f"{what}, in units of inputs^{degree:g}" if degree else what
