"""The softmax: its likelihood, its coupled Gaussian, Laplace's evidence and the averaged sites."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from skgpmcmc.approximations import EP, Laplace, Sites
from skgpmcmc.approximations.classwise import ClasswiseApproximation, average_sites
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.likelihoods import Logit, Softmax
from skgpmcmc.model import (
    ClasswiseGP,
    GaussianPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.prediction.summary import ClassProbabilities

from ...helpers import in_one_test

N, C = 10, 3
RNG = np.random.default_rng(0)
X = RNG.uniform(size=(N, 2))
Y = RNG.integers(0, C, N).astype(float)
F = RNG.normal(0.0, 2.0, C * N)
WEIGHT = RNG.uniform(0.3, 2.0, N)


def model_of(y=Y, X=X, n_classes=C, *, separate=False, weight=None):
    covariance = make_covariance(smooth_kernel(X.shape[1]), X)
    likelihood = Softmax(n_classes)
    prior = default_hyperprior(covariance, likelihood, "paper", n_classes if separate else 1)
    observations = Observations(likelihood, y, weight=weight)
    return ClasswiseGP(covariance, observations, prior, separate=separate)


def theta_of(model):
    return np.linspace(1.5, -0.6, len(model.start))


@in_one_test("theta", [(20.0, 2.0), (30.0, 0.0), (40.0, 4.0)])
def test_averaged_sites_are_finite_where_variances_round_to_nothing(theta):
    """Of a prior variance of exp(20) and more, what remains may be a difference below zero."""
    model = model_of()
    q = Laplace().fit(model, np.array(theta)).q
    better = average_sites(q, model.observations_at(q.prior.theta), 5)
    assert np.linalg.eigvalsh(better.row_covariances).min() > 0.0
    assert np.isfinite(better.mean).all()


def dense_W(q):
    """W as the docstring of the module defines it."""
    D = np.diag(q.precision)
    R = np.tile(np.eye(N), (C, 1))
    return D - D @ R @ np.diag(1.0 / q.prior.split(q.precision).sum(axis=0)) @ R.T @ D


def covariance_of(q):
    K = q.prior.K
    return np.linalg.solve(np.eye(len(K)) + K @ dense_W(q), K)


# --- the likelihood -------------------------------------------------------------------------------


def test_log_prob_equals_log_softmax():
    expected = log_softmax(F.reshape(C, N), axis=0)
    likelihood = Softmax(C)
    assert_allclose(np.log(likelihood.probabilities(F)), expected.ravel(), rtol=1e-12)
    chosen = expected[Y.astype(int), np.arange(N)]
    assert_allclose(likelihood.log_prob(Y, F), chosen, rtol=1e-12)
    many = np.stack([F, F + 1.0, 3.0 * F], axis=1)
    found = likelihood.log_prob(Y[:, None], many)
    assert found.shape == (N, 3)
    assert_allclose(found[:, :2], np.stack([chosen, chosen], axis=1), rtol=1e-10)


def test_derivatives_equal_finite_differences_in_each_latent_value():
    likelihood, step = Softmax(C), 1e-4
    found = likelihood.derivatives(Y, F)
    for j in range(C * N):
        e = step * np.eye(C * N)[j]
        up, down = (likelihood.derivatives(Y, F + s) for s in (e, -e))
        total_up, total_down = (likelihood.log_prob(Y, F + s).sum() for s in (e, -e))
        assert found.first[j] == pytest.approx((total_up - total_down) / 2e-4, abs=1e-7)
        assert found.second[j] == pytest.approx((up.first[j] - down.first[j]) / 2e-4, abs=1e-7)
        assert found.third[j] == pytest.approx((up.second[j] - down.second[j]) / 2e-4, abs=1e-7)
    assert_allclose(likelihood.fisher_information(F), -found.second, rtol=1e-12)


def test_legal_targets_are_the_numbers_of_classes():
    likelihood = Softmax(3)
    legal = likelihood.legal(np.array([0.0, 2.0, 3.0, -1.0, 0.5, np.nan]))
    assert legal.tolist() == [True, True, False, False, False, False]
    assert "0 to 2" in likelihood.targets


def test_drawn_classes_have_the_softmax_frequencies():
    f = np.repeat([[0.3], [1.0], [-0.7]], 20_000, axis=1)
    y = Softmax(3).sample(f.ravel(), np.random.default_rng(1))
    expected = np.exp(log_softmax(f[:, 0]))
    assert_allclose(np.bincount(y.astype(int)) / 20_000, expected, atol=0.015)


def test_weights_multiply_log_prob_and_slopes():
    plain, weighted = Observations(Softmax(C), Y), Observations(Softmax(C), Y, weight=WEIGHT)
    assert_allclose(weighted.log_prob(F), WEIGHT * plain.log_prob(F))
    expected = np.tile(WEIGHT, C) * plain.derivatives(F).first
    assert_allclose(weighted.derivatives(F).first, expected)


# --- the Gaussian of coupled sites ----------------------------------------------------------------


@pytest.fixture(params=[(False, None), (True, WEIGHT)], ids=["shared", "separate, weighted"])
def model(request):
    separate, weight = request.param
    return model_of(separate=separate, weight=weight)


@pytest.fixture
def q(model):
    return Laplace(tol=1e-13).fit(model, theta_of(model)).q


def test_prior_of_several_functions_agrees_with_dense_matrices(model):
    prior = model.prior_at(theta_of(model))
    distinct = [GaussianPrior(model.covariance, t) for t in model.kernel_thetas(theta_of(model))]
    expected = np.zeros((C * N, C * N))
    for c in range(C):
        block = slice(c * N, (c + 1) * N)
        expected[block, block] = distinct[c % len(distinct)].K
    assert_allclose(prior.K, expected)
    assert_allclose(prior.times(F), expected @ F)
    assert_allclose(prior.unwhiten(prior.whiten(F)), F, rtol=1e-9)
    law = multivariate_normal(np.zeros(C * N), expected)
    assert prior.log_prob(F) == pytest.approx(law.logpdf(F), rel=1e-7)
    A = RNG.normal(size=(C, N, N))
    A += np.swapaxes(A, 1, 2)
    gradient = prior.contract(A.copy())
    step = 1e-5
    for j, e in enumerate(step * np.eye(len(model.start))):
        up, down = (model.prior_at(theta_of(model) + s) for s in (e, -e))
        slope = sum(
            np.sum(A[c] * (up.priors[c].K - down.priors[c].K)) / (2 * step) for c in range(C)
        )
        assert gradient[j] == pytest.approx(slope, rel=1e-6)


def test_conditional_moments_at_new_rows_are_those_of_each_function(model):
    prior, X_new = model.prior_at(theta_of(model)), RNG.uniform(size=(4, 2))
    f = np.stack([F, -0.5 * F], axis=1)
    moments = prior.condition_on(f).predict(X_new)
    means, covariances = prior.condition_on(f).predict_jointly(X_new)
    for c, alone in enumerate(prior.priors):
        own = alone.condition_on(prior.split(f)[c]).predict(X_new)
        assert_allclose(moments.mean[c], own.mean, rtol=1e-10)
        assert_allclose(moments.var[c], own.var, rtol=1e-10)
        assert_allclose(means[c], own.mean, rtol=1e-10)
        assert_allclose(covariances[c].diagonal(), own.var, rtol=1e-6)


def test_coupled_gaussian_agrees_with_dense_matrices(q):
    K, W = q.prior.K, dense_W(q)
    _, log_det = np.linalg.slogdet(np.eye(C * N) + K @ W)
    assert q.half_log_det_B == pytest.approx(0.5 * log_det, rel=1e-10)
    g = np.stack([F, F**2], axis=1)
    S_g = np.linalg.solve(np.eye(C * N) + W @ K, W @ g)
    assert_allclose(q.solve_smoothed(g), S_g, atol=1e-9)
    assert_allclose(q.solve_smoothed(g[:, 0]), S_g[:, 0], atol=1e-9)
    expected = covariance_of(q).reshape(C, N, C, N)
    for i in range(N):
        assert_allclose(q.row_covariances[i], expected[:, i, :, i], atol=1e-8)


def test_mean_of_q_follows_from_its_sites(q):
    again = ClasswiseApproximation(q.prior, q.sites)
    assert_allclose(again.mean, q.mean, atol=1e-8)
    shift = RNG.normal(size=C * N)
    other = ClasswiseApproximation(q.prior, Sites(shift, q.precision))
    assert_allclose(other.mean, covariance_of(q) @ shift, atol=1e-7)


def test_draws_of_q_have_its_moments_and_its_density(q):
    draws = q.sample(np.random.default_rng(2), 40_000)
    covariance = covariance_of(q)
    sd = np.sqrt(covariance.diagonal())
    assert_allclose((draws.f.mean(axis=1) - q.mean) / sd, 0.0, atol=0.025)
    correlation = (np.cov(draws.f) - covariance) / np.outer(sd, sd)
    assert_allclose(correlation, 0.0, atol=0.035)
    law = multivariate_normal(q.mean, covariance, allow_singular=True)
    few = draws.f[:, :5]
    expected = [law.logpdf(f) - q.prior.log_prob(f) for f in few.T]
    assert_allclose(draws.log_ratio[:5], expected, atol=1e-3)
    assert_allclose(q.log_ratio_to_prior(few), expected, atol=1e-3)


@in_one_test("name", ["chol_B", "chol_white", "marginal_variance"])
def test_coupled_gaussian_refuses_attributes_of_uncoupled_sites(q, name):
    with pytest.raises(TypeError, match="coupled"):
        getattr(q, name)


# --- Laplace --------------------------------------------------------------------------------------


def test_laplace_is_at_the_mode(model):
    q = Laplace(tol=1e-13).fit(model, theta_of(model)).q
    assert_allclose(model.observations.derivatives(q.mean).first, q.weights, atol=1e-8)


def test_laplace_gradient_equals_finite_differences(model):
    laplace = Laplace(tol=1e-20)
    theta = theta_of(model)
    gradient = laplace.gradient(model, laplace.fit(model, theta))
    for j, step in enumerate(1e-4 * np.eye(len(theta))):
        up, down = (laplace.fit(model, theta + s).log_evidence for s in (step, -step))
        assert gradient[j] == pytest.approx((up - down) / 2e-4, rel=1e-6, abs=1e-7)


def test_softmax_of_two_classes_equals_the_logit_of_a_difference():
    """f_1 - f_0 has the covariance 2 K, and the probability of class 1 is its logistic function."""
    y = (Y > 0.0).astype(float)
    joint = model_of(y, n_classes=2)
    prior = default_hyperprior(joint.covariance, Logit(), "paper")
    binary = LatentGP(joint.covariance, Observations(Logit(), 2.0 * y - 1.0), prior)
    theta = theta_of(joint)
    doubled = theta + np.log([2.0, 1.0])
    laplace = Laplace(tol=1e-20)
    one, other = laplace.fit(joint, theta), laplace.fit(binary, doubled)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)
    difference = one.q.mean[N:] - one.q.mean[:N]
    assert_allclose(difference, other.q.mean, atol=1e-6)
    gradients = laplace.gradient(joint, one), laplace.gradient(binary, other)
    assert_allclose(*gradients, atol=1e-6)


def test_integer_weights_of_a_softmax_equal_repeated_rows():
    weight = np.tile([1.0, 3.0], N // 2)
    rows = np.repeat(np.arange(N), weight.astype(int))
    models = model_of(weight=weight), model_of(Y[rows], X[rows])
    one, other = (Laplace(tol=1e-20).fit(m, theta_of(m)).log_evidence for m in models)
    assert one == pytest.approx(other, rel=1e-9)


def test_ep_refuses_a_softmax():
    with pytest.raises(ValueError, match=r'one latent function.*"laplace"'):
        EP().check_likelihood(Softmax(3))
    Laplace().check_likelihood(Softmax(3))


# --- averaged sites -------------------------------------------------------------------------------


def relative_spread_of_weights(model, q):
    draws = q.sample(np.random.default_rng(3), 4000)
    log_weights = log_importance_weights(model, q, draws.f)
    weights = np.exp(log_weights - log_weights.max())
    return weights.std() / weights.mean(), np.log(weights.mean()) + log_weights.max()


def test_averaged_sites_make_a_better_importance_density():
    model = model_of()
    theta = np.array([3.5, -0.5])
    laplace = Laplace().fit(model, theta).q
    better = average_sites(laplace, model.observations, 40)
    of_laplace, log_z = relative_spread_of_weights(model, laplace)
    of_better, again = relative_spread_of_weights(model, better)
    assert of_better < 0.5 * of_laplace
    assert again == pytest.approx(log_z, abs=0.2)


def test_averaged_sites_are_a_fixed_point():
    model = model_of(weight=WEIGHT)
    q = Laplace().fit(model, np.array([2.0, -0.5])).q
    done = average_sites(q, model.observations, 60)
    after = average_sites(done, model.observations, 1)
    sd = np.sqrt(covariance_of(done).diagonal())
    assert_allclose((after.mean - done.mean) / sd, 0.0, atol=0.02)
    # The mean of the slope of log p(y | f) under q is K^-1 times its mean.
    f = done.sample(np.random.default_rng(4), 30_000).f
    slope = -np.tile(WEIGHT, C)[:, None] * model.likelihood.probabilities(f)
    slope = slope.mean(axis=1)
    slope.reshape(C, N)[Y.astype(int), np.arange(N)] += WEIGHT
    assert_allclose(done.weights, slope, atol=0.05)


# --- predictions ----------------------------------------------------------------------------------


def mean_probability(mean, var):
    """Mean of exp(f_0) / sum exp(f_c) over independent f: the winner of f + Gumbel, in one
    dimension over the winner's value, whose distribution function is a one-dimensional mean."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def below(u, c):
        return weights @ np.exp(-np.exp(-(u - mean[c] - np.sqrt(var[c]) * nodes)))

    def density(u):
        gap = u - mean[0] - np.sqrt(var[0]) * nodes
        own = weights @ np.exp(-gap - np.exp(-gap))
        return own * np.prod([below(u, c) for c in range(1, len(mean))])

    return integrate.quad(density, -30.0, 40.0, limit=200, points=list(mean))[0]


def test_probabilities_of_new_rows_agree_with_quadrature():
    """Given theta and f; the thetas differ by so little that only their random numbers do."""
    model = model_of()
    theta, X_new = np.array([1.0, -1.0]), RNG.uniform(size=(3, 2))
    prior = model.prior_at(theta)
    f = prior.sample(np.random.default_rng(5), 1)
    moments = prior.condition_on(f).predict(X_new)
    summary = ClassProbabilities(seed=0)
    thetas = theta + 1e-12 * np.arange(400)[:, None]
    found = np.mean([summary.of(t, moments, slice(0, 3), np.zeros(1)) for t in thetas], axis=0)
    assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
    for i in range(3):
        for c in range(C):
            order = [c, *(k for k in range(C) if k != c)]
            exact = mean_probability(moments.mean[order, i, 0], moments.var[order, i])
            assert found[c, i] == pytest.approx(exact, abs=0.01)
