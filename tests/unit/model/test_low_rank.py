"""Priors of low rank and their Gaussians, against dense matrices and finite differences."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eigh
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

from skgpmcmc.approximations import EP, Exact, Laplace, Sites
from skgpmcmc.approximations.whitened import WhitenedApproximation
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit, StudentT
from skgpmcmc.model import (
    EigenGP,
    LatentGP,
    NystromGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)

from ...helpers import (
    GivenCovariance,
    finite_difference,
    given_model,
    in_one_test,
    relative_error,
)

N, M = 18, 7
ROWS = np.array([0, 2, 3, 8, 11, 12, 17])
KERNELS = {
    "isotropic": smooth_kernel(2),
    "ard": smooth_kernel(2, ard=True),
    "rough": Matern([0.7, 1.2], nu=0.5) * ConstantKernel(2.0),
    "matern": ConstantKernel() * Matern(0.6, nu=1.5),
    "fixed scale": ConstantKernel(2.0) * RBF([0.7, 1.2], "fixed"),
    "fixed constant": ConstantKernel(2.0, "fixed") * Matern(0.8, nu=2.5),
    "sum": ConstantKernel(1.5) * RationalQuadratic(0.9, 1.7) + DotProduct(0.5) + WhiteKernel(0.1),
    "sum of ard": ConstantKernel(1.5) * RBF([0.7, 1.2]) + Matern([0.7, 1.2], nu=2.5),
}
#: y, offset and weight of every row go with each.
LIKELIHOODS = {
    "gaussian": (Gaussian(0.4), Exact()),
    "known noise": (Gaussian(0.3, fixed=True, row_variance=np.linspace(0.0, 1.0, N)), Exact()),
    "probit": (Probit(), EP()),
    "probit, laplace": (Probit(), Laplace()),
    "poisson": (Poisson(), EP()),
    "student t": (StudentT(), Laplace()),
}

every_kernel = in_one_test("kernel", KERNELS.values(), ids=KERNELS.keys())
every_likelihood = in_one_test("name", LIKELIHOODS)


def make(kernel=None, name="gaussian", *, weighted=True):
    """A model of N rows, with offsets and weights that differ."""
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(N, 2))
    signal = 2.0 * np.sin(4.0 * X[:, 0])
    likelihood = LIKELIHOODS[name][0]
    y = {"probit": np.sign(signal + 1e-9), "poisson": rng.poisson(np.exp(0.5 * signal)) + 0.0}.get(
        name.split(",")[0], signal + 0.3 * rng.standard_normal(N)
    )
    offset = 0.2 * rng.standard_normal(N) if weighted else None
    weight = rng.uniform(0.5, 2.0, size=N) if weighted else None
    covariance = make_covariance(smooth_kernel(2) if kernel is None else kernel, X)
    observations = Observations(likelihood, y, offset, weight)
    return LatentGP(covariance, observations, default_hyperprior(covariance, likelihood))


def nystrom(model, rows=ROWS):
    return NystromGP(model.covariance, model.observations, model.hyperprior, rows)


def eigen(model, rank=M):
    return EigenGP(model.covariance, model.observations, model.hyperprior, rank)


both = pytest.mark.parametrize("cheaper", [nystrom, eigen])


def elsewhere(model):
    """A theta that is not where the model starts."""
    return model.start + np.linspace(0.45, -0.25, len(model.start))


def low_rank_matrix(cheap, model, theta):
    """K^ by the textbook formula."""
    kernel_theta = theta[: len(model.covariance.start)]
    if isinstance(cheap, NystromGP):
        K = model.covariance.matrix(kernel_theta)
        return K[:, ROWS] @ np.linalg.solve(K[np.ix_(ROWS, ROWS)], K[ROWS])
    values, vectors = eigh(model.covariance.matrix(kernel_theta))
    return (vectors[:, -M:] * values[-M:]) @ vectors[:, -M:].T


@both
@every_kernel
def test_low_rank_covariance_equals_its_dense_formula(cheaper, kernel):
    model = make(kernel)
    cheap, theta = cheaper(model), elsewhere(model)
    prior = cheap.prior_at(theta)
    expected = low_rank_matrix(cheap, model, theta)
    assert prior.root.factor.shape == (N, M)
    assert (prior.rank, prior.low_rank) == (M, True)
    assert_allclose(prior.K, expected, atol=1e-9)
    assert_allclose(prior.variance, expected.diagonal(), atol=1e-9)
    assert np.linalg.matrix_rank(prior.K, tol=1e-12) <= M


@both
def test_low_rank_kernel_gradient_equals_a_dense_contraction(cheaper):
    model = make(KERNELS["ard"])
    theta = elsewhere(model)
    prior = cheaper(model).prior_at(theta)
    rng = np.random.default_rng(2)
    W, x, y = rng.gamma(1.0, size=N), rng.standard_normal(N), rng.standard_normal(N)
    q = WhitenedApproximation(prior, Sites(rng.standard_normal(N), W))
    E = np.linalg.solve(np.eye(N) + W[:, None] * prior.K, np.diag(W))
    G = 0.5 * np.outer(q.weights, q.weights) - 0.5 * E + np.outer(x, y)
    expected = finite_difference(lambda t: np.sum(G * cheaper(model).prior_at(t).K), theta)
    assert_allclose(q.kernel_gradient((x, y)), expected[: len(model.covariance.start)], atol=1e-8)
    R, symmetric = prior.root.factor, 0.5 * (G + G.T)
    for contracted in (
        prior.contract_root(R.T, symmetric, R.T @ symmetric @ R),
        prior.contract(G),
    ):
        assert_allclose(contracted, expected[: len(model.covariance.start)], atol=1e-8)


@both
@every_likelihood
def test_low_rank_prior_agrees_with_a_dense_prior_of_the_same_rank(cheaper, name):
    """The same rows under K^, of which the root is then made."""
    model = make(KERNELS["ard"], name)
    theta = elsewhere(model)
    cheap, approximation = cheaper(model), LIKELIHOODS[name][1].with_tolerance()
    fit = approximation.fit(cheap, theta)
    K = low_rank_matrix(cheap, model, theta)
    values = theta[len(model.covariance.start) :]
    observed = cheap.observations.with_parameters(values) if len(values) else cheap.observations
    fixed = given_model(K, cheap.y, observed.likelihood)
    parameters = [p.start for p in observed.likelihood.parameters]
    dense = approximation.fit(
        LatentGP(GivenCovariance(K), observed, fixed.hyperprior), np.array(parameters)
    )
    assert fit.converged
    assert isinstance(fit.q, WhitenedApproximation)
    assert fit.log_evidence == pytest.approx(dense.log_evidence, abs=1e-7)
    assert_allclose(fit.q.mean, dense.q.mean, atol=1e-7)
    assert_allclose(fit.q.marginal_variance, dense.q.marginal_variance, atol=1e-7)


@pytest.mark.parametrize(
    ("cheaper", "kernel", "name"),
    # Kernels and likelihoods meet in one contraction only: each with the simplest of the others.
    [
        *((nystrom, kernel, "gaussian") for kernel in KERNELS),
        *((nystrom, "ard", name) for name in LIKELIHOODS if name != "gaussian"),
        (nystrom, "sum", "probit, laplace"),
        # Where eigenvalues are apart: they differ by far more than a finite difference.
        *((eigen, kernel, "gaussian") for kernel in ("ard", "rough", "sum")),
        (eigen, "ard", "probit"),
        (eigen, "rough", "probit, laplace"),
        (eigen, "ard", "student t"),
    ],
)
def test_low_rank_evidence_gradient_equals_finite_differences(cheaper, kernel, name):
    model = make(KERNELS[kernel], name)
    cheap, theta = cheaper(model), elsewhere(model)
    approximation = LIKELIHOODS[name][1].with_tolerance()
    fit = approximation.fit(cheap, theta)
    step = 1e-3 if cheaper is nystrom else 1e-4
    expected = finite_difference(lambda t: approximation.fit(cheap, t).log_evidence, theta, step)
    assert relative_error(approximation.gradient(cheap, fit), expected) < 1e-6


@both
@in_one_test("name", ["gaussian", "probit", "student t"])
def test_low_rank_prior_handles_rows_without_prior_variance(cheaper, name):
    """A kernel that is zero at the origin, with origins among the chosen rows and the others."""
    model = make(DotProduct(0.5, "fixed") * ConstantKernel(1.0), name)
    X = model.covariance.X.copy()
    X[[0, 1, 4]] = 0.0
    kernel = ConstantKernel(1.3) * DotProduct(0.0, "fixed")
    model = LatentGP(make_covariance(kernel, X), model.observations, model.hyperprior)
    cheap, theta = cheaper(model), elsewhere(model)
    approximation = LIKELIHOODS[name][1].with_tolerance()
    fit = approximation.fit(cheap, theta)
    assert (fit.q.marginal_variance > 0.0).all()
    whole = approximation.fit(model, theta)  # K itself has rank 2
    assert fit.log_evidence == pytest.approx(whole.log_evidence, rel=1e-9)
    gradients = [approximation.gradient(*pair) for pair in ((cheap, fit), (model, whole))]
    assert relative_error(*gradients) < 1e-7


@in_one_test("name", ["probit", "student t", "gaussian"])
def test_low_rank_prior_handles_length_scales_far_below_distances(name):
    """K^ is then zero for all rows that were not chosen."""
    model = make(None, name)
    cheap, theta = nystrom(model), elsewhere(model)
    theta[1] = -12.0
    approximation = LIKELIHOODS[name][1]
    fit = approximation.fit(cheap, theta)
    seen = approximation.fit(model.of_inputs(ROWS), theta)
    alone = np.delete(cheap.observations_at(theta).log_prob(np.zeros(N)), ROWS).sum()
    assert fit.log_evidence == pytest.approx(seen.log_evidence + alone, abs=1e-3)
    assert np.isfinite(approximation.gradient(cheap, fit)).all()


@every_kernel
def test_cross_covariance_gradient_equals_finite_differences(kernel):
    """Also with more new inputs than others, which are handled in blocks."""
    rng = np.random.default_rng(0)
    covariance = make_covariance(kernel, rng.uniform(size=(5, 2)))
    new = covariance.at_new(rng.uniform(size=(13, 2)))
    A = rng.standard_normal((5, 13))
    theta = covariance.start + np.linspace(0.4, -0.3, len(covariance.start))
    gradient = covariance.contract_cross(theta, new, A, covariance.cross(theta, new))
    expected = finite_difference(lambda t: np.sum(A * covariance.cross(t, new)), theta)
    assert_allclose(gradient, expected, atol=1e-9)


def test_nugget_of_a_low_rank_prior_reaches_the_chosen_rows_alone():
    """It is noise of these alone: others are known by them."""
    model = make()
    cheap, theta = nystrom(model), elsewhere(model)
    some = nystrom(model.with_nugget(1e-3)).prior_at(theta)
    K = model.covariance.matrix(theta[:2])
    square = K[np.ix_(ROWS, ROWS)] + 1e-3 * K[0, 0] * np.eye(M)
    columns = K[ROWS]
    columns[:, ROWS] = square
    assert_allclose(some.K, columns.T @ np.linalg.solve(square, columns), rtol=1e-9)
    assert_allclose(cheap.with_nugget(1e-3).prior_at(theta).K, some.K, rtol=1e-12)
    assert not np.allclose(cheap.prior_at(theta).K, some.K, rtol=1e-6)


def test_low_rank_prior_counts_equal_chosen_rows_once():
    model = make()
    X = model.covariance.X.copy()
    X[[3, 12, 5]] = X[0]  # two of the chosen rows, and another
    model = replace(model, covariance=make_covariance(KERNELS["ard"], X))
    theta = elsewhere(make(KERNELS["ard"]))
    one, other = (
        nystrom(model).prior_at(theta),
        nystrom(model, ROWS[[0, 1, 3, 4, 6]]).prior_at(theta),
    )
    assert one.rank == other.rank == M - 2
    assert_allclose(one.K, other.K, rtol=1e-10)
    approximation = Exact()
    fits = [approximation.fit(nystrom(model, rows), theta) for rows in (ROWS, one.root.pivots)]
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, rel=1e-12)
    expected = finite_difference(lambda t: approximation.fit(nystrom(model), t).log_evidence, theta)
    assert relative_error(approximation.gradient(nystrom(model), fits[0]), expected) < 1e-6


def test_pickled_low_rank_model_keeps_no_matrices_after_use():
    model = nystrom(make())
    before = len(pickle.dumps(model))
    root = model.prior_at(elsewhere(model)).root.factor
    assert len(pickle.dumps(model)) == before
    again = pickle.loads(pickle.dumps(model)).prior_at(elsewhere(model)).root.factor
    assert_allclose(again, root)
