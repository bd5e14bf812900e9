"""What predictions keep: no result changes, room is respected, nothing of it is saved."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP
from skgpmcmc.likelihoods import Softmax
from skgpmcmc.model import ClasswiseGP, HyperPrior, Observations, default_kernel, make_covariance
from skgpmcmc.numerics.linalg import count_operations
from skgpmcmc.prediction import (
    FactorCache,
    ImportanceLatent,
    Integrated,
    OwnLatent,
    Predictor,
    density_arrays_at,
)

from ..helpers import make_model, toy_classes

N, N_THETAS = 12, 20
PLENTY = 10**8
STRATEGIES = {
    "integrated": Integrated(),
    "own": OwnLatent(),
    "particles": ImportanceLatent(3, 5, 0.05),
}
X_NEW = np.random.default_rng(4).uniform(-0.2, 1.2, size=(7, 2))


def predictor(strategy="particles", room=PLENTY):
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y)
    rng = np.random.default_rng(3)
    theta = np.array([0.8, -0.9]) + 0.3 * rng.standard_normal((N_THETAS, 2))
    theta[1] = theta[0]  # two draws that share all
    f = np.array([model.prior_at(t).sample(rng) for t in theta])
    arrays = density_arrays_at(model, EP(), theta)
    weight = rng.integers(1, 4, size=N_THETAS).astype(float)
    return Predictor(model, theta, f, weight, arrays, STRATEGIES[strategy], kept=FactorCache(room))


def softmax_predictor(separate, room=PLENTY):
    """Two functions for each of three classes, by the draws' own f."""
    X = np.random.default_rng(0).uniform(size=(N, 2))
    observed = Observations(Softmax(3), np.arange(N) % 3.0)
    covariance = make_covariance(default_kernel(2), X)
    model = ClasswiseGP(covariance, observed, HyperPrior((), {}), separate=separate)
    rng = np.random.default_rng(3)
    theta = 0.3 * rng.standard_normal((N_THETAS, len(model.start)))
    f = np.array([model.prior_at(t).sample(rng) for t in theta])
    return Predictor(model, theta, f, np.ones(N_THETAS), (), OwnLatent(), kept=FactorCache(room))


def n_factors(used, X_new=X_NEW):
    with count_operations() as count:
        used.latent_moments(X_new)
    return count.per(N).cholesky


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_result_changes(strategy):
    expected = predictor(strategy, 0).latent_moments(X_NEW)
    one_row = np.array(expected)[:, 2:3]
    for room in (0, 20_000, PLENTY):
        used = predictor(strategy, room)
        for _ in range(3):
            assert_array_equal(used.latent_moments(X_NEW), expected)
            assert_allclose(used.latent_moments(X_NEW[2:3]), one_row, rtol=1e-9)


# Processes are always two: other numbers of them would be started anew.
@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 3), ("loky", 2)])
def test_nor_with_workers(backend, n_jobs):
    expected = predictor().latent_moments(X_NEW)
    with joblib.parallel_config(backend=backend):
        for used in (predictor(), predictor(room=20_000)):
            for _ in range(2):
                assert_array_equal(used.latent_moments(X_NEW, n_jobs), expected)


def test_factors_are_made_once():
    used = predictor()
    assert n_factors(used) >= 2.0 * (N_THETAS - 1)  # of K, and of the density
    assert n_factors(used) == 0.0
    assert n_factors(used, X_NEW + 1.0) == 0.0


def test_fewer_rows_than_those_of_training_are_not_for_workers():
    """Unless there is no room: the factors of workers that are processes are lost."""
    used, many = predictor(), np.concatenate([X_NEW, X_NEW])
    used.latent_moments(X_NEW, 2)
    assert n_factors(used) == 0.0
    for used, rows in ((predictor(), many), (predictor(room=20_000), X_NEW)):
        used.latent_moments(rows, 2)
        assert used.kept.n_bytes == 0


@pytest.mark.parametrize("separate", [False, True])
def test_those_of_several_functions(separate):
    expected = softmax_predictor(separate, 0).latent_moments(X_NEW)
    used = softmax_predictor(separate)
    assert n_factors(used) == N_THETAS * (3.0 if separate else 1.0)
    assert n_factors(used) == 0.0
    assert_array_equal(used.latent_moments(X_NEW), expected)


@pytest.mark.parametrize("room", [0, 1000, 5000, 20_000, 40_000])
def test_there_is_no_more_than_room_for(room):
    """The parts of a theta are kept whole, or not at all."""
    used = predictor("own", room)
    used.latent_moments(X_NEW)
    assert used.kept.n_bytes <= room
    fitting = predictor("own")
    fitting.latent_moments(X_NEW)
    largest = max(part.n_bytes for (part,) in fitting.kept._parts.values())
    assert used.kept.n_bytes >= min(room - largest, fitting.kept.n_bytes)
    assert n_factors(used) == N_THETAS - 1.0 - len(used.kept._parts)


def test_what_it_counts_is_what_it_holds():
    used = predictor("own")
    used.latent_moments(X_NEW)
    n_columns = N_THETAS
    n_matrices = N_THETAS - 1
    of_matrix = N * N + N + 2  # with its pivots and its theta
    numbers = n_matrices * of_matrix + n_columns * N + n_columns
    assert used.kept.n_bytes == 8 * numbers


class Several(NamedTuple):
    """A strategy that gives the same part several times."""

    n: int

    def weighted_conditionals(self, group):
        (part,) = OwnLatent().weighted_conditionals(group)
        return iter([part] * self.n)


def one_draw():
    used = predictor("own")
    group = used.group(np.array([3]))
    (part,) = used.strategy.weighted_conditionals(group)
    return group, part.n_bytes


def test_parts_of_a_theta_that_do_not_fit_leave_nothing():
    """Some of its parts alone would be mistaken for all of them."""
    group, n_bytes = one_draw()
    kept = FactorCache(2 * n_bytes)
    for _ in range(2):
        assert len(list(kept.parts(Several(3), group))) == 3
        assert kept.n_bytes == 0
    for _ in range(2):
        assert len(list(kept.parts(Several(2), group))) == 2
        assert kept.n_bytes == 2 * n_bytes


def test_a_prediction_that_breaks_off_keeps_nothing():
    group, _ = one_draw()
    kept = FactorCache(PLENTY)
    next(iter(kept.parts(Several(2), group)))
    assert kept.n_bytes == 0


def from_file(kept):
    return pickle.loads(pickle.dumps(kept))


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, from_file])
def test_copies_and_files_hold_nothing_of_it(twin):
    used = predictor()
    used.latent_moments(X_NEW)
    other = twin(used.kept)
    assert other.n_bytes == 0 < used.kept.n_bytes
    assert other.room == used.kept.room
    assert len(pickle.dumps(used)) == len(pickle.dumps(predictor()))


OTHERS = {
    "weights": lambda used: {"multiplicity": 2.0 * np.arange(1.0, N_THETAS + 1.0)},
    "f": lambda used: {"f": used.f[::-1]},
    "sites": lambda used: {"density_arrays": tuple(2.0 * a for a in used.density_arrays)},
    "strategy": lambda used: {"strategy": replace(used.strategy, seed=4)},
    "theta": lambda used: {"theta": used.theta + 0.1},
}


@pytest.mark.parametrize("change", OTHERS)
def test_what_is_kept_of_some_draws_is_not_taken_for_others(change):
    used = predictor()
    used.latent_moments(X_NEW)
    other = replace(used, **OTHERS[change](used))
    expected = replace(other, kept=FactorCache(0)).latent_moments(X_NEW)
    assert_array_equal(other.latent_moments(X_NEW), expected)
    assert not np.array_equal(expected, used.latent_moments(X_NEW))


def test_predictions_in_several_threads_at_once():
    used, expected = predictor(), predictor().latent_moments(X_NEW)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: used.latent_moments(X_NEW), range(12)):
            assert_array_equal(found, expected)
    assert len(used.kept._parts) == N_THETAS - 1
    room = used.kept.n_bytes
    used.latent_moments(X_NEW)
    assert used.kept.n_bytes == room
