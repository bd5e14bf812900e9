"""Chains that do not move keep no matrices: between rounds, and after a fit."""

import pickle

import numpy as np
import pytest

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.chain import sample
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.transitions import EllipticalSlice
from skgpmcmc.transitions.base import drop_factors

from ..helpers import make_model, toy_classes
from .conftest import matrices

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

N = 61  # a size that nothing else has


QUICK = {"n_chains": 2, "n_warmup": 2, "n_draws": 3, "n_importance": 4, "random_state": 0}
WALK = PseudoMarginal(moves="random_walk")
SETTINGS = {
    "pm": {"sampler": WALK, "approximation": "laplace"},
    "ep": {"sampler": WALK, "approximation": "ep"},
    "asis": {"sampler": "asis"},
    "khr": {"sampler": "khr"},
    "softmax": {"sampler": WALK, "multi_class": "softmax", "approximation": "laplace"},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_fitted_estimator_holds_no_matrices(name):
    X, y = toy_classes(N, 2, seed=0)
    model = BayesianGPClassifier(**QUICK, **SETTINGS[name]).fit(X, y)
    assert matrices(model, N) == []
    assert len(model._sampling.run.models[0].chains) == 2  # they can be continued all the same


def test_predictions_keep_matrices_only_in_the_cache():
    X, y = toy_classes(N, 2, seed=0)
    for n_bytes in (0, 2**29):
        settings = {**QUICK, **SETTINGS["ep"], "predict_cache_bytes": n_bytes}
        model = BayesianGPClassifier(**settings).fit(X, y)
        model.predict_proba(X[:3])
        assert bool(matrices(model, N)) == (n_bytes > 0)
        assert matrices(pickle.loads(pickle.dumps(model)), N) == []


def test_dropped_factors_leave_a_state_without_matrices():
    model = make_model(*toy_classes(N, 2, seed=0))
    state = EllipticalSlice().start(model, model.start, np.random.default_rng(0))
    assert len(matrices([state], N)) >= 2  # K and its factor: the search is one that can fail
    resting = drop_factors(model, state)
    assert matrices([resting], N) == []
    assert resting.prior.covariance is model.covariance
    assert resting.prior is not state.prior
    np.testing.assert_array_equal(resting.f, state.f)
    assert resting.log_lik == state.log_lik


def test_sampling_makes_no_matrices_in_the_initial_state():
    """That one waits in the parent, beside those of all other chains."""
    model = make_model(*toy_classes(N, 2, seed=0))
    rng = np.random.default_rng(0)
    state = drop_factors(model, EllipticalSlice().start(model, model.start, rng))
    segment = sample(model, EllipticalSlice(), state, rng, 2)
    assert matrices([state], N) == []
    assert matrices([segment], N) == []
