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


def test_arrays_of_a_design():
    assert len(DESIGN) == 5
    assert DESIGN.theta.shape == (5, 2)
    assert_array_equal(DESIGN.values, [-10.0, -9.0, -12.0, -30.0, -8.0])
    assert_array_equal(DESIGN.gradients, -DESIGN.theta)
    assert_array_equal(DESIGN.log_density, [-10.0, -9.0, -12.0, -30.0, -68.0])
    assert DESIGN.best is DESIGN.points[1]
    longer = DESIGN.with_points([point([1.0, 1.0], -5.0)])
    assert (len(longer), len(DESIGN)) == (6, 5)
    assert longer.best is longer.points[5]


def test_what_is_not_too_far_below_the_best():
    """By the density: a log evidence that the prior contradicts is of no use."""
    assert thetas(DESIGN.above(5.0)) == [(0.0, 0.0), (0.0, 0.05), (2.0, 0.0)]
    assert thetas(DESIGN.above(50.0)) == thetas(Design(DESIGN.points[:4]))


OPTIONS = EmulatorOptions()


@in_one_test("most", [1, 2, 10, 40])
def test_the_points_of_use_are_not_too_many(most):
    """Those that are farthest from any better one, and the best of all."""
    rng = np.random.default_rng(0)
    design = Design(tuple(point(t, -float(t @ t)) for t in rng.standard_normal((200, 3))))
    thinned = design.thin(np.ones(3), EmulatorOptions(most_values=4 * most))
    assert len(thinned) == most
    assert thinned.best is design.best


def test_a_design_point_keeps_what_an_evaluation_found():
    model = make_model(*toy_classes(15, 2, seed=1))
    theta = np.array([0.7, -0.4])
    start = EP().fit(model, theta + 0.1).q.sites
    kept = fit_design_point(model, EP(tol=1e-6), OPTIONS, theta, start)
    assert_array_equal(kept.theta, theta)
    again = EP(tol=1e-6).fit(model, theta, kept.sites)
    assert kept.log_evidence == pytest.approx(again.log_evidence, abs=1e-6)
    assert kept.log_density == pytest.approx(kept.log_evidence + model.hyperprior.log_prob(theta))
    assert_allclose(kept.skewness, again.q.skewness(model), atol=1e-6)

    def evidence(theta):
        return EP(tol=1e-9).fit(model, theta).log_evidence

    assert_allclose(kept.gradient, finite_difference(evidence, theta), rtol=1e-3)


def test_no_design_point_where_there_is_no_density():
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
        ((0.0, 1.0), 5.0, [0.0, 1.0]),
        ((0.0, *15 * (-0.1,), 1.0), 5.0, [0.0]),
        ((0.0, 1.0, 1.05), 5.0, [0.0, 1.0]),
        ((0.0, 1.05, -0.1, 1.0), 5.0, [0.0, 1.05]),
        ((0.0, 9.0), 0.0, [0.0]),
    ],
    ids=["near", "parted", "much lower", "found twice", "mixed", "far"],
)
def test_modes_are_told_apart_by_a_valley(first, depth, expected):
    modes = places(*first).modes(np.ones(2), valley(depth), EmulatorOptions())
    assert_array_equal(modes[:, 0], expected)


def test_modes_are_found_among_points_that_no_search_ended_at():
    """Two modes, and points of both: the best of all, and a point near the top of the other."""

    def log_prob(theta):
        return np.logaddexp(*(-2.0 * ((theta - m) ** 2).sum(axis=-1) for m in (0.0, 4.0)))

    rng = np.random.default_rng(0)
    theta = np.concatenate([m + 0.5 * rng.standard_normal((20, 2)) for m in (0.0, 4.0)])
    heights = log_prob(theta)
    design = Design(tuple(point(t, h) for t, h in zip(theta, heights, strict=True)))
    modes = design.modes(np.ones(2), log_prob, EmulatorOptions())
    assert len(modes) == 2
    assert_array_equal(modes[0], theta[heights.argmax()])
    other = 4.0 - 4.0 * (modes[0] > 2.0)
    assert_allclose(modes[1], other, atol=0.6)


def test_many_points_compare_few_of_them():
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


def test_points_are_spread_out():
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


def test_no_more_points_than_candidates():
    assert len(choose_spread_out(np.eye(3), np.zeros((1, 3)), 8)) == 3


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


@in_one_test("n_sequential", [0, 10])
def test_a_probe_is_one_long_estimate(model, reference, n_sequential):
    variant = replace(reference, sequential_rows=np.arange(n_sequential))
    probe = estimate_at(model, variant, THETA, wanted(), 512, np.random.SeedSequence(2))
    rng = np.random.default_rng(3)
    exact = importance_estimate(model, variant.at(model, THETA), 50_000, rng, defensive=0.05)
    assert abs(probe.log_likelihood - exact.log_likelihood) < 4.0 * probe.noise + 0.01
    n_draws = np.exp(probe.log_variance) / probe.noise**2
    assert n_draws == pytest.approx(round(n_draws), rel=1e-9)
    assert round(n_draws) == 512


def test_equal_seeds_give_equal_probes(model, reference):
    first, second, other = (
        estimate_at(model, reference, THETA, wanted(), 512, np.random.SeedSequence(seed))
        for seed in (3, 3, 4)
    )
    assert first == second != other


def test_equal_rows_are_probed_as_all_others_are(reference):
    X, y = toy_classes(20, 2, seed=4)
    X[3] = X[7]
    X[4] = X[7]
    singular = make_model(X, y)
    arguments = (singular, reference, THETA, wanted(), 512, np.random.SeedSequence(0))
    probe = estimate_at(*arguments)
    q = EP().fit(singular, THETA).q
    exact = importance_estimate(singular, q, 50_000, np.random.default_rng(3), defensive=0.05)
    assert abs(probe.log_likelihood - exact.log_likelihood) < 4.0 * probe.noise + 0.01


def test_no_probes_where_K_is_no_covariance(model, reference):
    wrong = model.with_nugget(-0.5)
    arguments = (wrong, reference, THETA, wanted(), 512, np.random.SeedSequence(0))
    assert estimate_at(*arguments) is None


def test_no_probes_where_no_draw_has_a_likelihood(model, reference, monkeypatch):
    """As with counts and latent values of 1e15: no number is made of weights that are all zero."""
    monkeypatch.setattr(Probit, "log_prob", lambda self, y, f: np.full(np.shape(f), -np.inf))
    arguments = (model, reference, THETA, wanted(), 512, np.random.SeedSequence(0))
    assert estimate_at(*arguments) is None


# --- the number of draws --------------------------------------------------------------------------


def test_the_count_follows_what_probes_found():
    """The log of a relative variance that is linear in theta, seen with some error."""
    rng = np.random.default_rng(0)
    theta = CENTER + SCALE * rng.uniform(-2.0, 2.0, size=(30, 2))
    z = (theta - CENTER) / SCALE
    log_variance = 1.0 + 0.8 * z[:, 0] + 0.1 * rng.standard_normal(30)
    count = calibrate_draw_count(theta, log_variance, CENTER, SCALE, 1000, 0.1, 1.0, OPTIONS)
    for place in ([0.0, 0.0], [1.5, -1.0]):
        expected = np.exp(1.0 + 0.8 * place[0]) / 0.1**2
        assert count.at(CENTER + SCALE * place) == pytest.approx(expected, rel=0.2)
    assert (
        calibrate_draw_count(theta, log_variance, CENTER, SCALE, 50, 9.0, 1.0, OPTIONS).at(CENTER)
        == OPTIONS.fewest_draws
    )


@in_one_test("n", [3, 200, 1000, 10**5])
def test_particles_take_no_more_memory_than_K_and_are_not_dearer_than_a_factorization(n):
    theta = CENTER + SCALE * np.random.default_rng(0).uniform(-2.0, 2.0, size=(10, 2))
    most = calibrate_draw_count(theta, np.full(10, 50.0), CENTER, SCALE, n, 0.1, 1.0, OPTIONS).at(
        CENTER
    )
    assert most == max(n, OPTIONS.n_draws)


def count_of(constant, slope=0.0, target_sd=0.5, lowest=4, highest=1000):
    law = Quadratic(np.zeros(1), np.ones(1), constant, np.array([slope]), np.zeros((1, 1)))
    return DrawCount(law, target_sd, lowest, highest)


def test_the_count_is_variance_over_squared_noise():
    assert count_of(np.log(9.9)).at(np.zeros(1)) == 40
    count = count_of(np.log(10.0), slope=0.5)
    counts = [count.at(np.array([u])) for u in (-1.0, 0.0, 1.0)]
    assert_allclose(counts, 40.0 * np.exp([-0.5, 0.0, 0.5]), rtol=0.05)


@in_one_test(("constant", "expected"), [(-80.0, 4), (9.0, 1000), (2000.0, 1000)])
def test_the_count_has_bounds(constant, expected):
    count = count_of(constant).at(np.zeros(1))
    assert count == expected
    assert isinstance(count, int)


def test_the_count_is_constant_far_away():
    count = count_of(np.log(5.0), slope=0.3)
    assert count.at(np.array([3.0])) == count.at(np.array([50.0]))
