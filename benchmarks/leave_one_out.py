"""Leave-one-out without refitting: against fits without each row, and given f instead.

Run as ``python -m benchmarks.leave_one_out [--part refits] [--case probit ...] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. The part "fits" fits every estimator to 30 simulated
rows, with several seeds, and "refits" without each of the rows, all with the same priors and with
targets as they are. The part "data" compares the two methods of `loo` on real data, without
refits. Results of cases that are not asked for stay.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)

from .common import (
    SMOOTH,
    data_folder,
    fit_quietly,
    load_binary,
    load_results,
    plain,
    print_table,
    save,
    use_core,
)

N_ROWS = 30
#: Effective draws in the worst tail of the fits without a row, whose errors are independent, and of
#: those to all rows, which have common errors; so there are several of the latter.
TARGET_ESS, TARGET_ESS_OF_ALL, N_FITS = 250.0, 1000.0, 4
MOST_DRAWS = 1500


class Case(NamedTuple):
    """An estimator, and targets simulated for a function f of two inputs."""

    estimator: BaseEstimator
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]


def _classes(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (f + 0.7 * rng.standard_normal(len(f)) > 0.0).astype(int)


def _three(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.digitize(f + 0.5 * rng.standard_normal(len(f)), [-0.8, 0.8])


def _numbers(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return f + 0.4 * rng.standard_normal(len(f))


def _outliers(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return f + 0.3 * rng.standard_t(2.5, len(f))


def _counts(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(np.exp(1.0 + 0.8 * f))


def _returns(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.exp(0.6 * f) * rng.standard_normal(len(f))


CASES: dict[str, Case] = {
    "probit": Case(BayesianGPClassifier(SMOOTH), _classes),
    "probit, Laplace": Case(BayesianGPClassifier(SMOOTH, approximation="laplace"), _classes),
    "logit": Case(BayesianGPClassifier(SMOOTH, likelihood="logit"), _classes),
    "logit, Laplace": Case(
        BayesianGPClassifier(SMOOTH, likelihood="logit", approximation="laplace"), _classes
    ),
    "one versus rest": Case(BayesianGPClassifier(SMOOTH), _three),
    "softmax": Case(BayesianGPClassifier(SMOOTH, multi_class="softmax"), _three),
    "Gaussian": Case(BayesianGPRegressor(SMOOTH, normalize_y=False), _numbers),
    "Student-t": Case(
        BayesianGPRegressor(SMOOTH, normalize_y=False, likelihood="student_t"), _outliers
    ),
    "negative binomial": Case(BayesianGPCountRegressor(SMOOTH, center=False), _counts),
    "Poisson": Case(BayesianGPCountRegressor(SMOOTH, center=False, likelihood="poisson"), _counts),
    "ordinal": Case(BayesianGPOrdinalClassifier(SMOOTH), _three),
    "volatility": Case(BayesianGPVolatilityRegressor(SMOOTH, center=False), _returns),
}


def simulated(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in a square, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(N_ROWS, 2))
    return X, case.simulate(1.3 * np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1], rng)


def prepared(case: Case, seed: int, target_ess: float) -> BaseEstimator:
    """Return the estimator with the settings of all fits, and the default priors of all rows."""
    X, y = simulated(case, 0)
    # All draws enter a prediction: a subset is chosen for a smaller error of predictions.
    settings = {"target_ess": target_ess, "n_draws": MOST_DRAWS, "max_predict_draws": None}
    estimator = clone(case.estimator).set_params(**settings, random_state=seed, n_jobs=1)
    short = clone(estimator).set_params(sampler="aa", n_warmup=1, n_draws=1, target_ess=None)
    if "softmax" in str(estimator.get_params().get("multi_class")):
        short.set_params(sampler="pm")
    fit_quietly(short, X, y)
    return estimator.set_params(priors=getattr(short, "estimators_", [short])[0].priors_)


def refits(name: str, target_ess: float, n_jobs: int) -> dict[str, Any]:
    """Log densities of all rows by fits without each of them."""
    X, y = simulated(CASES[name], 0)
    estimator = prepared(CASES[name], 0, target_ess)
    rows = (joblib.delayed(without_row)(estimator, X, y, i) for i in range(N_ROWS))
    elpd_i = np.array(joblib.Parallel(n_jobs)(rows))
    return {"elpd": elpd_i.sum(), "elpd_i": elpd_i}


def fits(name: str, n_fits: int) -> list[dict[str, Any]]:
    """What both methods find in some fits to all rows."""
    X, y = simulated(CASES[name], 0)
    found = []
    for seed in range(n_fits):
        model = prepared(CASES[name], seed, TARGET_ESS_OF_ALL)
        seconds_fit, _, _ = fit_quietly(model, X, y)
        both = {method: measured(model, method) for method in ("integrated", "psis")}
        found.append({"seconds_fit": seconds_fit, **both})
    return found


def without_row(estimator: BaseEstimator, X: np.ndarray, y: np.ndarray, row: int) -> float:
    """Log predictive density of a row by a fit to the others."""
    rest = np.delete(np.arange(len(y)), row)
    model = clone(estimator).set_params(random_state=1000 + row)  # so that errors are independent
    with threadpool_limits(1):
        fit_quietly(model, X[rest], y[rest])
        return float(model.log_predictive_density(X[[row]], y[[row]])[0])


def measured(model: BaseEstimator, method: str) -> dict[str, Any]:
    """What a method finds, and how long it takes."""
    begin = time.perf_counter()
    result = model.loo(method)
    seconds = time.perf_counter() - begin
    return {
        "elpd": result.elpd,
        "se": result.se,
        "p_loo": result.p_loo,
        "n_bad": int((result.pareto_k > 0.7).sum()),
        "elpd_i": result.elpd_i,
        "pareto_k": result.pareto_k,
        "seconds": seconds,
    }


def _usps() -> tuple[np.ndarray, np.ndarray]:
    with np.load(data_folder() / "usps_3v5.npz") as table:
        X, y = table["X"] / 1000.0, table["target"]
    some = np.random.default_rng(0).permutation(len(y))[:50]
    return X[some], y[some]


def _ionosphere() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_binary("ionosphere")
    some = np.random.default_rng(0).permutation(len(y))[:80]
    return X[some], y[some]


def _crabs() -> tuple[np.ndarray, np.ndarray]:
    table = np.genfromtxt(data_folder() / "horseshoe_crabs.csv", delimiter=",", skip_header=1)
    return StandardScaler().fit_transform(table[:, :-1]), table[:, -1].astype(int)


_ROUGH = ConstantKernel() * Matern(nu=1.5)
DATA: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], BaseEstimator]] = {
    "USPS 3 v 5, Matern": (_usps, BayesianGPClassifier(_ROUGH)),
    "USPS 3 v 5, Matern, marginal": (_usps, BayesianGPClassifier(_ROUGH, sampler="marginal")),
    "USPS 3 v 5, RBF": (_usps, BayesianGPClassifier(SMOOTH)),
    "USPS 3 v 5, RBF, marginal": (_usps, BayesianGPClassifier(SMOOTH, sampler="marginal")),
    "Ionosphere": (_ionosphere, BayesianGPClassifier(SMOOTH)),
    "horseshoe crabs": (_crabs, BayesianGPCountRegressor(SMOOTH)),
}


def on_data(name: str) -> dict[str, Any]:
    """Return what both methods find on real data."""
    load, estimator = DATA[name]
    X, y = load()
    model = clone(estimator).set_params(random_state=0, n_jobs=1)
    seconds_fit, _, _ = fit_quietly(model, X, y)
    found = {method: measured(model, method) for method in ("integrated", "psis")}
    return {"n": len(y), "seconds_fit": seconds_fit, **found}


def _print(results: dict[str, Any]) -> None:
    head = ["case", "refits", "integrated", "sd", "error", "k > 0.7", "s"]
    head += ["psis", "sd", "error", "k > 0.7", "s"]
    rows = []
    for name, found in results["fits"].items():
        exact = results["refits"].get(name, {}).get("elpd", np.nan)
        rows.append([name, f"{exact:.2f}"])
        for method in ("integrated", "psis"):
            each = np.array([own[method]["elpd"] for own in found])
            bad, seconds = (
                np.median([own[method][key] for own in found]) for key in ("n_bad", "seconds")
            )
            numbers = f"{each.mean():.2f}", f"{each.std():.2f}", f"{each.mean() - exact:+.2f}"
            rows[-1] += [*numbers, f"{bad:.0f}", f"{seconds:.1f}"]
    for name, own in results["data"].items():
        rows.append([name, "-"])
        for method in ("integrated", "psis"):
            m = own[method]
            rows[-1] += [f"{m['elpd']:.2f}", "-", "-", m["n_bad"], f"{m['seconds']:.1f}"]
    print_table(head, rows)


def main() -> None:
    """Run the parts and cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ("fits", "refits", "data")
    parser.add_argument("--part", choices=parts, nargs="*", default=parts)
    parser.add_argument("--case", nargs="*", help="names of cases; all if left out")
    parser.add_argument("--target-ess", type=float, default=TARGET_ESS)
    parser.add_argument("--n-jobs", type=int, default=1, help="fits without a row at a time")
    parser.add_argument("--core", type=int)
    args = parser.parse_args()
    use_core(args.core)
    settings = {"n_rows": N_ROWS, "target_ess": args.target_ess, "n_fits": N_FITS}
    settings |= {"target_ess_of_all": TARGET_ESS_OF_ALL, "n_draws": MOST_DRAWS}
    results = {**{part: {} for part in parts}, **load_results("leave_one_out")}
    known: dict[str, dict[str, Callable[[str], Any]]] = {
        "fits": dict.fromkeys(CASES, lambda name: fits(name, N_FITS)),
        "refits": dict.fromkeys(CASES, lambda name: refits(name, args.target_ess, args.n_jobs)),
        "data": dict.fromkeys(DATA, on_data),
    }
    with threadpool_limits(1):
        for part in args.part:
            for name, measure in known[part].items():
                if args.case is None or name in args.case:
                    results[part][name] = plain(measure(name))
                    save("leave_one_out", settings, results)
    _print(results)


if __name__ == "__main__":
    main()
