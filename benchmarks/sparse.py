"""The sparse prior of length-scales beside the default one: regression with many inputs.

Run as ``python -m benchmarks.sparse [--problems ...] [--methods ...] [--splits 5] [--core 0]``,
with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1`` and the environment variable ``SKGPMCMC_DATA``;
``--table`` prints the table. Every fit is one row of ``results/sparse.csv``; those that are there
are not made again. In three problems few of the inputs matter, in one a few of many may, and in one
all that there are do. Features are standardized on the training rows; all methods are with their
defaults, but for what their names say. Errors and densities are in units of the standard deviation
of the training targets.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from sklearn.datasets import make_friedman1
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import root_mean_squared_error
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.model import column_widths

from .common import RESULTS, data_folder, fit_quietly, mean_and_error, print_table, save, use_core
from .prior_problems import N_TEST, Sample, standardized
from .rows import Rows

# --- problems -------------------------------------------------------------------------------------


def three_of_twenty(seed: int) -> Sample:
    """A smooth function of three inputs of twenty, without noise."""
    X = np.random.default_rng(seed).uniform(-1.0, 1.0, size=(60 + N_TEST, 20))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + X[:, 0] * X[:, 2]
    return Sample(X[:60], y[:60], X[60:], y[60:])


def friedman(seed: int) -> Sample:
    """Friedman's function of five inputs of twenty; the sd of the noise is a fifth of that of y."""
    X, y = make_friedman1(100 + N_TEST, n_features=20, noise=1.0, random_state=seed)
    return Sample(X[:100], y[:100], X[100:], y[100:])


def with_columns(name: str, n: int, n_noise: int, seed: int) -> Sample:
    """Rows of a table whose last column is the target, with columns of noise added to the inputs.

    Of the tables of Chu & Ghahramani, the target is the value that was binned.
    """
    table = np.genfromtxt(data_folder() / f"{name}.csv", delimiter=",", skip_header=1)
    rng = np.random.default_rng(seed)
    rng.shuffle(table)
    inputs, y = table[:, :-1], table[:, -1]
    if name.startswith("chu_"):
        inputs, y = table[:, :-2], table[:, -2]
    X = np.concatenate([inputs, rng.standard_normal((len(table), n_noise))], axis=1)
    return Sample(X[:n], y[:n], X[n : n + N_TEST], y[n : n + N_TEST])


@dataclass(frozen=True)
class Problem:
    """Where the data come from, what they are, and whether there is noise."""

    load: Callable[[int], Sample]
    what: str
    noise: str = "inferred"


PROBLEMS = {
    "three of 20": Problem(three_of_twenty, "n = 60, 3 of 20 inputs matter, no noise", "none"),
    "friedman": Problem(friedman, "n = 100, 5 of 20 inputs matter"),
    "yacht": Problem(
        partial(with_columns, "uci/yacht", 100, 14), "n = 100, 6 inputs and 14 columns of noise"
    ),
    "pyrimidines": Problem(partial(with_columns, "chu_pyrimidines", 50, 0), "n = 50, 26 inputs"),
    "concrete": Problem(partial(with_columns, "uci/concrete", 100, 0), "n = 100, 8 inputs"),
}

# --- methods --------------------------------------------------------------------------------------

MEASURES = ("rmse", "log_density", "coverage", "seconds", "r_hat", "ess")
Scores = dict[str, float]


def scores(y: np.ndarray, mean: np.ndarray, log_density: np.ndarray, inside: np.ndarray) -> Scores:
    """What all methods have, at the test targets (m,): `inside` is of their 90 % intervals."""
    return {
        "rmse": float(root_mean_squared_error(y, mean)),
        "log_density": float(log_density.mean()),
        "coverage": float(inside.mean()),
    }


def bayesian(data: Sample, noise: str, seed: int, **own: Any) -> Scores:
    """Our regressor."""
    model = BayesianGPRegressor(noise=noise, random_state=seed, n_jobs=1, **own)
    _, seconds, _ = fit_quietly(model, data.X, data.y)
    mean, (low, high) = model.predict(data.X_test, return_quantiles=[0.05, 0.95])
    log_density = model.log_predictive_density(data.X_test, data.y_test)
    of = model.diagnostics_
    return {
        **scores(data.y_test, mean, log_density, (low <= data.y_test) & (data.y_test <= high)),
        "seconds": seconds,
        "r_hat": float(of.r_hat.max()),
        "ess": float(min(of.ess_bulk.min(), of.ess_tail.min())),
    }


def wide(data: Sample, noise: str, seed: int) -> Scores:
    """Ours with independent log-normal priors as wide as to switch an input off.

    They have the median of the sparse prior, and a standard deviation of the log of 3: the length-
    scale of an input is above a hundred widths with a probability of 0.12.
    """
    median = np.sqrt(10.0) * np.median(column_widths(data.X))
    priors = {"k2__length_scale": stats.lognorm(3.0, scale=median)}
    return bayesian(data, noise, seed, ard=True, priors=priors)


def optimum(data: Sample, noise: str, seed: int) -> Scores:
    """scikit-learn's regressor, whose length-scale per input maximizes the evidence."""
    d = data.X.shape[1]
    kernel = ConstantKernel() * RBF(np.full(d, np.sqrt(d)))
    if noise == "inferred":
        kernel += WhiteKernel()
    model = GaussianProcessRegressor(
        kernel, alpha=1e-6, normalize_y=True, n_restarts_optimizer=5, random_state=seed
    )
    _, seconds, _ = fit_quietly(model, data.X, data.y)
    mean, sd = model.predict(data.X_test, return_std=True)
    law = stats.norm(mean, np.maximum(sd, 1e-12))
    inside = np.abs(law.cdf(data.y_test) - 0.5) <= 0.45
    return {**scores(data.y_test, mean, law.logpdf(data.y_test), inside), "seconds": seconds}


METHODS: dict[str, Callable[..., Scores]] = {
    "one length-scale": bayesian,
    "ard": partial(bayesian, ard=True),
    "wide log-normal": wide,
    "sparse": partial(bayesian, ard=True, priors="sparse"),
    "scikit-learn": optimum,
}

# --- rows and tables ------------------------------------------------------------------------------

ROWS = Rows(
    RESULTS / "sparse.csv",
    key=("problem", "method", "split"),
    columns=MEASURES,
    words=("problem", "method"),
    whole=("split",),
)


def one(problem: str, method: str, split: int) -> dict[str, float]:
    """One row of the file, but for its key."""
    what = PROBLEMS[problem]
    data = standardized(what.load(split))
    center, scale = data.y.mean(), data.y.std()
    y, y_test = ((part - center) / scale for part in (data.y, data.y_test))
    with threadpool_limits(1):
        return METHODS[method](Sample(data.X, y, data.X_test, y_test), what.noise, split)


def summarized() -> dict[str, dict[str, Any]]:
    """Measures of every split, by problem and method."""
    rows, found = ROWS.read(), dict[str, dict[str, Any]]()
    for problem, what in PROBLEMS.items():
        methods = {
            method: {
                measure: [
                    row[measure] if np.isfinite(row[measure]) else None
                    for row in rows
                    if (row["problem"], row["method"]) == (problem, method)
                ]
                for measure in MEASURES
            }
            for method in METHODS
        }
        found[problem] = {"what": what.what, "methods": methods}
    return found


def show(results: dict[str, dict[str, Any]]) -> None:
    """Print means over splits with their errors; the worst of R-hat and effective sample size."""
    table = []
    for problem, found in results.items():
        for method, of in found["methods"].items():
            if of["rmse"]:
                means = [mean_and_error(of[name]) for name in MEASURES[:4]]
                chains = of["r_hat"][0] is not None
                worst = [f"{max(of['r_hat']):.3f}", f"{min(of['ess']):.0f}"] if chains else ["", ""]
                table.append([problem, method, *means, *worst])
    print_table(["problem", "method", *MEASURES], table)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    parser.add_argument("--table", action="store_true", help="print the table, run nothing")
    args = parser.parse_args()
    use_core(args.core)
    if not args.table:
        tasks = [
            (problem, method, split)
            for split in range(args.splits)
            for problem in args.problems
            for method in args.methods
        ]
        ROWS.run(tasks, one, 1)
    results = summarized()
    show(results)
    save("sparse", {"chains": "default"}, results)


if __name__ == "__main__":
    main()
