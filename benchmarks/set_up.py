"""What each part of the set-up brings: seconds, evaluations and operations without it.

Run as ``python -m benchmarks.set_up [--part parts|rows] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core, papers' priors, default ``target_ess``. The
first part switches off one thing after the other; the second goes through numbers of rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.warmup import emulated
from skgpmcmc.warmup.emulator import design, learn, probe

from .common import CASES, fit_quietly, load_results, print_table, save, simulate_binary, use_core

Data = tuple[np.ndarray, np.ndarray]


def _from_neighbors(known: learn.Knowledge, thetas: np.ndarray) -> list[Any]:
    """Examine points from the sites of their nearest neighbors."""
    scale = known.scale
    return [
        learn.Task(
            learn.examine,
            (known.model, known.approximation, t, known.design.nearest(t, scale).sites),
        )
        for t in thetas
    ]


def _with_less_noise(goals: Callable[..., Any], settings: Any, known: learn.Knowledge) -> Any:
    """Halve the noise of estimates."""
    noise, *others = goals(settings, known)
    return 0.5 * noise, *others


#: What is switched off, and how.
OFF: dict[str, list[Callable[[], Any]]] = {
    "nothing": [],
    "a quarter of the rows first": [lambda: mock.patch.object(learn, "_FEWEST_ROWS", 10**9)],
    "interpolated sites": [lambda: mock.patch.object(learn.Knowledge, "tasks", _from_neighbors)],
    "the tolerance of 0.001": [lambda: mock.patch.object(design, "_TOLERANCES", (1e-4, 1e-4))],
    "settling as long as needed": [lambda: mock.patch.object(emulated, "_SHORTEST_SETTLING", 50)],
    "a noise of 0.24": [
        lambda: mock.patch.object(probe, "goals", partial(_with_less_noise, probe.goals))
    ],
}
PARTS = ("sim2", "pima")
ROWS = (200, 800, 1600)


def measure(X: np.ndarray, y: np.ndarray, off: str, *, ard: bool, seed: int) -> dict[str, float]:
    """One fit to the default target."""
    classifier = BayesianGPClassifier(ard=ard, priors="paper", random_state=seed, n_jobs=1)
    with ExitStack() as stack:
        for switched in OFF[off]:
            stack.enter_context(switched())
        fit_quietly(classifier, X, y)
    d = classifier.diagnostics_
    before = d.n_likelihood_evaluations - d.n_sampling_evaluations
    return {
        "seconds_before": d.seconds_warmup,
        "seconds": d.seconds_warmup + d.seconds_sampling,
        "evaluations_before": before,
        "ess": float(np.minimum(d.ess_bulk, d.ess_tail).min()),
        "r_hat": float(d.r_hat.max()),
        "per_evaluation": float(np.minimum(d.ess_bulk, d.ess_tail).min())
        / d.n_sampling_evaluations,
    }


def median_of(X: np.ndarray, y: np.ndarray, off: str, ard: bool, seeds: int) -> dict[str, float]:
    """Medians over seeds."""
    runs = [measure(X, y, off, ard=ard, seed=seed) for seed in range(seeds)]
    return {name: float(np.median([run[name] for run in runs])) for name in runs[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["parts", "rows"], default="parts")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    results = load_results("set_up")
    measure(*simulate_binary(50, 2, 2.0, -1.5, 0), "nothing", ard=False, seed=0)  # imports
    rows: dict[str, dict[str, float]] = {}
    if args.part == "parts":
        for case in PARTS:
            X, y = CASES[case].load(0)
            for off in OFF:
                rows[f"{case}: {off}"] = median_of(X, y, off, CASES[case].ard, args.seeds)
    else:
        X, y = simulate_binary(max(ROWS), 4, 2.0, -0.5, 0)
        for n in ROWS:
            rows[str(n)] = median_of(X[:n], y[:n], "nothing", False, args.seeds)
    for row in rows.values():
        row["share"] = row["seconds_before"] / row["seconds"]
    head = ["", *next(iter(rows.values()))]
    print_table(head, [[name, *(f"{v:.3g}" for v in row.values())] for name, row in rows.items()])
    seeds = {**results.get("seeds", {}), args.part: args.seeds}
    save("set_up", {"seeds": seeds}, {**results, args.part: rows, "seeds": seeds})


if __name__ == "__main__":
    main()
