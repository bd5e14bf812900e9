"""The default sampler on fifteen problems with ten seeds: what a change of the set-up brings.

Run as ``python -m benchmarks.default --label NAME [--problem NAME ...] [--seeds 10] [--core 0]``,
with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core, default settings and priors. Data are
the same for all seeds, which are those of the chains: what differs between seeds is luck.

The label names a version of the code. Runs are kept in ``results/default.json`` by label, problem
and seed; a run that is there is not made again unless ``--again`` is given. ``--compare A B``
prints two labels side by side, without a run. Labels that end in ", paired" have nothing but the
seconds of two versions that ran one after the other on one core. ``--set NAME=VALUE`` gives a
number of the set-up (`EmulatorOptions`) another value; the label is "NAME = VALUE" then, and the
fits to compare with, by the same version of the code, have the label "numbers".
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.model import smooth_kernel
from skgpmcmc.setup import emulated
from skgpmcmc.setup.emulator.options import EmulatorOptions

from .common import (
    SMOOTH,
    data_folder,
    fit_quietly,
    load_binary,
    load_results,
    plain,
    print_table,
    save,
    simulate_ard,
    simulate_binary,
    use_core,
)
from .tuned_svm import first_rows, iris, moons

Data = tuple[np.ndarray, np.ndarray]
#: Effective draws to which seconds are scaled: the default target.
EFFECTIVE = 400.0
MAX_RHAT = 1.01


@dataclass(frozen=True)
class Problem:
    """Data, and an estimator with its defaults, but for a smooth kernel unless settings say so."""

    load: Callable[[], Data]
    estimator: Callable[..., BaseEstimator] = BayesianGPClassifier
    settings: tuple[tuple[str, Any], ...] = ()

    def make(self, seed: int) -> BaseEstimator:
        """Return the unfitted estimator."""
        return self.estimator(
            random_state=seed, n_jobs=1, **{"kernel": SMOOTH} | dict(self.settings)
        )


def wine() -> Data:
    """Two thirds of the wines; the third class against the others."""
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:118]
    return StandardScaler().fit_transform(X[rows]), (y[rows] == 2).astype(int)


def crabs() -> Data:
    """Male satellites of 173 horseshoe crabs."""
    table = np.genfromtxt(data_folder() / "horseshoe_crabs.csv", delimiter=",", skip_header=1)
    return StandardScaler().fit_transform(table[:, :-1]), table[:, -1].astype(int)


def smooth_regression() -> Data:
    """A smooth function of six of twenty features, and noise: 50 rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 20))
    f = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 + X[:, 4] - X[:, 5]
    return X, f + 0.1 * rng.standard_normal(50)


def diabetes() -> Data:
    """Sixty of the patients."""
    X, y = load_diabetes(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:60]
    return StandardScaler().fit_transform(X[rows]), y[rows]


def sixty_patients() -> Data:
    """The patients of the tutorial, with measurements in their own units, as in a new analysis."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X, _, y, _ = train_test_split(X, y, train_size=60, random_state=0)
    return StandardScaler().fit_transform(X), y


def _ard(d: int) -> tuple[tuple[str, Any], ...]:
    """Settings with a length-scale for each of d features."""
    return (("kernel", smooth_kernel(d, ard=True)),)


PROBLEMS: dict[str, Problem] = {
    "moons 50": Problem(moons),
    "cancer 100": Problem(lambda: first_rows("cancer", 100)),
    "cancer 569": Problem(lambda: first_rows("cancer", None)),
    "wine, class 2": Problem(wine),
    "simulated d = 2": Problem(lambda: simulate_binary(200, 2, 2.0, -1.5, 0)),
    "simulated d = 10": Problem(lambda: simulate_binary(200, 10, 2.0, 0.0, 0)),
    "ARD d = 10": Problem(lambda: simulate_ard(0), settings=_ard(10)),
    "Ionosphere ARD": Problem(lambda: load_binary("ionosphere"), settings=_ard(33)),
    "Pima": Problem(lambda: load_binary("pima")),
    "moons 50, logit": Problem(moons, settings=(("likelihood", "logit"),)),
    "crabs, Poisson": Problem(
        crabs, BayesianGPCountRegressor, settings=(("likelihood", "poisson"),)
    ),
    "iris, softmax": Problem(iris, settings=(("multi_class", "softmax"),)),
    "regression ARD d = 20": Problem(smooth_regression, BayesianGPRegressor, settings=_ard(20)),
    "diabetes 60, Student-t": Problem(
        diabetes, BayesianGPRegressor, settings=(("likelihood", "student_t"),)
    ),
    "diabetes 60, default kernel": Problem(
        sixty_patients, BayesianGPRegressor, settings=(("kernel", None),)
    ),
}


@contextmanager
def with_number(change: str | None) -> Iterator[None]:
    """Let set-ups in this process have another value of a number, given as NAME=VALUE."""
    if change is None:
        yield
        return
    name, _, value = change.partition("=")
    kind = type(getattr(EmulatorOptions(), name))
    changed = partial(EmulatorOptions, **{name: kind(float(value))})
    with mock.patch.object(emulated, "EmulatorOptions", changed):
        yield


def longest_stay(theta: np.ndarray) -> int:
    """Most iterations for which a chain of (n_chains, n_draws, p) kept its theta."""
    longest = 0
    for chain in theta:
        moved = np.flatnonzero((np.diff(chain, axis=0) != 0.0).any(axis=1)) + 1
        longest = max(longest, int(np.diff(np.r_[0, moved, len(chain)]).max()))
    return longest


def measure(problem: Problem, seed: int) -> dict[str, Any]:
    """One fit: what its set-up and its draws have cost, and how good the chains are."""
    X, y = problem.load()
    estimator = problem.make(seed)
    _, processor, warned = fit_quietly(estimator, X, y)
    d, theta = estimator.diagnostics_, estimator.theta_samples_
    ess = float(min(d.ess_bulk.min(), d.ess_tail.min()))
    share = processor / (d.seconds_warmup + d.seconds_sampling)
    before, sampling = share * d.seconds_warmup, share * d.seconds_sampling
    return {
        "n_draws": theta.shape[1],
        "min_ess": ess,
        "max_r_hat": float(d.r_hat.max()),
        "longest_stay": longest_stay(theta),
        "n_evaluations_before": d.n_likelihood_evaluations - d.n_sampling_evaluations,
        "n_evaluations": d.n_sampling_evaluations,
        "per_evaluation": ess / d.n_sampling_evaluations,
        "seconds_before": before,
        "seconds": processor,
        "seconds_to_400": before + sampling * EFFECTIVE / ess,
        "warnings": warned,
    }


def summary(runs: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Means over seeds, and the worst of them."""
    each = {key: np.array([run[key] for run in runs.values()], dtype=float) for key in _KEYS}
    seconds = each["seconds_to_400"]
    return {
        "seeds": len(runs),
        "evaluations before": each["n_evaluations_before"].mean(),
        "per evaluation": each["per_evaluation"].mean(),
        "least": each["per_evaluation"].min(),
        "longest stay": each["longest_stay"].max(),
        "worst R-hat": each["max_r_hat"].max(),
        "seconds to 400": seconds.mean(),
        "worst / median": seconds.max() / np.median(seconds),
    }


_KEYS = (
    "n_evaluations_before",
    "per_evaluation",
    "longest_stay",
    "max_r_hat",
    "seconds_to_400",
)


def show(results: dict[str, Any], labels: Sequence[str]) -> None:
    """Print a line for each problem and label, and ratios of seconds to the first label."""
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {label: [] for label in labels}
    for problem in PROBLEMS:
        found = {own: summary(r) for own in labels if (r := results.get(own, {}).get(problem))}
        for label, line in found.items():
            rows.append([problem, label, *(f"{value:.3g}" for value in line.values())])
            if labels[0] in found:
                first = found[labels[0]]["seconds to 400"]
                ratios[label].append(line["seconds to 400"] / first)
    if rows:
        print_table(["problem", "label", *summary_head(results, labels)], rows)
    for label in labels[1:]:
        if ratios[label]:
            mean = np.exp(np.mean(np.log(ratios[label])))
            print(f"seconds to 400, {label} / {labels[0]}, geometric mean: {mean:.3f}")


def summary_head(results: dict[str, Any], labels: Sequence[str]) -> list[str]:
    """Return the names of the columns."""
    runs = next(r for own in labels for r in results.get(own, {}).values())
    return list(summary(runs))


def main() -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--label", default="now")
    parser.add_argument("--problem", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    parser.add_argument("--again", action="store_true", help="make runs that are there again")
    parser.add_argument("--set", nargs="*", metavar="NAME=VALUE", help="each by itself")
    parser.add_argument("--compare", nargs="+", metavar="LABEL", help="only print these labels")
    args = parser.parse_args()
    use_core(args.core)
    results = load_results("default")
    if args.compare:
        show(results, args.compare)
        return
    measure(PROBLEMS["moons 50"], 10**6)  # imports, and a warm processor
    changes: Sequence[str | None] = args.set or [None]
    for change in changes:
        label = args.label if change is None else change.replace("=", " = ")
        mine = results.setdefault(label, {})
        for seed in range(args.seeds):
            for name in args.problem:
                runs = mine.setdefault(name, {})
                if str(seed) not in runs or args.again:
                    with with_number(change):
                        runs[str(seed)] = plain(measure(PROBLEMS[name], seed))
                    save("default", {"effective_draws": EFFECTIVE}, results)
        show(results, ["numbers", label] if change and "numbers" in results else [label])


if __name__ == "__main__":
    main()
