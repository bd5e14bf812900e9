"""Chains of one worker in step: what is done for several at once changes no bit of a draw."""

import functools
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, ndtri_exp

from skgpmcmc.approximations import EP, SequentialApproximation
from skgpmcmc.approximations.whitened import WhitenedApproximation
from skgpmcmc.numerics.linalg import count_operations
from skgpmcmc.numerics.threads import Asked, Workers, alone, done, joined, side_by_side
from skgpmcmc.transitions import (
    Directed,
    Mixture,
    ParticleRefresh,
    PseudoMarginalMetropolis,
    RandomWalk,
    RetainedParticle,
    StepInfo,
    Transition,
)
from skgpmcmc.warmup import sample, sample_all, switch, switch_all

from ..helpers import in_one_test, make_model, toy_classes


def model_of(n, seed, likelihood="probit"):
    return make_model(*toy_classes(n, 2, seed), likelihood)


# --- going in step --------------------------------------------------------------------------------


class Doubler:
    """Doubles numbers; keeps how many it was given at once."""

    def __init__(self):
        self.sizes = []

    def __call__(self, jobs):
        self.sizes.append(len(jobs))
        return [2.0 * job for job in jobs]


class Asks(Transition):
    """Moves theta by what it asks of some functions, one after the other."""

    name = "asks"

    def __init__(self, *functions, size=0):
        self.functions, self.size = functions, size

    def start(self, model, theta, rng):
        return Place(theta)

    def step(self, model, state, rng):
        return alone(self.moving(model, state, rng))

    def moving(self, model, state, rng):
        theta = state.theta
        for function in self.functions:
            theta = yield Asked(function, theta, self.size)
        return Place(theta), StepInfo(self.name, True, 1.0)


class Place(NamedTuple):
    theta: np.ndarray
    f: np.ndarray = np.zeros(1)


MODEL = model_of(3, 0)


def ends_of(moves, n_steps):
    """Where chains end that start at 1, 2, ..."""
    jobs = [
        (MODEL, move, Place(np.array([i + 1.0])), np.random.default_rng(0), n)
        for i, (move, n) in enumerate(zip(moves, n_steps, strict=True))
    ]
    return [float(segment.state.theta[0]) for segment in sample_all(jobs)]


def test_a_generator_alone_returns_what_it_made():
    place, _ = Asks(Doubler(), Doubler()).step(MODEL, Place(np.array([3.0])), None)
    assert place.theta == 12.0
    assert alone(done("nothing")) == "nothing"


def test_chains_in_step_share_calls():
    function = Doubler()
    moves = [Asks(function)] * 4
    assert ends_of(moves, [3, 0, 1, 3]) == [8.0, 2.0, 6.0, 32.0]
    assert function.sizes == [3, 2, 2]
    assert sample_all([]) == []


def test_what_most_ask_for_is_done_first_so_that_others_catch_up():
    first, second = Doubler(), Doubler()
    moves = [Asks(second, first, second), Asks(first, second), Asks(first, second)]
    assert ends_of(moves, [1, 1, 1]) == [8.0, 8.0, 12.0]
    assert first.sizes == [2, 1]
    assert second.sizes == [3, 1]


def test_jobs_of_other_sizes_are_done_apart():
    function = Doubler()
    assert ends_of([Asks(function, size=i // 2) for i in range(5)], [1] * 5) == [2, 4, 6, 8, 10]
    assert function.sizes == [2, 2, 1]


def test_an_error_of_one_chain_is_raised():
    def failing(jobs):
        raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        ends_of([Asks(Doubler()), Asks(failing)], [3, 1])


def test_matrices_side_by_side():
    parts = [np.full((2, m), float(m)) for m in (1, 3, 2)]
    whole = side_by_side(parts)
    assert whole.shape == (2, 3, 3)
    for i, part in enumerate(parts):
        assert_array_equal(whole[:, i, : part.shape[1]], part)
        assert not whole[:, i, part.shape[1] :].any()
    assert side_by_side(parts[1:2]).shape == (2, 1, 3)


# --- rows in turn ---------------------------------------------------------------------------------


N = 200


def whitened(q):
    """The same Gaussian by a root of K."""
    return WhitenedApproximation(q.prior, q.sites)


@functools.cache
def turns_of(n_rows, likelihood="probit"):
    """Of three densities; their length-scales are short, so that no row determines another."""
    model, found = model_of(N, 3, likelihood).observing(offset=np.linspace(-1.0, 1.0, N)), []
    for theta in np.log([[30.0, 0.2], [2.0, 0.2], [200.0, 0.25]]):
        q = whitened(EP().at(model, theta))
        rows = np.arange(n_rows)
        found.append(SequentialApproximation(q, model.observations_at(theta), rows).made()._turns)
    assert [len(turns.rows) for turns in found] == [n_rows] * 3
    return found


def jobs_of(turns, sizes):
    return list(zip(turns, map(np.random.default_rng, range(3)), sizes, strict=True))


@in_one_test("likelihood", ["probit", "logit"])
@in_one_test("n_rows", [1, 5, 32, 64])
@in_one_test("sizes", [(1, 1, 1), (1, 2, 7), (3, 1, 2), (30, 1, 29), (64, 64, 64)])
def test_rows_in_turn_of_several_densities_at_once(n_rows, sizes, likelihood):
    turns = turns_of(n_rows, likelihood)
    factors = turns[0].factors
    pairs = zip(factors.drawn(jobs_of(turns, sizes)), jobs_of(turns, sizes), strict=True)
    for at_once, job in pairs:
        for part, other in zip(at_once, factors.drawn([job])[0], strict=True):
            assert_array_equal(part, other)
    rng = np.random.default_rng(5)
    deltas = [3.0 * rng.standard_normal((N, m)) for m in sizes]
    jobs = list(zip(turns, deltas, strict=True))
    for at_once, job in zip(factors.log_ratios(jobs), jobs, strict=True):
        assert at_once.shape == job[1].shape[1:]
        assert_array_equal(at_once, factors.log_ratios([job])[0])


@in_one_test("n_rows", [5, 64])
def test_rows_in_turn_follow_each_other_within_blocks_and_between(n_rows):
    for turns in turns_of(n_rows):
        constant, slope, signed_scale, cavity, spread, offset, shift, _ = turns.factors
        rng = np.random.default_rng(7)
        log_uniform = -rng.standard_exponential((n_rows, 3))
        normal, u = rng.standard_normal((n_rows, 3)), np.zeros((n_rows, 3))
        for k in range(n_rows):
            z = slope[k] * (turns.coupling[k] @ u) + constant[k]
            # f + offset + e, of mean z scale and variance scale^2, cut at zero on the wrong side.
            cut = signed_scale[k] * (z - ndtri_exp(log_ndtr(z) + log_uniform[k]))
            mean = signed_scale[k] * z
            gain = cavity[k] / signed_scale[k] ** 2
            f = mean + gain * (cut - mean) + np.sqrt(gain) * normal[k] - offset[k]
            # u is the deviation of f given the rows before, in units of its spread under q; the
            # cavity has the mean of that and of the site taken out.
            before = spread[k] ** 2 * ((mean - offset[k]) / cavity[k] + shift[k])
            u[k] = (f - before) / spread[k]
        ((drawn, _),) = turns.factors.drawn([(turns, np.random.default_rng(7), 3)])
        assert_allclose(drawn, u, rtol=1e-7, atol=1e-9)


def test_a_move_in_step_is_overridden_by_its_moving():
    """A step of its own would not be made within a mixture."""
    with pytest.raises(TypeError, match="Louder goes in step with others: override moving"):

        class Louder(Mixture):
            def step(self, model, state, rng):
                return super().step(model, state, rng)


# --- chains ---------------------------------------------------------------------------------------


class InTurn:
    """Half of the rows in turn, by the sites of EP."""

    def at(self, model, theta):
        q = whitened(EP().at(model, theta))
        rows = np.arange(0, len(model.y), 2)
        return SequentialApproximation(q, model.observations_at(theta), rows)


class More:
    """More draws where the length-scale is small."""

    def at(self, theta):
        return 3 + int(10.0 / (1.0 + np.exp(theta[-1])))


def transition(reference):
    walk = PseudoMarginalMetropolis(reference, RandomWalk(np.log(0.5)), 9, 0.3)
    back = replace(walk, name="back")
    moves = (Directed(walk, back), replace(walk, name="walk"), ParticleRefresh(0.3))
    return Mixture(moves, (0.6, 0.2, 0.2), RetainedParticle(0.3))


def chains(reference, n_steps):
    """Chains of two models, as of two classes; some are to make fewer steps."""
    move, jobs = transition(reference), []
    for seed, model in enumerate([model_of(24, i) for i in (0, 1)]):
        for stream in np.random.default_rng(seed).spawn(3):
            start = move.start(model, np.log([4.0, 0.8]), stream)
            jobs.append((model, move, start, stream, n_steps - len(jobs) % 2 * 3))
    return jobs


@pytest.mark.parametrize("reference", [InTurn(), EP()], ids=["in turn", "Gaussian"])
def test_chains_in_step_make_the_draws_that_each_makes_alone(reference):
    jobs = chains(reference, 12)
    together = sample_all(jobs)
    for job, segment in zip(jobs, together, strict=True):
        by_itself = sample(*job)
        assert_array_equal(segment.theta, by_itself.theta)
        assert_array_equal(segment.f, by_itself.f)
        assert segment.rng.bit_generator.state == by_itself.rng.bit_generator.state
        assert segment.counts.n_steps == by_itself.counts.n_steps
        assert segment.counts.n_accepted == by_itself.counts.n_accepted
    assert len(np.unique([segment.theta[-1, 0] for segment in together])) == len(jobs)


def test_draws_in_step_may_differ_in_number():
    jobs = chains(InTurn(), 12)
    move = replace(jobs[0][1].moves[1], n_importance=More())
    move = replace(jobs[0][1], moves=(move,), probabilities=(1.0,))
    jobs = [(model, move, state, rng, n) for model, _, state, rng, n in jobs]
    sizes = set()
    for job, segment in zip(jobs, sample_all(jobs), strict=True):
        assert_array_equal(segment.theta, sample(*job).theta)
        sizes.add(len(segment.state.estimate.log_weights))
    assert len(sizes) > 1


def test_chains_in_step_count_their_own_operations():
    jobs = chains(InTurn(), 10)
    for job, segment in zip(jobs, sample_all(jobs), strict=True):
        assert segment.counts.operations == sample(*job).counts.operations
        assert segment.counts.operations.cholesky > 0
    with count_operations() as all_together:
        counts = [segment.counts.operations.total for segment in sample_all(jobs)]
    assert_allclose(all_together.total, sum(counts))


def test_chains_start_and_settle_in_step():
    jobs = [
        (model, move, state.theta, rng, 4, None if i % 2 else state)
        for i, (model, move, state, rng, _) in enumerate(chains(InTurn(), 4))
    ]
    alike = [(*job[:3], np.random.default_rng(i), *job[4:]) for i, job in enumerate(jobs)]
    again = [(*job[:3], np.random.default_rng(i), *job[4:]) for i, job in enumerate(jobs)]
    for segment, job in zip(switch_all(alike), again, strict=True):
        by_itself = switch(*job)
        assert_array_equal(segment.theta, by_itself.theta)
        assert segment.counts.n_evaluations == by_itself.counts.n_evaluations


# --- workers --------------------------------------------------------------------------------------


def summed(a, b):
    return a + b


def summed_together(jobs):
    return [(summed(*job), len(jobs)) for job in jobs]


CALLS = [joblib.delayed(summed)(i, 10 * i) for i in range(5)]


@in_one_test(("n_jobs", "sizes"), [(1, [5] * 5), (2, [2, 2, 3, 3, 3]), (8, [1] * 5)])
def test_each_worker_gets_its_part_of_the_calls(n_jobs, sizes):
    with joblib.parallel_config("threading"), Workers(n_jobs) as workers:
        results = joined(workers.run(workers.in_parts(CALLS, summed_together)))
        assert workers.in_parts([], summed_together) == []
        assert workers.in_parts(CALLS, summed_together, small=False) is CALLS
    assert results == [(11 * i, size) for i, size in enumerate(sizes)]


def test_parts_are_of_sixteen_calls_at_most():
    many = [joblib.delayed(summed)(i, 0) for i in range(40)]
    with Workers(1) as workers:
        results = joined(workers.run(workers.in_parts(many, summed_together)))
    assert [value for value, _ in results] == list(range(40))
    assert {size for _, size in results} == {13, 14}
    with joblib.parallel_config("threading"), Workers(2) as workers:
        parts = workers.in_parts(many[:33], summed_together)
    assert [len(jobs) for _, (jobs,), _ in parts] == [8, 8, 8, 9]


def test_the_calls_of_a_journal_are_made_one_by_one():
    journal = SimpleNamespace(missing=lambda calls, name: calls, completed=lambda done: done)
    with Workers(1, journal) as workers:
        assert workers.in_parts(CALLS, summed_together) is CALLS
        assert joined(workers.run(CALLS)) == [11 * i for i in range(5)]
