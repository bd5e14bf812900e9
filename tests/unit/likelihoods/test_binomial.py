"""Successes in trials: against SciPy's distributions, and against sums over single trials."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit, ndtr, ndtri, polygamma

from skgpmcmc.likelihoods import (
    BetaBinomial,
    Binomial,
    Cuts,
    Logit,
    Probit,
    PsychometricProbit,
    RepeatedTrials,
)
from skgpmcmc.likelihoods.binomial import MOST_TRIALS, _trigamma, decode, encode
from skgpmcmc.model import Observations
from skgpmcmc.testing import check_likelihood

from ...helpers import in_one_test

F = np.linspace(-3.0, 3.0, 13)
N = 7
TARGETS = encode(np.array([0, 2, 7]), N)


@pytest.mark.parametrize(
    "likelihood",
    [
        Binomial(trials=float(N)),
        Binomial("logit", trials=float(N)),
        BetaBinomial(2.0, trials=float(N)),
        RepeatedTrials(PsychometricProbit(0.05, 0.1, infer_guess=True), trials=float(N)),
    ],
    ids=["probit", "logit", "beta", "guesses and lapses"],
)
def test_likelihoods_of_successes_pass_the_public_check(likelihood):
    check_likelihood(likelihood, TARGETS)


def test_encoded_targets_hold_both_numbers_exactly():
    trials = np.array([1, 3, 5000, MOST_TRIALS])
    for successes in (0 * trials, trials // 2, trials):
        k, n = decode(encode(successes, trials))
        assert_array_equal(k, successes)
        assert_array_equal(n, trials)


def test_only_possible_numbers_are_legal():
    y = np.array([encode(0, 1), encode(4, 3), encode(1.5, 3), 2.0, np.nan, -1.0, encode(3, 3)])
    assert_array_equal(Binomial().legal(y), [True, False, False, False, False, False, True])


@in_one_test("link, p", [("probit", ndtr(F)), ("logit", expit(F))])
def test_binomial_probabilities_are_those_of_scipy(link, p):
    for k, n in [(0, 1), (1, 1), (3, 9), (40, 5000), (10**6, 10**6)]:
        found = Binomial(link).log_prob(encode(k, n), F)
        assert_allclose(found, stats.binom.logpmf(k, n, p), rtol=1e-8, atol=1e-8)


def test_beta_binomial_probabilities_are_those_of_scipy():
    for k, n, s in [(0, 1, 2.0), (3, 9, 0.3), (40, 500, 25.0), (9, 9, 1e4)]:
        found = BetaBinomial(s).log_prob(encode(k, n), F)
        expected = stats.betabinom.logpmf(k, n, s * ndtr(F), s * ndtr(-F))
        assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


def test_beta_binomial_has_finite_derivatives_where_probabilities_underflow():
    far = np.array([-200.0, -45.0, 45.0, 200.0])
    found = BetaBinomial(3.0).derivatives(encode(2, 5), far)
    assert np.isfinite(found).all()
    assert np.isfinite(BetaBinomial(3.0).fisher_information(far)).all()


@in_one_test(
    "likelihood",
    [Binomial(), Binomial("logit"), BetaBinomial(50.0), RepeatedTrials(PsychometricProbit(0.02))],
)
def test_tilted_moments_of_a_million_trials_are_those_of_adaptive_quadrature(likelihood):
    y = np.array([encode(30_000, 10**6)])
    mean, var = np.array([-1.2]), np.array([0.7])
    found = likelihood.tilted_moments(y, mean, var)
    grid = np.linspace(-6.0, 3.0, 200_001)

    def height(f):
        of_gaussian = stats.norm.logpdf(f, mean[0], np.sqrt(var[0]))
        return likelihood.log_prob(y[0], np.asarray(f)) + of_gaussian

    heights = height(grid)
    top, mode = heights.max(), grid[heights.argmax()]
    near = grid[heights > top - 40.0]
    ends = near[0] - 1e-3, near[-1] + 1e-3
    mass = quad(lambda f: np.exp(height(f) - top), *ends, points=[mode], limit=300)[0]
    first = quad(lambda f: (f - mode) * np.exp(height(f) - top), *ends, points=[mode], limit=300)[0]
    assert found.log_z[0] == pytest.approx(top + np.log(mass), abs=1e-6)
    tilted_mean = mean[0] + var[0] * found.alpha[0]
    assert tilted_mean == pytest.approx(mode + first / mass, abs=1e-6)


@in_one_test(
    "likelihood",
    [
        Binomial(),
        Binomial("logit"),
        RepeatedTrials(PsychometricProbit(0.5)),
        RepeatedTrials(PsychometricProbit(0.0, 0.1)),
    ],
)
def test_distribution_function_of_counts_adds_up_their_probabilities(likelihood):
    mean = np.array([[-0.5], [1.5]])
    var = np.array([[0.4], [2.0]])
    total = np.zeros((2, 1))
    for k in range(N + 1):
        y = np.full((2, 1), encode(k, N))
        total += np.exp(likelihood.log_predictive(y, mean, var))
        assert_allclose(likelihood.predictive_cdf(y, mean, var), total, atol=1e-6)
        assert_allclose(likelihood.predictive_cdf(y + 0.5, mean, var), total, atol=1e-6)


@in_one_test(
    "likelihood",
    [Binomial(), Binomial("logit"), BetaBinomial(0.7), RepeatedTrials(PsychometricProbit(0.5))],
)
def test_probabilities_of_success_are_those_of_one_trial_and_of_two(likelihood):
    mean, var = np.array([[-2.0, 0.4], [1.5, -7.0]]), np.array([[0.3], [2.0]])
    found = likelihood.success_moments(mean, var)
    for n, own in zip((1, 2), found, strict=True):
        expected = likelihood.log_predictive(encode(n, n), mean, var)
        assert_allclose(np.log(own), expected, rtol=1e-7)


@in_one_test(("one", "link"), [(Probit(), "probit"), (Logit(), "logit")])
def test_repeated_trials_of_plain_links_are_binomial(one, link):
    y, var = encode(np.array([0, 3, 9]), 9), np.array([0.3, 1.0, 4.0])
    repeated, plain = RepeatedTrials(one, 9.0), Binomial(link, 9.0)
    assert_array_equal(repeated.log_prob(y, var), plain.log_prob(y, var))
    assert_array_equal(repeated.derivatives(y, var), plain.derivatives(y, var))
    for own, other in zip(
        repeated.tilted_moments(y, var, var), plain.tilted_moments(y, var, var), strict=True
    ):
        assert_allclose(own, other, rtol=1e-8)


def test_guesses_and_lapses_of_counts_are_those_of_single_trials():
    """All that a posterior is made of: p(y | f), its integrals, and slopes in both rates."""
    one = PsychometricProbit(0.05, 0.1, infer_guess=True)
    k, n = np.array([0, 2, 5]), np.array([3, 5, 5])
    single = np.concatenate(
        [np.where(np.arange(m) < c, 1.0, -1.0) for c, m in zip(k, n, strict=True)]
    )
    rows = Observations(one, single, first=np.array([0, 3, 8]))
    counts = Observations(RepeatedTrials(one, n), encode(k, n))
    mean, var = np.array([-1.0, 0.3, 1.2]), np.array([0.5, 1.0, 4.0])
    ways = np.log([1.0, 10.0, 1.0])
    assert_allclose(counts.by_input(mean), rows.by_input(mean) + ways, rtol=1e-12)
    own, other = counts.tilted_moments(mean, var), rows.tilted_moments(mean, var)
    assert_allclose(own.log_z, other.log_z + ways, atol=1e-8)
    assert_allclose(own.alpha, other.alpha, atol=1e-7)
    slopes = (part.tilted_parameter_gradient(mean, var) for part in (counts, rows))
    assert_allclose(*slopes, atol=1e-6)


def test_successes_below_the_rate_of_guesses_have_finite_moments():
    """Of a thousand answers 480 are right, and a half would be by guessing."""
    likelihood = RepeatedTrials(PsychometricProbit(0.5, 0.02))
    y = np.array([encode(480, 1000)])
    found = likelihood.tilted_moments(y, np.zeros(1), np.ones(1))
    f = np.linspace(-10.0, 10.0, 200_001)
    density = np.exp(likelihood.log_prob(y, f)) * stats.norm.pdf(f)
    mass = density.sum()
    assert found.log_z[0] == pytest.approx(np.log(mass * (f[1] - f[0])), abs=1e-7)
    assert found.alpha[0] == pytest.approx(density @ f / mass, abs=1e-7)


class WithPanels(BetaBinomial):
    """The same likelihood, integrated panel by panel."""

    def bend(self, y):
        k, n = decode(y)
        ends = np.array([-16.0, -8.0, -4.0, -2.0, 0.0, 2.0, 4.0, 8.0, 16.0])
        center = ndtri((k + 0.5) / (n + 1.0))
        return Cuts(np.column_stack([center, np.tile(ends, (len(y), 1))]))


COUNTS = [(k, n) for n in (1, 7, 60, 10**6) for k in sorted({0, 1, n // 2, n - 1, n})]


@in_one_test("precision", [0.05, 15.0, 8e6])
def test_tilted_moments_of_beta_binomial_counts_are_those_by_panels(precision):
    """Of all counts, under narrow, wide and far Gaussians."""
    cases = product(COUNTS, (-8.0, -1.0, 0.3, 3.0), (1e-6, 0.02, 0.2, 1.5, 30.0))
    k, n, mean, sd = np.array([(*pair, mean, sd) for pair, mean, sd in cases]).T
    at = encode(k, n), mean, sd**2
    found = np.array(BetaBinomial(precision).tilted_moments(*at))
    expected = np.array(WithPanels(precision).tilted_moments(*at))
    assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    slopes, by_panels = (
        law.tilted_parameter_gradient(at[0], None, *at[1:])
        for law in (BetaBinomial(precision), WithPanels(precision))
    )
    assert_allclose(slopes, by_panels, rtol=1e-7, atol=1e-7)


def test_information_of_many_beta_binomial_trials_is_in_proportion_to_the_precision_of_their_mean():
    few, many = (BetaBinomial(30.0, trials=n).fisher_information(F) for n in (100.0, 5000.0))
    of_mean = [(n / 50.0) ** 2 / stats.betabinom.var(n, 15.0, 15.0) for n in (100, 5000)]
    assert_allclose(many / few, of_mean[1] / of_mean[0], rtol=1e-12)


def test_one_beta_binomial_trial_is_a_bernoulli_one():
    mean, var = np.linspace(-30.0, 30.0, 41), np.geomspace(1e-8, 1e4, 41)
    for k, sign in ((0, -1.0), (1, 1.0)):
        found = BetaBinomial(3.0).tilted_moments(encode(k, np.ones(41)), mean, var)
        expected = Probit().tilted_moments(np.full(41, sign), mean, var)
        assert_allclose(np.array(found), np.array(expected), rtol=1e-9, atol=1e-9)


def test_tilted_moments_of_rows_at_one_input_are_those_by_panels():
    """Rows that contradict each other, with weights and offsets."""
    k, n = np.array([0, 50, 3, 9, 2]), np.array([50, 50, 9, 9, 4])
    weight, offset = np.array([1.0, 2.0, 1.0, 0.5, 3.0]), np.array([0.2, -0.3, 0.0, 1.0, 0.0])
    mean, var = np.array([0.5, -2.0]), np.array([2.0, 0.3])
    found, expected = (
        Observations(law, encode(k, n), offset, weight, np.array([0, 3])).tilted_moments(mean, var)
        for law in (BetaBinomial(30.0), WithPanels(30.0))
    )
    assert_allclose(np.array(found), np.array(expected), rtol=1e-9, atol=1e-9)


def test_unknown_link_is_refused():
    with pytest.raises(ValueError, match="link must be 'probit' or 'logit'; got 'cloglog'"):
        Binomial("cloglog")


@in_one_test("one", [Binomial(), "probit"])
def test_trials_without_two_classes_are_refused(one):
    with pytest.raises(ValueError, match="one must be a likelihood of two classes"):
        RepeatedTrials(one)


def test_rows_keep_their_trials():
    likelihood = Binomial(trials=np.array([3.0, 5.0, 8.0]))
    some = likelihood.of_rows(np.array([2, 0]))
    assert_array_equal(some.trials, [8.0, 3.0])
    assert_array_equal(likelihood.row_data(3), [[3.0], [5.0], [8.0]])
    assert likelihood.at_new_rows().trials == 1.0
    _, n = decode(some.sample(np.zeros(2), np.random.default_rng(0)))
    assert_array_equal(n, [8.0, 3.0])


def test_trigamma_function_is_that_of_scipy():
    x = np.geomspace(1.0, 1e6, 200)
    assert_allclose(_trigamma(x), polygamma(1, x), rtol=1e-13)
