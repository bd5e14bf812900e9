"""Warm-up brings moves to the acceptance rate that they are wanted to have."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from skgpmcmc.transitions import MarginalMetropolis, StepInfo, Sweep, Tunable
from skgpmcmc.transitions.base import metropolis_accepts
from skgpmcmc.warmup import Request, set_up_random_walk, set_up_sweep

from .test_learner import finish


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


def finished(set_up):
    """Do the work of a set-up; returns what it prepared."""
    return finish(set_up)[0]


def streams(n, seed):
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(n)]


def asked(starts, seed):
    """Two chains of 2000 iterations on the standard normal target."""
    return Request(FLAT, Standard(), starts, streams(2, seed), None, None, 2000)


@pytest.mark.parametrize("target", [0.15, 0.4, 0.75])
def test_a_random_walk_is_tuned_to_its_target(target):
    starts = [np.array([sign, 0.5 * sign]) for sign in (-1.0, 1.0)]
    made = []

    def frozen(walk):
        made.append(MarginalMetropolis(Standard(), walk, with_latent=False))
        return made[-1]

    finished(set_up_random_walk(asked(starts, 0), target, frozen))
    (transition,) = made
    rng, state = np.random.default_rng(1), None
    state, probabilities = transition.start(FLAT, np.zeros(2), rng), []
    for _ in range(2000):
        state, info = transition.step(FLAT, state, rng)
        probabilities.append(info.acceptance_probability)
    assert np.mean(probabilities) == pytest.approx(target, abs=0.08)


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


def test_the_parts_of_a_sweep_are_tuned_to_their_own_targets():
    targets = (0.2, 0.7)
    sweep = Sweep(tuple(Walker(3.0, target) for target in targets), (1, 2))
    starts = [np.zeros(1)] * 2
    prepared = finished(set_up_sweep(asked(starts, 2), sweep, learns_shape=False))
    rng = np.random.default_rng(3)
    for part, target in zip(prepared.transition.moves, targets, strict=True):
        state, probabilities = part.start(FLAT, np.zeros(1), rng), []
        for _ in range(2000):
            state, info = part.step(FLAT, state, rng)
            probabilities.append(info.acceptance_probability)
        assert np.mean(probabilities) == pytest.approx(target, abs=0.08)
