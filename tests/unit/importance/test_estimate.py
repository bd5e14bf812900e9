"""The importance-sampling estimate: weights, draws, and that it is unbiased."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import chisquare, multivariate_normal

from skgpmcmc.approximations import EP, GaussianApproximation, Laplace, Sites
from skgpmcmc.approximations.whitened import WhitenedApproximation
from skgpmcmc.importance import ImportanceEstimate, importance_estimate, log_importance_weights
from skgpmcmc.numerics.linalg import count_operations

from ...helpers import (
    NO_THETA,
    P_LIMIT,
    THREE_THETA,
    THREE_Y,
    Z_LIMIT,
    GaussianNoise,
    dense,
    every_pair,
    exact_posterior,
    given_model,
    in_one_test,
    make_model,
    orthant_probability,
    three_point_model,
    toy_classes,
    z_score,
)

LINKS, BOTH, SHARES = ("probit", "logit"), (EP(), Laplace()), (0.0, 0.1, 0.9)
both_approximations = pytest.mark.parametrize("approximation", BOTH, ids=["ep", "laplace"])
every_share = in_one_test("defensive", SHARES)


def weighted(log_weights):
    """An estimate with given weights, whose particles are their own indices."""
    particles = np.arange(float(len(log_weights)))[None]
    return ImportanceEstimate(float(logsumexp(log_weights)), particles, np.asarray(log_weights))


# --- weights --------------------------------------------------------------------------------------


@in_one_test(("likelihood", "approximation", "defensive"), every_pair(LINKS, BOTH, SHARES))
def test_importance_weights_are_ratios_of_densities(likelihood, approximation, defensive):
    X, y = toy_classes(6, 2, seed=0)
    model = make_model(X, y, likelihood, nugget=1e-6)
    q = approximation.fit(model, np.array([1.0, -1.0])).q
    mean, covariance = dense(q)
    f = mean[:, None] + 2.0 * np.random.default_rng(1).standard_normal((6, 50))
    log_prior = multivariate_normal(np.zeros(6), q.prior.K).logpdf(f.T)
    log_q = multivariate_normal(mean, covariance).logpdf(f.T)
    if defensive:
        log_q = np.logaddexp(np.log1p(-defensive) + log_q, np.log(defensive) + log_prior)
    expected = model.observations.totals(f) + log_prior - log_q
    log_weights = log_importance_weights(model, q, f, defensive=defensive)
    assert_allclose(log_weights, expected, atol=1e-8)


@every_share
def test_an_estimate_is_the_mean_of_the_weights_of_its_particles(defensive):
    model = three_point_model()
    q = EP().fit(model, THREE_THETA).q
    estimate = importance_estimate(model, q, 16, np.random.default_rng(2), defensive=defensive)
    assert estimate.particles.shape == (3, 16)
    log_weights = log_importance_weights(model, q, estimate.particles, defensive=defensive)
    assert_allclose(estimate.log_weights, log_weights, rtol=1e-13)
    expected = np.log(np.exp(log_weights).mean())
    assert estimate.log_likelihood == pytest.approx(expected, abs=1e-12)


@both_approximations
def test_estimate_with_gaussian_noise_has_no_error(approximation):
    """q is the posterior: one draw gives the evidence, whatever the draw."""
    X = np.random.default_rng(3).uniform(size=(8, 2))
    y = np.random.default_rng(4).standard_normal(8)
    model = make_model(X, y, GaussianNoise(0.3))
    q, log_evidence, _, _ = approximation.with_tolerance().fit(model, np.array([0.5, -1.0]))
    estimate = importance_estimate(model, q, 100, np.random.default_rng(5))
    assert_allclose(estimate.log_weights, log_evidence, atol=1e-6)


@both_approximations
def test_defensive_weights_are_bounded(approximation):
    """By max p(y | f) / defensive, at any f; without it, a far f on the right side exceeds it."""
    model = given_model([[4.48]], [1.0])
    q = approximation.fit(model, NO_THETA).q
    # The prior has heavier tails than q where the likelihood saturates.
    assert q.precision[0] > 1.0 / 4.48
    f = np.linspace(-200.0, 200.0, 4001)[None]
    bounded = log_importance_weights(model, q, f, defensive=0.05)
    assert bounded.max() <= -np.log(0.05) + 1e-12
    assert log_importance_weights(model, q, f).max() > 100.0


# --- draws ----------------------------------------------------------------------------------------


class Given:
    """A generator of given normal numbers, one column after the other."""

    def __init__(self, z):
        self.z = z

    def standard_normal(self, shape):
        found, self.z = np.split(self.z, [shape[1]], axis=1)
        return found


@in_one_test("n_empty", [0, 2, 5])
@in_one_test(("kind", "size"), [(GaussianApproximation, 2), (GaussianApproximation, 5),
                                (WhitenedApproximation, 1)])  # fmt: skip
def test_draws_have_the_mean_and_the_covariance_of_a_gaussian_approximation(n_empty, kind, size):
    """They are linear in normal numbers; few are made from the prior (Matheron's rule)."""
    rng = np.random.default_rng(6)
    model = make_model(rng.uniform(size=(5, 2)), np.ones(5))
    precision = rng.gamma(2.0, 0.5, size=5)
    precision[:n_empty] = 0.0  # divisions by W would show
    q = kind(model.prior_at(np.array([1.0, -1.0])), Sites(rng.standard_normal(5), precision))
    mean, covariance = dense(q)
    n_normals = 10 if size == 2 else 5
    parts = [q.sample(Given(z), size).f for z in np.split(np.eye(n_normals), n_normals // size)]
    root = np.hstack(parts) - mean[:, None]
    assert_allclose(root @ root.T, covariance, atol=1e-10)
    assert_allclose(q.sample(Given(np.zeros((size, 10))), size).f, mean[:, None] * np.ones(size))


def test_both_factorizations_give_the_same_gaussian():
    rng = np.random.default_rng(3)
    model = make_model(rng.uniform(size=(6, 2)), np.ones(6))
    prior = model.prior_at(np.array([1.0, -1.0]))
    sites = Sites(rng.standard_normal(6), rng.gamma(2.0, 0.5, size=6))
    plain = GaussianApproximation(prior, sites)
    white = WhitenedApproximation(prior, sites)
    assert "chol_B" not in white.__dict__
    assert_allclose(white.mean, plain.mean, atol=1e-12)
    assert_allclose(white.weights, plain.weights, atol=1e-10)
    assert white.half_log_det_B == pytest.approx(plain.half_log_det_B, rel=1e-12)
    f = rng.standard_normal((6, 4))
    assert_allclose(white.log_ratio_to_prior(f), plain.log_ratio_to_prior(f), rtol=1e-9)


@in_one_test("size", [1, 10])  # less and more than half the rows
def test_draws_come_with_their_log_ratio_of_densities(size):
    rng = np.random.default_rng(8)
    model = make_model(rng.uniform(size=(8, 2)), np.ones(8))
    q = EP().fit(model, np.array([1.0, -1.0])).q
    draws = q.sample(rng, size)
    assert_allclose(draws.log_ratio, q.log_ratio_to_prior(draws.f), atol=1e-9)


def test_the_defensive_share_comes_from_the_prior():
    model = three_point_model()
    q = EP().fit(model, THREE_THETA).q
    mean, covariance = dense(q)
    n_draws, share = 200_000, 0.3
    estimate = importance_estimate(model, q, n_draws, np.random.default_rng(7), defensive=share)
    # Second moments of the mixture; their sampling error from the draws themselves.
    expected = (1.0 - share) * (covariance + np.outer(mean, mean)) + share * q.prior.K
    for i in range(3):
        assert abs(z_score(estimate.particles[i], (1.0 - share) * mean[i])) < Z_LIMIT
        for j in range(i + 1):
            products = estimate.particles[i] * estimate.particles[j]
            assert abs(z_score(products, expected[i, j])) < Z_LIMIT


def test_particles_are_drawn_in_proportion_to_their_weights():
    weights = np.array([0.1, 0.0, 0.35, 0.05, 0.5])
    with np.errstate(divide="ignore"):
        estimate = weighted(np.log(weights) - 2000.0)  # far below what exp can hold
    rng = np.random.default_rng(8)
    draws = [int(estimate.draw(rng)[0]) for _ in range(5000)]
    counts = np.bincount(draws, minlength=5)
    assert counts[1] == 0
    used = weights > 0.0
    assert chisquare(counts[used], 5000 * weights[used]).pvalue > P_LIMIT


def test_a_particle_without_weight_is_never_drawn():
    """Not even at the ends of the range of `uniform`, which includes 0."""

    class Stuck:
        def __init__(self, value):
            self.uniform = lambda: value

    estimate = weighted([-np.inf, 0.0, -np.inf, 0.0, -np.inf])
    assert estimate.draw(Stuck(0.0))[0] == 1.0
    assert estimate.draw(Stuck(np.nextafter(1.0, 0.0)))[0] == 3.0


def test_draws_cost_no_further_factorization():
    """One factor of K and the B of the fit serve any number of particles."""
    n = 40
    X, y = toy_classes(n, 2, seed=0)
    model = make_model(X, y)
    q = EP().fit(model, np.array([1.0, -1.0])).q
    with count_operations() as count:
        importance_estimate(model, q, 4, np.random.default_rng(0), defensive=0.1)
    count = count.per(n)
    assert count.cholesky == 1.0
    assert count.inverse == 0.0
    assert count.total - 1.0 < 25.0 / n


# --- unbiased -------------------------------------------------------------------------------------

CASES = {
    "one point": (lambda link: given_model([[4.48]], [1.0], link), NO_THETA),
    "three points": (three_point_model, THREE_THETA),
}


def estimates(model, theta, approximation, n_draws, n_replicates, defensive, seed):
    """Independent estimates of p(y), on the natural scale."""
    q = approximation.fit(model, theta).q
    rng = np.random.default_rng(seed)
    return np.exp(
        [
            importance_estimate(model, q, n_draws, rng, defensive=defensive).log_likelihood
            for _ in range(n_replicates)
        ]
    )


def exact_probability(model, theta):
    log_z, _, _ = exact_posterior(model.prior_at(theta).K, model.y, model.likelihood)
    return np.exp(log_z)


@pytest.mark.parametrize(
    ("likelihood", "approximation", "case"), every_pair(LINKS, BOTH, tuple(CASES))
)
def test_estimate_is_unbiased_to_a_thousandth(likelihood, approximation, case):
    """The same with a million draws at once: a bias of 0.5 % would show."""
    make, theta = CASES[case]
    model = make(likelihood)
    q = approximation.fit(model, theta).q
    estimate = importance_estimate(model, q, 1_000_000, np.random.default_rng(10), defensive=0.1)
    weights = np.exp(estimate.log_weights)
    exact = exact_probability(model, theta)
    assert weights.std() / np.sqrt(len(weights)) < 0.00125 * exact
    assert abs(z_score(weights, exact)) < Z_LIMIT


@pytest.mark.parametrize(
    ("likelihood", "approximation", "n_draws"), every_pair(LINKS, BOTH, (1, 16))
)
def test_estimate_without_defensive_share_is_unbiased(likelihood, approximation, n_draws):
    """E w^2 is finite if K^-1 - W is positive definite: the prior is narrow enough."""
    K, y = np.array([[0.5, 0.3], [0.3, 0.5]]), np.array([1.0, -1.0])
    model = given_model(K, y, likelihood)
    q = approximation.fit(model, NO_THETA).q
    assert np.linalg.eigvalsh(np.linalg.inv(K) - np.diag(q.precision)).min() > 0.0
    sample = estimates(model, NO_THETA, approximation, n_draws, 1000, 0.0, seed=12)
    assert abs(z_score(sample, exact_probability(model, NO_THETA))) < Z_LIMIT


def test_estimate_around_any_gaussian_is_unbiased():
    """Mean off, precision off: still unbiased."""
    model = three_point_model()
    prior = model.prior_at(THREE_THETA)
    sites = Sites(np.array([0.3, 0.3, -0.2]), np.array([0.0, 1.5, 0.2]))
    q = GaussianApproximation(prior, sites)
    estimate = importance_estimate(model, q, 300_000, np.random.default_rng(13), defensive=0.2)
    exact = exact_probability(model, THREE_THETA)
    assert abs(z_score(np.exp(estimate.log_weights), exact)) < Z_LIMIT


@both_approximations
def test_particles_drawn_by_weight_have_the_posterior_law(approximation):
    """E [estimate g(f_j)] = p(y) E [g(f) | y], j drawn by weight; g a coordinate or a product."""
    model = three_point_model()
    q = approximation.fit(model, THREE_THETA).q
    log_z, mean, covariance = exact_posterior(q.prior.K, THREE_Y, model.likelihood)
    second = covariance + np.outer(mean, mean)
    rng = np.random.default_rng(14)
    products = []
    for _ in range(2000):
        estimate = importance_estimate(model, q, 4, rng, defensive=0.1)
        f = estimate.draw(rng)
        g = np.array([*f, f[0] ** 2, f[0] * f[1], f[1] * f[2]])
        products.append(np.exp(estimate.log_likelihood - log_z) * g)
    expected = [*mean, second[0, 0], second[0, 1], second[1, 2]]
    for values, reference in zip(np.array(products).T, expected, strict=True):
        assert abs(z_score(values, reference)) < Z_LIMIT


# --- a particle retained --------------------------------------------------------------------------


@every_share
def test_a_retained_particle_keeps_its_place_and_its_weight(defensive):
    model = three_point_model()
    q = EP().fit(model, THREE_THETA).q
    f = np.array([0.5, -1.0, 2.0])
    estimate = importance_estimate(
        model, q, 5, np.random.default_rng(15), defensive=defensive, retained=f
    )
    assert_array_equal(estimate.particles[:, 0], f)
    expected = log_importance_weights(model, q, estimate.particles, defensive=defensive)
    assert_allclose(estimate.log_weights, expected, atol=1e-9)
    assert len({tuple(particle) for particle in estimate.particles.T}) == 5
    expected = np.log(np.exp(estimate.log_weights).mean())
    assert estimate.log_likelihood == pytest.approx(expected, abs=1e-12)
    assert_array_equal(f, [0.5, -1.0, 2.0])


def test_with_a_posterior_draw_retained_the_estimate_has_its_law_under_the_target():
    """Under the extended target E [1 / estimate] = 1 / p(y); under q it would be larger."""
    model = three_point_model()
    q = EP().fit(model, THREE_THETA).q
    rng = np.random.default_rng(16)
    # Exact posterior draws: a prior draw is accepted with probability p(y | f).
    f = q.prior.sample(rng, 40_000)
    accepted = f[:, np.log(rng.uniform(size=40_000)) < model.observations.totals(f)][:, :1500]
    assert accepted.shape == (3, 1500)
    exact = orthant_probability(q.prior.K, THREE_Y)
    inverse = [
        np.exp(
            -importance_estimate(model, q, 2, rng, defensive=0.1, retained=column).log_likelihood
        )
        for column in accepted.T
    ]
    assert abs(z_score(exact * np.array(inverse), 1.0)) < Z_LIMIT
