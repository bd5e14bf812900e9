"""Which kernel a classifier should have by default: log loss on small development data.

Run as ``python -m benchmarks.default_kernel [--repeats 3] [--jobs 2]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``; `benchmarks/development.py` says where the data come from. Every fit is a
row of ``results/default_kernel.csv``; those that are there are not made again. ``--table`` prints
what there is, ``--save`` also writes the summary to ``results/default_kernel.json``. The papers'
data sets have no part in it, so that they can judge what is decided here.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.linear_model import LogisticRegressionCV

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import EPMLClassifier, PlattSVC
from skgpmcmc.compare import SVM_GRIDS, score
from skgpmcmc.kernels import Linear

from .common import RESULTS, print_table, save
from .development import SETS, MissingSourceError, load, split
from .rows import Rows

SIZES = (20, 50, 100)
#: Fewest rows that must be left to test.
FEWEST_TESTED = 20
SCORES = ("log_loss", "brier", "accuracy", "auc")
#: The method that others are compared with.
REFERENCE = "RBF"
_SVM_GRID: dict[str, Any] = SVM_GRIDS["small"]


def _bayes(kernel: Any) -> Callable[[int], BaseEstimator]:
    return lambda seed: BayesianGPClassifier(kernel, random_state=seed)


METHODS: dict[str, Callable[[int], BaseEstimator]] = {
    "RBF": _bayes(ConstantKernel() * RBF()),
    "Matern 3/2": _bayes(ConstantKernel() * Matern(nu=1.5)),
    "RBF + linear": _bayes(ConstantKernel() * RBF() + Linear()),
    "RBF + linear + 1": _bayes(
        ConstantKernel() * RBF() + (Linear() + ConstantKernel(1.0, "fixed"))
    ),
    "average": _bayes("auto"),
    "EP ML": lambda seed: EPMLClassifier(random_state=seed),
    "SVM": lambda seed: PlattSVC(**_SVM_GRID, random_state=seed),
    "logistic regression": lambda seed: LogisticRegressionCV(
        scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=1000
    ),
    "boosting": lambda seed: HistGradientBoostingClassifier(min_samples_leaf=5, random_state=seed),
}
ROWS = Rows(
    RESULTS / "default_kernel.csv",
    key=("data", "n", "repeat", "method"),
    columns=(*SCORES, "seconds", "failed"),
    words=("data", "method", "failed"),
    whole=("n", "repeat"),
)


def one(data: str, n: int, repeat: int, method: str) -> dict[str, Any]:
    """Scores of one fit."""
    X, y, X_test, y_test = split(data, n, repeat)
    model = METHODS[method](repeat)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            proba = model.fit(X, y).predict_proba(X_test)
        except (RuntimeError, ValueError) as error:
            return {"failed": str(error)[:80]}
    found = score(y_test, proba, model.classes_)
    return {k: found[k] for k in SCORES} | {"seconds": time.process_time() - start}


def tasks(data: Iterable[str], repeats: int) -> Iterator[tuple[str, int, int, str]]:
    """All fits, such that a study that ends early has as many training sets of all data.

    Yields
    ------
    tuple
        Data set, size, number of the training set, method.
    """
    for repeat in range(repeats):
        for n in SIZES:
            for name in data:
                if len(load(name)[1]) >= n + FEWEST_TESTED:
                    yield from ((name, n, repeat, method) for method in METHODS)


def summarize(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Log loss by method: means over data sets, and differences from the reference in pairs.

    The error of a difference is that over data sets, whose training sets are averaged first.
    """
    by_key = {(r["data"], r["n"], r["repeat"], r["method"]): r for r in rows if not r["failed"]}
    found = []
    for method in METHODS:
        shared = [key for key in by_key if key[3] == method and (*key[:3], REFERENCE) in by_key]
        if not shared:
            continue
        summary: dict[str, Any] = {"method": method, "fits": len(shared)}
        for n in (*SIZES, None):
            keys = [key for key in shared if n in (key[1], None)]
            gaps: dict[str, list[float]] = {}
            for key in keys:
                reference = by_key[(*key[:3], REFERENCE)]["log_loss"]
                gaps.setdefault(key[0], []).append(by_key[key]["log_loss"] - reference)
            of_data = np.array([np.mean(own) for own in gaps.values()])
            name = "all" if n is None else str(n)
            summary[f"log_loss_{name}"] = float(np.mean([by_key[k]["log_loss"] for k in keys]))
            summary[f"difference_{name}"] = float(of_data.mean())
            summary[f"error_{name}"] = float(of_data.std(ddof=1) / np.sqrt(len(of_data)))
            if n is None:
                worst = max(gaps, key=lambda own: np.mean(gaps[own]))
                summary |= {"worst_data": worst, "worst_difference": float(np.mean(gaps[worst]))}
                summary["better_on"] = int((of_data < 0.0).sum())
                summary["n_data"] = len(of_data)
        summary["seconds"] = float(np.mean([by_key[key]["seconds"] for key in shared]))
        found.append(summary)
    return found


def show(summaries: Iterable[dict[str, Any]]) -> None:
    """Print a line for each method."""
    head = ["method", "fits", *(f"n = {n}" for n in SIZES), "all", "minus RBF", "better on"]
    head += ["worst", "seconds"]
    lines = [
        [
            own["method"],
            str(own["fits"]),
            *(f"{own[f'log_loss_{name}']:.3f}" for name in (*map(str, SIZES), "all")),
            f"{own['difference_all']:+.3f} +- {own['error_all']:.3f}",
            f"{own['better_on']} of {own['n_data']}",
            f"{own['worst_difference']:+.3f} ({own['worst_data']})",
            f"{own['seconds']:.2f}",
        ]
        for own in summaries
    ]
    print_table(head, lines)


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="training sets of each size")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    parser.add_argument("--save", action="store_true", help="also write the summary")
    args = parser.parse_args()
    if not args.table:
        there = []
        for name in SETS:
            try:
                load(name)
            except MissingSourceError as error:
                print(f"skipped {error}")
            else:
                there.append(name)
        ROWS.run(tasks(there, args.repeats), one, n_jobs=args.jobs)
    summaries = summarize(ROWS.read())
    show(summaries)
    if args.save:
        save("default_kernel", {"sizes": list(SIZES), "reference": REFERENCE}, summaries)


if __name__ == "__main__":
    main()
