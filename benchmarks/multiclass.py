"""One model of all classes against one versus rest: the log loss of more than two classes.

Run as ``python -m benchmarks.multiclass [--data iris] [--splits 10] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. `BayesianGPClassifier` by softmax and one versus rest,
and scikit-learn's `GaussianProcessClassifier`, all with an isotropic kernel. Half of the rows, at
most 100 of them, are for training, the shares of the classes kept; features that vary there are
standardized on them. Results of data sets that are not asked for stay.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.feature_selection import VarianceThreshold
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPClassifier

from .common import data_folder, load_results, mean_and_error, plain, print_table, save, use_core

MOST_TRAINING_ROWS = 100
#: Digits that are told apart.
N_DIGITS = 5
Data = tuple[np.ndarray, np.ndarray]


def load_glass() -> Data:
    """Six types of glass; the papers' data."""
    table = np.genfromtxt(data_folder() / "glass.csv", delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1].astype(int)


DATA: dict[str, Callable[[], Data]] = {
    "iris": lambda: load_iris(return_X_y=True),
    "wine": lambda: load_wine(return_X_y=True),
    "digits 0 to 4": lambda: load_digits(n_class=N_DIGITS, return_X_y=True),
    "glass": load_glass,
}


def split(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Training and test part, standardized on the training part: X, X*, y, y*."""
    n_train = min(MOST_TRAINING_ROWS, len(y) // 2)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=n_train, random_state=seed, stratify=y
    )
    scaler = make_pipeline(VarianceThreshold(), StandardScaler()).fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def _ours(multi_class: str) -> Callable[[int, int], BayesianGPClassifier]:
    def make(n_features: int, seed: int) -> BayesianGPClassifier:
        return BayesianGPClassifier(
            multi_class=multi_class,
            priors="paper",
            target_ess=200.0,
            n_jobs=1,
            random_state=seed,
        )

    return make


def _theirs(n_features: int, seed: int) -> GaussianProcessClassifier:
    kernel = ConstantKernel() * RBF(np.sqrt(n_features))
    return GaussianProcessClassifier(kernel, n_restarts_optimizer=2, random_state=seed)


METHODS: dict[str, Callable[[int, int], ClassifierMixin]] = {
    "softmax": _ours("softmax"),
    "one versus rest": _ours("one_vs_rest"),
    "sklearn GPC": _theirs,
}


def scores(classifier: ClassifierMixin, parts: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """Log loss and accuracy on the test part, and what the fit took."""
    X, X_test, y, y_test = parts
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        start = time.perf_counter()
        classifier.fit(X, y)
        seconds = time.perf_counter() - start
    proba = classifier.predict_proba(X_test)
    found = {
        "log_loss": log_loss(y_test, proba, labels=classifier.classes_),
        "accuracy": accuracy_score(y_test, classifier.classes_[proba.argmax(axis=1)]),
        "seconds": seconds,
        "warnings": [str(w.message) for w in caught],
    }
    if isinstance(classifier, BayesianGPClassifier):
        d = classifier.diagnostics_
        found["max_r_hat"] = d.r_hat.max()
        found["min_ess"] = min(d.ess_bulk.min(), d.ess_tail.min())
    return found


def show(results: dict[str, Any]) -> None:
    """Print means and standard errors."""
    rows = [
        [data, score, *(mean_and_error([run[score] for run in r["methods"][m]]) for m in METHODS)]
        for data, r in results.items()
        for score in ("log_loss", "accuracy", "seconds")
    ]
    print_table(["data", "score", *METHODS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=[*DATA, "all"], default="all")
    parser.add_argument("--splits", type=int, default=10, help="how many")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    results = load_results("multiclass")
    for name in DATA if args.data == "all" else [args.data]:
        X, y = DATA[name]()
        methods: dict[str, list[dict[str, Any]]] = {method: [] for method in METHODS}
        for seed in range(args.splits):
            parts = split(X, y, seed)
            for method, make in METHODS.items():
                methods[method].append(plain(scores(make(X.shape[1], seed), parts)))
        n_train = len(split(X, y, 0)[0])
        sizes = {"n_train": n_train, "n_test": len(y) - n_train, "n_classes": len(np.unique(y))}
        results[name] = {**sizes, "methods": methods}
        save("multiclass", {"splits": args.splits}, results)
    show(results)


if __name__ == "__main__":
    main()
