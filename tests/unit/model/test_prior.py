"""The Gaussian prior at fixed hyper-parameters against textbook formulas."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import kstest, multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from skgpmcmc.model import GaussianPrior, make_covariance
from skgpmcmc.model.nugget import NuggetCovariance
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError, count_operations

from ...helpers import NO_THETA, Z_LIMIT, GivenCovariance, finite_difference, in_one_test

N = 12
KERNELS = {
    "rbf": ConstantKernel(2.0) * RBF(0.6),
    "ard matern": ConstantKernel(2.0) * Matern([0.6, 1.5], nu=1.5),
    "with noise": ConstantKernel(2.0) * RBF(0.6) + WhiteKernel(0.3),
}
#: Which input each row has; with two of them all matrices are of two rows.
SINGULAR = {
    "eight inputs": [0, 1, 2, 1, 3, 4, 4, 5, 0, 6, 7, 7],
    "two inputs": [0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1],
}


def regular_prior(name):
    """One whose K is well conditioned."""
    X = np.random.default_rng(0).uniform(size=(N, 2))
    covariance = NuggetCovariance(make_covariance(KERNELS[name], X), 1e-6)
    return GaussianPrior(covariance, covariance.start + 0.1)


def singular_prior(name):
    """One whose K has a row for each of several equal inputs."""
    X = np.random.default_rng(0).uniform(size=(N, 2))[SINGULAR[name]]
    covariance = make_covariance(KERNELS["ard matern"], X)
    return GaussianPrior(covariance, covariance.start + 0.1)


@pytest.fixture(params=[*KERNELS, *SINGULAR])
def prior(request):
    name = request.param
    return singular_prior(name) if name in SINGULAR else regular_prior(name)


@pytest.fixture(params=KERNELS)
def regular(request):
    return regular_prior(request.param)


@pytest.fixture(params=SINGULAR)
def singular(request):
    return singular_prior(request.param)


def some_functions(prior):
    """Three, arbitrary as far as equal inputs let them be."""
    which = np.unique(prior.covariance.X, axis=0, return_inverse=True)[1]
    return np.random.default_rng(4).standard_normal((N, 3))[which]


@pytest.fixture
def X_new():
    return np.random.default_rng(1).uniform(size=(5, 2))


def test_root_times_its_transpose_is_K(prior):
    """It is the Cholesky factor where K has one."""
    R, pivots = prior.root.factor, prior.root.pivots
    assert prior.rank == len(np.unique(prior.covariance.X, axis=0))
    assert R.shape == (N, prior.rank)
    assert_allclose(R @ R.T, prior.K, atol=1e-14)
    assert_array_equal(np.triu(R[pivots], 1), 0.0)
    assert_allclose(prior.root.triangle, R[pivots], atol=0.0)
    if prior.rank == N:
        assert_allclose(R, np.linalg.cholesky(prior.K), atol=1e-13)
        assert_array_equal(prior.chol, R)


@in_one_test("shape", [(), (3,)])
def test_whitening_inverts_unwhitening(prior, shape):
    v = np.random.default_rng(2).standard_normal((prior.rank, *shape))
    f = prior.unwhiten(v)
    assert f.shape == (N, *shape)
    assert_allclose(f, prior.root.factor @ v, atol=1e-12)
    assert_allclose(prior.whiten(f), v, atol=1e-10)


def test_whitening_by_input_draws_what_K_does_not_determine(prior):
    """Inputs that determine nothing have draws of their own: for them any v will do."""
    f, pivots = prior.sample(np.random.default_rng(2)), prior.root.pivots
    one, other = (prior.whiten_by_input(f, np.random.default_rng(seed)) for seed in (0, 1))
    for v in (one, other):
        assert v.shape == (N,)
        assert_array_equal(v[pivots], prior.whiten(f))
    others = np.delete(np.arange(N), pivots)
    assert (one[others] != other[others]).all()
    if len(others):
        rng = np.random.default_rng(3)
        many = [prior.whiten_by_input(f, rng)[others] for _ in range(100)]
        assert kstest(np.ravel(many), "norm").pvalue > 1e-4


def test_products_with_the_root_equal_dense_products(prior):
    R, rng = prior.root.factor, np.random.default_rng(8)
    weight, A = rng.standard_normal(N), rng.standard_normal((prior.rank, prior.rank))
    A += A.T
    for x in (rng.standard_normal(N), rng.standard_normal((N, 3))):
        assert_allclose(prior.root.apply_transpose(x), R.T @ x, atol=1e-12)
        assert_allclose(prior.times(x), prior.K @ x, atol=1e-12)
    assert_allclose(prior.gram(weight), R.T @ np.diag(weight) @ R, atol=1e-12)
    RA, of_weight = prior.gram_pullback(A)
    assert_allclose(RA, R @ A, atol=1e-12)
    assert_allclose(of_weight, (R @ A @ R.T).diagonal(), atol=1e-12)
    g = rng.standard_normal(N)
    expected = np.linalg.solve(np.eye(N) + weight[:, None] * prior.K, g)
    assert_allclose(prior.solve_with_precision(weight, g), expected, atol=1e-10)


def test_derivatives_of_the_root_equal_finite_differences(prior):
    """Forward by differences, and backward as the transpose of that."""

    def root(theta):
        return GaussianPrior(prior.covariance, theta).root.factor

    changes = finite_difference(root, prior.theta)
    for dK, dR in zip(prior.derivatives(), changes, strict=True):
        assert_allclose(prior.root_change(dK), dR, atol=1e-6 * abs(dR).max())
    R_bar = np.random.default_rng(9).standard_normal(prior.root.factor.shape)
    expected = (R_bar * changes).sum(axis=(1, 2))
    assert_allclose(prior.root_gradient(R_bar), expected, rtol=1e-6, atol=1e-8)


def test_contraction_by_the_root_equals_finite_differences(prior):
    """With a symmetric G that a root sees only in parts."""
    rng, R = np.random.default_rng(9), prior.root.factor
    G = rng.standard_normal((N, N))
    G += G.T
    expected = finite_difference(
        lambda theta: np.sum(G * GaussianPrior(prior.covariance, theta).K), prior.theta
    )
    contracted = prior.contract_root(R.T, G, R.T @ G @ R)
    assert_allclose(contracted, expected, rtol=1e-7, atol=1e-7)
    assert_allclose(prior.contract(G), expected, rtol=1e-7, atol=1e-7)


def test_variances_and_inverse_given_sites_equal_dense_formulas(prior):
    noise = np.linspace(0.3, 2.0, N)
    R, E = prior.root.factor, np.linalg.inv(prior.K + np.diag(noise))
    factor = prior.whitened_factor(noise**-0.5)
    assert_allclose(factor @ factor.T, np.eye(prior.rank) + (R.T / noise) @ R, atol=1e-10)
    assert_allclose(prior.inverse_plus_noise(noise, factor), E, atol=1e-9)
    sigma = prior.K - prior.K @ E @ prior.K
    assert_allclose(prior.variance_given(factor), sigma.diagonal(), atol=1e-9)
    rows = np.array([3, 1])
    of_rows = prior.half_given(factor, rows)
    assert_allclose(of_rows.T @ of_rows, sigma[np.ix_(rows, rows)], atol=1e-9)
    half, variance = prior.smooth(E)
    assert_allclose(half, E @ prior.K, atol=1e-12)
    assert_allclose(variance, sigma.diagonal(), atol=1e-12)


def test_K_in_single_precision_has_a_root():
    """Its rounding errors make eigenvalues of -1e-7, which are no fault of the kernel."""
    X = np.random.default_rng(0).uniform(size=(60, 2))
    K = (ConstantKernel(2.0) * RBF(0.6))(X).astype(np.float32).astype(float)
    root = GaussianPrior(GivenCovariance(K), NO_THETA).factorize().root.factor
    assert_allclose(root @ root.T, K, atol=1e-5)


@in_one_test(
    "K",
    [
        np.ones((3, 3)) - 0.1 * np.eye(3),
        np.diag([1.0, 1.0, -1e-3]),
        np.full((2, 2), np.nan),
        np.diag([np.inf, 1.0]),
        np.zeros((2, 2)),
    ],
    ids=["indefinite", "negative", "no numbers", "infinite", "zero"],
)
def test_matrix_that_is_no_covariance_has_no_root(K):
    with pytest.raises(NotPositiveDefiniteError):
        GaussianPrior(GivenCovariance(K), NO_THETA).factorize()


def test_log_density_of_f_equals_scipys(regular):
    f = np.random.default_rng(3).standard_normal(N)
    expected = multivariate_normal(np.zeros(N), regular.K).logpdf(f)
    assert regular.log_prob(f) == pytest.approx(expected, rel=1e-8)


def test_conditional_moments_equal_the_textbook_formula(prior, X_new):
    f = some_functions(prior)
    cross = prior.covariance.cross(prior.theta, X_new)
    square = prior.covariance.square(prior.theta, X_new)
    inverse = np.linalg.pinv(prior.K, rcond=1e-13, hermitian=True)
    mean, var = prior.condition_on(f).predict(X_new)
    expected = square - cross.T @ inverse @ cross
    assert_allclose(mean, cross.T @ inverse @ f, rtol=1e-7, atol=1e-8)
    assert_allclose(var, expected.diagonal(), atol=1e-9)
    joint_mean, joint = prior.condition_on(f).predict_jointly(X_new)
    assert_allclose(joint_mean, mean, atol=1e-12)
    assert_allclose(joint, expected, atol=1e-9)
    assert_allclose(joint.diagonal(), var, atol=1e-12)


def test_conditional_variance_at_the_training_inputs_is_zero():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    covariance = make_covariance(ConstantKernel(2.0) * Matern(0.6, nu=0.5), X)
    prior = GaussianPrior(covariance, covariance.start)
    f = prior.sample(np.random.default_rng(5))
    mean, var = prior.condition_on(f[:, None]).predict(X)
    assert_allclose(mean[:, 0], f, atol=1e-10)
    assert_allclose(var, 0.0, atol=1e-12)
    _, square = prior.condition_on(f[:, None]).predict_jointly(X)
    assert (square.diagonal() < 0.0).any()  # where rounding has the last word,
    assert (var >= 0.0).all()  # a variance must not go below zero


def test_draws_of_f_have_mean_zero_and_covariance_K(prior):
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


def test_prior_factorizes_K_once(regular, X_new):
    f = np.ones(N)
    with count_operations() as count:
        assert regular.factorize() is regular
        regular.log_prob(f)
        regular.whiten(regular.unwhiten(f))
        regular.sample(np.random.default_rng(0), 3)
        regular.condition_on(f[:, None]).predict(X_new)
    assert count.per(N).cholesky == 1.0


def test_pickled_prior_keeps_no_matrices(prior):
    expected = prior.root.factor
    restored = pickle.loads(pickle.dumps(prior))
    assert set(vars(restored)) == {"covariance", "theta", "matrix"}
    assert restored.matrix is None
    assert_array_equal(restored.root.factor, expected)


@in_one_test(
    "asked",
    [
        lambda prior: prior.chol,
        lambda prior: prior.half_log_det,
        lambda prior: prior.solve(np.ones(N)),
        lambda prior: prior.inverse(),
        lambda prior: prior.log_prob(np.ones(N)),
    ],
    ids=["factor", "determinant", "solution", "inverse", "density"],
)
def test_singular_K_is_refused_where_an_inverse_is_needed(singular, asked):
    message = f"K has the rank {singular.rank}, and {N} rows: its inverse does not exist"
    with pytest.raises(NotPositiveDefiniteError, match=message):
        asked(singular)


@in_one_test("root_precision", [np.full(N, 1.7), np.linspace(0.3, 1.7, N)])
def test_smoothed_factor_equals_the_dense_cholesky_factor(prior, root_precision):
    """Also with the same precision everywhere, which takes another way."""
    B = np.eye(N) + root_precision[:, None] * prior.K * root_precision
    assert_allclose(prior.smoothed_factor(root_precision), np.linalg.cholesky(B), atol=1e-10)
