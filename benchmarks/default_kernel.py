"""Which kernel the estimators should have by default: log scores on small development data.

Run as ``python -m benchmarks.default_kernel [--kind classes] [--repeats 3] [--jobs 2]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``; `benchmarks/development.py` says where the data come
from. Every fit is a row of ``results/default_kernel.csv``; those that are there are not made again.
``--table`` prints what there is, ``--save`` also writes the summary to
``results/default_kernel.json``. The papers' data sets have no part in it, so that they can judge
what is decided here.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import BayesianRidge, LogisticRegressionCV, PoissonRegressor
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
)
from skgpmcmc.baselines import EPMLClassifier, PlattSVC
from skgpmcmc.compare.methods import SVM_GRIDS, score
from skgpmcmc.kernels import Linear

from .common import RESULTS, print_table, save
from .development import SETS, MissingSourceError, load, split
from .rows import Rows

SIZES = (20, 50, 100)
#: Fewest rows that must be left to test.
FEWEST_TESTED = 20
#: Scores of a fit; `log_loss` is the mean negative log predictive probability, or density in units
#: of the standard deviation of the training targets.
SCORES = ("log_loss", "brier", "accuracy", "auc", "coverage")
#: The method that others are compared with.
REFERENCE = "RBF"
_SVM_GRID: dict[str, Any] = SVM_GRIDS["small"]

Method = Callable[[int], BaseEstimator]

_ESTIMATORS: dict[str, Any] = {
    "classes": BayesianGPClassifier,
    "numbers": BayesianGPRegressor,
    "counts": BayesianGPCountRegressor,
    "levels": BayesianGPOrdinalClassifier,
}
_SMOOTH = ConstantKernel() * RBF()
_KERNELS: dict[str, Any] = {
    "RBF": _SMOOTH,
    "Matern 3/2": ConstantKernel() * Matern(nu=1.5),
    "RBF + linear": _SMOOTH + Linear(),
    "RBF + linear + 1": _SMOOTH + (Linear() + ConstantKernel(1.0, "fixed")),
    "average": "auto",
}
#: Laws of a variance whose root is half-Cauchy with scale 5, and log-normal with a wider log.
_AMPLITUDES = {
    "half-Cauchy": stats.betaprime(0.5, 0.5, scale=25.0),
    "log sd 3": stats.lognorm(3.0, scale=4.0),
}


def _bayes(kind: str, kernel: Any, priors: Any = None) -> Method:
    return lambda seed: _ESTIMATORS[kind](kernel, priors=priors, random_state=seed)


def _methods(kind: str) -> dict[str, Method]:
    methods = {name: _bayes(kind, kernel) for name, kernel in _KERNELS.items()}
    if kind != "classes":
        return methods
    for name, law in _AMPLITUDES.items():
        methods[f"RBF, {name}"] = _bayes(kind, _SMOOTH, {"k1__constant_value": law})
        methods[f"RBF + linear, {name}"] = _bayes(
            kind, _SMOOTH + Linear(), {"k1__k1__constant_value": law}
        )
    return methods


RIVALS: dict[str, dict[str, Method]] = {
    "classes": {
        "EP ML": lambda seed: EPMLClassifier(random_state=seed),
        "SVM": lambda seed: PlattSVC(**_SVM_GRID, random_state=seed),
        "logistic regression": lambda seed: LogisticRegressionCV(
            scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=1000
        ),
        "logistic regression, pairs": lambda seed: make_pipeline(
            PolynomialFeatures(2, interaction_only=True, include_bias=False),
            StandardScaler(),
            LogisticRegressionCV(
                scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=1000
            ),
        ),
        "boosting": lambda seed: HistGradientBoostingClassifier(
            min_samples_leaf=5, random_state=seed
        ),
        "boosting, calibrated": lambda seed: CalibratedClassifierCV(
            HistGradientBoostingClassifier(min_samples_leaf=5, random_state=seed),
            method="temperature",
            cv=StratifiedKFold(5, shuffle=True, random_state=seed),
            ensemble=False,
        ),
    },
    "numbers": {
        "scikit-learn's GP": lambda seed: GaussianProcessRegressor(
            _SMOOTH + WhiteKernel(), normalize_y=True, n_restarts_optimizer=2, random_state=seed
        ),
        "Bayesian ridge": lambda seed: BayesianRidge(),
    },
    "counts": {"Poisson regression": lambda seed: PoissonRegressor()},
    "levels": {
        "logistic regression": lambda seed: LogisticRegressionCV(
            scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=1000
        )
    },
}
METHODS = {kind: {**_methods(kind), **RIVALS[kind]} for kind in SETS}
ROWS = Rows(
    RESULTS / "default_kernel.csv",
    key=("kind", "data", "n", "repeat", "method"),
    columns=(*SCORES, "seconds", "failed"),
    words=("kind", "data", "method", "failed"),
    whole=("n", "repeat"),
)


def _log_density(model: Any, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Log predictive density of each row, by the method of this package or from mean and sd."""
    if hasattr(model, "log_predictive_density"):
        return np.asarray(model.log_predictive_density(X, y))
    if isinstance(model, PoissonRegressor):
        return np.asarray(stats.poisson.logpmf(y, model.predict(X)))
    mean, sd = model.predict(X, return_std=True)
    return np.asarray(stats.norm.logpdf(y, mean, sd))


def _coverage(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Share of targets in intervals of 90 %."""
    if hasattr(model, "log_predictive_density"):
        lower, upper = np.asarray(model.predict(X, return_quantiles=(0.05, 0.95))[-1])
    else:
        mean, sd = model.predict(X, return_std=True)
        lower, upper = stats.norm.interval(0.9, mean, sd)
    return float(np.mean((lower <= y) & (y <= upper)))


def _scores(kind: str, model: Any, X: np.ndarray, y: np.ndarray, unit: float) -> dict[str, Any]:
    if kind in ("classes", "levels"):
        proba = model.predict_proba(X)
        found = score(y, proba, model.classes_)
        return {name: found.get(name, np.nan) for name in SCORES}
    log_loss = -float(_log_density(model, X, y).mean())
    if kind == "counts":
        return {"log_loss": log_loss}
    return {"log_loss": log_loss - float(np.log(unit)), "coverage": _coverage(model, X, y)}


def one(kind: str, data: str, n: int, repeat: int, method: str) -> dict[str, Any]:
    """Scores of one fit."""
    X, y, X_test, y_test = split(kind, data, n, repeat)
    model = METHODS[kind][method](repeat)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = _scores(kind, model.fit(X, y), X_test, y_test, float(np.std(y)))
        except (RuntimeError, ValueError) as error:
            return {"failed": str(error)[:80]}
    return found | {"seconds": time.process_time() - start}


def tasks(kind: str, data: Iterable[str], repeats: int) -> Iterator[tuple[str, str, int, int, str]]:
    """All fits, such that a study that ends early has as many training sets of all data.

    Yields
    ------
    tuple
        Kind, data set, size, number of the training set, method.
    """
    for repeat in range(repeats):
        for n in SIZES:
            for name in data:
                if len(load(kind, name)[1]) >= n + FEWEST_TESTED:
                    yield from ((kind, name, n, repeat, method) for method in METHODS[kind])


def summarize(kind: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Log loss by method: means over data sets, and differences from the reference in pairs.

    The error of a difference is that over data sets, whose training sets are averaged first.
    """
    done = [row for row in rows if row["kind"] == kind and not row["failed"]]
    by_key = {(r["data"], r["n"], r["repeat"], r["method"]): r for r in done}
    found = []
    for method in METHODS[kind]:
        shared = [key for key in by_key if key[3] == method and (*key[:3], REFERENCE) in by_key]
        if not shared:
            continue
        summary: dict[str, Any] = {"method": method, "fits": len(shared)}
        for n in (*SIZES, None):
            keys = [key for key in shared if n in (key[1], None)]
            if not keys:
                continue
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
            *(f"{own.get(f'log_loss_{name}', np.nan):.3f}" for name in (*map(str, SIZES), "all")),
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
    parser.add_argument("--kind", choices=list(SETS), nargs="+", default=list(SETS))
    methods = list(dict.fromkeys(method for own in METHODS.values() for method in own))
    parser.add_argument("--method", choices=methods, nargs="+", default=methods)
    parser.add_argument("--repeats", type=int, default=3, help="training sets of each size")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    parser.add_argument("--save", action="store_true", help="also write the summary")
    args = parser.parse_args()
    if not args.table:
        for kind in args.kind:
            wanted = tasks(kind, _available(kind), args.repeats)
            chosen = [task for task in wanted if task[-1] in args.method]
            ROWS.run(chosen, one, n_jobs=args.jobs)
    summaries = {kind: summarize(kind, ROWS.read()) for kind in args.kind}
    for kind, own in summaries.items():
        print(f"\n{kind}")
        show(own)
    if args.save:
        save("default_kernel", {"sizes": list(SIZES), "reference": REFERENCE}, summaries)


def _available(kind: str) -> list[str]:
    """Names of the data sets whose source is there."""
    there = []
    for name in SETS[kind]:
        try:
            load(kind, name)
        except MissingSourceError as error:
            print(f"skipped {error}")
        else:
            there.append(name)
    return there


if __name__ == "__main__":
    main()
