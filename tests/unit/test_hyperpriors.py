"""Priors on the log scale: the Jacobian, gradients, draws, and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad

from skgpmcmc.hyperpriors import LOG_SCALE_LIMIT, HyperPrior, default_prior

from ..helpers import P_LIMIT, finite_difference

CLOSED_FORMS = {
    "gamma": stats.gamma(1.2, scale=5.0),
    "gamma, small shape": stats.gamma(0.3, scale=1.0),
    "invgamma": stats.invgamma(1.5, scale=0.7),
    "lognorm": stats.lognorm(0.8, scale=2.0),
    "halfnorm": stats.halfnorm(scale=3.0),
}
NUMERICAL = {
    "weibull_min": stats.weibull_min(1.7, scale=2.0),
    "expon": stats.expon(scale=2.0),
    "halfcauchy": stats.halfcauchy(scale=1.5),
    "loguniform": stats.loguniform(0.01, 100.0),
    # A shifted gamma must not be taken for the closed form of one at the origin.
    "gamma with loc": stats.gamma(2.0, loc=0.05, scale=1.5),
    "lognorm with loc": stats.lognorm(0.5, loc=0.05),
}
FAMILIES = CLOSED_FORMS | NUMERICAL

every_family = pytest.mark.parametrize("distribution", FAMILIES.values(), ids=FAMILIES.keys())


def single(distribution):
    return HyperPrior(["x"], {"x": distribution})


# --- density --------------------------------------------------------------------------------------


@every_family
def test_the_density_of_log_x_integrates_to_one(distribution):
    prior = single(distribution)
    low, high = np.log(np.maximum(distribution.ppf([1e-13, 1.0 - 1e-13]), np.exp(-45.0)))
    mass, error = quad(
        lambda u: np.exp(prior.log_prob(np.array([u]))),
        low, high, limit=500, epsabs=1e-10, points=np.linspace(low, high, 20)[1:-1],
    )  # fmt: skip
    # The gamma of small shape keeps exp(-0.3 * 45) = 1e-6 of its mass below the cut.
    below = distribution.cdf(np.exp(low))
    assert mass == pytest.approx(1.0 - below, abs=1e-8 + error)


@every_family
def test_the_density_is_that_of_the_log(distribution):
    """P(a < log x < b) from the density on the log scale against the distribution of x."""
    prior = single(distribution)
    a, b = np.log(distribution.ppf([0.2, 0.7]))
    mass, _ = quad(lambda u: np.exp(prior.log_prob(np.array([u]))), a, b)
    assert mass == pytest.approx(0.5, abs=1e-9)


def test_independent_components_add_up_wherever_their_names_stand():
    gamma, lognorm = stats.gamma(1.1, scale=10.0), stats.lognorm(1.0)
    prior = HyperPrior(["a", "b", "a", "b"], {"a": gamma, "b": lognorm, "unused": None})
    theta = np.array([0.3, -1.0, 0.8, 0.1])
    expected = (gamma.logpdf(np.exp(theta[[0, 2]])) + theta[[0, 2]]).sum()
    expected += (lognorm.logpdf(np.exp(theta[[1, 3]])) + theta[[1, 3]]).sum()
    assert prior.log_prob(theta) == pytest.approx(expected, abs=1e-12)
    assert_allclose(
        prior.gradient(theta), finite_difference(prior.log_prob, theta), rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("u", [LOG_SCALE_LIMIT + 1e-9, -LOG_SCALE_LIMIT - 1e-9, 1e3, np.inf,
                               -np.inf, np.nan])  # fmt: skip
def test_beyond_the_range_of_doubles_there_is_no_mass(u):
    prior = HyperPrior(["a", "b"], dict.fromkeys("ab", stats.gamma(1.1, scale=10.0)))
    assert prior.log_prob(np.array([0.0, u])) == -np.inf


def test_outside_a_bounded_support_there_is_no_mass():
    prior = single(stats.uniform(0.5, 1.5))
    assert prior.log_prob(np.log([0.4])) == -np.inf
    assert prior.log_prob(np.log([2.1])) == -np.inf
    assert prior.log_prob(np.log([1.0])) == pytest.approx(-np.log(1.5))


def test_no_hyper_parameters():
    prior = HyperPrior((), {})
    assert prior.log_prob(np.empty(0)) == 0.0
    assert prior.gradient(np.empty(0)).shape == (0,)
    assert prior.sample(np.random.default_rng(0)).shape == (0,)


# --- gradient -------------------------------------------------------------------------------------


@every_family
def test_gradient(distribution):
    prior = single(distribution)
    for u in np.log(distribution.ppf([0.02, 0.3, 0.6, 0.98])):
        theta = np.array([u])
        expected = finite_difference(prior.log_prob, theta)
        assert_allclose(prior.gradient(theta), expected, rtol=1e-6, atol=1e-6)


# --- draws ----------------------------------------------------------------------------------------


@every_family
def test_draws_follow_the_distribution(distribution):
    prior = HyperPrior(["x"] * 4000, {"x": distribution})
    x = np.exp(prior.sample(np.random.default_rng(5)))
    assert stats.kstest(x, distribution.cdf).pvalue > P_LIMIT


def test_draws_put_each_component_in_its_place():
    prior = HyperPrior(
        ["small", "large", "small"],
        {"small": stats.uniform(0.1, 0.1), "large": stats.uniform(100.0, 1.0)},
    )
    x = np.exp(prior.sample(np.random.default_rng(0)))
    assert 0.1 <= x[0] <= 0.2
    assert 0.1 <= x[2] <= 0.2
    assert x[0] != x[2]
    assert 100.0 <= x[1] <= 101.0


def test_equal_streams_give_equal_draws():
    prior = HyperPrior(["x"] * 3, {"x": stats.gamma(1.1, scale=10.0)})
    draws = [prior.sample(np.random.default_rng(7)) for _ in range(2)]
    assert_array_equal(*draws)


def test_a_draw_that_underflows_is_still_a_start():
    prior = HyperPrior(["x"] * 500, {"x": stats.gamma(1e-3)})
    theta = prior.sample(np.random.default_rng(0))
    assert theta.min() == -LOG_SCALE_LIMIT
    assert np.isfinite(prior.log_prob(theta))


# --- defaults and refusals ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["constant_value", "k1__k2__constant_value", "noise_level",
                                  "k2__sigma_0"])  # fmt: skip
def test_default_prior_of_a_scale(name):
    prior = default_prior(name, 5)
    assert prior.mean() == pytest.approx(11.0)
    assert prior.var() == pytest.approx(110.0)


@pytest.mark.parametrize("name", ["length_scale", "k1__k2__length_scale", "periodicity"])
def test_default_prior_of_a_length(name):
    prior = default_prior(name, 9)
    assert prior.mean() == pytest.approx(3.0)  # exponential: rate 1 / sqrt(d)
    assert prior.var() == pytest.approx(9.0)


def test_default_prior_of_anything_else():
    prior = default_prior("k2__alpha", 9)
    assert prior.median() == pytest.approx(1.0)
    assert np.log(prior.ppf(stats.norm.cdf(1.0))) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [3.0, "gamma", None, stats.poisson(2.0), stats.gamma, stats.halfnorm,
     stats.multivariate_normal(np.zeros(2))],
    ids=["number", "str", "None", "discrete", "not frozen", "not frozen, no shape", "vector"],
)  # fmt: skip
def test_what_is_not_a_frozen_continuous_distribution_is_refused(wrong):
    with pytest.raises(ValueError, match=r"priors\['k1__constant_value'\] must be a frozen"):
        HyperPrior(["k1__constant_value"], {"k1__constant_value": wrong})


@pytest.mark.parametrize("wrong", [stats.norm(), stats.uniform(-0.1, 1.0), stats.t(3.0),
                                   stats.gamma([1.0, 2.0])])  # fmt: skip
def test_a_support_that_is_not_positive_is_refused(wrong):
    with pytest.raises(ValueError, match=r"priors\['x'\] has support .* natural scale"):
        HyperPrior(["x"], {"x": wrong})
