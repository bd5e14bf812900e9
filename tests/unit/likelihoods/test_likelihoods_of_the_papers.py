"""Counts, ordered classes, volatility, real targets: definitions, tails, and one another."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, special, stats

from skgpmcmc.likelihoods import (
    Gaussian,
    Logit,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    Probit,
    StudentT,
    Volatility,
)
from skgpmcmc.testing import check_likelihood

from ...helpers import in_one_test

CASES = {
    "probit": (Probit(), [-1.0, 1.0]),
    "logit": (Logit(), [-1.0, 1.0]),
    "poisson": (Poisson(), [2.0]),
    "fractional poisson": (Poisson(fractional=True), [0.0, 2.5]),
    "negative binomial": (NegativeBinomial(shape=1.7), [9.0]),
    "volatility": (Volatility(), [0.0, -2.0]),
    "gaussian": (Gaussian(noise_scale=0.6, alpha=0.1), [-0.5, 1.2]),
    "student-t": (StudentT(noise_scale=0.7, df=3.5), [-0.5, 6.0]),
    "ordinal": (OrdinalProbit((-0.8, 0.1, 1.4), noise_scale=0.8), [0.0, 1.0]),
}


#: Adaptive quadrature of sums of lgamma, or of many classes, takes seconds.
SLOW = ("fractional poisson", "negative binomial", "ordinal")


def test_large_negative_binomial_counts_keep_the_digits_of_their_log_probability():
    """Near the mean it is a parabola, some of whose terms are a trillion times as large."""
    size, step = 1e12, np.array([-1e-6, 0.0, 1e-6])
    found = NegativeBinomial(size).log_prob(np.asarray(size), np.log(size) + step)
    rounding = np.log(size) * np.finfo(float).eps / 1e-6  # of the step
    assert_allclose(found - found[1], -0.25 * size * step**2, rtol=4.0 * rounding, atol=1e-6)


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.statistical] * (c in SLOW)) for c in CASES]
)
def test_likelihoods_of_the_papers_pass_check_likelihood(case):
    likelihood, targets = CASES[case]
    check_likelihood(likelihood, np.array(targets))


F = np.linspace(-3.0, 3.0, 25)


@in_one_test("y", [0.0, 3.0, 12.0])
def test_log_prob_of_counts_agrees_with_scipy(y):
    assert_allclose(Poisson().log_prob(y, F), stats.poisson(np.exp(F)).logpmf(y), atol=1e-12)
    k = 2.3
    peer = stats.nbinom(k, k / (k + np.exp(F)))
    assert_allclose(NegativeBinomial(k).log_prob(y, F), peer.logpmf(y), atol=1e-11)


def test_log_prob_of_real_targets_agrees_with_scipy():
    y = np.array([-1.3, 0.0, 2.2])[:, None]
    assert_allclose(Volatility().log_prob(y, F), stats.norm(0.0, np.exp(F)).logpdf(y), rtol=1e-12)
    assert_allclose(Gaussian(0.7).log_prob(y, F), stats.norm(F, 0.7).logpdf(y), rtol=1e-12)
    assert_allclose(
        StudentT(0.7, df=5.0).log_prob(y, F), stats.t(5.0, F, 0.7).logpdf(y), rtol=1e-12
    )


def test_log_prob_of_ordered_classes_agrees_with_scipy():
    likelihood = OrdinalProbit((-0.8, 0.1, 1.4), noise_scale=0.8)
    edges = np.array([-np.inf, -0.8, 0.1, 1.4, np.inf])
    for k in range(4):
        low, high = ((edge - F) / 0.8 for edge in edges[k : k + 2])
        expected = np.log(stats.norm.cdf(high) - stats.norm.cdf(low))
        assert_allclose(likelihood.log_prob(np.full(25, float(k)), F), expected, rtol=1e-9)
    # methods: f = 0.3, sd = 0.8, interval (-1, 0.2]
    second = OrdinalProbit((-1.0, 0.2), 0.8).derivatives(np.array([1.0]), np.array([0.3])).second
    assert second[0] == pytest.approx(-1.3100, abs=5e-5)


@in_one_test("f", [-0.7, 0.0, 1.1])
@in_one_test("likelihood", [Poisson(), NegativeBinomial(0.8)])
def test_probabilities_of_counts_sum_to_one_with_the_stated_moments(likelihood, f):
    y = np.arange(4000.0)
    p = np.exp(likelihood.log_prob(y, np.full(4000, f)))
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    scores = likelihood.derivatives(y, np.full(4000, f)).first
    information = likelihood.fisher_information(np.array([f]))[0]
    assert p @ scores == pytest.approx(0.0, abs=1e-10)
    assert p @ scores**2 == pytest.approx(information, rel=1e-10)
    mean, var = likelihood.predictive_moments(np.array([f]), np.array([0.0]))
    assert mean[0] == pytest.approx(p @ y, rel=1e-10)
    assert var[0] == pytest.approx(p @ y**2 - (p @ y) ** 2, rel=1e-10)


@in_one_test("f", [-0.7, 1.1])
def test_fisher_information_of_real_targets_agrees_with_quadrature(f):
    for likelihood in (Volatility(), Gaussian(0.6), StudentT(0.6, df=4.0)):

        def over_y(power, likelihood=likelihood):
            def integrand(y):
                at = np.array([f])
                score = likelihood.derivatives(np.array([y]), at).first[0]
                return score**power * np.exp(likelihood.log_prob(np.array([y]), at)[0])

            return integrate.quad(integrand, -np.inf, np.inf)[0]

        assert over_y(0) == pytest.approx(1.0, abs=1e-8)
        assert over_y(1) == pytest.approx(0.0, abs=1e-8)
        information = likelihood.fisher_information(np.array([f]))[0]
        assert over_y(2) == pytest.approx(information, rel=1e-6)


def test_probabilities_of_ordered_classes_sum_to_one_with_their_information():
    likelihood = OrdinalProbit((-0.8, 0.1, 1.4), noise_scale=0.8)
    total = [np.exp(likelihood.log_prob(np.full(25, float(k)), F)) for k in range(4)]
    assert_allclose(np.sum(total, axis=0), 1.0, atol=1e-12)
    minus = [-likelihood.derivatives(np.full(25, float(k)), F).second for k in range(4)]
    expected = np.einsum("kf,kf->f", total, minus)
    assert_allclose(likelihood.fisher_information(F), expected, rtol=1e-8)


def test_two_ordered_classes_equal_the_probit():
    likelihood, y = OrdinalProbit((0.0,)), np.where(F > 0.4, 1.0, 0.0)
    signs = 2.0 * y - 1.0
    assert_allclose(likelihood.log_prob(y, F), Probit().log_prob(signs, F), rtol=1e-12)
    for own, peer in zip(likelihood.derivatives(y, F), Probit().derivatives(signs, F), strict=True):
        assert_allclose(own, peer, rtol=1e-9, atol=1e-12)
    var = np.linspace(0.1, 9.0, 25)
    for own, peer in zip(
        likelihood.tilted_moments(y, F, var), Probit().tilted_moments(signs, F, var), strict=True
    ):
        assert_allclose(own, peer, rtol=1e-9, atol=1e-12)


def test_tails_of_ordered_classes_stay_finite_and_concave():
    f = np.array([-700.0, -60.0, -20.0, 20.0, 60.0, 300.0])
    ordinal = OrdinalProbit((-1.0, 1.0))
    for k in range(3):
        y = np.full(len(f), float(k))
        assert np.all(np.isfinite(ordinal.log_prob(y, f)))
        first, second, _ = ordinal.derivatives(y, f)
        assert np.all(np.isfinite(first))
        assert np.all((second <= 0.0) & (second >= -1.0 - 1e-9))
    for likelihood, y in ((NegativeBinomial(2.0), 3.0), (StudentT(), 0.5)):
        parts = likelihood.derivatives(np.full(len(f), y), f)
        assert all(np.all(np.isfinite(part)) for part in parts)
        assert np.all(np.isfinite(likelihood.log_prob(np.full(len(f), y), f)))
    assert Poisson().log_prob(np.array([3.0]), np.array([800.0]))[0] == -np.inf
    assert_array_equal(Volatility().derivatives(np.zeros(1), np.array([-700.0])).second, 0.0)


def test_negative_binomial_of_a_large_shape_equals_poisson():
    y = np.array([0.0, 2.0, 5.0])[:, None]
    nearly = NegativeBinomial(1e7).log_prob(y, F)
    assert_allclose(nearly, Poisson().log_prob(y, F), rtol=1e-4, atol=1e-4)


@in_one_test(
    ("likelihood", "legal", "illegal"),
    [
        (Poisson(), [0.0, 4.0], [-1.0, 1.5, np.inf]),
        (Poisson(fractional=True), [0.0, 1.5], [-0.1, np.nan]),
        (NegativeBinomial(), [0.0, 4.0], [-1.0, 1.5, np.nan]),
        (NegativeBinomial(fractional=True), [0.0, 4.5], [-1.0, np.inf]),
        (OrdinalProbit((0.0, 1.0)), [0.0, 1.0, 2.0], [3.0, -1.0, 0.5]),
        (Volatility(), [0.0, -3.0], [np.nan, np.inf]),
        (Probit(), [-1.0, 1.0], [0.0, 2.0]),
    ],
)
def test_legal_targets_are_accepted_and_others_refused(likelihood, legal, illegal):
    assert_array_equal(likelihood.legal(np.array(legal)), True)
    assert_array_equal(likelihood.legal(np.array(illegal)), False)


@in_one_test(("mean", "var"), [(0.3, 0.5), (-1.0, 2.0)])
def test_predictive_moments_and_distribution_agree_with_quadrature(mean, var):
    """Against quadrature over f."""
    at = (np.array([mean]), np.array([var]))

    def over_f(function):
        density = stats.norm(mean, np.sqrt(var)).pdf
        limits = (mean - 12.0 * np.sqrt(var), mean + 12.0 * np.sqrt(var))
        return integrate.quad(lambda f: function(f) * density(f), *limits, epsabs=1e-12)[0]

    def check(likelihood, conditional_mean, conditional_square):
        found = likelihood.predictive_moments(*at)
        expected = over_f(conditional_mean)
        assert found.mean[0] == pytest.approx(expected, rel=1e-7, abs=1e-9)
        square = over_f(conditional_square)
        assert found.var[0] == pytest.approx(square - expected**2, rel=1e-6)

    check(Poisson(), np.exp, lambda f: np.exp(f) + np.exp(2 * f))
    check(NegativeBinomial(1.5), np.exp, lambda f: np.exp(f) + np.exp(2 * f) * (1 + 1 / 1.5))
    check(Volatility(), lambda f: 0.0, lambda f: np.exp(2 * f))
    check(Gaussian(0.5, alpha=0.2), lambda f: f, lambda f: f * f + 0.45)
    check(StudentT(0.5, df=5.0), lambda f: f, lambda f: f * f + 0.25 * 5.0 / 3.0)
    assert StudentT(df=1.5).predictive_moments(*at).var[0] == np.inf

    y = np.array([-2.0, 0.4, 3.0])
    for likelihood, cdf in (
        (Gaussian(0.5, alpha=0.2), lambda y, f: special.ndtr((y - f) / np.sqrt(0.45))),
        (StudentT(0.5, df=3.0), lambda y, f: special.stdtr(3.0, (y - f) / 0.5)),
    ):
        expected = [over_f(lambda f, cdf=cdf, value=value: cdf(value, f)) for value in y]
        assert_allclose(likelihood.predictive_cdf(y, *at), expected, rtol=1e-7, atol=1e-10)


def test_gaussian_with_known_variances_applies_them_to_training_rows_alone():
    """Rows may have noise of their own; new rows have only what all have."""
    rows = np.array([0.5, 2.0, 0.0])
    likelihood = Gaussian(0.3, alpha=0.1, row_variance=rows)
    y, f = np.array([0.2, -1.0, 3.0]), np.array([0.0, 0.4, 1.0])
    expected = stats.norm(f, np.sqrt(0.09 + 0.1 + rows)).logpdf(y)
    assert_allclose(likelihood.log_prob(y, f), expected, rtol=1e-12)
    columns = likelihood.log_prob(y[:, None], np.stack([f, f], axis=1))
    assert_allclose(columns[:, 1], expected, rtol=1e-12)
    assert_allclose(likelihood.at_new_rows().log_prob(y, f), stats.norm(f, np.sqrt(0.19)).logpdf(y))
    assert likelihood.with_parameters(np.log([2.0])).alpha == 0.1


def test_fixed_likelihoods_have_no_parameters():
    for likelihood in (
        Gaussian(fixed=True),
        StudentT(fixed=True),
        NegativeBinomial(fixed=True),
        OrdinalProbit((0.0, 1.0), fixed=True),
        Poisson(),
    ):
        assert likelihood.parameters == ()
        assert likelihood.with_parameters(np.empty(0)) is likelihood
        y, f = np.ones(3), np.zeros(3)
        assert likelihood.parameter_derivatives(y, f).log_prob.shape == (0, 3)
        assert likelihood.tilted_parameter_gradient(y, None, f, np.ones(3)).shape == (0, 3)


def test_thresholds_are_parametrized_by_the_first_and_the_gaps():
    likelihood = OrdinalProbit((-1.0, 0.5, 0.8))
    names = [(p.name, p.positive) for p in likelihood.parameters]
    assert names == [("threshold", False), ("threshold_gap", True), ("threshold_gap", True)]
    start = np.array([p.start for p in likelihood.parameters])
    assert_allclose(start, [-1.0, np.log(1.5), np.log(0.3)])
    moved = likelihood.with_parameters(np.array([0.2, 0.0, np.log(2.0)]))
    assert_allclose(moved.thresholds, [0.2, 1.2, 3.2])


@in_one_test("df", [1.0, 4.0, 30.0])
def test_both_integrals_of_a_student_t_agree(df):
    """The mixture over noise precisions, and panels over f, also for outliers and wide priors."""
    likelihood = StudentT(0.3, df=df)
    y = np.array([0.0, 0.5, -3.0, 40.0, 900.0])
    mean, var = np.array([0.1, -2.0, 1.0, 0.0, 3.0]), np.array([1e-4, 0.5, 9.0, 2.0, 100.0])
    mixture = likelihood.weighted_tilted_moments(y, None, mean, var)
    panels = likelihood.weighted_tilted_moments(y, np.ones(5), mean, var)
    assert_allclose(mixture.log_z, panels.log_z, rtol=1e-10, atol=1e-10)
    assert_allclose(mixture.alpha, panels.alpha, rtol=1e-6, atol=1e-9)
    assert_allclose(var * mixture.beta, var * panels.beta, rtol=1e-6, atol=1e-8)
    slopes = (likelihood.tilted_parameter_gradient(y, w, mean, var) for w in (None, np.ones(5)))
    assert_allclose(*slopes, rtol=1e-7, atol=1e-9)
    assert_allclose(likelihood.log_predictive(y, mean, var), mixture.log_z, rtol=1e-12)
    alone = [likelihood.log_predictive(*point) for point in zip(y, mean, var, strict=True)]
    assert_allclose(alone, mixture.log_z, rtol=1e-12, atol=1e-12)


def test_tilted_moments_are_finite_beyond_the_resolution_of_f():
    """A mean of a million and a spread of ten thousand millions: f at the mode is all rounding."""
    y = np.array([0.0, 1.0, 4.0, 30.0])
    found = Poisson().tilted_moments(y, np.full(4, 973688.8), np.full(4, 4.68e10**2))
    assert np.isfinite(found.log_z).all()
    # Half of the line has no rate to speak of, the other half is impossible for an empty cell.
    assert found.log_z[0] == pytest.approx(-np.log(2.0), abs=1e-4)


@in_one_test(("likelihood", "side"), [(Poisson(), 1.0), (Volatility(), -1.0)])
def test_tilted_moments_are_right_where_the_slope_overflows_at_the_mean(likelihood, side):
    """The slope at the mean is infinite: it says where the mode is, and not how near."""
    y, mean, sd = np.array([0.0, 2.0, 7.0]) + 0.5 * (side < 0.0), side * 4010.0, 1.6
    found = likelihood.tilted_moments(y, np.full(3, mean), np.full(3, sd**2))
    f = side * np.linspace(-60.0, 12.0, 200_001)
    log_height = likelihood.log_prob(y[:, None], f) + stats.norm.logpdf(f, mean, sd)
    log_z = special.logsumexp(log_height, axis=1) + np.log(abs(f[1] - f[0]))
    assert_allclose(found.log_z, log_z, rtol=1e-8)
    average = np.exp(log_height - log_z[:, None]) @ f * abs(f[1] - f[0])
    assert_allclose(mean + sd**2 * found.alpha, average, rtol=1e-8, atol=1e-8)


@in_one_test("f", [1e20, -3e15, 1000.7])
def test_ordinal_class_too_narrow_for_doubles_has_the_slopes_of_a_density(f):
    """Both ends are the same distance from f, as numbers go: slopes are those of a density."""
    likelihood = OrdinalProbit((0.0, 1e-14))
    y, f, var = np.ones(1), np.array([f]), np.array([0.5])
    found = likelihood.tilted_moments(y, f, var)
    assert_allclose(found.alpha, -f / 1.5, rtol=1e-12)
    assert_allclose(likelihood.derivatives(y, f).first, -f, rtol=1e-12)


@in_one_test(
    "likelihood", [Poisson(), NegativeBinomial(shape=1.7), Volatility(), StudentT(0.7, df=3.5)]
)
def test_tilted_moments_of_random_gaussians_are_finite(likelihood):
    """NaN is allowed where the mode may be ten million standard deviations away, and only there."""
    rng = np.random.default_rng(0)
    sd = 10.0 ** rng.uniform(-9.0, 11.0, 300)
    mean = rng.choice([-1.0, 1.0], 300) * 10.0 ** rng.uniform(-3.0, 9.0, 300)
    y = rng.choice([1.0, 2.0, 7.0, 1000.0], 300)
    log_z = likelihood.tilted_moments(y, mean, sd**2).log_z
    assert np.isfinite(log_z[np.abs(mean) < 1e7 * sd]).all()
    assert not np.isinf(log_z).any()


def test_ordinal_class_at_the_end_of_doubles_raises_no_warning():
    """There erfcx is zero; pytest turns warnings into errors."""
    f = np.array([-1.5e308, 1.5e308])
    likelihood = OrdinalProbit((-1.0, 1.0))
    log_prob = [likelihood.log_prob(np.full(2, y), f) for y in (0.0, 1.0, 2.0)]
    assert_array_equal(log_prob, [[0.0, -np.inf], [-np.inf, -np.inf], [-np.inf, 0.0]])


# --- degrees of freedom ---------------------------------------------------------------------------


@pytest.mark.parametrize("df", [0.6, pytest.param(40.0, marks=pytest.mark.statistical)])
def test_student_t_with_inferred_degrees_of_freedom_passes_check_likelihood(df):
    check_likelihood(StudentT(0.7, df, infer_df=True), np.array([-0.5, 6.0]))


def test_inferred_parameters_of_a_student_t_can_be_chosen():
    names = {
        (fixed, infer_df): tuple(
            p.name for p in StudentT(fixed=fixed, infer_df=infer_df).parameters
        )
        for fixed in (False, True)
        for infer_df in (False, True)
    }
    assert names == {
        (False, False): ("noise_scale",),
        (False, True): ("noise_scale", "df"),
        (True, False): (),
        (True, True): ("df",),
    }
    moved = StudentT(infer_df=True).with_parameters(np.log([0.2, 7.0]))
    assert (moved.noise_scale, moved.df) == pytest.approx((0.2, 7.0))
    slopes = [
        StudentT(0.4, 3.0, fixed, infer_df).parameter_derivatives(F, 0.3)
        for fixed, infer_df in ((False, True), (False, False), (True, True))
    ]
    for both, scale, df in zip(*slopes, strict=True):
        assert_array_equal(both, [*scale, *df])


@in_one_test("df", [300.0, 1e4, 1e6, 1e15])
def test_student_t_of_many_degrees_of_freedom_is_gaussian(df):
    """The precision of the noise then varies little, and so does the range of its integrals."""
    likelihood = StudentT(0.5, infer_df=True).with_parameters(np.log([0.5, df]))
    mean, var = np.array([0.3, -1.0, 2.0]), np.array([0.1, 0.7, 2.0])
    y = np.array([0.0, 0.4, 3.0])
    gaussian = Gaussian(0.5)
    error = 3.0 / min(df, 1e6)
    for own, expected in zip(
        likelihood.tilted_moments(y, mean, var), gaussian.tilted_moments(y, mean, var), strict=True
    ):
        assert_allclose(own, expected, rtol=error, atol=error)
    at_most = likelihood.predictive_cdf(y, mean, var)
    assert_allclose(at_most, gaussian.predictive_cdf(y, mean, var), atol=error)
    slopes = likelihood.tilted_parameter_gradient(y, None, mean, var)
    expected = gaussian.tilted_parameter_gradient(y, None, mean, var)
    assert_allclose(slopes, [*expected, 0.0 * y], atol=10.0 * error)


def test_few_degrees_of_freedom_raise_no_warning():
    """With a tenth, noise may be exp(700) times as large as its scale."""
    likelihood = StudentT(0.5, infer_df=True).with_parameters(np.log([0.5, 1e-9]))
    assert likelihood.df == pytest.approx(0.1)
    y = np.array([0.0, 3.0, 1e9])
    log_p = likelihood.log_predictive(y, 0.2, 1e-12)
    assert_allclose(log_p, stats.t(0.1, 0.2, 0.5).logpdf(y), rtol=1e-8)
    assert_allclose(
        likelihood.predictive_cdf(y, 0.2, 1e-12), stats.t(0.1, 0.2, 0.5).cdf(y), rtol=1e-6
    )
