"""How set-up, evaluations and memory grow with the number of rows.

Run as ``python -m benchmarks.scaling [--max-n 3000] [--n-draws 75] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Rows of one simulated data set (d = 4, X uniform in
the unit cube, sigma = e^2, tau = e^-0.5, isotropic): the first 100, 200, ... Every size has a
process of its own, so that its peak memory is its own. Runs are short; the seconds to 400 effective
draws are set-up and warm-up plus sampling time scaled to them.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from skgpmcmc import BayesianGPClassifier

from .common import (
    fit_quietly,
    min_ess,
    peak_mebibytes,
    print_table,
    save,
    simulate_binary,
    use_core,
)

SIZES = (100, 200, 400, 800, 1600, 3000)
WANTED = 400.0


def measure(
    X: np.ndarray, y: np.ndarray, n_draws: int, seed: int, core: int | None
) -> dict[str, Any]:
    """Fit some rows."""
    use_core(core)
    before = peak_mebibytes()
    classifier = BayesianGPClassifier(priors="paper", n_draws=n_draws, random_state=seed, n_jobs=1)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-n", type=int, default=max(SIZES))
    parser.add_argument("--n-draws", type=int, default=75, help="per chain, of four")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
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
