"""The problems of the study of priors: data, training sizes, and the estimator of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import (
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_friedman1,
    make_moons,
)
from sklearn.feature_selection import VarianceThreshold
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
)

from .common import data_folder

N_TEST = 400  # rows, at most


@dataclasses.dataclass(frozen=True)
class Sample:
    """Training and test rows; of simulated data also the function at the test rows."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    f_test: np.ndarray | None = None


def standardized(sample: Sample) -> Sample:
    """Features that vary among the training rows, standardized on them."""
    scaler = make_pipeline(VarianceThreshold(), StandardScaler()).fit(sample.X)
    return dataclasses.replace(
        sample, X=scaler.transform(sample.X), X_test=scaler.transform(sample.X_test)
    )


Load = Callable[[int, int], Sample]  # of training rows, and seed


def _table(name: str) -> np.ndarray:
    path = data_folder() / f"{name}.csv"
    return np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)


def _columns(name: str, *columns: int) -> tuple[np.ndarray, np.ndarray]:
    table = _table(name)
    return table[:, list(columns)].astype(float), table[:, -1]


def _shuffled(X: np.ndarray, y: np.ndarray, n: int, seed: int, *, classes: bool) -> Sample:
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=n, random_state=seed, stratify=y if classes else None
    )
    return Sample(X_train, y_train, X_test[:N_TEST], y_test[:N_TEST])


def _real(load: Callable[[], tuple[np.ndarray, np.ndarray]], *, classes: bool = False) -> Load:
    return lambda n, seed: _shuffled(*load(), n, seed, classes=classes)


def _ripley(n: int, seed: int) -> Sample:
    train, test = _table("ripley_synth_train"), _table("ripley_synth_test")
    part = _shuffled(train[:, :-1].astype(float), train[:, -1], n, seed, classes=True)
    return Sample(part.X, part.y, test[:N_TEST, :-1].astype(float), test[:N_TEST, -1])


def _spect() -> tuple[np.ndarray, np.ndarray]:
    table = np.vstack([_table("spect_train"), _table("spect_test")])
    return table[:, :-1].astype(float), table[:, -1]


def _digits(*pair: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, pair)
    return X[chosen], y[chosen]


def _chu(name: str, *, binned: bool) -> tuple[np.ndarray, np.ndarray]:
    table = _table(f"chu_{name}").astype(float)
    return table[:, :-2], table[:, -1].astype(int) if binned else table[:, -2]


def _bikes() -> tuple[np.ndarray, np.ndarray]:
    X, y = _columns("bikes_washington", 4, 6, 7)
    return X, y.astype(float)


def _counts(name: str, *columns: int) -> tuple[np.ndarray, np.ndarray]:
    X, y = _columns(name, *columns)
    return X, y.astype(float)


def draw_function(kernel: Any, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    K = kernel(X) + 1e-9 * np.eye(len(X))
    return np.asarray(np.linalg.cholesky(K) @ rng.standard_normal(len(X)))


def _simulated(kernel: Any, d: int, draw: Callable[..., np.ndarray]) -> Load:
    """Inputs normal, test inputs of one feature at even spacing; y by `draw` from the function."""

    def load(n: int, seed: int) -> Sample:
        rng = np.random.default_rng([seed, n, d])
        for _ in range(1000):
            X = rng.standard_normal((n, d))
            new = np.linspace(-1.8, 1.8, 60)[:, None] if d == 1 else rng.standard_normal((200, d))
            f = draw_function(kernel, np.vstack([X, new]), rng)
            y = draw(f, rng)
            values, counts = np.unique(y[:n], return_counts=True)
            if len(values) > 1 and (len(values) > 2 or counts.min() >= n // 5):
                break
        return Sample(X, y[:n], new, y[n:], f[n:])

    return load


def _noisy(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return f + 0.3 * rng.standard_normal(len(f))


def _classes(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (f + rng.standard_normal(len(f)) > 0.0).astype(int)


def _poisson(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(np.exp(np.minimum(f + 1.0, 8.0))).astype(float)


def _overdispersed(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    rate = np.exp(np.minimum(f + 1.0, 8.0))
    return rng.poisson(rate * rng.gamma(1.5, 1.0 / 1.5, size=len(f))).astype(float)


def _moons(n: int, seed: int) -> Sample:
    X, y = make_moons(n + N_TEST, noise=0.25, random_state=seed)
    return Sample(X[:n], y[:n], X[n:], y[n:])


def _friedman(n: int, seed: int) -> Sample:
    X, y = make_friedman1(n + N_TEST, noise=1.0, random_state=seed)
    return Sample(X[:n], y[:n], X[n:], y[n:])


@dataclasses.dataclass(frozen=True)
class Problem:
    """Where the data come from, how many rows train, and the estimator without priors."""

    load: Load
    n: int
    estimator: Callable[..., BaseEstimator] = BayesianGPClassifier


MANY_CLASSES = ("iris", "wine")
REGRESSOR, POISSON, ORDINAL = (
    BayesianGPRegressor,
    partial(BayesianGPCountRegressor, likelihood="poisson"),
    BayesianGPOrdinalClassifier,
)
NEGATIVE_BINOMIAL = partial(BayesianGPCountRegressor, likelihood="negative_binomial")
ARD_CLASSIFIER = partial(BayesianGPClassifier, ard=True)
ARD_REGRESSOR = partial(BayesianGPRegressor, ard=True)
_SOURCES: dict[str, tuple[Load, Callable[..., BaseEstimator], tuple[int, ...]]] = {
    "ripley": (_ripley, BayesianGPClassifier, (20, 50, 100)),
    "spect": (_real(_spect, classes=True), BayesianGPClassifier, (50, 100)),
    "abalone-sex": (
        _real(lambda: _columns("abalone_mf", *range(8)), classes=True),
        BayesianGPClassifier,
        (50, 300),
    ),
    "digits-1-7": (
        _real(lambda: _digits(1, 7), classes=True),
        BayesianGPClassifier,
        (20, 100),
    ),
    "digits-4-9": (
        _real(lambda: _digits(4, 9), classes=True),
        BayesianGPClassifier,
        (50, 100),
    ),
    "iris": (_real(lambda: load_iris(return_X_y=True), classes=True), BayesianGPClassifier, (50,)),
    "wine": (_real(lambda: load_wine(return_X_y=True), classes=True), BayesianGPClassifier, (50,)),
    "moons": (_moons, BayesianGPClassifier, (50,)),
    "smooth-classes": (_simulated(9.0 * RBF(1.0), 1, _classes), BayesianGPClassifier, (20, 100)),
    "rough-classes": (
        _simulated(9.0 * Matern(0.3, nu=1.5), 1, _classes),
        BayesianGPClassifier,
        (100,),
    ),
    "many-features": (_simulated(4.0 * RBF(8.0), 20, _classes), BayesianGPClassifier, (50,)),
    "stocks": (_real(lambda: _chu("stocks", binned=False)), REGRESSOR, (50, 300)),
    "machine": (_real(lambda: _chu("machine_cpu", binned=False)), REGRESSOR, (100,)),
    "pyrimidines": (_real(lambda: _chu("pyrimidines", binned=False)), REGRESSOR, (50,)),
    "triazines": (_real(lambda: _chu("triazines", binned=False)), REGRESSOR, (100,)),
    "diabetes": (_real(lambda: load_diabetes(return_X_y=True)), REGRESSOR, (100, 300)),
    "friedman": (_friedman, REGRESSOR, (50, 100)),
    "smooth": (_simulated(1.0 * RBF(1.0), 1, _noisy), REGRESSOR, (20, 100)),
    "wiggly": (_simulated(1.0 * RBF(0.3), 1, _noisy), REGRESSOR, (20, 100)),
    "rough": (_simulated(1.0 * Matern(0.5, nu=1.5), 1, _noisy), REGRESSOR, (20, 100)),
    "crabs": (_real(lambda: _counts("horseshoe_crabs", 0, 1, 2, 3)), POISSON, (115,)),
    "crabs-nb": (
        _real(lambda: _counts("horseshoe_crabs", 0, 1, 2, 3)),
        NEGATIVE_BINOMIAL,
        (115,),
    ),
    "bikes-nb": (_real(_bikes), NEGATIVE_BINOMIAL, (100,)),
    "coal": (_real(lambda: _counts("coal_disasters_yearly", 0)), POISSON, (75,)),
    "smooth-counts": (_simulated(1.0 * RBF(1.0), 1, _poisson), POISSON, (20, 100)),
    "over-dispersed": (_simulated(0.5 * RBF(1.0), 1, _overdispersed), NEGATIVE_BINOMIAL, (100,)),
    "bikes": (_real(_bikes), POISSON, (100,)),
    "coal-nb": (_real(lambda: _counts("coal_disasters_yearly", 0)), NEGATIVE_BINOMIAL, (75,)),
    "smooth-counts-nb": (
        _simulated(1.0 * RBF(1.0), 1, _poisson),
        NEGATIVE_BINOMIAL,
        (20, 100),
    ),
    "two-of-ten": (
        _simulated(9.0 * RBF([1.0, 1.0, *[1e4] * 8]), 10, _classes),
        ARD_CLASSIFIER,
        (100,),
    ),
    "friedman-ard": (_friedman, ARD_REGRESSOR, (100,)),
    "machine-ard": (_real(lambda: _chu("machine_cpu", binned=False)), ARD_REGRESSOR, (100,)),
    "diabetes-ordinal": (
        _real(lambda: _chu("diabetes", binned=True)),
        ORDINAL,
        (30,),
    ),
    "machine-ordinal": (
        _real(lambda: _chu("machine_cpu", binned=True)),
        ORDINAL,
        (100,),
    ),
    "stocks-ordinal": (_real(lambda: _chu("stocks", binned=True)), ORDINAL, (50, 100)),
}
PROBLEMS = {
    f"{name}-{n}": Problem(load, n, estimator)
    for name, (load, estimator, sizes) in _SOURCES.items()
    for n in sizes
}
