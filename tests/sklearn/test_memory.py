"""A fit that the memory of the machine does not suffice for is refused before it begins."""

import os
import re
import tracemalloc

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.run import memory
from skgpmcmc.samplers import SAMPLERS

from ..helpers import in_one_test, short_chains

RNG = np.random.default_rng(0)
#: A kernel whose matrices have full rank.
ROUGH = Matern(nu=0.5)


def data(n):
    X = RNG.standard_normal((n, 2))
    return X, (X[:, 0] > 0.0).astype(int)


@pytest.fixture
def machine(monkeypatch):
    """Set the memory of the machine, in bytes, or None for one that does not say."""

    def with_memory(n_bytes):
        monkeypatch.setattr(memory, "machine_bytes", lambda: n_bytes)

    return with_memory


def refused(model, X, y):
    """Return the message, after checking that nothing of n x n was allocated.

    Of many inputs, the covariances of the first are.
    """
    tracemalloc.start()
    try:
        with pytest.raises(MemoryError) as caught:
            model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(X) ** 2 / (1 if len(X) > 2000 else 4)
    assert not hasattr(model, "theta_samples_")
    return str(caught.value)


@in_one_test("sampler", sorted(set(SAMPLERS) - {"collapsed"}))
def test_fit_beyond_memory_is_refused_with_n_bytes_and_remedy(sampler, machine):
    machine(1e7)
    n = 1500
    message = refused(
        BayesianGPClassifier(ROUGH, sampler=sampler, n_draws=10, n_warmup=30), *data(n)
    )
    per_worker = SAMPLERS[sampler].n_matrices
    needed = 8 * (per_worker * n**2 + 3 * 4 * 10 * n)
    assert f"needs about {needed / 1e6:.3g} MB of memory with n = 1500" in message
    assert f"({per_worker:g} n^2 doubles, and 1.44 MB for draws)" in message
    assert "this machine has 10 MB" in message
    fits = int(((1e7 / 8 - 3 * 4 * 10 * n) / per_worker) ** 0.5)
    assert f"use at most about {fits} rows" in message
    assert "fewer workers (n_jobs)" in message


def test_memory_estimate_counts_workers_up_to_the_number_of_chains(machine):
    machine(1e7)
    X, y = data(1500)
    one, two, many = (
        refused(BayesianGPClassifier(ROUGH, n_chains=3, n_draws=1, n_jobs=n), X, y)
        for n in (1, 2, 8)
    )
    each = SAMPLERS["pm"].n_matrices
    assert f"({each:g} n^2" in one
    assert "A fit by 2 workers" in two
    assert f"({2 * each:g} n^2" in two
    assert f"({3 * each:g} n^2" in many


def test_memory_estimate_counts_every_class_and_serves_the_baseline(machine):
    machine(1e7)
    X, _ = data(1500)
    y = np.arange(1500) % 3
    softmax = refused(BayesianGPClassifier(multi_class="softmax", n_draws=1), X, y)
    assert f"({3 * SAMPLERS['pm'].n_matrices:g} n^2" in softmax
    assert "1500" in refused(BayesianGPRegressor(ROUGH, n_draws=1), X, X[:, 0])
    assert "1500" in refused(EPMLClassifier(), X, y > 0)


def test_fit_with_few_columns_needs_memory_for_these(machine):
    n = 6000
    X, y = data(n)
    machine(1e7)
    message = refused(BayesianGPClassifier(RBF(3.0), n_draws=1), X, y)
    rank, needed, fits = re.search(
        r"about (?P<needed>[\d.]+) MB .* \(6 n r doubles with the rank r = (?P<rank>\d+), .*"
        r"use at most about (?P<fits>\d+) rows",
        message,
    ).group("rank", "needed", "fits")
    assert 40 < int(rank) < 200
    assert float(needed) == pytest.approx((6 * n * int(rank) + 40 * n) * 8 / 1e6, rel=0.01)
    assert int(fits) == int((1e7 / 8 - 40 * n) / (6 * int(rank)))


def test_draws_beyond_memory_are_refused(machine):
    machine(1e9)
    message = refused(BayesianGPClassifier(n_draws=10**7, n_chains=1, target_ess=None), *data(500))
    assert "120 GB for draws" in message
    assert "fewer draws (n_draws)" in message


@in_one_test(
    "settings, advice",
    [
        ({"n_warmup": 10**30, "n_chains": 1}, "less warm-up (n_warmup)"),
        ({"n_importance": 10**30}, "fewer importance draws (n_importance)"),
    ],
)
def test_enormous_settings_are_refused_with_advice(settings, advice):
    assert advice in refused(BayesianGPClassifier(**settings), *data(2000))


@pytest.mark.parametrize("there", [None, 8 * 2000**2])
def test_fit_within_memory_is_not_refused(there, machine):
    machine(there)
    X, y = data(30)
    with short_chains():
        BayesianGPClassifier(sampler="asis", n_draws=5, n_warmup=5, n_chains=2).fit(X, y)


def test_joint_draws_at_too_many_rows_are_refused(machine):
    X, y = data(30)
    with short_chains():
        model = BayesianGPRegressor(sampler="asis", n_draws=5, n_warmup=5).fit(X, y)
    machine(1e9)
    far, _ = data(10_000)
    joint = [
        model.sample_latent,
        model.sample_y,
        lambda rows: model.predict(rows, return_cov=True),
        lambda rows: model.latent_mean_and_variance(rows, return_cov=True),
    ]
    for of in joint:
        with pytest.raises(MemoryError, match=r"The covariance of n rows needs about .* n = 10000"):
            of(far)
    assert model.predict(far[:2000]).shape == (2000,)  # goes in batches


def test_machine_bytes_are_the_physical_memory():
    there = memory.machine_bytes()
    assert there is None or there == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def raising(failure):
    def unknown(name):
        raise failure

    return unknown


@in_one_test(
    "answer",
    [
        *map(raising, (ValueError, OSError, AttributeError)),
        {"SC_PHYS_PAGES": -1, "SC_PAGE_SIZE": 4096}.get,
    ],
)
def test_unknown_memory_never_refuses_a_fit(answer, monkeypatch):
    monkeypatch.setattr(os, "sysconf", answer)
    assert memory.machine_bytes() is None
    memory.require_memory("Anything", 10**9, 1.0)
