"""Moves of several chains in one call: no bit of a draw depends on the other chains."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, ndtri_exp

from skgpmcmc.approximations import EP
from skgpmcmc.approximations.whitened import WhitenedApproximation
from skgpmcmc.chain import sample, switch
from skgpmcmc.chain.counts import sum_counts
from skgpmcmc.chain.segment import sample_all, switch_all
from skgpmcmc.importance.sequential import SequentialApproximation
from skgpmcmc.numerics.linalg import count_operations
from skgpmcmc.parallel.workers import Workers
from skgpmcmc.transitions import Mixture, RandomWalk, StepInfo, Transition
from skgpmcmc.transitions.compose import DirectedPair
from skgpmcmc.transitions.particles import ParticleRefresh, RetainedParticle
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ...helpers import in_one_test, make_model, toy_classes


def model_of(n, seed, likelihood="probit"):
    return make_model(*toy_classes(n, 2, seed), likelihood)


# --- sequential rows ------------------------------------------------------------------------------


N = 200


def whitened(q):
    """The same Gaussian by a root of K."""
    return WhitenedApproximation(q.prior, q.sites)


@functools.cache
def sequential_of(n_rows, likelihood="probit"):
    """Of three densities; their length-scales are short, so that no row determines another."""
    model = model_of(N, 3, likelihood).with_observations(offset=np.linspace(-1.0, 1.0, N))
    found = []
    for theta in np.log([[30.0, 0.2], [2.0, 0.2], [200.0, 0.25]]):
        q, observed = whitened(EP().at(model, theta)), model.observations_at(theta)
        density = SequentialApproximation(q, observed, np.arange(n_rows)).factorize()
        found.append(density._sequential)
    assert [len(sequential.rows) for sequential in found] == [n_rows] * 3
    return found


@in_one_test("likelihood", ["probit", "logit"])
@in_one_test("n_rows", [1, 5, 32, 64])
@in_one_test("sizes", [(1, 1, 1), (1, 2, 7), (3, 1, 2), (30, 1, 29), (64, 64, 64)])
def test_sequential_rows_of_several_densities_at_once_equal_single_ones(n_rows, sizes, likelihood):
    sequential = sequential_of(n_rows, likelihood)
    factors = sequential[0].factors
    together = factors.draw(sequential, [np.random.default_rng(i) for i in range(3)], sizes)
    rng = np.random.default_rng(5)
    deltas = [3.0 * rng.standard_normal((N, m)) for m in sizes]
    ratios = factors.log_ratios(sequential, deltas)
    for i, own in enumerate(sequential):
        (alone,) = factors.draw([own], [np.random.default_rng(i)], sizes[i : i + 1])
        for part, other in zip(together[i], alone, strict=True):
            assert_array_equal(part, other)
        assert ratios[i].shape == (sizes[i],)
        assert_array_equal(ratios[i], factors.log_ratios([own], deltas[i : i + 1])[0])


@in_one_test("n_rows", [5, 64])
def test_batched_sequential_rows_condition_on_earlier_rows(n_rows):
    for sequential in sequential_of(n_rows):
        constant, slope, signed_scale, cavity, spread, offset, shift, _ = sequential.factors
        rng = np.random.default_rng(7)
        log_uniform = -rng.standard_exponential((n_rows, 3))
        normal, u = rng.standard_normal((n_rows, 3)), np.zeros((n_rows, 3))
        for k in range(n_rows):
            z = slope[k] * (sequential.coupling[k] @ u) + constant[k]
            # f + offset + e, of mean z scale and variance scale^2, cut at zero on the wrong side.
            cut = signed_scale[k] * (z - ndtri_exp(log_ndtr(z) + log_uniform[k]))
            mean = signed_scale[k] * z
            gain = cavity[k] / signed_scale[k] ** 2
            f = mean + gain * (cut - mean) + np.sqrt(gain) * normal[k] - offset[k]
            # u is the deviation of f given the rows before, in units of its spread under q; the
            # cavity has the mean of that and of the site taken out.
            before = spread[k] ** 2 * ((mean - offset[k]) / cavity[k] + shift[k])
            u[k] = (f - before) / spread[k]
        ((drawn, _),) = sequential.factors.draw([sequential], [np.random.default_rng(7)], [3])
        assert_allclose(drawn, u, rtol=1e-7, atol=1e-9)


def test_batched_transition_refuses_an_overridden_step():
    """It would not be called where several chains move."""
    with pytest.raises(TypeError, match=r"Louder overrides step, which .* override step_many"):

        class Louder(Mixture):
            def step(self, model, state, rng):
                return super().step(model, state, rng)


# --- chains ---------------------------------------------------------------------------------------


class Sequential:
    """Half of the sequential rows, by the sites of EP."""

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
    moves = (DirectedPair(walk, back), replace(walk, name="walk"), ParticleRefresh(0.3))
    return Mixture(moves, (0.6, 0.2, 0.2), RetainedParticle(0.3))


def chains(reference, n_steps):
    """Chains of two models, as of two classes; some are to make fewer steps."""
    move, jobs = transition(reference), []
    for seed, model in enumerate([model_of(24, i) for i in (0, 1)]):
        for stream in np.random.default_rng(seed).spawn(3):
            start = move.start(model, np.log([4.0, 0.8]), stream)
            jobs.append((model, move, start, stream, n_steps - len(jobs) % 2 * 3))
    return jobs


@pytest.mark.parametrize("reference", [Sequential(), EP()], ids=["sequential", "Gaussian"])
def test_chains_moved_together_make_the_draws_of_each_alone(reference):
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


def test_chains_moved_together_may_differ_in_importance_draws():
    jobs = chains(Sequential(), 12)
    move = replace(jobs[0][1].moves[1], n_importance=More())
    move = replace(jobs[0][1], moves=(move,), probabilities=(1.0,))
    jobs = [(model, move, state, rng, n) for model, _, state, rng, n in jobs]
    sizes = set()
    for job, segment in zip(jobs, sample_all(jobs), strict=True):
        assert_array_equal(segment.theta, sample(*job).theta)
        sizes.add(len(segment.state.estimate.log_weights))
    assert len(sizes) > 1


def test_operations_of_chains_moved_together_are_summed():
    jobs = chains(Sequential(), 10)
    alone = sum_counts(sample(*job).counts for job in jobs).operations
    with count_operations() as counted:
        together = sum_counts(segment.counts for segment in sample_all(jobs)).operations
    assert alone.cholesky > 0
    for kind, number in vars(alone).items():
        assert_allclose(getattr(together, kind), number)
        assert_allclose(getattr(counted, kind), number)


def test_sampling_no_chains_or_no_draws_is_empty():
    assert sample_all([]) == []
    (segment,) = sample_all([(*chains(EP(), 12)[0][:4], 0)])
    assert segment.theta.shape == (0, 2)


class Halves(Transition):
    """Halves theta; keeps how many chains were moved at once."""

    name = "halves"

    def __init__(self):
        self.sizes = []

    def start(self, model, theta, rng):
        return model.state_at(theta, np.zeros(model.n_latent))

    def step(self, model, state, rng):
        moved = model.state_at(0.5 * state.theta, state.f)
        return moved, StepInfo(self.name, True, 1.0)

    def step_many(self, model, states, rngs):
        self.sizes.append(len(states))
        return super().step_many(model, states, rngs)


def test_chains_of_one_model_and_transition_move_together():
    models, move, other = [model_of(4, 0), model_of(4, 1)], Halves(), Halves()
    begun = [(model, move.start(model, np.ones(2), None)) for model in models]
    jobs = [(model, move, state, np.random.default_rng(0), 2) for model, state in 3 * begun]
    jobs.append((models[0], other, begun[0][1], np.random.default_rng(0), 1))
    ends = [segment.state.theta for segment in sample_all(jobs)]
    assert_array_equal(ends, [[0.25, 0.25]] * 6 + [[0.5, 0.5]])
    assert move.sizes == [3, 3, 3, 3]
    assert other.sizes == [1]


def test_chains_started_together_equal_those_started_alone():
    jobs = [
        (model, move, state.theta, rng, 4, None if i % 2 else state)
        for i, (model, move, state, rng, _) in enumerate(chains(Sequential(), 4))
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
def test_calls_are_divided_among_workers(n_jobs, sizes):
    with joblib.parallel_config("threading"), Workers(n_jobs) as workers:
        results = workers.run(CALLS, run_together=summed_together)
        assert workers.run([], run_together=summed_together) == []
    assert results == [(11 * i, size) for i, size in enumerate(sizes)]


def test_workers_get_at_most_sixteen_calls_at_once():
    many = [joblib.delayed(summed)(i, 0) for i in range(40)]
    with Workers(1) as workers:
        results = workers.run(many, run_together=summed_together)
    assert [value for value, _ in results] == list(range(40))
    assert {size for _, size in results} == {13, 14}
    with joblib.parallel_config("threading"), Workers(2) as workers:
        results = workers.run(many[:33], run_together=summed_together)
    assert [size for _, size in results] == [8] * 24 + [9] * 9


def test_the_calls_of_a_journal_are_made_one_by_one():
    journal = SimpleNamespace(find_missing=lambda calls, name: calls, fill_in=lambda done: done)
    with Workers(1, journal) as workers:
        results = workers.run(CALLS, run_together=summed_together)
    assert results == [11 * i for i in range(5)]
