"""Normal targets that are only known to lie in an interval: by SciPy, quadrature and limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skgpmcmc.likelihoods import CensoredGaussian, Gaussian
from skgpmcmc.model import Observations
from skgpmcmc.testing import check_likelihood

from ...helpers import in_one_test

F = np.linspace(-3.0, 3.0, 13)
CASES = {
    "left": CensoredGaussian(0.7, low=-np.inf, high=0.3),
    "right": CensoredGaussian(0.7, alpha=0.5, low=0.2, high=np.inf),
    "interval": CensoredGaussian(0.7, low=-0.4, high=0.5),
    "narrow": CensoredGaussian(0.7, fixed=True, low=0.3, high=0.301),
}


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.statistical] * (c != "interval")) for c in CASES]
)
def test_censored_targets_pass_the_public_check(case):
    check_likelihood(CASES[case], np.array([0.3005, 1.5]))


def test_censored_targets_have_the_probability_of_their_interval():
    noise = stats.norm(F, 0.7)
    assert_allclose(CASES["left"].log_prob(-9.0, F), noise.logcdf(0.3), rtol=1e-12)
    of_interval = np.log(noise.cdf(0.5) - noise.cdf(-0.4))
    assert_allclose(CASES["interval"].log_prob(0.1, F), of_interval, rtol=1e-9)
    for outside in (-0.41, 0.51):
        assert_allclose(CASES["interval"].log_prob(outside, F), noise.logpdf(outside))
    right = stats.norm(F, np.sqrt(0.49 + 0.5))
    assert_allclose(CASES["right"].log_prob(2.0, F), right.logsf(0.2), rtol=1e-12)


def test_without_intervals_it_is_gaussian_noise():
    plain, own = Gaussian(0.7), CensoredGaussian(0.7)
    var = np.linspace(0.1, 2.0, 13)
    for name, at in (
        ("log_prob", (1.0, F)),
        ("derivatives", (1.0, F)),
        ("parameter_derivatives", (1.0, F)),
        ("fisher_information", (F,)),
        ("tilted_moments", (0.0 * F, F, var)),
        ("weighted_tilted_moments", (0.0 * F, var, F, var)),
        ("tilted_parameter_gradient", (0.0 * F, var, F, var)),
        ("log_predictive", (0.0 * F, F, var)),
    ):
        assert_array_equal(getattr(own, name)(*at), getattr(plain, name)(*at))


def test_a_narrow_interval_has_the_density_times_its_width():
    narrow = CensoredGaussian(0.7, low=0.3, high=0.3 + 1e-9)
    exact = Gaussian(0.7).log_prob(0.3, F)
    assert_allclose(narrow.log_prob(0.3, F), exact + np.log(1e-9), atol=1e-6)
    for own, other in zip(
        narrow.derivatives(0.3, F), Gaussian(0.7).derivatives(0.3, F), strict=True
    ):
        assert_allclose(own, other, atol=1e-5)


@in_one_test("sign", [-1.0, 1.0])
def test_far_intervals_keep_their_digits(sign):
    """Forty standard deviations out, and a thousand: expansions of the tail of a normal density."""
    for distance in (40.0, 1000.0):
        ends = sorted((sign * distance, sign * np.inf))
        far = CensoredGaussian(1.0, low=ends[0], high=ends[1])
        y, f = np.array([sign * distance]), np.zeros(1)
        t = distance
        log_p = -0.5 * t * t - 0.5 * np.log(2.0 * np.pi) - np.log(t) - 1.0 / t**2
        assert far.log_prob(y, f)[0] == pytest.approx(log_p, abs=1e-5)
        first, second, third = far.derivatives(y, f)
        assert sign * first[0] == pytest.approx(t + 1.0 / t - 2.0 / t**3, rel=1e-7)
        assert second[0] == pytest.approx(-1.0 + 1.0 / t**2, abs=1e-5)
        assert abs(third[0]) < 1e-3
        slopes = far.parameter_derivatives(y, f)
        assert slopes.log_prob[0, 0] == pytest.approx(t * (t + 1.0 / t - 2.0 / t**3), rel=1e-7)
        assert np.isfinite(slopes).all()
        alone = far.tilted_moments(y, f, np.full(1, 3.0))
        # With f integrated out the noise has twice the standard deviation.
        half = CensoredGaussian(2.0, low=ends[0], high=ends[1])
        assert alone.log_z[0] == pytest.approx(half.log_prob(y, f)[0], rel=1e-12)
        assert alone.alpha[0] == pytest.approx(half.derivatives(y, f).first[0], rel=1e-12)


@in_one_test(
    ("low", "high"),
    [
        (1.0, 1.0 + 1e-7),
        (1.0, 1.0 + 1e-5),
        (-2e-4, 1e-4),
        (50.0, 50.0 + 3e-8),
        (-300.0, -300.0 + 3e-7),
        (4e3, np.inf),
        (-np.inf, -1e4),
        (1e8, 1e8 + 2.0),
    ],
)
def test_thin_and_far_intervals_have_the_slopes_of_a_known_place(low, high):
    """The variance inside is negligible: log p is that of a density, whose middle is the mean."""
    own = CensoredGaussian(1.0, low=low, high=high)
    y, f = np.array([low if np.isfinite(low) else high]), np.zeros(1)
    place = own.derivatives(y, f).first[0]
    assert low - 1e-9 * abs(y[0]) <= place <= high + 1e-3
    assert_allclose(np.ravel(own.derivatives(y, f)[1:]), [-1.0, 0.0], atol=2e-7)
    slopes = own.parameter_derivatives(y, f)
    assert_allclose(slopes.first[0], -2.0 * place, rtol=2e-7)
    assert_allclose(slopes.second[0], 2.0, rtol=1e-6)


def test_an_interval_without_width_holds_no_target():
    point = CensoredGaussian(0.7, low=0.3, high=0.3)
    assert_array_equal(point.log_prob(0.3, F), Gaussian(0.7).log_prob(0.3, F))


# --- rows with intervals of their own -------------------------------------------------------------

N = 12
KIND = np.arange(N) % 3
LOW = np.choose(KIND, [-np.inf, 0.2, np.inf])
HIGH = np.choose(KIND, [0.5, 0.9, -np.inf])
Y = np.choose(KIND, [0.1, 0.4, 0.3])
OF_ROWS = CensoredGaussian(0.6, row_variance=np.linspace(0.1, 0.5, N), low=LOW, high=HIGH)
FIRST = np.array([0, 3, 5, 6, 10])
WEIGHT = np.linspace(0.5, 2.0, N)


def test_rows_keep_their_ends():
    assert_array_equal(OF_ROWS.is_censored(Y), KIND < 2)
    some = OF_ROWS.of_rows(np.array([4, 0]))
    assert_array_equal(some.low, [0.2, -np.inf])
    assert_array_equal(some.row_variance, OF_ROWS.row_variance[[4, 0]])
    assert_array_equal(OF_ROWS.row_data(N), np.stack([OF_ROWS.row_variance, LOW, HIGH], axis=1))
    assert OF_ROWS.row_data(N).shape == (N, 3)
    new = OF_ROWS.at_new_rows()
    assert type(new) is Gaussian
    assert new.row_variance is None


@in_one_test(("weight", "first"), [(None, None), (WEIGHT, None), (None, FIRST), (WEIGHT, FIRST)])
def test_integrals_over_f_are_those_on_a_grid(weight, first):
    """Rows of weight one take closed forms; weights, and several rows at an input, quadrature."""
    observed = Observations(OF_ROWS, Y, None, weight, first)
    mean = np.linspace(-1.0, 1.0, observed.n_inputs)
    var = np.linspace(0.2, 2.0, observed.n_inputs)
    x = np.linspace(-9.0, 9.0, 4001)
    f = mean[:, None] + np.sqrt(var)[:, None] * x
    density = np.exp(observed.by_input(f)) * stats.norm.pdf(x)
    mass = density.sum(axis=1)
    found = observed.tilted_moments(mean, var)
    assert_allclose(found.log_z, np.log(mass * (x[1] - x[0])), atol=1e-9)
    assert_allclose(np.sqrt(var) * found.alpha, density @ x / mass, atol=1e-8)
    spread = density @ x**2 / mass - (density @ x / mass) ** 2
    assert_allclose(1.0 - var * found.beta, spread, atol=1e-8)
    step = 1e-4
    up, down = (
        observed.with_parameters([np.log(0.6) + s]).tilted_moments(mean, var).log_z
        for s in (step, -step)
    )
    slope = observed.tilted_parameter_gradient(mean, var)
    assert_allclose(slope[0], (up - down) / (2.0 * step), atol=1e-6)
    assert_allclose(observed.log_normalizers(mean, var), found.log_z, atol=1e-10)
