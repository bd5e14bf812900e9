"""Which particle a refresh keeps, and which one an elliptical slice moves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.transitions import EllipticalSlice, RandomWalk
from skgpmcmc.transitions.particles import ParticleRefresh, RetainedParticle
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ...helpers import THREE_THETA, three_point_model

N, HEAVY, SHARE = 6, 4, 0.2


def with_a_heavy_particle():
    """A model, and a state in which one particle, not the first, has all of the weight."""
    model, rng = three_point_model(), np.random.default_rng(0)
    walk = PseudoMarginalMetropolis(EP(), RandomWalk(), N, SHARE)
    state = walk.start(model, THREE_THETA, rng)
    log_weights = np.full(N, -np.inf)
    log_weights[HEAVY] = 0.0
    return model, state._replace(estimate=state.estimate._replace(log_weights=log_weights)), rng


def test_a_refresh_keeps_the_particle_that_is_drawn_by_weight():
    model, state, rng = with_a_heavy_particle()
    before = state.estimate.particles
    new, _ = ParticleRefresh(SHARE).step(model, state, rng)
    after = new.estimate.particles
    (kept,) = np.flatnonzero((after == before[:, [HEAVY]]).all(axis=0))
    assert not np.isin(np.delete(after, kept, axis=1), before).any()
    assert after.shape == (3, N)
    assert len(np.unique(after)) == after.size


def test_retained_particle_move_takes_the_particle_drawn_by_weight():
    model, state, rng = with_a_heavy_particle()
    before = state.estimate
    new, _ = RetainedParticle(SHARE).step(model, state, rng)
    moved = new.estimate.particles[:, HEAVY]
    assert (moved != before.particles[:, HEAVY]).all()
    assert_array_equal(new.f, moved)
    others = np.arange(N) != HEAVY
    assert_array_equal(new.estimate.particles[:, others], before.particles[:, others])
    assert_array_equal(new.estimate.log_weights[others], before.log_weights[others])
    weight = log_importance_weights(model, state.density, moved[:, None], defensive=SHARE)
    assert_allclose(new.estimate.log_weights[HEAVY], weight[0], rtol=1e-10)
    log_mean = np.log(np.exp(new.estimate.log_weights[HEAVY]) / N)
    assert new.estimate.log_likelihood == pytest.approx(log_mean)


@pytest.mark.parametrize("n_steps", [1, 3])
def test_moved_particle_keeps_its_place(monkeypatch, n_steps):
    """Whichever it is, with as many steps as were asked for."""

    def step(self, model, state, rng):
        return model.with_latent(state, state.f + 1.0), None

    monkeypatch.setattr(EllipticalSlice, "step", step)
    model, rng = three_point_model(), np.random.default_rng(0)
    walk = PseudoMarginalMetropolis(EP(), RandomWalk(), N, 0.2)
    state, places = walk.start(model, THREE_THETA, rng), set()
    for _ in range(20):
        before = state.estimate.particles
        state, _ = RetainedParticle(0.2, n_steps).step(model, state, rng)
        after = state.estimate.particles
        (moved,) = np.flatnonzero((after != before).any(axis=0))
        assert_allclose(after[:, moved], before[:, moved] + n_steps)
        places.add(moved)
    assert len(places) > 1
