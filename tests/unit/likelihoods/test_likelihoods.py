"""What every likelihood must satisfy, then what only one of them claims."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import expit, ndtr
from scipy.stats import norm

from skgpmcmc.likelihoods import Bend, Likelihood, Logit, Probit, PsychometricProbit
from skgpmcmc.likelihoods.bernoulli import Bernoulli

from ...helpers import in_one_test

CLASSES = np.array([-1.0, 1.0])
F = np.linspace(-3.0, 3.0, 41)
GRID = [(mean, var) for mean in (-4.0, -0.5, 0.0, 2.0) for var in (0.1, 1.0, 7.4)]

every_likelihood = in_one_test(
    "likelihood", [Probit(), Logit()], ids=lambda likelihood: likelihood.name
)
every_class = in_one_test("y", [-1.0, 1.0])


def column(*values):
    return tuple(np.array([float(value)]) for value in values)


def quadpack_moments(likelihood, y, mean, var):
    """log_z, alpha, beta from the tilted mean and variance by adaptive integration."""
    sd = np.sqrt(var)

    def integral(function):
        return sum(
            quad(
                lambda x: (
                    function(x)
                    * np.exp(likelihood.log_prob(y, mean + sd * x) - 0.5 * x**2)
                    / np.sqrt(2.0 * np.pi)
                ),
                *ends,
                epsabs=1e-14,
                epsrel=1e-13,
            )[0]
            for ends in ((-13.0, -4.0), (-4.0, 0.0), (0.0, 4.0), (4.0, 13.0))
        )

    mass = integral(lambda x: 1.0)
    center = integral(lambda x: x) / mass
    spread = integral(lambda x: (x - center) ** 2) / mass
    return np.log(mass), center / sd, (1.0 - spread) / var


def test_predictions_of_both_classes_take_one_integral():
    n_evaluated = []

    class CountingLogit(Logit):
        def log_predictive(self, y, mean, var):
            n_evaluated.append(np.size(mean))
            return super().log_predictive(y, mean, var)

    mean = np.linspace(-4.0, 4.0, 20)
    CountingLogit().log_predictive(np.where(mean > 0.0, -1.0, 1.0), mean, 2.0)
    of_one = sum(n_evaluated)
    CountingLogit().log_class_probabilities(mean, np.full(20, 2.0))
    assert sum(n_evaluated) == 2 * of_one > 0


class AsymmetricLogit(Bernoulli):
    """The classes are equally likely at f = 1."""

    name = "asymmetric_logit"

    def log_prob(self, y, f):
        return Logit().log_prob(y, f - 1.0)

    def derivatives(self, y, f):
        return Logit().derivatives(y, f - 1.0)

    def fisher_information(self, f):
        return Logit().fisher_information(f - 1.0)

    def sample(self, f, rng):
        return Logit().sample(f - 1.0, rng)

    def bend(self, y):
        return Bend(np.asarray(1.0), np.asarray(6.0))


def test_one_integral_suffices_for_an_asymmetric_link():
    """All that it takes is that both probabilities add up to one."""
    mean = np.linspace(-3.0, 4.0, 15)
    both = AsymmetricLogit().log_class_probabilities(mean, np.full(15, 0.5))
    expected = [AsymmetricLogit().log_predictive(y, mean, 0.5) for y in CLASSES]
    assert_allclose(both, expected, rtol=1e-11)


@in_one_test("link", [Probit(), Logit(), AsymmetricLogit(), PsychometricProbit(0.3, 0.1)])
def test_moments_of_the_probability_are_those_of_quadrature(link):
    mean = np.array([[-9.0, -2.0], [0.3, 6.0]])
    var = np.array([[1.2], [0.0]])
    found = link.probability_moments(mean, var)
    x, weight = np.polynomial.legendre.leggauss(400)
    f = mean[..., None] + np.sqrt(var)[..., None] * (12.0 * x)
    of_normal = 12.0 * weight * norm.pdf(12.0 * x)
    for power, own in zip((1, 2), found, strict=True):
        assert_allclose(own, link.probability(f) ** power @ of_normal, rtol=1e-9)


def test_class_probabilities_by_two_integrals_equal_those_by_one():
    mean = np.linspace(-3.0, 3.0, 7)
    both = Likelihood.log_class_probabilities(Logit(), mean, np.full(7, 2.0))
    assert_allclose(both, Logit().log_class_probabilities(mean, np.full(7, 2.0)), rtol=1e-12)


class TestEveryLikelihood:
    @every_likelihood
    def test_equal_likelihoods_have_equal_hashes_pickles_and_copies(self, likelihood):
        twin = type(likelihood)()
        assert likelihood == twin
        assert hash(likelihood) == hash(twin)
        assert pickle.loads(pickle.dumps(likelihood)) == likelihood
        assert copy.deepcopy(likelihood) == likelihood
        with pytest.raises(AttributeError):
            likelihood.name = "other"

    @every_likelihood
    @every_class
    def test_far_tails_are_finite_and_monotone(self, likelihood, y):
        margin = np.concatenate([-np.logspace(5, -3, 400), [0.0], np.logspace(-3, 5, 400)])
        log_prob = likelihood.log_prob(y, y * margin)
        derivatives = likelihood.derivatives(y, y * margin)
        assert np.isfinite(log_prob).all()
        assert np.isfinite(derivatives).all()
        assert (np.diff(log_prob) >= 0.0).all()
        assert (log_prob <= 0.0).all()
        assert (y * derivatives.first >= 0.0).all()
        # log-concave: the slope falls along f, here along the margin
        assert (np.diff(y * derivatives.first) <= 1e-15).all()
        assert (derivatives.second <= 0.0).all()
        information = likelihood.fisher_information(margin)
        assert np.isfinite(information).all()
        assert (information >= 0.0).all()

    @every_likelihood
    def test_probabilities_sum_to_one(self, likelihood):
        f = np.concatenate([F, [-50.0, 50.0]])
        assert_allclose(np.exp(likelihood.log_prob(CLASSES[:, None], f)).sum(axis=0), 1.0)

    @every_likelihood
    def test_score_has_mean_zero_and_the_fisher_information_as_variance(self, likelihood):
        probability = np.exp(likelihood.log_prob(CLASSES[:, None], F))
        derivatives = likelihood.derivatives(CLASSES[:, None], F)
        information = likelihood.fisher_information(F)
        assert_allclose((probability * derivatives.first).sum(axis=0), 0.0, atol=1e-15)
        assert_allclose((probability * derivatives.first**2).sum(axis=0), information, rtol=1e-12)
        assert_allclose(-(probability * derivatives.second).sum(axis=0), information, rtol=1e-12)

    @every_likelihood
    def test_broadcasts_columns_against_matrices(self, likelihood):
        rng = np.random.default_rng(0)
        y, f = rng.choice(CLASSES, 5), 8.0 * rng.normal(size=(5, 3))
        f[0, 0] = -9.0 * y[0]  # the far branch of the probit as well
        for j in range(3):
            assert_array_equal(
                likelihood.log_prob(y[:, None], f)[:, j], likelihood.log_prob(y, f[:, j])
            )
            for whole, part in zip(
                likelihood.derivatives(y[:, None], f),
                likelihood.derivatives(y, f[:, j]),
                strict=True,
            ):
                assert_array_equal(whole[:, j], part)

    @every_likelihood
    @every_class
    @in_one_test(("mean", "var"), GRID)
    def test_tilted_moments_agree_with_quadpack(self, likelihood, y, mean, var):
        expected = quadpack_moments(likelihood, y, mean, var)
        moments = likelihood.tilted_moments(*column(y, mean, var))
        assert_allclose(np.ravel(moments), expected, rtol=1e-9, atol=1e-11)
        assert_allclose(likelihood.log_predictive(y, mean, var), expected[0], rtol=1e-11)

    @every_likelihood
    @every_class
    @in_one_test("var", [0.0, 1e-300, 1e-12])
    def test_tilted_moments_of_a_tiny_variance_follow_the_derivatives(self, likelihood, y, var):
        mean = np.linspace(-30.0, 30.0, 25)
        moments = likelihood.tilted_moments(np.full(25, y), mean, np.full(25, var))
        derivatives = likelihood.derivatives(y, mean)
        assert_allclose(moments.log_z, likelihood.log_prob(y, mean), rtol=1e-9, atol=1e-15)
        assert_allclose(moments.alpha, derivatives.first, rtol=1e-9)
        assert_allclose(moments.beta, -derivatives.second, rtol=1e-9)
        log_predictive = likelihood.log_predictive(y, mean, var)
        assert_allclose(log_predictive, likelihood.log_prob(y, mean), rtol=1e-9, atol=1e-15)

    @every_likelihood
    def test_tilted_distribution_is_narrower_than_the_cavity(self, likelihood):
        rng = np.random.default_rng(0)
        y, mean, var = (
            rng.choice(CLASSES, 500),
            200 * rng.normal(size=500),
            10 ** rng.uniform(-6, 4, 500),
        )
        moments = likelihood.tilted_moments(y, mean, var)
        assert np.isfinite(moments).all()
        assert (moments.beta >= 0.0).all()
        assert (var * moments.beta < 1.0).all()
        assert (y * moments.alpha >= 0.0).all()

    @every_likelihood
    def test_improper_cavities_give_nan_and_no_warning(self, likelihood):
        moments = likelihood.tilted_moments(
            np.ones(3), np.array([0.3, 0.3, 0.3]), np.array([2.0, -0.5, -7.0])
        )
        assert_array_equal(np.isnan(moments), [[False, True, True]] * 3)
        assert_array_equal(
            np.isnan(likelihood.log_predictive(1.0, 0.3, [2.0, -0.5])), [False, True]
        )
        mean = np.array([0.3, -0.3, np.nan])
        both = likelihood.log_class_probabilities(mean, np.array([-0.5, -7.0, 1.0]))
        assert np.isnan(both).all()

    @every_likelihood
    def test_log_predictive_broadcasts_its_arguments(self, likelihood):
        mean, var = F[:7], np.array([0.0, 1.0, 30.0])
        log_predictive = likelihood.log_predictive(CLASSES[:, None, None], mean[:, None], var)
        assert log_predictive.shape == (2, 7, 3)
        assert_allclose(np.exp(log_predictive).sum(axis=0), 1.0, rtol=1e-13)
        assert_allclose(
            log_predictive[1, 4, 2], likelihood.log_predictive(1.0, mean[4], var[2]), rtol=1e-13
        )
        assert np.shape(likelihood.log_predictive(1.0, 0.0, 1.0)) == ()

    @every_likelihood
    def test_predictions_of_both_classes_equal_two_integrals(self, likelihood):
        """Of either sign of the mean; and beyond 1e-30, where one minus a probability is one."""
        mean = np.array([-80.0, -12.0, -3.0, -1e-3, 0.0, 0.4, 5.0, 12.0, 80.0])[:, None]
        var = np.array([0.0, 1e-3, 1.0, 30.0])
        both = np.array(likelihood.log_class_probabilities(mean, var))
        expected = np.array([likelihood.log_predictive(y, mean, var) for y in CLASSES])
        assert both.shape == (2, 9, 4)
        assert both.min() < np.log(1e-30)
        assert_allclose(np.exp(both), np.exp(expected), rtol=0.0, atol=1e-13)
        smaller = both.min(axis=0)
        assert_allclose(smaller, expected.min(axis=0), rtol=1e-13)
        assert_allclose(both.max(axis=0), np.log1p(-np.exp(smaller)), rtol=1e-12)
        assert (np.sign(both[1] - both[0]) * np.sign(mean) >= 0.0).all()


class TestProbit:
    # (z, and the first, second and third derivative of log Phi there), 80-digit arithmetic
    REFERENCE = np.array([
        (-1000.0, 1000.000999998, -0.99999900000599995, 1.9999760002999959e-9),
        (-100.0, 100.00999800099926, -0.99990005995005174, 1.9976029958623432e-6),
        (-20.0, 20.049753068527851, -0.99753673838494784, 0.00024272657893584202),
        (-5.5, 5.6714103138973056, -0.97213822214555377, 0.0086189435223161058),
        (-4.5, 4.7043198448277324, -0.96118590071522447, 0.013795416560255427),
        (-3.0, 3.2830986549304365, -0.92944081321473188, 0.031470672830842488),
        (-1.0, 1.5251352761609812, -0.80090233442965121, 0.11693119540604883),
        (0.0, 0.79788456080286536, -0.63661977236758134, 0.21801361414499016),
        (1.0, 0.28759997093917836, -0.3703137142233946, 0.29571817018227121),
        (5.0, 1.4867199409049057e-6, -7.4336019148607112e-6, 3.568131173676705e-5),
        (20.0, 5.5209483621597632e-88, -1.1041896724319526e-86, 2.2028583965017455e-85),
        (30.0, 1.4736461348785475e-196, -4.4209384046356426e-195, 1.3248078752558142e-193),
    ])  # fmt: skip

    @every_class
    def test_derivatives_of_the_probit_have_the_stated_accuracy(self, y):
        z, *expected = self.REFERENCE.T
        first, second, third = Probit().derivatives(y, y * z)
        assert_allclose(y * first, expected[0], rtol=1e-13)
        assert_allclose(second, expected[1], rtol=1e-13)
        assert_allclose(y * third, expected[2], rtol=1e-11)

    def test_far_tail_of_the_probit_follows_its_asymptotic_series(self):
        t = np.logspace(3, 5, 50)
        first, second, third = Probit().derivatives(1.0, -t)
        assert_allclose(first, t + 1 / t - 2 / t**3, rtol=1e-14)
        assert_allclose(-second, 1 - 1 / t**2 + 6 / t**4, rtol=1e-14)
        assert_allclose(third, 2 / t**3 - 24 / t**5 + 300 / t**7, rtol=1e-13)

    def test_derivatives_of_the_probit_underflow_to_zero(self):
        assert_array_equal(Probit().derivatives(1.0, np.array([39.0, 1e5])), np.zeros((3, 2)))

    def test_quadrature_agrees_with_the_closed_form(self):
        rng = np.random.default_rng(0)
        y = rng.choice(CLASSES, 300)
        mean, var = rng.normal(scale=5.0, size=300), 10.0 ** rng.uniform(-8, 4, 300)
        closed = Probit().tilted_moments(y, mean, var)
        quadrature = Likelihood.tilted_moments(Probit(), y, mean, var)
        assert_allclose(quadrature.log_z, closed.log_z, rtol=1e-9, atol=1e-12)
        scale = np.sqrt(1.0 + var)
        assert_allclose(scale * quadrature.alpha, scale * closed.alpha, rtol=1e-9, atol=1e-11)
        assert_allclose(scale**2 * quadrature.beta, scale**2 * closed.beta, rtol=1e-9, atol=1e-11)

    def test_log_predictive_of_the_probit_equals_its_closed_form(self):
        assert_allclose(Probit().log_predictive(-1.0, 0.6, 3.0), np.log(ndtr(-0.3)), rtol=1e-14)
        far = Probit().log_predictive(1.0, -1e5, 0.0)
        assert_allclose(far, -0.5e10 - np.log(1e5 * np.sqrt(2.0 * np.pi)), rtol=1e-14)


def straight_rule(y, mean, var):
    """Moments of the logit by equally spaced nodes, in extended precision.

    The logistic has its poles at distance pi and the Gaussian is entire: with steps of at most a
    quarter, and a third of the standard deviation, the trapezoidal rule is exact to rounding.
    """
    y, mean, var = (np.longdouble(a) for a in (y, mean, var))
    sd = np.sqrt(var)

    def slope(f):
        return y * np.exp(np.minimum(-y * f, 0)) / (1 + np.exp(-abs(f)))

    low, high = sorted((np.longdouble(0), sd * slope(mean)))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if sd * slope(mean + sd * middle) > middle else (low, middle)
    step = min(0.25 / sd, np.longdouble(1) / 3)
    x = low - 12 + step * np.arange(int(24 / step))
    f = mean + sd * x
    log_height = np.minimum(y * f, 0) - np.log1p(np.exp(-abs(f))) - x**2 / 2
    weight = np.exp(log_height - log_height.max())
    total = weight.sum()
    log_z = log_height.max() + np.log(total * step) - np.log(2 * np.arccos(np.longdouble(-1))) / 2
    weight /= total
    first = slope(f)
    alpha = weight @ first
    if var > 1:
        return log_z, alpha, -(weight @ ((first - alpha) * (x - weight @ x))) / sd
    curvature = np.exp(-abs(f)) / (1 + np.exp(-abs(f))) ** 2
    return log_z, alpha, weight @ curvature - weight @ (first - alpha) ** 2


class TestLogit:
    @pytest.mark.parametrize("var", [1e-12, 1e-4, 0.1, 0.9, 1.0, 4.0, 50.0, 1e3, 3e4, 1e6])
    def test_tilted_moments_of_the_logit_have_the_stated_accuracy(self, var):
        sd = np.sqrt(var)
        means = np.array([0.0, -0.3, 0.6, -3.0, 8.0, -30.0, 30.0, -250.0, 1e3, -1e3])
        for y, mean in ((1.0, mean) for mean in means):
            # One point at a time: a point gains accuracy from neighbors that need more nodes.
            log_z, alpha, beta = np.ravel(Logit().tilted_moments(*column(y, mean, var)))
            expected = np.array(straight_rule(y, mean, var), dtype=float)
            where = f"mean={mean}, var={var}"
            assert abs(log_z - expected[0]) < 1e-12 * max(1.0, abs(expected[0])), where
            assert abs(alpha - expected[1]) * sd < 1e-12, where
            assert abs(beta - expected[2]) * var < 1e-12, where
            if var <= 1.0 and abs(mean) <= 30.0:
                assert_allclose([alpha, beta], expected[1:], rtol=1e-11, err_msg=where)

    def test_log_prob_keeps_relative_accuracy_in_both_tails(self):
        assert_allclose(Logit().log_prob(1.0, np.array([-700.0, 700.0])), [-700.0, -np.exp(-700.0)])
        assert_allclose(np.exp(Logit().log_prob(1.0, F)), expit(F), rtol=1e-14)


def test_error_names_a_likelihood_that_is_not_log_concave():
    class Bumpy(AsymmetricLogit):
        name = "bumpy"
        log_concave = False

    for method in (Bumpy().tilted_moments, Bumpy().log_predictive):
        with pytest.raises(NotImplementedError, match="bumpy likelihood is not log-concave"):
            method(*column(1.0, 0.0, 1.0))
