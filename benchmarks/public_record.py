"""Regression on public data with their published splits, and on simulators.

Run as ``python -m benchmarks.public_record --part uci simulators [--jobs 2]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``; ``--data`` and ``--method`` choose among the fits.
Every fit is a row of ``results/public_record.csv``; those that are there are not made again.
``--table`` prints what there is, ``--save`` also writes the summary to
``results/public_record.json`` and draws ``results/public_record.png``.

*uci*: five data sets with the twenty splits of Hernandez-Lobato & Adams (2015); with more than 500
training rows, the first five. Log densities are in the units of the targets, as they
are published. *simulators*: deterministic functions of four and ten inputs, at Latin hypercubes of
ten rows for each input.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from scipy.stats import qmc
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgpmcmc import BayesianGPRegressor

from .common import RESULTS, data_folder, print_table, save
from .rows import Rows

Data = tuple[np.ndarray, np.ndarray]
#: Share of targets that intervals should cover.
COVERED = 0.9

# --- public data ----------------------------------------------------------------------------------

#: Published mean test log likelihood of Monte Carlo dropout (Gal & Ghahramani, 2016), in the units
#: of the targets.
DROPOUT = {"boston": -2.40, "concrete": -2.93, "energy": -1.21, "wine_red": -0.93, "yacht": -1.25}
#: Data sets with more training rows than this use fewer splits.
MANY_ROWS = 500
N_SPLITS, FEW_SPLITS = 20, 5


def load(name: str) -> Data:
    """Features and targets in their own units."""
    path = data_folder() / "uci" / f"{name}.csv"
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1]


def published_split(
    name: str, repeat: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and test rows of a published split; features standardized by the former."""
    X, y = load(name)
    lines = (data_folder() / "uci" / f"{name}_test_rows.txt").read_text("utf-8").splitlines()
    tested = np.zeros(len(y), dtype=bool)
    tested[np.array(lines[repeat].split(), dtype=int)] = True
    center, scale = X[~tested].mean(axis=0), X[~tested].std(axis=0)
    Z = (X - center) / np.where(scale > 0.0, scale, 1.0)
    return Z[~tested], y[~tested], Z[tested], y[tested]


def n_splits(name: str) -> int:
    """Number of splits that are used."""
    return N_SPLITS if len(published_split(name, 0)[1]) <= MANY_ROWS else FEW_SPLITS


# --- simulators -----------------------------------------------------------------------------------


def _scaled(u: np.ndarray, low: Iterable[float], high: Iterable[float]) -> np.ndarray:
    low, high = np.array(list(low)), np.array(list(high))
    return np.asarray((low + u * (high - low)).T)


def wing_weight(u: np.ndarray) -> np.ndarray:
    """Weight of a light aircraft's wing; with four inputs, the others are in the middle."""
    low = [150.0, 0.08, 2.5, 1700.0, 220.0, 6.0, -10.0, 16.0, 0.5, 0.025]
    high = [200.0, 0.18, 6.0, 2500.0, 300.0, 10.0, 10.0, 45.0, 1.0, 0.08]
    whole = np.full((len(u), 10), 0.5)
    whole[:, : u.shape[1]] = u
    # The first four are the most active ones.
    S, tc, N, W, Wf, A, sweep, q, taper, Wp = _scaled(whole, low, high)
    angle = np.cos(np.radians(sweep))
    return (
        0.036
        * S**0.758
        * Wf**0.0035
        * (A / angle**2) ** 0.6
        * q**0.006
        * taper**0.04
        * (100.0 * tc / angle) ** -0.3
        * (N * W) ** 0.49
        + S * Wp
    )


def buckling(u: np.ndarray) -> np.ndarray:
    """Critical load of a column by Euler; inputs after the fourth are inactive."""
    E, width, height, length = _scaled(u[:, :4], [180e3, 20, 20, 1000], [220e3, 60, 60, 3000])
    return np.asarray(np.pi**2 * E * width * height**3 / (12.0 * length**2) / 1000.0)


def ackley(u: np.ndarray) -> np.ndarray:
    """The function of Ackley in [-2, 2]."""
    x = 4.0 * u - 2.0
    root = np.sqrt(np.mean(x**2, axis=1))
    return np.asarray(
        20.0 - 20.0 * np.exp(-0.2 * root) + np.e - np.exp(np.cos(2.0 * np.pi * x).mean(axis=1))
    )


def dixon_price(u: np.ndarray) -> np.ndarray:
    """The function of Dixon and Price in [-10, 10]."""
    x = 20.0 * u - 10.0
    i = np.arange(2, u.shape[1] + 1)
    return np.asarray(
        (x[:, 0] - 1.0) ** 2 + (i * (2.0 * x[:, 1:] ** 2 - x[:, :-1]) ** 2).sum(axis=1)
    )


def griewank(u: np.ndarray) -> np.ndarray:
    """The function of Griewank in [-5, 5]."""
    x = 10.0 * u - 5.0
    i = np.arange(1, u.shape[1] + 1)
    return np.asarray(1.0 + (x**2).sum(axis=1) / 4000.0 - np.cos(x / np.sqrt(i)).prod(axis=1))


def rosenbrock(u: np.ndarray) -> np.ndarray:
    """The function of Rosenbrock in [-2, 2]."""
    x = 4.0 * u - 2.0
    bends = 100.0 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1.0 - x[:, :-1]) ** 2
    return np.asarray(bends.sum(axis=1))


SIMULATORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "wing weight": wing_weight,
    "buckling": buckling,
    "Ackley": ackley,
    "Dixon-Price": dixon_price,
    "Griewank": griewank,
    "Rosenbrock": rosenbrock,
}
DIMENSIONS = (4, 10)
N_DESIGNS = 4
N_TESTED = 1000


def design(name: str, d: int, repeat: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A Latin hypercube with ten runs for each input, and uniform points to predict."""
    function = SIMULATORS[name]
    X = qmc.LatinHypercube(d, rng=np.random.default_rng([d, repeat])).random(10 * d)
    X_test = np.random.default_rng([d, repeat, 1]).uniform(size=(N_TESTED, d))
    return X, function(X), X_test, function(X_test)


# --- methods --------------------------------------------------------------------------------------

Method = Callable[[int, int, str], BaseEstimator]


def _ours(seed: int, d: int, noise: str, **own: Any) -> BaseEstimator:
    return BayesianGPRegressor(ard=True, noise=noise, random_state=seed, n_jobs=1, **own)


def _optimum(seed: int, d: int, noise: str) -> BaseEstimator:
    kernel = ConstantKernel() * RBF(np.ones(d))
    if noise == "inferred":
        kernel = kernel + WhiteKernel()
    return GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=5, random_state=seed
    )


METHODS: dict[str, Method] = {
    "default, ARD": _ours,
    "average, ARD": partial(_ours, kernel="auto"),
    "sparse, ARD": partial(_ours, priors="sparse"),
    "scikit-learn's optimum": _optimum,
}

DATA = [*SIMULATORS, *DROPOUT]

# --- rows -----------------------------------------------------------------------------------------

SCORES = ("log_density", "rmse", "coverage", "interval_score")
ROWS = Rows(
    RESULTS / "public_record.csv",
    key=("part", "data", "d", "repeat", "method"),
    columns=(*SCORES, "seconds", "failed"),
    words=("part", "data", "method", "failed"),
    whole=("d", "repeat"),
)


def interval_score(y: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Mean width of intervals, with a penalty for targets outside (Gneiting & Raftery, 2007)."""
    penalty = 2.0 / (1.0 - COVERED)
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return float(np.mean(upper - lower + penalty * outside))


def one(part: str, data: str, d: int, repeat: int, method: str) -> dict[str, Any]:
    """Scores of one fit."""
    is_simulator = part == "simulators"
    X, y, X_test, y_test = (
        design(data, d, repeat) if is_simulator else published_split(data, repeat)
    )
    model = METHODS[method](repeat, X.shape[1], "none" if is_simulator else "inferred")
    ends = (0.5 - 0.5 * COVERED, 0.5 + 0.5 * COVERED)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
            if isinstance(model, BayesianGPRegressor):
                mean, (lower, upper) = model.predict(X_test, return_quantiles=ends)
                log_density = model.log_predictive_density(X_test, y_test)
            else:
                mean, sd = model.predict(X_test, return_std=True)
                lower, upper = stats.norm.interval(COVERED, mean, sd)
                log_density = stats.norm.logpdf(y_test, mean, sd)
        except (RuntimeError, ValueError) as error:
            return {"failed": str(error)[:80]}
    return {
        "log_density": float(np.mean(log_density)),
        "rmse": float(np.sqrt(np.mean((y_test - mean) ** 2))),
        "coverage": float(np.mean((lower <= y_test) & (y_test <= upper))),
        "interval_score": interval_score(y_test, lower, upper),
        "seconds": time.process_time() - start,
    }


def tasks(parts: Iterable[str]) -> Iterator[tuple[str, str, int, int, str]]:
    """All fits, the simulators first.

    Yields
    ------
    tuple
        Part, data, number of inputs, number of the split or design, method.
    """
    if "simulators" in parts:
        for repeat in range(N_DESIGNS):
            for d in DIMENSIONS:
                for name in SIMULATORS:
                    yield from (("simulators", name, d, repeat, method) for method in METHODS)
    if "uci" in parts:
        for repeat in range(N_SPLITS):
            for name in DROPOUT:
                if repeat < n_splits(name):
                    d = load(name)[0].shape[1]
                    yield from (("uci", name, d, repeat, method) for method in METHODS)


def summarize(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over splits or designs, with the standard error of the log density."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if not row["failed"]:
            groups.setdefault((row["part"], row["data"], row["d"], row["method"]), []).append(row)
    found = []
    for (part, data, d, method), own in groups.items():
        log_density = np.array([row["log_density"] for row in own])
        error = log_density.std(ddof=1) / np.sqrt(len(own)) if len(own) > 1 else np.nan
        means = {name: float(np.mean([row[name] for row in own])) for name in (*SCORES, "seconds")}
        found.append(
            {"part": part, "data": data, "d": d, "method": method, "fits": len(own)}
            | means
            | {"log_density_error": float(error)}
        )
    return found


def show(summaries: Iterable[dict[str, Any]]) -> None:
    """Print a line for each data set and method."""
    head = ["data", "d", "method", "fits", "log density", "rmse", "coverage", "interval score"]
    head += ["seconds"]
    lines = [
        [
            own["data"],
            str(own["d"]),
            own["method"],
            str(own["fits"]),
            f"{own['log_density']:.3f} +- {own['log_density_error']:.3f}",
            f"{own['rmse']:.4g}",
            f"{own['coverage']:.3f}",
            f"{own['interval_score']:.4g}",
            f"{own['seconds']:.1f}",
        ]
        for own in summaries
    ]
    print_table(head, lines)


def draw(summaries: Sequence[dict[str, Any]]) -> None:
    """Draw the interval scores of the simulators as shares of those of scikit-learn's optimum."""
    import matplotlib.pyplot as plt

    # Of Okabe and Ito.
    colors = {"default, ARD": "#0072B2", "average, ARD": "#E69F00", "sparse, ARD": "#009E73"}
    of = {
        (own["data"], own["d"], own["method"]): own["interval_score"]
        for own in summaries
        if own["part"] == "simulators"
    }
    places = [(name, d) for d in DIMENSIONS for name in SIMULATORS]
    fig, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for shift, (method, color) in zip((-0.2, 0.0, 0.2), colors.items(), strict=True):
        ratios = [of[(*place, method)] / of[(*place, "scikit-learn's optimum")] for place in places]
        height = np.arange(len(places)) + shift
        ax.plot(ratios, height, "o", color=color, label=method)
    ax.axvline(1.0, color="black", lw=0.8)
    ax.set_yticks(np.arange(len(places)), [f"{name}, d = {d}" for name, d in places])
    ax.invert_yaxis()
    ax.set_xscale("log")
    ticks = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("interval score / that of scikit-learn's optimum; less is better")
    ax.legend(loc="lower left")
    fig.savefig(RESULTS / "public_record.png", dpi=120)


def main() -> None:
    """Run what is missing, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=("uci", "simulators"), nargs="+", default=["simulators"])
    parser.add_argument("--data", choices=DATA, nargs="+", default=DATA)
    parser.add_argument("--method", choices=list(METHODS), nargs="+", default=list(METHODS))
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    parser.add_argument("--save", action="store_true", help="also write the summary")
    args = parser.parse_args()
    if not args.table:
        wanted = [
            task for task in tasks(args.part) if task[1] in args.data and task[-1] in args.method
        ]
        ROWS.run(wanted, one, n_jobs=args.jobs)
    summaries = summarize(ROWS.read())
    show(summaries)
    if args.save:
        save("public_record", {"covered": COVERED, "published": DROPOUT}, summaries)
        draw(summaries)


if __name__ == "__main__":
    main()
