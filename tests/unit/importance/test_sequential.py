"""The importance density that takes sequential rows, each given its target."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import log_ndtr

from skgpmcmc.approximations import EP, GaussianApproximation, Laplace, Sites
from skgpmcmc.importance import importance_estimate, log_importance_weights
from skgpmcmc.importance.interpolated import make_density
from skgpmcmc.importance.sequential import SequentialApproximation, choose_sequential_rows
from skgpmcmc.likelihoods import (
    Logit,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    Probit,
    StudentT,
    Volatility,
)

from ...helpers import (
    THREE_THETA,
    Z_LIMIT,
    GivenCovariance,
    in_one_test,
    make_model,
    orthant_probability,
    three_point_model,
    toy_classes,
    z_score,
)

ROWS = np.array([4, 0, 3])
OFFSET = np.array([0.5, -1.0, 0.0, 2.0, -0.3, 0.1])


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "offset"])
def model(request):
    model = make_model(*toy_classes(6, 2, seed=3), nugget=1e-6)
    return model.with_observations(offset=OFFSET) if request.param else model


def sequential(model, theta=(3.0, -0.4), rows=ROWS):
    theta = np.array(theta)
    q = EP(tol=1e-8).fit(model, theta).q
    return SequentialApproximation(q, model.observations_at(theta), np.asarray(rows))


def turns_by_hand(density, f):
    """Of one f: sequential rows, their cavity means and variances, by dense matrices; (r, 2)."""
    q = density.q
    covariance = np.linalg.inv(np.linalg.inv(q.prior.K) + np.diag(q.precision))
    cavities, before = [], []
    for row in density.rows:
        across = covariance[row, before] @ np.linalg.inv(covariance[np.ix_(before, before)])
        mean = q.mean[row] + across @ (f[before] - q.mean[before])
        var = covariance[row, row] - across @ covariance[before, row]
        precision = 1.0 / var - q.precision[row]
        cavities.append([(mean / var - q.sites.shift[row]) / precision, 1.0 / precision])
        before.append(row)
    others = [row for row in range(len(f)) if row not in before]
    across = covariance[np.ix_(others, before)] @ np.linalg.inv(covariance[np.ix_(before, before)])
    mean = q.mean[others] + across @ (f[before] - q.mean[before])
    rest = covariance[np.ix_(others, others)] - across @ covariance[np.ix_(before, others)]
    log_rest = stats.multivariate_normal(mean, rest).logpdf(f[others]) if others else 0.0
    return np.array(cavities), float(log_rest)


def shifted(density):
    """Signs and offsets of the sequential rows."""
    offset = density.observed.offset
    offset = np.zeros(len(density.q.mean)) if offset is None else offset
    return density.observed.y[density.rows], offset[density.rows]


def log_density_by_hand(density, f):
    cavities, log_rest = turns_by_hand(density, f)
    sign, offset = shifted(density)
    own, (mean, var) = f[density.rows], cavities.T
    log_z = log_ndtr(sign * (mean + offset) / np.sqrt(1.0 + var))
    turns = log_ndtr(sign * (own + offset)) + stats.norm.logpdf(own, mean, np.sqrt(var)) - log_z
    return turns.sum() + log_rest


@in_one_test("rows", [ROWS, [2], np.arange(6)])
def test_log_ratio_equals_prior_over_sequential_density(model, rows):
    density = sequential(model, rows=rows)
    f = density.q.mean[:, None] + 3.0 * np.random.default_rng(0).standard_normal((6, 20))
    log_prior = stats.multivariate_normal(np.zeros(6), density.q.prior.K).logpdf(f.T)
    expected = [log_density_by_hand(density, column) for column in f.T] - log_prior
    assert_allclose(density.log_ratio_to_prior(f), expected, rtol=1e-6, atol=1e-6)


def test_sequential_values_follow_their_distribution_functions(model):
    """Each sequential value is uniform by its own distribution function, and so are the others."""
    density = sequential(model, rows=ROWS)
    draws = density.sample(np.random.default_rng(1), 600).f
    sign, offset = shifted(density)
    uniform = np.empty((len(ROWS), draws.shape[1]))
    for column, f in enumerate(draws.T):
        for k, (mean, var) in enumerate(turns_by_hand(density, f)[0]):
            nodes = mean + np.sqrt(var) * np.linspace(-9.0, 9.0, 801)
            height = stats.norm.pdf(nodes, mean, np.sqrt(var))
            mass = np.cumsum(height * np.exp(log_ndtr(sign[k] * (nodes + offset[k]))))
            uniform[k, column] = np.interp(f[ROWS[k]], nodes, mass / mass[-1])
    for values in uniform:
        assert stats.kstest(values, "uniform").pvalue > 1e-4
    normal = stats.norm.ppf(uniform)
    assert np.abs(np.arctanh(np.corrcoef(normal)[np.triu_indices(3, 1)])).max() < 4.0 / 600**0.5


#: Likelihoods without a closed form: targets of six rows, of which some share an input in the last.
OTHERS = {
    "logit": (Logit(), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])),
    "poisson": (Poisson(), np.array([0.0, 3.0, 1.0, 0.0, 12.0, 2.0])),
    "negative binomial": (NegativeBinomial(2.0), np.array([0.0, 3.0, 1.0, 0.0, 12.0, 2.0])),
    "student-t": (StudentT(0.3, fixed=True), np.array([0.4, -3.0, 0.1, 5.0, 0.2, -0.2])),
    "volatility": (Volatility(), np.array([0.4, -3.0, 0.1, 5.0, 0.2, -0.2])),
    "ordinal": (OrdinalProbit((-1.0, 0.5), fixed=True), np.array([0.0, 1.0, 2.0, 2.0, 1.0, 0.0])),
}
every_other = in_one_test("name", OTHERS)


def other_sequential(name, rows=ROWS, theta=(2.0, -0.4), distinct=6):
    """With an offset; the last of six rows have the inputs of the first, but for `distinct`."""
    likelihood, y = OTHERS[name]
    X, _ = toy_classes(6, 2, seed=3)
    model = make_model(X[np.arange(6) % distinct], y, likelihood, nugget=1e-6)
    model = model.with_observations(offset=0.3 * OFFSET)
    theta = np.array(theta)
    q = Laplace(tol=1e-8).fit(model, theta).q
    q = GaussianApproximation(q.prior, Sites(q.sites.shift, q.precision + 0.05))
    return model, SequentialApproximation(q, model.observations_at(theta), np.asarray(rows))


@in_one_test("name", ["probit", *OTHERS])
def test_sequential_density_integrates_to_one_for_every_likelihood(model, name):
    """Draws from q know the integral of the density, and its own draws that of q."""
    density = sequential(model) if name == "probit" else other_sequential(name)[1]
    for of, by in ((density, density.q), (density.q, density)):
        draws = by.sample(np.random.default_rng(2), 20_000)
        ratio = np.exp(of.log_ratio_to_prior(draws.f) - draws.log_ratio)
        assert abs(z_score(ratio, 1.0)) < Z_LIMIT


@every_other
def test_tabulated_densities_agree_with_their_draws(name):
    """By its distribution function, which is integrated: with bins that is piecewise Gaussian."""
    likelihood, y = OTHERS[name]
    model = make_model(np.zeros((1, 1)), y[1:2], likelihood)
    theta = np.array([2.0, 0.0])
    q = EP().fit(model, theta).q
    density = SequentialApproximation(q, model.observations_at(theta), np.array([0]))
    f = q.mean[0] + np.sqrt(q.marginal_variance[0]) * np.linspace(-9.0, 9.0, 100_001)
    log_prior = stats.norm.logpdf(f, scale=np.sqrt(q.prior.variance[0]))
    height = np.exp(density.log_ratio_to_prior(f[None]) + log_prior)
    mass = np.cumsum(height) * (f[1] - f[0])
    assert mass[-1] == pytest.approx(1.0, abs=1e-3)
    draws = density.sample(np.random.default_rng(3), 4000)
    assert stats.kstest(np.interp(draws.f[0], f, mass / mass[-1]), "uniform").pvalue > 1e-4
    # What is drawn from is nearly p(f | y): a weight is p(y | theta).
    exact = np.exp(model.observations.by_input(f[None])[0] + log_prior).sum() * (f[1] - f[0])
    weights = importance_estimate(model, density, 4000, np.random.default_rng(4)).log_weights
    assert np.abs(weights - np.log(exact)).mean() < 0.05


@in_one_test("distinct", [6, 4])
@every_other
def test_estimates_with_tabulated_sequential_rows_agree_with_those_without(name, distinct):
    """Where some inputs have two targets as well."""
    model, density = other_sequential(name, np.arange(distinct), distinct=distinct)
    rng, n_draws = np.random.default_rng(5), 10_000
    some, plain = (
        importance_estimate(model, d, n_draws, rng, defensive=0.05) for d in (density, density.q)
    )
    noise = [np.exp(e.log_weights - e.log_likelihood).std() for e in (some, plain)]
    error = np.hypot(*noise) / n_draws**0.5
    assert abs(some.log_likelihood - plain.log_likelihood) < Z_LIMIT * error
    again = log_importance_weights(model, density, some.particles, defensive=0.05)
    assert_allclose(some.log_weights, again, atol=1e-7)


def test_tabulated_rows_condition_on_earlier_blocks():
    """What u does to y: given f of all rows in earlier blocks, the mean of f_k."""
    X, y = toy_classes(10, 2, seed=3)
    density = sequential(make_model(X, y, "logit", nugget=1e-6), rows=np.arange(10))
    q, turns = density.q, density._sequential
    covariance = np.linalg.inv(np.linalg.inv(q.prior.K) + np.diag(q.precision))
    f = np.random.default_rng(0).standard_normal(10)
    u, spread = turns.inverse @ f, 1.0 / turns.inverse.diagonal()
    found = spread * (turns.coupling @ u)
    for k in range(10):
        before = np.arange(k - k % 8)
        across = covariance[k, before] @ np.linalg.inv(covariance[np.ix_(before, before)])
        assert found[k] == pytest.approx(across @ f[before], abs=1e-6)


@every_other
def test_independent_tabulated_rows_leave_little_noise(name):
    """That of the bins: with exact likelihoods there would be none."""
    likelihood, y = OTHERS[name]
    model = make_model(20.0 * np.arange(6.0)[:, None], y, likelihood)
    density = replace(sequential(model, (2.0, -1.0)), rows=np.arange(6))
    some, plain = (
        importance_estimate(model, d, 1000, np.random.default_rng(0)).log_weights.std()
        for d in (density, density.q)
    )
    assert some < 0.25
    assert some < 0.4 * plain


def test_values_beyond_a_table_have_a_finite_density():
    """Where a table ends, and where a likelihood is zero, or no number."""
    for name in OTHERS:
        _, density = other_sequential(name)
        f = np.array([-1e3, -50.0, 50.0, 1e3]) * np.ones((6, 1))
        assert np.isfinite(density.log_ratio_to_prior(f)).all()


def test_a_likelihood_of_nan_gives_finite_ratios():
    class Strange(Logit):
        def log_prob(self, y, f):
            return np.where(f > 0.0, np.nan, np.where(f < -1.0, -np.inf, super().log_prob(y, f)))

    model = make_model(*toy_classes(6, 2, seed=3), Strange())
    theta = np.array([1.0, 0.0])
    q = GaussianApproximation(model.prior_at(theta), Sites(np.zeros(6), np.ones(6)))
    density = SequentialApproximation(q, model.observations_at(theta), np.arange(6))
    assert np.isfinite(density.sample(np.random.default_rng(0), 50).log_ratio).all()


def test_the_most_skewed_rows_are_sequential():
    """So that the rest adds less to the variance of a weight than the noise allows."""
    rng = np.random.default_rng(0)
    skewness = rng.standard_normal((5, 40)) * np.linspace(0.05, 1.0, 40)
    mean = abs(skewness).mean(axis=0)
    for noise in (0.03, 0.1, 0.3):
        rows = choose_sequential_rows(skewness, noise)
        assert_array_equal(rows, np.argsort(-mean)[: len(rows)])
        rest = np.delete(mean, rows)
        assert (rest**2).sum() / 6.0 <= noise**2
        with_one_more = (rest**2).sum() + mean[rows[-1]] ** 2
        assert with_one_more / 6.0 > noise**2
    assert len(choose_sequential_rows(skewness, 9.0)) == 0
    assert len(choose_sequential_rows(np.zeros((5, 40)), 0.1)) == 0


@pytest.mark.parametrize("defensive", [0.0, 0.2])
def test_an_estimate_with_sequential_rows_is_unbiased(defensive):
    model = three_point_model()
    density = sequential(model, THREE_THETA, [2, 0])
    exact = orthant_probability(density.q.prior.K, model.y)
    rng = np.random.default_rng(6)
    estimate = importance_estimate(model, density, 100_000, rng, defensive=defensive)
    assert abs(z_score(np.exp(estimate.log_weights), exact)) < Z_LIMIT
    again = log_importance_weights(model, density, estimate.particles, defensive=defensive)
    assert_allclose(estimate.log_weights, again, atol=1e-8)


def test_all_sequential_rows_leave_next_to_no_noise():
    """Where rows do not know of one another, none at all: a weight is p(y | theta)."""
    alone = make_model(20.0 * np.arange(6.0)[:, None], toy_classes(6, 2, seed=3)[1])
    density = sequential(alone, (3.0, -1.0), np.arange(6))
    weights = importance_estimate(alone, density, 50, np.random.default_rng(0)).log_weights
    assert_allclose(weights, 6.0 * np.log(0.5), atol=1e-7)
    model = make_model(toy_classes(40, 2, seed=3)[0], np.ones(40))
    some = sequential(model, (5.0, -1.0), np.arange(40))
    rng = np.random.default_rng(0)
    plain, turns = (
        importance_estimate(model, d, 2000, rng).log_weights.std() for d in (some.q, some)
    )
    assert turns < 0.3 * plain


def test_rows_determined_by_others_are_not_sequential():
    """Of equal rows the first alone is sequential; the estimate is what it was."""
    K = 9.0 * np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    K[0, 0] += 1e-12
    model = three_point_model()
    model = replace(model, covariance=GivenCovariance(K))
    density = sequential(model, (), [1, 0, 2])
    rng = np.random.default_rng(3)
    estimate = importance_estimate(model, density, 50_000, rng)
    assert abs(z_score(np.exp(estimate.log_weights), orthant_probability(K, model.y))) < Z_LIMIT
    assert_array_equal(density._sequential.rows, [1, 2])


@in_one_test("theta", [(14.0, -1.0), (14.0, 2.0), (-14.0, 0.0)])
def test_weights_stay_finite_at_extreme_variances(model, theta):
    density = sequential(model, theta, np.arange(6))
    estimate = importance_estimate(model, density, 500, np.random.default_rng(0))
    assert np.isfinite(estimate.log_weights).all()
    assert estimate.log_weights.std() < 3.0


def test_density_from_arrays_or_a_pickle_is_the_same(model):
    density = sequential(model).factorize()
    f = density.q.mean[:, None] + np.random.default_rng(0).standard_normal((6, 3))
    for again in (
        make_density(model, density.q.prior, *density.arrays),
        pickle.loads(pickle.dumps(density)),
    ):
        assert type(again) is SequentialApproximation
        assert "_sequential" not in vars(again)
        assert_array_equal(again.rows, ROWS)
        assert_allclose(again.log_ratio_to_prior(f), density.log_ratio_to_prior(f), atol=1e-9)


class Harder(Probit):
    """A subclass that inherits the signs and is something else."""

    name = "harder"

    def log_prob(self, y, f):
        return 2.0 * log_ndtr(y * f)


def test_sequential_rows_with_wrong_signs_leave_the_estimate_unbiased():
    model = three_point_model(Harder())
    density = sequential(model, THREE_THETA, [2, 0])
    rng = np.random.default_rng(6)
    some, other = (importance_estimate(model, d, 100_000, rng) for d in (density, density.q))
    noise = [np.exp(e.log_weights - e.log_likelihood).std() / 1e5**0.5 for e in (some, other)]
    assert abs(some.log_likelihood - other.log_likelihood) < Z_LIMIT * np.hypot(*noise)


def test_sampling_a_single_row_does_not_overwrite_its_factor():
    """Its factor is contiguous in both orders: a solve in place would overwrite it."""
    prior = make_model(np.zeros((1, 1)), np.ones(1)).prior_at(np.array([1.2, 0.0]))
    factor, before = prior.whitened_factor(np.array([0.7])), prior.chol.copy()
    variance = prior.variance_given(factor)
    assert_allclose(variance, 1.0 / (1.0 / prior.variance + 0.49), rtol=1e-12)
    assert_array_equal(prior.chol, before)
