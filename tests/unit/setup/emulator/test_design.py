"""Design points and their modes, probes of the estimate, and the number of draws."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP, Sites
from skgpmcmc.importance import importance_estimate
from skgpmcmc.importance.interpolated import InterpolatedSites
from skgpmcmc.likelihoods import Probit
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.setup.emulator.design import Design, DesignPoint, choose_spread_out, fit_design_point
from skgpmcmc.setup.emulator.noise import calibrate_draw_count, estimate_at
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.report import EmulatorSettings
from skgpmcmc.transitions.pseudo_marginal import DrawCount

from ....helpers import finite_difference, in_one_test, make_model, toy_classes

# --- design ---------------------------------------------------------------------------------------


def point(theta, log_evidence, log_prior=0.0):
    theta = np.asarray(theta, dtype=float)
    sites = Sites(np.zeros(2), np.ones(2))
    return DesignPoint(theta, log_evidence, -theta, log_evidence + log_prior, sites, np.zeros(2))


DESIGN = Design(
    (
        point([0.0, 0.0], -10.0),
        point([0.0, 0.05], -9.0),
        point([2.0, 0.0], -12.0),
        point([0.0, 3.0], -30.0),
        point([-4.0, 0.0], -8.0, log_prior=-60.0),
    )
)


def thetas(design):
    return [tuple(theta) for theta in design.theta]


def test_design_leaves_out_points_far_below_the_best_density():
    """By the density: a log evidence that the prior contradicts is of no use."""
    assert DESIGN.best is DESIGN.points[1]
    assert thetas(DESIGN.above(5.0)) == [(0.0, 0.0), (0.0, 0.05), (2.0, 0.0)]
    assert thetas(DESIGN.above(50.0)) == thetas(Design(DESIGN.points[:4]))


OPTIONS = EmulatorOptions()


@in_one_test("most", [1, 2, 10, 40])
def test_design_keeps_a_bounded_number_of_spread_points(most):
    """Those that are farthest from any better one, and the best of all."""
    rng = np.random.default_rng(0)
    design = Design(tuple(point(t, -float(t @ t)) for t in rng.standard_normal((200, 3))))
    thinned = design.thin(np.ones(3), most)
    assert len(thinned) == most
    assert thinned.best is design.best


def test_a_design_point_has_evidence_density_skewness_and_gradient():
    model, theta = make_model(*toy_classes(15, 2, seed=1)), np.array([0.7, -0.4])
    start = EP().fit(model, theta + 0.1).q.sites
    kept = fit_design_point(model, EP(tol=1e-6), OPTIONS, theta, start)
    again = EP(tol=1e-6).fit(model, theta, kept.sites)
    assert_array_equal(kept.theta, theta)
    assert kept.log_evidence == pytest.approx(again.log_evidence, abs=1e-6)
    assert kept.log_density == pytest.approx(kept.log_evidence + model.hyperprior.log_prob(theta))
    assert_allclose(kept.skewness, again.q.skewness(model), atol=1e-6)
    expected = finite_difference(lambda t: EP(tol=1e-9).fit(model, t).log_evidence, theta)
    assert_allclose(kept.gradient, expected, rtol=1e-3)


def test_design_point_is_none_without_density():
    model = make_model(*toy_classes(15, 2, seed=1))
    sites = EP().fit(model, model.start).q.sites
    assert fit_design_point(model.with_nugget(-0.5), EP(), OPTIONS, model.start, sites) is None


# --- modes ----------------------------------------------------------------------------------------


def valley(depth, place=0.0):
    """A flat log density that is so much lower half a unit to the right of a place."""
    return lambda theta: -depth * np.exp(-(((theta[..., 0] - place - 0.5) / 0.2) ** 2))


def places(*first):
    """Design points of which each is one lower than the one before."""
    return Design(tuple(point([x, 0.0], -float(i)) for i, x in enumerate(first)))


@in_one_test(
    ("first", "depth", "expected"),
    [
        ((0.0, 1.0), 0.0, [0.0]),
        ((0.0, 1.0), 3.0, [0.0]),
        ((0.0, 1.0), 20.0, [0.0, 1.0]),
        ((0.0, *15 * (-0.1,), 1.0), 20.0, [0.0]),
        ((0.0, 1.0, 1.05), 20.0, [0.0, 1.0]),
        ((0.0, 1.05, -0.1, 1.0), 20.0, [0.0, 1.05]),
        ((0.0, 9.0), 0.0, [0.0]),
    ],
    ids=["near", "a shallow valley", "parted", "much lower", "found twice", "mixed", "far"],
)
def test_modes_are_separate_if_a_valley_lies_between(first, depth, expected):
    modes = places(*first).modes(np.ones(2), valley(depth), EmulatorOptions())
    assert_array_equal(modes[:, 0], expected)


def test_modes_of_many_points_need_few_comparisons():
    """Paths between all of them would not fit in memory."""
    first = np.random.default_rng(0).uniform(0.0, 5.0, size=400)
    n_points = []

    def counted(theta):
        n_points.append(len(theta))
        return -1e6 * np.abs(np.sin(40.0 * theta[..., 0]))

    design = Design(tuple(point([x, 0.0], -1e-3 * i) for i, x in enumerate(first)))
    modes = design.modes(np.ones(2), counted, EmulatorOptions())
    most = EmulatorOptions().batch(2) + 1
    assert most / 2 < len(modes) <= most
    assert max(n_points) < 500
    assert_array_equal(modes[0], design.best.theta)


def test_new_points_are_spread_out():
    candidates = np.array([[0.0], [0.1], [1.0], [5.0], [5.1]])
    assert_array_equal(choose_spread_out(candidates, np.array([[0.0]]), 2), [4, 2])
    rng = np.random.default_rng(1)
    candidates, present = rng.standard_normal((100, 3)), rng.standard_normal((10, 3))
    chosen = choose_spread_out(candidates, present, 15)
    assert len(set(chosen.tolist())) == 15

    def smallest_gap(indices):
        there = np.concatenate([present, candidates[indices]])
        gaps = np.linalg.norm(there[:, None] - there, axis=2)[len(present) :]
        return np.sort(gaps, axis=1)[:, 1].min()

    assert smallest_gap(chosen) > 2.0 * smallest_gap(rng.permutation(100)[:15])
    assert len(choose_spread_out(np.eye(3), np.zeros((1, 3)), 8)) == 3  # no more than there are


# --- probes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return make_model(*toy_classes(20, 2, seed=4))


CENTER, SCALE = np.array([0.7, -0.9]), np.array([0.4, 0.3])


@pytest.fixture(scope="module")
def reference(model):
    """Of EP, at a few points."""
    thetas = CENTER + SCALE * np.random.default_rng(1).uniform(-1.5, 1.5, size=(12, 2))
    sites = [EP(tol=1e-4).fit(model, theta).q.sites for theta in thetas]
    return InterpolatedSites.fit(EP(), thetas, sites, CENTER, SCALE)


THETA = np.array([0.5, -1.0])


def wanted(noise=0.1):
    """What a sampler asks for."""
    return EmulatorSettings(noise, 0.05, None, emulates=True)


def probe(model, reference, n_draws=512):
    return estimate_at(model, reference, THETA, wanted(), n_draws, np.random.SeedSequence(2))


@in_one_test(("n_sequential", "n_inputs"), [(0, 20), (10, 20), (0, 18)])
def test_probe_equals_one_long_importance_estimate(reference, n_sequential, n_inputs):
    """Where rows have equal inputs, too."""
    X, y = toy_classes(20, 2, seed=4)
    model = make_model(X[np.arange(20) % n_inputs], y)
    variant = replace(reference, sequential_rows=np.arange(n_sequential))
    found, rng = probe(model, variant), np.random.default_rng(3)
    exact = importance_estimate(model, variant.at(model, THETA), 50_000, rng, defensive=0.05)
    assert abs(found.log_likelihood - exact.log_likelihood) < 4.0 * found.noise + 0.01
    n_draws = np.exp(found.log_variance) / found.noise**2
    assert n_draws == pytest.approx(512, rel=1e-9)


class Impossible(Probit):
    def log_prob(self, y, f):
        return np.full(np.shape(f), -np.inf)


def test_probe_is_none_if_K_or_all_weights_are_useless(model, reference):
    """Of weights that are all zero, as of counts and latent values of 1e15, no number is made."""
    for wrong in (model.with_nugget(-0.5), model.with_observations(likelihood=Impossible())):
        assert probe(wrong, reference) is None


# --- the number of draws --------------------------------------------------------------------------


def calibrated(theta, log_variance, n=1000, noise=0.1, fewest=OPTIONS.fewest_draws):
    return calibrate_draw_count(theta, log_variance, CENTER, SCALE, n, noise, fewest, OPTIONS)


def test_number_of_draws_follows_the_probed_variances():
    """The log of a relative variance that is linear in theta, seen with some error."""
    rng = np.random.default_rng(0)
    theta = CENTER + SCALE * rng.uniform(-2.0, 2.0, size=(30, 2))
    log_variance = 1.0 + 0.8 * (theta[:, 0] - CENTER[0]) / SCALE[0] + 0.1 * rng.standard_normal(30)
    count = calibrated(theta, log_variance)
    for place in ([0.0, 0.0], [1.5, -1.0]):
        expected = np.exp(1.0 + 0.8 * place[0]) / 0.1**2
        assert count.at(CENTER + SCALE * place) == pytest.approx(expected, rel=0.2)
    for fewest in (OPTIONS.fewest_draws, 77):
        assert calibrated(theta, log_variance, 50, 9.0, fewest).at(CENTER) == fewest


@in_one_test("n", [3, 200, 1000, 10**5])
def test_the_number_of_draws_has_an_upper_bound(n):
    """With many rows the draws take no more memory than K."""
    theta = CENTER + SCALE * np.random.default_rng(0).uniform(-2.0, 2.0, size=(10, 2))
    assert calibrated(theta, np.full(10, 50.0), n).at(CENTER) == max(n, OPTIONS.most_draws)


@in_one_test(
    ("constant", "slope", "theta", "expected"),
    [(np.log(9.9), 0.0, 0.0, 40), (-80.0, 0.0, 0.0, 4), (2000.0, 0.0, 0.0, 1000)]
    + [(np.log(10.0), 0.5, u, 40 * np.exp(0.5 * u)) for u in (-1.0, 0.0, 1.0)]
    + [(np.log(5.0), 0.3, 50.0, 20 * np.exp(0.9))],
)
def test_number_of_draws_is_variance_over_squared_noise_within_bounds(
    constant, slope, theta, expected
):
    """Within its bounds, and constant beyond three units."""
    law = Quadratic(np.zeros(1), np.ones(1), constant, np.array([slope]), np.zeros((1, 1)))
    count = DrawCount(law, 0.5, 4, 1000).at(np.array([theta]))
    assert isinstance(count, int)
    assert count == pytest.approx(expected, rel=0.05 if slope else 1e-9)
