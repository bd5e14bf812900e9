"""Predictions of a Pima fit: time per theta, what a subset of draws changes, pickle and memory.

Run as ``python -m benchmarks.prediction [--n-draws 100] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core. New rows are training rows, drawn with
replacement and moved by a Gaussian of 0.1 standard deviations.
"""

from __future__ import annotations

import argparse
import pickle
import time
import tracemalloc
import warnings

import numpy as np

from skgpmcmc import BayesianGPClassifier

from .common import CASES, fit_quietly, load_binary, min_ess, print_table, save, use_core

N_ROWS = 1000
#: Calls for one row, and rows of a large call.
N_CALLS, MANY = 20, 10_000
#: Rows of the memory test.
MANY_ROWS = (1_000, 10_000, 100_000)


def new_rows(X: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    return X[rng.integers(len(X), size=n)] + 0.1 * rng.standard_normal((n, X.shape[1]))


def timed(classifier: BayesianGPClassifier, X_new: np.ndarray) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    proba = classifier.predict_proba(X_new)
    return proba[:, 1], time.perf_counter() - start


def with_predict_draws(
    classifier: BayesianGPClassifier, X: np.ndarray, y: np.ndarray, n: int | None
) -> BayesianGPClassifier:
    """Let the same draws predict with another `max_predict_draws`: a warm start that adds none."""
    copy = pickle.loads(pickle.dumps(classifier))
    copy.set_params(warm_start=True, max_predict_draws=n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing was added
        return copy.fit(X, y)


def memory(n_draws: int) -> list[dict[str, float]]:
    """Peak of what Python allocates while a small fit predicts many rows."""
    X, y = CASES["sim2"].load(0)
    classifier = BayesianGPClassifier(
        priors="paper", n_draws=n_draws, target_ess=None, random_state=0, n_jobs=1
    )
    fit_quietly(classifier, X, y)
    rng = np.random.default_rng(1)
    rows = []
    for n in MANY_ROWS:
        X_new = new_rows(X, n, rng)
        tracemalloc.start()
        classifier.predict_proba(X_new)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        rows.append({"rows": n, "mebibytes": peak / 2**20})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-draws", type=int, default=100, help="per chain, of four")
    parser.add_argument("--memory-draws", type=int, default=5, help="per chain, of the small fit")
    parser.add_argument("--max-rows", type=int, default=None, help="of Pima, for a trial")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    X, y = load_binary("pima")
    X, y = X[: args.max_rows], y[: args.max_rows]
    X_new = new_rows(X, N_ROWS, np.random.default_rng(0))
    default = BayesianGPClassifier(
        priors="paper", n_draws=args.n_draws, target_ess=None, random_state=0, n_jobs=1
    )
    seconds_fit, _, _ = fit_quietly(default, X, y)
    pickled = pickle.dumps(default)
    proba, seconds = timed(default, X_new)
    one_row = np.median([timed(default, X_new[[i]])[1] for i in range(N_CALLS)])
    _, seconds_many = timed(default, new_rows(X, MANY, np.random.default_rng(2)))
    kept = default._predictor.cache.n_bytes
    every = with_predict_draws(default, X, y, None)
    proba_all, seconds_all = timed(every, X_new)
    n_thetas, n_thetas_all = (len(np.unique(c._predictor.theta, axis=0)) for c in (default, every))
    change = np.abs(proba - proba_all)
    result = {
        "n": len(y),
        "n_new": N_ROWS,
        "n_chains": 4,
        "n_draws": args.n_draws,
        "min_ess": min_ess(default.theta_samples_),
        "seconds_fit": seconds_fit,
        "all": {
            "seconds": seconds_all,
            "distinct_thetas": n_thetas_all,
            "ms_per_theta": 1e3 * seconds_all / n_thetas_all,
        },
        "default": {
            "max_predict_draws": default.max_predict_draws,
            "seconds": seconds,
            "distinct_thetas": n_thetas,
            "ms_per_theta": 1e3 * seconds / n_thetas,
            "ms_one_row_later": 1e3 * one_row,
            "seconds_10000_rows_later": seconds_many,
            "kept_mebibytes": kept / 2**20,
        },
        "largest_change": change.max(),
        "root_mean_square_change": np.sqrt(np.mean(change**2)),
        "pickle_megabytes": len(pickled) / 1e6,
        "memory": memory(args.memory_draws),
        "targets": {"ms_per_theta": 40.0, "seconds": 4.0, "change": 0.01, "megabytes": 10.0},
    }
    rows = [
        [label, r["distinct_thetas"], f"{r['seconds']:.2f}", f"{r['ms_per_theta']:.1f}"]
        for label, r in (("all draws", result["all"]), ("default", result["default"]))
    ]
    print_table(["draws", "distinct thetas", "seconds", "ms per theta"], rows)
    print(
        f"after the first call: one row {1e3 * one_row:.1f} ms, {MANY} rows {seconds_many:.2f} s, "
        f"{kept / 2**20:.0f} MiB kept"
    )
    print(
        f"largest change {result['largest_change']:.4f}, pickle "
        f"{result['pickle_megabytes']:.2f} MB; peak memory, small fit: "
        + ", ".join(f"{m['rows']} rows {m['mebibytes']:.0f} MiB" for m in result["memory"])
    )
    save("prediction", {"n_draws": args.n_draws, "memory_draws": args.memory_draws}, result)


if __name__ == "__main__":
    main()
