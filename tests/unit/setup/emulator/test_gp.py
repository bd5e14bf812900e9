"""The emulator of a log evidence, its correction, and the posterior made of both."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared

from skgpmcmc.model import HyperPrior
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.setup.emulator.gp import Coordinates, Emulator, find_flattening
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.emulator.posterior import EmulatedPosterior

from ....helpers import finite_difference, make_model, toy_classes

OPTIONS = EmulatorOptions(height_span=10.0)
SD = np.array([0.6, 0.9, 0.4])
CENTER = np.array([1.0, -0.5, 0.3])


def smooth(theta):
    """A skewed log density of three coordinates, with its gradient."""
    z = (theta - CENTER) / SD
    value = -(np.logaddexp(z, -2.0 * z).sum(axis=-1)) - 0.3 * z[..., 0] * z[..., 1]
    up, down = np.exp(z), np.exp(-2.0 * z)
    gradient = -(up - 2.0 * down) / (up + down)
    gradient[..., 0] -= 0.3 * z[..., 1]
    gradient[..., 1] -= 0.3 * z[..., 0]
    return value - 100.0, gradient / SD


def typical(size, seed=0, spread=1.0):
    return CENTER + spread * SD * np.random.default_rng(seed).standard_normal((size, 3))


def emulate(theta, values, gradients, flat=(0.0, 0.0, 0.0)):
    return Emulator.fit(
        theta, values, gradients, draws=typical(200), flat=np.array(flat), options=OPTIONS
    )


def fitted(size=60, *, flat=(0.0, 0.0, 0.0)):
    theta = typical(size, seed=1, spread=1.5)
    return emulate(theta, *smooth(theta), flat), theta


plain_or_flat = pytest.mark.parametrize(
    "flat", [(0.0, 0.0, 0.0), (0.0, 0.05, 0.05)], ids=["plain", "flat"]
)


def check_batch(function, theta, tolerance):
    """Values and gradients of a batch are those of its rows."""
    value, gradient = function(theta)
    assert (value.shape, gradient.shape) == (theta.shape[:-1], theta.shape)
    for i in np.ndindex(value.shape):
        one = function(theta[i])
        assert np.shape(one[0]) == ()
        assert value[i] == pytest.approx(float(one[0]), abs=tolerance)
        assert_allclose(gradient[i], one[1], atol=tolerance)


# --- coordinates ----------------------------------------------------------------------------------


def test_only_lengths_in_units_of_the_inputs_are_flattened():
    X, y = toy_classes(8, 1, seed=0)
    flat = find_flattening(make_model(X, y, kernel=RBF() + ExpSineSquared()), 0.005)
    assert flat[0] > 0.0
    assert_array_equal(flat[1:], 0.0)


def test_coordinates_standardize_draws():
    coordinates = Coordinates.typical(typical(300), np.zeros(3))
    z, _ = coordinates.at(typical(300))
    assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(z.std(axis=0), 1.0, atol=1e-12)
    stretched, slopes = coordinates.stretch(np.full(3, 2.0)).at(typical(300))
    assert_allclose(stretched, 0.5 * z, atol=1e-12)
    assert_allclose(slopes, 0.5 / coordinates.scale * np.ones((300, 3)), atol=1e-12)


def test_long_length_scales_are_flattened():
    flat = np.array([0.0, 0.01, 0.01])
    coordinates = Coordinates(flat, np.zeros(3), np.ones(3))
    theta = np.array([[40.0, -3.0, 20.0], [-40.0, 2.0, 45.0]])
    z, slopes = coordinates.at(theta)
    expected = -0.5 * np.log(np.exp(-2.0 * theta) + flat)
    assert_allclose(z, expected, atol=1e-9)
    assert_array_equal(z[:, 0], theta[:, 0])
    assert_allclose(slopes[:, 0], 1.0)
    assert_allclose(z[:, 2], -0.5 * np.log(0.01), atol=1e-9)
    assert np.all(slopes[:, 2] < 1e-12)
    here = np.array([0.3, 2.1, 2.6])
    for j in range(3):
        numeric = finite_difference(lambda t, j=j: coordinates.at(t)[0][j], here)
        assert numeric[j] == pytest.approx(coordinates.at(here)[1][j], rel=1e-7)


# --- emulator -------------------------------------------------------------------------------------


@plain_or_flat
def test_the_emulator_interpolates_values_and_gradients(flat):
    emulator, theta = fitted(flat=flat)
    value, gradient = emulator.value_and_gradient(theta)
    expected, slopes = smooth(theta)
    near = expected > expected.max() - 8.0
    assert near.sum() > 40
    assert_allclose(value[near], expected[near], atol=2e-2)
    assert_allclose(gradient[near], slopes[near], atol=5e-2)


def test_the_emulator_predicts_between_the_nodes():
    theta = typical(200, seed=2)
    error = fitted()[0].value(theta) - smooth(theta)[0]
    assert np.sqrt(np.mean(error**2)) < 0.05


@plain_or_flat
def test_gradient_of_the_emulator_equals_finite_differences(flat):
    emulator, _ = fitted(flat=flat)
    for theta in [*typical(5, seed=3), CENTER + 4.0 * SD, CENTER - 5.0 * SD]:
        expected = finite_difference(lambda t: float(emulator.value(t)), theta)
        gradient = emulator.value_and_gradient(theta)[1]
        assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    far = np.array([[60.0, -60.0, 60.0], [-300.0, 300.0, 0.0]])
    assert all(np.isfinite(part).all() for part in emulator.value_and_gradient(far))


def conditional_sd(emulator, theta, node):
    """By the definition, with covariances of the value and of slopes from finite differences."""
    z, _ = emulator.coordinates.at(theta)

    def covariance(a, b):
        return 1.0 / (1.0 + 0.5 * ((a - b) ** 2).sum())

    with_slopes = finite_difference(lambda t: covariance(z, t), node)
    # A value and the slopes at the same node have covariance zero, and the variances 1.
    explained = covariance(z, node) ** 2 + (with_slopes**2).sum()
    return emulator.sd * np.sqrt(1.0 - explained)


@plain_or_flat
def test_deviation_of_the_emulator_is_that_given_the_nearest_node(flat):
    emulator, _ = fitted(flat=flat)
    for theta in typical(8, seed=21, spread=2.0):
        z, _ = emulator.coordinates.at(theta)
        node = emulator.nodes[((emulator.nodes - z) ** 2).sum(axis=1).argmin()]
        deviation, gradient = emulator.deviation(theta)
        assert deviation == pytest.approx(conditional_sd(emulator, theta, node), rel=1e-5)
        expected = finite_difference(lambda t: float(emulator.deviation(t)[0]), theta)
        assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_deviation_of_the_emulator_is_zero_at_nodes_and_its_own_far_away():
    emulator, theta = fitted()
    deviation, gradient = emulator.deviation(theta)
    assert_allclose(deviation, 0.0, atol=1e-9)
    assert_allclose(gradient, 0.0, atol=1e-6)
    assert emulator.deviation(CENTER + 300.0 * SD)[0] == pytest.approx(emulator.sd, rel=1e-3)


def test_errors_of_the_emulator_are_of_the_size_of_its_deviation():
    emulator, _ = fitted(30)
    theta = typical(400, seed=22, spread=1.5)
    error = np.abs(emulator.value(theta) - smooth(theta)[0])
    deviation = emulator.deviation(theta)[0]
    assert np.mean(error < 2.0 * deviation) > 0.95
    assert stats.spearmanr(error, deviation).statistic > 0.4


def test_a_batch_of_the_emulator_equals_its_rows():
    emulator, _ = fitted()
    theta = typical(12, seed=4).reshape(3, 4, 3)
    check_batch(emulator.value_and_gradient, theta, 1e-9)
    check_batch(emulator.deviation, theta, 1e-9)
    assert_allclose(emulator.value(theta), emulator.value_and_gradient(theta)[0], atol=1e-9)


def test_emulator_is_accurate_beside_points_of_very_low_evidence():
    """Log evidences a thousand lower, with gradients to match, are only known to be low."""
    theta = typical(40, seed=5)
    values, gradients = smooth(theta)
    far = CENTER + np.array([[12.0, 0.0, 0.0], [0.0, -12.0, 0.0]]) * SD
    theta = np.concatenate([theta, far])
    values = np.append(values, values.max() - np.array([1000.0, 3000.0]))
    steep = np.array([[-500.0, 0.0, 0.0], [0.0, 800.0, 0.0]])
    gradients = np.concatenate([gradients, steep])
    emulator = emulate(theta, values, gradients)
    near = typical(100, seed=6, spread=0.8)
    error = emulator.value_and_gradient(near)[0] - smooth(near)[0]
    assert np.sqrt(np.mean(error**2)) < 0.2
    low, _ = emulator.value_and_gradient(far)
    assert_allclose(low, values.max() - OPTIONS.deepest(3))  # all that matters


# --- correction -----------------------------------------------------------------------------------


def quadratic(theta):
    z = (theta - CENTER) / SD
    return 0.7 + z @ [0.3, -0.2, 0.1] + (z * z) @ [0.05, 0.0, -0.1] + 0.2 * z[..., 0] * z[..., 2]


def test_quadratic_fit_recovers_a_quadratic():
    theta = typical(80, seed=8)
    fit = Quadratic.fit(theta, quadratic(theta), CENTER, SD, noise=1e-4)
    new = typical(20, seed=9, spread=0.8)
    assert_allclose(fit.value(new), quadratic(new), atol=1e-2)
    for part in NONE.value_and_gradient(new):
        assert_array_equal(part, 0.0)


def test_noisy_values_leave_the_quadratic_terms_near_zero():
    theta = typical(10, seed=8)
    rng = np.random.default_rng(10)
    values = 3.0 + rng.standard_normal(10)
    fit = Quadratic.fit(theta, values, CENTER, SD, noise=10.0)
    assert fit.constant == pytest.approx(values.mean(), abs=0.1)
    assert max(np.abs(fit.linear).max(), np.abs(fit.curvature).max()) < 0.02


def test_quadratic_fit_gives_noisy_points_less_weight():
    theta = typical(60, seed=11)
    noise = np.where(np.arange(60) < 30, 0.01, 10.0)
    values = quadratic(theta) + np.where(np.arange(60) < 30, 0.0, 5.0)
    fit = Quadratic.fit(theta, values, CENTER, SD, noise=noise)
    assert_allclose(fit.value_and_gradient(theta[:30])[0], quadratic(theta[:30]), atol=0.05)


def test_points_with_small_shares_count_less():
    theta = typical(60, seed=11)
    often = np.arange(60) < 30
    values = quadratic(theta) + np.where(often, 0.0, 5.0)
    shares = np.where(often, 1.0, 1e-6)
    fit = Quadratic.fit(theta, values, CENTER, SD, noise=0.01, shares=shares)
    assert_allclose(fit.value(theta[:30]), quadratic(theta[:30]), atol=0.05)


def test_correction_of_a_constant_gap_is_constant():
    fit = Quadratic.fit(typical(10, seed=8), np.full(10, 0.7), CENTER, SD, noise=0.1)
    assert_allclose(fit.value(typical(5, seed=9)), 0.7, rtol=1e-9)


@pytest.mark.parametrize(("misfit", "share"), [(0.01, 0.7), (0.3, 0.55), (2.0, 0.4)])
def test_terms_are_shrunk_by_what_the_data_say_of_their_size(misfit, share):
    """The error is this share of the misfit at most; with least squares it is 0.64 of it."""
    rng = np.random.default_rng(3)
    theta, new = typical(40, seed=8), typical(200, seed=9)
    z_new = np.clip((new - CENTER) / SD, -3.0, 3.0)
    errors = []
    for _ in range(20):
        slope = 0.2 * rng.standard_normal(3)
        values = (theta - CENTER) / SD @ slope + misfit * rng.standard_normal(40)
        fit = Quadratic.fit(theta, values, CENTER, SD)
        errors.append(np.mean((fit.value(new) - z_new @ slope) ** 2))
    assert np.sqrt(np.mean(errors)) < share * misfit


def test_the_correction_is_constant_beyond_three_units():
    theta = typical(80, seed=8)
    fit = Quadratic.fit(theta, quadratic(theta), CENTER, SD, noise=0.1)
    edge, beyond = CENTER + 3.0 * SD * [1, 0, 0], CENTER + 30.0 * SD * [1, 0, 0]
    assert fit.value_and_gradient(beyond)[0] == pytest.approx(fit.value_and_gradient(edge)[0])
    assert fit.value_and_gradient(beyond)[1][0] == 0.0
    for point in [*typical(4, seed=12), CENTER + SD * [5.0, 0.2, -7.0]]:
        expected = finite_difference(lambda t: float(fit.value_and_gradient(t)[0]), point)
        assert_allclose(fit.value_and_gradient(point)[1], expected, atol=1e-8)


# --- posterior ------------------------------------------------------------------------------------

NAMES = ("a", "b", "c")
PRIOR = HyperPrior(
    NAMES, {"a": stats.gamma(2.0), "b": stats.lognorm(1.0), "c": stats.invgamma(2.0, scale=3.0)}
)
NONE = Quadratic.flat(CENTER, SD)


def posterior(**changes):
    emulator, theta = fitted()
    correction = Quadratic.fit(theta, quadratic(theta), CENTER, SD, noise=0.1)
    settings = {"log_floor": -1e3} | changes
    low, high = theta.min(axis=0), theta.max(axis=0)
    return EmulatedPosterior(PRIOR, emulator, correction, low, high, **settings)


def test_inside_the_box_it_is_prior_times_emulated_likelihood():
    target, theta = posterior(), typical(10, seed=13, spread=0.5)
    expected = PRIOR.log_prob(theta) + target.emulator.value(theta) + target.correction.value(theta)
    assert_allclose(target.log_prob(theta), expected, atol=1e-9)


def test_emulated_posterior_is_raised_to_a_power_with_its_prior():
    target, theta = posterior(), typical(3, seed=15)
    raised = target.to_power(0.5).to_power(0.8)
    assert_allclose(raised.log_prob(theta), 0.4 * target.log_prob(theta), rtol=1e-12)


def test_correction_of_the_emulator_moves_the_floor():
    """The shape stays where a correction is constant: what the evidence lacks is no news."""
    plain = replace(posterior(log_floor=-110.0), correction=NONE)
    shifted = plain.with_correction(replace(NONE, constant=30.0))
    theta = typical(200, seed=15, spread=4.0)
    assert_allclose(shifted.log_prob(theta), plain.log_prob(theta) + 30.0, atol=1e-9)
    assert_array_equal(shifted.log_evidence(theta), plain.log_evidence(theta))


def test_emulated_likelihood_outside_the_box_is_that_of_the_edge():
    target = posterior()
    beyond, edge = CENTER.copy(), CENTER.copy()
    beyond[1], edge[1] = target.high[1] + 5.0, target.high[1]
    of_beyond, of_edge = (target.log_prob(t) - PRIOR.log_prob(t) for t in (beyond, edge))
    assert of_beyond == pytest.approx(of_edge, abs=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"log_floor": -103.0},
        {"power": 0.4},
        {"power": 0.4, "optimism": 1.5},
        {"power": 0.4, "ceiling": -107.0},
    ],
    ids=["plain", "at the floor", "tempered", "optimistic", "below a ceiling"],
)
def test_gradient_of_the_emulated_posterior_equals_finite_differences(changes):
    target = posterior(**changes)
    outside = CENTER + SD * [0.2, 9.0, -9.0]
    for theta in [*typical(6, seed=14), outside]:
        value, gradient = target.value_and_gradient(theta)
        expected = finite_difference(lambda t: float(target.log_prob(t)), theta, 1e-4)
        assert value == pytest.approx(float(target.log_prob(theta)), abs=1e-12)
        assert_allclose(gradient, expected, atol=1e-5 * (1.0 + np.abs(expected).max()))


def test_optimistic_posterior_is_larger_by_one_deviation_of_the_emulator():
    target = posterior()
    theta = np.concatenate([typical(20, seed=17), CENTER + SD * [[0.2, 9.0, -9.0]]])
    gain = target.be_optimistic().log_prob(theta) - target.log_prob(theta)
    assert_allclose(gain[:-1], target.emulator.deviation(theta[:-1])[0], atol=1e-9)
    assert gain[-1] > 0.5 * target.emulator.sd  # outside the box of the design, too
    deviation, gradient = target.deviation(np.array([900.0, -900.0, 900.0]))
    assert 0.0 < deviation <= target.emulator.sd
    assert_array_equal(gradient, 0.0)


def test_ceiling_is_the_evaluated_and_corrected_density_of_the_best_point():
    plain, theta = posterior(power=0.7), typical(200, seed=18)
    corrected = np.median(plain.log_prob(theta)) / 0.7
    evaluated = corrected - float(plain.correction.value(theta[0]))
    capped = plain.with_ceiling(SimpleNamespace(theta=theta[0], log_density=evaluated))
    expected = np.minimum(plain.log_prob(theta), 0.7 * corrected)
    assert_allclose(capped.log_prob(theta), expected, rtol=1e-12)
    assert np.count_nonzero(expected < plain.log_prob(theta)) == 100


def test_floor_bounds_the_emulated_likelihood():
    target = posterior(log_floor=-110.0)
    theta = typical(300, seed=15, spread=4.0)
    log_lik = target.log_prob(theta) - PRIOR.log_prob(theta)
    assert log_lik.min() >= -110.0
    assert log_lik.min() < -109.9
    inside = target.emulator.value(CENTER) + target.correction.value(CENTER)
    assert log_lik.max() > inside - 10.0


def test_emulated_posterior_has_no_density_outside_the_prior():
    bounded = HyperPrior(NAMES, {**PRIOR.distributions, "a": stats.uniform(0.5, 5.0)})
    target = replace(posterior(), hyperprior=bounded)
    value, gradient = target.value_and_gradient(np.array([CENTER, [np.log(6.0), -0.5, 0.3]]))
    assert np.isfinite(value[0])
    assert value[1] == -np.inf
    assert np.isfinite(gradient).all()


def test_emulated_posterior_of_a_batch_equals_that_of_its_rows():
    target, theta = posterior(log_floor=-110.0, power=0.7), typical(60, seed=16, spread=3.0)
    check_batch(target.value_and_gradient, theta, 1e-8)
    assert_allclose(target.log_prob(theta), target.value_and_gradient(theta)[0], atol=1e-9)


def test_emulator_learns_a_length_scale_for_each_coordinate():
    """A function that is wiggly in one direction and all but flat in another."""
    theta = typical(80, seed=6, spread=1.5)
    z = (theta - CENTER) / SD
    values = np.sin(2.0 * z[:, 0]) - 0.02 * z[:, 1] ** 2
    gradients = np.stack([2.0 * np.cos(2.0 * z[:, 0]), -0.04 * z[:, 1], 0.0 * z[:, 2]], axis=1) / SD
    emulator = emulate(theta, values, gradients)
    length_scales = emulator.coordinates.scale / SD
    assert length_scales[0] < 0.5 * length_scales[1]
    assert length_scales[0] < 0.5 * length_scales[2]
