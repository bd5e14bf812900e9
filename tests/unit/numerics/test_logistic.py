"""Means of a logistic function and of its square, against equally spaced nodes in long doubles."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.numerics.logistic import average_logistic

MEANS = np.array([-650.0, -300.0, -30.0, -7.0, -2.0, -0.3, 0.0, 1e-3, 1.0, 5.0, 40.0, 700.0])


def straight_rule(mean, var, power):
    """Log of the mean of s(f)^power; the integrand falls on both sides of its mode.

    The logistic has its poles at distance pi and the Gaussian is entire: with these steps the
    trapezoidal rule is exact to rounding.
    """
    mean, sd = np.longdouble(mean), np.sqrt(np.longdouble(var))
    step = min(0.25 / sd, np.longdouble(1) / 3)
    # With the tilt of the exact mode, between zero and the power times sd, all nodes that count.
    x = np.arange(np.longdouble(-13), power * sd + 13, step)
    f = mean + sd * x
    log_height = power * (np.minimum(f, 0) - np.log1p(np.exp(-abs(f)))) - x**2 / 2
    top = log_height.max()
    total = np.exp(log_height - top).sum() * step
    return top + np.log(total) - np.log(2 * np.arccos(np.longdouble(-1))) / 2


@pytest.mark.parametrize("var", [1e-12, 1e-4, 0.1, 0.9, 4.0, 50.0, 1e3])
def test_means_have_the_stated_accuracy(var):
    for mean in MEANS:
        # One at a time: a distribution gains accuracy from neighbors that need more nodes.
        log_mean, square = average_logistic(np.array([mean]), np.array([var]))
        expected, of_square = (straight_rule(mean, var, power) for power in (1, 2))
        assert abs(log_mean[0] - float(expected)) < 1e-12 * max(1.0, abs(expected))
        if of_square > -700.0:
            assert square[0] == pytest.approx(float(np.exp(of_square)), rel=1e-11, abs=0.0)


def test_without_variance_they_are_values():
    log_mean, square = average_logistic(MEANS[:-1], np.asarray(0.0))
    log_p = np.minimum(MEANS[:-1], 0.0) - np.log1p(np.exp(-np.abs(MEANS[:-1])))
    assert_allclose(log_mean, log_p, rtol=1e-14, atol=1e-15)
    assert log_mean.max() <= 0.0
    assert_allclose(square, np.exp(2.0 * log_p), rtol=1e-12)


def test_arguments_broadcast_and_others_are_nan():
    mean = np.array([[0.0, np.nan, np.inf], [1.0, -1.0, 2.0]])
    found = average_logistic(mean, np.array([[1.0], [-1.0]]))
    assert_array_equal(np.isfinite(found), [[[True, False, False], [False] * 3]] * 2)


def test_rows_do_not_change_each_other():
    mean, var = np.linspace(-50.0, 50.0, 1300), np.geomspace(1e-6, 1e4, 1300)
    together = average_logistic(mean, var)
    for row in (0, 700, 1299):
        alone = average_logistic(mean[row], var[row])
        assert_allclose(np.ravel(alone), np.array(together)[:, row], rtol=1e-11)
