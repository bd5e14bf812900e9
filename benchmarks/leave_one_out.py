"""Leave-one-out without refitting: against fits without each row, and given f instead.

Run as ``python -m benchmarks.leave_one_out [--part refits] [--case probit ...] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. The part "refits" fits every estimator to 30 simulated
rows, and again without each of them, all with the priors of the first fit and with targets as they
are. The part "data" compares the two methods of `loo` on real data, without refits. Results of
cases that are not asked for stay.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)

from .common import (
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
#: Effective draws of the fits without a row, in the worst tail, and of that to all: both leave
#: noise of about 0.05 nats in the sum over the rows, as the first are independent of one another.
TARGET_ESS, TARGET_ESS_OF_ALL = 250.0, 1000.0


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
    "probit": Case(BayesianGPClassifier(), _classes),
    "probit, Laplace": Case(BayesianGPClassifier(approximation="laplace"), _classes),
    "logit": Case(BayesianGPClassifier(likelihood="logit"), _classes),
    "logit, Laplace": Case(
        BayesianGPClassifier(likelihood="logit", approximation="laplace"), _classes
    ),
    "one versus rest": Case(BayesianGPClassifier(), _three),
    "softmax": Case(BayesianGPClassifier(multi_class="softmax"), _three),
    "Gaussian": Case(BayesianGPRegressor(normalize_y=False), _numbers),
    "Student-t": Case(BayesianGPRegressor(normalize_y=False, likelihood="student_t"), _outliers),
    "negative binomial": Case(BayesianGPPoissonRegressor(center=False), _counts),
    "Poisson": Case(BayesianGPPoissonRegressor(center=False, likelihood="poisson"), _counts),
    "ordinal": Case(BayesianGPOrdinalClassifier(), _three),
    "volatility": Case(BayesianGPVolatilityRegressor(center=False), _returns),
}


def simulated(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in a square, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, size=(N_ROWS, 2))
    return X, case.simulate(1.3 * np.sin(1.5 * X[:, 0]) + 0.7 * X[:, 1], rng)


def against_refits(name: str, seed: int, target_ess: float, n_jobs: int) -> dict[str, Any]:
    """Elpd of all rows by both methods, and by fits without each row."""
    case = CASES[name]
    X, y = simulated(case, seed)
    # All draws enter a prediction: a subset is chosen for a smaller error of predictions.
    settings = {"target_ess": target_ess, "n_draws": 10_000, "max_predict_draws": None}
    estimator = clone(case.estimator).set_params(**settings, random_state=seed, n_jobs=1)
    model = clone(estimator).set_params(target_ess=TARGET_ESS_OF_ALL)
    seconds_fit, _, _ = fit_quietly(model, X, y)
    binary = getattr(model, "estimators_", [model])[0]
    estimator.set_params(priors=binary.priors_)
    refitted = np.array(
        joblib.Parallel(n_jobs)(
            joblib.delayed(without_row)(estimator, X, y, i) for i in range(N_ROWS)
        )
    )
    found = {"refits": refitted, "elpd_refits": refitted.sum(), "seconds_fit": seconds_fit}
    for method in ("integrated", "psis"):
        found[method] = measured(model, method)
        found[method]["error"] = found[method]["elpd"] - refitted.sum()
        found[method]["largest_error"] = np.abs(found[method]["elpd_i"] - refitted).max()
    return found


def without_row(estimator: BaseEstimator, X: np.ndarray, y: np.ndarray, row: int) -> float:
    """Log predictive density of a row by a fit to the others."""
    rest = np.delete(np.arange(len(y)), row)
    model = clone(estimator)
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


_ROUGH, _SMOOTH = ConstantKernel() * Matern(nu=1.5), ConstantKernel() * RBF()
DATA: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], BaseEstimator]] = {
    "USPS 3 v 5, Matern": (_usps, BayesianGPClassifier(_ROUGH)),
    "USPS 3 v 5, Matern, marginal": (_usps, BayesianGPClassifier(_ROUGH, sampler="marginal")),
    "USPS 3 v 5, RBF": (_usps, BayesianGPClassifier(_SMOOTH)),
    "USPS 3 v 5, RBF, marginal": (_usps, BayesianGPClassifier(_SMOOTH, sampler="marginal")),
    "Ionosphere": (_ionosphere, BayesianGPClassifier()),
    "horseshoe crabs": (_crabs, BayesianGPPoissonRegressor()),
}


def on_data(name: str, seed: int) -> dict[str, Any]:
    """Return what both methods find on real data."""
    load, estimator = DATA[name]
    X, y = load()
    model = clone(estimator).set_params(random_state=seed, n_jobs=1)
    seconds_fit, _, _ = fit_quietly(model, X, y)
    found = {method: measured(model, method) for method in ("integrated", "psis")}
    return {"n": len(y), "seconds_fit": seconds_fit, **found}


def _print(results: dict[str, Any]) -> None:
    head = ["case", "refits", "integrated", "error", "k > 0.7", "s", "psis", "error", "k > 0.7"]
    rows = []
    for part in ("refits", "data"):
        for name, own in results[part].items():
            a, b = own["integrated"], own["psis"]
            known = "elpd_refits" in own
            cells = [f"{own['elpd_refits']:.2f}" if known else "-", f"{a['elpd']:.2f}"]
            cells += [f"{a['error']:+.2f}" if known else "-", a["n_bad"], f"{a['seconds']:.1f}"]
            cells += [f"{b['elpd']:.2f}", f"{b['error']:+.2f}" if known else "-", b["n_bad"]]
            rows.append([name, *cells])
    print_table(head, rows)


def main() -> None:
    """Run the parts and cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=["refits", "data"], nargs="*", default=["refits", "data"])
    parser.add_argument("--case", nargs="*", help="names of cases; all if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target-ess", type=float, default=TARGET_ESS)
    parser.add_argument("--n-jobs", type=int, default=1, help="fits without a row at a time")
    parser.add_argument("--core", type=int)
    args = parser.parse_args()
    use_core(args.core)
    settings = {"seed": args.seed, "n_rows": N_ROWS, "target_ess": args.target_ess}
    settings["target_ess_of_all"] = TARGET_ESS_OF_ALL
    results = {"refits": {}, "data": {}, **load_results("leave_one_out")}
    known: dict[str, dict[str, Callable[[str], dict[str, Any]]]] = {
        "refits": dict.fromkeys(
            CASES, lambda n: against_refits(n, args.seed, args.target_ess, args.n_jobs)
        ),
        "data": dict.fromkeys(DATA, lambda n: on_data(n, args.seed)),
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
