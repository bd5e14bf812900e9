"""Searches for the mode of a periodic kernel: many periods, then multiples and fractions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.approximations import Exact
from skgpmcmc.likelihoods import Gaussian, Softmax
from skgpmcmc.model import ClasswiseGP, LatentGP, Observations, default_hyperprior, make_covariance
from skgpmcmc.model.default_priors import period_positions
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.emulator.periods import (
    choose_step_sizes,
    move_to_best_multiple,
    move_to_best_period,
)
from skgpmcmc.setup.emulator.search import search

from ....helpers import in_one_test, seeded, short_chains

PERIODIC = ConstantKernel() * ExpSineSquared()
X = np.linspace(0.0, 20.0, 40)[:, None]
PERIOD = 2.0 * np.pi


def wave(seed):
    """A sine with noise, of mean 0 and standard deviation 1."""
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(seed).standard_normal(len(X))
    return (y - y.mean()) / y.std()


def model_of(kernel, y=None):
    covariance, likelihood = make_covariance(kernel, X), Gaussian()
    prior = default_hyperprior(covariance, likelihood)
    return LatentGP(covariance, Observations(likelihood, wave(0) if y is None else y), prior)


POSITIONS = [
    (PERIODIC, [(2, 1)]),
    (ConstantKernel() * RBF(), []),
    (RBF() + ExpSineSquared(length_scale_bounds="fixed") ** 2, [(1, None)]),
    (ExpSineSquared() + ExpSineSquared(), [(1, 0), (3, 2)]),
    (ExpSineSquared(periodicity_bounds="fixed"), []),
]


@in_one_test("kernel, expected", POSITIONS)
def test_positions_of_periods_are_found_in_the_kernel(kernel, expected):
    assert period_positions(model_of(kernel)) == expected


def test_positions_of_periods_are_found_for_every_class():
    covariance, likelihood = make_covariance(PERIODIC, X), Softmax(2)
    prior = default_hyperprior(covariance, likelihood, n_kernels=2)
    observed = Observations(likelihood, (X[:, 0] > 10.0).astype(float))
    assert period_positions(ClasswiseGP(covariance, observed, prior, True)) == [(2, 1), (5, 4)]


def test_search_starts_at_the_best_of_many_periods():
    theta = np.array([0.0, 0.0, np.log(1.7), -1.0])
    found = move_to_best_period(model_of(PERIODIC), Exact(), theta, 64)
    assert_allclose(found[[0, 1, 3]], theta[[0, 1, 3]])
    assert np.exp(found[2]) == pytest.approx(PERIOD, rel=0.05)


@in_one_test("factor", [1.0 / 3.0, 0.5, 1.0, 2.0, 3.0])
def test_search_returns_from_a_multiple_to_the_period(factor):
    theta = np.array([0.5, 0.6, np.log(PERIOD), -1.1])
    there = theta + np.log(factor) * np.array([0.0, -1.0, 1.0, 0.0])
    assert_allclose(move_to_best_multiple(model_of(PERIODIC), Exact(), there), theta)


def test_models_without_a_period_keep_their_starts():
    model, theta = model_of(ConstantKernel() * RBF()), np.array([0.5, 0.6, -1.1])
    assert move_to_best_period(model, None, theta, 64) is theta
    assert move_to_best_multiple(model, None, theta) is theta


@in_one_test(
    ("kernel", "theta", "expected"),
    [
        (ConstantKernel() * RBF(), [0.5, 0.6, -1.1], 0.25),
        (
            PERIODIC,
            [0.5, 0.6, np.log(PERIOD), -1.1],
            [0.25, 0.25, 0.25 * PERIOD / (2.0 * np.pi * 20.0), 0.25],
        ),
    ],
)
def test_step_sizes_of_a_period_are_small(kernel, theta, expected):
    sizes = choose_step_sizes(model_of(kernel), np.array(theta), EmulatorOptions())
    assert_allclose(sizes, expected)


def test_mode_searches_end_at_the_period():
    """A climb alone ends at 1, 2 or 3 times the period, or elsewhere."""
    model = model_of(PERIODIC)
    starts = [model.hyperprior.sample(np.random.default_rng(seed)) for seed in range(10)]
    ends = [search(model, Exact(), start, EmulatorOptions())[-1] for start in starts]
    best = max(end.log_density for end in ends)
    assert sum(end.log_density > best - 1.0 for end in ends) >= 8
    (period,) = {round(float(np.exp(e.theta[2])), 1) for e in ends if e.log_density > best - 1.0}
    assert period == pytest.approx(PERIOD, rel=0.03)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Chains accept")  # an emulator of many modes may be poor
def test_chains_of_most_fits_agree_in_the_period():
    """In four of five fits at least: single ones go over to trajectories, which may stay apart."""
    agree = 0
    for seed in map(seeded, range(5)):
        model = BayesianGPRegressor(PERIODIC, n_draws=400, random_state=seed)
        with short_chains():
            model.fit(X, wave(seed))
        periods = np.exp(np.median(model.theta_samples_[:, :, 2], axis=1))
        agree += int(np.allclose(periods, PERIOD, rtol=0.1))
    assert agree >= 4
