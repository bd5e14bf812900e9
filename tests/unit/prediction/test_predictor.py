"""What predictions average over: subsets of draws, importance draws beside them, memory."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, ndtr

from skgpmcmc.approximations import EP, Exact, Laplace, Sites
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.prediction.densities import find_density_arrays
from skgpmcmc.prediction.predictor import Predictor
from skgpmcmc.prediction.strategy import ImportanceLatent, Integrated, OwnLatent
from skgpmcmc.prediction.subset import (
    FEWEST_DRAWS,
    LARGEST_ERROR,
    MOST_DRAWS,
    adapt_to_draws,
    choose_spread_subset,
    count_enough_draws,
    typical_values,
)

from ...helpers import (
    THREE_THETA,
    Z_LIMIT,
    exact_posterior,
    in_one_test,
    make_model,
    three_point_model,
    toy_classes,
    z_score,
)

# --- subsets --------------------------------------------------------------------------------------


@in_one_test("p", [0, 1, 3])
@in_one_test(("n", "wanted"), [(40, 1), (40, 7), (41, 40), (400, 100), (250, 100)])
def test_weights_of_a_spread_subset_sum_to_the_number_of_draws(n, wanted, p):
    theta = np.random.default_rng(0).standard_normal((n, p))
    theta[: n // 2] = 1.0  # draws that coincide are no obstacle
    rows, weight = choose_spread_subset(theta, wanted, np.random.default_rng(1))
    assert rows.shape == weight.shape == (wanted,)
    assert (np.diff(rows) > 0).all()
    assert 0 <= rows[0] <= rows[-1] < n
    assert weight.sum() == n
    assert weight.min() >= n // wanted - 1
    assert weight.max() <= n // wanted + 2
    assert weight.min() >= 1.0


@in_one_test("wanted", [None, 30, 31])
def test_spread_subset_is_all_draws_if_no_fewer_are_wanted(wanted):
    rows, weight = choose_spread_subset(np.zeros((30, 2)), wanted, np.random.default_rng(1))
    assert_array_equal(rows, np.arange(30))
    assert_array_equal(weight, 1.0)


def test_spread_subset_is_reproducible():
    theta = np.random.default_rng(0).standard_normal((200, 2))
    one, same, other = (
        choose_spread_subset(theta, 20, np.random.default_rng(s)) for s in (1, 1, 2)
    )
    assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_averages_over_a_spread_subset_are_unbiased_and_less_noisy():
    rng = np.random.default_rng(2)
    # Each of the forty stands for two or three draws, so that it matters which for how many.
    theta = rng.standard_normal((100, 2)) @ np.array([[1.0, 0.5], [0.0, 30.0]])
    values = theta[:, 0] + np.sin(theta[:, 1] / 30.0)
    averages = []
    for seed in range(150):
        rows, weight = choose_spread_subset(theta, 40, np.random.default_rng(seed))
        averages.append(weight @ values[rows] / weight.sum())
    assert abs(z_score(averages, values.mean())) < Z_LIMIT
    anywhere = values.std() / np.sqrt(40)
    assert np.std(averages) < 0.5 * anywhere


# --- how many are enough --------------------------------------------------------------------------


def rows_of(theta, scale, noise=0.0):
    """Quantities that are smooth in theta, of which the draws show noise besides; (S, 60)."""
    rng = np.random.default_rng(8)
    slope = rng.standard_normal((theta.shape[1], 60)) / np.sqrt(theta.shape[1])
    smooth = np.tanh(theta @ slope + 0.3 * rng.standard_normal(60))
    return scale * smooth + noise * rng.standard_normal((len(theta), 60))


@pytest.mark.parametrize(("p", "scale"), [(1, 0.01), (2, 0.04), (6, 0.1), (1, 0.1), (6, 0.04)])
def test_count_of_enough_draws_is_the_smallest_with_a_small_error(p, scale):
    theta = np.random.default_rng(p).standard_normal((1000, p))
    values = rows_of(theta, scale)
    n = count_enough_draws(theta, values, Integrated())

    def error(n):
        averages = []
        for seed in range(30):
            rows, weight = choose_spread_subset(theta, n, np.random.default_rng(seed))
            averages.append(weight @ values[rows] / weight.sum())
        errors = np.abs(np.array(averages) - values.mean(axis=0))
        return np.sqrt(np.mean(errors**2)), np.quantile(errors, 0.99)

    if n < MOST_DRAWS:
        assert (np.array(error(n)) < LARGEST_ERROR).all()
    if n > FEWEST_DRAWS:
        assert (np.array(error(n // 2)) > 0.5 * LARGEST_ERROR).any()


def test_count_of_enough_draws_includes_the_noise_of_f():
    """Where a draw has its own f alone, averages over theta have all of its noise."""
    theta = np.random.default_rng(0).standard_normal((1000, 2))
    values = rows_of(theta, 0.001, noise=0.06)
    assert count_enough_draws(theta, values, Integrated()) == FEWEST_DRAWS
    own, few = OwnLatent(), ImportanceLatent(0, 48)
    found = count_enough_draws(theta, values, own)
    needed = (1.25 * 0.06 / 0.005) ** 2
    assert needed < found < 2.0 * needed
    assert count_enough_draws(theta, values, few) == FEWEST_DRAWS
    assert count_enough_draws(theta, 3.0 * values, own) == MOST_DRAWS


@in_one_test("n_draws", [1, 5, 15, 40])
def test_count_of_enough_draws_is_all_of_few_draws(n_draws):
    theta = np.random.default_rng(0).standard_normal((n_draws, 2))
    assert count_enough_draws(theta, rows_of(theta, 1.0), OwnLatent()) == n_draws
    # And few are enough where all coincide.
    same = np.ones((300, 2)), np.full((300, 4), 0.3)
    assert count_enough_draws(*same, OwnLatent()) == FEWEST_DRAWS


@pytest.mark.parametrize("labels", [True, False])
def test_typical_values_are_probabilities_or_latent_values_of_some_rows(labels):
    X, y = toy_classes(300, 2, seed=1)
    model = make_model(X, y)
    rng = np.random.default_rng(0)
    theta, f = rng.standard_normal((1500, 2)), rng.standard_normal((1500, 300))
    some, values = typical_values(model, theta, f, labels=labels)
    assert some.shape == (1000, 2)
    assert values.shape == (1000, 200)
    if labels:
        first, last = ndtr(y[0] * f[0, 0]), ndtr(y[-1] * f[-1, -1])
    else:
        first, last = 0.1 * f[[0, -1], [0, -1]] / f.std(axis=0)[[0, -1]]
    assert_allclose(values[[0, -1], [0, -1]], [first, last], rtol=0.2)


def test_typical_values_of_means_are_scaled_by_the_posterior_spread_of_f():
    """Chains on theta alone keep means of f: their spread is a part of that of f."""
    X = np.linspace(0.0, 3.0, 30)[:, None]
    rng = np.random.default_rng(3)
    y = np.sin(X[:, 0]) + 0.5 * rng.standard_normal(30)
    model = make_model(X, y, likelihood=Gaussian(0.5))
    theta = model.start + 0.1 * rng.standard_normal((400, len(model.start)))
    fits = [Exact().fit(model, t).q for t in theta]
    means = np.array([q.mean for q in fits])
    drawn = np.array([q.sample(rng, 1).f[:, 0] for q in fits])
    _, values = typical_values(model, theta, means, labels=False, conditional=Exact())
    _, of_draws = typical_values(model, theta, drawn, labels=False)
    scale = values.std(axis=0) / means.std(axis=0)
    assert_allclose(0.4 * scale, of_draws.std(axis=0) / drawn.std(axis=0), rtol=0.15)


def test_typical_values_of_labels_ignore_weights():
    X, y = toy_classes(30, 2, seed=1)
    model, rng = make_model(X, y), np.random.default_rng(0)
    theta, f = rng.standard_normal((50, 2)), rng.standard_normal((50, 30))
    weighted = model.with_observations(weight=np.full(30, 0.01))
    _, values = typical_values(model, theta, f, labels=True)
    assert_array_equal(typical_values(weighted, theta, f, labels=True)[1], values)


def test_number_of_importance_draws_grows_if_draws_share_theta():
    particles = ImportanceLatent(5, 48, 0.05)
    assert adapt_to_draws(particles, np.full(16, 3.0)) == replace(particles, n=300, unit=3.0)
    assert adapt_to_draws(particles, np.full(500, 1.0)) == replace(particles, unit=1.0)
    assert adapt_to_draws(INTEGRATED, np.ones(3)) is INTEGRATED


# --- a predictor by hand --------------------------------------------------------------------------

N = 12
INTEGRATED = Integrated()


def predictor(strategy=INTEGRATED, approximation=None, n_distinct=4, likelihood="probit"):
    """Ten draws at a few thetas, some of them shared, with weights."""
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y, likelihood, nugget=1e-8)
    rng = np.random.default_rng(3)
    distinct = np.array([0.8, -0.9]) + 0.3 * rng.standard_normal((n_distinct, 2))
    theta = distinct[np.arange(10) % n_distinct]
    f = np.array([model.prior_at(t).sample(rng) for t in theta])
    weight = rng.integers(1, 4, size=10).astype(float)
    arrays = find_density_arrays(model, approximation or EP(), theta)
    return Predictor(model, theta, f, weight, arrays, strategy)


def with_draws(used, rows):
    """Return the predictor for some of its draws, in any order."""
    return replace(
        used,
        theta=used.theta[rows],
        f=used.f[rows],
        multiplicity=used.multiplicity[rows],
        density_arrays=tuple(array[rows] for array in used.density_arrays),
    )


X_NEW = np.random.default_rng(4).uniform(-0.2, 1.2, size=(7, 2))
SOME = ImportanceLatent(11, 5, 0.05)
BOTH = [np.full(7, -1.0), np.full(7, 1.0)]


def dense_moments(model, theta, f, X_new):
    """Mean (m, g) and variance (m,) of f* given f (n, g), in numpy."""
    X, kernel = model.covariance.X, model.covariance.kernel.clone_with_theta(theta)
    cross = kernel(X, X_new)
    projection = np.linalg.solve(model.covariance.matrix(theta), cross)
    return projection.T @ f, kernel.diag(X_new) - np.einsum("im,im->m", cross, projection)


def log_weights_by_hand(model, theta, sites, f, defensive):
    """Log p(y | f) N(f; 0, K) / [(1 - c) q(f) + c N(f; 0, K)], all constants in place."""
    K = model.prior_at(theta).K
    precision = np.linalg.inv(K) + np.diag(sites.precision)
    covariance = np.linalg.inv(precision)
    mean = covariance @ sites.shift

    def log_normal(x, inverse):
        return 0.5 * (np.linalg.slogdet(inverse)[1] - np.einsum("ig,ij,jg->g", x, inverse, x))

    log_prior = log_normal(f, np.linalg.inv(K))
    log_q = log_normal(f - mean[:, None], precision)
    mixture = np.logaddexp(np.log1p(-defensive) + log_q, np.log(defensive) + log_prior)
    return model.observations.totals(f) + log_prior - mixture


def by_hand(used, X_new):
    """Probability of +1, mean and variance of f*, from the particles of a predictor."""
    total = used.multiplicity.sum()
    proba, mean, square, within = 0.0, 0.0, 0.0, 0.0
    for s in range(len(used.theta)):
        sites = Sites(*(array[s] for array in used.density_arrays))
        # Its importance draws are those of its theta, for all draws that share that.
        sharing = np.flatnonzero((used.theta == used.theta[s]).all(axis=1))
        ((given, _),) = used.strategy.make_conditionals(used.group(sharing))
        f = np.tril(given.factor) @ given.coefficients
        assert f.shape[1] == len(sharing) + used.strategy.n_fresh(used.multiplicity[sharing].sum())
        assert_allclose(f[:, : len(sharing)].T, used.f[sharing], rtol=1e-6, atol=1e-8)
        f = np.concatenate([used.f[s][:, None], f[:, len(sharing) :]], axis=1)
        log_weights = log_weights_by_hand(used.model, used.theta[s], sites, f, 0.05)
        w = used.multiplicity[s] / total * np.exp(log_weights - logsumexp(log_weights))
        m, v = dense_moments(used.model, used.theta[s], f, X_new)
        proba = proba + ndtr(m / np.sqrt(1.0 + v[:, None])) @ w
        mean, square, within = mean + m @ w, square + m**2 @ w, within + v * w.sum()
    return proba, mean, square - mean**2 + within


@pytest.mark.parametrize("n_distinct", [1, 4, 10])
def test_predictions_equal_averages_over_weighted_particles_by_hand(n_distinct):
    used = predictor(SOME, n_distinct=n_distinct)
    proba, mean, variance = by_hand(used, X_NEW)
    log_p = used.log_predictive(BOTH, X_NEW)
    assert_allclose(np.exp(log_p[1]), proba, rtol=1e-5)
    assert_allclose(np.exp(log_p[0]), 1.0 - proba, rtol=1e-5)
    latent_mean, latent_variance = used.latent_moments(X_NEW)
    assert_allclose(latent_mean, mean, rtol=1e-4, atol=1e-5)
    assert_allclose(latent_variance, variance, rtol=1e-4)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_one_integral_for_both_classes_equals_two(likelihood, size):
    """Also where all draws agree that a class is as good as impossible."""
    used = predictor(OwnLatent(), likelihood=likelihood)
    used = replace(used, f=size * (1.0 + np.abs(used.f)) * np.sign(used.f[0]))
    both = used.log_class_probabilities(used.model.covariance.X)
    targets = [np.full(N, -1.0), np.full(N, 1.0)]
    expected = used.log_predictive(targets, used.model.covariance.X)
    assert_allclose(np.exp(both), np.exp(expected), rtol=0.0, atol=1e-10)
    assert_allclose(both.min(axis=0), expected.min(axis=0), rtol=1e-8)
    if size > 1.0:
        assert (both.min(axis=1) < np.log(1e-12)).all()


@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_predictions_without_particles_integrate_f_out(approximation):
    used = predictor(INTEGRATED, approximation)
    share = used.multiplicity / used.multiplicity.sum()
    moments = [approximation.fit(used.model, t).q.conditional().predict(X_NEW) for t in used.theta]
    mean = np.array([m.mean[:, 0] for m in moments])
    var = np.array([m.var for m in moments])
    log_p = used.log_predictive(BOTH, X_NEW)
    assert_allclose(np.exp(log_p[1]), share @ ndtr(mean / np.sqrt(1.0 + var)), rtol=1e-8)
    latent_mean, latent_variance = used.latent_moments(X_NEW)
    assert_allclose(latent_mean, share @ mean, rtol=1e-8)
    total = share @ var + share @ (mean - share @ mean) ** 2
    assert_allclose(latent_variance, total, rtol=1e-8)
    # So it does not matter which f the draws have.
    other = replace(used, f=used.f + 1.0)
    assert_array_equal(other.log_predictive(BOTH, X_NEW), log_p)


@pytest.mark.parametrize("strategy", [INTEGRATED, SOME], ids=["marginal", "particles"])
def test_order_and_repetition_of_draws_do_not_change_predictions(strategy):
    used = predictor(strategy)
    expected = used.log_predictive(BOTH, X_NEW)
    order = np.random.default_rng(5).permutation(10)
    assert_allclose(with_draws(used, order).log_predictive(BOTH, X_NEW), expected, atol=1e-10)
    # A draw with a weight of three is that draw three times.
    rows = np.repeat(np.arange(10), used.multiplicity.astype(int))
    repeated = replace(with_draws(used, rows), multiplicity=np.ones(len(rows)))
    assert_allclose(repeated.log_predictive(BOTH, X_NEW), expected, atol=1e-10)


@pytest.mark.parametrize("strategy", [INTEGRATED, SOME], ids=["marginal", "particles"])
def test_prediction_of_a_row_does_not_depend_on_other_rows(strategy):
    used = predictor(strategy, n_distinct=10)  # more than one task of a worker
    together = used.log_predictive(BOTH, X_NEW)
    mean, variance = used.latent_moments(X_NEW)
    for rows in ([3], [6, 0, 2], np.arange(7)[::-1]):
        ys = [y[rows] for y in BOTH]
        assert_allclose(used.log_predictive(ys, X_NEW[rows]), together[:, rows], atol=1e-10)
        some_mean, some_variance = used.latent_moments(X_NEW[rows])
        assert_allclose(some_mean, mean[rows], atol=1e-10)
        assert_allclose(some_variance, variance[rows], atol=1e-10)


def test_importance_draws_of_predictions_are_reproducible():
    used = predictor(SOME)
    again = used.log_predictive(BOTH, X_NEW)
    assert_array_equal(used.log_predictive(BOTH, X_NEW), again)
    assert_array_equal(used.log_predictive(BOTH, X_NEW, n_jobs=2), again)
    other = replace(used, strategy=replace(SOME, seed=12))
    assert not np.array_equal(other.log_predictive(BOTH, X_NEW), again)


@pytest.mark.parametrize("n_particles", [1, 4])
def test_averages_by_conditional_importance_sampling_are_exact(n_particles):
    """Conditional importance sampling: beside an exact draw, however few and bad the others are."""
    model = three_point_model()
    prior = model.prior_at(THREE_THETA)
    _, mean, covariance = exact_posterior(prior.K, model.y, model.likelihood)
    # A reference that is far off: its sites are those of other data.
    wrong = model.with_observations(y=-model.y)
    arrays = find_density_arrays(wrong, EP(), THREE_THETA[None])
    rng = np.random.default_rng(6)
    gaps, squares = [], []
    while len(gaps) < 400:
        f = prior.sample(rng)  # by rejection: an exact draw of p(f | y, theta)
        if np.log(rng.uniform()) >= model.observations.total(f):
            continue
        particles = ImportanceLatent(int(rng.integers(2**31)), n_particles, 0.05)
        one = Predictor(model, THREE_THETA[None], f[None], np.ones(1), arrays, particles)
        ((given, log_weight),) = particles.make_conditionals(one.group(np.array([0])))
        moments = given.predict(model.covariance.X)
        centered = moments.mean - mean[:, None]
        gaps.append(centered @ np.exp(log_weight))
        squares.append(centered**2 @ np.exp(log_weight) + moments.var)
    for j in range(3):
        assert abs(z_score(np.array(gaps)[:, j], 0.0)) < Z_LIMIT
        assert abs(z_score(np.array(squares)[:, j], covariance[j, j])) < Z_LIMIT


def test_predictive_draws_have_the_joint_moments_of_the_average():
    used = predictor(SOME)
    total, mean, square = used.multiplicity.sum(), 0.0, 0.0
    for group in used.groups():
        for conditional, log_weight in used.strategy.make_conditionals(group):
            share = np.exp(log_weight) / total
            means, covariance = conditional.predict_jointly(X_NEW)
            mean = mean + means @ share
            square = square + (means * share) @ means.T + share.sum() * covariance
    assert_allclose(mean, used.latent_moments(X_NEW)[0], rtol=1e-10)
    draws = used.sample_latent(X_NEW, 12_000, np.random.default_rng(2))
    for i in range(len(X_NEW)):
        assert abs(z_score(draws[:, i], mean[i])) < Z_LIMIT
        for j in range(i + 1):
            assert abs(z_score(draws[:, i] * draws[:, j], square[i, j])) < Z_LIMIT


@pytest.mark.parametrize("n_distinct", [1, 10])
def test_predictive_draws_take_each_draw_by_its_multiplicity(n_distinct):
    """A draw that stands for many others is drawn for all of them, with thetas shared or not."""
    used = predictor(OwnLatent(), n_distinct=n_distinct)
    weight = np.array([5.0, *np.ones(9)])
    used = replace(used, multiplicity=weight, f=used.f + 100.0 * np.arange(10)[:, None])
    drawn = np.zeros(10)
    for seed in range(60):
        draws = used.sample_latent(used.model.covariance.X[:1], 7, np.random.default_rng(seed))
        nearest = np.abs(draws - used.f[:, 0]).argmin(axis=1)
        drawn += np.bincount(nearest, minlength=10)
    share = weight / weight.sum()
    assert np.all(np.abs(drawn / 420.0 - share) < 4.0 * np.sqrt(share * (1.0 - share) / 420.0))
