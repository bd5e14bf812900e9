"""Simulation-based calibration of every estimator with its default sampler.

Run as ``python -m benchmarks.sbc [--case poisson] [--replicates 200] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Results of other cases that ``results/sbc.json`` has
already stay there; ``--draw`` only draws them anew.

(theta, f, y) are drawn from the model at 30 fixed inputs; the estimator sees y, and the truth is
ranked among its draws. Priors are the user's own, stated in `CASES`: the defaults are so wide that
many data sets drawn from them hold one class, no count, or counts beyond all use. Options that look
at y before the model does (`center`, `normalize_y`) are off, as the model that simulates cannot
know what they will do.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.likelihoods import (
    Gaussian,
    Likelihood,
    NegativeBinomial,
    OrdinalProbit,
    Poisson,
    Probit,
    StudentT,
    Volatility,
)
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.testing import (
    CalibrationReport,
    rank_p_value,
    simulate_joint,
    simulation_based_calibration,
)

from .common import RESULTS, SMOOTH, load_results, save, use_core

N_REPLICATES = 200
N_ROWS, N_COLUMNS = 30, 2
N_KEPT = 63  # 64 ranks
SEED = 2018

SCHEDULE = {"n_chains": 2, "n_draws": 150, "target_ess": None, "max_predict_draws": 1, "n_jobs": 1}
#: Chains are continued until every hyper-parameter has twice the draws that are kept.
LEAST_ESS = 2.0 * N_KEPT
MOST_DRAWS = 9600

N_BARS = 16
BAND = (0.025, 0.975)


def several_classes(y: np.ndarray) -> bool:
    """Whether a classifier has anything to learn: it refuses targets of one class."""
    return len(np.unique(y)) > 1


@dataclass(frozen=True)
class Case:
    """One estimator, and the model that it should know.

    Attributes
    ----------
    title : str
        What figures and tables call it.
    estimator : object
        With its default sampler.
    likelihood : Likelihood
        As the estimator makes it; its parameters are drawn from their priors.
    variance : float
        Median of the prior of the variance of f, log-normal with sd 0.7 of the log.
    priors : mapping of str to distribution
        Of the parameters of the likelihood.
    accept : callable or None
        Which targets the estimator takes.
    """

    title: str
    estimator: Any
    likelihood: Likelihood
    variance: float
    priors: Mapping[str, Any] = field(default_factory=dict)
    accept: Callable[[np.ndarray], bool] | None = None

    @property
    def all_priors(self) -> dict[str, Any]:
        """Priors of kernel and likelihood."""
        return {
            "k1__constant_value": stats.lognorm(0.7, scale=self.variance),
            "k2__length_scale": stats.lognorm(0.6),
            **self.priors,
        }


_NOISE = {"noise_scale": stats.lognorm(0.5, scale=0.4)}

CASES: dict[str, Case] = {
    "classifier": Case(
        "classifier, probit",
        BayesianGPClassifier(SMOOTH),
        Probit(),
        variance=3.0,
        accept=several_classes,
    ),
    "regressor": Case(
        "regressor, collapsed",
        BayesianGPRegressor(SMOOTH, normalize_y=False),
        Gaussian(0.3),
        variance=1.0,
        priors=_NOISE,
    ),
    "student_t": Case(
        "regressor, Student t",
        BayesianGPRegressor(SMOOTH, likelihood="student_t", normalize_y=False),
        StudentT(),
        variance=1.0,
        priors=_NOISE,
    ),
    "poisson": Case(
        "counts, Poisson",
        BayesianGPCountRegressor(SMOOTH, likelihood="poisson", center=False),
        Poisson(),
        variance=1.0,
    ),
    "negative_binomial": Case(
        "counts, negative binomial",
        BayesianGPCountRegressor(SMOOTH, likelihood="negative_binomial", center=False),
        NegativeBinomial(),
        variance=1.0,
        priors={"shape": stats.lognorm(0.6, scale=2.0)},
    ),
    "ordinal": Case(
        "ordered classes",
        BayesianGPOrdinalClassifier(SMOOTH, class_order=[0.0, 1.0, 2.0]),
        OrdinalProbit((-0.7, 0.7)),
        variance=3.0,
        priors={"threshold": stats.norm(-0.7, 0.7), "threshold_gap": stats.lognorm(0.5, scale=1.3)},
        accept=several_classes,
    ),
    "volatility": Case(
        "volatility",
        BayesianGPVolatilityRegressor(SMOOTH, center=False),
        Volatility(),
        variance=1.0,
    ),
}


def model_of(case: Case) -> LatentGP:
    """The joint model of a case; its targets are drawn anew in every replicate."""
    X = np.random.default_rng(SEED).uniform(-1.5, 1.5, size=(N_ROWS, N_COLUMNS))
    covariance = make_covariance(smooth_kernel(N_COLUMNS), X)
    hyperprior = default_hyperprior(covariance, case.likelihood, case.all_priors)
    return LatentGP(covariance, Observations(case.likelihood, np.zeros(N_ROWS)), hyperprior)


def posterior_draws(
    case: Case, model: LatentGP, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of (theta, f) by the estimator, with chains that are long enough."""
    X = model.covariance.X
    estimator = clone(case.estimator)
    estimator.set_params(
        priors=case.all_priors, random_state=int(rng.integers(2**31)), warm_start=True, **SCHEDULE
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(X, model.y)
        while estimator.diagnostics_.ess_bulk.min() < LEAST_ESS and estimator.n_draws < MOST_DRAWS:
            estimator.set_params(n_draws=2 * estimator.n_draws).fit(X, model.y)
    return estimator.theta_samples_, estimator.latent_samples_


def calibrate(name: str, n_replicates: int = N_REPLICATES, seed: int = SEED) -> CalibrationReport:
    """Simulation-based calibration of one case."""
    case = CASES[name]
    return simulation_based_calibration(
        model_of(case),
        lambda model, rng: posterior_draws(case, model, rng),
        n_replicates=n_replicates,
        n_kept=N_KEPT,
        # A stream of its own for every case, whichever others are run.
        rng=np.random.default_rng([seed, *name.encode()]),
        accept=case.accept,
    )


# --- what the test notices ------------------------------------------------------------------------


def power(scale: float, shift: float, n_replicates: int = N_REPLICATES, n_runs: int = 200) -> float:
    """Share of runs with p < 0.05 if draws are N(shift, scale^2) where N(0, 1) is right."""
    rng = np.random.default_rng(SEED)
    truth = rng.standard_normal((n_runs, n_replicates))
    ranks = rng.binomial(N_KEPT, stats.norm.cdf((truth - shift) / scale))
    return float(np.mean([rank_p_value(row, N_KEPT) < 0.05 for row in ranks]))


def power_table() -> list[dict[str, float]]:
    """Power of one statistic for draws that are too narrow, too wide or shifted."""
    wrong = [(1.0, 0.0), (0.8, 0.0), (0.7, 0.0), (1.25, 0.0), (1.0, 0.2), (1.0, 0.3)]
    return [{"scale": a, "shift": b, "power": power(a, b)} for a, b in wrong]


# --- the figure -----------------------------------------------------------------------------------


def draw(cases: Mapping[str, Any], path: Path) -> None:
    """Rank histograms: one row per estimator, with the band that holds 95 % of the bars."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [name for name in CASES if name in cases]
    n_panels = max(len(cases[name]["ranks"]) for name in shown)
    figure, axes = plt.subplots(
        len(shown), n_panels, figsize=(1.9 * n_panels, 1.5 * len(shown)), squeeze=False
    )
    for row, name in zip(axes, shown, strict=True):
        for axis in row:
            axis.set_axis_off()
        for axis, (statistic, ranks) in zip(row, cases[name]["ranks"].items(), strict=False):
            p_value = cases[name]["p_values"][statistic]
            _histogram(axis, np.array(ranks), f"{statistic}\np = {p_value:.2g}")
        row[0].set_ylabel(cases[name]["title"].replace(", ", ",\n"), fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"drew {path.name}")


def _histogram(axis: Any, ranks: np.ndarray, title: str) -> None:
    counts = np.bincount(ranks * N_BARS // (N_KEPT + 1), minlength=N_BARS)
    low, high = stats.binom.ppf(BAND, len(ranks), 1.0 / N_BARS)
    axis.set_axis_on()
    axis.axhspan(low - 0.5, high + 0.5, color="0.85", lw=0)
    axis.axhline(len(ranks) / N_BARS, color="0.6", lw=0.8)
    axis.bar(np.arange(N_BARS), counts, width=0.9, color="C0")
    axis.set(xticks=[], yticks=[], ylim=(0, 2.6 * len(ranks) / N_BARS))
    axis.set_title(title, fontsize=7)


def measure(name: str, n_replicates: int) -> dict[str, Any]:
    """Calibration of one case as JSON holds it."""
    case = CASES[name]
    clock = time.process_time()
    report = calibrate(name, n_replicates)
    seconds = time.process_time() - clock
    print(f"{name}, {seconds:.0f} s of the processor: {report}", flush=True)
    return {
        "title": case.title,
        "n_replicates": n_replicates,
        "n_kept": N_KEPT,
        "processor_seconds": seconds,
        **_simulated_targets(case),
        "p_value": report.p_value,
        "p_values": report.p_values,
        "least_ess": {statistic: ess.min() for statistic, ess in report.ess.items()},
        "ranks": report.ranks,
    }


def _simulated_targets(case: Case, size: int = 1000) -> dict[str, Any]:
    """What the targets of a case are like, and which share of data sets its estimator takes."""
    y = simulate_joint(model_of(case), size, np.random.default_rng(SEED)).y
    taken = 1.0 if case.accept is None else np.mean([case.accept(row) for row in y])
    return {"accepted": taken, "targets_at_1_50_99_percent": np.quantile(y, [0.01, 0.5, 0.99])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=["all", *CASES], default="all")
    parser.add_argument("--replicates", type=int, default=N_REPLICATES)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    parser.add_argument("--draw", action="store_true", help="draw the results that are there")
    args = parser.parse_args()
    use_core(args.core)
    if not args.draw:
        settings = {"n": N_ROWS, "d": N_COLUMNS, "seed": SEED, **SCHEDULE}
        for name in CASES if args.case == "all" else [args.case]:
            measured = measure(name, args.replicates)
            results = load_results("sbc") or {"cases": {}, "power": power_table()}
            results["cases"][name] = measured
            save("sbc", settings, results)
    draw(load_results("sbc")["cases"], RESULTS / "sbc.png")


if __name__ == "__main__":
    main()
