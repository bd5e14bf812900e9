"""Priors under which chains go where hardly anything can be computed."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skgpmcmc import BayesianGPClassifier, BayesianGPPoissonRegressor
from skgpmcmc.likelihoods import OrdinalProbit
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

#: The median of this variance is exp(693).
WIDE = {"k1__constant_value": stats.pareto(0.001)}
SHORT = {"n_chains": 2, "n_warmup": 3, "n_draws": 13, "n_importance": 4, "target_ess": None}
SHORT |= {"approximation": "laplace"}
WALK = PseudoMarginal(moves="random_walk")


@short_chains()
def test_predictions_say_where_f_cannot_be_drawn():
    column = [-0.132, 0.105, 0.362, 0.947, -1.265, 0.042, -0.219, -0.732]
    X, y = np.column_stack([np.full(8, 3.0), column]), np.array([0, 1, 0, 2, 3, 2, 0, 2])
    messages = []
    for seed in range(2):  # a chain may have been at values where predictions overflow instead
        model = BayesianGPPoissonRegressor(
            priors=WIDE, sampler=WALK, max_predict_draws=3, random_state=seed, **SHORT
        ).fit(X, y)
        with pytest.raises(
            ValueError, match=r"where a chain has been|beyond double precision"
        ) as e:
            model.predict(X[:2])
        messages.append(str(e.value))
    wanted = re.compile(r"(?s)'k1__constant_value': .*where a chain has been.*use priors")
    assert any(map(wanted.search, messages))


@short_chains()
def test_estimates_that_are_zero_have_an_infinite_noise():
    X = np.random.default_rng(0).standard_normal((8, 15))
    y = np.array([0, 0, 1, 0, 0, 1, 2, 1])
    noises = [
        BayesianGPPoissonRegressor(
            likelihood="poisson",
            priors=WIDE,
            sampler=WALK,
            max_predict_draws=3,
            random_state=seed,
            **SHORT,
        )
        .fit(X, y)
        .diagnostics_.log_likelihood_sd
        for seed in range(4)
    ]
    assert np.isinf(noises).any()  # and no warning, which would be an error here
    assert not np.isnan(noises).any()


@short_chains()
def test_rows_that_are_all_alike_and_a_variance_without_bounds():
    """K is of rank one, and has a density however large it is."""
    model = BayesianGPClassifier(multi_class="softmax", priors=WIDE, random_state=0, **SHORT)
    model.fit(np.full((3, 2), 3.0), [0, 1, 2])
    proba = model.predict_proba(np.full((3, 2), 3.0))
    assert np.isfinite(proba).all()
    assert_allclose(proba, proba[:1].repeat(3, axis=0), rtol=1e-9)
    f = model.latent_samples_
    assert_allclose(f, f[:, :, :1].repeat(3, axis=2), rtol=1e-9)  # of each class


def test_a_class_too_far_out_for_doubles_is_impossible():
    likelihood = OrdinalProbit(thresholds=(-145.7, 2.64e19, 2.64e19))
    y, weight = np.array([0.0, 2.0, 3.0]), np.array([1.0, 0.26, 0.75])
    log_z = likelihood.weighted_tilted_moments(y, weight, np.zeros(3), np.full(3, 1.0)).log_z
    assert np.isfinite(log_z[0])
    assert not (log_z[1:] > -1e10).any()  # and no warning, which would be an error here
