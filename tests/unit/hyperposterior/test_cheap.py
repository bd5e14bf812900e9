"""Cheap posteriors of theta: the rows that make them, their densities, gradients and costs."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skgpmcmc.approximations import EP, EigenExact, Exact, Laplace, Nystrom, SubsetOfData
from skgpmcmc.hyperposterior import HyperPosterior, evidence_cost, find_mode
from skgpmcmc.hyperposterior.rows import ROW_CHOICES, choose_rows
from skgpmcmc.likelihoods import Gaussian, Probit, Softmax
from skgpmcmc.model import (
    ClasswiseGP,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.setup.emulator.cheap import Emulated

from ...helpers import (
    finite_difference,
    given_model,
    in_one_test,
    make_model,
    relative_error,
    toy_classes,
)

KINDS = (SubsetOfData, Nystrom, EigenExact)
every_kind = in_one_test("kind", KINDS)
every_way = in_one_test("way", ROW_CHOICES)


def make(likelihood=None, n=30, *, ard=False):
    """A model with row variances, offsets and weights."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    y = np.sin(5.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)
    if likelihood is None:
        likelihood = Gaussian(0.5, row_variance=rng.uniform(size=n))
    elif isinstance(likelihood, Probit):
        y = np.sign(y)
    covariance = make_covariance(smooth_kernel(2, ard=ard), X)
    observed = Observations(
        likelihood, y, 0.1 * rng.standard_normal(n), rng.uniform(0.5, 1.5, size=n)
    )
    return LatentGP(covariance, observed, default_hyperprior(covariance, likelihood))


# --- rows -----------------------------------------------------------------------------------------


@every_way
@in_one_test("size", [1, 7, 29, 30])
def test_chosen_rows_are_distinct_and_reproducible(way, size):
    X = np.random.default_rng(0).standard_normal((30, 3))
    rows = choose_rows(X, size, way, np.random.default_rng(5))
    assert len(rows) == size
    assert (np.diff(rows) > 0).all()
    assert_array_equal(choose_rows(X, size, way, np.random.default_rng(5)), rows)


@every_way
def test_choice_of_rows_handles_copies_and_constant_columns(way):
    X = np.repeat([[0.0, 3.0], [1.0, 3.0]], 5, axis=0)
    rows = choose_rows(X, 6, way, np.random.default_rng(0))
    assert len(np.unique(rows)) == 6
    if way != "random":
        assert len(np.unique(X[rows[:6]], axis=0)) == 2
    assert_array_equal(choose_rows(X, 10, way, np.random.default_rng(0)), np.arange(10))


def test_maximin_takes_the_row_that_is_farthest_from_those_before():
    X = np.random.default_rng(0).uniform(size=(40, 2)) * [1.0, 100.0]
    rows = choose_rows(X, 12, "maximin", np.random.default_rng(3))
    Z = X / X.std(axis=0)
    chosen = [int(np.random.default_rng(3).integers(40))]
    while len(chosen) < 12:
        gaps = np.linalg.norm(Z[:, None] - Z[chosen], axis=2).min(axis=1)
        chosen.append(int(np.argmax(gaps)))
    assert_array_equal(rows, np.sort(chosen))


def test_k_means_plus_plus_draws_in_proportion_to_squared_distances():
    """On a line with points at 0, 1 and 3, whose pairs have known probabilities."""
    X = np.array([[0.0], [1.0], [3.0]])
    rng = np.random.default_rng(0)
    pairs = [tuple(choose_rows(X, 2, "kmeans++", rng)) for _ in range(3000)]
    counts = [pairs.count(pair) for pair in ((0, 1), (0, 2), (1, 2))]
    probabilities = np.array([1 / 10 + 1 / 5, 9 / 10 + 9 / 13, 4 / 5 + 4 / 13]) / 3.0
    assert stats.chisquare(counts, 3000 * probabilities).pvalue > 1e-4


def test_random_rows_are_all_equally_likely():
    rng = np.random.default_rng(0)
    drawn = np.concatenate([choose_rows(np.zeros((6, 1)), 2, "random", rng) for _ in range(1500)])
    assert stats.chisquare(np.bincount(drawn)).pvalue > 1e-4


# --- densities ------------------------------------------------------------------------------------


@every_way
def test_subset_of_data_equals_the_posterior_given_its_rows(way):
    """Offsets, weights and variances go with their rows; the prior counts once."""
    model = make()
    posterior = SubsetOfData(12, rows=way).posterior(model, np.random.default_rng(1))
    rows = choose_rows(model.covariance.X, 12, way, np.random.default_rng(1))
    observed, theta = model.observations, model.start + 0.3
    noise = theta[-1]
    variance = (np.exp(2.0 * noise) + observed.likelihood.row_variance[rows]) / observed.weight[
        rows
    ]
    C = model.covariance.matrix(theta[:2])[np.ix_(rows, rows)] + np.diag(variance)
    residual = (observed.y - observed.offset)[rows]
    expected = stats.multivariate_normal(np.zeros(12), C).logpdf(residual)
    weight = observed.weight[rows]  # N(r; f, V)^w is N(r; f, V / w) times a constant
    log_V = np.log(2.0 * np.pi * variance * weight)
    expected += (0.5 * np.log(2.0 * np.pi * variance) - 0.5 * weight * log_V).sum()
    expected += model.hyperprior.log_prob(theta)
    assert posterior.at(theta).log_density == pytest.approx(expected, abs=1e-6)
    assert_array_equal(posterior.at(theta).position, theta)


@every_kind
def test_cheap_posterior_with_all_rows_equals_the_posterior(kind):
    model = make()
    theta = model.start + 0.2
    point = kind(30).posterior(model, np.random.default_rng(0)).at(theta)
    fit = Exact().fit(model, theta)
    expected = fit.log_evidence + model.hyperprior.log_prob(theta)
    assert point.log_density == pytest.approx(expected, abs=1e-8)
    gradient = Exact().gradient(model, fit) + model.hyperprior.gradient(theta)
    assert_allclose(point.gradient, gradient, rtol=1e-6)


@every_kind
@pytest.mark.parametrize("inner", ["auto", "laplace"])
@pytest.mark.parametrize("likelihood", [Gaussian(0.5), Probit()])
def test_gradient_of_a_cheap_posterior_equals_finite_differences(kind, inner, likelihood):
    model = make(likelihood, ard=True)
    posterior = kind(0.4, inner=inner).posterior(model, np.random.default_rng(0))
    theta = model.start + 0.1
    expected = finite_difference(lambda t: posterior.at(t).log_density, theta)
    # EP stops at a rough tolerance, whose error a gradient shows.
    error = relative_error(posterior.at(theta).gradient, expected)
    assert error < (0.1 if isinstance(posterior.approximation, EP) else 1e-4)
    # Tightly iterated, it is the gradient.
    tight = replace(posterior, approximation=posterior.approximation.with_tolerance())
    expected = finite_difference(lambda t: tight.at(t).log_density, theta)
    assert relative_error(tight.at(theta).gradient, expected) < 1e-6


@every_kind
def test_cheap_posterior_depends_on_theta_and_the_chosen_rows_alone(kind):
    model = make(Probit())
    posterior = kind(9).posterior(model, np.random.default_rng(3))
    theta = model.start
    first = posterior.at(theta).log_density
    posterior.at(theta + 1.0)
    assert posterior.at(theta).log_density == first
    assert kind(9).posterior(model, np.random.default_rng(3)).at(theta).log_density == first


@every_kind
def test_cheap_posterior_returns_none_without_density(kind):
    X = np.linspace(0.0, 1.0, 20)[:, None]
    priors = {"k2__length_scale": stats.uniform(0.0, 1e30)}
    model = make_model(X, np.ones(20), "probit", priors=priors)
    posterior = kind(10).posterior(model, np.random.default_rng(0))
    assert posterior.at(np.array([0.0, 80.0])) is None  # outside the prior's support
    assert posterior.at(np.array([0.0, -3.0])) is not None
    if kind is Nystrom:
        wrong = kind(10).posterior(model.with_nugget(-0.5), np.random.default_rng(0))
        assert wrong.at(np.array([0.0, -1.0])) is None  # its part of K is no covariance


@every_kind
def test_cheap_posterior_at_a_long_length_scale_is_that_of_one_input(kind):
    """K is of rank one: a density like that of all rows at the same input."""
    X, y = np.linspace(0.0, 1.0, 20)[:, None], np.where(np.arange(20) % 3 == 0, -1.0, 1.0)
    priors = {"k2__length_scale": stats.uniform(0.0, 1e30)}
    model, theta = make_model(X, y, "logit", priors=priors), np.array([0.5, 20.0])
    same = replace(model, covariance=make_covariance(smooth_kernel(1), np.zeros((20, 1))))
    one, other = (kind(10).posterior(m, np.random.default_rng(0)).at(theta) for m in (model, same))
    if kind is not SubsetOfData:  # whose rows are not the same
        assert one.log_density == pytest.approx(other.log_density, rel=1e-9)
        assert_allclose(one.gradient, other.gradient, rtol=1e-6, atol=1e-8)
    assert np.isfinite(one.log_density)
    assert one.gradient[1] == pytest.approx(model.hyperprior.gradient(theta)[1], abs=1e-8)


def test_an_emulated_posterior_is_near_the_exact_one():
    """Near the posterior of all rows where that is, with its own gradient and a cost of its own."""
    model = make()
    posterior = Emulated().posterior(model, np.random.default_rng(0))
    mode = find_mode(model, Exact(), [model.start], with_hyperprior=True).fit.q.prior.theta
    exact = HyperPosterior(model, Exact())
    at_mode = posterior.at(mode).log_density - exact.at(mode).log_density
    for shift in 0.3 * np.vstack([np.eye(3), -np.eye(3)]):
        point = posterior.at(mode + shift)
        gap = point.log_density - exact.at(mode + shift).log_density - at_mode
        assert abs(gap) < 0.2
        expected = finite_difference(lambda t: posterior.at(t).log_density, mode + shift)
        assert relative_error(point.gradient, expected) < 1e-5
    assert 0.0 < posterior.cost < evidence_cost(model, Exact()) * 10.0
    again = Emulated().posterior(model, np.random.default_rng(0))
    assert again.at(mode).log_density == posterior.at(mode).log_density
    assert posterior.at(np.full(3, 1e4)) is None
    with pytest.raises(ValueError, match="inner must be one of"):
        Emulated(inner="vb").check()


# --- configuration --------------------------------------------------------------------------------


@in_one_test(
    ("m", "n", "size"),
    [(7, 30, 7), (70, 30, 30), (0.2, 31, 7), ("auto", 30, 6), ("auto", 9000, 1000)],
)
def test_size_m_is_a_number_or_a_share_of_the_rows(m, n, size):
    assert SubsetOfData(m).size(n) == size


@every_kind
def test_inner_auto_follows_the_likelihood(kind):
    rng = np.random.default_rng(0)
    assert isinstance(kind(5).posterior(make(), rng).approximation, Exact)
    assert isinstance(kind(5).posterior(make(Probit()), rng).approximation, EP)
    laplace = kind(5, inner="laplace").posterior(make(Probit()), rng)
    assert isinstance(laplace.approximation, Laplace)


@every_kind
@in_one_test(
    ("settings", "message"),
    [
        ({"m": 0}, "m must be an integer >= 1; got 0"),
        ({"m": 1.0}, r"m must be a number in \(0, 1\); got 1.0"),
        ({"m": "some"}, r"m must be one of \['auto'\]; got 'some'"),
        ({"m": None}, "m must be an integer"),
        ({"inner": "vb"}, r"inner must be one of \['auto', 'ep', 'laplace'\]; got 'vb'"),
    ],
)
def test_impossible_settings_of_a_cheap_posterior_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings).check()


@in_one_test("kind", [SubsetOfData, Nystrom])
def test_impossible_choice_of_rows_is_refused_by_name(kind):
    with pytest.raises(ValueError, match=r"rows must be one of \['random', 'kmeans\+\+'"):
        kind(rows="first").check()


def test_softmax_is_accepted_by_subset_of_data_alone():
    softmax = Softmax(3)
    SubsetOfData().check_likelihood(softmax)
    assert isinstance(SubsetOfData().approximation(softmax), Laplace)
    for kind in (Nystrom, EigenExact):
        with pytest.raises(ValueError, match=r'one latent function.*approximation="sod"'):
            kind().check_likelihood(softmax)
    with pytest.raises(ValueError, match="one latent function"):
        SubsetOfData(inner="ep").check_likelihood(softmax)


# --- costs ----------------------------------------------------------------------------------------


@every_kind
@in_one_test("likelihood", [Gaussian(0.5), Probit()])
def test_cost_of_a_cheap_posterior_grows_with_m(kind, likelihood):
    model = make(likelihood, 200)
    costs = [kind(m).posterior(model, np.random.default_rng(0)).cost for m in (20, 50, 100, 200)]
    assert (np.diff(costs) > 0.0).all()


def test_cost_of_a_subset_equals_that_of_a_smaller_model():
    """With all rows in it, that of the model; and far less with few."""
    model, rng = make(n=200), np.random.default_rng(0)
    whole = evidence_cost(model, Exact())
    assert SubsetOfData(200).posterior(model, rng).cost == whole
    subset, nystrom, eigen = (kind(20).posterior(model, rng).cost for kind in KINDS)
    assert subset < 0.5 * whole
    assert subset < nystrom < whole < eigen


def test_iterative_approximations_cost_more_than_the_exact_evidence():
    model = given_model(np.eye(50), np.ones(50))
    assert evidence_cost(model, Exact()) < evidence_cost(model, Laplace())
    assert evidence_cost(model, Exact()) < evidence_cost(model, EP())


def test_subset_of_data_of_a_softmax_equals_the_model_of_its_rows():
    X, _ = toy_classes(20, 2, seed=1)
    y = np.arange(20) % 3.0
    covariance = make_covariance(smooth_kernel(2), X)
    likelihood = Softmax(3)
    model = ClasswiseGP(
        covariance, Observations(likelihood, y), default_hyperprior(covariance, likelihood)
    )
    posterior = SubsetOfData(12).posterior(model, np.random.default_rng(0))
    theta = model.start + 0.1
    expected = finite_difference(lambda t: posterior.at(t).log_density, theta)
    assert relative_error(posterior.at(theta).gradient, expected) < 1e-3


@every_kind
def test_points_of_cheap_posteriors_keep_no_matrices(kind):
    model = make()
    posterior = kind(10).posterior(model, np.random.default_rng(0))
    first = posterior.at(model.start)
    n_numbers = len(first.sites.shift) * 2 + 3 * len(model.start)
    assert len(pickle.dumps(first)) < 8 * n_numbers + 1000
    posterior.at(model.start + 0.4)
    # Made again, it is the same to the last digit.
    assert_array_equal(posterior.at(model.start).gradient, first.gradient)


@every_kind
def test_points_without_gradient_have_the_same_density(kind):
    model = make()
    posterior = kind(10).posterior(model, np.random.default_rng(0))
    bare = replace(posterior, with_gradient=False)
    theta = model.start + 0.3
    assert bare.at(theta).gradient.size == 0
    assert bare.at(theta).log_density == pytest.approx(posterior.at(theta).log_density, rel=1e-12)
