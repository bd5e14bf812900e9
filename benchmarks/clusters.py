"""Fits on a cluster of dask: many rows with little memory, and many fits while workers are killed.

Run as ``python -m benchmarks.clusters [--rows 20000] [--searches 10]``, with one BLAS thread
(``OMP_NUM_THREADS=1``) and the extra ``distributed`` installed. The cluster has two workers on this
machine, of 1.5 GiB each. ``--rows`` fits classes of so many rows with the default settings; their
hyper-parameters are known. ``--searches`` makes the fits of so many cross-validations of ten
kernels with ten folds and 100 rows, while every ten seconds one of the workers is killed; then the
same fits are made one after the other, and draws are compared. Results are kept in
``results/clusters.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import joblib
import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Matern, RationalQuadratic
from sklearn.model_selection import KFold

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.kernels import Linear

from .common import load_results, plain, print_table, save
from .many_rows import measure

#: Memory of a worker.
MEMORY = "1.5GiB"
N_WORKERS = 2
#: Seconds from one killed worker to the next.
BETWEEN_KILLS = 10.0
N_FOLDS = 10
#: Rows of which each fold leaves a tenth out.
N_ROWS = 100

_SHAPES = (RBF(), Matern(nu=0.5), Matern(nu=1.5), Matern(nu=2.5), RationalQuadratic())
KERNELS: tuple[Kernel, ...] = tuple(
    ConstantKernel() * shape + other if other else ConstantKernel() * shape
    for shape in _SHAPES
    for other in (None, Linear())
)
#: Short chains: draws are compared, and not used.
SETTINGS: dict[str, Any] = {"n_chains": 2, "n_draws": 25, "target_ess": None}


@contextmanager
def start_cluster() -> Iterator[Client]:
    """Start two workers on this machine, of one thread each."""
    with (
        LocalCluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            processes=True,
            memory_limit=MEMORY,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def fit_many_rows(n: int) -> dict[str, Any]:
    """Fit classes of n rows; returns what the fit took, and whether the truth is in its posterior.

    The memory is that of this process, of dask's scheduler and of the workers together.
    """
    with start_cluster(), joblib.parallel_config(backend="dask"):
        return measure("binary", n, N_WORKERS)


def digest_fit(search: int, kernel: int, fold: int) -> str:
    """Fit one kernel to the rows of one fold; returns a digest of all draws."""
    X, y = make_moons(N_ROWS, noise=0.3, random_state=search)
    folds = KFold(N_FOLDS, shuffle=True, random_state=search).split(X)
    train = list(folds)[fold][0]
    model = BayesianGPClassifier(KERNELS[kernel], random_state=search, **SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
    draws = np.ascontiguousarray(model.theta_samples_), np.ascontiguousarray(model.latent_samples_)
    return hashlib.sha256(b"".join(own.tobytes() for own in draws)).hexdigest()


def kill_workers(client: Client, is_over: threading.Event, killed: list[int]) -> None:
    """Kill a worker of the cluster again and again; the cluster starts another in its place."""
    rng = np.random.default_rng(0)
    while not is_over.wait(BETWEEN_KILLS):
        processes = sorted(client.run(os.getpid).values())
        if not processes:  # the last one has not been replaced yet
            continue
        chosen = int(rng.choice(processes))
        os.kill(chosen, signal.SIGKILL)
        killed.append(chosen)


def fit_while_workers_die(n_searches: int) -> dict[str, Any]:
    """Make all fits on the cluster, and one after the other; returns how many have other draws."""
    cases = [
        (search, kernel, fold)
        for search in range(n_searches)
        for kernel in range(len(KERNELS))
        for fold in range(N_FOLDS)
    ]
    killed: list[int] = []
    is_over = threading.Event()
    begin = time.perf_counter()
    with start_cluster() as client, joblib.parallel_config(backend="dask"):
        killer = threading.Thread(target=kill_workers, args=(client, is_over, killed))
        killer.start()
        try:
            found = joblib.Parallel()(joblib.delayed(digest_fit)(*case) for case in cases)
        finally:
            is_over.set()
            killer.join()
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    alone = [digest_fit(*case) for case in cases]
    return {
        "fits": len(cases),
        "killed": len(killed),
        "different": sum(one != other for one, other in zip(found, alone, strict=True)),
        "distinct": len(set(alone)),
        "seconds": seconds,
        "seconds_alone": time.perf_counter() - begin,
    }


def main() -> None:
    """Make the fits that are asked for, and keep what they took."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=None, metavar="N")
    parser.add_argument("--searches", type=int, default=None, metavar="S")
    args = parser.parse_args()
    results = load_results("clusters")
    settings = {"n_workers": N_WORKERS, "memory": MEMORY, "between_kills": BETWEEN_KILLS}
    if args.rows is not None:
        found = plain(fit_many_rows(args.rows))
        results.setdefault("rows", {})[str(args.rows)] = found
        save("clusters", settings, results)
        head = ["seconds", "memory", "ess", "r_hat", "evaluations", "inside"]
        print_table(["rows", *head], [[str(args.rows), *(found[key] for key in head)]])
    if args.searches is not None:
        found = fit_while_workers_die(args.searches)
        results["searches"] = found
        save("clusters", settings, results)
        print_table(list(found), [[f"{value:.6g}" for value in found.values()]])


if __name__ == "__main__":
    main()
