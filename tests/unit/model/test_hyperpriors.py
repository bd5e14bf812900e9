"""Priors on the log scale: the Jacobian, closed forms, gradients, draws, and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import differentiate, stats
from scipy.integrate import quad

from skgpmcmc.model import HyperPrior
from skgpmcmc.model.hyperpriors import LOG_SCALE_LIMIT

from ...helpers import P_LIMIT, finite_difference, in_one_test

#: A distribution of the family from three random numbers.
RANDOM = {
    "gamma": lambda a, b, scale: stats.gamma(a, scale=scale),
    "gamma, by keyword": lambda a, b, scale: stats.gamma(scale=scale, a=a, loc=0),
    "invgamma": lambda a, b, scale: stats.invgamma(a, scale=scale),
    "lognorm": lambda a, b, scale: stats.lognorm(a, scale=scale),
    "halfnorm": lambda a, b, scale: stats.halfnorm(scale=scale),
    "expon": lambda a, b, scale: stats.expon(scale=scale),
    "weibull_min": lambda a, b, scale: stats.weibull_min(a, scale=scale),
    "halfcauchy": lambda a, b, scale: stats.halfcauchy(scale=scale),
    "loguniform": lambda a, b, scale: stats.loguniform(a, a + b, scale=scale),
    "uniform": lambda a, b, scale: stats.uniform(0.0, scale),
    "uniform with loc": lambda a, b, scale: stats.uniform(b, scale),
}

every_closed_family = in_one_test("family", RANDOM.values(), ids=RANDOM)
CLOSED_FORMS = {name: family(1.2, 3.0, 0.7) for name, family in RANDOM.items()}
CLOSED_FORMS |= {"gamma, small shape": stats.gamma(0.3)}
NUMERICAL = {
    "fisk": stats.fisk(2.5, scale=2.0),
    "gengamma": stats.gengamma(1.5, 0.8),
    # A shifted gamma must not be taken for the closed form of one at the origin.
    "gamma with loc": stats.gamma(2.0, loc=0.05, scale=1.5),
    "lognorm with loc": stats.lognorm(0.5, loc=0.05),
}
FAMILIES = CLOSED_FORMS | NUMERICAL

every_family = in_one_test("distribution", FAMILIES.values(), ids=FAMILIES)


def single(distribution):
    return HyperPrior(["x"], {"x": distribution})


def mixed():
    """Every family at once, two components each, their names interleaved."""
    return HyperPrior([*FAMILIES, *FAMILIES], FAMILIES)


def mixed_draws(n):
    """Draws from all of `mixed`, of shape (n, p)."""
    rng = np.random.default_rng(3)
    return np.array([mixed().sample(rng) for _ in range(n)])


def log_density_by_scipy(distribution, u):
    return distribution.logpdf(np.exp(u)) + u


def raise_if_called(*args, **kwargs):
    raise AssertionError("a closed form was expected")


# --- density --------------------------------------------------------------------------------------


@every_family
def test_density_on_the_log_scale_has_the_mass_of_the_prior(distribution):
    """P(a < log x < b) from the density on the log scale against the distribution of x."""
    prior = single(distribution)
    a, b = np.log(distribution.ppf([0.2, 0.7]))
    mass, _ = quad(lambda u: np.exp(prior.log_prob(np.array([u]))), a, b)
    assert mass == pytest.approx(0.5, abs=1e-9)


@every_closed_family
def test_closed_form_log_density_equals_scipys(family):
    rng = np.random.default_rng(11)
    for a, b, scale in rng.gamma(2.0, size=(12, 3)):
        distribution = family(a, b, scale)
        u = np.log(distribution.ppf(np.r_[1e-8, rng.uniform(size=20), 1.0 - 1e-8]))
        u = u[np.abs(u) < LOG_SCALE_LIMIT]
        expected = log_density_by_scipy(distribution, u)
        # Differences of terms as large as u, whose rounding is all that SciPy's can be off by.
        size = 1.0 + np.abs(u).max() * (1.0 + a + 1.0 / a**2)
        actual = single(distribution).log_prob(u[:, None])
        assert_allclose(actual, expected, rtol=1e-12, atol=1e-14 * size)


@every_closed_family
def test_closed_form_log_density_equals_scipys_up_to_the_limits(family):
    distribution = family(1.2, 3.0, 0.7)
    u = np.r_[np.linspace(-LOG_SCALE_LIMIT, LOG_SCALE_LIMIT, 41), np.log([0.6, 0.9, 3.1])]
    expected = log_density_by_scipy(distribution, u)
    value, gradient = single(distribution).value_and_gradient(u[:, None])
    assert_allclose(value, expected, rtol=1e-12)
    assert np.isfinite(gradient).all()


@in_one_test("distribution", CLOSED_FORMS.values(), ids=CLOSED_FORMS)
def test_closed_form_log_density_makes_no_call_of_scipy(monkeypatch, distribution):
    prior = single(distribution)
    with monkeypatch.context() as patched:
        patched.setattr(stats.rv_continuous, "logpdf", raise_if_called)
        patched.setattr(differentiate, "derivative", raise_if_called)
        prior.value_and_gradient(np.log([1.0]))
        prior.log_prob(np.log([1.0]))


@in_one_test("distribution", [
    stats.weibull_min(30.0), stats.weibull_min(3.0, scale=1e-200), stats.lognorm(1e-170),
    stats.lognorm(1e200), stats.halfnorm(scale=1e-300), stats.gamma(2.0, scale=1e-300),
    stats.invgamma(2.0, scale=1e300), stats.halfcauchy(scale=1e-300), stats.halfcauchy(scale=1e300),
], ids=lambda frozen: f"{frozen.dist.name}{frozen.args}{frozen.kwds}")  # fmt: skip
def test_extreme_parameters_neither_warn_nor_fail(distribution):
    u = np.linspace(-LOG_SCALE_LIMIT, LOG_SCALE_LIMIT, 21)
    value, gradient = single(distribution).value_and_gradient(u[:, None])
    assert np.isfinite(gradient).all()
    with np.errstate(all="ignore"):
        expected = log_density_by_scipy(distribution, u)
    # In SciPy the extreme ones come to NaN or infinity now and then.
    compared = np.isfinite(expected)
    assert_allclose(value[compared], expected[compared], rtol=1e-12)
    assert not np.any(value == np.inf)


def test_family_with_a_familiar_name_does_not_get_its_closed_form():
    class Impostor(stats.rv_continuous):
        def _pdf(self, x):
            return 0.5 * x

    prior = single(Impostor(a=0.0, b=2.0, name="expon")())
    assert prior.log_prob(np.log([1.5])) == pytest.approx(2.0 * np.log(1.5) - np.log(2.0))
    assert_allclose(prior.gradient(np.log([1.5])), 2.0, rtol=1e-6)


@in_one_test("u", [LOG_SCALE_LIMIT + 1e-9, -LOG_SCALE_LIMIT - 1e-9, 1e3, 1e200, np.inf,
                               -np.inf, np.nan])  # fmt: skip
@in_one_test("other", [FAMILIES["gamma"], FAMILIES["halfcauchy"], FAMILIES["fisk"]],
                         ids=["gamma", "halfcauchy", "fisk"])  # fmt: skip
def test_prior_density_is_zero_beyond_the_range_of_doubles(u, other):
    prior = HyperPrior(["a", "b"], {"a": stats.gamma(1.1, scale=10.0), "b": other})
    theta = np.array([0.0, u])
    assert prior.log_prob(theta) == -np.inf
    assert prior.value_and_gradient(theta)[0] == -np.inf
    assert_array_equal(prior.gradient(theta), 0.0)
    batch = np.array([[0.0, 0.1], theta, [0.3, 0.4]])
    expected = [prior.log_prob(batch[0]), -np.inf, prior.log_prob(batch[2])]
    assert_allclose(prior.log_prob(batch), expected, rtol=1e-14)
    assert np.isfinite(prior.gradient(batch)).all()


def test_prior_tail_is_finite_within_the_limit():
    prior = HyperPrior(["a"] * 4, {"a": stats.gamma(1.1, scale=10.0)})
    theta = np.full(4, LOG_SCALE_LIMIT)
    for signs in ([-1, -1, -1, -1], [1, 1, 1, 1], [1, -1, 1, -1]):
        assert np.isfinite(prior.log_prob(theta * signs))


def test_prior_density_is_zero_outside_a_bounded_support():
    prior = single(stats.uniform(0.5, 1.5))
    assert prior.log_prob(np.log([0.4])) == -np.inf
    assert prior.log_prob(np.log([2.1])) == -np.inf
    assert prior.log_prob(np.log([1.0])) == pytest.approx(-np.log(1.5))
    assert_array_equal(np.isfinite(prior.log_prob(np.log([[0.4], [1.0], [2.1]]))), [0, 1, 0])
    assert_array_equal(prior.gradient(np.log([[0.4], [1.0], [2.1]])), [[0], [1], [0]])


def test_prior_with_support_beyond_the_limit_has_no_mass():
    prior = single(stats.uniform(1e30, 1e30))
    assert prior.log_prob(np.array([LOG_SCALE_LIMIT])) == -np.inf
    assert prior.log_prob(np.array([69.5])) == -np.inf


def test_prior_of_no_hyper_parameters_has_log_density_zero():
    prior = HyperPrior((), {})
    assert prior.log_prob(np.empty(0)) == 0.0
    assert prior.gradient(np.empty(0)).shape == (0,)
    assert prior.sample(np.random.default_rng(0)).shape == (0,)
    value, gradient = prior.value_and_gradient(np.empty((3, 0)))
    assert_array_equal(value, np.zeros(3))
    assert gradient.shape == (3, 0)


# --- gradient -------------------------------------------------------------------------------------


@every_family
def test_gradient_of_the_log_prior_equals_finite_differences(distribution):
    prior = single(distribution)
    for u in np.log(distribution.ppf([0.02, 0.3, 0.6, 0.98])):
        theta = np.array([u])
        expected = finite_difference(prior.log_prob, theta)
        assert_allclose(prior.gradient(theta), expected, rtol=1e-6, atol=1e-6)
        second = finite_difference(prior.gradient, theta)[0]
        curvature = np.maximum(-second, 0.0)
        assert_allclose(prior.curvature(theta), curvature, rtol=1e-3, atol=1e-5)


@in_one_test("distribution", [stats.beta(2.0, 1.5), stats.gamma(2.0, loc=0.05),
                                          stats.triang(0.3, loc=0.5)],
                         ids=["beta", "gamma with loc", "triang"])  # fmt: skip
def test_numerical_gradient_is_finite_next_to_the_ends_of_the_support(distribution):
    prior = single(distribution)
    for end, inwards in zip(distribution.support(), (0.05, -0.05), strict=True):
        if 0.0 < end < np.inf:
            theta = np.array([np.log(end) + inwards])
            expected = finite_difference(prior.log_prob, theta)
            assert_allclose(prior.gradient(theta), expected, rtol=1e-4)


def test_value_and_gradient_equal_the_single_calls():
    prior, batch = mixed(), mixed_draws(4)
    for theta in (batch, batch[0]):
        value, gradient = prior.value_and_gradient(theta)
        assert_allclose(value, prior.log_prob(theta), rtol=1e-14)
        assert_array_equal(gradient, prior.gradient(theta))
    assert type(value) is float
    assert type(prior.log_prob(theta)) is float


# --- batches --------------------------------------------------------------------------------------


def test_prior_of_a_batch_equals_that_of_its_rows():
    prior, batch = mixed(), mixed_draws(6)
    batch[2, 5] = 60.0
    batch[4, 0] = np.nan
    value, gradient = prior.value_and_gradient(batch)
    assert value.shape == (6,)
    assert gradient.shape == batch.shape
    assert_array_equal(np.isfinite(value), [True, True, False, True, False, True])
    for i, theta in enumerate(batch):
        expected, slope = prior.value_and_gradient(theta)
        assert_allclose(value[i], expected, rtol=1e-13)
        assert_allclose(gradient[i], slope, rtol=1e-13, atol=1e-13)


def test_log_prior_is_the_sum_of_components_in_any_order():
    batch = mixed_draws(5)
    laws = [*FAMILIES.values(), *FAMILIES.values()]
    expected = sum(log_density_by_scipy(law, u) for law, u in zip(laws, batch.T, strict=True))
    assert_allclose(mixed().log_prob(batch), expected, rtol=1e-12)
    for theta in batch[:2]:
        slopes = finite_difference(mixed().log_prob, theta)
        assert_allclose(mixed().gradient(theta), slopes, rtol=1e-6, atol=1e-6)


@in_one_test("rows", [0, 2])
def test_prior_of_a_batch_outside_the_support_is_minus_infinity(rows):
    value, gradient = mixed().value_and_gradient(np.full((rows, 2 * len(FAMILIES)), 60.0))
    assert_array_equal(value, np.full(rows, -np.inf))
    assert_array_equal(gradient, np.zeros((rows, 2 * len(FAMILIES))))


def test_hyperprior_neither_changes_arguments_nor_reuses_results():
    prior, batch = mixed(), mixed_draws(3)
    before = batch.copy()
    first = prior.value_and_gradient(batch)[1]
    first[:] = np.nan
    assert_array_equal(batch, before)
    assert np.isfinite(prior.gradient(batch)).all()


# --- draws ----------------------------------------------------------------------------------------


@every_family
def test_draws_of_theta_follow_the_prior(distribution):
    prior = HyperPrior(["x"] * 1500, {"x": distribution})
    x = np.exp(prior.sample(np.random.default_rng(5)))
    assert stats.kstest(x, distribution.cdf).pvalue > P_LIMIT


def test_draws_of_theta_have_components_in_their_places():
    prior = HyperPrior(
        ["small", "large", "small"],
        {"small": stats.uniform(0.1, 0.1), "large": stats.uniform(100.0, 1.0)},
    )
    x = np.exp(prior.sample(np.random.default_rng(0)))
    assert 0.1 <= x[0] <= 0.2
    assert 0.1 <= x[2] <= 0.2
    assert x[0] != x[2]
    assert 100.0 <= x[1] <= 101.0


def test_draw_that_underflows_is_a_finite_start():
    prior = HyperPrior(["x"] * 500, {"x": stats.gamma(1e-3)})
    theta = prior.sample(np.random.default_rng(0))
    assert theta.min() == -LOG_SCALE_LIMIT
    assert np.isfinite(prior.log_prob(theta))


# --- refusals ------------------------------------------------------------------------


@in_one_test(
    "wrong",
    [3.0, "gamma", None, stats.poisson(2.0), stats.gamma, stats.halfnorm,
     stats.multivariate_normal(np.zeros(2))],
    ids=["number", "str", "None", "discrete", "not frozen", "not frozen, no shape", "vector"],
)  # fmt: skip
def test_prior_must_be_a_frozen_continuous_distribution(wrong):
    with pytest.raises(ValueError, match=r"priors\['k1__constant_value'\] must be a frozen"):
        HyperPrior(["k1__constant_value"], {"k1__constant_value": wrong})


@in_one_test("wrong", [stats.norm(), stats.uniform(-0.1, 1.0), stats.t(3.0),
                                   stats.gamma([1.0, 2.0])])  # fmt: skip
def test_prior_of_a_positive_hyperparameter_needs_positive_support(wrong):
    with pytest.raises(ValueError, match=r"priors\['x'\] has support .* natural scale"):
        HyperPrior(["x"], {"x": wrong})


# --- hyper-parameters that may be negative --------------------------------------------------------


def test_real_hyperparameters_are_not_sampled_on_the_log_scale():
    laws = {"a": stats.gamma(1.1, scale=10.0), "b": stats.norm(1.0, 2.0), "c": stats.t(5.0)}
    prior = HyperPrior(["a", "b", "b", "c"], laws, real=["b", "c"])
    assert_array_equal(prior.positive, [True, False, False, False])
    theta = np.array([0.3, -4.0, 2.5, 0.7])
    expected = laws["a"].logpdf(np.exp(0.3)) + 0.3
    expected += laws["b"].logpdf([-4.0, 2.5]).sum() + laws["c"].logpdf(0.7)
    assert prior.log_prob(theta) == pytest.approx(expected, rel=1e-12)
    assert_allclose(prior.log_prob(np.stack([theta, theta + 1.0]))[0], expected, rtol=1e-12)
    for j, step in enumerate(1e-5 * np.eye(4)):
        slope = (prior.log_prob(theta + step) - prior.log_prob(theta - step)) / 2e-5
        assert prior.gradient(theta)[j] == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert_allclose(prior.to_natural(theta), [np.exp(0.3), -4.0, 2.5, 0.7])
    draws = np.array([prior.sample(np.random.default_rng(i)) for i in range(800)])
    assert stats.kstest(draws[:, 1], laws["b"].cdf).pvalue > 1e-4
    assert stats.kstest(np.exp(draws[:, 0]), laws["a"].cdf).pvalue > 1e-4
    assert prior.log_prob(np.array([0.3, 1e9, 0.0, 0.0])) == -np.inf


def test_bounds_of_theta_hold_nearly_all_of_the_prior():
    laws = {"a": stats.gamma(1.1, scale=10.0), "b": stats.norm(1.0, 2.0), "c": stats.uniform(0, 2)}
    prior = HyperPrior(["a", "b", "c"], laws, real=["b"])
    low, high = prior.bounds.T
    assert np.all(low < high)
    assert laws["b"].cdf(low[1]) == pytest.approx(1e-12, rel=1e-3)
    assert laws["a"].cdf(np.exp(low[0])) == pytest.approx(1e-12, rel=1e-3)
    assert high[2] == pytest.approx(np.log(2.0))
    assert np.isfinite(prior.log_prob(np.array([0.5 * (low[0] + high[0]), 1.0, high[2] - 1e-6])))
