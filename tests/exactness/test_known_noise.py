"""Posteriors of theta where the noise is known, or none, against grids."""

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc import BayesianGPRegressor

from ..helpers import Z_LIMIT, seeded

N = 12
X = np.sort(np.random.default_rng(0).uniform(0.0, 4.0, N))[:, None]
F = 20.0 + 4.0 * np.sin(2.0 * X[:, 0])
#: Noise of rows that differ by a factor of a thousand.
VARIANCE = np.geomspace(1e-3, 1.0, N)
Y = {
    "none": F,
    "known": F + np.sqrt(VARIANCE) * np.random.default_rng(1).standard_normal(N),
}
CASES = {
    "none, rbf": ("none", RBF(), np.full(N, 1e-6 * F.var()), (-3.0, -1.5), (12.0, 2.5)),
    "none, matern": ("none", Matern(nu=2.5), np.full(N, 1e-6 * F.var()), (-3.0, -2.0), (10.0, 3.0)),
    "known, rbf": ("known", RBF(), VARIANCE, (-4.0, -2.5), (8.0, 2.5)),
}
N_NODES = 121


def check_moments(est, axes, log_density):
    """Means and standard deviations of theta, from log p(y | theta) on a grid."""
    for i, (axis, prior) in enumerate(zip(axes, est.priors_.values(), strict=True)):
        log_prior = prior.logpdf(np.exp(axis)) + axis
        log_density = log_density + (log_prior[:, None] if i == 0 else log_prior)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    margins = [weight.sum(axis=1), weight.sum(axis=0)]
    assert sum(margin[[0, -1]].sum() for margin in margins) < 1e-3  # at the edges
    mean = np.array([m @ a for m, a in zip(margins, axes, strict=True)])
    square = np.array([m @ a**2 for m, a in zip(margins, axes, strict=True)])
    draws = est.theta_samples_.reshape(-1, 2)
    z = (draws.mean(axis=0) - mean) / est.diagnostics_.mcse_mean
    assert np.abs(z).max() < Z_LIMIT
    ratio = draws.std(axis=0) / np.sqrt(square - mean**2)
    assert ((ratio > 0.9) & (ratio < 1.1)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("case", CASES)
def test_posterior_with_known_noise_equals_that_of_a_grid(case):
    noise, kernel, variance, low, high = CASES[case]
    est = BayesianGPRegressor(
        ConstantKernel() * kernel,
        noise=noise,
        target_ess=2000,
        n_draws=20_000,
        random_state=seeded(),
    )
    est.fit(X, Y[noise], noise_variance=variance if noise == "known" else None)
    shift, scale = est._units
    y, noise = (Y[noise] - shift) / scale, np.diag(variance / scale**2)
    axes = [np.linspace(a, b, N_NODES) for a, b in zip(low, high, strict=True)]
    log_density = np.empty((N_NODES, N_NODES))
    for j, log_length in enumerate(axes[1]):
        correlation = kernel.clone_with_theta([log_length])(X)
        for i, log_constant in enumerate(axes[0]):
            factor = cho_factor(np.exp(log_constant) * correlation + noise, lower=True)
            log_density[i, j] = -0.5 * y @ cho_solve(factor, y) - np.log(factor[0].diagonal()).sum()
    check_moments(est, axes, log_density)
