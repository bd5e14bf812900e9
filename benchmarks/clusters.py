"""Fits on a cluster of dask: many rows with little memory, and many fits while workers are killed.

Run as ``python -m benchmarks.clusters [--rows 20000] [--searches 10]``, with one BLAS thread
(``OMP_NUM_THREADS=1``) and the extra ``distributed`` installed. The cluster has two workers on this
machine, of 1.5 GiB each. ``--rows`` fits classes of so many rows with the default settings; their
hyper-parameters are known. ``--searches`` makes the fits of so many cross-validations of ten
kernels with ten folds and 100 rows, while every ten seconds one of the workers is killed; then the
same fits are made without dask, and draws are compared. Results are kept in
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

import dask
import joblib
import numpy as np
from distributed import Client, LocalCluster, as_completed
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
def start_cluster() -> Iterator[tuple[LocalCluster, Client]]:
    """Start two workers on this machine, of one thread each.

    The same work may lose many workers before dask gives up, since the work is not at fault.
    """
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 100}),
        LocalCluster(
            n_workers=N_WORKERS,
            threads_per_worker=1,
            processes=True,
            memory_limit=MEMORY,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield cluster, client


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


def fit_case(case: tuple[int, int, int]) -> tuple[tuple[int, int, int], str]:
    """Make a fit; returns which one it is, and its digest."""
    return case, digest_fit(*case)


def kill_workers(cluster: LocalCluster, is_over: threading.Event, killed: list[int]) -> None:
    """Kill a worker of the cluster again and again; its nanny starts another in its place."""
    rng = np.random.default_rng(0)
    while not is_over.wait(BETWEEN_KILLS):
        processes = [nanny.pid for nanny in cluster.workers.values() if nanny.pid is not None]
        chosen = int(rng.choice(processes))
        os.kill(chosen, signal.SIGKILL)
        killed.append(chosen)


def fit_while_workers_die(n_searches: int) -> dict[str, Any]:
    """Make all fits on the cluster, and without it; returns how many have other draws.

    Results are taken from the workers as they come. joblib's backend leaves them there, so that
    each loss of a worker makes dask repeat all that this worker has done.
    """
    cases = [
        (search, kernel, fold)
        for search in range(n_searches)
        for kernel in range(len(KERNELS))
        for fold in range(N_FOLDS)
    ]
    killed: list[int] = []
    is_over = threading.Event()
    begin = time.perf_counter()
    with start_cluster() as (cluster, client):
        killer = threading.Thread(target=kill_workers, args=(cluster, is_over, killed))
        killer.start()
        try:
            made = as_completed(client.map(fit_case, cases), with_results=True)
            digests = dict(digest for _, digest in made)
        finally:
            is_over.set()
            killer.join()
    seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    alone = dict(joblib.Parallel(N_WORKERS)(joblib.delayed(fit_case)(case) for case in cases))
    return {
        "fits": len(cases),
        "killed": len(killed),
        "different": sum(digests[case] != alone[case] for case in cases),
        "distinct": len(set(alone.values())),
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
