"""Zero-inflated counts, and a probit with guesses and lapses: their mixtures, by SciPy and sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import ndtr

from skgpmcmc.likelihoods import (
    NegativeBinomial,
    Poisson,
    Probit,
    PsychometricProbit,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from skgpmcmc.testing import check_likelihood

from ...helpers import in_one_test

F = np.linspace(-3.0, 3.0, 13)
COUNTS = [ZeroInflatedPoisson(0.3), ZeroInflatedNegativeBinomial(1.7, 0.4)]
PROBABILITY = {"zero_inflated_poisson": 0.3 / 1.3, "zero_inflated_negative_binomial": 0.4 / 1.4}
ZERO = ZeroInflatedPoisson(0.3)
BOTH = PsychometricProbit(0.05, 0.1, infer_guess=True)

CASES = {
    "poisson": (ZERO, [0.0, 3.0]),
    "poisson, mostly zero": (ZeroInflatedPoisson(3.0, fixed=True), [0.0]),
    "poisson, few zeros": (ZeroInflatedPoisson(1e-4), [0.0]),
    "negative binomial": (COUNTS[1], [0.0, 3.0]),
    "two answers": (PsychometricProbit(0.5), [-1.0, 1.0]),
    "lapses and guesses": (BOTH, [-1.0, 1.0]),
}
#: Adaptive quadrature takes seconds.
SLOW = ("poisson, mostly zero", "poisson, few zeros", "negative binomial", "two answers")


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.statistical] * (c in SLOW)) for c in CASES]
)
def test_mixtures_pass_the_public_check(case):
    likelihood, targets = CASES[case]
    check_likelihood(likelihood, np.array(targets))


# --- counts ---------------------------------------------------------------------------------------


def counts_of(likelihood, f):
    """SciPy's law of the counts without additional zeros."""
    if isinstance(likelihood, ZeroInflatedPoisson):
        return stats.poisson(np.exp(f))
    return stats.nbinom(1.7, 1.7 / (1.7 + np.exp(f)))


@in_one_test("likelihood", COUNTS)
def test_parameter_derivatives_are_those_of_differences(likelihood):
    start, step = np.array([p.start for p in likelihood.parameters]), 1e-5
    for y in (0.0, 3.0):
        found = likelihood.parameter_derivatives(y, F)
        for k, shift in enumerate(step * np.eye(len(start))):
            up, down = (likelihood.with_parameters(start + s) for s in (shift, -shift))
            of_log_prob = up.log_prob(y, F) - down.log_prob(y, F)
            assert_allclose(found.log_prob[k], of_log_prob / (2.0 * step), atol=1e-8)
            pairs = zip(up.derivatives(y, F)[:2], down.derivatives(y, F)[:2], strict=True)
            for own, (high, low) in zip(found[1:], pairs, strict=True):
                assert_allclose(own[k], (high - low) / (2.0 * step), atol=1e-8)


@in_one_test("likelihood", COUNTS)
def test_probabilities_of_counts_are_those_of_a_mixture(likelihood):
    pi = PROBABILITY[likelihood.name]
    for y in (0.0, 1.0, 7.0):
        p = pi * (y == 0.0) + (1.0 - pi) * counts_of(likelihood, F).pmf(y)
        assert_allclose(likelihood.log_prob(y, F), np.log(p), rtol=1e-10)


@in_one_test("likelihood", COUNTS)
def test_information_and_moments_of_counts_are_sums_over_them(likelihood):
    y = np.arange(3000.0)
    for f in (-4.0, 0.3, 1.5):
        at = np.array([f])
        p = np.exp(likelihood.log_prob(y, at))
        score = likelihood.derivatives(y, at).first
        assert p @ score**2 == pytest.approx(likelihood.fisher_information(at)[0], rel=1e-9)
        mean, var = likelihood.predictive_moments(at, np.zeros(1))
        assert mean[0] == pytest.approx(p @ y, rel=1e-9)
        assert var[0] == pytest.approx(p @ y**2 - (p @ y) ** 2, rel=1e-9)


@in_one_test("likelihood", COUNTS)
def test_predictions_of_counts_add_up(likelihood):
    """The distribution function is the sum of the probabilities, whose moments are the stated."""
    mean, var = np.array([[-0.5], [1.2]]), np.array([[0.4], [0.3]])
    y = np.arange(3000.0)
    p = np.exp(likelihood.log_predictive(y, mean, var))
    assert_allclose(p.sum(axis=1), 1.0, atol=1e-8)
    found = likelihood.predictive_moments(mean, var)
    assert_allclose(p @ y, found.mean[:, 0], rtol=1e-6)
    assert_allclose(p @ y**2 - (p @ y) ** 2, found.var[:, 0], rtol=1e-5)
    for k in range(4):
        at_most = likelihood.predictive_cdf(np.full((2, 1), float(k)), mean, var)
        assert_allclose(at_most[:, 0], p[:, : k + 1].sum(axis=1), atol=1e-7)


@in_one_test(
    ("likelihood", "part"),
    [
        (ZeroInflatedPoisson(1e-18), Poisson()),
        (ZeroInflatedNegativeBinomial(1.7, 1e-18), NegativeBinomial(1.7)),
    ],
)
def test_counts_without_additional_zeros_are_the_plain_ones(likelihood, part):
    mean, var = np.linspace(-1.0, 2.0, 6), np.linspace(0.1, 3.0, 6)
    y = np.array([0.0, 0.0, 1.0, 4.0, 4.0, 9.0])
    for own, plain in zip(likelihood.derivatives(y, mean), part.derivatives(y, mean), strict=True):
        assert_allclose(own, plain, rtol=1e-12)
    for own, plain in zip(
        likelihood.tilted_moments(y, mean, var), part.tilted_moments(y, mean, var), strict=True
    ):
        assert_allclose(own, plain, rtol=1e-9, atol=1e-15)
    assert_allclose(likelihood.fisher_information(mean), part.fisher_information(mean), rtol=1e-12)


@in_one_test("likelihood", COUNTS)
def test_closed_form_of_counts_agrees_with_panels(likelihood):
    """Weights of one, which take the quadrature; also where the two kinds of zeros meet."""
    y = np.array([0.0, 0.0, 0.0, 2.0, 40.0])
    mean, var = np.array([-2.0, 1.0, 6.0, 0.0, 2.0]), np.array([0.5, 4.0, 9.0, 2.0, 1.0])
    closed = likelihood.weighted_tilted_moments(y, None, mean, var)
    panels = likelihood.weighted_tilted_moments(y, np.ones(5), mean, var)
    assert_allclose(panels.log_z, closed.log_z, rtol=1e-9, atol=1e-12)
    assert_allclose(panels.alpha, closed.alpha, rtol=1e-7, atol=1e-10)
    assert_allclose(var * panels.beta, var * closed.beta, rtol=1e-7, atol=1e-9)
    slopes = (likelihood.tilted_parameter_gradient(y, w, mean, var) for w in (None, np.ones(5)))
    assert_allclose(*slopes, rtol=1e-7, atol=1e-9)


@in_one_test("likelihood", COUNTS)
def test_far_rates_give_finite_derivatives_of_zeros(likelihood):
    """Where exp(f), its square or its cube overflow, a zero is an additional one."""
    f = np.array([-3000.0, -800.0, 200.0, 300.0, 400.0, 800.0, 3000.0])
    y = np.zeros(7)
    pi = PROBABILITY[likelihood.name]
    expected = [0.0, 0.0, *(np.log(pi),) * 5]
    assert_allclose(likelihood.log_prob(y, f), expected, rtol=1e-12, atol=1e-15)
    for part in (*likelihood.derivatives(y, f), *likelihood.parameter_derivatives(y, f)):
        assert np.isfinite(part).all()
    assert not np.isnan(likelihood.fisher_information(f)).any()


# --- guesses and lapses ---------------------------------------------------------------------------


def test_probability_of_a_class_is_that_of_a_mixture():
    p = 0.05 + 0.85 * ndtr(F)
    assert_allclose(np.exp(BOTH.log_prob(1.0, F)), p, rtol=1e-12)
    assert_allclose(np.exp(BOTH.log_prob(-1.0, F)), 1.0 - p, rtol=1e-12)
    far = np.array([-1e5, -40.0, 40.0, 1e5])
    assert_allclose(np.exp(BOTH.log_prob(1.0, far)), [0.05, 0.05, 0.9, 0.9])
    assert np.isfinite(BOTH.derivatives(1.0, far)).all()


def test_latent_values_have_the_probabilities_that_are_asked_for():
    assert_allclose(BOTH.latent_value(BOTH.probability(F)), F, atol=1e-9)
    assert_allclose(BOTH.latent_value(np.array([0.0, 0.05, 0.9, 1.0])), [-8.0, -8.0, 8.0, 8.0])


def test_without_guesses_and_lapses_it_is_the_probit():
    plain = PsychometricProbit(0.0, 0.0, infer_lapse=False)
    y, var = np.where(F > 1.0, -1.0, 1.0), np.linspace(0.1, 5.0, 13)
    assert plain.parameters == ()
    assert_array_equal(plain.log_prob(y, 30.0 * F), Probit().log_prob(y, 30.0 * F))
    for own, probit in (
        (plain.derivatives(y, F), Probit().derivatives(y, F)),
        (plain.tilted_moments(y, F, var), Probit().tilted_moments(y, F, var)),
    ):
        assert_array_equal(own, probit)
    assert_allclose(plain.fisher_information(F), Probit().fisher_information(F), rtol=1e-12)


def test_predictions_of_both_classes_are_those_of_a_mixture():
    var = np.full(13, 1.5)
    p = 0.05 + 0.85 * ndtr(F / np.sqrt(2.5))
    both = BOTH.log_class_probabilities(F, var)
    assert_allclose(np.exp(both), [1.0 - p, p], rtol=1e-12)


def test_weights_of_one_take_panels_that_agree_with_the_closed_form():
    y, var = np.where(F > 1.0, -1.0, 1.0), np.geomspace(1e-3, 1e3, 13)
    closed = BOTH.weighted_tilted_moments(y, None, F, var)
    panels = BOTH.weighted_tilted_moments(y, np.ones(13), F, var)
    for own, expected, scale in zip(panels, closed, (1.0, np.sqrt(var), var), strict=True):
        assert_allclose(scale * own, scale * expected, rtol=1e-8, atol=1e-10)


@in_one_test("likelihood", [BOTH, PsychometricProbit(0.5), PsychometricProbit(0.2, 0.3)])
def test_odds_are_those_against_all_other_targets(likelihood):
    rest = 1.0 - likelihood.guess - likelihood.lapse
    for name, positive, value in likelihood.parameters:
        assert positive
        assert value == pytest.approx(getattr(likelihood, name.removesuffix("_odds")) / rest)
    start = np.array([parameter.start for parameter in likelihood.parameters])
    again = likelihood.with_parameters(start)
    assert (again.guess, again.lapse) == pytest.approx((likelihood.guess, likelihood.lapse))
    # Any odds are legal, and leave what is known as it is.
    for far in (start - 1000.0, start + 1000.0):
        moved = likelihood.with_parameters(far)
        assert moved.guess + moved.lapse < 1.0
        assert moved.infer_guess or moved.guess == likelihood.guess


@in_one_test(
    ("given", "message"),
    [
        ({"guess": 0.6, "lapse": 0.4}, "sum is below one; got guess=0.6 and lapse=0.4"),
        ({"lapse": -0.1}, "sum is below one; got guess=0.0 and lapse=-0.1"),
        ({"lapse": np.nan}, "sum is below one; .* lapse=nan"),
        ({"lapse": 0.0}, "infer_lapse=True needs a positive starting value; got lapse=0.0"),
        ({"infer_guess": True}, "infer_guess=True needs .*: use guess=0.02, or infer_guess=False"),
    ],
)
def test_impossible_rates_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        PsychometricProbit(**given)
