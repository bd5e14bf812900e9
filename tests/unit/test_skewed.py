"""The importance density with skewed margins."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from scipy.special import ndtr

from skgpmcmc.approximations import (
    EP,
    Laplace,
    SkewedApproximation,
    density_from,
    importance_estimate,
    log_importance_weights,
)
from skgpmcmc.approximations.skewed import _root, asymmetry_of, skewness_of

from ..helpers import (
    THREE_THETA,
    Z_LIMIT,
    both_links,
    in_one_test,
    make_model,
    orthant_probability,
    three_point_model,
    toy_classes,
    z_score,
)

ASYMMETRIES = np.array([-1.5, -0.6, -0.1, 0.0, 0.3, 1.0])


@pytest.fixture(scope="module")
def model():
    return make_model(*toy_classes(6, 2, seed=3), nugget=1e-6)


def skewed(model, theta=(1.4, -0.7), asymmetry=ASYMMETRIES):
    q = EP(tol=1e-8).fit(model, np.array(theta)).q
    return SkewedApproximation(q, 1.1 * np.sqrt(q.marginal_variance), np.asarray(asymmetry, float))


def log_density_by_hand(density, f):
    """Of one f: the Gaussian at what it was moved from, over the Jacobian, all by numpy."""
    q = density.q
    covariance = np.linalg.inv(np.linalg.inv(q.prior.K) + np.diag(q.precision))
    z = np.linspace(-12.0, 12.0, 200_001)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    delta, log_slope = np.empty(len(f)), 0.0
    for i, asymmetry in enumerate(density.asymmetry):
        moved = np.sinh(np.arcsinh(z) + asymmetry)
        mean = (weight * moved).sum()
        sd = np.sqrt((weight * (moved - mean) ** 2).sum())
        x = (f[i] - q.mean[i]) / density.sd[i] * sd + mean
        u = np.sinh(np.arcsinh(x) - asymmetry)
        delta[i] = density.sd[i] * u
        log_slope += np.log(np.sqrt((1.0 + x**2) / (1.0 + u**2)) / sd)
    return stats.multivariate_normal(np.zeros(len(f)), covariance).logpdf(delta) - log_slope


def test_log_ratio_is_that_of_the_densities(model):
    density = skewed(model)
    f = density.q.mean[:, None] + 3.0 * np.random.default_rng(0).standard_normal((6, 20))
    log_prior = stats.multivariate_normal(np.zeros(6), density.q.prior.K).logpdf(f.T)
    expected = [log_density_by_hand(density, column) for column in f.T] - log_prior
    assert_allclose(density.log_ratio_to_prior(f), expected, rtol=1e-6, atol=1e-6)


def test_draws_know_their_log_ratio(model):
    density = skewed(model)
    draws = density.sample(np.random.default_rng(1), 300)
    assert_allclose(draws.log_ratio, density.log_ratio_to_prior(draws.f), atol=1e-7)


def test_without_an_asymmetry_it_is_the_gaussian(model):
    density = skewed(model, asymmetry=np.zeros(6))
    f = density.q.mean[:, None] + np.random.default_rng(0).standard_normal((6, 20))
    assert_allclose(density.log_ratio_to_prior(f), density.q.log_ratio_to_prior(f), atol=1e-7)
    moved, plain = (d.sample(np.random.default_rng(2), 5) for d in (density, density.q))
    assert_allclose(moved.f, plain.f, atol=1e-12)
    assert_allclose(moved.log_ratio, plain.log_ratio, atol=1e-9)


def test_moments_of_the_draws(model):
    """Means of q, its variances times those that `sd` asks for, and the skewness asked for."""
    density = skewed(model)
    f = density.sample(np.random.default_rng(4), 150_000).f
    sd = 1.1 * density.q.marginal_variance**0.5
    # A delta of another spread than `sd` is skewed a little differently: 10 % here, on purpose.
    assert_allclose(f.mean(axis=1), density.q.mean, atol=0.05 * sd.max())
    exact = SkewedApproximation(density.q, density.q.marginal_variance**0.5, density.asymmetry)
    f = exact.sample(np.random.default_rng(5), 150_000).f
    error = f.mean(axis=1) - exact.q.mean
    assert np.abs(error / (exact.sd / np.sqrt(150_000))).max() < Z_LIMIT
    assert_allclose(f.var(axis=1), exact.q.marginal_variance, rtol=0.02)
    assert_allclose(stats.skew(f, axis=1), skewness_of(ASYMMETRIES), atol=0.05)


@pytest.mark.parametrize("asymmetry", [-1.2, 0.4])
def test_it_is_a_density(asymmetry):
    """In one dimension, it integrates to one."""
    model = make_model(np.array([[0.3]]), np.array([1.0]))
    density = skewed(model, asymmetry=[asymmetry])
    prior = stats.norm(0.0, np.sqrt(density.q.prior.K[0, 0]))

    def value(f):
        return float(np.exp(density.log_ratio_to_prior(np.array([[f]]))[0]) * prior.pdf(f))

    assert integrate.quad(value, -60.0, 60.0, limit=400)[0] == pytest.approx(1.0, abs=1e-7)


def test_the_estimate_is_unbiased():
    """Against the orthant probability, retained and defensive draws included."""
    model = three_point_model()
    q = EP().fit(model, THREE_THETA).q
    shape = q.shape(model)
    density = SkewedApproximation(q, shape.sd, asymmetry_of(1.5 * shape.skewness))
    exact = orthant_probability(q.prior.K, model.y)
    for defensive in (0.0, 0.2):
        rng = np.random.default_rng(6)
        estimate = importance_estimate(model, density, 80_000, rng, defensive=defensive)
        weights = np.exp(estimate.log_weights)
        assert abs(z_score(weights, exact)) < Z_LIMIT
        again = log_importance_weights(model, density, estimate.particles, defensive=defensive)
        assert_allclose(estimate.log_weights, again, atol=1e-8)


@both_links
def test_skewness_of_a_single_site(likelihood):
    """With one point the tilted distribution is the posterior: its third moment by quadrature."""
    model = make_model(np.array([[0.3]]), np.array([1.0]), likelihood)
    q = EP(tol=1e-10).fit(model, np.array([2.0, 0.0])).q
    shape = q.shape(model)
    prior = stats.norm(0.0, np.sqrt(q.prior.K[0, 0]))

    def density(f):
        return prior.pdf(f) * np.exp(model.observations.total(np.array([f])))

    def moment(k, mean=0.0):
        return integrate.quad(lambda f: (f - mean) ** k * density(f), -80.0, 80.0, limit=500)[0]

    mass = moment(0)
    mean = moment(1) / mass
    var = moment(2, mean) / mass
    assert shape.sd[0] == pytest.approx(np.sqrt(var), rel=1e-5)
    assert shape.skewness[0] == pytest.approx(moment(3, mean) / mass / var**1.5, abs=1e-4)


def test_less_noise_where_the_posterior_is_skewed():
    """Many independent latent values of large variance, each of which one class pushes away."""
    rng = np.random.default_rng(0)
    X = 20.0 * np.arange(40.0)[:, None]
    model = make_model(X, np.where(rng.uniform(size=40) < 0.5, -1.0, 1.0))
    theta = np.array([2.5, -1.0])
    q = EP().fit(model, theta).q
    shape = q.shape(model)
    density = SkewedApproximation(q, shape.sd, asymmetry_of(shape.skewness))
    plain, other = (
        np.std([importance_estimate(model, d, 64, rng).log_likelihood for _ in range(60)])
        for d in (q, density)
    )
    assert other < 0.3 * plain
    # Without neighbors, every class has probability 1/2 at every point.
    estimate = importance_estimate(model, density, 4000, rng).log_likelihood
    assert estimate == pytest.approx(40 * np.log(0.5), abs=0.1)
    assert ndtr(0.0) == 0.5


def test_shape_of_a_laplace_approximation(model):
    q = Laplace().fit(model, np.array([1.4, -0.7])).q
    shape = q.shape(model)
    assert_allclose(shape.sd, np.sqrt(q.marginal_variance))
    assert np.isfinite(shape.skewness).all()
    assert np.all(shape.skewness * model.y > 0.0)  # the tail is on the side of the class


def test_the_asymmetry_of_a_skewness():
    assert_allclose(
        skewness_of(asymmetry_of(np.linspace(-1.3, 1.3, 50))),
        np.linspace(-1.3, 1.3, 50),
        atol=1e-4,
    )
    assert_array_equal(asymmetry_of(np.array([-9.0, 9.0])), [-1.5, 1.5])
    assert_allclose(skewness_of(-ASYMMETRIES), -skewness_of(ASYMMETRIES), atol=1e-14)


@in_one_test("is_skewed", [True, False])
def test_parts_make_it_again(model, is_skewed):
    density = skewed(model)
    density = density if is_skewed else density.q
    f = density.q.mean[:, None] + np.random.default_rng(0).standard_normal((6, 3))
    for again in (
        density_from(model, density.q.prior, density.arrays),
        pickle.loads(pickle.dumps(density)),
    ):
        assert type(again) is type(density)
        assert_allclose(again.log_ratio_to_prior(f), density.log_ratio_to_prior(f), atol=1e-8)


@in_one_test("farthest", [1.0, 1e200])
def test_far_latent_values_have_a_finite_root(farthest):
    x = farthest * np.array([[-1.0, 0.5], [0.0, 1.0]])
    with np.errstate(all="raise", under="ignore"):
        assert_allclose(_root(x), np.hypot(1.0, x), rtol=1e-15)
