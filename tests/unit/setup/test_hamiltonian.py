"""Warm-up by trajectories: the metric, the windows, and the chains that it leaves."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared

from skgpmcmc.approximations import Exact
from skgpmcmc.chain import InProcessExecutor, sample
from skgpmcmc.chain.time_limit import TimeLimit, apply_limit
from skgpmcmc.model import make_covariance
from skgpmcmc.setup import Request
from skgpmcmc.setup.emulated import set_up_emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.hamiltonian import learn_root, run_hamiltonian_chains, trajectories_are_cheaper
from skgpmcmc.transitions.base import drop_factors

from ...helpers import CutShort, in_one_test, make_model, toy_classes
from ..hyperposterior.test_posterior import regression

DIM = 5
#: Standard deviations from 0.02 to 3, and correlations.
TURN = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
COVARIANCE = TURN @ np.diag(np.geomspace(0.02, 3.0, DIM) ** 2) @ TURN.T
PRECISION = np.linalg.inv(COVARIANCE)
OPTIONS = EmulatorOptions()


def point(position):
    gradient = -PRECISION @ position
    log_density = 0.5 * float(position @ gradient)
    return SimpleNamespace(
        position=position, log_density=log_density, gradient=gradient, sites=None
    )


@dataclass(frozen=True)
class Normal:
    """A posterior of known covariance."""

    keep: object = None
    start = model = None

    def at(self, position, sites=None):
        return point(position)


def explore(starts, windows, target=None, workers=None):
    root, seeds = np.eye(len(starts[0])), np.random.SeedSequence(1).spawn(len(starts))
    workers = workers or InProcessExecutor()
    return run_hamiltonian_chains(
        target or Normal(), starts, root, seeds, workers, OPTIONS, windows
    )


def condition(root):
    """Condition of the covariance in the coordinates of a root."""
    whitened = np.linalg.solve(root, np.linalg.solve(root, COVARIANCE).T)
    return np.linalg.cond(whitened)


def test_metric_of_many_points_is_their_covariance():
    draws = np.random.default_rng(2).multivariate_normal(np.zeros(DIM), COVARIANCE, size=4000)
    root = learn_root(np.eye(DIM), [point(draw) for draw in draws])
    assert_allclose(np.triu(root, 1), 0.0)
    assert condition(root) < 1.5  # what it is shrunk to has its share where the spread is 0.02


def test_gradients_improve_the_metric_of_few_points():
    """As many points as dimensions and a few: positions alone say far less."""
    draws = np.random.default_rng(3).multivariate_normal(np.zeros(DIM), COVARIANCE, size=12)
    root = 1.5 * np.linalg.cholesky(np.diag(COVARIANCE.diagonal()))
    learned = learn_root(root, [point(draw) for draw in draws])
    assert condition(learned) < 0.02 * condition(root)
    centered = draws - draws.mean(axis=0)
    of_positions = np.linalg.cholesky(centered.T @ centered / len(draws))
    assert condition(learned) < condition(of_positions)


def test_warm_up_finds_metric_and_step_size():
    starts = 2.0 * np.random.default_rng(4).standard_normal((4, DIM))
    exploration = explore(starts, [20] * 5)
    assert condition(exploration.trajectory.root.matrix) < 5.0
    assert len(exploration.ends) == 4
    assert len(exploration.states) == 4 * 20
    positions = {p.position.tobytes() for p in exploration.visited}
    assert {theta.tobytes() for theta in exploration.ends} <= positions
    assert len(exploration.visited) < exploration.n_evaluations  # those of the last window
    # On a Gaussian in its own metric, steps are about as long as they can be.
    assert -0.7 < exploration.trajectory.log_scale < 0.7
    rng, here, accepted = np.random.default_rng(5), point(exploration.ends[0]), []
    for _ in range(200):
        outcome = exploration.trajectory.move(Normal(), here, rng)
        here = outcome.point
        accepted.append(outcome.acceptance_probability)
    assert 0.75 < np.mean(accepted) < 0.99


@in_one_test("dim", [4, 8, 22, 60])
def test_warm_up_windows_hold_enough_points_for_a_covariance(dim):
    windows = OPTIONS.windows(dim, 4)
    assert 4 * sum(windows[:-1]) >= 6 * dim
    assert all(window >= 4 for window in windows)
    assert windows[-1] == sum(windows[:-1])


def asked(model, n_chains=2):
    *rngs, own = np.random.default_rng(7).spawn(n_chains + 1)
    starts = [model.hyperprior.sample(rng) for rng in rngs]
    return Request(model, Exact(), starts, rngs, own, None, 7)


def regression_with_an_intercept():
    """With Gaussian noise and five hyper-parameters: the fewest for chains of trajectories."""
    return regression(kernel=ConstantKernel(1.5) * RBF([1.0, 2.0]) + ConstantKernel())


@pytest.fixture(scope="module")
def prepared():
    model = regression_with_an_intercept()
    return model, set_up_emulated(asked(model), InProcessExecutor(), None, draws_latent=False)


def test_chains_continue_from_the_ends_of_the_warm_up(prepared):
    model, ready = prepared
    assert ready.n_burn_in == 0
    assert ready.n_evaluations > 100
    assert not ready.draws_latent
    for theta, state in zip(ready.thetas, ready.states, strict=True):
        assert_array_equal(state.theta, theta)
        q = Exact().fit(model, theta).q
        assert_allclose(state.f, q.mean, rtol=1e-8)
    segment = sample(model, ready.transition, ready.states[0], ready.rngs[0], 5)
    assert segment.theta.shape == (5, 5)
    assert segment.f.shape == (5, model.n_latent)
    assert segment.counts.n_evaluations >= 5


def test_state_without_factors_continues_to_the_same_draw(prepared):
    model, ready = prepared
    state = ready.states[0]
    moved, again = (
        ready.transition.step(model, own, np.random.default_rng(1))[0]
        for own in (state, drop_factors(model, state))
    )
    assert_array_equal(moved.theta, again.theta)
    assert moved.point.log_density == again.point.log_density


def test_start_without_density_is_refused_by_name(prepared):
    model, ready = prepared
    assert ready.transition.start(model, np.full(5, 1e4), np.random.default_rng(0)) is None

    @dataclass(frozen=True)
    class Nowhere(Normal):
        model: object = None

        def at(self, position, sites=None):
            return None

    with pytest.raises(RuntimeError, match=r"No chain can start.*noise_scale"):
        explore(asked(model).starts, [5], Nowhere(model=model))


@in_one_test(("last", "n_states"), [("warm-up by trajectories: window 2", 4 * 7), ("nothing", 0)])
def test_warm_up_ends_with_partial_results_at_the_time_limit(last, n_states):
    starts = np.random.default_rng(4).standard_normal((4, DIM))
    with apply_limit(TimeLimit(np.inf if n_states else -np.inf)) as limit:
        exploration = explore(starts, [5, 7, 9], workers=CutShort(limit, last))
    assert len(exploration.states) == n_states
    assert len(exploration.ends) == 4
    assert (exploration.n_evaluations > 40) == (n_states > 0)


def test_trajectories_are_chosen_for_gaussian_noise_and_many_hyperparameters():
    model = regression_with_an_intercept()
    assert trajectories_are_cheaper(model, OPTIONS)
    assert not trajectories_are_cheaper(regression(), OPTIONS)
    assert not trajectories_are_cheaper(make_model(*toy_classes(12, 2, 1)), OPTIONS)
    assert not trajectories_are_cheaper(regression(kernel=ConstantKernel() * RBF()), OPTIONS)
    assert not trajectories_are_cheaper(
        regression(kernel=RBF([1.0, 1.0]) * ExpSineSquared()), OPTIONS
    )
    many = make_covariance(model.covariance.kernel, np.zeros((200, 2)))
    assert not trajectories_are_cheaper(replace(model, covariance=many), OPTIONS)
