"""Tuning of the random walk: lengths of the windows, the scale, the pooled shape."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import Laplace
from skgpmcmc.numerics.dynamics import tune_log_scale
from skgpmcmc.parameterizations import DenseRoot
from skgpmcmc.setup.schedule import WarmUpSchedule, pooled_covariance
from skgpmcmc.transitions import Langevin, RandomWalk
from skgpmcmc.transitions.joint_update import JointUpdate

from ...helpers import in_one_test, make_model, toy_classes

# --- schedule -------------------------------------------------------------------------------------


@in_one_test("n_warmup", [0, 1, 2, 5, 20, 37, 500])
def test_windows_of_a_schedule_sum_to_its_length(n_warmup):
    schedule = WarmUpSchedule.of_length(n_warmup)
    windows = schedule.windows
    assert sum(window.n_steps for window in windows) + schedule.n_burn_in == n_warmup
    assert all(window.n_steps > 0 for window in windows)
    assert schedule.n_burn_in >= 0
    assert len(windows) <= 10
    for before, after in pairwise(windows):
        if before.learns_shape:
            assert after.first_gain == 0
        elif after.first_gain:
            assert after.first_gain == before.first_gain + before.n_steps


def test_schedule_of_500_iterations_has_ten_windows():
    schedule = WarmUpSchedule.of_length(500)
    assert schedule.n_burn_in == 50
    assert [window.n_steps for window in schedule.windows] == [45] * 10
    assert [window.learns_shape for window in schedule.windows] == [False] + 6 * [True] + 3 * [
        False
    ]
    # The last windows only tune the scale, with one decreasing gain across them.
    assert [window.first_gain for window in schedule.windows[-4:]] == [0, 0, 45, 90]


# --- scale ----------------------------------------------------------------------------------------


@in_one_test("step", [0, 3, 100])
def test_scale_moves_towards_the_target_acceptance(step):
    changes = [tune_log_scale(0.2, rate, 0.25, step) - 0.2 for rate in (0.0, 0.25, 0.9)]
    assert np.sign(changes).tolist() == [-1.0, 0.0, 1.0]


def test_steps_of_the_scale_decrease_and_their_sum_is_unbounded():
    moves = np.array([tune_log_scale(0.0, 1.0, 0.25, step) for step in range(10_000)])
    assert (np.diff(moves) < 0.0).all()
    # Robbins-Monro: the sum of the gains diverges, that of their squares does not.
    assert moves.sum() > 100.0
    assert (moves**2)[5000:].sum() < 0.1 * (moves**2)[:5000].sum()


# --- pooling --------------------------------------------------------------------------------------


@pytest.fixture
def walk():
    return RandomWalk(-0.4, root=DenseRoot(np.array([[1.0, 0.0], [0.3, 2.0]])))


def test_the_shape_is_the_covariance_of_the_later_half_of_all_chains(walk):
    rng = np.random.default_rng(0)
    history = rng.standard_normal((4, 1000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.5]])
    history[:, :500] = 1e6  # the way in from bad starts
    pooled = walk.with_covariance(pooled_covariance(history))
    recent = history[:, 500:].reshape(-1, 2)
    n = len(recent)
    expected = (n * np.cov(recent, rowvar=False) + 0.05 * np.eye(2)) / (n + 5.0)
    assert_allclose(pooled.root.matrix @ pooled.root.matrix.T, expected, rtol=1e-12)
    assert_array_equal(np.triu(pooled.root.matrix, 1), 0.0)
    # Optimal for a Gaussian target, whatever the scale of the old shape was.
    assert pooled.log_scale == pytest.approx(np.log(2.38 / np.sqrt(2.0)))


def test_chains_that_differ_widen_the_shape(walk):
    """Chains stuck in different places tell the walk how far apart they are."""
    history = np.zeros((2, 20, 2))
    history[1, :, 0] = 4.0
    pooled = walk.with_covariance(pooled_covariance(history))
    covariance = pooled.root.matrix @ pooled.root.matrix.T
    assert covariance[0, 0] > 3.0
    assert covariance[1, 1] < 0.1


@in_one_test("n_steps", [1, 2, 3])
def test_chains_that_have_not_moved_give_a_positive_definite_shape(walk, n_steps):
    pooled = walk.with_covariance(pooled_covariance(np.ones((1, n_steps, 2))))
    assert np.isfinite(pooled.root.matrix).all()
    assert (pooled.root.matrix.diagonal() > 0.0).all()


def test_proposals_of_the_walk_have_the_stated_covariance(walk):
    rng = np.random.default_rng(1)
    theta = np.array([3.0, -1.0])
    moves = np.array([walk.propose(theta, rng)[0] - theta for _ in range(20_000)])
    C = np.exp(-0.8) * walk.root.matrix @ walk.root.matrix.T
    error = np.sqrt((np.outer(C.diagonal(), C.diagonal()) + C**2) / len(moves))
    assert (np.abs(moves.T @ moves / len(moves) - C) < 4.0 * error).all()
    assert walk.propose(theta, rng)[1] == 0.0  # symmetric


def test_joint_update_is_tuned_by_the_acceptance_of_theta_alone():
    """By Laplace's evidence: weights of draws of f would drive the step to nothing."""
    X, y = toy_classes(15, 2, seed=1)
    model = make_model(X, y)
    update = JointUpdate(Laplace(), RandomWalk(0.3))
    rng = np.random.default_rng(0)
    state = update.start(model, np.array([1.0, -0.5]), rng)
    found, wanted = [], []
    for _ in range(20):
        after, info = update.step(model, state, rng)
        if after is state:
            continue
        before, now = (
            Laplace().fit(model, s.theta).log_evidence + model.hyperprior.log_prob(s.theta)
            for s in (state, after)
        )
        found.append(info.tuning_probability)
        wanted.append(np.exp(min(now - before, 0.0)))
        state = after
    assert len(found) > 3
    assert_allclose(found, wanted, rtol=1e-3)


def test_langevin_step_is_tuned_up_to_its_largest_size():
    """Where every step is accepted, tuning would take the scale far away from where it acts."""
    operator = Langevin().with_log_scale(9.0)
    assert operator.log_scale == pytest.approx(0.5 * np.log(2.0))
    assert operator.with_log_scale(-1.0).log_scale == -1.0
