"""Gaussian approximations under priors whose K is singular: rank below n / 2, and above."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc.approximations import EP, Exact, GaussianApproximation, Laplace, Sites
from skgpmcmc.approximations.whitened import WhitenedApproximation, gaussian_family
from skgpmcmc.hyperposterior.rows import order_farthest_first
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit, StudentT
from skgpmcmc.model import (
    GaussianPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
)
from skgpmcmc.numerics import roots
from skgpmcmc.numerics.roots import PivotedRoot, TriangularRoot

from ...helpers import finite_difference, in_one_test, relative_error


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch):
    """Low ranks are used however few rows there are."""
    monkeypatch.setattr(roots, "_FEWEST_ROWS_OF_LOW_RANK", 0)


N = 42
LINE = np.random.default_rng(0).uniform(-2.0, 2.0, size=(N, 1))
PLANE = np.random.default_rng(1).uniform(-1.0, 1.0, size=(N, 2))
LINE, PLANE = LINE[order_farthest_first(LINE)], PLANE[order_farthest_first(PLANE)]

#: Kernel, inputs and theta.
PROBLEMS = {
    "low": (ConstantKernel() * RBF(), LINE, np.array([0.4, 0.5])),
    "low, ard": (ConstantKernel() * RBF([1.0, 1.0]), PLANE, np.array([0.4, 1.5, 3.0])),
    "low, sum": (
        ConstantKernel() * RBF() + ConstantKernel() * RBF(3.0),
        LINE,
        np.array([0.4, 0.6, -0.5, 1.4]),
    ),
    "in between": (ConstantKernel() * RBF(), PLANE, np.array([0.4, 0.9])),
}
every_problem = in_one_test("name", PROBLEMS)

LIKELIHOODS = {
    "gaussian": (Gaussian(0.4), Exact()),
    "probit": (Probit(), EP()),
    "probit, laplace": (Probit(), Laplace()),
    "poisson": (Poisson(), EP()),
    "student t": (StudentT(), Laplace()),
}


def problem(name, likelihood="probit"):
    kernel, X, theta = PROBLEMS[name]
    rng = np.random.default_rng(2)
    signal = 2.0 * np.sin(2.0 * X[:, 0])
    y = {
        "probit": np.sign(signal + rng.standard_normal(N)),
        "poisson": rng.poisson(np.exp(0.5 * signal)) + 0.0,
    }.get(likelihood.split(",")[0], signal + 0.3 * rng.standard_normal(N))
    law = LIKELIHOODS[likelihood][0]
    covariance = make_covariance(kernel, X)
    model = LatentGP(covariance, Observations(law, y), default_hyperprior(covariance, law))
    theta = np.append(theta, [parameter.start for parameter in law.parameters])
    prior = model.prior_at(theta)
    assert prior.rank < N
    assert prior.low_rank == name.startswith("low")
    return model, theta


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_evidence_and_gradient_under_singular_K_agree_with_a_little_noise(name, likelihood):
    """As with K and a little noise, which every matrix has an inverse with."""
    model, theta = problem(name, likelihood)
    approximation = LIKELIHOODS[likelihood][1].with_tolerance()
    fit = approximation.fit(model, theta)
    assert isinstance(fit.q, WhitenedApproximation) == name.startswith("low")
    noisy = model.with_nugget(1e-10)
    dense = approximation.fit(noisy, theta)
    assert type(dense.q) is GaussianApproximation
    assert fit.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    assert_allclose(fit.q.mean, dense.q.mean, atol=1e-5)
    assert_allclose(fit.q.marginal_variance, dense.q.marginal_variance, atol=1e-5)
    gradient = approximation.gradient(model, fit)
    expected = finite_difference(lambda t: approximation.fit(model, t).log_evidence, theta)
    assert relative_error(gradient, expected) < 1e-5


@every_problem
def test_whitened_and_plain_gaussians_agree(name):
    model, theta = problem(name)
    prior, rng = model.prior_at(theta), np.random.default_rng(5)
    sites = Sites(rng.standard_normal(N), rng.gamma(1.0, size=N))
    plain, white = GaussianApproximation(prior, sites), WhitenedApproximation(prior, sites)
    assert white.half_log_det_B == pytest.approx(plain.half_log_det_B, abs=1e-9)
    f = prior.sample(rng, 4)
    assert_allclose(prior.times(f), prior.K @ f, atol=1e-9)
    for ask in ("mean", "marginal_variance", "weights"):
        assert_allclose(getattr(white, ask), getattr(plain, ask), atol=1e-8)
    g = rng.standard_normal((N, 2))
    assert_allclose(white.solve_smoothed(g), plain.solve_smoothed(g), atol=1e-8)
    more = (rng.standard_normal(N), rng.standard_normal(N))
    assert_allclose(white.kernel_gradient(more), plain.kernel_gradient(more), rtol=1e-5, atol=1e-7)
    assert_allclose(white.log_ratio_to_prior(f), plain.log_ratio_to_prior(f), atol=1e-7)
    X_new = np.concatenate(
        [model.covariance.X[:3], rng.uniform(-2.5, 2.5, (5, 2))[:, : len(X_of(name)[0])]]
    )
    for one, other in zip(
        white.conditional().predict(X_new), plain.conditional().predict(X_new), strict=True
    ):
        assert_allclose(one, other, atol=1e-7)
    for one, other in zip(
        white.conditional().predict_jointly(X_new),
        plain.conditional().predict_jointly(X_new),
        strict=True,
    ):
        assert_allclose(one, other, atol=1e-7)
    assert gaussian_family(prior) is (
        WhitenedApproximation if prior.low_rank else GaussianApproximation
    )


def X_of(name):
    return PROBLEMS[name][1]


@every_problem
def test_draws_of_whitened_and_plain_gaussians_have_the_moments_of_q(name):
    model, theta = problem(name)
    prior, rng = model.prior_at(theta), np.random.default_rng(6)
    sites = Sites(rng.standard_normal(N), rng.gamma(1.0, size=N))
    n_draws = 8000
    for kind in (GaussianApproximation, WhitenedApproximation):
        q = kind(prior, sites)
        # By conditioning, for few draws at once, and by the root.
        sizes = (N // 2 - 1, n_draws)
        for size in sizes:
            f = np.concatenate([q.sample(rng, size).f for _ in range(-(-n_draws // size))], axis=1)
            z = (f - q.mean[:, None]) / np.sqrt(q.marginal_variance)[:, None]
            assert np.abs(z.mean(axis=1)).max() * np.sqrt(f.shape[1]) < 5.0
            assert np.abs((z**2).mean(axis=1) - 1.0).max() * np.sqrt(f.shape[1] / 2.0) < 5.0


def test_nearly_singular_K_of_full_rank_has_an_accurate_root():
    """Its Cholesky factor has a pivot that is no better than rounding, its root has not."""
    X = np.array([[0.0], [1.0], [1.0 + 2e-6], [0.5], [2.0]])
    covariance = make_covariance(ConstantKernel() * Matern(1.0, nu=2.5), X)
    prior = GaussianPrior(covariance, np.array([0.0, 0.0]))
    assert prior.rank == 5
    assert type(prior.root) in (PivotedRoot, TriangularRoot)
    assert_allclose(prior.root.factor @ prior.root.factor.T, prior.K, atol=1e-13)
    f = prior.sample(np.random.default_rng(0))
    assert_allclose(prior.unwhiten(prior.whiten(f)), f, atol=1e-9)
