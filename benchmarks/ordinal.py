"""Ordered classes: errors on the splits of Chu and Ghahramani (2005).

Run as ``python -m benchmarks.ordinal [--data NAME|all] [--splits 20] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. `BayesianGPOrdinalClassifier` with its default kernel,
isotropic, on five of the benchmark sets in that paper, with five bins of equal length and the
paper's own twenty splits. Features are standardized on the training part. Chains are short: errors
of classes need few draws. Beside it two peers that know less: the most frequent class, and
regression on the class numbers, rounded.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPOrdinalClassifier

from .common import (
    fit_quietly,
    load_ordinal,
    load_results,
    mean_and_error,
    plain,
    print_table,
    save,
    use_core,
)

DATA = ("diabetes", "pyrimidines", "triazines", "machine_cpu", "stocks")
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def errors(predicted: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Share of wrong classes, and mean distance from the right one."""
    distance = np.abs(predicted - y)
    return {"zero_one": float(np.mean(distance > 0)), "absolute": float(np.mean(distance))}


def averaged(parts: Parts, seed: int, n_draws: int) -> dict[str, Any]:
    """Errors of the most probable class of our classifier."""
    X, X_test, y, y_test = parts
    classifier = BayesianGPOrdinalClassifier(
        priors="paper", n_draws=n_draws, target_ess=None, random_state=seed, n_jobs=1
    )
    seconds, _, warned = fit_quietly(classifier, X, y)
    log_p = classifier.predict_log_proba(X_test)
    column = np.searchsorted(classifier.classes_, y_test)
    column = np.where(np.isin(y_test, classifier.classes_), column, -1)
    d = classifier.diagnostics_
    return {
        **errors(classifier.classes_[log_p.argmax(axis=1)], y_test),
        # A class that the training part does not have gets no probability.
        "log_loss": -np.where(column < 0, -np.inf, log_p[np.arange(len(y_test)), column]).mean(),
        "seconds": seconds,
        "max_r_hat": d.r_hat.max(),
        "min_ess": min(d.ess_bulk.min(), d.ess_tail.min()),
        "warnings": warned,
    }


def rounded(parts: Parts, seed: int, n_draws: int) -> dict[str, Any]:
    """Errors of Gaussian-process regression on the class numbers, rounded."""
    X, X_test, y, y_test = parts
    kernel = ConstantKernel() * RBF(np.sqrt(X.shape[1])) + WhiteKernel()
    peer = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=2, random_state=seed
    )
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        peer.fit(X, y)
    return errors(np.clip(np.rint(peer.predict(X_test)), y.min(), y.max()), y_test)


def most_frequent(parts: Parts, seed: int, n_draws: int) -> dict[str, Any]:
    """Errors of the most frequent class."""
    _, _, y, y_test = parts
    return errors(np.full(len(y_test), np.bincount(y).argmax()), y_test)


METHODS = {
    "Bayesian GP": averaged,
    "GP regression, rounded": rounded,
    "most frequent class": most_frequent,
}


def show(results: dict[str, Any]) -> None:
    """Print means and standard errors."""
    rows = [
        [
            data,
            method,
            *(mean_and_error([run[score] for run in runs]) for score in ("zero_one", "absolute")),
        ]
        for data, r in results.items()
        for method, runs in r["methods"].items()
    ]
    print_table(["data", "method", "zero-one error", "absolute error"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=[*DATA, "all"], default="all")
    parser.add_argument("--splits", type=int, default=20, help="how many, at most 20")
    parser.add_argument("--n-draws", type=int, default=100, help="per chain, of four")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    for name in DATA if args.data == "all" else [args.data]:
        X, y, train = load_ordinal(f"chu_{name}")
        methods: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
        for j in range(args.splits):
            rows = train[:, j]
            scaler = StandardScaler().fit(X[rows])
            parts = (scaler.transform(X[rows]), scaler.transform(X[~rows]), y[rows], y[~rows])
            for method, scores in METHODS.items():
                methods[method].append(plain(scores(parts, j, args.n_draws)))
        n_train = int(train[:, 0].sum())
        sizes = {"n_train": n_train, "n_test": len(y) - n_train, "d": X.shape[1]}
        results = {**load_results("ordinal"), name: {**sizes, "methods": methods}}
        save("ordinal", {"splits": args.splits, "n_draws": args.n_draws}, results)
    show(load_results("ordinal"))


if __name__ == "__main__":
    main()
