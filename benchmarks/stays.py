"""Rare stays: default fits of small regressions, and how long a chain keeps one theta.

Run as ``python -m benchmarks.stays [--seeds 13] [--data NAME ...] [--processes 2]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. The default model of numbers has four
hyper-parameters, and a posterior with wide plateaus: where the amplitude is small, or the slopes
hardly vary. If the emulator is too low on a plateau, a chain that comes there stays. One fit in
thirty does so, which is too rare for the ten seeds of `benchmarks.default`; here are many fits of
small data, of a second or two each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
from sklearn.datasets import (
    load_diabetes,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_regression,
)
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor

from .common import fit_quietly, print_table, save
from .default import longest_stay

Data = tuple[np.ndarray, np.ndarray]


def patients(n: int) -> Data:
    """The first patients of the diabetes data; ten columns."""
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X[:n]), y[:n]


def friedman(make: Callable[..., Data], n: int, seed: int, noise: float = 0.0) -> Data:
    """One of Friedman's functions, with standardized inputs."""
    X, y = make(n, random_state=seed, noise=noise)
    return (X if make is make_friedman1 else StandardScaler().fit_transform(X)), y


def plane(n: int, seed: int) -> Data:
    """A plane in five columns, with noise."""
    X, y = make_regression(n, 5, noise=20.0, random_state=seed)
    return X, y


def wave(n: int, seed: int) -> Data:
    """A sine of one column, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 5.0, (n, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.2 * rng.standard_normal(n)


def unrelated(n: int, seed: int) -> Data:
    """Targets that do not depend on the three columns."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.standard_normal(n)


DATA: dict[str, Callable[[], Data]] = {
    "diabetes 30": partial(patients, 30),
    "diabetes 60": partial(patients, 60),
    "diabetes 100": partial(patients, 100),
    "diabetes 150": partial(patients, 150),
    "Friedman 1, 30, noise": partial(friedman, make_friedman1, 30, 1, noise=1.0),
    "Friedman 1, 50": partial(friedman, make_friedman1, 50, 0),
    "Friedman 1, 50, noise": partial(friedman, make_friedman1, 50, 1, noise=1.0),
    "Friedman 1, 100": partial(friedman, make_friedman1, 100, 0),
    "Friedman 2, 30": partial(friedman, make_friedman2, 30, 0),
    "Friedman 3, 60": partial(friedman, make_friedman3, 60, 0),
    "plane 30": partial(plane, 30, 0),
    "plane 60": partial(plane, 60, 1),
    "wave 20": partial(wave, 20, 0),
    "wave 40": partial(wave, 40, 1),
    "noise 30": partial(unrelated, 30, 0),
    "noise 60": partial(unrelated, 60, 1),
}


def measure(job: tuple[str, int]) -> dict[str, Any]:
    """One default fit: its longest stay, its convergence and its seconds."""
    name, seed = job
    model = BayesianGPRegressor(random_state=seed, n_jobs=1)
    _, seconds, warned = fit_quietly(model, *DATA[name]())
    return {
        "data": name,
        "seed": seed,
        "longest_stay": longest_stay(model.theta_samples_),
        "max_r_hat": float(model.diagnostics_.r_hat.max()),
        "seconds": seconds,
        "warned": bool(warned),
    }


def main() -> None:
    """Fit all data with all seeds, print a line for each data set, and save the fits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=13, help="how many, from 0")
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    jobs = [(name, seed) for name in args.data for seed in range(args.seeds)]
    with get_context("spawn").Pool(args.processes) as pool:
        fits = pool.map(measure, jobs, chunksize=1)
    rows = []
    for name in args.data:
        own = [fit for fit in fits if fit["data"] == name]
        stays = [fit["longest_stay"] for fit in own]
        seconds = np.mean([fit["seconds"] for fit in own])
        worst = max(fit["max_r_hat"] for fit in own)
        rows.append([name, np.median(stays), max(stays), f"{worst:.3f}", f"{seconds:.1f}"])
    print_table(["data", "median stay", "longest", "worst R-hat", "seconds"], rows)
    long = [fit for fit in fits if fit["longest_stay"] > 100]
    print(f"{len(long)} of {len(fits)} fits have a stay of more than 100 iterations")
    print(f"{sum(fit['warned'] for fit in long)} of these warn")
    if args.data == list(DATA):
        save("stays", {"seeds": args.seeds}, fits)


if __name__ == "__main__":
    main()
