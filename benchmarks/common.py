"""What the benchmark scripts share: data, the environment, and the result files."""

from __future__ import annotations

import json
import math
import os
import platform
import resource
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler

import skgpmcmc
from skgpmcmc.likelihoods import BERNOULLI_LIKELIHOODS, Likelihood, Probit
from skgpmcmc.model import (
    GaussianPrior,
    HyperPrior,
    LatentGP,
    Observations,
    make_covariance,
    paper_prior,
    smooth_kernel,
)
from skgpmcmc.run import Diagnostics, summarize_convergence

#: The kernel of the problems by which samplers are compared.
SMOOTH = smooth_kernel(1)
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
#: Chains with fewer effective draws than this are not taken for converged, see
#: `skgpmcmc.convergence`; a time to 1000, scaled from so few, says nothing.
FEWEST_EFFECTIVE = 100.0


def data_folder() -> Path:
    """Where the papers' data sets are: $SKGPMCMC_DATA, else ../shared/data."""
    folder = Path(os.environ.get("SKGPMCMC_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"no data sets in {folder}: set SKGPMCMC_DATA to the folder that holds pima.csv")
    return folder


def load_binary(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardized inputs and -1 / +1 targets; columns that are constant are left out.

    `name` is that of one of the papers' binary data sets with numeric columns, such as "pima",
    "ionosphere" or "abalone_mf", or "cancer" for scikit-learn's breast cancer data.
    """
    if name == "cancer":
        X, target = load_breast_cancer(return_X_y=True)
        y = np.where(target > 0, 1.0, -1.0)
    else:
        path = data_folder() / f"{name}.csv"
        table = np.genfromtxt(path, delimiter=",", skip_header=1, dtype=str)
        X, y = table[:, :-1].astype(float), _signs(table[:, -1])
    X = X[:, np.ptp(X, axis=0) > 0.0]
    return StandardScaler().fit_transform(X), y


def _signs(target: np.ndarray) -> np.ndarray:
    """-1 and +1 for the two classes, in the order of their names: b and g, F and M, 0 and 1."""
    classes = np.unique(target)
    if len(classes) != 2:
        raise ValueError(f"two classes are needed, found {classes.tolist()}")
    return np.where(target == classes[1], 1.0, -1.0)


def load_ordinal(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, classes 1 to 5, and which rows train in each split, for one of Chu's data sets.

    `name` is that of a file such as "chu_stocks" for ``chu_stocks.csv``. Inputs are as they come;
    the last result has shape (n, 20).
    """
    table = np.genfromtxt(data_folder() / f"{name}.csv", delimiter=",", skip_header=1)
    X = table[:, :-2]  # then come the value that was binned, and its bin
    splits = data_folder() / f"{name}_splits.csv"
    train = np.genfromtxt(splits, delimiter=",", skip_header=1, dtype=str) == "T"
    return X[:, np.ptp(X, axis=0) > 0.0], table[:, -1].astype(int), train


def load_returns(name: str, n_last: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardized time and the last daily returns of an exchange rate, in per cent."""
    table = np.genfromtxt(data_folder() / f"{name}.csv", delimiter=",", names=True, dtype=None)
    y = table["target"][-n_last:].astype(float)
    return StandardScaler().fit_transform(np.arange(len(y), dtype=float)[:, None]), y


def default_model(
    X: np.ndarray, y: np.ndarray, likelihood: str = "probit", *, ard: bool = False
) -> LatentGP:
    """The classifier's default model: RBF, isotropic unless `ard`, and the papers' priors."""
    covariance = make_covariance(smooth_kernel(X.shape[1], ard=ard), X)
    priors = {name: paper_prior(name, X) for name in covariance.names}
    hyperprior = HyperPrior(covariance.names, priors)
    return LatentGP(covariance, Observations(BERNOULLI_LIKELIHOODS[likelihood](), y), hyperprior)


#: Simulated classes are drawn again while the smaller one has less than this share.
SMALLEST_SHARE = 0.25


def simulate(
    likelihood: Likelihood,
    n: int,
    theta: np.ndarray,
    seed: int,
    *,
    d: int = 1,
    ard: bool = False,
    accept: Callable[[np.ndarray], bool] = lambda y: True,
) -> tuple[np.ndarray, np.ndarray]:
    """X uniform in the unit cube; f from the default kernel at theta, y given f, until accepted."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    prior = GaussianPrior(make_covariance(smooth_kernel(d, ard=ard), X), theta)
    while True:
        y = likelihood.sample(prior.sample(rng), rng)
        if accept(y):
            return X, y


def _balanced(y: np.ndarray) -> bool:
    return bool(SMALLEST_SHARE <= np.mean(y > 0.0) <= 1.0 - SMALLEST_SHARE)


def simulate_binary(
    n: int, d: int, log_sigma: float, log_tau: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """X uniform in the unit cube, f from the default kernel, y from the probit likelihood.

    f and y are drawn again while the smaller class has less than a quarter of the rows.
    """
    return simulate(Probit(), n, np.array([log_sigma, log_tau]), seed, d=d, accept=_balanced)


def simulate_ard(seed: int, n: int = 200, d: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Like `simulate_binary`, with sigma = e^2 and log tau_r equally spaced from -1 to 2."""
    theta = np.concatenate([[2.0], np.linspace(-1.0, 2.0, d)])
    return simulate(Probit(), n, theta, seed, d=d, ard=True, accept=_balanced)


@dataclass(frozen=True)
class Case:
    """One row of the table of benchmarks.

    Attributes
    ----------
    title : str
        What tables call it.
    load : callable
        X and y for a data seed, which real data ignore.
    simulated : bool
        A seed is one of data and chains together; for real data of chains alone.
    ard : bool
        One length-scale per column.
    per_evaluation, per_operation : float or None
        Effective draws that are aimed at, per evaluation of p-hat and per O(n^3) operation.
    times_faster : float or None
        How many times NUTS should take for 1000 effective draws, at least.
    """

    title: str
    load: Callable[[int], tuple[np.ndarray, np.ndarray]]
    simulated: bool
    ard: bool
    per_evaluation: float | None
    per_operation: float | None
    times_faster: float | None


CASES: dict[str, Case] = {
    "sim2": Case(
        "simulated n=200, d=2",
        lambda seed: simulate_binary(200, 2, 2.0, -1.5, seed),
        simulated=True,
        ard=False,
        per_evaluation=0.75,
        per_operation=0.12,
        times_faster=60.0,
    ),
    "sim10": Case(
        "simulated n=200, d=10",
        lambda seed: simulate_binary(200, 10, 2.0, 0.0, seed),
        simulated=True,
        ard=False,
        per_evaluation=0.65,
        per_operation=0.10,
        times_faster=60.0,
    ),
    "pima": Case(
        "Pima, n=768",
        lambda seed: load_binary("pima"),
        simulated=False,
        ard=False,
        per_evaluation=0.7,
        per_operation=0.20,
        times_faster=120.0,
    ),
    "cancer": Case(
        "breast cancer, n=569",
        lambda seed: load_binary("cancer"),
        simulated=False,
        ard=False,
        per_evaluation=0.65,
        per_operation=0.10,
        times_faster=None,
    ),
    "ard10": Case(
        "simulated n=200, d=10, ARD",
        simulate_ard,
        simulated=True,
        ard=True,
        per_evaluation=0.25,
        per_operation=0.03,
        times_faster=200.0,
    ),
    "ionosphere": Case(
        "Ionosphere, n=351, d=33, ARD",
        lambda seed: load_binary("ionosphere"),
        simulated=False,
        ard=True,
        per_evaluation=0.05,
        per_operation=None,
        times_faster=None,
    ),
}


def fit_quietly(
    estimator: BaseEstimator, X: np.ndarray, y: np.ndarray
) -> tuple[float, float, list[str]]:
    """Fit; returns wall seconds, processor seconds and the warnings, which are not shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wall, processor = time.perf_counter(), time.process_time()
        estimator.fit(X, y)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return wall, processor, [str(w.message) for w in caught]


def min_ess(theta: np.ndarray) -> float:
    """Least bulk or tail effective sample size, over hyper-parameters (n_chains, n_draws, p)."""
    summary = summarize_convergence(theta)
    return float(min(summary.ess_bulk.min(), summary.ess_tail.min()))


def seconds_to(effective: float, processor: float, diagnostics: Diagnostics) -> float:
    """Processor seconds of a fit, its sampling scaled to a number of effective draws.

    These are the least over hyper-parameters, of bulk and tail.
    """
    before, sampling = diagnostics.seconds_warmup, diagnostics.seconds_sampling
    share = sampling / (before + sampling)
    ess = float(min(diagnostics.ess_bulk.min(), diagnostics.ess_tail.min()))
    return processor * (1.0 - share + share * effective / ess)


def mean_and_error(values: Sequence[float]) -> str:
    """Mean and its standard error, which overlapping splits make a guide only."""
    each = np.asarray(values, dtype=float)
    error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
    return f"{each.mean():.4f} ± {error:.4f}"


def use_core(core: int | None) -> None:
    """Keep this process on one core, where the system can."""
    if core is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})


def peak_mebibytes(who: int = resource.RUSAGE_SELF) -> float:
    """Largest resident set of this process, or of the largest child that has ended."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss * unit / 2**20


def _tree_mebibytes() -> float:
    """Memory of this process and of all that come from it; what they share counts once."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(status.parent.name)] = int(status.read_text().rsplit(")", 1)[1].split()[1])
    family = {os.getpid()}
    while more := {own for own, parent in parents.items() if parent in family} - family:
        family |= more
    total = 0
    for own in family:
        with suppress(OSError):
            lines = Path(f"/proc/{own}/smaps_rollup").read_text().splitlines()
            total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024


@contextmanager
def watched_memory(every: float = 0.2) -> Iterator[list[float]]:
    """Note what this process and its children occupy together, in MiB; Linux only.

    Yields
    ------
    list of float
        The largest so far; empty elsewhere.
    """
    peak: list[float] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(every):
            peak[:] = [max([*peak, _tree_mebibytes()])]

    watcher = threading.Thread(target=look, daemon=True)
    if sys.platform == "linux":
        watcher.start()
    yield peak
    ended.set()


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print columns that are as wide as they must be."""
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(line[j]) for line in lines) for j in range(len(head))]
    for line in lines:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))


def plain(value: Any) -> Any:
    """Return the value as JSON can hold it: numbers that are not finite become None."""
    if isinstance(value, dict):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def load_results(name: str) -> Any:
    """What an earlier run of a benchmark left behind: the results, or nothing."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    return json.loads(path.read_text(encoding="utf-8"))["results"]


def save(name: str, settings: dict[str, Any], results: object) -> Path:
    """Write results with versions, machine and settings, as strict JSON."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "versions": {
            "skgpmcmc": skgpmcmc.__version__,
            "python": platform.python_version(),
            **{m.__name__: m.__version__ for m in (np, scipy, sklearn, joblib)},
        },
        "machine": {"machine": platform.machine(), "cpus": joblib.cpu_count()},
        "settings": settings,
        "results": results,
    }
    path = RESULTS / f"{name}.json"
    text = json.dumps(plain(document), indent=1, allow_nan=False)
    complete = path.with_suffix(".part")
    complete.write_text(text + "\n", encoding="utf-8")
    complete.replace(path)
    print(f"saved {path.relative_to(ROOT)}")
    return path
