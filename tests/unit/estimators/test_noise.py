"""Center and scale of targets whose noise is known, and whose rows have weights."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from skgpmcmc.estimators._noise import center_and_scale

from ...helpers import in_one_test

N = 30
RNG = np.random.default_rng(0)
Y = 3.0 + RNG.standard_normal(N)
VARIANCE = RNG.uniform(0.0, 4.0, N)
WEIGHT = RNG.uniform(0.5, 3.0, N)


def units(y, weight=None, variance=None):
    """Center and scale that a regressor takes."""
    return np.array(center_and_scale(y, weight, variance))


def plain(y, weight=None):
    center = np.average(y, weights=weight)
    return np.array([center, np.sqrt(np.average((y - center) ** 2, weights=weight))])


@in_one_test("weight", [None, WEIGHT], ["no weights", "weights"])
def test_center_and_scale_without_variances_are_weighted_moments(weight):
    assert_allclose(units(Y, weight), plain(Y, weight), rtol=1e-14)


@in_one_test("weight", [None, WEIGHT], ["no weights", "weights"])
def test_equal_variances_do_not_change_center_and_scale(weight):
    for variance in (0.0, 0.3, 1e12):
        same = np.full(N, variance)
        assert (units(Y, weight, same) == units(Y, weight)).all()


def implied(y, weight, variance, scale):
    """Center and scale by the weights that a scale implies."""
    return plain(y, weight / (scale**2 + variance))


@in_one_test("weight", [np.ones(N), WEIGHT], ["no weights", "weights"])
def test_scale_is_a_fixed_point_of_its_own_weights(weight):
    _, scale = found = units(Y, weight, VARIANCE)
    assert_allclose(implied(Y, weight, VARIANCE, scale), found, rtol=1e-10)
    assert abs(scale / plain(Y, weight)[1] - 1.0) > 1e-3  # it is another one
    root = brentq(lambda s: implied(Y, weight, VARIANCE, s)[1] - s, 0.1, 10.0, xtol=1e-13)
    assert_allclose(scale, root, rtol=1e-10)


def test_rows_of_enormous_noise_do_not_change_center_and_scale():
    y = np.concatenate([Y, 1000.0 * RNG.standard_normal(5)])
    variance = np.concatenate([np.zeros(N), np.full(5, 1e6)])
    center, scale = units(y, None, variance)
    assert abs(center - Y.mean()) < 0.1
    assert 0.9 * Y.std() < scale < 1.4 * Y.std()
    for last in (1e12, 1e40, 1e200):
        one_more = units(np.append(Y, -50.0), None, np.append(VARIANCE, last))
        assert_allclose(one_more, units(Y, None, VARIANCE), rtol=1e-8)


def test_repeated_row_gives_the_scale_of_a_doubled_weight():
    weight = np.ones(N)
    weight[7] = 2.0
    found = units(np.append(Y, Y[7]), None, np.append(VARIANCE, VARIANCE[7]))
    assert_allclose(found, units(Y, weight, VARIANCE), rtol=1e-10)


def test_center_and_scale_follow_the_units_of_y():
    one = units(Y, WEIGHT, VARIANCE)
    for power in (2.0**10, 2.0**-30, 2.0**400):
        assert (units(power * Y, WEIGHT, power**2 * VARIANCE) == power * one).all()
    assert_allclose(units(1000.0 * Y, WEIGHT, 1e6 * VARIANCE), 1000.0 * one, rtol=1e-10)


def test_more_noise_in_far_rows_never_increases_the_scale():
    y = np.concatenate([Y, [40.0, -30.0]])
    scales = [
        units(y, None, np.concatenate([np.zeros(N), [noise, noise]]))[1]
        for noise in np.geomspace(1e-3, 1e9, 25)
    ]
    assert (np.diff(scales) <= 1e-12).all()
    assert scales[-1] < 1.01 * Y.std() < scales[0]


def test_rows_without_noise_that_are_equal_leave_the_scale_to_the_others():
    """There is no scale by the weights that imply none: they give the center alone."""
    y = np.concatenate([np.full(10, 3.0), [2.0, 4.5, 3.5]])
    variance = np.concatenate([np.zeros(10), np.full(3, 4.0)])
    center, scale = units(y, None, variance)
    assert abs(center - 3.0) < 1e-12
    assert scale == plain(y)[1]


def test_constant_target_has_scale_one_whatever_its_noise():
    assert (units(np.full(N, 0.1), WEIGHT, VARIANCE) == [0.1, 1.0]).all()
