"""The assembled proposal of theta is reversible, and chains start apart from one another."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.transitions import (
    CheapPoint,
    GridDensity,
    IndependenceMetropolis,
    Pool,
    SurrogateProposal,
    TMixture,
    Trajectory,
    independence_acceptance,
)
from skgpmcmc.warmup.emulated import overdispersed_starts, proposals_by_name
from skgpmcmc.warmup.emulator.design import DesignPoint
from skgpmcmc.warmup.emulator.learn import Knowledge

from ..helpers import P_LIMIT, Z_LIMIT, in_one_test, leapfrog, seeded, z_score


class Normal:
    """A standard normal density, to a power: draws from it are at hand."""

    def __init__(self, power=1.0):
        self.power = power

    def tempered(self, power):
        return Normal(power)

    def value_and_gradient(self, theta):
        squares = np.einsum("...r,...r->...", theta, theta)
        return -0.5 * self.power * squares, -self.power * theta

    def log_prob(self, theta):
        return self.value_and_gradient(theta)[0]

    def at(self, theta):
        return CheapPoint.at(self, theta)


class WithoutModel(Knowledge):
    """Knowledge of a density alone."""

    periods = ()


def knowledge(dim):
    """As much of it as proposals ask for."""
    rng, mode = np.random.default_rng(0), np.zeros(dim)
    return WithoutModel(
        model=None,
        approximation=None,
        rng=rng,
        design=None,
        n_chains=1,
        ends=(DesignPoint(mode, 0.0, mode, 0.0, None, None),),
        root=np.eye(dim),
        n_evaluations=0,
        held_out_error=0.0,
        explored=rng.standard_normal((1000, dim)),
        box=np.empty((0, dim)),
    )


def assembled(dim=5):
    """The proposal for many hyper-parameters, where jumps and trajectories go different ways."""
    # Draws that are mostly on one side of the target: their mixture jumps there, rarely elsewhere.
    draws = np.random.default_rng(1).standard_normal((50, 64, dim))
    draws[:-8] = 2.0 + 0.25 * draws[:-8]
    pool = Pool(draws, leapfrog(np.eye(dim), 0.5, 2))
    return proposals_by_name(knowledge(dim), Normal(), pool, None)["surrogate"]


def test_the_assembled_proposal_has_moves_of_both_kinds_in_a_palindrome():
    moves = assembled().moves
    assert [type(move) for move in moves] == [Trajectory, IndependenceMetropolis, Trajectory]
    assert moves[0] is moves[2]


#: Moves that tell their order: a trajectory to the other side of the target, and jumps that know
#: the right side only.
TELLING = {
    Trajectory: leapfrog(np.eye(1), np.pi / 6, 6),
    IndependenceMetropolis: IndependenceMetropolis(
        TMixture(np.array([[1.5]]), np.array([[[0.3]]]), np.ones(1)), 8
    ),
}


def test_the_assembled_proposal_satisfies_detailed_balance():
    """From a draw of pi*, the way there and the way back are equally likely.

    Then the mean of a(theta) b(theta') - a(theta') b(theta) is zero for any a and b. A trajectory
    and a jump, without the trajectory once more, keep pi* and fail this (z is about 6): the left
    side knows where on the right it comes from, and not the other way round.
    """
    moves = tuple(TELLING[type(move)] for move in assembled().moves)
    proposal, rng = SurrogateProposal(Normal(), moves), np.random.default_rng(2)
    here = rng.standard_normal((3000, 1))
    there = np.array([proposal.propose(theta, rng)[0] for theta in here])

    def position_near(center, theta):
        offset = theta[:, 0] - center
        return np.where(np.abs(offset) < 0.6, offset, 0.0)

    right, left = (lambda theta, c=c: position_near(c, theta) for c in (1.5, -1.5))
    asymmetry = right(here) * left(there) - right(there) * left(here)
    assert np.sum(asymmetry != 0.0) > 10
    assert abs(z_score(asymmetry, 0.0)) < Z_LIMIT


@in_one_test("dim", [3, 5])
def test_chains_start_apart_and_further_out_than_they_will_stay(dim):
    starts = np.array(overdispersed_starts(knowledge(dim), Normal(), None, 60))
    assert starts.shape == (60, dim)
    assert len(np.unique(starts, axis=0)) == 60
    # 180 numbers or more: the standard error of this is 0.05 at most, and the tempered targets have
    # 1.22 and 1.14.
    assert 1.0 < starts.std() < 1.5


# --- what an emulator is worth --------------------------------------------------------------------


@in_one_test("sd", [0.1, 0.5, 1.0, 2.0])
def test_acceptance_of_gaussian_errors(sd):
    """E min(w, w') / E w for log-normal weights, in closed form; of many draws."""
    log_weights = sd * np.random.default_rng(seeded(4)).standard_normal(200_000)
    expected = 2.0 * stats.norm.cdf(-sd / np.sqrt(2.0))
    assert independence_acceptance(log_weights) == pytest.approx(expected, abs=0.02)
    shifted = independence_acceptance(log_weights + 700.0)
    assert shifted == pytest.approx(independence_acceptance(log_weights), rel=1e-9)


def test_acceptance_is_that_of_the_states_a_chain_is_in():
    """All pairs, one by one; a place that pi* forgets counts for more than one that it invents."""
    log_weights = np.random.default_rng(seeded(5)).standard_normal(30)
    w = np.exp(log_weights)
    by_pairs = np.minimum(w[:, None], w).mean() / w.mean()
    assert independence_acceptance(log_weights) == pytest.approx(by_pairs, rel=1e-12)
    even = np.zeros(30)
    even[0] = 6.0
    assert independence_acceptance(even) < 0.15  # the chain is there most of the time, and stays
    even[0] = -6.0
    assert independence_acceptance(even) > 0.95


# --- draws off a grid -----------------------------------------------------------------------------


@in_one_test("dim", [1, 2, 3])
def test_a_pool_off_a_grid_is_of_independent_draws(dim):
    """As many as chains would leave, with a trajectory in the metric that it is told."""
    root, rng = 2.0 * np.eye(dim), np.random.default_rng(seeded(3))
    grid = GridDensity.of(Normal(), np.zeros((1, dim)), np.eye(dim), fine=True)
    pool = Pool.of_draws(grid.sample(rng, 800), root)
    n_kept = len(pool.theta)
    assert pool.theta.shape == (n_kept, 80, dim)
    assert pool.trajectory.root.matrix is root
    for column in pool.theta.reshape(-1, dim).T:
        assert stats.kstest(column, "norm").pvalue > P_LIMIT
    # One row of the pool says nothing of the next, as it would where chains move on.
    now, then = pool.theta[:-1].ravel(), pool.theta[1:].ravel()
    assert stats.pearsonr(now, then).pvalue > P_LIMIT


@in_one_test(
    ("error", "trusted"), [(0.0, False), (0.5, True), (2.0, False)], ids=["none yet", "low", "high"]
)
def test_an_emulator_is_believed_far_from_modes_only_where_it_is_good(error, trusted):
    """A density thirty times as wide as the scale: it is promised, and nobody has been there."""
    known = replace(knowledge(2), held_out_error=error)
    draws = np.abs(known.pool(Normal(1.0 / 900.0), 20).theta)
    assert draws.max() > 30.0 if trusted else draws.max() <= 4.0


@in_one_test("dim", [1, 2, 3])
def test_a_pool_at_a_temperature_is_wider(dim):
    known = replace(knowledge(dim), held_out_error=0.1)
    for temperature in (1.0, 2.0):
        draws = known.pool(Normal(), 20, temperature).theta.reshape(-1, dim)
        # Six hundred draws and more: the standard error of this is 0.03.
        assert draws[:, 0].std() == pytest.approx(np.sqrt(temperature), rel=0.12)
