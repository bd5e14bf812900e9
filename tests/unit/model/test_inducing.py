"""The approximation by inducing inputs, against its dense formulas."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from skgpmcmc.approximations import EP, Exact
from skgpmcmc.approximations.whitened import WhitenedApproximation
from skgpmcmc.hyperposterior.rows import order_farthest_first
from skgpmcmc.importance.left_out import DensityQuery, FittedPosterior
from skgpmcmc.kernels import On
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit, StudentT
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
)
from skgpmcmc.model.covariance import Covariance
from skgpmcmc.model.inducing import BlurredObservations, with_inducing_inputs
from skgpmcmc.model.observations import ExtraTargets
from skgpmcmc.model.terms import TermsCovariance, list_terms
from skgpmcmc.storage.archive import from_arrays, to_arrays

from ...helpers import finite_difference, in_one_test, relative_error

N, M = 40, 9
X = np.random.default_rng(1).uniform(-1.5, 1.5, size=(N, 2))
X = X[order_farthest_first(X)]
C = ConstantKernel()
KERNELS = {
    "rbf": (C * RBF(), [0.4, -0.3]),
    "matern": (C * Matern([1.0, 1.0], nu=0.5), [0.4, 0.5, 1.0]),
    "columns": (C * On(RBF(), [0]) + C * On(Matern(nu=1.5), [1]), [0.4, -0.3, 0.1, 0.2]),
}
LIKELIHOODS = {
    "gaussian": (Gaussian(0.4), Exact()),
    "probit": (Probit(), EP()),
    "poisson": (Poisson(), EP()),
}


def model_of(name, law=None, first=None):
    kernel, theta = KERNELS[name]
    law = law or Probit()
    rng = np.random.default_rng(2)
    signal = 1.5 * np.sin(2.0 * X[:, 0]) + X[:, 1]
    if first is not None:
        signal = np.repeat(signal, np.diff(np.append(first, 2 * N)))
    y = {
        "probit": np.sign(signal + rng.standard_normal(len(signal))),
        "poisson": rng.poisson(np.exp(0.5 * signal)) + 0.0,
    }.get(law.name, signal + 0.3 * rng.standard_normal(len(signal)))
    covariance = make_covariance(kernel, X)
    observed = Observations(law, y, first=first)
    model = LatentGP(covariance, observed, default_hyperprior(covariance, law))
    theta = np.append(theta, [parameter.start for parameter in law.parameters])
    return with_inducing_inputs(model, M), theta


def dense(model, theta):
    """K and Q."""
    K = model.covariance.matrix(theta[: len(model.covariance.start)])
    columns = K[:, model.rows]
    return K, columns @ np.linalg.solve(K[np.ix_(model.rows, model.rows)], columns.T)


class FixedCovariance(Covariance):
    """A matrix as the covariance, whatever theta."""

    def __init__(self, K):
        super().__init__(C * Matern([1.0, 1.0], nu=0.5), np.zeros((len(K), 2)))
        self.K = K

    def matrix(self, theta):
        return self.K.copy(order="F")


@in_one_test("name", KERNELS)
def test_prior_and_residuals_are_those_of_fitc(name):
    model, theta = model_of(name)
    assert len(model.rows) == M
    K, Q = dense(model, theta)
    assert_allclose(model.prior_at(theta).K, Q, atol=1e-9)
    blur = model.observations_at(theta).blur
    assert_allclose(blur, (K - Q).diagonal(), atol=1e-9)
    assert_allclose(blur[model.rows], 0.0, atol=1e-12)
    assert blur.max() > 0.05


@in_one_test("name", KERNELS)
def test_gaussian_evidence_and_predictions_are_those_of_fitc(name):
    model, theta = model_of(name, Gaussian(0.4))
    K, Q = dense(model, theta)
    noise = np.diag(K - Q) + 0.4**2
    S = Q + np.diag(noise)
    fit = Exact().fit(model, theta)
    expected = multivariate_normal(np.zeros(N), S).logpdf(model.y)
    assert fit.log_evidence == pytest.approx(expected, abs=1e-8)
    X_new = np.random.default_rng(3).uniform(-1.5, 1.5, (5, 2))
    cross = model.covariance.cross(theta[:-1], X_new)
    at = K[np.ix_(model.rows, model.rows)]
    Q_cross = K[:, model.rows] @ np.linalg.solve(at, cross[model.rows])
    mean, var = fit.q.conditional().predict(X_new)
    assert_allclose(mean[:, 0], Q_cross.T @ np.linalg.solve(S, model.y), atol=1e-8)
    own = model.covariance.diagonal(theta[:-1], X_new)
    assert_allclose(var, own - np.diag(Q_cross.T @ np.linalg.solve(S, Q_cross)), atol=1e-8)


@in_one_test("name", KERNELS)
@in_one_test("law", LIKELIHOODS)
def test_gradient_of_the_evidence_equals_finite_differences(name, law):
    likelihood, approximation = LIKELIHOODS[law]
    first = np.sort(np.random.default_rng(0).choice(np.arange(1, 2 * N), N - 1, replace=False))
    precise = approximation.with_tolerance()
    for repeats in (None, np.append(0, first)):
        model, theta = model_of(name, likelihood, repeats)
        gradient = precise.fit_with_gradient(model, theta).gradient

        def evidence(t, model=model):
            return precise.fit(model, t).log_evidence

        assert relative_error(gradient, finite_difference(evidence, theta)) < 1e-5


def test_probit_given_g_is_a_probit_with_a_smaller_slope():
    model, theta = model_of("rbf")
    observed = model.observations_at(theta)
    g = np.random.default_rng(4).standard_normal((N, 3))
    expected = norm.logcdf(model.y[:, None] * g / np.sqrt(1.0 + observed.blur[:, None]))
    assert_allclose(observed.log_prob(g), expected, atol=1e-12)
    assert_allclose(observed.totals(g), expected.sum(axis=0), atol=1e-10)
    assert observed.total(g[:, 0]) == pytest.approx(expected[:, 0].sum())
    slope, precision = observed.slope_and_precision(g[:, 0])
    step = 1e-4
    by_input = [observed.by_input(g[:, 0] + k * step) for k in (-1, 0, 1)]
    assert_allclose(slope, (by_input[2] - by_input[0]) / (2 * step), atol=1e-6)
    second = (by_input[2] - 2 * by_input[1] + by_input[0]) / step**2
    assert_allclose(precision, -second, atol=1e-5)
    assert observed.probit_signs() is None


def test_rows_of_an_input_share_its_residual():
    likelihood = Probit()
    plain = Observations(likelihood, np.array([1.0, 1.0, -1.0]), first=np.array([0, 2]))
    observed = BlurredObservations.of(plain, np.array([0.8, 0.3]))
    g = np.array([0.2, -0.4])
    z = np.sqrt([0.8, 0.3]) * np.random.default_rng(0).standard_normal((400_000, 2)) + g
    expected = np.log(np.mean(norm.cdf(z[:, 0]) ** 2)), np.log(np.mean(norm.cdf(-z[:, 1])))
    assert_allclose(observed.by_input(g), expected, atol=3e-3)
    columns = np.column_stack([g, g + 0.3, -g])
    for weight in (None, np.array([1.0, 0.5, 2.5])):
        own = BlurredObservations.of(replace(plain, weight=weight), observed.blur)
        each = np.column_stack([own.by_input(column) for column in columns.T])
        assert_allclose(own.by_input(columns), each, rtol=1e-12)
        assert_allclose(own.totals(columns), each.sum(axis=0), rtol=1e-12)
    signs = np.mean([observed.sample(g, np.random.default_rng(i)) for i in range(4000)], axis=0)
    mean = 2.0 * norm.cdf(g / np.sqrt(1.0 + observed.blur)) - 1.0
    assert_allclose(signs, mean[[0, 0, 1]], atol=0.06)


def test_leaving_rows_out_keeps_their_residuals():
    model, theta = model_of("rbf", first=np.arange(0, 2 * N, 2))
    observed = model.observations_at(theta)
    rows = np.array([3, 11])
    left, places = observed.reduce_each_weight(rows, np.zeros(2))
    assert_allclose(left.blur, observed.blur[[1, 5]])
    assert places.tolist() == [0, 1]
    fewer, at = observed.reduce_weight(3, 0.5)
    assert_allclose(fewer.blur, observed.blur[at])
    some = observed.of_inputs(np.array([4, 2]))
    assert_allclose(some.blur, observed.blur[[4, 2]])


def test_all_inputs_as_inducing_inputs_are_the_exact_model():
    model, theta = model_of("matern")
    exact = LatentGP(model.covariance, model.observations, model.hyperprior)
    whole = with_inducing_inputs(exact, N)
    approximation = EP().with_tolerance()
    one, other = approximation.fit(whole, theta), approximation.fit(exact, theta)
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=1e-7)


def test_inputs_are_added_where_fewer_determine_f_at_the_start():
    line = np.linspace(0.0, 1.0, 50)[:, None]
    covariance = make_covariance(C * RBF(), line[order_farthest_first(line)])
    law = Probit()
    observed = Observations(law, np.ones(50))
    model = with_inducing_inputs(
        LatentGP(covariance, observed, default_hyperprior(covariance, law)), 20
    )
    assert model.prior_at(covariance.start).rank < 15
    assert len(model.rows) == 20
    # The first pivots alone would leave large residuals at a short length-scale.
    assert model.observations_at(np.array([0.0, np.log(0.1)])).blur.max() < 1e-3


SOME = np.array([30, 2, 17, 5, 33, 21, 8, 12])


@in_one_test("name", KERNELS)
@in_one_test("law", LIKELIHOODS)
def test_model_of_some_inputs_has_the_same_prior_and_a_gradient(name, law):
    likelihood, approximation = LIKELIHOODS[law]
    model, theta = model_of(name, likelihood)
    some = model.of_inputs(SOME)
    assert len(np.setdiff1d(model.rows, SOME)) > 0
    prior = some.prior_at(theta)
    assert some.find_small_rank() == prior.rank == M
    assert_allclose(prior.K, model.prior_at(theta).K[np.ix_(SOME, SOME)], atol=1e-10)
    blur = model.observations_at(theta).blur
    assert_allclose(some.observations_at(theta).blur, blur[SOME], atol=1e-10)
    assert_allclose(some.y, model.y[SOME])
    fewer = pickle.loads(pickle.dumps(some)).of_inputs(np.array([4, 1]))
    assert_allclose(fewer.observations_at(theta).blur, blur[SOME[[4, 1]]], atol=1e-10)
    assert_allclose(fewer.y, model.y[SOME[[4, 1]]])
    every = model.of_inputs(np.arange(N)[::-1])
    assert_allclose(every.observations_at(theta).blur, blur[::-1], atol=1e-10)
    precise = approximation.with_tolerance()
    gradient = precise.fit_with_gradient(some, theta).gradient
    slopes = finite_difference(lambda t: precise.fit(some, t).log_evidence, theta)
    assert relative_error(gradient, slopes) < 1e-5


def test_terms_of_a_sum_are_those_of_fitc():
    model, theta = model_of("columns", Gaussian(0.4))
    K, Q = dense(model, theta)
    S = Q + np.diag((K - Q).diagonal() + 0.4**2)
    sites = Exact().fit(model, theta).q.sites
    X_new = np.random.default_rng(3).uniform(-1.5, 1.5, (5, 2))
    at = K[np.ix_(model.rows, model.rows)]
    for term, own in list_terms(model.covariance):
        terms = TermsCovariance(model.covariance, [(term, own)])
        prior = replace(model, covariance=terms).prior_at(theta)
        mean, var = WhitenedApproximation(prior, sites).conditional().predict(X_new)
        cross = term.cross(theta[own], X_new)
        Q_cross = K[:, model.rows] @ np.linalg.solve(at, cross[model.rows])
        assert_allclose(mean[:, 0], Q_cross.T @ np.linalg.solve(S, model.y), atol=1e-9)
        explained = np.diag(Q_cross.T @ np.linalg.solve(S, Q_cross))
        assert_allclose(var, term.diagonal(theta[own], X_new) - explained, atol=1e-9)


def test_left_out_rows_leave_the_prior_as_it_is():
    # A large variance and wrong labels at two inducing inputs: EP is fitted again without them.
    model, _ = model_of("matern")
    theta = np.array([5.0, 1.0, 1.5])
    y = np.sign(X[:, 0] + 0.3 * X[:, 1])
    rows = model.rows[[1, 3]]
    y[rows] *= -1.0
    model = model.with_observations(y=y)
    out = DensityQuery(rows, np.zeros(2), ExtraTargets(y[rows], np.ones(2)))
    found = FittedPosterior.at(model, theta, EP()).log_density_given(out)
    precise = EP().with_tolerance()
    whole = precise.fit(model, theta).log_evidence
    K, Q = dense(model, theta)
    S = Q + np.diag((K - Q).diagonal())
    for row, value in zip(rows, found, strict=True):
        left = np.delete(np.arange(N), row)
        plain = LatentGP(
            FixedCovariance(S[np.ix_(left, left)]),
            model.observations.of_inputs(left),
            model.hyperprior,
        )
        without = precise.fit(plain, theta).log_evidence
        assert value == pytest.approx(whole - without, abs=0.02)


def test_pickle_has_no_matrices_and_the_same_target():
    model, theta = model_of("rbf")
    expected = EP().fit(model, theta).log_evidence
    stored = pickle.dumps(model)
    exact = LatentGP(model.covariance, model.observations, model.hyperprior)
    assert len(stored) < len(pickle.dumps(exact)) + 1000
    assert EP().fit(pickle.loads(stored), theta).log_evidence == expected


def test_states_travel_without_matrices_and_inputs():
    model, theta = model_of("columns")
    state = model.state_at(theta, model.prior_at(theta).sample(np.random.default_rng(0)))
    stored = pickle.dumps(state.prior)
    exact = LatentGP(model.covariance, model.observations, model.hyperprior)
    assert len(stored) < len(pickle.dumps(exact.prior_at(theta))) + 1000
    assert_allclose(pickle.loads(stored).whiten(state.f), state.prior.whiten(state.f), rtol=1e-10)
    archived = to_arrays(state, model)
    assert_allclose(from_arrays(archived, model).prior.root.factor, state.prior.root.factor)


def test_many_values_of_theta_do_not_pile_up():
    model, theta = model_of("rbf")
    first = model.observations_at(theta).blur
    for k in range(40):
        model.observations_at(theta + 0.01 * (k + 1))
    assert len(model._blurs) <= 16
    assert_allclose(model.observations_at(theta).blur, first, rtol=0.0)


def test_what_has_no_derivatives_is_refused():
    model, theta = model_of("rbf", StudentT())
    with pytest.raises(NotImplementedError, match='approximation="ep"'):
        model.observations_at(theta).derivatives(np.zeros(N))
