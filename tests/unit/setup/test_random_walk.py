"""Warm-up brings moves to the acceptance rate that they are wanted to have."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.numerics.dynamics import DenseRoot
from skgpmcmc.setup import Request
from skgpmcmc.setup.random_walk import set_up_random_walk, set_up_sweep
from skgpmcmc.setup.schedule import WarmUpSchedule
from skgpmcmc.transitions import RandomWalk, StepInfo, Sweep, Tunable, metropolis_accepts
from skgpmcmc.transitions.metropolis import MarginalMetropolis, MarginalWalk

from ...helpers import Watched, streams


class Standard:
    """An "approximation" whose evidence is that of a standard normal theta."""

    def fit(self, model, theta, start=None):
        return None, -0.5 * float(theta @ theta), True, 0


#: As much of a model as a random walk on an evidence asks for.
FLAT = SimpleNamespace(
    hyperprior=SimpleNamespace(log_prob=lambda theta: 0.0),
    covariance=None,
    likelihood=None,
    observations=None,
    y=np.zeros(3),
)


def asked(starts, seed):
    """Two chains of 2000 iterations on the standard normal target."""
    return Request(FLAT, Standard(), starts, streams(2, seed), None, None, 2000)


def acceptance_of(transition, start):
    """Mean over two thousand steps."""
    rng, probabilities = np.random.default_rng(1), []
    state = transition.start(FLAT, start, rng)
    for _ in range(2000):
        state, info = transition.step(FLAT, state, rng)
        probabilities.append(info.acceptance_probability)
    return np.mean(probabilities)


def frozen(walk):
    return MarginalMetropolis(Standard(), walk, with_latent=False)


@pytest.mark.parametrize("target", [0.15, 0.75])
def test_random_walk_is_tuned_to_its_target_acceptance(target):
    starts = [np.array([sign, 0.5 * sign]) for sign in (-1.0, 1.0)]
    prepared = set_up_random_walk(asked(starts, 0), target, frozen, InProcessExecutor())
    assert acceptance_of(prepared.transition, np.zeros(2)) == pytest.approx(target, abs=0.08)


def test_tuning_of_the_scale_keeps_the_shape_and_a_new_shape_sets_the_scale():
    root = DenseRoot(np.array([[1.0, 0.0], [0.3, 2.0]]))
    walk = MarginalWalk(Standard(), RandomWalk(-0.4, 0.3, root), with_latent=False)
    sweep = Sweep((Walker(0.5, 0.6), walk), (1, 1))
    walker, moved = sweep.with_log_scales([0.1, 0.2]).moves
    assert (walker.log_scale, moved.log_scale) == (0.1, 0.2)
    assert moved.proposal.root is root
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    walker, moved = sweep.with_covariance(covariance).moves
    assert walker.log_scale == 0.5
    new = moved.proposal.root.matrix
    assert new @ new.T == pytest.approx(covariance)
    assert moved.log_scale == pytest.approx(np.log(2.38 / np.sqrt(2.0)))
    assert (walker.target_acceptance, moved.target_acceptance) == (0.6, 0.3)


def test_chains_share_scale_and_shape_between_windows():
    """Their median scale where the shape stays, and the scale of a new shape where that is new."""
    starts = [np.array([sign, 0.5 * sign]) for sign in (-1.0, 0.1, 1.0)]
    request = Request(FLAT, Standard(), starts, streams(3, 4), None, None, 200)
    sweep = Sweep((MarginalWalk(Standard(), RandomWalk(), with_latent=False),), (1,))
    watched = Watched()
    prepared = set_up_sweep(request, sweep, watched, learns_shape=True)
    _begun, *batches = watched.batches
    windows = []
    for (_, items, results), window in zip(
        batches, WarmUpSchedule.of_length(200).windows, strict=True
    ):
        (walk,) = {id(item[1]): item[1].moves[0] for item in items}.values()
        windows.append((walk, np.median([chain.log_scales[0] for chain in results]), window))
    after = [walk for walk, _, _ in windows[1:]] + [prepared.transition.moves[0]]
    assert {window.learns_shape for _, _, window in windows} == {False, True}
    for (walk, median, window), pooled in zip(windows, after, strict=True):
        assert (pooled.proposal.root is walk.proposal.root) == (not window.learns_shape)
        expected = np.log(2.38 / np.sqrt(2.0)) if window.learns_shape else median
        assert pooled.log_scale == pytest.approx(expected, abs=1e-12)


def test_warm_up_runs_without_hyper_parameters():
    request = Request(FLAT, Standard(), [np.empty(0)] * 2, streams(2, 5), None, None, 40)
    prepared = set_up_random_walk(request, 0.25, frozen, InProcessExecutor())
    assert np.isfinite(prepared.transition.proposal.log_scale)
    assert [theta.shape for theta in prepared.thetas] == [(0,), (0,)]
    assert acceptance_of(prepared.transition, np.empty(0)) == 1.0


@dataclass(frozen=True)
class Walker(Tunable):
    """A random walk of f[0] on a standard normal target."""

    log_scale: float
    target_acceptance: float
    name = "walker"
    moves_theta = False

    def start(self, model, theta, rng):
        return SimpleNamespace(theta=theta, f=np.zeros(1))

    def step(self, model, state, rng):
        f = state.f + np.exp(self.log_scale) * rng.standard_normal(1)
        log_ratio = 0.5 * float(state.f @ state.f - f @ f)
        accepted, probability = metropolis_accepts(log_ratio, rng)
        new = SimpleNamespace(theta=state.theta, f=f) if accepted else state
        return new, StepInfo(self.name, accepted, probability, 1, False)

    def with_log_scale(self, log_scale):
        return replace(self, log_scale=log_scale)


def test_moves_of_a_sweep_are_tuned_to_their_own_target_acceptance():
    targets = (0.2, 0.7)
    sweep = Sweep(tuple(Walker(3.0, target) for target in targets), (1, 2))
    request = asked([np.zeros(1)] * 2, 2)
    prepared = set_up_sweep(request, sweep, InProcessExecutor(), learns_shape=False)
    for part, target in zip(prepared.transition.moves, targets, strict=True):
        assert acceptance_of(part, np.zeros(1)) == pytest.approx(target, abs=0.08)
