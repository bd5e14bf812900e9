"""Many rows with smooth kernels: ranks beforehand, and whole fits whose hyper-parameters are known.

Run as ``python -m benchmarks.many_rows [--ranks] [--fits 2000 20000 100000] [--only KIND ...]
[--n-jobs 2] [--compare] [--inducing]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Inputs
are normal with unit variance. ``--ranks`` finds ranks of kernels, and the seconds of one root.
``--fits`` fits the default estimators to targets that are drawn from the model, each in a process
of its own; memory is that of the process and its workers together, without shared pages counted
twice. ``--compare`` fits the same 1000 rows with the covariance matrix and with columns of it.
``--inducing`` fits 1000 rows of a rough function with inducing inputs, and exactly. Results are
kept in ``results/many_rows.json`` as they come.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern
from sklearn.metrics import log_loss

from skgpmcmc import BayesianGPClassifier, BayesianGPPoissonRegressor, BayesianGPRegressor
from skgpmcmc.kernels import effective_rank
from skgpmcmc.model import prior as priors
from skgpmcmc.model.covariance import make_covariance
from skgpmcmc.model.prior import GaussianPrior

from .common import ROOT, load_results, plain, print_table, save, watched_memory

#: True kernel of the fits.
TRUTH = ConstantKernel(2.0) * RBF(1.0)
#: True kernel of the comparison with inducing inputs.
ROUGH = ConstantKernel(2.0) * Matern(0.5, nu=1.5)
#: True standard deviation of Gaussian noise.
NOISE = 0.5
#: Name and function of a length-scale of the kernels whose ranks are found.
RANK_KERNELS: dict[str, Callable[[float], Kernel]] = {
    "RBF": RBF,
    "Matern 5/2": lambda length: Matern(length, nu=2.5),
}
#: Largest rank that is looked for.
MOST = 1500
#: Interval of the posterior in which the truth should be.
TAIL = 0.005


def inputs(n: int, d: int) -> np.ndarray:
    """Normal inputs; the first rows of a larger set."""
    return np.random.default_rng(0).standard_normal((n, d))


def find_rank(n: int, d: int, kernel: str, length: float) -> dict[str, Any]:
    """Find a rank, and the seconds of one root."""
    X = inputs(n, d)
    start = time.process_time()
    rank = effective_rank(RANK_KERNELS[kernel](length), X, max_rank=min(MOST, n // 2))
    return {"rank": rank, "seconds": time.process_time() - start}


def draw_latent(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs, and the latent function at them."""
    X = inputs(n, 2)
    covariance = make_covariance(TRUTH, X)
    f = GaussianPrior(covariance, covariance.start).sample(np.random.default_rng(1))
    return X, f


def fit_binary(n: int, settings: dict[str, Any]) -> BaseEstimator:
    """Fit classes with probit probabilities."""
    X, f = draw_latent(n)
    y = np.random.default_rng(2).uniform(size=n) < norm.cdf(f)
    return BayesianGPClassifier(ConstantKernel() * RBF(), **settings).fit(X, y)


def fit_counts(n: int, settings: dict[str, Any]) -> BaseEstimator:
    """Fit Poisson counts with exposures."""
    X, f = draw_latent(n)
    rng = np.random.default_rng(2)
    exposure = rng.uniform(0.2, 3.0, size=n)
    y = rng.poisson(exposure * np.exp(f))
    model = BayesianGPPoissonRegressor(ConstantKernel() * RBF(), **settings)
    return model.fit(X, y, exposure=exposure)


def fit_gaussian(n: int, settings: dict[str, Any]) -> BaseEstimator:
    """Fit targets with Gaussian noise, in their own units."""
    X, f = draw_latent(n)
    y = f + NOISE * np.random.default_rng(2).standard_normal(n)
    model = BayesianGPRegressor(ConstantKernel() * RBF(), normalize_y=False, **settings)
    return model.fit(X, y)


FITS: dict[str, Callable[[int, dict[str, Any]], BaseEstimator]] = {
    "binary": fit_binary,
    "counts": fit_counts,
    "gaussian": fit_gaussian,
}


def measure(kind: str, n: int, n_jobs: int) -> dict[str, Any]:
    """Fit, and return what it took and whether the truth is in the posterior."""
    begin = time.perf_counter()
    with warnings.catch_warnings(), watched_memory() as peak:
        warnings.simplefilter("ignore")
        model = FITS[kind](n, {"n_jobs": n_jobs, "random_state": 0})
    seconds = time.perf_counter() - begin
    theta = model.theta_samples_.reshape(-1, model.theta_samples_.shape[-1])
    truth = np.append(TRUTH.theta, np.log(NOISE))[: theta.shape[1]]
    low, high = np.quantile(theta, [TAIL, 1.0 - TAIL], axis=0)
    diagnostics = model.diagnostics_
    begin = time.perf_counter()
    X_new = inputs(n, 2)[:1000] + 0.01
    _ = model.predict_proba(X_new) if kind == "binary" else model.predict(X_new, return_std=True)
    seconds_of_predictions = time.perf_counter() - begin
    return {
        "seconds": seconds,
        "memory": max(peak),
        "ess": float(min(diagnostics.ess_bulk.min(), diagnostics.ess_tail.min())),
        "r_hat": float(diagnostics.r_hat.max()),
        "evaluations": diagnostics.n_likelihood_evaluations,
        "n_draws": len(theta),
        "names": diagnostics.names,
        "truth": truth,
        "low": low,
        "high": high,
        "inside": bool(np.all((low < truth) & (truth < high))),
        "rank": effective_rank(TRUTH, inputs(n, 2)),
        "seconds_of_1000_predictions": seconds_of_predictions,
    }


def compare(kind: str, n: int) -> dict[str, Any]:
    """Fit the same rows with the covariance matrix, and with columns of it."""
    found = {}
    for name, most in (("matrix", n), ("columns", n // 2)):
        with mock.patch.object(priors, "_MOST_INPUTS_WITH_MATRIX", most):
            model = FITS[kind](n, {"random_state": 0})
            summary = model.summary()
            error = summary["sd"] / np.sqrt(summary["ess_bulk"])
            evidence = model.log_evidence()
            found[name] = {
                "mean": summary["mean"].to_numpy(),
                "error": error.to_numpy(),
                "quantiles": np.quantile(
                    model.theta_samples_.reshape(-1, len(summary)), [0.05, 0.5, 0.95], axis=0
                ),
                "evidence": evidence.value,
                "evidence_error": evidence.standard_error,
            }
    matrix, columns = found["matrix"], found["columns"]
    spread = np.hypot(matrix["error"], columns["error"])
    return {
        "z_means": (matrix["mean"] - columns["mean"]) / spread,
        "difference_of_quantiles": matrix["quantiles"] - columns["quantiles"],
        "difference_of_evidence": matrix["evidence"] - columns["evidence"],
        "error_of_evidence": float(np.hypot(matrix["evidence_error"], columns["evidence_error"])),
    }


def fit_rough(settings: dict[str, Any]) -> dict[str, Any]:
    """Fit classes of 1000 rows whose latent function is rough; score it on 1000 others."""
    X = inputs(2000, 2)
    covariance = make_covariance(ROUGH, X)
    f = GaussianPrior(covariance, covariance.start).sample(np.random.default_rng(1))
    y = np.random.default_rng(2).uniform(size=2000) < norm.cdf(f)
    train, test = slice(0, 1000), slice(1000, 2000)
    kernel = ConstantKernel() * Matern(nu=1.5)
    begin = time.process_time()
    model = BayesianGPClassifier(kernel, random_state=0, **settings).fit(X[train], y[train])
    seconds = time.process_time() - begin
    return {
        "seconds": seconds,
        "log_loss": log_loss(y[test], model.predict_proba(X[test])),
        "mean": model.theta_samples_.mean(axis=(0, 1)),
        "sd": model.theta_samples_.std(axis=(0, 1)),
    }


def measure_inducing() -> dict[str, Any]:
    """Compare posteriors with inducing inputs with the exact one."""
    exact = fit_rough({})
    found = {"exact": exact}
    for m in (50, 100, 200, 400):
        own = fit_rough({"covariance": "inducing", "n_inducing": m})
        ratio = own["sd"] / exact["sd"]
        distance = (own["mean"] - exact["mean"]) / exact["sd"]
        # Of normal distributions with these moments, from the exact one.
        own["divergence"] = 0.5 * (ratio**2 + distance**2 - 1.0) - np.log(ratio)
        found[str(m)] = own
        print(m, own, flush=True)
    return found


def run_apart(kind: str, n: int, n_jobs: int) -> dict[str, Any]:
    """Measure a fit in a process of its own."""
    flags = ["--one", kind, "--fits", str(n), "--n-jobs", str(n_jobs)]
    command = [sys.executable, "-m", "benchmarks.many_rows", *flags]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure what is asked for, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--fits", type=int, nargs="*", default=[], metavar="N")
    parser.add_argument("--only", nargs="+", choices=list(FITS), default=list(FITS))
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--inducing", action="store_true")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--one", choices=list(FITS), default=None, help="in this process")
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(plain(measure(args.one, args.fits[0], args.n_jobs))))
        return
    results = load_results("many_rows")
    settings = {"n_jobs": args.n_jobs, "most": MOST}
    if args.ranks:
        ranks = results.setdefault("ranks", {})
        for kernel in RANK_KERNELS:
            for length in (2.0, 1.0, 0.5):
                for d in (1, 2, 3, 5):
                    for n in (2000, 20_000, 100_000):
                        name = f"{kernel}, {length}, {d}, {n}"
                        ranks[name] = find_rank(n, d, kernel, length)
                        print(name, ranks[name], flush=True)
                        save("many_rows", settings, results)
    for n in args.fits:
        for kind in args.only:
            found = run_apart(kind, n, args.n_jobs)
            results.setdefault("fits", {})[f"{kind}, {n}"] = found
            save("many_rows", settings, results)
            head = ["seconds", "memory", "ess", "r_hat", "evaluations", "inside"]
            print_table(["fit", *head], [[f"{kind}, {n}", *(found[key] for key in head)]])
    if args.compare:
        for kind in args.only:
            results.setdefault("compared", {})[kind] = plain(compare(kind, 1000))
            save("many_rows", settings, results)
            print(kind, results["compared"][kind])
    if args.inducing:
        results["inducing"] = plain(measure_inducing())
        save("many_rows", settings, results)


if __name__ == "__main__":
    main()
