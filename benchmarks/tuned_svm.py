"""Seconds to 400 effective draws, set-up included, beside a tuned support vector machine.

Run as ``python -m benchmarks.tuned_svm [--repeats 3] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core, a warm process: every method is fitted once
before anything is timed. The machine is scikit-learn's with Platt scaling, its C and gamma chosen
by five folds from the 5 x 5 grid below, inside the five folds of the calibration; the package's own
baseline, with its 11 x 10 grid, and scikit-learn's Gaussian process classifier stand beside it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_moons
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import svm_platt_classifier

from .common import fit_quietly, load_binary, print_table, save, use_core

GRID = {"C": np.geomspace(0.1, 1000.0, 5), "gamma": np.geomspace(0.001, 10.0, 5)}
#: Largest ratio of seconds that is aimed at.
WANTED = {"moons, 50": 0.5, "cancer, 100": 0.7, "cancer, 569": 1.5, "iris": 3.0, "Pima, 768": 1.5}


def moons() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_moons(50, noise=0.3, random_state=0)
    return StandardScaler().fit_transform(X), y


def first_rows(name: str, n: int | None) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_binary(name)
    rows = np.random.default_rng(0).permutation(len(y))[:n]
    return X[rows], y[rows]


def iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


PROBLEMS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "moons, 50": moons,
    "cancer, 100": lambda: first_rows("cancer", 100),
    "cancer, 569": lambda: first_rows("cancer", None),
    "iris": iris,
    "Pima, 768": lambda: first_rows("pima", None),
}


def tuned_svm(seed: int) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(GridSearchCV(SVC(), GRID, cv=5), cv=5)


def gpc(seed: int) -> GaussianProcessClassifier:
    return GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=seed)


METHODS: dict[str, Callable[[int], Any]] = {
    "ours": lambda seed: BayesianGPClassifier(random_state=seed, n_jobs=1),
    "SVM, 5 x 5": tuned_svm,
    "SVM, 11 x 10": lambda seed: svm_platt_classifier(),
    "scikit-learn GPC": gpc,
}


def timed(method: str, X: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, Any]:
    estimator = METHODS[method](seed)
    start = time.perf_counter()
    fit_quietly(estimator, X, y)
    return time.perf_counter() - start, estimator


def figures(estimator: BayesianGPClassifier) -> dict[str, float]:
    """What a fit has come to, of all its binary problems."""
    d = estimator.diagnostics_
    set_up = d.n_likelihood_evaluations - sum(
        binary.theta_samples_.shape[0] * binary.theta_samples_.shape[1]
        for binary in getattr(estimator, "estimators_", [estimator])
    )
    return {
        "set_up": d.seconds_warmup / (d.seconds_warmup + d.seconds_sampling),
        "evaluations": float(d.n_likelihood_evaluations),
        "evaluations_before": float(set_up),
        "ess": float(np.minimum(d.ess_bulk, d.ess_tail).min()),
        "r_hat": float(d.r_hat.max()),
    }


def measure(problem: str, n_repeats: int) -> dict[str, Any]:
    """Median seconds of every method in turn, so that all see the same machine."""
    X, y = PROBLEMS[problem]()
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    ours = []
    for seed in range(n_repeats):
        for method in METHODS:
            if method == "SVM, 11 x 10" and seed:
                continue  # long, and without chance
            taken, estimator = timed(method, X, y, seed)
            seconds[method].append(taken)
            if method == "ours":
                ours.append(figures(estimator))
    row: dict[str, Any] = {"problem": problem, "n": len(y)}
    row |= {method: float(np.median(values)) for method, values in seconds.items()}
    row["ratio"] = row["ours"] / row["SVM, 5 x 5"]
    row["wanted"] = WANTED[problem]
    return row | {name: float(np.median([f[name] for f in ours])) for name in ours[0]}


FIRST = """
import time, warnings
from benchmarks.tuned_svm import METHODS, PROBLEMS
X, y = PROBLEMS["moons, 50"]()
start = time.perf_counter()
METHODS[{method!r}](0).fit(X, y)
print(time.perf_counter() - start)
"""


def first_fit(method: str) -> float:
    """Seconds of the first fit of a process, imports apart; the median of three processes."""
    command = [sys.executable, "-c", FIRST.format(method=method)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    return float(np.median([float(run.stdout.split()[-1]) for run in runs]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--problems", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    for method in METHODS:
        timed(method, *moons(), 0)
    rows = [measure(problem, args.repeats) for problem in args.problems]
    first = {method: first_fit(method) for method in ("ours", "SVM, 5 x 5")}
    first["ratio"] = first["ours"] / first["SVM, 5 x 5"]
    shown = [[v if isinstance(v, str) else f"{v:.3g}" for v in row.values()] for row in rows]
    print_table(list(rows[0]), shown)
    print({name: round(value, 3) for name, value in first.items()})
    if set(args.problems) == set(PROBLEMS):
        save("tuned_svm", {"repeats": args.repeats}, {"rows": rows, "first fit": first})


if __name__ == "__main__":
    main()
