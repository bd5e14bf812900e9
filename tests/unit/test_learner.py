"""The set-up goes on learning where its emulator is found to be wrong."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from skgpmcmc.approximations import Laplace
from skgpmcmc.transitions import Pool
from skgpmcmc.warmup import Request, emulated, perform
from skgpmcmc.warmup.emulator import learn
from skgpmcmc.warmup.emulator.design import distinct_modes, examine, highest, paths_between, search
from skgpmcmc.warmup.emulator.learn import measured, quarter, refined, searched

from ..helpers import in_one_test, make_model, toy_classes


def finish(step):
    """Do what a step of a set-up asks for; returns its result and the number of batches."""
    n_batches, results = 0, None
    while True:
        try:
            tasks = step.send(results)
        except StopIteration as end:
            return end.value, n_batches
        n_batches += 1
        results = [perform(task).value for task in tasks]


def begun(model, n_starts=1):
    """What is known after searches from the kernel's own values."""
    rng = np.random.default_rng(0)
    request = Request(model, Laplace(), [model.start] * n_starts, [None] * n_starts, rng, None, 0)
    known, _ = finish(searched(request))
    return finish(measured(known))[0]


@pytest.fixture(scope="module")
def complete():
    return finish(refined(begun(make_model(*toy_classes(30, 2, 0))), 12))[0]


def test_complete_design_stays(complete):
    assert 0.0 < complete.held_out_error < 0.1
    same, n_batches = finish(refined(complete, 6))
    assert n_batches == 0
    assert same.design is complete.design


def test_known_error_makes_the_design_grow(complete):
    known, n_batches = finish(refined(complete, 6, known_error=3.0))
    assert n_batches > 0
    assert len(known.design) > len(complete.design)
    assert 0.0 < known.held_out_error < 0.1


def test_what_was_known_before_a_step_stays(complete):
    n_points, root = len(complete.design), complete.root.copy()
    known, _ = finish(refined(complete, 6, known_error=3.0))
    assert known.n_evaluations > complete.n_evaluations
    assert len(complete.design) == n_points
    np.testing.assert_array_equal(complete.root, root)


def test_points_that_only_the_emulator_believes_in_count(complete):
    known = complete.emulated()
    target, point = known.target(), known.design.best
    emulated = float(target.emulator.value_and_gradient(point.theta)[0])
    lower = point.log_density + emulated - 40.0 - point.log_evidence
    pocket = point._replace(log_evidence=emulated - 40.0, log_density=lower)
    limit = known.design.best.log_density - known.dim - 5.0
    assert target.error([pocket], limit, everywhere=False) == np.inf  # no point counts
    assert target.error([pocket], limit, everywhere=True) == pytest.approx(40.0)


# --- an emulator that has learned more is confirmed -----------------------------------------------


@dataclass(frozen=True)
class Raised:
    """An emulator whose values are larger by a constant, and by a hill."""

    emulator: object
    constant: float = 0.0
    hill: float = 0.0
    where: object = None

    def value(self, theta):
        if self.where is None:
            return self.emulator.value(theta) + self.constant
        squares = ((theta - self.where) ** 2).sum(axis=-1)
        return self.emulator.value(theta) + self.constant + self.hill * np.exp(-2.0 * squares)


def examined(complete):
    known = complete.emulated()
    return known, known.emulator


@in_one_test(("gap", "agrees"), [(0.2, True), (1.0, False), (-1.0, True)])
def test_an_emulator_may_promise_little_more_than_the_one_examined(complete, gap, agrees):
    known, before = examined(complete)
    new = Raised(before, gap)
    after = replace(known, emulator=new).confirmed(before)
    assert after.emulator is (new if agrees else before)
    assert after.design is known.design


def test_an_emulator_that_promises_much_where_nobody_has_been_is_turned_down(complete):
    """Few draws from the one examined see the hill, and half of its own are there."""
    known, before = examined(complete)
    _, pool = known.posterior_pool()
    draws = pool.theta.reshape(-1, known.dim)
    hill = Raised(before, hill=14.0, where=known.modes[0] + 2.0 * known.scale)
    assert np.mean(hill.value(draws) > before.value(draws) + 0.5) < 0.15
    assert replace(known, emulator=hill).confirmed(before).emulator is before


def test_points_that_are_as_predicted_are_learned(complete):
    known, before = examined(complete)
    thetas = known.modes[0] + 0.7 * known.scale * np.array([[1.0, 0.0], [0.0, -1.0]])
    joined = known.joined([perform(task).value for task in known.tasks(thetas)])
    after = joined.emulated().confirmed(before)
    assert after.emulator is not before
    assert after.design is joined.design


def test_a_point_that_contradicts_all_others_is_not(complete, monkeypatch):
    """A value and a gradient that are wrong, so that the emulator rises between points.

    The point stays in the design. Draws off a grid see that, and those of chains that jump.
    """
    known, before = examined(complete)
    (point,) = (perform(t).value for t in known.tasks(known.modes[:1] + 0.7 * known.scale))
    wrong = point._replace(
        log_evidence=point.log_evidence + 4.0,
        log_density=point.log_density + 4.0,
        gradient=point.gradient + 20.0,
    )
    joined = known.joined([wrong])
    after = joined.emulated().confirmed(before)
    assert after.emulator is before
    assert after.design is joined.design
    monkeypatch.setattr(learn, "MOST_ROTATED", known.dim - 1)
    assert joined.emulated().confirmed(before).emulator is before


def test_chains_of_a_pool_end_with_jumps(complete, monkeypatch):
    """As those of the run make them; draws off a grid need none."""
    known, _ = examined(complete)
    known, jumped = known.emulated(), []

    def noted(pool, *_):
        jumped.append(pool)
        return pool

    monkeypatch.setattr(Pool, "jumped", noted)
    known.pool(known.target(), 4)
    assert not jumped
    monkeypatch.setattr(learn, "MOST_ROTATED", known.dim - 1)
    known.pool(known.target(), 4)
    assert len(jumped) == 1


# --- a quarter of the rows first ------------------------------------------------------------------


def learned(request):
    """All steps up to the refinement."""
    known = yield from searched(request, (yield from quarter(request)))
    known = yield from measured(known)
    return (yield from refined(known))


def request_for(model, n_starts=4, seed=0):
    rng = np.random.default_rng(seed)
    starts = [model.hyperprior.sample(rng) for _ in range(n_starts)]
    return Request(model, Laplace(), starts, [None] * n_starts, rng, None, 0)


@pytest.fixture(scope="module")
def many_rows():
    """Rows that count as many here, half of what usually does."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(learn, "_FEWEST_ROWS", 50)
        yield make_model(*toy_classes(200, 2, 0))


@pytest.fixture(scope="module")
def by_a_quarter(many_rows):
    return finish(learned(request_for(many_rows)))[0]


def test_many_rows_are_learned_by_a_quarter_of_them_first(many_rows, by_a_quarter, monkeypatch):
    """The same error for half as many evaluations: one search instead of four, near its end."""
    monkeypatch.setattr(learn, "_FEWEST_ROWS", 1000)
    at_once, _ = finish(learned(request_for(many_rows)))
    assert at_once.base is None
    assert by_a_quarter.base is not None
    assert max(at_once.held_out_error, by_a_quarter.held_out_error) < 0.1
    assert by_a_quarter.n_evaluations < 0.6 * at_once.n_evaluations


def test_evaluations_of_a_quarter_count_by_their_operations(by_a_quarter):
    own = len(by_a_quarter.design)
    assert own < by_a_quarter.n_evaluations < own + 3.0


def test_few_rows_are_learned_at_once():
    known, _ = finish(learned(request_for(make_model(*toy_classes(40, 2, 0)))))
    assert known.base is None
    np.testing.assert_array_equal(known.corners[0], known.used.theta.min(axis=0))


def test_the_box_is_also_that_of_the_quarter(by_a_quarter):
    low, high = by_a_quarter.corners
    own = by_a_quarter.used.theta
    assert np.all(low <= own.min(axis=0))
    assert np.all(high >= own.max(axis=0))
    assert np.any(low < own.min(axis=0)) or np.any(high > own.max(axis=0))
    target = by_a_quarter.emulated().target()
    np.testing.assert_array_equal([target.low, target.high], by_a_quarter.corners)


def test_sites_are_expected_where_they_will_be(many_rows, by_a_quarter):
    """Interpolated sites are nearer to those that are found than the neighbor's are."""
    known = by_a_quarter
    thetas = known.design.best.theta + 0.5 * known.scale * np.random.default_rng(1).normal(
        size=(12, known.dim)
    )
    gaps = []
    for task in known.tasks(thetas):
        found = perform(task).value
        neighbor = known.design.nearest(found.theta, known.scale).sites
        gaps.append(
            [
                np.abs(np.log(s.precision / found.sites.precision)).max()
                for s in (task.arguments[3], neighbor)
            ]
        )
    expected, nearest = np.median(gaps, axis=0)
    assert expected < 0.5 * nearest


# --- more than one mode ---------------------------------------------------------------------------


@dataclass
class Valley:
    """An emulator of a log evidence that is so much lower half a unit to the right of a place."""

    depth: float
    place: float = 0.0

    def value(self, theta):
        return -self.depth * np.exp(-(((theta[..., 0] - self.place - 0.5) / 0.2) ** 2))


def ends_at(*places):
    """Ends of searches, of which each is one lower than the one before."""
    return tuple(
        SimpleNamespace(theta=np.array([place, 0.0]), log_density=-float(i))
        for i, place in enumerate(places)
    )


@in_one_test(
    ("places", "depth", "margin", "expected"),
    [
        ((0.0, 1.0), 0.0, 8.0, [0.0]),
        ((0.0, 1.0), 5.0, 8.0, [0.0, 1.0]),
        ((0.0, 1.0), 5.0, 0.5, [0.0]),
        ((0.0, 1.0, 1.05), 5.0, 8.0, [0.0, 1.0]),
        ((0.0, 9.0), 0.0, 8.0, [0.0, 9.0]),
    ],
    ids=["near", "parted", "much lower", "found twice", "far"],
)
def test_modes_are_told_apart_by_distance_or_a_valley(places, depth, margin, expected):
    """The scale of a posterior with two modes is about their distance."""
    ends = highest(ends_at(*places), np.ones(2), margin)
    modes = distinct_modes(ends, np.ones(2), Valley(depth).value(paths_between(ends)))
    np.testing.assert_array_equal(modes[:, 0], expected)


def test_without_an_emulator_only_distance_tells_modes_apart():
    ends = highest(ends_at(0.0, 1.0), np.ones(2), 8.0)
    assert len(distinct_modes(ends, np.ones(2))) == 1


def test_many_chains_compare_few_ends():
    """Paths between all of them would not fit in memory."""
    places = np.random.default_rng(0).uniform(0.0, 100.0, size=1000)
    found = highest(ends_at(*places), np.ones(2), 2000.0)
    assert len(found) == 16
    assert len(highest(ends_at(*(0.001 * places)), np.ones(2), 2000.0)) == 1


def test_paths_lead_from_each_end_to_each():
    ends = np.array([[0.0, 0.0], [1.0, 2.0], [4.0, 0.0]])
    paths = paths_between(ends).reshape(3, 3, -1, 2)
    for i in range(3):
        for j in range(3):
            assert set(map(tuple, paths[i, j, [0, -1]])) == {tuple(ends[i]), tuple(ends[j])}
            halves = 0.5 * (ends[i] + ends[j])
            np.testing.assert_allclose(paths[i, j].mean(axis=0), halves)


def searches(step):
    """Where each batch of searches of a step begins."""
    results = None
    while True:
        try:
            tasks = step.send(results)
        except StopIteration:
            return
        if tasks[0].function is search:
            yield np.array([task.arguments[2] for task in tasks])
        results = [perform(task).value for task in tasks]


def test_a_second_mode_of_some_rows_is_where_a_search_with_all_begins(many_rows):
    """With four times the rows it can be the best one by far."""
    request = request_for(many_rows)
    known, _ = finish(quarter(request))
    best = known.modes[0]
    second = best + np.array([1.0, 0.0])
    end = known.ends[0]
    ends = [end._replace(theta=best, log_density=0.0), end._replace(theta=second, log_density=-9.0)]
    wide = replace(known, ends=tuple(ends), root=np.eye(2))
    parted = replace(wide, emulator=Valley(20.0, best[0]))
    assert len(next(searches(searched(request, wide)))) == 1
    np.testing.assert_array_equal(next(searches(searched(request, parted))), [best, second])


def test_searches_with_some_of_the_rows_also_begin_afresh(many_rows, monkeypatch):
    """They cost next to nothing, and fewer rows may have no other mode."""
    monkeypatch.setattr(learn, "_FEWEST_ROWS", 12)
    request = request_for(many_rows)
    fewest, some = searches(quarter(request))
    np.testing.assert_array_equal(fewest, request.starts)
    assert len(some) > len(fewest)
    np.testing.assert_array_equal(some[-4:], request.starts)


def test_an_exact_evidence_is_also_examined_in_the_tails(complete):
    """Draws from pi* hardly go there, but chains do, and stay where pi* is too small."""
    known = complete.emulated()
    target = known.target()
    draws = known.pool(target, 20).theta.reshape(-1, known.dim)
    tails = known.tails(target, 6)
    assert tails.shape == (6, known.dim)
    assert np.median(target.log_prob(tails)) < np.quantile(target.log_prob(draws), 0.1)


def test_the_set_up_of_an_exact_evidence_looks_at_tails(complete):
    tasks = next(emulated._examined(complete))
    assert [task.function for task in tasks] == [examine] * 30


def test_tails_are_not_looked_for_with_many_hyperparameters(complete):
    assert replace(complete, root=np.eye(9)).tails(None, 6).shape == (0, 9)
