"""Fits beside one another, in one another, and in processes of any kind: the same draws."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains, toy_classes
from .conftest import assert_same_draws

# Of other threads and processes, too.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, Y = toy_classes(20, 2, seed=1)


def quick(**changes):
    settings = {"n_chains": 2, "n_warmup": 10, "n_draws": 12, "n_importance": 4}
    walk = PseudoMarginal(moves="random_walk")
    settings |= {"sampler": walk, "approximation": "laplace", "target_ess": None}
    return BayesianGPClassifier(**{**settings, **changes})


def fitted(random_state, **changes):
    return quick(random_state=random_state, **changes).fit(X, Y)


def fitted_quietly(random_state):
    """What a process of its own is asked for."""
    with short_chains():
        model = fitted(random_state)
    return model.theta_samples_, model.predict_proba(X)


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.statistical)])
def test_fits_in_two_threads_have_the_draws_of_one_thread(n_jobs):
    alone = [fitted(seed) for seed in range(4)]
    with ThreadPoolExecutor(2) as pool:
        beside = list(pool.map(lambda seed: fitted(seed, n_jobs=n_jobs), range(4)))
    for mine, other in zip(beside, alone, strict=True):
        assert_same_draws(mine, other)
        # Each counts its own work.
        assert mine.diagnostics_.operations == other.diagnostics_.operations


def test_predictions_in_two_threads_equal_those_in_one():
    model = fitted(0, max_predict_draws=8)
    alone = model.predict_proba(X)
    again = fitted(0, max_predict_draws=8)
    with ThreadPoolExecutor(2) as pool:
        for proba in pool.map(again.predict_proba, [X] * 6):
            assert_array_equal(proba, alone)


def test_parallel_search_of_parallel_fits_has_the_same_scores():
    grid = {"approximation": ["ep", "laplace"]}
    settings = {"cv": 2, "error_score": "raise", "scoring": "neg_log_loss"}
    alone, nested = (
        GridSearchCV(quick(random_state=0, n_jobs=n), grid, n_jobs=n, **settings).fit(X, Y)
        for n in (1, 2)
    )
    assert_array_equal(nested.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    draws = [search.best_estimator_.theta_samples_ for search in (nested, alone)]
    assert_array_equal(*draws)


@pytest.mark.parametrize(
    "method", ["spawn", pytest.param("forkserver", marks=pytest.mark.statistical)]
)
def test_draws_are_the_same_for_every_start_method_of_processes(method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no processes start by {method} here")
    theta, proba = fitted_quietly(0)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        found = pool.submit(fitted_quietly, 0).result()
    assert np.array_equal(found[0], theta)
    assert np.array_equal(found[1], proba)
