"""The importance density that takes rows in turn, each given its class."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import log_ndtr

from skgpmcmc.approximations import (
    EP,
    SequentialApproximation,
    density_from,
    importance_estimate,
    log_importance_weights,
)
from skgpmcmc.likelihoods import Logit, Probit

from ..helpers import (
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
    return model.observing(offset=OFFSET) if request.param else model


def in_turn(model, theta=(3.0, -0.4), rows=ROWS):
    theta = np.array(theta)
    q = EP(tol=1e-8).fit(model, theta).q
    return SequentialApproximation(q, model.observations_at(theta), np.asarray(rows))


def turns_by_hand(density, f):
    """Of one f: rows in turn, their cavity means and variances, by dense matrices; (r, 2)."""
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
    """Signs and offsets of the rows in turn."""
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
def test_log_ratio_is_that_of_the_densities(model, rows):
    density = in_turn(model, rows=rows)
    f = density.q.mean[:, None] + 3.0 * np.random.default_rng(0).standard_normal((6, 20))
    log_prior = stats.multivariate_normal(np.zeros(6), density.q.prior.K).logpdf(f.T)
    expected = [log_density_by_hand(density, column) for column in f.T] - log_prior
    assert_allclose(density.log_ratio_to_prior(f), expected, rtol=1e-6, atol=1e-6)


def test_draws_have_that_density(model):
    """Each value in turn is uniform by its own distribution function, and so are the others."""
    density = in_turn(model, rows=ROWS)
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


def test_weights_of_draws_from_elsewhere_are_one_on_average(model):
    """The density integrates to one: by draws from q, and by its own for q."""
    density = in_turn(model)
    for of, by in ((density, density.q), (density.q, density)):
        draws = by.sample(np.random.default_rng(2), 30_000)
        ratio = np.exp(of.log_ratio_to_prior(draws.f) - draws.log_ratio)
        assert abs(z_score(ratio, 1.0)) < Z_LIMIT


def test_draws_know_their_log_ratio(model):
    density = in_turn(model)
    draws = density.sample(np.random.default_rng(1), 300)
    assert_allclose(draws.log_ratio, density.log_ratio_to_prior(draws.f), atol=1e-8)


@pytest.mark.parametrize("defensive", [0.0, 0.2])
def test_the_estimate_is_unbiased(defensive):
    model = three_point_model()
    density = in_turn(model, THREE_THETA, [2, 0])
    exact = orthant_probability(density.q.prior.K, model.y)
    rng = np.random.default_rng(6)
    estimate = importance_estimate(model, density, 100_000, rng, defensive=defensive)
    assert abs(z_score(np.exp(estimate.log_weights), exact)) < Z_LIMIT
    again = log_importance_weights(model, density, estimate.particles, defensive=defensive)
    assert_allclose(estimate.log_weights, again, atol=1e-8)


def test_all_rows_in_turn_leave_next_to_no_noise():
    """Where rows do not know of one another, none at all: a weight is p(y | theta)."""
    alone = make_model(20.0 * np.arange(6.0)[:, None], toy_classes(6, 2, seed=3)[1])
    density = in_turn(alone, (3.0, -1.0), np.arange(6))
    weights = importance_estimate(alone, density, 50, np.random.default_rng(0)).log_weights
    assert_allclose(weights, 6.0 * np.log(0.5), atol=1e-7)
    model = make_model(toy_classes(40, 2, seed=3)[0], np.ones(40))
    some = in_turn(model, (5.0, -1.0), np.arange(40))
    rng = np.random.default_rng(0)
    plain, turns = (
        importance_estimate(model, d, 2000, rng).log_weights.std() for d in (some.q, some)
    )
    assert turns < 0.3 * plain


def test_rows_that_others_determine_are_left_out():
    """Of equal rows the first alone comes in turn; the estimate is what it was."""
    K = 9.0 * np.array([[1.0, 1.0, 0.5], [1.0, 1.0, 0.5], [0.5, 0.5, 1.0]])
    K[0, 0] += 1e-12
    model = three_point_model()
    model = replace(model, covariance=GivenCovariance(K))
    density = in_turn(model, (), [1, 0, 2])
    rng = np.random.default_rng(3)
    estimate = importance_estimate(model, density, 50_000, rng)
    assert abs(z_score(np.exp(estimate.log_weights), orthant_probability(K, model.y))) < Z_LIMIT
    assert_array_equal(density._turns.rows, [1, 2])


@in_one_test("theta", [(14.0, -1.0), (14.0, 2.0), (-14.0, 0.0)])
def test_extreme_variances(model, theta):
    density = in_turn(model, theta, np.arange(6))
    estimate = importance_estimate(model, density, 500, np.random.default_rng(0))
    assert np.isfinite(estimate.log_weights).all()
    assert estimate.log_weights.std() < 3.0


def test_fewer_rows_are_the_first_ones(model):
    density = in_turn(model, rows=[4, 0, 3, 1])
    f = density.q.mean[:, None] + np.random.default_rng(0).standard_normal((6, 5))
    for count in (1, 3, 4, 9):
        fewer, other = density.of_first(count), in_turn(model, rows=[4, 0, 3, 1][:count])
        assert_array_equal(fewer.rows, other.rows)
        assert_allclose(fewer.log_ratio_to_prior(f), other.log_ratio_to_prior(f), atol=1e-9)
        draws = [d.sample(np.random.default_rng(1), 4).f for d in (fewer, other)]
        assert_allclose(*draws, atol=1e-9)
    assert density.of_first(0) is density.q


def test_parts_make_it_again(model):
    density = in_turn(model).made()
    f = density.q.mean[:, None] + np.random.default_rng(0).standard_normal((6, 3))
    for again in (
        density_from(model, density.q.prior, density.arrays),
        pickle.loads(pickle.dumps(density)),
    ):
        assert type(again) is SequentialApproximation
        assert "_turns" not in vars(again)
        assert_array_equal(again.rows, ROWS)
        assert_allclose(again.log_ratio_to_prior(f), density.log_ratio_to_prior(f), atol=1e-9)


def test_only_a_likelihood_that_is_a_probit():
    X, y = toy_classes(6, 2, seed=3)
    with pytest.raises(ValueError, match="logit"):
        in_turn(make_model(X, y, "logit")).made()
    assert_array_equal(Probit().probit_signs(y), y)
    assert Logit().probit_signs(y) is None
    weighted = make_model(X, y).observing(weight=np.full(6, 2.0))
    assert weighted.observations.probit_signs() is None


class Harder(Probit):
    """A subclass that inherits the signs and is something else."""

    name = "harder"

    def log_prob(self, y, f):
        return 2.0 * log_ndtr(y * f)


def test_wrong_signs_make_it_slow_not_wrong():
    model = three_point_model(Harder())
    density = in_turn(model, THREE_THETA, [2, 0])
    rng = np.random.default_rng(6)
    some, other = (importance_estimate(model, d, 100_000, rng) for d in (density, density.q))
    noise = [np.exp(e.log_weights - e.log_likelihood).std() / 1e5**0.5 for e in (some, other)]
    assert abs(some.log_likelihood - other.log_likelihood) < Z_LIMIT * np.hypot(*noise)


def test_a_single_row_keeps_its_factor():
    """Its factor is contiguous in both orders: a solve in place would overwrite it."""
    prior = make_model(np.zeros((1, 1)), np.ones(1)).prior_at(np.array([1.2, 0.0]))
    factor, before = prior.whitened_factor(np.array([0.7])), prior.chol.copy()
    variance = prior.variance_given(factor)
    assert_allclose(variance, 1.0 / (1.0 / prior.variance + 0.49), rtol=1e-12)
    assert_array_equal(prior.chol, before)
