"""Fits beside one another: their seconds, against those of a fit that has the machine to itself.

Run as ``python -m benchmarks.concurrency [--repeats 3]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``, on two cores with nothing else to do. Threads and processes have been
started, and have fitted once, before anything is timed. A grid search with two workers, whose fits
ask for two workers too, is held against one without any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
from sklearn.model_selection import GridSearchCV

from skgpmcmc import BayesianGPClassifier

from .common import SMOOTH, fit_quietly, print_table, save, simulate_binary

GRID = {"approximation": ["ep", "laplace"]}


def fit(n: int, n_jobs: int = 1) -> None:
    fit_quietly(BayesianGPClassifier(SMOOTH, random_state=0, n_jobs=n_jobs), *data(n))


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    return simulate_binary(n, 2, 2.0, -1.5, 0)


def search(n: int, n_jobs: int) -> None:
    estimator = BayesianGPClassifier(SMOOTH, random_state=0, n_jobs=n_jobs)
    fit_quietly(GridSearchCV(estimator, GRID, cv=2, n_jobs=n_jobs), *data(n))


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def two_at_once(pool: Executor, n: int) -> None:
    for done in [pool.submit(fit, n) for _ in range(2)]:
        done.result()


def pools() -> dict[str, Callable[[], Executor]]:
    def of(method: str) -> Callable[[], Executor]:
        return lambda: ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method))

    return {
        "two threads": lambda: ThreadPoolExecutor(2),
        "two processes, spawn": of("spawn"),
        "two processes, forkserver": of("forkserver"),
    }


def slow_downs(n: int, repeats: int) -> dict[str, float]:
    """Seconds beside another over seconds alone; medians of ratios of neighbours in time."""
    ratios: dict[str, list[float]] = {}
    for name, make in pools().items():
        with make() as pool:
            two_at_once(pool, n)
            ratios[name] = [
                seconds(lambda: two_at_once(pool, n)) / seconds(lambda: fit(n))
                for _ in range(repeats)
            ]
    search(n, 2)
    ratios["grid search, two workers each"] = [
        seconds(lambda: search(n, 2)) / seconds(lambda: search(n, 1)) for _ in range(repeats)
    ]
    return {name: float(np.median(values)) for name, values in ratios.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[50, 200, 500])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    fit(min(args.rows))
    results = {str(n): slow_downs(n, args.repeats) for n in args.rows}
    print_table(
        ["", *(f"n = {n}" for n in results)],
        [
            [name, *(f"{found[name]:.2f}" for found in results.values())]
            for name in results[str(args.rows[0])]
        ],
    )
    save("concurrency", {"repeats": args.repeats}, results)


if __name__ == "__main__":
    main()
