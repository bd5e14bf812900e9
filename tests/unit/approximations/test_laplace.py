"""The Laplace approximation: its definition, its error, and scikit-learn's own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq, minimize
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc.approximations import GaussianApproximation, Laplace, Sites
from skgpmcmc.likelihoods import Derivatives, Likelihood
from skgpmcmc.numerics.linalg import count_operations

from ...helpers import (
    NO_THETA,
    THREE_THETA,
    THREE_Y,
    ApproximationSuite,
    both_links,
    check_gaussian_approximation,
    dense,
    every_pair,
    exact_posterior,
    given_model,
    in_one_test,
    make_model,
    orthant_probability,
    three_point_model,
    toy_classes,
)

TWO = np.array([[1.2, 0.7], [0.7, 1.2]])
TIGHT = Laplace().with_tolerance()


class TestLaplace(ApproximationSuite):
    approximation = Laplace()


# --- the definition -------------------------------------------------------------------------------


@both_links
@in_one_test("var", [0.3, 4.48, 50.0, 2981.0])
def test_laplace_of_one_point_agrees_with_bisection(likelihood, var):
    """Mode by bisection, curvature by the likelihood."""
    model = given_model([[var]], [1.0], likelihood)
    q, log_evidence, converged, _ = TIGHT.fit(model, NO_THETA)

    def slope(f):
        return float(model.likelihood.derivatives(1.0, np.array(f)).first) - f / var

    mode = brentq(slope, 0.0, 50.0, xtol=1e-13, rtol=1e-13)
    curvature = -float(model.likelihood.derivatives(1.0, np.array(mode)).second)
    expected = model.observations.total(np.array([mode])) - 0.5 * mode**2 / var
    expected -= 0.5 * np.log1p(var * curvature)
    assert converged
    # Newton stops at a gain of 1e-13: the mode is good to sqrt(1e-13), squared by a last step.
    assert_allclose(q.mean, mode, rtol=1e-6)
    assert_allclose(q.marginal_variance, 1.0 / (1.0 / var + curvature), rtol=1e-6)
    assert log_evidence == pytest.approx(expected, abs=1e-6)


@both_links
def test_laplace_mean_is_the_mode(likelihood):
    model = three_point_model(likelihood)
    q = TIGHT.fit(model, THREE_THETA).q

    def objective(v):
        return 0.5 * v @ v - model.observations.total(q.prior.unwhiten(v))

    best = minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9,
                    "fatol": 1e-15, "maxiter": 5000})  # fmt: skip
    assert_allclose(q.mean, q.prior.unwhiten(best.x), atol=1e-6)
    first, second, _ = model.likelihood.derivatives(model.y, q.mean)
    assert_allclose(q.weights, first, atol=1e-7)  # the mode is where K^-1 f = d1
    assert_allclose(q.precision, -second, atol=1e-12)


# --- the error ------------------------------------------------------------------------------------


@both_links
@in_one_test(
    ("K", "y", "of_evidence", "of_mean"),
    [
        (TWO, (1.0, -1.0), 0.05, 0.2),
        (TWO, (1.0, 1.0), 0.05, 0.2),
        (three_point_model().prior_at(THREE_THETA).K, THREE_Y, 0.12, 0.3),
    ],
)
def test_laplace_error_with_few_points_is_bounded(likelihood, K, y, of_evidence, of_mean):
    """Means in standard deviations; these are off by less than 10 %."""
    model = given_model(K, y, likelihood)
    q, log_evidence, _, _ = TIGHT.fit(model, NO_THETA)
    log_z, mean, covariance = exact_posterior(K, y, model.likelihood)
    sd = np.sqrt(covariance.diagonal())
    assert log_evidence == pytest.approx(log_z, abs=of_evidence)
    assert (np.abs(q.mean - mean) < of_mean * sd).all()
    assert_allclose(np.sqrt(q.marginal_variance), sd, rtol=0.1)


@pytest.mark.parametrize("y", [(1.0, -1.0, 1.0), (1.0, 1.0, 1.0)])
def test_the_reference_integral_agrees_with_the_orthant_formula(y):
    model = three_point_model()
    K = model.prior_at(THREE_THETA).K
    log_z, _, _ = exact_posterior(K, y, model.likelihood)
    assert log_z == pytest.approx(np.log(orthant_probability(K, np.array(y))), abs=1e-12)


# --- scikit-learn ---------------------------------------------------------------------------------


@in_one_test("kernel", [ConstantKernel(4.0) * RBF(0.4),
                                    ConstantKernel(4.0) * Matern([0.4, 1.0], nu=1.5)],
                         ids=["rbf", "ard matern"])  # fmt: skip
def test_laplace_agrees_with_scikit_learns_classifier(kernel):
    X, y = toy_classes(40, 2, seed=8)
    X_new = np.random.default_rng(9).uniform(size=(6, 2))
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(X, y > 0.0)
    model = make_model(X, y, "logit", kernel)
    fit = TIGHT.fit(model, kernel.theta)
    value, gradient = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    assert fit.log_evidence == pytest.approx(value, abs=1e-6)
    # Their mode, hence their gradient, is a little less tight than ours.
    assert_allclose(TIGHT.gradient(model, fit), gradient, atol=1e-4)
    mean, var = theirs.latent_mean_and_variance(X_new)
    ours = fit.q.conditional().predict(X_new)
    assert_allclose(ours.mean[:, 0], mean, atol=1e-5)
    assert_allclose(ours.var, var, atol=1e-5)


# --- Newton's method ------------------------------------------------------------------------------


def test_few_newton_steps_are_reported_as_not_converged():
    X, y = toy_classes(20, 2, seed=6)
    model = make_model(X, y)
    fit = Laplace(tol=1e-10, max_iter=1).fit(model, np.array([2.0, -1.0]))
    assert not fit.converged
    assert fit.n_iterations == 1
    # What is left belongs together all the same: the curvature is that at the mean.
    second = model.likelihood.derivatives(model.y, fit.q.mean).second
    assert_allclose(fit.q.precision, -second, rtol=1e-10)
    expected = model.observations.total(fit.q.mean) - 0.5 * fit.q.mean @ fit.q.weights
    assert fit.log_evidence == pytest.approx(expected - fit.q.half_log_det_B, abs=1e-10)


class Counts(Likelihood):
    """Poisson counts with mean exp(f), up to a constant: full Newton steps overshoot."""

    name = "counts"
    log_concave = True

    def log_prob(self, y, f):
        return y * f - np.exp(f)

    def derivatives(self, y, f):
        mean = np.exp(f)
        return Derivatives(y - mean, -mean, -mean)

    def fisher_information(self, f):
        return np.exp(f)

    def sample(self, f, rng):
        return rng.poisson(np.exp(f)).astype(float)


def test_newton_steps_never_lower_the_objective():
    K, y = np.array([[25.0, 20.0], [20.0, 25.0]]), np.array([100.0, 0.0])
    model = given_model(K, y, Counts())
    # From f = 0, where W = I and d1 = y - 1, the full step ends far below the start.
    full_step = np.linalg.solve(np.linalg.inv(K) + np.eye(2), y - 1.0)
    assert model.observations.total(full_step) < 1e6 * model.observations.total(np.zeros(2))
    objectives = []
    for max_iter in range(1, 40):
        fit = Laplace(tol=1e-13, max_iter=max_iter).fit(model, NO_THETA)
        objectives.append(fit.log_evidence + fit.q.half_log_det_B)
        if fit.converged:
            break
    assert fit.converged
    assert (np.diff(objectives) > -1e-9).all()
    first = model.likelihood.derivatives(model.y, fit.q.mean).first
    assert_allclose(fit.q.weights, first, atol=1e-6)


@both_links
def test_the_start_does_not_change_the_mode(likelihood):
    X, y = toy_classes(30, 2, seed=1)
    model, theta = make_model(X, y, likelihood), np.array([1.5, -1.0])
    cold = TIGHT.fit(model, theta)
    elsewhere = TIGHT.fit(model, theta + 1.0).q.sites
    for start in (elsewhere, cold.q.sites):
        warm = TIGHT.fit(model, theta, start)
        assert warm.converged
        assert warm.n_iterations < cold.n_iterations
        assert warm.log_evidence == pytest.approx(cold.log_evidence, abs=1e-9)
        assert_allclose(warm.q.weights, cold.q.weights, atol=1e-6)


@in_one_test("max_iter", [0, -3, 1.5])
def test_impossible_max_iter_is_refused_by_name(max_iter):
    with pytest.raises(ValueError, match=f"max_iter must be an integer >= 1; got {max_iter}"):
        Laplace(max_iter=max_iter).check()


# --- the Gaussian itself --------------------------------------------------------------------------


@in_one_test("empty", [(), (0, 3), range(7)], ids=["none", "some", "all"])
def test_gaussian_approximation_agrees_with_dense_formulas(empty):
    """Any non-negative W will do, zeros included: it need not come from a fit."""
    rng = np.random.default_rng(0)
    model = make_model(rng.uniform(size=(7, 2)), np.ones(7))
    precision = rng.gamma(1.0, size=7)
    precision[list(empty)] = 0.0
    prior = model.prior_at(np.array([0.5, -1.0]))
    q = GaussianApproximation(prior, Sites(rng.standard_normal(7), precision))
    check_gaussian_approximation(q)
    _, covariance = dense(q)
    assert_allclose(q.mean, covariance @ q.sites.shift, rtol=1e-8, atol=1e-12)


def random_gaussian(n=12, seed=0):
    rng = np.random.default_rng(seed)
    prior = make_model(rng.uniform(size=(n, 2)), np.ones(n)).prior_at(np.array([0.5, -1.0]))
    return GaussianApproximation(prior, Sites(rng.standard_normal(n), rng.gamma(1.0, size=n)))


# --- marginal variances ---------------------------------------------------------------------------


def extended_variance(K, precision):
    """Diagonal of K - K s B^-1 s K in extended precision, by a Cholesky factorization by rows."""
    n = len(K)
    K, s = K.astype(np.longdouble), np.sqrt(precision.astype(np.longdouble))
    L = np.eye(n, dtype=np.longdouble) + s[:, None] * K * s
    half = s[:, None] * K
    for i in range(n):
        L[i, i] = np.sqrt(L[i, i])
        L[i + 1 :, i] /= L[i, i]
        L[i + 1 :, i + 1 :] -= np.outer(L[i + 1 :, i], L[i + 1 :, i])
        half[i] /= L[i, i]
        half[i + 1 :] -= np.outer(L[i + 1 :, i], half[i])
    return K.diagonal() - (half * half).sum(axis=0)


PRECISIONS = {
    "every size": lambda rng, n: 10.0 ** rng.uniform(-14.0, 4.0, n),
    "a few empty": lambda rng, n: 10.0 ** np.r_[rng.uniform(-14, -4, n // 5), np.zeros(n - n // 5)],
    "some zero": lambda rng, n: np.where(rng.random(n) < 0.3, 0.0, 0.5),
    "empty": lambda rng, n: 10.0 ** rng.uniform(-14.0, -5.0, n),
    "large": lambda rng, n: 10.0 ** rng.uniform(0.0, 4.0, n),
    "probit": lambda rng, n: rng.uniform(0.01, 0.7, n),
}


@in_one_test(
    ("precision", "log_constant", "log_length"),
    every_pair(tuple(PRECISIONS), (-4.0, 0.0, 3.0), (-2.0, 0.0, 1.0)),
)
def test_marginal_variances_are_accurate_to_nine_digits(precision, log_constant, log_length):
    n, rng = 80, np.random.default_rng(0)
    model = make_model(rng.uniform(size=(n, 2)), np.ones(n))
    prior = model.prior_at(np.array([log_constant, log_length]))
    q = GaussianApproximation(prior, Sites(np.zeros(n), PRECISIONS[precision](rng, n)))
    expected = extended_variance(prior.K, q.precision)
    assert_allclose(q.marginal_variance.astype(np.longdouble) / expected, 1.0, rtol=1e-9)


def test_marginal_variances_of_wide_priors_are_as_accurate_as_the_direct_form():
    """To nine digits, or what the direct form can give: its error is about eps K_ii / Sigma_ii."""
    n, rng = 40, np.random.default_rng(1)
    model = make_model(rng.uniform(size=(n, 2)), np.ones(n))
    for log_constant in (8.0, 15.0):
        prior = model.prior_at(np.array([log_constant, -1.0]))
        for precision in PRECISIONS.values():
            q = GaussianApproximation(prior, Sites(np.zeros(n), precision(rng, n)))
            expected = extended_variance(prior.K, q.precision)
            error = np.abs(q.marginal_variance / expected - 1.0)
            unavoidable = np.finfo(float).eps * prior.K.diagonal() / expected
            assert (error < np.maximum(1e-9, 10.0 * unavoidable)).all()


def test_marginal_variances_leave_the_factor_alone():
    q = random_gaussian(80)
    before = q.chol_B.copy()
    assert (q.marginal_variance > 0.0).all()
    assert_array_equal(q.chol_B, before)


@in_one_test(("n_empty", "inverse", "solves"), [(0, 1, 0.0), (3, 1, 0.3), (7, 0, 1.0)])
def test_marginal_variances_cost_one_inverse_or_one_solve(n_empty, inverse, solves):
    """An inverse, and a solve for the empty sites; a solve for all where most are empty."""
    prior = random_gaussian(10).prior
    precision = np.r_[np.zeros(n_empty), np.ones(10 - n_empty)]
    q = GaussianApproximation(prior, Sites(np.zeros(10), precision))
    q.chol_B  # noqa: B018, made and counted before
    with count_operations() as count:
        q.marginal_variance  # noqa: B018, it is cached
    count = count.per(10)
    assert (count.cholesky, count.inverse) == (0.0, inverse)
    assert count.triangular_solve == pytest.approx(solves)


def test_inputs_bound_to_the_covariance_give_the_same_predictions():
    q = random_gaussian()
    X_new = np.random.default_rng(1).uniform(size=(6, 2))
    new = q.prior.covariance.at_new(X_new)
    for verb in (q.conditional().predict, q.conditional().predict_jointly):
        for bound, unbound in zip(verb(new), verb(X_new), strict=True):
            assert_array_equal(bound, unbound)
    some = q.conditional().predict(X_new[2:4])
    assert_allclose(some.mean, q.conditional().predict(new).mean[2:4], rtol=1e-12)
    assert_allclose(some.var, q.conditional().predict(new).var[2:4], rtol=1e-12)
