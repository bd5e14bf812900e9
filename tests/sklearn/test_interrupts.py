"""Ctrl-C while something runs, as a signal that comes at its own time."""

import pickle
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.estimators import _base
from skgpmcmc.samplers import Interweaving, PseudoMarginal

from .conftest import ROUND_LENGTH, AtRound, interrupt

# A few draws are enough here; that chains converge is tested elsewhere.
pytestmark = [
    pytest.mark.usefixtures("short_rounds"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(
        not hasattr(signal, "setitimer") or threading.current_thread().name != "MainThread",
        reason="needs a timer that sends signals, and the thread that receives them",
    ),
]

# Workers that are ended have to be started again, which takes seconds.
N_JOBS = [1, pytest.param(2, marks=pytest.mark.statistical)]


@contextmanager
def ctrl_c_after(seconds):
    """What Ctrl-C does, so many seconds after `arm` is called."""

    def arm():
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield arm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def quick(**changes):
    settings = {"sampler": "asis", "n_chains": 2, "n_warmup": 5, "random_state": 0}
    return BayesianGPClassifier(**{**settings, **changes})


def moons():
    return make_moons(40, noise=0.15, random_state=0)


@pytest.mark.filterwarnings("ignore:This fit will be long")  # it would be, on a slow machine
@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_ctrl_c_in_a_round_keeps_the_complete_rounds(n_jobs):
    X, y = moons()
    n_before = Interweaving().n_set_up_rounds(5)
    few = {"priors": "paper", "max_predict_draws": 20}  # under wider ones, few draws score less
    model = quick(n_draws=1000 * ROUND_LENGTH, n_jobs=n_jobs, **few)
    with ctrl_c_after(0.2) as arm, pytest.warns(UserWarning, match="Sampling was interrupted"):
        model.set_callbacks(AtRound(n_before, arm)).fit(X, y)
    kept = model.theta_samples_.shape[1]
    assert kept % ROUND_LENGTH == 0
    assert ROUND_LENGTH <= kept < 1000 * ROUND_LENGTH
    uncut = quick(n_draws=ROUND_LENGTH, priors="paper").fit(X, y)
    assert_array_equal(model.theta_samples_[:, :ROUND_LENGTH], uncut.theta_samples_)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_ctrl_c_ends_a_prediction_soon(n_jobs):
    X, y = moons()
    model = quick(n_draws=ROUND_LENGTH, n_jobs=n_jobs).fit(X, y)
    before = model.predict_proba(X)
    X_new = np.tile(X, (2_000, 1))
    begin = time.perf_counter()
    with ctrl_c_after(0.2) as arm:
        arm()
        with pytest.raises(KeyboardInterrupt):
            model.predict_proba(X_new)
    assert time.perf_counter() - begin < 60.0  # of some minutes
    assert_array_equal(model.predict_proba(X), before)


# --- after the last draw --------------------------------------------------------------------------


WALK = PseudoMarginal(moves="random_walk")


def exact(**changes):
    settings = {"sampler": WALK, "approximation": "laplace", "n_warmup": 12, "n_importance": 4}
    return quick(**settings, n_chains=1, n_draws=ROUND_LENGTH, **changes)


def test_interrupt_after_the_last_draw_keeps_all_draws(monkeypatch):
    X, y = moons()
    uncut = exact().fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(_base, "find_density_arrays", interrupt)
        with pytest.warns(UserWarning, match="all draws are kept"):
            model = exact().fit(X, y)
    assert_array_equal(model.theta_samples_, uncut.theta_samples_)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), uncut.predict_proba(X))
    assert_array_equal(model.predict_proba(X), uncut.predict_proba(X))


def test_no_long_work_begins_after_an_interrupt(monkeypatch):
    X, y = moons()
    callback = AtRound(WALK.n_set_up_rounds(12), interrupt)
    with monkeypatch.context() as patch:
        patch.setattr(_base, "find_density_arrays", None)
        with pytest.warns(UserWarning, match="Sampling was interrupted"):
            model = exact().set_params(n_draws=3 * ROUND_LENGTH).set_callbacks(callback).fit(X, y)
    short = exact().fit(X, y)
    assert_array_equal(model.predict_proba(X), short.predict_proba(X))
