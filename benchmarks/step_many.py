"""Milliseconds of an evaluation where the chains of a worker move together, or one by one.

Run as ``python -m benchmarks.step_many [--repeats 5] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One worker and one core. Both ways are timed in turn,
in one process, and make the same draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.run import progress

from .common import SMOOTH, fit_quietly, print_table, save, use_core
from .tuned_svm import PROBLEMS, first_rows

#: Beyond 300 rows chains move alone; here they move together there, too.
CASES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "moons, 50": PROBLEMS["moons, 50"],
    "cancer, 100": PROBLEMS["cancer, 100"],
    "iris, 150, three classes": PROBLEMS["iris"],
    "cancer, 200": lambda: first_rows("cancer", 200),
    "cancer, 300": lambda: first_rows("cancer", 300),
    "cancer, 569": PROBLEMS["cancer, 569"],
}
ALONE, TOGETHER = 0, 10**9


def evaluation(
    X: np.ndarray, y: np.ndarray, n_draws: int, seed: int, most_rows: int
) -> tuple[float, np.ndarray]:
    """Milliseconds of an evaluation while sampling, and the draws."""
    kept, progress._MOST_ROWS_TOGETHER = progress._MOST_ROWS_TOGETHER, most_rows
    try:
        estimator = BayesianGPClassifier(
            SMOOTH, random_state=seed, n_jobs=1, n_draws=n_draws, target_ess=None
        )
        fit_quietly(estimator, X, y)
    finally:
        progress._MOST_ROWS_TOGETHER = kept
    d = estimator.diagnostics_
    each = getattr(estimator, "estimators_", [estimator])
    draws = np.stack([binary.theta_samples_ for binary in each])
    return 1e3 * d.seconds_sampling / d.n_sampling_evaluations, draws


def measure(name: str, n_repeats: int) -> dict[str, Any]:
    """Medians over fits with several seeds, each made both ways."""
    X, y = CASES[name]()
    n_draws = 200 if len(y) <= 100 else 50
    pairs = []
    for seed in range(n_repeats):
        alone, draws = evaluation(X, y, n_draws, seed, ALONE)
        together, the_same = evaluation(X, y, n_draws, seed, TOGETHER)
        np.testing.assert_array_equal(draws, the_same)
        pairs.append((alone, together))
    times = np.array(pairs)
    alone, together = np.median(times, axis=0)
    ratio = float(np.median(times[:, 1] / times[:, 0]))
    chains = int(np.prod(draws.shape[:2]))
    figures = {"alone": float(alone), "together": float(together), "ratio": ratio}
    return {"problem": name, "n": len(y), "chains": chains, **figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    evaluation(*CASES["moons, 50"](), 20, 0, ALONE)
    rows = [measure(name, args.repeats) for name in CASES]
    shown = [[v if isinstance(v, str) else f"{v:.3g}" for v in row.values()] for row in rows]
    print_table(list(rows[0]), shown)
    save("step_many", {"repeats": args.repeats}, rows)


if __name__ == "__main__":
    main()
