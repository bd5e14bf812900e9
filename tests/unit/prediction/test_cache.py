"""What predictions keep: no result changes, room is respected, nothing of it is saved."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skgpmcmc.approximations import EP
from skgpmcmc.likelihoods import Softmax
from skgpmcmc.model import ClasswiseGP, HyperPrior, Observations, make_covariance, smooth_kernel
from skgpmcmc.numerics.linalg import count_operations
from skgpmcmc.prediction.cache import FactorCache
from skgpmcmc.prediction.densities import find_density_arrays
from skgpmcmc.prediction.predictor import Predictor
from skgpmcmc.prediction.strategy import ImportanceLatent, Integrated, OwnLatent

from ...helpers import make_model, reachable, toy_classes

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
    arrays = find_density_arrays(model, EP(), theta)
    weight = rng.integers(1, 4, size=N_THETAS).astype(float)
    return Predictor(model, theta, f, weight, arrays, STRATEGIES[strategy], cache_bytes=room)


def softmax_predictor(separate, room=PLENTY):
    """Two functions for each of three classes, by the draws' own f."""
    X = np.random.default_rng(0).uniform(size=(N, 2))
    observed = Observations(Softmax(3), np.arange(N) % 3.0)
    covariance = make_covariance(smooth_kernel(2), X)
    model = ClasswiseGP(covariance, observed, HyperPrior((), {}), separate=separate)
    rng = np.random.default_rng(3)
    theta = 0.3 * rng.standard_normal((N_THETAS, len(model.start)))
    f = np.array([model.prior_at(t).sample(rng) for t in theta])
    return Predictor(model, theta, f, np.ones(N_THETAS), (), OwnLatent(), cache_bytes=room)


def n_factors(used, X_new=X_NEW):
    with count_operations() as count:
        used.latent_moments(X_new)
    return count.per(N).cholesky


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_size_of_the_factor_cache_changes_no_prediction(strategy):
    expected = predictor(strategy, 0).latent_moments(X_NEW)
    one_row = np.array(expected)[:, 2:3]
    for room in (0, 20_000, PLENTY):
        used = predictor(strategy, room)
        for _ in range(3):
            assert_array_equal(used.latent_moments(X_NEW), expected)
            assert_allclose(used.latent_moments(X_NEW[2:3]), one_row, rtol=1e-9)


# Processes are always two: other numbers of them would be started anew.
@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 3), ("loky", 2)])
def test_number_of_workers_changes_no_prediction(backend, n_jobs):
    expected = predictor().latent_moments(X_NEW)
    with joblib.parallel_config(backend=backend):
        for used in (predictor(), predictor(room=20_000)):
            for _ in range(2):
                assert_array_equal(used.latent_moments(X_NEW, n_jobs), expected)


def test_factors_of_predictions_are_made_once():
    used = predictor()
    assert n_factors(used) >= 2.0 * (N_THETAS - 1)  # of K, and of the density
    assert n_factors(used) == 0.0
    assert n_factors(used, X_NEW + 1.0) == 0.0


def test_predictions_of_few_rows_use_no_workers():
    """Unless there is no room: the factors of workers that are processes are lost."""
    used, many = predictor(), np.concatenate([X_NEW, X_NEW])
    used.latent_moments(X_NEW, 2)
    assert n_factors(used) == 0.0
    for used, rows in ((predictor(), many), (predictor(room=20_000), X_NEW)):
        used.latent_moments(rows, 2)
        assert used.cache.n_bytes == 0


@pytest.mark.parametrize("separate", [False, True])
def test_factors_of_a_softmax_are_made_once(separate):
    expected = softmax_predictor(separate, 0).latent_moments(X_NEW)
    used = softmax_predictor(separate)
    assert n_factors(used) == N_THETAS * (3.0 if separate else 1.0)
    assert n_factors(used) == 0.0
    assert_array_equal(used.latent_moments(X_NEW), expected)


@pytest.mark.parametrize("room", [0, 1000, 5000, 20_000, 40_000])
def test_cache_never_exceeds_its_size(room):
    """The parts of a theta are kept whole, or not at all."""
    used = predictor("own", room)
    used.latent_moments(X_NEW)
    assert used.cache.n_bytes <= room
    fitting = predictor("own")
    fitting.latent_moments(X_NEW)
    largest = max(n_bytes_of_parts(fitting, group) for group in fitting.groups())
    assert used.cache.n_bytes >= min(room - largest, fitting.cache.n_bytes)
    assert n_factors(used) == N_THETAS - 1.0 - len(used.cache)


def n_bytes_held(used):
    """Bytes of all arrays that a cache leads to and its draws do not, each of them once."""
    of_draws = {id(found) for found in reachable([used.model, used.theta, used.f])}
    arrays = [found for found in reachable(used.cache) if isinstance(found, np.ndarray)]
    return sum(a.nbytes for a in arrays if a.base is None and id(a) not in of_draws)


PREDICTORS = {
    **{name: partial(predictor, name) for name in STRATEGIES},
    **{f"softmax, separate={own}": partial(softmax_predictor, own) for own in (False, True)},
}


@pytest.mark.parametrize("make", PREDICTORS.values(), ids=PREDICTORS)
def test_the_cache_counts_the_bytes_that_it_holds(make):
    used = make()
    used.latent_moments(X_NEW)
    thetas = 8 * used.theta.shape[1] * len(used.cache)  # these belong to the draws
    assert used.cache.n_bytes - thetas == n_bytes_held(used) > 0


@pytest.mark.parametrize("strategy", ["own", "particles"])
def test_cache_counts_a_shared_factor_once(strategy):
    """So many that they are handled some at a time, as with hyper-parameters that are fixed."""
    used = predictor(strategy)
    many = np.zeros(1000, dtype=int)
    used = replace(
        used,
        theta=used.theta[many],
        f=used.f[many],
        multiplicity=used.multiplicity[many],
        density_arrays=tuple(array[many] for array in used.density_arrays),
    )
    used.latent_moments(X_NEW)
    (group,) = used.groups()
    assert len(list(used.parts(group))) == 3
    assert used.cache.n_bytes - 8 * 2 == n_bytes_held(used)
    # With that much room and no more it is kept.
    for room, n_kept in ((used.cache.n_bytes, 1), (used.cache.n_bytes - 1, 0)):
        tight = replace(used, cache_bytes=room)
        tight.latent_moments(X_NEW)
        assert len(tight.cache) == n_kept


class Several(NamedTuple):
    """A strategy that gives as many parts, each of which has a factor of its own."""

    n: int

    def make_conditionals(self, group):
        for _ in range(self.n):
            yield from OwnLatent().make_conditionals(group)


def n_bytes_of_parts(used, group):
    """Bytes of what a strategy makes of a group."""
    cache = FactorCache(PLENTY)
    list(cache.parts(used.strategy, group))
    return cache.n_bytes


def test_cache_keeps_no_incomplete_parts_of_a_theta():
    """Some of its parts alone would be mistaken for all of them."""
    used = predictor("own")
    group = used.group(np.array([3]))
    n_bytes = n_bytes_of_parts(used, group)
    room = 2 * n_bytes
    cache = FactorCache(room)
    for _ in range(2):
        assert len(list(cache.parts(Several(3), group))) == 3
        assert cache.n_bytes == 0
    for _ in range(2):
        assert len(list(cache.parts(Several(2), group))) == 2
        assert n_bytes < cache.n_bytes <= room


def test_cache_keeps_nothing_of_an_interrupted_prediction():
    group = predictor("own").group(np.array([3]))
    cache = FactorCache(PLENTY)
    next(iter(cache.parts(Several(2), group)))
    assert cache.n_bytes == 0


def from_file(cache):
    return pickle.loads(pickle.dumps(cache))


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, from_file])
def test_copies_and_pickles_of_the_cache_are_empty(twin):
    used = predictor()
    used.latent_moments(X_NEW)
    other = twin(used.cache)
    assert other.n_bytes == 0 < used.cache.n_bytes
    assert other.room == used.cache.room
    assert len(pickle.dumps(used)) == len(pickle.dumps(predictor()))


OTHERS = {
    "weights": lambda used: {"multiplicity": 2.0 * np.arange(1.0, N_THETAS + 1.0)},
    "f": lambda used: {"f": used.f[::-1]},
    "sites": lambda used: {"density_arrays": tuple(2.0 * a for a in used.density_arrays)},
    "strategy": lambda used: {"strategy": replace(used.strategy, seed=4)},
    "theta": lambda used: {"theta": used.theta + 0.1},
}


@pytest.mark.parametrize("change", OTHERS)
def test_cache_does_not_use_factors_of_other_draws(change):
    """Their indices are the same."""
    used = predictor()
    used.latent_moments(X_NEW)
    other = replace(used, **OTHERS[change](used))
    expected = replace(other, cache_bytes=0).latent_moments(X_NEW)
    assert_array_equal(other.latent_moments(X_NEW), expected)
    assert not np.array_equal(expected, used.latent_moments(X_NEW))


def test_predictions_in_several_threads_share_the_cache():
    used, expected = predictor(), predictor().latent_moments(X_NEW)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: used.latent_moments(X_NEW), range(12)):
            assert_array_equal(found, expected)
    assert len(used.cache) == N_THETAS - 1
    room = used.cache.n_bytes
    used.latent_moments(X_NEW)
    assert used.cache.n_bytes == room
