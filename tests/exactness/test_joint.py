"""Whole transitions keep the joint law of (theta, f, y): Geweke (2004), Gandy & Scott (2020).

`tests/planted_bugs` shows that these tests, at these sizes, catch wrong transitions.
"""

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.testing import prior_invariance_test, start_at_latent, start_with_particles
from skgpmcmc.transitions import EllipticalSlice
from skgpmcmc.warmup import Schedule, pooled_walk, tuned_log_scale

from ..helpers import make_model

#: Family-wise over the statistics of a test.
LEVEL = 1e-3
#: A transition that hardly moves is hardly tested.
LEAST_ACCEPTANCE = 0.1

PARTICLE_SIZES = {"n_replicates": 1300, "n_steps": 8}
SLICE_SIZES = {"n_replicates": 10_000, "n_steps": 20, "n_reference": 20_000}


def small_model(n, variance, likelihood="probit"):
    """A few points under moderately informative priors; its targets are drawn anew every time."""
    X = np.linspace(0.0, 2.0, n)[:, None]
    priors = {
        "k1__constant_value": stats.lognorm(0.7, scale=variance),
        "k2__length_scale": stats.lognorm(0.7, scale=1.0),
    }
    return make_model(X, np.ones(n), likelihood, priors=priors)


def tuned_walk(model, approximation, rng, n_steps=200):
    """Random walk tuned on the approximate marginal posterior, as warm-up does; one chain."""
    sampler = PseudoMarginal()
    transition = sampler.warmup_transition(approximation, len(model.covariance.names))
    walk, history = transition.proposal, []
    state = transition.start(model, model.hyperprior.sample(rng), rng)
    for window in Schedule.of_length(n_steps).windows:
        log_scale = walk.log_scale
        for i in range(window.n_steps):
            transition = transition.with_proposal(walk.with_log_scale(log_scale))
            state, info = transition.step(model, state, rng)
            log_scale = tuned_log_scale(
                log_scale,
                info.acceptance_probability,
                sampler.target_acceptance,
                window.first_gain + i,
            )
            history.append(state.theta)
        walk = pooled_walk(walk, [log_scale], np.array([history]), learns_shape=window.learns_shape)
    return walk


def particle_test(transition_for, seed=0):
    """Prior-invariance test of ``transition_for(walk)``, the walk tuned for each y."""

    def set_up(model, rng):
        return transition_for(tuned_walk(model, Laplace(), rng))

    rng = np.random.default_rng(seed)
    model = small_model(4, 4.0)
    return prior_invariance_test(model, set_up, start_with_particles, rng=rng, **PARTICLE_SIZES)


def slice_test(transition, seed=0, likelihood="probit"):
    """Prior-invariance test of a transition on f alone, at random theta.

    The large variance makes the slices narrow, so that brackets shrink many times.
    """
    rng = np.random.default_rng(seed)
    model = small_model(2, 30.0, likelihood)
    return prior_invariance_test(
        model, lambda *_: transition, start_at_latent, rng=rng, **SLICE_SIZES
    )


@pytest.mark.parametrize("defensive", [0.0, 0.2])
@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_pseudo_marginal_transition(approximation, defensive):
    sampler = PseudoMarginal(defensive=defensive)
    report = particle_test(lambda walk: sampler.sampling_transition(approximation, walk, 2))
    assert report.p_value > LEVEL, report
    assert report.acceptance_rate > LEAST_ACCEPTANCE


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_elliptical_slice(likelihood):
    report = slice_test(EllipticalSlice(), likelihood=likelihood)
    assert report.p_value > LEVEL, report
    assert report.acceptance_rate > LEAST_ACCEPTANCE
