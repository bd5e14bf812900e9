"""Posteriors of theta where inputs repeat, against grids that know nothing of the package.

The first two data sets are those on which a jitter was noise that chains could buy: they ended at
variances of millions. The reference on a grid is importance sampling of f around the mode of v,
from a root of K by eigenvectors.
"""

from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr, logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.likelihoods import Gaussian

from ..helpers import seeded
from .test_known_noise import check_moments

KERNEL = ConstantKernel() * RBF()
#: Nodes of a grid, in each direction, and importance draws at each.
N_NODES, N_DRAWS = 41, 400


class Problem(NamedTuple):
    """Rows, the distinct inputs among them, and p(y | f) of the latter."""

    X: np.ndarray
    y: np.ndarray
    inputs: np.ndarray  # (n, 1)
    log_lik: object  # of f (n, m), summed over rows; (m,)
    low: tuple  # ends of the grid, natural logs of constant and length-scale
    high: tuple


def two_runs():
    """Two runs at each of eight settings, with a noise that is known to be small, and is not."""
    X = np.repeat(np.linspace(0.0, 10.0, 8), 2)[:, None]
    y = 5.0 * np.sin(X[:, 0]) + 0.3 * np.random.default_rng(2).standard_normal(16)
    pairs, variance = y.reshape(8, 2), 0.05**2

    def log_lik(f):
        residual = pairs[:, :, None] - f[:, None, :]
        return -0.5 * (residual**2 / variance + np.log(2.0 * np.pi * variance)).sum(axis=(0, 1))

    return Problem(X, y, X[::2], log_lik, (0.5, -1.0), (6.5, 1.6))


def overdispersed_counts():
    """Six counts at each of ten places, which vary more than a Poisson law allows."""
    X = np.repeat(np.linspace(0.0, 5.0, 10), 6)[:, None]
    rng = np.random.default_rng(4)
    rate = 100.0 * np.exp(0.5 * np.sin(X[:, 0])) * rng.gamma(12.0, 1.0 / 12.0, 60)
    y = rng.poisson(rate)
    center = np.log(y.mean())
    by_place = y.reshape(10, 6)

    def log_lik(f):
        log_rate = f + center
        constant = gammaln(by_place + 1.0).sum()
        per_place = by_place.sum(axis=1)[:, None] * log_rate - 6.0 * np.exp(log_rate)
        return per_place.sum(axis=0) - constant

    return Problem(X, y, X[::6], log_lik, (-4.5, -1.8), (3.5, 1.3))


def trials():
    """Trials of two outcomes, different numbers of them at nine levels."""
    levels = np.linspace(-2.0, 2.0, 9)
    rng = np.random.default_rng(5)
    n = rng.integers(3, 30, 9)
    k = rng.binomial(n, 1.0 / (1.0 + np.exp(-2.0 * levels)))
    X = np.repeat(levels, n)[:, None]
    y = np.concatenate(
        [np.r_[np.ones(own), np.zeros(other - own)] for own, other in zip(k, n, strict=True)]
    )

    def log_lik(f):
        return (k[:, None] * log_ndtr(f) + (n - k)[:, None] * log_ndtr(-f)).sum(axis=0)

    return Problem(X, y, levels[:, None], log_lik, (-3.0, -1.5), (7.0, 4.0))


def covariance_root(problem, theta):
    """A root of K by its eigenvectors: those below rounding have no part in f."""
    squares = (problem.inputs - problem.inputs.T) ** 2
    K = np.exp(theta[0] - 0.5 * squares / np.exp(2.0 * theta[1]))
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-13 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def log_evidence(problem, theta, rng):
    """Log p(y | theta) by importance sampling from a Gaussian at the mode of v, f = R v."""
    R = covariance_root(problem, theta)
    n, r = R.shape
    step = 1e-4

    def height(v):
        return problem.log_lik(R @ v) - 0.5 * (v**2).sum(axis=0)

    def slopes(v):
        f = (R @ v)[:, None]
        ends = [f + sign * step * np.eye(n) for sign in (1.0, -1.0)]
        up, down = (problem.log_lik(end) for end in ends)
        middle = problem.log_lik(f)
        return (up - down) / (2.0 * step), -(up + down - 2.0 * middle) / step**2

    v = np.zeros(r)
    for _ in range(100):
        slope, curvature = slopes(v)
        precision = np.eye(r) + (R.T * np.maximum(curvature, 0.0)) @ R
        move = np.linalg.solve(precision, R.T @ slope - v)
        share = 1.0
        while height((v + share * move)[:, None])[0] < height(v[:, None])[0] and share > 1e-6:
            share *= 0.5
        v = v + share * move
        if np.abs(share * move).max() < 1e-6:
            break
    factor = np.linalg.cholesky(precision) / np.sqrt(1.2)  # wider, for its tails
    z = rng.standard_normal((r, N_DRAWS))
    draws = v[:, None] + np.linalg.solve(factor.T, z)
    log_q = np.log(factor.diagonal()).sum() - 0.5 * (z**2).sum(axis=0)
    return logsumexp(height(draws) - log_q) - np.log(N_DRAWS)


FITS = {
    "two runs": (
        two_runs,
        lambda **settings: BayesianGPRegressor(
            KERNEL, likelihood=Gaussian(0.05, fixed=True), normalize_y=False, **settings
        ),
    ),
    "overdispersed counts": (
        overdispersed_counts,
        lambda **settings: BayesianGPCountRegressor(likelihood="poisson", **settings),
    ),
    "trials": (
        trials,
        lambda **settings: BayesianGPClassifier(ConstantKernel() * RBF(), **settings),
    ),
}


@pytest.mark.parametrize("name", FITS)
def test_variance_draws_stay_moderate_if_inputs_repeat(name):
    """A look at the variance: with a jitter it had been far out in the tail of its prior."""
    data, estimator = FITS[name]
    problem = data()
    model = estimator(target_ess=None, max_rhat=1.1, n_draws=60, random_state=seeded())
    model.fit(problem.X, problem.y)
    variance = np.exp(model.theta_samples_[:, :, 0])
    assert np.median(variance) < 300.0
    assert np.isfinite(model.predict(problem.inputs)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("name", FITS)
def test_posterior_with_repeated_inputs_equals_that_of_a_grid(name):
    data, estimator = FITS[name]
    problem = data()
    settings = {"target_ess": 3000, "n_draws": 20_000, "random_state": seeded()}
    model = estimator(**settings).fit(problem.X, problem.y)
    rng = np.random.default_rng(seeded())
    axes = [np.linspace(a, b, N_NODES) for a, b in zip(problem.low, problem.high, strict=True)]
    log_density = [[log_evidence(problem, np.array([a, b]), rng) for b in axes[1]] for a in axes[0]]
    check_moments(model, axes, np.array(log_density))
