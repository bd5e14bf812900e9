"""Peak memory of fits of many rows, and of predictions of very many, each in a process of its own.

Run as ``python -m benchmarks.memory [--rows 2000] [--new-rows 1000000] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. What is measured is the largest resident set of the
process, by ``getrusage``; that of one which does nothing but import is subtracted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor

from .common import (
    ROOT,
    SMOOTH,
    fit_quietly,
    peak_mebibytes,
    print_table,
    save,
    simulate_binary,
    use_core,
)

#: Rows of the fit whose predictions are measured.
FEW = 200


def fitted(estimator: BaseEstimator, n: int) -> BaseEstimator:
    X, y = simulate_binary(n, 2, 2.0, -1.5, 0)
    fit_quietly(
        estimator, X, X[:, 0] + 0.1 * y if isinstance(estimator, BayesianGPRegressor) else y
    )
    return estimator


def settings(n_draws: int) -> dict[str, Any]:
    return {
        "kernel": SMOOTH,
        "n_draws": n_draws,
        "target_ess": None,
        "random_state": 0,
        "n_jobs": 1,
    }


def predict(n_draws: int, n: int, n_new: int) -> None:
    model = fitted(BayesianGPClassifier(**settings(n_draws)), n)
    model.predict_proba(np.random.default_rng(1).uniform(size=(n_new, 2)))


#: What a process does, given draws of each chain, training rows and new rows.
TASKS: dict[str, Callable[[int, int, int], object]] = {
    "imports": lambda n_draws, n, n_new: None,
    "fit, classifier": lambda n_draws, n, n_new: fitted(
        BayesianGPClassifier(**settings(n_draws)), n
    ),
    "fit, regressor": lambda n_draws, n, n_new: fitted(BayesianGPRegressor(**settings(n_draws)), n),
    "fit, asis": lambda n_draws, n, n_new: fitted(
        BayesianGPClassifier(sampler="asis", n_warmup=20, **settings(n_draws)), n
    ),
    "predict_proba": lambda n_draws, n, n_new: predict(n_draws, FEW, n_new),
    "fit before predict_proba": lambda n_draws, n, n_new: predict(n_draws, FEW, 1),
}


def measured(task: str, args: argparse.Namespace) -> float:
    """Peak of a fresh process that does a task, in MiB."""
    numbers = {"--n-draws": args.n_draws, "--rows": args.rows, "--new-rows": args.new_rows}
    flags = [str(part) for pair in numbers.items() for part in pair]
    command = [sys.executable, "-m", "benchmarks.memory", "--task", task, *flags]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000, help="training rows of the fits")
    parser.add_argument("--new-rows", type=int, default=10**6, help="rows of the prediction")
    parser.add_argument("--n-draws", type=int, default=20, help="per chain, of four")
    parser.add_argument("--task", choices=TASKS, default=None, help="do this one, and no more")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    if args.task is not None:
        TASKS[args.task](args.n_draws, args.rows, args.new_rows)
        print(json.dumps(peak_mebibytes()))
        return
    peaks = {task: measured(task, args) for task in TASKS}
    matrix = 8 * args.rows**2 / 2**20  # one of n x n numbers
    results = {
        task: {
            "peak_mebibytes": peak,
            "beyond_imports": peak - peaks["imports"],
            "matrices": (peak - peaks["imports"]) / matrix if task.startswith("fit,") else None,
        }
        for task, peak in peaks.items()
    }
    head = ["", "peak, MiB", "beyond imports, MiB", "in matrices of n x n"]
    rows = [
        [task, *("" if value is None else f"{value:.1f}" for value in row.values())]
        for task, row in results.items()
    ]
    print_table(head, rows)
    counts = {"rows": args.rows, "new_rows": args.new_rows, "n_draws": args.n_draws}
    save("memory", {**counts, "rows_of_the_prediction": FEW}, results)


if __name__ == "__main__":
    main()
