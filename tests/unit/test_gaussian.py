"""The Gaussian prior at fixed hyper-parameters against textbook formulas."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpmcmc.model import GaussianPrior, make_covariance
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError, count_operations

from ..helpers import NO_THETA, Z_LIMIT, GivenCovariance, in_one_test

KERNELS = {
    "rbf": ConstantKernel(2.0) * RBF(0.6),
    "ard matern": ConstantKernel(2.0) * Matern([0.6, 1.5], nu=1.5),
    "with noise": ConstantKernel(2.0) * RBF(0.6) + WhiteKernel(0.3),
}
N = 8


@pytest.fixture(params=KERNELS.values(), ids=KERNELS.keys())
def prior(request):
    X = np.random.default_rng(0).uniform(size=(N, 2))
    covariance = make_covariance(request.param, X, 1e-6)
    return GaussianPrior(covariance, covariance.start + 0.1)


@pytest.fixture
def X_new():
    return np.random.default_rng(1).uniform(size=(5, 2))


@in_one_test("shape", [(N,), (N, 3)])
def test_whitening_and_back(prior, shape):
    v = np.random.default_rng(2).standard_normal(shape)
    f = prior.unwhiten(v)
    assert f.shape == shape
    assert_allclose(f, np.linalg.cholesky(prior.K) @ v, atol=1e-12)
    assert_allclose(prior.whiten(f), v, atol=1e-10)


def test_products_with_the_root(prior):
    L, rng = np.linalg.cholesky(prior.K), np.random.default_rng(8)
    weight, A = rng.standard_normal(N), rng.standard_normal((N, N))
    A += A.T
    for x in (rng.standard_normal(N), rng.standard_normal((N, 3))):
        assert_allclose(prior.pull(x), L.T @ x, atol=1e-12)
        assert_allclose(prior.pull(prior.unpull(x)), x, atol=1e-8)
    assert_allclose(prior.gram(weight), L.T @ np.diag(weight) @ L, atol=1e-12)
    LA, of_weight = prior.gram_pullback(A)
    assert_allclose(LA, L @ A, atol=1e-12)
    assert_allclose(of_weight, (L @ A @ L.T).diagonal(), atol=1e-12)


def test_derivatives_of_the_root(prior):
    """Forward by differences, and backward as the transpose of that."""
    rng, step = np.random.default_rng(9), 1e-6
    L, dK = np.linalg.cholesky(prior.K), rng.standard_normal((N, N))
    dK = 1e-3 * prior.K * (dK + dK.T)
    up, down = (np.linalg.cholesky(prior.K + h * dK) for h in (step, -step))
    dL = (up - down) / (2.0 * step)
    assert_allclose(L @ prior.root_pushforward(dK), dL, atol=1e-4 * abs(dL).max())
    L_bar = np.tril(rng.standard_normal((N, N)))
    assert np.sum(prior.root_pullback(L_bar) * dK) == pytest.approx(np.sum(L_bar * dL), rel=1e-4)


def test_what_sites_and_noise_leave(prior):
    noise = np.linspace(0.3, 2.0, N)
    E = np.linalg.inv(prior.K + np.diag(noise))
    assert_allclose(prior.inverse_added(noise, prior.whitened_factor(noise**-0.5)), E, atol=1e-9)
    half, variance = prior.smoothed(E)
    assert_allclose(half, E @ prior.K, atol=1e-12)
    assert_allclose(variance, (prior.K - prior.K @ E @ prior.K).diagonal(), atol=1e-12)


def test_a_factor_can_be_made_at_once(prior):
    assert prior.made() is prior
    with count_operations() as count:
        prior.whiten(np.ones(N))
    assert count.cholesky == 0
    singular = GivenCovariance(np.ones((3, 3)) - 0.1 * np.eye(3), 0.0)
    with pytest.raises(NotPositiveDefiniteError):
        GaussianPrior(singular, NO_THETA).made()


def test_log_density(prior):
    f = np.random.default_rng(3).standard_normal(N)
    expected = multivariate_normal(np.zeros(N), prior.K).logpdf(f)
    assert prior.log_prob(f) == pytest.approx(expected, rel=1e-8)


def test_conditioning_is_the_textbook_formula(prior, X_new):
    f = np.random.default_rng(4).standard_normal((N, 3))
    cross = prior.covariance.cross(prior.theta, X_new)
    square = prior.covariance.square(prior.theta, X_new)
    mean, var = prior.given(f).predict(X_new)
    expected = square - cross.T @ np.linalg.solve(prior.K, cross)
    assert_allclose(mean, cross.T @ np.linalg.solve(prior.K, f), rtol=1e-7, atol=1e-8)
    assert_allclose(var, expected.diagonal(), atol=1e-9)
    joint_mean, joint = prior.given(f).predict_jointly(X_new)
    assert_allclose(joint_mean, mean, atol=1e-12)
    assert_allclose(joint, expected, atol=1e-9)
    assert_allclose(joint.diagonal(), var, atol=1e-12)


def test_bound_inputs_give_the_same(prior, X_new):
    f = np.random.default_rng(4).standard_normal((N, 3))
    new = prior.covariance.at_new(X_new)
    for theta in (prior.theta, prior.theta - 0.5):
        other = GaussianPrior(prior.covariance, theta)
        given = other.given(f)
        for verb in (given.predict, given.predict_jointly):
            for bound, unbound in zip(verb(new), verb(X_new), strict=True):
                assert_array_equal(bound, unbound)


def test_a_new_input_does_not_notice_the_others(prior, X_new):
    f = np.random.default_rng(4).standard_normal((N, 3))
    every, some = prior.given(f).predict(X_new), prior.given(f).predict(X_new[1:3])
    assert_allclose(some.mean, every.mean[1:3], rtol=1e-10, atol=1e-12)
    assert_allclose(some.var, every.var[1:3], rtol=1e-10, atol=1e-12)


def test_at_the_training_inputs_nothing_is_left_to_know():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    covariance = make_covariance(ConstantKernel(2.0) * Matern(0.6, nu=0.5), X, 0.0)
    prior = GaussianPrior(covariance, covariance.start)
    f = prior.sample(np.random.default_rng(5))
    mean, var = prior.given(f[:, None]).predict(X)
    assert_allclose(mean[:, 0], f, atol=1e-10)
    assert_allclose(var, 0.0, atol=1e-12)
    _, square = prior.given(f[:, None]).predict_jointly(X)
    assert (square.diagonal() < 0.0).any()  # where rounding has the last word,
    assert (var >= 0.0).all()  # a variance must not go below zero


def test_draws_have_mean_zero_and_covariance_K(prior):
    n_draws = 100_000
    f = prior.sample(np.random.default_rng(6), n_draws)
    assert f.shape == (N, n_draws)
    K = prior.K
    z_mean = f.mean(axis=1) / np.sqrt(K.diagonal() / n_draws)
    # The products have variance K_ii K_jj + K_ij^2 (Isserlis).
    z_square = (f @ f.T / n_draws - K) / np.sqrt(
        (np.outer(K.diagonal(), K.diagonal()) + K**2) / n_draws
    )
    assert np.abs(z_mean).max() < Z_LIMIT
    assert np.abs(z_square).max() < Z_LIMIT


def test_one_draw_is_a_vector(prior):
    f = prior.sample(np.random.default_rng(7))
    assert f.shape == (N,)
    assert_array_equal(f, prior.sample(np.random.default_rng(7)))


def test_one_factorization_serves_everything(prior, X_new):
    f = np.ones(N)
    with count_operations() as count:
        prior.log_prob(f)
        prior.whiten(prior.unwhiten(f))
        prior.sample(np.random.default_rng(0), 3)
        prior.given(f[:, None]).predict(X_new)
    assert count.cholesky == 1.0


def test_pickles_leave_the_matrices_behind(prior):
    expected = prior.chol
    restored = pickle.loads(pickle.dumps(prior))
    assert not {"K", "chol"} & set(vars(restored))
    assert_array_equal(restored.chol, expected)


def test_a_singular_matrix_says_so():
    prior = GaussianPrior(GivenCovariance(np.ones((3, 3))), NO_THETA)
    with pytest.raises(NotPositiveDefiniteError):
        prior.sample(np.random.default_rng(0))


@in_one_test("root_precision", [np.full(N, 1.7), np.linspace(0.3, 1.7, N)])
def test_factor_of_what_sites_smooth(prior, root_precision):
    """Also with the same precision everywhere, which takes another way."""
    B = np.eye(N) + root_precision[:, None] * prior.K * root_precision
    assert_allclose(prior.smoothed_factor(root_precision), np.linalg.cholesky(B), atol=1e-10)
