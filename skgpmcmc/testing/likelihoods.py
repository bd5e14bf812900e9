"""Checks of all methods of a likelihood against its `log_prob`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import roots_legendre

from .._typing import FloatArray
from ..likelihoods.base import Likelihood
from ..likelihoods.binomial import SuccessLikelihood

#: Latent values at which derivatives are compared.
_LATENT_VALUES = np.linspace(-2.5, 2.5, 11)
#: Step of central differences, whose error is then about 1e-8.
_DIFFERENCE_STEP = 1e-4
#: Latent values at which samples are drawn.
_SAMPLED_AT = (-1.2, 0.0, 0.8)
#: Step of the slope of a distribution function, whose density may be narrow.
_TARGET_STEP = 1e-5
#: Error of the slope, relative to one plus the density: that of integrals over f by a fixed rule.
_SLOPE_TOLERANCE = 1e-4
#: Means and variances of the cavities at which moments are compared.
_CAVITIES = ((-1.5, 0.3), (0.0, 1.0), (0.7, 4.0))
#: Nodes of a rule on each panel of the quadrature.
_N_NODES = 20
#: Width, in standard deviations of the cavity, below which no panel is bisected.
_SHORTEST_PANEL = 1e-9
#: Number of panels that differ at once, beyond which none is bisected.
_MOST_PANELS = 1000
#: Samples in a mean that is compared.
_N_SAMPLED = 20_000
#: The first counts whose probabilities are compared.
_FIRST_COUNTS = np.arange(21.0)
#: Standard errors by which a mean may deviate: a correct one does so once in a million times.
_MAX_Z = 5.0
#: Error of a mean of equal values, which have no standard error.
_MEAN_ROUNDING = 1e-12


def check_likelihood(
    likelihood: Likelihood, targets: FloatArray, *, rng: np.random.Generator | None = None
) -> None:
    """Check that all methods of a likelihood agree with its `log_prob`.

    Derivatives, including those in its parameters, are compared with finite differences. Tilted
    moments (with and without a weight) and the predictive density are compared with adaptive
    quadrature. `sample` and `fisher_information` are checked by identities that hold for any
    density, with many samples. Two methods are checked if the likelihood defines them:
    `predictive_moments` (with a finite variance) must be the moments of samples where f is known,
    and else the averages of these over f. The slope of `predictive_cdf`, or its increase from one
    count to the next, must be the predictive density, and its value a share of samples.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood to check; an object, not a class.
    targets : ndarray of shape (m,)
        Some encoded targets for the checks. If `predictive_cdf` is defined and targets are not
        counts, it must have a slope at each of them.
    rng : numpy.random.Generator, optional
        Random numbers for `sample`; by default from a fixed seed.

    Raises
    ------
    AssertionError
        If something disagrees; the message says what, and by how much.
    """
    assert not isinstance(likelihood, type), (
        f"likelihood is the class {likelihood.__name__}: pass an object, {likelihood.__name__}()"
    )
    rng = np.random.default_rng(0) if rng is None else rng
    targets = np.asarray(targets, dtype=float)
    assert np.all(likelihood.legal(targets)), f"some of the targets {targets} are not legal"
    for y in targets:
        _check_derivatives(likelihood, np.full(len(_LATENT_VALUES), y))
        _check_parameters(likelihood, np.full(len(_LATENT_VALUES), y))
        for mean, var in _CAVITIES:
            for weight in (1.0, 2.5):
                _check_moments(likelihood, float(y), mean, var, weight)
            predictive = likelihood.log_predictive(y, mean, var)
            mass = _integrate_tilted(likelihood, float(y), mean, var, 1.0)[0]
            what = f"log predictive for y = {y:g} under N({mean:g}, {var:g})"
            _assert_agree(what, predictive, np.array([np.log(mass)]))
    for f in _SAMPLED_AT:
        _check_sampling(likelihood, f, rng)
    new = likelihood.at_new_rows()
    zero = np.zeros((1, 1))
    if isinstance(new, SuccessLikelihood):
        return  # its targets contain the number of trials, and its predictions do not
    if new.finite_variance and _is_defined(new.predictive_moments, zero, zero):
        _check_predictive_moments(new, rng)
    if _is_defined(new.predictive_cdf, zero + targets[0], zero, zero + 1.0):
        _check_predictive_cdf(new, targets, rng)


def _check_derivatives(likelihood: Likelihood, y: FloatArray) -> None:
    f = _LATENT_VALUES
    first, second, third = likelihood.derivatives(y, f)

    def slope(function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return the derivative of a function at f, by central differences."""
        return np.asarray(
            (function(f + _DIFFERENCE_STEP) - function(f - _DIFFERENCE_STEP))
            / (2.0 * _DIFFERENCE_STEP)
        )

    what = f"derivative of log p(y = {y[0]:g} | f)"
    _assert_agree(f"first {what}", first, slope(lambda g: likelihood.log_prob(y, g)))
    _assert_agree(f"second {what}", second, slope(lambda g: likelihood.derivatives(y, g).first))
    _assert_agree(f"third {what}", third, slope(lambda g: likelihood.derivatives(y, g).second))
    if likelihood.log_concave:
        assert np.all(second <= 0.0), (
            f"log_concave is claimed, but the second {what} is {second.max():g}"
        )


def _check_parameters(likelihood: Likelihood, y: FloatArray) -> None:
    f = _LATENT_VALUES
    start = np.array([parameter.start for parameter in likelihood.parameters])
    derivatives = likelihood.parameter_derivatives(y, f)
    mean = 0.4 * f
    var = np.linspace(0.2, 3.0, len(f))
    weights = (None, np.linspace(0.5, 2.0, len(f)))
    tilted = [likelihood.tilted_parameter_gradient(y, w, mean, var) for w in weights]
    for j, parameter in enumerate(likelihood.parameters):
        step = _DIFFERENCE_STEP * (np.arange(len(start)) == j)
        up, down = (likelihood.with_parameters(start + s) for s in (step, -step))

        def slope(values: Callable[[Likelihood], FloatArray]) -> FloatArray:
            """Return the derivative in the parameter, by central differences."""
            return np.asarray((values(up) - values(down)) / (2.0 * _DIFFERENCE_STEP))  # noqa: B023

        what = f"with respect to {parameter.name} (number {j}), y = {y[0]:g}"
        for name, value, values in (
            ("log p(y | f)", derivatives.log_prob, lambda p: p.log_prob(y, f)),
            ("the first derivative", derivatives.first, lambda p: p.derivatives(y, f).first),
            ("the second derivative", derivatives.second, lambda p: p.derivatives(y, f).second),
        ):
            _assert_agree(f"derivative of {name} {what}", value[j], slope(values))
        for gradient, w in zip(tilted, weights, strict=True):

            def log_z(p: Likelihood, w: FloatArray | None = w) -> FloatArray:
                """Return the log normalizer under a likelihood."""
                return p.weighted_tilted_moments(y, w, mean, var).log_z

            name = "log normalizer" if w is None else "weighted log normalizer"
            _assert_agree(f"derivative of the {name} {what}", gradient[j], slope(log_z))


def _integrate_tilted(
    likelihood: Likelihood, y: float, mean: float, var: float, weight: float
) -> tuple[float, float, float]:
    """Return the mass of p(y | f)^weight N(f; mean, var), and the moments of standardized f."""

    def values(x: FloatArray) -> FloatArray:
        """Return p(y | f)^weight, and it times x and x^2."""
        log_prob = likelihood.log_prob(np.full(x.size, y), mean + np.sqrt(var) * x)
        return np.exp(weight * log_prob) * np.stack([np.ones_like(x), x, x * x])

    mass, first, second = _average_over_normal(values)
    center = first / mass
    return float(mass), float(center), float(second / mass - center**2)


def _average_over_normal(values: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the averages of k functions, ``values(x)`` of shape (k, m), over x ~ N(0, 1); (k,).

    By adaptive quadrature: panels are bisected until a rule agrees with that of both halves.
    """
    nodes, node_weights = roots_legendre(_N_NODES)

    def integrals(left: FloatArray, right: FloatArray) -> FloatArray:
        """Return the integrals of the functions times the density of x on panels; (k, panels)."""
        x = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * nodes
        density = np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi)
        weighted = values(x.ravel()).reshape(-1, *x.shape) * density
        return np.asarray(0.5 * (right - left) * (weighted @ node_weights))

    # Panels are short enough for a rule to find a narrow peak anywhere.
    edges = np.linspace(-12.0, 12.0, 49)
    left = edges[:-1]
    right = edges[1:]
    whole = integrals(left, right)
    total = np.zeros(len(whole))
    while len(left):
        middle = 0.5 * (left + right)
        halves = np.stack([integrals(left, middle), integrals(middle, right)])
        by_halves = halves.sum(axis=0)
        # NaN counts as agreement: it shows in the result, and no bisection would mend it.
        differ = (np.abs(by_halves - whole) > 1e-14 + 1e-8 * np.abs(by_halves)).any(axis=0)
        # Where the density jumps, panels differ until they have no mass; if it is rounded much,
        # they differ everywhere.
        settled = ~differ | (right - left < _SHORTEST_PANEL) | (len(left) > _MOST_PANELS)
        total += by_halves[:, settled].sum(axis=1)
        left, right = (
            np.concatenate([left[~settled], middle[~settled]]),
            np.concatenate([middle[~settled], right[~settled]]),
        )
        whole = np.concatenate([half[:, ~settled] for half in halves], axis=1)
    return total


def _check_moments(
    likelihood: Likelihood, y: float, mean: float, var: float, weight: float
) -> None:
    mass, center, spread = _integrate_tilted(likelihood, y, mean, var, weight)
    arrays = (np.array([mean]), np.array([var]))
    if weight == 1.0:
        moments = likelihood.tilted_moments(np.array([y]), *arrays)
    else:
        moments = likelihood.weighted_tilted_moments(np.array([y]), np.array([weight]), *arrays)
    where = f"for y = {y:g} with weight {weight:g} under N({mean:g}, {var:g})"
    _assert_agree(f"log normalizer {where}", moments.log_z, np.array([np.log(mass)]))
    _assert_agree(f"alpha {where}", moments.alpha, np.array([center / np.sqrt(var)]))
    _assert_agree(f"beta {where}", moments.beta, np.array([(1.0 - spread) / var]))


def _check_sampling(likelihood: Likelihood, f: float, rng: np.random.Generator) -> None:
    """Check that E p(y | f') / p(y | f) = 1, and that the mean squared score is the information."""
    f_samples = np.full(_N_SAMPLED, f)
    y = likelihood.sample(f_samples, rng)
    for other in (f - 0.25, f + 0.25):
        ratio = np.exp(
            likelihood.log_prob(y, np.full(_N_SAMPLED, other)) - likelihood.log_prob(y, f_samples)
        )
        _assert_mean(f"sampled p(y | {other:g}) / p(y | {f:g})", ratio, 1.0)
    information = likelihood.fisher_information(np.array([f]))[0]
    assert information >= 0.0, f"fisher_information at f = {f:g} is negative: {information:g}"
    score = likelihood.derivatives(y, f_samples).first
    _assert_mean(f"sampled score at f = {f:g}", score, 0.0)
    _assert_mean(f"sampled squared score at f = {f:g}", score**2, information)


def _is_defined(method: Callable[..., object], *arguments: FloatArray) -> bool:
    try:
        method(*arguments)
    except NotImplementedError:
        return False
    return True


def _check_predictive_moments(likelihood: Likelihood, rng: np.random.Generator) -> None:
    """Check the moments given f by samples, and those over f by averages of the former."""
    for f in _SAMPLED_AT:
        mean, var = (float(m[0]) for m in _predictive_moments(likelihood, np.array([f]), 0.0))
        y = likelihood.sample(np.full(_N_SAMPLED, f), rng)
        _assert_mean(f"mean of predictive_moments({f:g}, 0): samples", y, mean)
        _assert_mean(f"variance of predictive_moments({f:g}, 0): samples", (y - mean) ** 2, var)
    for mean, var in _CAVITIES:
        found = _predictive_moments(likelihood, np.array([mean]), var)

        def values(x: FloatArray, center: float = mean, sd: float = np.sqrt(var)) -> FloatArray:
            """Return the mean of a target given f, its square and the variance."""
            own = _predictive_moments(likelihood, center + sd * x, 0.0)
            return np.stack([own[0], own[0] ** 2, own[1]])

        first, square, within = _average_over_normal(values)
        where = f"of predictive_moments({mean:g}, {var:g})"
        _assert_agree(f"mean {where}", found[0], np.array([first]))
        _assert_agree(f"variance {where}", found[1], np.array([within + square - first**2]))


def _predictive_moments(
    likelihood: Likelihood, mean: FloatArray, var: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of a target for each mean of f; both of its shape."""
    moments = likelihood.predictive_moments(mean, np.full(mean.shape, var))
    return np.broadcast_to(moments.mean, mean.shape), np.broadcast_to(moments.var, mean.shape)


def _check_predictive_cdf(
    likelihood: Likelihood, targets: FloatArray, rng: np.random.Generator
) -> None:
    """Check the slope by the predictive density, and the value by the share of samples below."""
    if likelihood.counts:
        targets = np.union1d(_FIRST_COUNTS, np.floor(targets))
    for mean, var in _CAVITIES:

        def cdf(y: FloatArray, at: tuple[float, float] = (mean, var)) -> FloatArray:
            """Return the probability of at most y, for each y."""
            moments = (np.full((len(y), 1), moment) for moment in at)
            return likelihood.predictive_cdf(y[:, None], *moments)[:, 0]

        density = np.exp(likelihood.log_predictive(targets, mean, var))
        if likelihood.counts:
            slope = cdf(targets)
            later = targets > 0.0
            slope[later] -= cdf(targets[later] - 1.0)
        else:
            above, below = (cdf(targets + s) for s in (_TARGET_STEP, -_TARGET_STEP))
            slope = (above - below) / (2.0 * _TARGET_STEP)
        f = mean + np.sqrt(var) * rng.standard_normal(_N_SAMPLED)
        y = likelihood.sample(f, rng)
        for target, found, expected, share in zip(
            targets, slope, density, cdf(targets), strict=True
        ):
            what = f"predictive_cdf at y = {target:g} under N({mean:g}, {var:g})"
            kind = "increase" if likelihood.counts else "slope"
            _assert_agree(
                f"{kind} of {what}", np.array([found]), np.array([expected]), _SLOPE_TOLERANCE
            )
            below_target = float(np.mean(y <= target))
            # A probability has a known error, however few of the samples are on one side.
            error = np.sqrt(np.clip(share * (1.0 - share), 0.0, None) / _N_SAMPLED)
            assert abs(below_target - share) <= _MAX_Z * (error + 1.0 / _N_SAMPLED), (
                f"{what}: {share:.5g}, where {below_target:.5g} of the samples are at most y"
            )


def _assert_agree(
    what: str, value: FloatArray, expected: FloatArray, tolerance: float = 1e-5
) -> None:
    gap = float(np.max(np.abs(value - expected) / (1.0 + np.abs(expected))))
    assert gap <= tolerance, f"{what}: {value} where {expected} is expected"


def _assert_mean(what: str, values: FloatArray, expected: float) -> None:
    error = float(np.std(values, ddof=1)) / np.sqrt(len(values))
    gap = abs(float(np.mean(values)) - expected)
    assert gap <= _MAX_Z * error + _MEAN_ROUNDING, (
        f"{what}: mean {np.mean(values):.5g} with standard error {error:.2g}, "
        f"where {expected:.5g} is expected"
    )
