"""How set-up, evaluations and memory grow with the number of rows.

Run as ``python -m benchmarks.scaling [--max-n 3000] [--n-draws 75] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Rows of one simulated data set (d = 4, X uniform in
the unit cube, sigma = e^2, tau = e^-0.5, isotropic): the first 100, 200, ... Every size has a
process of its own, so that its peak memory is its own. Runs are short; the seconds to 400 effective
draws are set-up and warm-up plus sampling time scaled to them.

``--part cheap`` is another question: Abalone, male or female (n = 2835), by the default sampler
and by moves that a cheap posterior leads. ``--part regression`` is a third one: a simulated
regression (d = 8) of 500 to 4000 rows, beside scikit-learn's. Both use two workers; their memory is
what parent and workers occupy at once, looked at five times a second, and at most: the peak of the
parent plus twice that of its largest child, which need not come at the same time.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from joblib.externals.loky import get_reusable_executor
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.approximations import Nystrom, SubsetOfData
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.samplers import DiscretizingChain

from .common import (
    RESULTS,
    fit_quietly,
    load_binary,
    load_results,
    min_ess,
    peak_mebibytes,
    print_table,
    save,
    simulate,
    simulate_binary,
    use_core,
    watched_memory,
)

SIZES = (100, 200, 400, 800, 1600, 3000)
WANTED = 400.0


def measure(
    X: np.ndarray, y: np.ndarray, n_draws: int, seed: int, core: int | None
) -> dict[str, Any]:
    """Fit some rows."""
    use_core(core)
    before = peak_mebibytes()
    classifier = BayesianGPClassifier(
        priors="paper", n_draws=n_draws, target_ess=None, random_state=seed, n_jobs=1
    )
    wall, processor, _ = fit_quietly(classifier, X, y)
    d = classifier.diagnostics_
    ess = min_ess(classifier.theta_samples_)
    n_before = d.n_likelihood_evaluations - d.n_sampling_evaluations
    return {
        "n": len(y),
        "seconds_before": d.seconds_warmup,
        "evaluations_before": n_before,
        "operations_before": d.operations.total - d.sampling_operations.total,
        "ms_per_evaluation": 1e3 * d.seconds_sampling / d.n_sampling_evaluations,
        "operations_per_evaluation": d.sampling_operations.total / d.n_sampling_evaluations,
        "n_draws": n_draws,
        "min_ess": ess,
        "per_evaluation": ess / d.n_sampling_evaluations,
        "max_r_hat": float(d.r_hat.max()),
        "seconds_to_400": d.seconds_warmup + d.seconds_sampling * WANTED / max(ess, 1e-9),
        "seconds_total": wall,
        "seconds_processor": processor,
        "mebibytes_before": before,
        "mebibytes_peak": peak_mebibytes(),
        "log_likelihood_sd": d.log_likelihood_sd,
        "emulator": dataclasses.asdict(d.emulators[0]) if d.emulators else None,
    }


def _elsewhere(function: Callable[..., Any], *arguments: Any) -> Any:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


# --- many rows: cheap posteriors, and regression --------------------------------------------------

N_JOBS = 2
#: Random walks, as slices would evaluate EP on the rows of the subset fifteen times as often.
_WALK = DiscretizingChain(operator="mh", jump=8)
CLASSIFIERS: dict[str, dict[str, Any]] = {
    "default": {},
    "subset of 300 rows": {"sampler": _WALK, "approximation": SubsetOfData(300)},
    "Nystrom, rank 100": {"sampler": _WALK, "approximation": Nystrom(100, inner="laplace")},
}
ROWS = (500, 1000, 2000, 4000)


def fit_large(estimator: BaseEstimator, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Fit with two workers; seconds, effective draws and memory."""
    with watched_memory() as peak:
        wall, _, warned = fit_quietly(estimator, X, y)
    get_reusable_executor().shutdown(wait=True)  # children count once they have ended
    parent, child = peak_mebibytes(), peak_mebibytes(resource.RUSAGE_CHILDREN)
    d, ess = estimator.diagnostics_, min_ess(estimator.theta_samples_)
    return {
        "n": len(y),
        "seconds_before": d.seconds_warmup,
        "seconds_sampling": d.seconds_sampling,
        "seconds_total": wall,
        "n_draws": estimator.theta_samples_.shape[1],
        "min_ess": ess,
        "max_r_hat": float(d.r_hat.max()),
        "per_evaluation": ess / d.n_sampling_evaluations,
        "per_minute": 60.0 * ess / d.seconds_sampling,
        "mebibytes_at_most": parent + N_JOBS * child,
        "mebibytes_at_once": max(peak, default=None),
        "warnings": warned,
    }


def cheap(name: str, n_draws: int, seed: int) -> dict[str, Any]:
    """Fit Abalone in one of the ways."""
    X, y = load_binary("abalone_mf")
    own: dict[str, Any] = {"target_ess": None, "random_state": seed, "n_jobs": N_JOBS}
    return fit_large(
        BayesianGPClassifier(priors="paper", n_draws=n_draws, **own, **CLASSIFIERS[name]), X, y
    )


def simulated(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw a regression: variance 4, length-scale 1, noise of standard deviation 0.5."""
    return simulate(Gaussian(0.5), max(ROWS), np.log([4.0, 1.0]), seed, d=8)


def regression(X: np.ndarray, y: np.ndarray, n_draws: int, seed: int) -> dict[str, Any]:
    """Fit a regression."""
    own: dict[str, Any] = {"target_ess": None, "random_state": seed, "n_jobs": N_JOBS}
    return fit_large(BayesianGPRegressor(priors="paper", n_draws=n_draws, **own), X, y)


def maximized(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The same by scikit-learn, which maximizes the evidence once, from one start."""
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    with threadpool_limits(N_JOBS):
        clock = time.perf_counter()
        GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
        seconds = time.perf_counter() - clock
    return {"seconds": seconds, "mebibytes": peak_mebibytes()}


def draw(results: dict[str, Any]) -> None:
    """Draw seconds against rows, beside scikit-learn's."""
    from matplotlib import pyplot as plt  # an extra, needed for this alone

    rows = [r["n"] for r in results.values()]
    # Set-up, and 400 effective draws at the rate of those that were made.
    whole = [r["seconds_before"] + 60.0 * WANTED / r["per_minute"] for r in results.values()]
    figure, axis = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
    axis.loglog(rows, whole, "o-", label="BayesianGPRegressor, 400 effective draws")
    seconds = [r["sklearn"]["seconds"] for r in results.values()]
    axis.loglog(rows, seconds, "s--", label="GaussianProcessRegressor, one optimum")
    axis.set(xlabel="rows", ylabel="seconds, two cores", xticks=rows, xticklabels=rows)
    axis.minorticks_off()
    axis.legend()
    figure.savefig(RESULTS / "large_regression.png", dpi=120)


def many_rows(part: str, n_draws: int, seed: int, max_n: int) -> None:
    """Run a part whose results can be continued; those there are kept."""
    name = f"large_{part}"
    results = load_results(name)
    X, y = _elsewhere(simulated, seed) if part == "regression" else (np.empty(0), np.empty(0))
    for key in CLASSIFIERS if part == "cheap" else map(str, ROWS):
        if key in results or (part == "regression" and int(key) > max_n):
            continue
        if part == "cheap":
            results[key] = _elsewhere(cheap, key, n_draws, seed)
        else:
            rows = slice(0, int(key))
            results[key] = _elsewhere(regression, X[rows], y[rows], n_draws, seed)
            results[key]["sklearn"] = _elsewhere(maximized, X[rows], y[rows])
        save(name, {"n_draws": n_draws, "seed": seed, "n_jobs": N_JOBS}, results)
        if part == "regression":
            draw(results)
        print(key, {k: v for k, v in results[key].items() if k != "warnings"}, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["rows", "cheap", "regression"], default="rows")
    parser.add_argument("--max-n", type=int, default=max(ROWS))
    parser.add_argument("--n-draws", type=int, default=75, help="per chain, of four")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    if args.part != "rows":
        many_rows(args.part, args.n_draws, args.seed, args.max_n)
        return
    # A new process starts with the peak of its parent, which therefore does nothing itself.
    X, y = _elsewhere(simulate_binary, max(SIZES), 4, 2.0, -0.5, args.seed)
    results = []
    for n in (size for size in SIZES if size <= args.max_n):
        results.append(_elsewhere(measure, X[:n], y[:n], args.n_draws, args.seed, args.core))
        settings = {"n_chains": 4, "n_draws": args.n_draws, "seed": args.seed, "d": 4}
        save("scaling", settings, results)
    head = ["n", "before s", "ms/eval", "ops/eval", "ESS", "ESS/eval", "s to 400", "peak MiB"]
    rows = [
        [
            r["n"],
            f"{r['seconds_before']:.1f}",
            f"{r['ms_per_evaluation']:.2f}",
            f"{r['operations_per_evaluation']:.2f}",
            f"{r['min_ess']:.0f}",
            f"{r['per_evaluation']:.2f}",
            f"{r['seconds_to_400']:.1f}",
            f"{r['mebibytes_peak']:.0f} ({r['mebibytes_before']:.0f} before)",
        ]
        for r in results
    ]
    print_table(head, rows)


if __name__ == "__main__":
    main()
