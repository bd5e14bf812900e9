"""Averaging over hyper-parameters against their best values: regression on bundled data.

Run as ``python -m benchmarks.regression [--splits 20] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. `BayesianGPRegressor` with its defaults and
scikit-learn's `GaussianProcessRegressor` have the same kernel, isotropic, with unknown noise. A
third of the rows, at most 150 of them, are for training; features are standardized on them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPRegressor

from .common import fit_quietly, load_results, mean_and_error, plain, print_table, save, use_core

MOST_TRAINING_ROWS = 150
Data = tuple[np.ndarray, np.ndarray]


def _column_of(table: np.ndarray, column: int) -> Data:
    """Regression of one column on the others."""
    return np.delete(table, column, axis=1), table[:, column]


DATA: dict[str, Callable[[], Data]] = {
    "diabetes": lambda: load_diabetes(return_X_y=True, scaled=False),
    "wine: alcohol": lambda: _column_of(load_wine().data, 0),
    "iris: petal width": lambda: _column_of(load_iris().data, 3),
}


def split(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Training and test part, standardized on the training part: X, X*, y, y*."""
    n_train = min(MOST_TRAINING_ROWS, len(y) // 3)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=n_train, random_state=seed)
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def averaged(parts: tuple[np.ndarray, ...], seed: int) -> dict[str, Any]:
    """Scores of our regressor."""
    X, X_test, y, y_test = parts
    regressor = BayesianGPRegressor(priors="paper", random_state=seed, n_jobs=1)
    seconds, _, warned = fit_quietly(regressor, X, y)
    log_density = regressor.log_predictive_density(X_test, y_test)
    return {
        "nlpd": -log_density.mean(),
        "rmse": root_mean_squared_error(y_test, regressor.predict(X_test)),
        "seconds": seconds,
        "max_r_hat": regressor.diagnostics_.r_hat.max(),
        "min_ess": min(
            regressor.diagnostics_.ess_bulk.min(), regressor.diagnostics_.ess_tail.min()
        ),
        "warnings": warned,
    }


def maximized(parts: tuple[np.ndarray, ...], seed: int) -> dict[str, Any]:
    """Scores of scikit-learn's regressor, whose hyper-parameters maximize the evidence."""
    X, X_test, y, y_test = parts
    kernel = ConstantKernel() * RBF(np.sqrt(X.shape[1])) + WhiteKernel()
    regressor = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        start = time.perf_counter()
        regressor.fit(X, y)
        seconds = time.perf_counter() - start
    mean, sd = regressor.predict(X_test, return_std=True)  # sd of a new target, noise included
    return {
        "nlpd": -stats.norm(mean, sd).logpdf(y_test).mean(),
        "rmse": root_mean_squared_error(y_test, mean),
        "seconds": seconds,
        "warnings": [str(w.message) for w in caught],
    }


METHODS = {"Bayesian GP": averaged, "sklearn GPR": maximized}


def show(results: dict[str, Any]) -> None:
    """Print means, standard errors and paired differences."""
    rows = []
    for data, r in results.items():
        ours, theirs = r["methods"].values()
        rows += [
            [
                data,
                score,
                *(mean_and_error([run[score] for run in runs]) for runs in (ours, theirs)),
                mean_and_error([a[score] - b[score] for a, b in zip(ours, theirs, strict=True)]),
            ]
            for score in ("nlpd", "rmse", "seconds")
        ]
    print_table(["data", "score", *METHODS, "difference"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=[*DATA, "all"], default="all")
    parser.add_argument("--splits", type=int, default=20, help="how many")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    results = load_results("regression")
    for name in DATA if args.data == "all" else [args.data]:
        X, y = DATA[name]()
        methods: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
        for seed in range(args.splits):
            parts = split(X, y, seed)
            for method, scores in METHODS.items():
                methods[method].append(plain(scores(parts, seed)))
        n_train = len(split(X, y, 0)[0])
        sizes = {"n_train": n_train, "n_test": len(y) - n_train, "d": X.shape[1]}
        results[name] = {**sizes, "methods": methods}
        save("regression", {"splits": args.splits}, results)
    show(results)


if __name__ == "__main__":
    main()
