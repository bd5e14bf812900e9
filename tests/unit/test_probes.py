"""Design points, probes of the estimate, and the number of draws that follows from them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import (
    EP,
    HyperPosterior,
    InterpolatedSites,
    Shape,
    Sites,
    importance_estimate,
    interpolated,
)
from skgpmcmc.approximations.interpolated import (
    SHARES,
    SWEEPS,
    TURNS,
    Quadratic,
    best_share,
    log_relative_variances,
    variances_of_variants,
)
from skgpmcmc.likelihoods import Probit
from skgpmcmc.transitions import DrawCount
from skgpmcmc.warmup.emulator import probe
from skgpmcmc.warmup.emulator.design import Design, DesignPoint, of_design, spread_out
from skgpmcmc.warmup.emulator.probe import (
    FEWEST_DRAWS,
    VARIANTS,
    cheapest_plan,
    compare_variants,
    goals,
    most_draws,
    plan_for,
    take_probe,
)
from skgpmcmc.warmup.report import EmulatorSettings

from ..helpers import in_one_test, make_model, toy_classes

# --- design ---------------------------------------------------------------------------------------


def point(theta, log_evidence, log_prior=0.0):
    theta = np.asarray(theta, dtype=float)
    sites, shape = Sites(np.zeros(2), np.ones(2)), Shape(np.ones(2), np.zeros(2))
    return DesignPoint(theta, log_evidence, -theta, log_evidence + log_prior, sites, shape)


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
    longer = DESIGN.joined([point([1.0, 1.0], -5.0)])
    assert (len(longer), len(DESIGN)) == (6, 5)
    assert longer.best is longer.points[5]


def test_what_is_plausible_and_what_is_believable():
    assert thetas(DESIGN.plausible(5.0)) == [(0.0, 0.0), (0.0, 0.05), (2.0, 0.0)]
    assert thetas(DESIGN.believable(50.0)) == thetas(Design(DESIGN.points[:4]))


def test_thinning_keeps_the_better_of_neighbors():
    thinned = DESIGN.thinned(np.ones(2), 100)
    assert thetas(thinned) == [(0.0, 0.05), (2.0, 0.0), (0.0, 3.0), (-4.0, 0.0)]
    assert len(DESIGN.thinned(np.full(2, 0.01), 100)) == 5  # far from each other in this scale


@in_one_test("most", [1, 2, 10, 40])
def test_thinning_to_a_number(most):
    rng = np.random.default_rng(0)
    design = Design(tuple(point(t, -float(t @ t)) for t in rng.standard_normal((200, 3))))
    thinned = design.thinned(np.ones(3), 4 * most)  # a value and three derivatives each
    assert 1 <= len(thinned) <= most
    assert thinned.best is design.best
    assert len(thinned) > 0.5 * most


def test_nearest():
    assert DESIGN.nearest(np.array([1.9, 1.0]), np.ones(2)) is DESIGN.points[2]
    assert DESIGN.nearest(np.array([1.9, 1.0]), np.array([10.0, 0.5])) is DESIGN.points[1]


def test_a_design_point_keeps_what_an_evaluation_found():
    model = make_model(*toy_classes(15, 2, seed=1))
    theta = np.array([0.7, -0.4])
    kept = DesignPoint.of(HyperPosterior(model, EP(tol=1e-6), keep=of_design).at(theta))
    assert_array_equal(kept.theta, theta)
    assert kept.log_density == pytest.approx(kept.log_evidence + model.hyperprior.log_prob(theta))
    again = EP(tol=1e-6).fit(model, theta, kept.sites)
    assert again.log_evidence == pytest.approx(kept.log_evidence, abs=1e-6)


def test_points_are_spread_out():
    candidates = np.array([[0.0], [0.1], [1.0], [5.0], [5.1]])
    assert_array_equal(spread_out(candidates, np.array([[0.0]]), 2), [4, 2])
    rng = np.random.default_rng(1)
    candidates, present = rng.standard_normal((100, 3)), rng.standard_normal((10, 3))
    chosen = spread_out(candidates, present, 15)
    assert len(set(chosen.tolist())) == 15

    def smallest_gap(indices):
        there = np.concatenate([present, candidates[indices]])
        gaps = np.linalg.norm(there[:, None] - there, axis=2)[len(present) :]
        return np.sort(gaps, axis=1)[:, 1].min()

    assert smallest_gap(chosen) > 2.0 * smallest_gap(rng.permutation(100)[:15])


def test_no_more_points_than_candidates():
    assert len(spread_out(np.eye(3), np.zeros((1, 3)), 8)) == 3


# --- probes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return make_model(*toy_classes(20, 2, seed=4))


CENTER, SCALE = np.array([0.7, -0.9]), np.array([0.4, 0.3])


@pytest.fixture(scope="module")
def reference(model):
    """Of EP, at a few points, with all of its skewness."""
    thetas = CENTER + SCALE * np.random.default_rng(1).uniform(-1.5, 1.5, size=(12, 2))
    fits = [EP(tol=1e-4).fit(model, theta).q for theta in thetas]
    return InterpolatedSites.fit(
        EP(),
        thetas,
        [q.sites for q in fits],
        [q.shape(model) for q in fits],
        CENTER,
        SCALE,
        strength=1.0,
    )


THETA = np.array([0.5, -1.0])


def wanted(noise=0.1, **more):
    """What a sampler asks for."""
    return EmulatorSettings(noise, 0.05, None, emulates=True, **more)


def test_variants_are_compared_by_the_variance_of_a_weight(model, reference):
    """Where weights have no long tail, of which a few hundred draws know nothing."""
    seed = np.random.SeedSequence(0)
    found = compare_variants(model, reference, THETA, wanted(0.01), seed)
    assert found.shape == (len(SWEEPS), len(SHARES))
    for n_sweeps, (log_variance, *_) in zip(SWEEPS, found, strict=True):
        # With more skewness there are rare weights, which 256 draws miss.
        variant = replace(reference.with_strength(0.0), n_sweeps=n_sweeps)
        rng = np.random.default_rng(1)
        estimate = importance_estimate(model, variant.at(model, THETA), 20_000, rng, defensive=0.05)
        weights = np.exp(estimate.log_weights - estimate.log_likelihood)
        assert log_variance == pytest.approx(np.log(weights.var()), abs=0.8)


def test_rows_in_turn_are_compared_by_the_variance_of_a_weight(model, reference):
    """Those between the ends, too, from which no draw comes."""
    turns = np.random.default_rng(0).permutation(20)
    every, rng = replace(reference.with_strength(0.0), turns=turns), np.random.default_rng(0)
    found = variances_of_variants(
        every, model, THETA, 20_000, rng, defensive=0.05, enough=(0.0, 0.0)
    )
    for count, log_variance in zip(TURNS[:3], found[0, :3], strict=True):
        variant = replace(reference.with_strength(0.0), turns=turns[:count])
        rng = np.random.default_rng(1)
        estimate = importance_estimate(model, variant.at(model, THETA), 20_000, rng, defensive=0.05)
        weights = np.exp(estimate.log_weights - estimate.log_likelihood)
        assert log_variance == pytest.approx(np.log(weights.var()), abs=0.25)
    assert np.all(np.diff(found[0, :3]) < 0.0)
    assert_allclose(found[:, 3:], found[:, [2, 2]], atol=1e-9)  # there are no more than 20 rows


def test_variants_that_cannot_pay_are_not_tried(model, reference, monkeypatch):
    """A sweep costs as much as n draws, and no estimate has fewer than `FEWEST_DRAWS`."""

    def compared(noise):
        return compare_variants(model, reference, THETA, wanted(noise), np.random.SeedSequence(0))

    monkeypatch.setattr(probe, "FEWEST_DRAWS", 2)
    one = compared(10.0)
    assert len(np.unique(one)) == 1
    some = compared(np.sqrt(np.exp(one[0, 0])))  # about four draws are wanted; n is 20
    assert len(np.unique(some[0])) == len(SHARES)
    assert_array_equal(some[1], some[0])
    every = compared(0.01)
    assert len(np.unique(every)) == len(SWEEPS) * len(SHARES)


@pytest.mark.parametrize(
    ("noise", "looks"), [(10.0, [(1, 64), (1, 192)]), (0.01, [(1, 64), (5, 256), (6, 256)])]
)
def test_a_hopeless_gaussian_is_seen_by_few_draws(model, reference, monkeypatch, noise, looks):
    """One that may do is looked at again, by the rest of its draws."""
    seen = []

    def looked(model, densities, n_draws, **settings):
        seen.append((len(densities), n_draws))
        return log_relative_variances(model, densities, n_draws, **settings)

    monkeypatch.setattr(interpolated, "log_relative_variances", looked)
    compare_variants(model, reference, THETA, wanted(noise), np.random.SeedSequence(0))
    assert seen == looks


def test_the_best_share_is_where_the_variance_is_least():
    """Of parabolas whose minimum moves with theta; beyond the ends it is an end."""
    theta = CENTER + SCALE * np.random.default_rng(0).uniform(-2.0, 2.0, size=(40, 2))
    best = 0.4 + 0.2 * (theta[:, 0] - CENTER[0]) / SCALE[0]
    log_variance = 20.0 * (np.array(SHARES) - best[:, None]) ** 2 + theta[:, 1:]
    share = best_share(theta, log_variance, CENTER, SCALE)
    error = share.value(theta) - np.clip(best, 0.0, 1.0)
    assert abs(error).max() < 0.08
    upside_down = best_share(theta, -log_variance[:, ::-1], CENTER, SCALE).value(theta)
    assert np.all((upside_down > -0.5) & (upside_down < 1.5))


def test_flat_variances_say_little_of_the_best_share():
    theta = CENTER + SCALE * np.random.default_rng(0).uniform(-2.0, 2.0, size=(40, 2))
    log_variance = np.full((40, len(SHARES)), -2.0)
    log_variance[:4] = 20.0 * (np.array(SHARES) - 0.75) ** 2
    assert_allclose(best_share(theta, log_variance, CENTER, SCALE).value(theta), 0.75, atol=0.05)


@in_one_test("end", [0, 1])
def test_a_variance_that_falls_to_an_end_makes_that_the_best_share(end):
    theta = CENTER + SCALE * np.random.default_rng(0).uniform(-2.0, 2.0, size=(10, 2))
    falling = np.sqrt(abs(np.array(SHARES) - end))  # concave: no parabola has a minimum there
    log_variance = np.tile(4.0 * falling, (10, 1))
    assert_allclose(best_share(theta, log_variance, CENTER, SCALE).value(theta), end, atol=1e-6)


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_a_probe_is_one_long_estimate(model, reference, strength):
    """As long as it takes: at 0.1, noise does not matter any more."""
    variant = reference.with_strength(strength)
    probe = take_probe(model, variant, THETA, wanted(), np.random.SeedSequence(2))
    rng = np.random.default_rng(3)
    exact = importance_estimate(model, variant.at(model, THETA), 50_000, rng, defensive=0.05)
    assert abs(probe.log_likelihood - exact.log_likelihood) < 4.0 * probe.noise + 0.01
    n_draws = np.exp(probe.log_variance) / probe.noise**2
    assert n_draws == pytest.approx(round(n_draws), rel=1e-9)
    assert 256 <= round(n_draws) <= 4096
    assert probe.noise < 0.14 or round(n_draws) == 4096  # it was 0.1 when 256 draws were taken


def test_equal_seeds_give_equal_probes(model, reference):
    def both(seed):
        arguments = (model, reference, THETA, wanted())
        return (
            compare_variants(*arguments, np.random.SeedSequence(seed)),
            take_probe(*arguments, np.random.SeedSequence(seed)),
        )

    first, second, other = both(3), both(3), both(4)
    assert_array_equal(first[0], second[0])
    assert first[1] == second[1] != other[1]


def test_equal_rows_are_probed_as_all_others_are(reference):
    X, y = toy_classes(20, 2, seed=4)
    X[3] = X[7]
    X[4] = X[7]
    singular = make_model(X, y)
    arguments = (singular, reference, THETA, wanted(), np.random.SeedSequence(0))
    assert compare_variants(*arguments) is not None
    probe = take_probe(*arguments)
    q = EP().fit(singular, THETA).q
    exact = importance_estimate(singular, q, 50_000, np.random.default_rng(3), defensive=0.05)
    assert abs(probe.log_likelihood - exact.log_likelihood) < 4.0 * probe.noise + 0.01


def test_no_probes_where_K_is_no_covariance(model, reference):
    wrong = model.with_nugget(-0.5)
    arguments = (wrong, reference, THETA, wanted(), np.random.SeedSequence(0))
    assert compare_variants(*arguments) is None
    assert take_probe(*arguments) is None


def test_no_probes_where_no_draw_has_a_likelihood(model, reference, monkeypatch):
    """As with counts and latent values of 1e15: no number is made of weights that are all zero."""
    monkeypatch.setattr(Probit, "log_prob", lambda self, y, f: np.full(np.shape(f), -np.inf))
    arguments = (model, reference, THETA, wanted(), np.random.SeedSequence(0))
    assert compare_variants(*arguments) is None
    assert take_probe(*arguments) is None


def planned(rows, excess=None, coupled=False, in_turn=False, few=True):
    """Variant and share of the skewness chosen by rows (m, 2, 5) at m places."""
    theta = CENTER + SCALE * np.random.default_rng(0).uniform(-2.0, 2.0, size=(len(rows), 2))
    known = SimpleNamespace(
        design=SimpleNamespace(best=SimpleNamespace(theta=CENTER)),
        scale=SCALE,
        coupled=coupled,
        in_turn=in_turn,
        few=few,
        model=SimpleNamespace(n_inputs=200),
    )
    excess = np.zeros(len(rows)) if excess is None else excess
    places = [SimpleNamespace(theta=t, promised=e) for t, e in zip(theta, excess, strict=True)]
    target = SimpleNamespace(excess=lambda place: place.promised)
    compared = list(zip(places, rows, strict=True))
    plan, strength = probe._planned(known, target, compared, wanted(0.24))
    share = strength if strength == 0.0 else float(strength.value(CENTER))
    return VARIANTS[plan.variant], share


def parabola(best, lowest, steepness=40.0):
    return lowest + steepness * (np.array(SHARES) - best) ** 2


def test_skewness_is_chosen_where_it_makes_weights_even():
    """Not where a Gaussian is as good; with a sweep where only that helps."""
    none, some = parabola(0.0, -3.0), parabola(0.75, -3.0)
    rows = {
        (0, False): [none, none - 0.1],
        (0, True): [some, some - 0.1],
        (1, False): [none + 9.0, none],
        (1, True): [some + 9.0, some],
    }
    for variant, row in rows.items():
        found, share = planned(np.tile(row, (12, 1, 1)))
        assert found == (*variant, 0)
        assert share == pytest.approx(0.75 if variant[1] else 0.0, abs=0.05)


@pytest.mark.parametrize("n_turns", TURNS[1:])
def test_rows_come_in_turn_where_that_makes_weights_even(n_turns):
    """As many as it takes, and no more; with a sweep where only that helps."""
    row = np.where(np.array(TURNS) < n_turns, 6.0, -3.0)
    assert planned(np.tile([row, row], (12, 1, 1)), in_turn=True)[0] == (0, False, n_turns)
    swept = np.tile([row + 9.0, row], (12, 1, 1))
    assert planned(swept, in_turn=True) == ((1, False, n_turns), 0.0)
    even = np.tile(-3.0, (12, 2, 5))
    assert planned(even, in_turn=True) == ((0, False, 0), 0.0)
    even[3, :, 0] = 0.5  # at one place weights of a Gaussian vary: chains could stay there
    assert planned(even, in_turn=True) == ((0, False, 16), 0.0)


@in_one_test(("n_turns", "taken"), [(0, 0), (16, 64), (32, 64), (64, 64), (128, 128)])
def test_few_rows_in_turn_are_not_trusted_with_many_hyperparameters(n_turns, taken):
    """But a Gaussian is, where its weights vary nowhere: rows in turn have nothing to mend."""
    row = np.where(np.array(TURNS) < n_turns, 6.0, -3.0)
    rows = np.tile([row, row], (12, 1, 1))
    assert planned(rows, in_turn=True, few=False) == ((0, False, taken), 0.0)


def test_places_that_pi_star_promises_too_much_do_not_choose():
    rows = np.tile([parabola(0.75, -3.0)] * 2, (12, 1, 1))
    excess = np.zeros(12)
    rows[6:], excess[6:] = parabola(0.0, 30.0, 400.0), 9.0
    assert planned(rows, excess)[0] == (0, True, 0)
    assert planned(rows, excess) == planned(rows[:6])
    excess[6:] = 0.0
    assert planned(rows, excess) != planned(rows[:6])


def test_tails_are_compared_with_their_own_sites(monkeypatch):
    """They have joined the design by then; draws from pi* have not."""
    compare, known_then, places = probe._comparisons, [], []

    def look(known, thetas, settings):
        nodes = known.design.theta
        places.extend(map(tuple, thetas))
        known_then.append([bool((nodes == theta).all(axis=1).any()) for theta in thetas])
        return compare(known, thetas, settings)

    monkeypatch.setattr(probe, "_comparisons", look)
    X, y = toy_classes(20, 2, seed=4)
    with pytest.warns(ConvergenceWarning):
        BayesianGPClassifier(n_chains=2, n_draws=2, n_jobs=1, random_state=0).fit(X, y)
    draws, tails = known_then
    assert len(draws) == 8
    assert not any(draws)
    assert len(tails) == 6
    assert all(tails)
    assert len(set(places)) == len(draws) + len(tails)


def test_coupled_sites_have_no_skewness():
    rows = np.full((12, len(SWEEPS), len(SHARES)), np.inf)
    rows[:, :, 0] = 1.0
    assert planned(rows, coupled=True) == ((0, False, 0), 0.0)


# --- the number of draws --------------------------------------------------------------------------


def operations(log_variance, plan, n):
    """Average cost of an evaluation, as `plan_for` states it."""
    n_sweeps, skewed, n_turns = VARIANTS[plan.variant]
    variance = np.exp(log_variance[:, plan.variant])
    counts = np.clip(variance / plan.noise**2, FEWEST_DRAWS, plan.most)
    share = counts.mean() / n
    if plan.whitened:
        return 3.0 + 2.0 * n_sweeps + (3.0 if skewed else 2.0) * share + min(n_turns, n) / n
    assert plan.variant == 0
    assert share <= 0.1
    return 2.0 + 4.0 * share


def levels(**of_variant):
    """Log variances of all variants, 3.0 unless told otherwise: plain=..., sweep=..., skewed=..."""
    places = {"plain": (0, False, 0), "sweep": (1, False, 0), "skewed": (0, True, 0)}
    row = np.full(len(VARIANTS), 3.0)
    for name, level in of_variant.items():
        row[VARIANTS.index(places[name])] = level
    return np.tile(row, (20, 1))


def chosen(log_variance, n=200):
    return VARIANTS[cheapest_plan(log_variance, n, 0.08).variant]


def test_little_noise_needs_neither_sweep_nor_skewness():
    plan = cheapest_plan(levels(plain=-4.0, sweep=-4.5, skewed=-4.0), 200, 0.08)
    assert plan[:3] == (0, 0.08, 1000)


def test_what_removes_the_noise_is_worth_its_cost():
    assert chosen(levels(sweep=-4.0)) == (1, False, 0)
    assert chosen(levels(skewed=-4.0)) == (0, True, 0)


def test_plans_whose_every_move_would_be_rejected_have_a_score():
    hopeless = np.full((20, len(VARIANTS)), 600.0)
    assert np.isfinite(cheapest_plan(hopeless, 12, 0.08).score)


def test_what_changes_nothing_is_not():
    assert chosen(np.full((20, len(VARIANTS)), 0.5)) == (0, False, 0)


def test_a_plan_costs_more_where_chains_would_stay():
    """At six operations N is 300, and the noise 0.7."""
    log_variance = np.full((30, len(VARIANTS)), 5.0)
    plan = cheapest_plan(log_variance, 200, 0.08)
    noise = np.sqrt(np.exp(5.0) / plan.most)
    assert noise < 0.5
    assert 6.0 < operations(log_variance, plan, 200) < 20.0


def test_less_noise_is_tried_where_chains_stay_longer():
    """With many hyper-parameters, or a softmax, which may have more operations."""
    settings = EmulatorSettings(0.3, 0.05, None, emulates=True)
    noise, budget, quiet = {}, {}, {}
    for key in ((True, False), (True, True), (False, False), (False, True)):
        known = SimpleNamespace(few=key[0], coupled=key[1])
        noise[key], budget[key], quiet[key] = goals(settings, known)
    assert set(noise.values()) == {0.3}
    assert [key for key, value in quiet.items() if not value] == [(True, False)]
    assert budget[True, True] > budget[True, False] == budget[False, False]
    log_variance = np.full(20, -2.0)
    for variant in range(len(VARIANTS)):
        assert plan_for(variant, log_variance, 200, 0.3).noise == 0.3
        assert plan_for(variant, log_variance, 200, 0.3, quiet=True).noise == 0.15


@in_one_test("level", [-5.0, -2.0, 0.0, 2.0])
@in_one_test("n", [50, 200, 1000])
def test_a_plan_keeps_to_its_costs(level, n):
    log_variance = level + np.random.default_rng(0).normal(size=(30, len(VARIANTS)))
    plan = cheapest_plan(log_variance, n, 0.16)
    assert plan.noise >= 0.08
    assert plan.most >= FEWEST_DRAWS
    if n > 100:  # the fewest draws alone cost more than that for small n
        calls = 0.25 * probe._CALLS / n**3  # draws may take longer where calls do
        assert operations(log_variance, plan, n) <= probe._MOST_OPERATIONS + calls


@in_one_test("n", [3, 200, 1000, 3000, 10**7])
def test_particles_fit_in_memory(n):
    assert FEWEST_DRAWS <= most_draws(n) <= max(1000, 4 * n)
    assert n * most_draws(n, 4.0) <= max(4_000_000, n * FEWEST_DRAWS)
    assert most_draws(n, 4.0) >= most_draws(n)
    plan = cheapest_plan(levels(), n, 0.08)
    assert plan.most <= most_draws(n)


def test_tiny_data_sets_have_a_plan():
    plan = cheapest_plan(levels(), 3, 0.08)
    assert plan.most >= FEWEST_DRAWS


def draw_count(constant, slope=0.0, target_sd=0.5, lowest=4, highest=1000):
    law = Quadratic(np.zeros(1), np.ones(1), constant, np.array([slope]), np.zeros((1, 1)))
    return DrawCount(law, target_sd, lowest, highest)


def test_the_count_is_variance_over_squared_noise():
    assert draw_count(np.log(9.9)).at(np.zeros(1)) == 40
    count = draw_count(np.log(10.0), slope=0.5)
    counts = [count.at(np.array([u])) for u in (-1.0, 0.0, 1.0)]
    assert_allclose(counts, 40.0 * np.exp([-0.5, 0.0, 0.5]), rtol=0.05)


@in_one_test(("constant", "expected"), [(-80.0, 4), (9.0, 1000), (2000.0, 1000)])
def test_the_count_has_bounds(constant, expected):
    count = draw_count(constant).at(np.zeros(1))
    assert count == expected
    assert isinstance(count, int)


def test_the_count_is_constant_far_away():
    count = draw_count(np.log(5.0), slope=0.3)
    assert count.at(np.array([3.0])) == count.at(np.array([50.0]))


def test_a_count_may_be_large_where_that_is_rare():
    """Its mean over the posterior grows by a tenth at most."""
    count = draw_count(-7.0, slope=4.0, target_sd=0.2, lowest=32, highest=400)
    draws = np.random.default_rng(0).standard_normal((5000, 1))

    def mean(count):
        return np.mean([count.at(theta) for theta in draws])

    raised = count.raised(draws, 10**6)
    assert raised.highest == 1600
    assert mean(count) < mean(raised) < 1.1 * mean(count)
    assert mean(replace(count, highest=2 * raised.highest)) > 1.1 * mean(count)
    assert count.raised(draws, 500).highest == 500
    assert count.raised(draws, 10).highest == 400
    assert count.raised(draws + 3.0, 10**6).highest == 400  # not rare


def test_variants_that_do_not_exist_are_not_chosen():
    log_variance = levels(plain=4.0, sweep=4.0)
    log_variance[:, [variant.skewed for variant in VARIANTS]] = np.inf
    for budget in np.linspace(4.0, 12.0, 9):
        plan = cheapest_plan(log_variance, 100, 0.12, budget)
        assert not VARIANTS[plan.variant].skewed


#: Relative variances with 16, 32, 64 and 128 rows in turn: found at 14 places of a posterior with
#: ten features and default priors, and made up, with nothing that is rare.
UNEVEN = [
    [0.08, 0.09, 0.11, 0.13, 0.19, 0.27, 0.64, 0.71, 1.47, 1.88, 6.08, 10.94, 76.47, 80.9],
    [0.08, 0.09, 0.11, 0.13, 0.19, 0.23, 0.49, 0.53, 0.92, 1.31, 4.04, 7.6, 21.34, 30.86],
    [0.08, 0.09, 0.11, 0.13, 0.19, 0.21, 0.32, 0.33, 0.71, 0.82, 1.91, 3.39, 7.31, 10.41],
    [0.08, 0.09, 0.11, 0.13, 0.16, 0.18, 0.19, 0.2, 0.33, 0.35, 0.41, 0.42, 0.48, 0.55],
]
EVEN = [
    [0.31, 0.37, 0.44, 0.62, 0.71, 0.81, 1.0, 1.4, 1.9, 2.2],
    [0.31, 0.36, 0.42, 0.58, 0.69, 0.77, 0.95, 1.3, 1.8, 1.9],
    [0.31, 0.35, 0.4, 0.53, 0.62, 0.7, 0.87, 1.1, 1.3, 1.4],
    [0.31, 0.35, 0.4, 0.52, 0.6, 0.68, 0.83, 1.0, 1.1, 1.2],
]


@in_one_test(("found", "turns"), [(UNEVEN, 128), (EVEN, 16)], ids=["uneven", "even"])
def test_near_ties_go_to_even_weights(found, turns):
    """With 32 rows in turn and the first of these, a chain stayed for 49 iterations."""
    log_variance = np.full((len(found[0]), len(VARIANTS)), np.inf)
    for count, column in zip(TURNS[1:], found, strict=True):
        log_variance[:, VARIANTS.index((0, False, count))] = np.log(column)
    plan = cheapest_plan(log_variance, 200, 0.24, quiet=True)
    assert VARIANTS[plan.variant].n_turns == turns
