"""The quadrature against closed forms and against QUADPACK, for terms of several shapes."""

import tracemalloc
from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, gammaln

from skgpmcmc.numerics import quadrature
from skgpmcmc.numerics.quadrature import Bend, Ceiling, LogDensity, TiltedDensities

from ...helpers import in_one_test

AT_ZERO = Bend(np.asarray(0.0), np.asarray(2.0))
FLAT = LogDensity(lambda y, f: np.zeros_like(y * f), lambda y, f: (0.0 * f, 0.0 * f))
LINEAR = LogDensity(lambda y, f: y * f, lambda y, f: (y + 0.0 * f, 0.0 * f))
NARROW = LogDensity(  # a Gaussian of standard deviation 0.01 around y
    lambda y, f: -0.5e4 * (f - y) ** 2, lambda y, f: (1e4 * (y - f), -1e4 + 0.0 * f)
)
POISSON = LogDensity(
    lambda y, f: y * f - np.exp(f) - gammaln(y + 1.0), lambda y, f: (y - np.exp(f), -np.exp(f))
)
LOGISTIC = LogDensity(
    lambda y, f: -np.logaddexp(0.0, -y * f), lambda y, f: (y * expit(-y * f), -expit(f) * expit(-f))
)


def one(density, y, mean, var, bend=AT_ZERO):
    """log_z, alpha, beta of a single point."""
    point = (np.array([float(a)]) for a in (y, mean, var))
    moments = TiltedDensities(density, bend, *point).moments()
    return np.array([moment[0] for moment in moments])


def quadpack(density, y, mean, var):
    """log_z, alpha, beta by adaptive integration of the moments themselves."""
    sd = np.sqrt(var)
    grid = mean + sd * np.linspace(-15.0, 15.0, 3001) * max(1.0, sd)

    def log_height(f):
        return density.log_prob(y, f) - 0.5 * (f - mean) ** 2 / var

    heights = log_height(grid)
    top = heights.max()
    inside = grid[heights > top - 60.0]
    cuts = np.linspace(inside[0] - (grid[1] - grid[0]), inside[-1] + (grid[1] - grid[0]), 17)

    def integral(function):
        pieces = [
            quad(
                lambda f: function(f) * np.exp(log_height(f) - top),
                a, b, epsabs=1e-13 * (b - a), epsrel=1e-12,
            )[0]
            for a, b in pairwise(cuts)
        ]  # fmt: skip
        return sum(pieces)

    mass = integral(lambda f: 1.0)
    center = integral(lambda f: f - mean) / mass
    spread = integral(lambda f: (f - mean - center) ** 2) / mass
    log_z = top + np.log(mass) - 0.5 * np.log(2.0 * np.pi * var)
    return np.array([log_z, center / var, (1.0 - spread / var) / var])


@in_one_test("mean", [-1000.0, -0.3, 0.0, 40.0])
@in_one_test("var", [0.0, 1e-12, 0.3, 7.0, 1e6])
def test_quadrature_of_flat_and_linear_terms_is_exact(mean, var):
    assert_allclose(one(FLAT, 1.0, mean, var), 0.0, atol=1e-14)
    expected = [0.7 * mean + 0.245 * var, 0.7, 0.0]
    assert_allclose(one(LINEAR, 0.7, mean, var), expected, rtol=1e-13, atol=1e-13)


@in_one_test("var", [1e-12, 1e-6, 1e-2, 1.0, 100.0])
@in_one_test("y", [-3.0, 0.01, 2.0])
def test_quadrature_of_a_narrow_gaussian_term_is_exact(y, var):
    total = var + 1e-4
    expected = [-0.5 * y**2 / total - 0.5 * np.log(total / 1e-4), y / total, 1.0 / total]
    assert_allclose(one(NARROW, y, 0.0, var), expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("density", "y"), [(LOGISTIC, 1.0), (LOGISTIC, -1.0), (POISSON, 0.0), (POISSON, 7.0)]
)
def test_quadrature_agrees_with_quadpack(density, y):
    for mean, var in product([-3.0, 0.0, 1.5], [0.2, 1.0, 7.4]):
        # Moments lose about 1e-12 / (var beta) in the reference, by 1 - spread / var.
        assert_allclose(
            one(density, y, mean, var),
            quadpack(density, y, mean, var),
            rtol=1e-9,
            atol=1e-11,
            err_msg=f"mean={mean}, var={var}",
        )


@in_one_test("var", [300.0, 1e4])
@in_one_test("mean", [-100.0, 0.0, 30.0])
def test_quadrature_of_a_bend_under_a_wide_gaussian_agrees_with_quadpack(mean, var):
    log_z, alpha, beta = one(LOGISTIC, 1.0, mean, var, Bend(np.asarray(0.0), np.asarray(6.0)))
    expected = quadpack(LOGISTIC, 1.0, mean, var)
    assert_allclose(log_z, expected[0], rtol=1e-10)
    assert_allclose(alpha, expected[1], rtol=1e-9)
    assert_allclose(beta, expected[2], rtol=1e-8)


def two_peaks(y, f):
    """Log of a sum of two Gaussians of standard deviation 0.5, at y and at -2 y."""
    return np.logaddexp(-2.0 * (f - y) ** 2, 1.0 - 2.0 * (f + 2.0 * y) ** 2)


def slopes_of_two_peaks(y, f):
    """Its first two derivatives."""
    share = expit(-1.0 - 2.0 * (f - y) ** 2 + 2.0 * (f + 2.0 * y) ** 2)
    one, other = -4.0 * (f - y), -4.0 * (f + 2.0 * y)
    first = share * one + (1.0 - share) * other
    return first, -4.0 + share * (1.0 - share) * (one - other) ** 2


TWO_PEAKS = LogDensity(two_peaks, slopes_of_two_peaks, log_concave=False)


@in_one_test(
    "y, mean, var",
    [(1.0, 0.4, 4.0), (1.0, -3.0, 0.5), (1.0, 0.0, 1e-4), (3.0, 0.0, 1e4), (2.0, 9.0, 9.0)],
)
def test_rule_under_a_ceiling_finds_two_peaks(y, mean, var):
    """As in the closed form."""
    total = var + 0.25
    places = np.array([y, -2.0 * y])
    gaps = 0.5 * (places - mean) ** 2 / total + 0.5 * np.log(total / 0.25)
    log_part = np.array([0.0, 1.0]) - gaps
    log_z = np.logaddexp(*log_part)
    share = np.exp(log_part - log_z)
    slope = (places - mean) / total
    alpha = share @ slope
    beta = 1.0 / total - share @ slope**2 + alpha**2
    for center in (0.0, y, -3.0):
        ceiling = Ceiling(np.asarray(1.4), np.asarray(center), np.asarray(1.0))
        found = one(TWO_PEAKS, y, mean, var, ceiling)
        assert_allclose(found, [log_z, alpha, beta], rtol=1e-8, atol=1e-10)


def test_moments_are_derivatives_of_the_log_normalizer():
    mean, step = np.linspace(-3.0, 3.0, 13), 1e-4
    y, var = np.full(13, 2.0), np.full(13, 1.7)
    log_z, alpha, beta = TiltedDensities(POISSON, AT_ZERO, y, mean, var).moments()
    up, down = (
        TiltedDensities(POISSON, AT_ZERO, y, mean + sign * step, var).log_normalizer()
        for sign in (1.0, -1.0)
    )
    assert_allclose(alpha, (up - down) / (2 * step), rtol=1e-6, atol=1e-8)
    assert_allclose(beta, -(up - 2 * log_z + down) / step**2, rtol=1e-5)
    assert_array_equal(TiltedDensities(POISSON, AT_ZERO, y, mean, var).log_normalizer(), log_z)


def test_quadrature_of_a_point_does_not_depend_on_others_in_the_batch():
    rng = np.random.default_rng(0)
    n = 3 * quadrature._POINTS_PER_BLOCK // 2  # more than one block
    y = rng.choice([-1.0, 1.0], n)
    mean, var = rng.normal(scale=20.0, size=n), 10.0 ** rng.uniform(-6, 4, n)
    together = np.array(TiltedDensities(LOGISTIC, AT_ZERO, y, mean, var).moments())
    for i in range(0, n, 29):
        assert_allclose(
            together[:, i] * [1.0, np.sqrt(var[i]), var[i]],
            one(LOGISTIC, y[i], mean[i], var[i]) * [1.0, np.sqrt(var[i]), var[i]],
            rtol=1e-11,
            atol=1e-11,
        )


def test_illegal_points_give_nan_and_do_not_affect_others():
    mean = np.array([0.5, 0.5, np.nan, np.inf, 0.5, 0.5, -2.0])
    var = np.array([1.0, -1e-3, 1.0, 1.0, np.nan, np.inf, 3.0])
    moments = np.array(TiltedDensities(LOGISTIC, AT_ZERO, np.ones(7), mean, var).moments())
    assert_array_equal(np.isnan(moments).all(axis=0), [False, True, True, True, True, True, False])
    assert_allclose(moments[:, 0], one(LOGISTIC, 1.0, 0.5, 1.0), rtol=1e-12)
    assert_allclose(moments[:, 6], one(LOGISTIC, 1.0, -2.0, 3.0), rtol=1e-12)


def test_quadrature_of_no_points_is_empty():
    empty = np.empty(0)
    assert all(
        a.shape == (0,) for a in TiltedDensities(LOGISTIC, AT_ZERO, empty, empty, empty).moments()
    )


def test_density_without_a_mode_is_refused():
    convex = LogDensity(lambda y, f: f**2, lambda y, f: (2.0 * f, 2.0 + 0.0 * f))
    with pytest.raises(RuntimeError, match="log-concave"):
        one(convex, 1.0, 1.0, 1.0)


def test_quadrature_of_many_points_needs_bounded_memory():
    n = 20_000
    mean = np.linspace(-30.0, 30.0, n)
    tracemalloc.start()
    try:
        TiltedDensities(LOGISTIC, AT_ZERO, np.ones(n), mean, np.full(n, 100.0)).log_normalizer()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10e6  # all nodes at once would take more than ten times as much
