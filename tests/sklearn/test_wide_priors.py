"""Priors under which chains go where hardly anything can be computed."""

import numpy as np
import pytest
from scipy import stats

from skgpmcmc import BayesianGPPoissonRegressor
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

#: The median of this variance is exp(693).
WIDE = {"k1__constant_value": stats.pareto(0.001)}
SHORT = {"n_chains": 2, "n_warmup": 3, "n_draws": 13, "n_importance": 4, "target_ess": None}
WALK = PseudoMarginal(moves="random_walk")


@short_chains()
def test_predictions_say_where_f_cannot_be_drawn():
    column = [-0.132, 0.105, 0.362, 0.947, -1.265, 0.042, -0.219, -0.732]
    X, y = np.column_stack([np.full(8, 3.0), column]), np.array([0, 1, 0, 2, 3, 2, 0, 2])
    model = BayesianGPPoissonRegressor(
        priors=WIDE, sampler=WALK, max_predict_draws=3, random_state=0, **SHORT
    ).fit(X, y)
    with pytest.raises(
        ValueError, match=r"(?s)'k1__constant_value': .*where a chain has been.*use priors"
    ):
        model.predict(X[:2])


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
