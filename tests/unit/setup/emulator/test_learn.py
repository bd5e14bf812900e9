"""What a set-up learns of the posterior of theta, and when it has learned enough."""

from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.chain.time_limit import TimeLimit, apply_limit
from skgpmcmc.importance.sequential import choose_sequential_rows
from skgpmcmc.model import HyperPrior, smooth_kernel
from skgpmcmc.setup import Request
from skgpmcmc.setup.emulator.design import Design, DesignPoint
from skgpmcmc.setup.emulator.learn import (
    _weigh_draws,
    learn_emulator,
    refine_design,
    weighted_sd,
)
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.emulator.posterior import EmulatedPosterior
from skgpmcmc.setup.emulator.search import find_modes
from skgpmcmc.transitions.surrogate import TMixture, independence_acceptance

from ....helpers import CutShort, in_one_test, make_model, seeded, toy_classes, z_score

OPTIONS = EmulatorOptions()
#: Nothing is learned by batches.
NO_ROUNDS = replace(OPTIONS, most_rounds=0)


def request_for(model, n_starts=4, approximation=None):
    rng = np.random.default_rng(0)
    starts = [model.hyperprior.sample(rng) for _ in range(n_starts)]
    return Request(model, approximation or Laplace(), starts, [None] * n_starts, rng, None, 0)


def refined(known, workers=None, **options):
    """After learning with other options."""
    known = replace(known, options=replace(known.options, **options))
    return refine_design(known, workers or InProcessExecutor())


@pytest.fixture(scope="module")
def begun():
    """After the searches, and with a first scale."""
    request = request_for(make_model(*toy_classes(30, 2, 0)))
    return learn_emulator(request, InProcessExecutor(), NO_ROUNDS)


@pytest.fixture(scope="module")
def complete(begun):
    return refined(begun, most_rounds=OPTIONS.most_rounds)


# --- batches, and the criterion -------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_rounds(begun):
    """Before and after the second batch: of the first, points are near the modes."""
    before = refined(begun, most_rounds=1)
    assert before.held_out[0].acceptance > OPTIONS.usable_acceptance
    return before, refined(before)


def test_held_out_points_are_compared_before_they_join_the_design(two_rounds):
    """By the emulator of the design without them; which is then what was examined."""
    before, after = two_rounds
    held_out = after.held_out[-1]
    new = after.design.points[len(before.design) :]
    assert_array_equal(held_out.theta, [point.theta for point in new])
    assert_array_equal(held_out.log_evidence, [point.log_evidence for point in new])
    emulated = before.posterior.log_evidence(held_out.theta)
    assert_allclose(held_out.posterior.log_evidence(held_out.theta), emulated, atol=1e-9)
    assert after.examined is held_out
    missed = held_out.log_evidence - emulated
    assert held_out.acceptance == pytest.approx(independence_acceptance(missed, held_out.shares))
    assert held_out.error == pytest.approx(weighted_sd(missed, held_out.shares))
    # The emulator that has learned them knows them: it is another one.
    gaps = np.abs(after.posterior.log_evidence(held_out.theta) - held_out.log_evidence)
    assert np.median(gaps) < 0.5 * np.median(np.abs(missed))


def test_points_added_later_do_not_change_the_examined_posterior(two_rounds):
    """A point that joins later, far away and high, changes neither."""
    _, after = two_rounds
    believed, best = after.examined.posterior, after.design.best
    far = best._replace(theta=best.theta + 9.0, log_evidence=0.0, log_density=0.0)
    later = after.with_points([far], 1)
    assert later.examined.posterior is believed
    assert later.acceptance == after.held_out[-1].acceptance
    assert (later.posterior.high > believed.high).all()
    assert later.posterior.log_floor > believed.log_floor


def test_emulator_is_not_usable_before_an_examination_far_from_modes(begun, two_rounds):
    """Points far from them show whether it may lead chains, which go there."""
    before, after = two_rounds
    assert before.examined is None
    assert not before.usable
    assert not begun.grows
    assert before.grows
    assert after.examined is not None


def test_best_of_the_examined_emulators_is_kept(complete):
    """Of those that were examined where chains will go."""
    more = refined(complete, most_rounds=3, worthwhile_evaluations=1e20)
    batches = more.held_out[1 : len(complete.held_out) + 3]
    best = max(batches, key=attrgetter("acceptance"))
    assert more.examined.posterior is best.posterior


def test_emulator_that_was_the_best_by_luck_is_examined_again(two_rounds):
    """At new points, which replace the prediction that was too good."""
    _, before = two_rounds
    lucky = before.examined._replace(acceptance=0.9999)
    after = refined(replace(before, examined=lucky), most_rounds=1, worthwhile_evaluations=1e20)
    assert after.examined.posterior is lucky.posterior
    assert after.acceptance < lucky.acceptance
    assert after.examined is after.held_out[-1]
    assert len(after.held_out) == len(before.held_out) + 2
    new = after.design.points[-OPTIONS.batch(2) :]
    assert_array_equal(after.examined.theta, [point.theta for point in new])


def test_emulator_without_density_at_new_points_is_not_usable(two_rounds):
    _, before = two_rounds
    lucky = replace(before, examined=before.examined._replace(acceptance=0.9999))
    assert not refined(lucky, Nothing(), most_rounds=1, worthwhile_evaluations=1e20).usable


@in_one_test(
    ("most_rounds", "worthwhile", "n_rounds"),
    [(8, 1e-6, 2), (4, 1e20, 4), (1, 1e-6, 1)],
    ids=["anything is enough, but not near the modes", "nothing is enough", "one round"],
)
def test_learning_ends_if_acceptance_suffices_or_rounds_are_over(
    begun, most_rounds, worthwhile, n_rounds
):
    after = refined(begun, most_rounds=most_rounds, worthwhile_evaluations=worthwhile)
    n_batches = n_rounds + (
        after.held_out[-1].posterior is not after.held_out[n_rounds - 1].posterior
    )
    assert len(after.held_out) == n_batches
    assert after.n_evaluations == begun.n_evaluations + n_batches * OPTIONS.batch(2)


def test_default_learning_reaches_enough_acceptance_within_its_rounds(complete):
    assert complete.acceptance > OPTIONS.enough(complete.dim)
    assert complete.usable
    assert len(complete.held_out) < OPTIONS.most_rounds
    assert complete.n_evaluations == len(complete.design)


@in_one_test(
    ("last", "n_rounds", "n_points"), [("scale", 0, 0), ("learning", 1, 12)], ids=["scale", "batch"]
)
def test_learning_ends_with_partial_results_at_the_time_limit(last, n_rounds, n_points):
    with apply_limit(TimeLimit()) as limit:
        workers = CutShort(limit, last)
        known = learn_emulator(request_for(make_model(*toy_classes(30, 2, 0))), workers, OPTIONS)
        assert limit.was_noticed
    assert len(known.held_out) == n_rounds
    assert not known.usable
    n_before = sum(len(found) for stage, _, found in workers.batches if stage.startswith("scale"))
    assert len(known.design) >= n_before + n_points


class Nothing(InProcessExecutor):
    """Finds nothing."""

    def map(self, function, items, stage, **about):
        return [None] * len(items)


def test_batch_without_density_leaves_the_design_unchanged(begun):
    after = refined(begun, Nothing(), most_rounds=1)
    assert after.design is begun.design
    assert not after.held_out
    assert after.acceptance == 0.0
    assert after.n_evaluations == begun.n_evaluations + OPTIONS.batch(2)


# --- weights of held-out points -------------------------------------------------------------------

POWER = 0.5


def typical_and_wide(n_typical, n_wide):
    """Draws of a standard normal variable and of one to the power 1 / 2; and which are which."""
    rng = np.random.default_rng(seeded(1))
    z = rng.standard_normal(n_typical + n_wide)
    z[n_typical:] /= np.sqrt(POWER)
    return z, np.arange(len(z)) < n_typical


@in_one_test("n_typical", [0, 200])
def test_shares_turn_typical_and_wide_draws_into_posterior_draws(n_typical):
    z, is_typical = typical_and_wide(n_typical, 20_000)
    shares = _weigh_draws((1.0 - POWER) * stats.norm.logpdf(z), is_typical)
    assert_array_equal(shares[:n_typical], 1.0)
    share = shares / shares.mean()
    assert abs(z_score(share * (z**2 - 1.0), 0.0)) < 4.0
    assert abs(z_score(share * ((np.abs(z) > 2.0) - 2.0 * stats.norm.sf(2.0)), 0.0)) < 4.0
    # (E w)^2 / E w^2, in closed form for powers of a normal density.
    ess = 20_000 * np.sqrt(POWER * (2.0 - POWER))
    assert shares[n_typical:].sum() == pytest.approx(ess, rel=0.02)


def test_wide_points_without_density_have_no_share():
    is_typical = np.array([True, False, True, False])
    shares = _weigh_draws(np.where(is_typical, 0.0, -np.inf), is_typical)
    assert_array_equal(shares, [1.0, 0.0, 1.0, 0.0])


def test_errors_in_the_tails_count_by_their_posterior_mass():
    """An error of five where the posterior has a hundredth of its mass, and elsewhere none."""
    z, is_typical = typical_and_wide(2000, 2000)
    shares = _weigh_draws((1.0 - POWER) * stats.norm.logpdf(z), is_typical)
    missed = np.where(z > stats.norm.isf(0.01), 5.0, 0.0)
    # w = 1 but for e^5 with probability 0.01: E min(w, w') / E w.
    high = np.exp(5.0)
    expected = (0.99**2 + 2.0 * 0.99 * 0.01 + 0.01**2 * high) / (0.99 + 0.01 * high)
    assert independence_acceptance(missed, shares) == pytest.approx(expected, rel=0.15)
    assert weighted_sd(missed, shares) == pytest.approx(5.0 * np.sqrt(0.01 * 0.99), rel=0.15)


# --- scale, modes, places -------------------------------------------------------------------------


def test_scale_is_the_deviation_of_draws_from_the_examined_posterior(complete, begun):
    draws = np.concatenate([complete.draw(complete.examined.posterior) for _ in range(8)])
    covariance = np.cov(draws, rowvar=False)
    deviations = np.sqrt(covariance.diagonal())
    assert_allclose(complete.scale, deviations, rtol=0.25)
    correlation = (complete.root @ complete.root.T)[0, 1] / np.prod(complete.scale)
    assert correlation == pytest.approx(covariance[0, 1] / np.prod(deviations), abs=0.2)
    # It is not taken from an emulator that is not believed.
    poor = refined(begun, most_rounds=2, usable_acceptance=1.0)
    assert_array_equal(poor.root, begun.root)


def hill(point, center, sd, top):
    """Points of a normal density around a center."""
    for offset in (
        np.array(np.meshgrid(*2 * [[-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0]])).reshape(2, -1).T
    ):
        value = top - 0.5 * float(offset @ offset)
        yield point._replace(
            theta=center + offset * sd, log_evidence=value, log_density=value, gradient=-offset / sd
        )


def test_mode_found_by_no_search_has_its_share_of_draws(complete):
    """Two hills of points, the second half as high, with a valley between them."""
    point, sd, first = complete.design.best, complete.scale, complete.design.best.theta
    second = first + np.array([12.0, 0.0]) * sd
    middle = 0.5 * (first + second)

    class Wide(HyperPrior):
        """Five times as wide as each hill, and the same at both."""

        def log_prob(self, theta):
            return -0.02 * (((theta - middle) / sd) ** 2).sum(axis=-1)

    low = {"log_evidence": -15.0, "log_density": -15.0, "gradient": np.zeros(2)}
    hills = hill(point, first, sd, 0.0), hill(point, second, sd, np.log(0.5))
    design = Design((*hills[0], *hills[1], point._replace(theta=middle, **low)))
    prior = complete.model.hyperprior
    wide = replace(complete.model, hyperprior=Wide(prior.names, prior.distributions))
    known = replace(complete, model=wide, design=design)
    assert len(known.modes) == 2
    assert_array_equal(known.modes[0], first)
    # Of the second hill only some points are compared: the best of these is its mode.
    assert_allclose(known.modes[1], second, atol=1.5 * sd.max())
    draws = known.draw(known.posterior)
    share = np.mean(np.abs(draws[:, 0] - second[0]) < 6.0 * sd[0])
    assert share == pytest.approx(1.0 / 3.0, abs=0.12)


def test_trial_points_are_those_of_the_last_two_batches(complete):
    thetas, evidence, shares = complete.choose_trial_points()
    last = complete.held_out[-2:]
    assert_array_equal(thetas, np.concatenate([batch.theta for batch in last]))
    assert_array_equal(shares, np.concatenate([batch.shares for batch in last]))
    fits = [Laplace(tol=1e-6).fit(complete.model, theta).log_evidence for theta in thetas[:4]]
    assert_allclose(evidence[:4], fits, atol=1e-2)
    assert len(thetas) == 2 * OPTIONS.batch(2)


def test_reference_interpolates_the_sites_of_every_useful_point(many_lengths):
    """The emulator, which learns from gradients too, has room for fewer points."""
    few = replace(many_lengths, options=replace(OPTIONS, most_values=100))
    useful = few.design.above(OPTIONS.deepest(4))
    assert len(useful) > 100
    assert len(few.make_reference().nodes) == 100
    assert len(few.posterior.emulator.nodes) == 100 // 5
    assert len(many_lengths.make_reference().nodes) == len(useful)


def test_sequential_rows_are_chosen_by_points_that_are_far_apart(many_lengths):
    """All points are mostly typical ones, with margins that are less skewed."""
    few = replace(many_lengths, options=replace(OPTIONS, most_values=30))
    spread = few.design.above(OPTIONS.deepest(4)).thin(few.scale, 30 // 5)
    skewness = np.array([point.skewness for point in spread.points])
    for noise in (0.3, 0.1, 0.03):
        expected = choose_sequential_rows(skewness, noise)
        assert_array_equal(few.make_reference(noise).sequential_rows, expected)


def test_number_of_sequential_rows_follows_the_wanted_noise(complete):
    n_sequential = [
        len(complete.make_reference(noise).sequential_rows) for noise in (np.inf, 0.1, 1e-6)
    ]
    assert n_sequential[0] == 0 < n_sequential[1] <= n_sequential[2] == 30


# --- a quarter of the rows first ------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_rows():
    return make_model(*toy_classes(200, 2, 0))


def test_mode_search_of_many_rows_begins_with_a_quarter_of_them(many_rows):
    """One search or two with all of them, near their ends, instead of four."""
    few = replace(OPTIONS, fewest_rows=200)
    (at_once, n_at_once, _), (after, n_after, scale) = (
        find_modes(request_for(many_rows), options, InProcessExecutor())
        for options in (OPTIONS, few)
    )
    assert after.best.log_density == pytest.approx(at_once.best.log_density, abs=0.05)
    assert n_after < 0.6 * n_at_once
    # The standard deviations given a quarter are larger than those given all, and below a log.
    assert (scale > 0.05).all()
    assert (scale < 1.0).all()
    steps = [np.abs(point.theta - after.best.theta) / scale for point in after.points]
    assert max(step.max() for step in steps) < 5.0
    # Evaluations of a quarter count by their operations.
    assert len(after) < n_after < len(after) + 3.0
    assert n_at_once == len(at_once)


# --- many hyper-parameters ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_lengths():
    """What chains have explored with four hyper-parameters."""
    X, y = toy_classes(15, 3, 0)
    request = request_for(make_model(X, y, kernel=smooth_kernel(3, ard=True)), 2, EP())
    return learn_emulator(request, InProcessExecutor(), NO_ROUNDS)


def test_many_hyperparameters_are_explored_by_chains(many_lengths):
    known = many_lengths
    assert known.dim == 4
    assert len(known.exploration.ends) == 2
    assert known.root is known.exploration.root
    visited = {tuple(point.position) for point in known.exploration.visited}
    assert visited <= {tuple(theta) for theta in known.design.theta}
    assert known.n_evaluations >= len(known.design) > len(visited)


def test_batch_after_trajectories_has_a_share_of_the_design(many_lengths):
    after = refined(many_lengths, most_rounds=1)
    n_used = min(len(many_lengths.design), OPTIONS.most_points(4))
    assert n_used // 4 > OPTIONS.batch(4)
    assert len(after.held_out[-1].theta) == n_used // 4
    assert len(after.choose_trial_points()[0]) <= 2 * OPTIONS.batch(4)


def test_wide_points_are_where_the_emulator_may_be_too_low(many_lengths, complete):
    """On a grid, wider tails are enough."""
    target = many_lengths.posterior
    theta = many_lengths.draw(target)[:50]
    raised = many_lengths.raise_unknown(target)
    expected = target.log_prob(theta) + target.deviation(theta)[0]
    assert_allclose(raised.log_prob(theta), expected, rtol=1e-6, atol=1e-3)
    assert complete.raise_unknown(complete.posterior) is complete.posterior


def test_wide_points_are_weighed_by_the_density_of_their_draws(many_lengths):
    held_out = refined(many_lengths, most_rounds=1).held_out[-1]
    target, theta = held_out.posterior, held_out.theta
    wide = theta[len(theta) // 2 :]
    drawn_by = many_lengths.raise_unknown(target).to_power(1.0 / OPTIONS.temperature(4))
    log_weights = target.log_prob(wide) - drawn_by.log_prob(wide)
    w = np.exp(log_weights - log_weights.max())
    assert_allclose(held_out.shares[len(theta) // 2 :], w * w.sum() / (w**2).sum(), rtol=1e-6)
    assert_array_equal(held_out.shares[: len(theta) // 2], 1.0)


def test_candidates_follow_a_bent_density(many_lengths):
    """One t distribution for the mode has much of its mass beside the bend."""
    rng = np.random.default_rng(4)
    z = rng.standard_normal((512, 4))
    z[:, 0] *= 2.0
    z[:, 1] = z[:, 0] ** 2 + 0.2 * z[:, 1]
    draws = many_lengths.design.best.theta + many_lengths.scale * z
    bent = many_lengths.fit_mixture(draws, many_lengths.posterior)
    modes = many_lengths.design.modes(
        many_lengths.scale, many_lengths.posterior.log_prob, many_lengths.options
    )
    straight = TMixture.of_draws(draws, modes, many_lengths.scale)
    assert len(bent.means) == len(modes) + 512 // 20
    assert bent.log_prob(draws).mean() > straight.log_prob(draws).mean() + 0.5


def test_short_chains_begin_at_modes_that_the_warm_up_has_not_visited(many_lengths):
    """The design has a second hill of points, far from all states of the trajectories."""
    best, scale = many_lengths.design.best, many_lengths.scale
    center = best.theta + 12.0 * scale
    rng = np.random.default_rng(0)
    second = []
    for offset in [np.zeros(4), *rng.standard_normal((30, 4))]:
        value = best.log_density - 0.5 * offset @ offset
        changes = {"theta": center + scale * offset, "log_density": value, "log_evidence": value}
        second.append(best._replace(gradient=-offset / scale, **changes))
    known = many_lengths.with_points(second, 0)
    hills = replace(many_lengths.posterior, low=np.full(4, -99.0), high=np.full(4, 99.0))

    class Two:
        """Both hills, equally high."""

        def to_power(self, power):
            return self

        def value_and_gradient(self, theta):
            z = (theta - center) / scale
            first, slope = hills.value_and_gradient(theta)
            other = best.log_density - 0.5 * (z**2).sum(axis=-1)
            total = np.logaddexp(first, other)
            share = np.exp(first - total)[..., None]
            return total, share * slope - (1.0 - share) * z / scale

    near = (np.abs(known.draw(Two()) - center) < 6.0 * scale).all(axis=1)
    assert 0.1 < near.mean() < 0.9


def test_emulator_that_stays_poor_is_given_up(many_lengths):
    known = many_lengths
    hopeless = refined(known, most_rounds=5, usable_acceptance=2.1)
    assert len(hopeless.held_out) == 1
    assert not hopeless.usable


def test_trial_points_of_trajectories_are_their_states(many_lengths):
    known = many_lengths
    thetas, evidence, shares = known.choose_trial_points()
    theirs = {tuple(s.position): s.log_evidence for s in known.exploration.states}
    assert [theirs[tuple(theta)] for theta in thetas] == list(evidence)
    assert_array_equal(shares, 1.0)
    assert 10 < len(thetas) <= 2 * OPTIONS.batch(4)


# --- points with a low density --------------------------------------------------------------------


def test_points_of_too_low_density_lower_the_emulator():
    """Nothing but such points shows that there is a valley between two plateaus."""
    model = make_model(*toy_classes(30, 2, 0))
    sites = EP().fit(model, model.start).q.sites
    around = np.random.default_rng(3).uniform(-1.0, 1.0, size=(15, 2))
    plateaus = np.concatenate([around - [8.0, 0.0], around + np.array([8.0, 0.0])])
    valley = np.array([[0.0, 0.0], [0.5, 0.5], [-0.5, -0.5]])
    points = [
        DesignPoint(theta, value, np.zeros(2), value, sites, None)
        for value, where in ((0.0, plateaus), (-300.0, valley))
        for theta in where
    ]
    posterior = EmulatedPosterior.of(model, Design(tuple(points)), np.eye(2), OPTIONS)
    assert (posterior.log_evidence(valley) < -OPTIONS.negligible_depth).all()
    assert_allclose(posterior.log_evidence(plateaus), 0.0, atol=0.1)


def test_trial_points_leave_out_points_of_too_low_density(complete):
    last = complete.held_out[-1]
    low = last._replace(log_evidence=last.log_evidence - 300.0 * (np.arange(len(last.theta)) == 0))
    fallen = replace(complete, held_out=(*complete.held_out[:-1], low))
    tried, evidence, shares = fallen.choose_trial_points()
    assert len(tried) == len(evidence) == len(shares) == len(complete.choose_trial_points()[0]) - 1
    assert not (tried == last.theta[0]).all(axis=1).any()
