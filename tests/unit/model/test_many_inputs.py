"""Models of many inputs, whose K is never made: as those with K, and refused where it is needed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

from skgpmcmc.approximations import EP, Exact, Laplace, Sites
from skgpmcmc.approximations.whitened import WhitenedApproximation
from skgpmcmc.hyperposterior.rows import order_farthest_first
from skgpmcmc.kernels import On
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit
from skgpmcmc.model import (
    GaussianPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
)
from skgpmcmc.model import prior as priors
from skgpmcmc.model.covariance import Covariance
from skgpmcmc.model.low_rank import bound_rank
from skgpmcmc.model.terms import TermsCovariance, list_terms
from skgpmcmc.numerics import linalg, roots
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError

from ...helpers import finite_difference, in_one_test, relative_error

N = 90
X = np.random.default_rng(1).uniform(-1.5, 1.5, size=(N, 2))
X = X[order_farthest_first(X)]
C = ConstantKernel()

#: Kernels of low rank, and theta.
KERNELS = {
    "rbf": (C * RBF(), [0.4, 1.3]),
    "ard": (C * RBF([1.0, 1.0]), [0.4, 1.0, 1.5]),
    "sum": (C * RBF() + C * RBF(3.0), [0.4, 1.3, -0.5, 1.8]),
    "linear": (C * RBF() + DotProduct(1.0), [0.2, 1.2, 0.3]),
    "columns": (C * On(RBF(), [0]) + C * On(RBF(), [1]), [0.4, -0.3, 0.1, 0.2]),
    "with a column": (C * RBF() + On(C * RBF(), [1]), [0.4, 1.2, -0.5, 0.2]),
}
every_kernel = in_one_test("name", KERNELS)


def few_is_many(monkeypatch):
    """Treat some dozens of inputs as many, in several blocks, and in several rounds of pivots."""
    monkeypatch.setattr(priors, "_MOST_INPUTS_WITH_MATRIX", 10)
    monkeypatch.setattr(linalg, "_LEAST_COLUMNS", 1)
    monkeypatch.setattr(linalg, "_ENTRIES_PER_BLOCK", 1000)
    monkeypatch.setattr(roots, "_N_CANDIDATES", 15)
    for module in (priors, roots):
        monkeypatch.setattr(module, "N_TRIED", 60)


@pytest.fixture
def no_matrix(monkeypatch):
    """Refuse the covariance matrix of all inputs."""
    few_is_many(monkeypatch)
    monkeypatch.setattr(priors, "most_columns", lambda n, n_matrices: n - 1)
    monkeypatch.setattr(GaussianPrior, "K", property(lambda _: pytest.fail("K was made")))


def model_of(name, likelihood=None):
    kernel, theta = KERNELS[name]
    law = likelihood or Probit()
    rng = np.random.default_rng(2)
    signal = 1.5 * np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = {
        "probit": np.sign(signal + rng.standard_normal(N)),
        "poisson": rng.poisson(np.exp(0.5 * signal)) + 0.0,
    }.get(law.name, signal + 0.3 * rng.standard_normal(N))
    covariance = make_covariance(kernel, X)
    model = LatentGP(covariance, Observations(law, y), default_hyperprior(covariance, law))
    return model, np.append(theta, [parameter.start for parameter in law.parameters])


@every_kernel
def test_root_without_K_reproduces_K(name, no_matrix):
    model, theta = model_of(name)
    prior = model.prior_at(theta)
    K = model.covariance.matrix(prior.kernel_theta)
    assert prior.low_rank
    assert prior.rank <= N // 2
    assert_allclose(prior.root.factor @ prior.root.factor.T, K, atol=1e-10)
    assert_allclose(prior.variance, K.diagonal(), rtol=1e-12)
    assert prior.find_small_rank() == prior.rank


@every_kernel
@in_one_test(
    "law, approximation",
    [(Probit(), EP()), (Probit(), Laplace()), (Gaussian(0.4), Exact()), (Poisson(), EP())],
)
def test_evidence_gradient_and_predictions_without_K_equal_those_with_K(
    name, law, approximation, monkeypatch
):
    model, theta = model_of(name, law)
    approximation = approximation.with_tolerance()
    X_new = np.random.default_rng(4).uniform(-1.3, 1.3, (7, 2))
    dense = approximation.fit(model, theta)
    assert not dense.q.prior.by_columns
    expected = dense.q.conditional().predict(X_new)
    f = dense.q.prior.sample(np.random.default_rng(0), 2)
    expected_given_f = dense.q.prior.condition_on(f).predict_jointly(X_new)
    with monkeypatch.context() as patched:
        few_is_many(patched)
        fit = approximation.fit(model, theta)
        assert isinstance(fit.q, WhitenedApproximation)
        assert fit.q.prior.by_columns
        assert fit.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
        found = fit.q.conditional().predict(X_new)
        bound = fit.q.conditional().predict(model.covariance.at_new(X_new))
        found_given_f = fit.q.prior.condition_on(f).predict_jointly(X_new)
        gradient = approximation.gradient(model, fit)
    for one, same, other in zip(found, bound, expected, strict=True):
        assert_allclose(one, other, atol=1e-6)
        assert_allclose(same, one, atol=1e-13)
    for one, other in zip(found_given_f, expected_given_f, strict=True):
        assert_allclose(one, other, atol=1e-5)
    slopes = finite_difference(lambda t: approximation.fit(model, t).log_evidence, theta)
    assert relative_error(gradient, slopes) < 1e-5


def test_terms_without_K_equal_those_with_K(monkeypatch):
    model, theta = model_of("sum")
    terms = TermsCovariance(model.covariance, list_terms(model.covariance)[:1])
    X_new = np.random.default_rng(4).uniform(-2.0, 2.0, (7, 2))
    sites = Sites(np.random.default_rng(5).standard_normal(N), np.full(N, 0.7))
    expected = WhitenedApproximation(GaussianPrior(terms, theta), sites).conditional()
    expected = expected.predict(X_new)
    few_is_many(monkeypatch)
    prior = GaussianPrior(terms, theta)
    assert prior.by_columns
    found = WhitenedApproximation(prior, sites).conditional().predict(X_new)
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, atol=1e-7)


def test_prior_of_many_inputs_keeps_K_where_the_rank_is_large(monkeypatch):
    covariance = make_covariance(C * Matern(0.3, nu=0.5), X)
    theta = covariance.start
    dense = GaussianPrior(covariance, theta)
    few_is_many(monkeypatch)
    prior = GaussianPrior(covariance, theta)
    assert prior.by_columns
    assert prior.find_small_rank() is None
    assert not prior.low_rank
    assert_allclose(prior.root.factor, dense.root.factor)
    assert_allclose(prior.variance, dense.variance)


def test_large_rank_without_memory_for_K_is_refused(no_matrix, monkeypatch):
    monkeypatch.setattr(priors, "N_TRIED", 40)
    covariance = make_covariance(C * Matern(0.3, nu=0.5), X)
    prior = GaussianPrior(covariance, covariance.start)
    assert prior.find_small_rank() is None
    with pytest.raises(MemoryError, match=r"n = 90 .*effective_rank"):
        prior.factorize()


def test_rank_is_bounded_for_proposals_and_unchanged_near_theta(monkeypatch):
    model, theta = model_of("rbf")
    assert bound_rank(model, theta) is model  # few inputs
    few_is_many(monkeypatch)
    bounded = bound_rank(model, theta)
    rank = model.prior_at(theta).rank
    approximation = EP().with_tolerance()
    own, other = approximation.fit(bounded, theta), approximation.fit(model, theta)
    assert own.log_evidence == pytest.approx(other.log_evidence, abs=1e-6)
    far = theta - [0.0, 2.5]
    assert model.prior_at(far).rank > 2 * rank
    assert bounded.prior_at(far).rank == 2 * rank
    fit = approximation.fit(bounded, far)
    slopes = finite_difference(lambda t: approximation.fit(bounded, t).log_evidence, far)
    assert relative_error(approximation.gradient(bounded, fit), slopes) < 1e-4
    assert bound_rank(model, far) is model  # K has nearly full rank there


def test_noise_on_f_needs_K(monkeypatch):
    few_is_many(monkeypatch)
    model, theta = model_of("rbf")
    prior = model.with_nugget(1e-4).prior_at(theta)
    assert not prior.by_columns
    assert prior.rank == N


class Indefinite(Covariance):
    """A matrix with negative eigenvalues, for all theta."""

    @staticmethod
    def serves(kernel):
        return False

    def _entries(self, X_new):
        return 1.0 - 3.0 * np.abs(self.X[:, :1] - X_new[:, :1].T)

    def matrix(self, theta):
        return np.asfortranarray(self._entries(self.X))

    def cross(self, theta, X_new):
        return np.asfortranarray(self._entries(self.at_new(X_new).X_new))

    def diagonal(self, theta, X_new):
        return np.ones(len(X_new))


def test_kernel_of_many_inputs_that_is_no_covariance_is_refused(monkeypatch):
    few_is_many(monkeypatch)
    prior = GaussianPrior(Indefinite(C * RBF(), X), np.zeros(2))
    assert prior.find_small_rank() is None
    with pytest.raises(NotPositiveDefiniteError, match="negative eigenvalue"):
        prior.factorize()
