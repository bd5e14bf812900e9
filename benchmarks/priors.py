"""Which priors of the hyper-parameters predict best: the study behind the defaults.

Run as ``python -m benchmarks.priors [--problems ripley-50 ...] [--candidates ...] [--splits 10]
[--jobs 2]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``; ``--table`` prints the tables, and
``--picture`` draws functions from the priors. Every fit is one row of ``results/priors.csv``; those
that are there are not made again, so that the study can be stopped and continued.

Data are those of scikit-learn and of the papers, apart from the sets that other benchmarks test on,
and draws of functions of known smoothness. Features are standardized on the training rows. A split
has its own training rows (of simulated data: its own function), the same for all candidates.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from scipy import optimize, stats
from scipy.signal import savgol_filter
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import log_loss
from threadpoolctl import threadpool_limits

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
)
from skgpmcmc.baselines import EPMLClassifier, svm_platt_classifier
from skgpmcmc.likelihoods import Probit
from skgpmcmc.metrics import capacity_accuracy_score
from skgpmcmc.model import default_hyperprior, length_bounds, make_covariance, smooth_kernel

from .common import RESULTS, print_table, save
from .prior_problems import MANY_CLASSES, PROBLEMS, Problem, Sample, draw_function, standardized
from .rows import Rows

QUICK = {"n_chains": 4, "n_draws": 150, "target_ess": None, "n_jobs": 1}
GRID = np.linspace(-3.0, 3.0, 201)  # of standardized inputs with one column

# --- candidates -----------------------------------------------------------------------------------


def half_normal_sd(scale: float) -> Any:
    """Law of a variance whose root is half-normal."""
    return stats.gamma(0.5, scale=2.0 * scale**2)


def half_cauchy_sd(scale: float) -> Any:
    """Law of a variance whose root is half-Cauchy; Gelman (2006)."""
    return stats.betaprime(0.5, 0.5, scale=scale**2)


def exponential_sd(upper: float, tail: float) -> Any:
    """Law of a variance whose root is exponential, P(sd > upper) = tail; Fuglstad et al. (2019)."""
    return stats.weibull_min(0.5, scale=(upper / -np.log(tail)) ** 2)


def inverse_gamma_between(low: float, high: float, tail: float = 0.01) -> Any:
    """Inverse gamma with a share of `tail` below `low` and above `high`, as in Stan's guide."""

    def excess(log_shape: float) -> float:
        law = stats.invgamma(np.exp(log_shape))
        return float(np.log(law.ppf(1.0 - tail) / law.ppf(tail)) - np.log(high / low))

    shape = float(np.exp(optimize.brentq(excess, -1.5, 12.0)))
    return stats.invgamma(shape, scale=low / stats.invgamma(shape).ppf(tail))


def lognormal_between(X: np.ndarray, of_low: float, tail: float) -> Any:
    """The default's law with a multiple of its lower end, and a share of `tail` beyond each end."""
    low, high = length_bounds(X)
    low *= of_low
    log_sd = np.log(high / low) / (-2.0 * stats.norm.ppf(tail))
    return stats.lognorm(log_sd, scale=np.sqrt(low * high))


def spacing_and_width(X: np.ndarray) -> tuple[float, float]:
    """Smallest and largest distance of two different rows; Betancourt (2017)."""
    distances = pdist(X)
    return float(distances[distances > 0.0].min()), float(distances.max())


def penalized_range(X: np.ndarray) -> Any:
    """Range whose power -d/2, of d = 1 or 2, is exponential, 1 % below a tenth of `root`."""
    shape = 0.5 * min(X.shape[1], 2)
    return stats.invweibull(shape, scale=0.1 * root(X) / stats.invweibull(shape).ppf(0.01))


def root(X: np.ndarray) -> float:
    """Root of the number of features: the order of the distance of two rows."""
    return float(np.sqrt(X.shape[1]))


Law = Callable[[np.ndarray], Any]  # of a length-scale, given the training inputs


@dataclasses.dataclass(frozen=True)
class Candidate:
    """What differs from the defaults; None is the default's."""

    variance: Any = None
    length: Law | None = None
    noise: Any = None
    shape: Any = None
    kernel: Any = None

    def configure(self, model: BaseEstimator, X: np.ndarray) -> None:
        """Give a model the priors, and the kernel if that is what differs."""
        laws = {"k1__constant_value": self.variance, "k2__length_scale": self.length}
        laws["k2__length_scale"] = self.length and self.length(X)
        if isinstance(model, BayesianGPRegressor):
            laws["noise_scale"] = self.noise
        if getattr(model, "likelihood", None) == "negative_binomial":
            laws["shape"] = self.shape
        model.set_params(priors={name: law for name, law in laws.items() if law is not None})
        if self.kernel is not None:
            model.set_params(kernel=self.kernel)


class _Papers(Candidate):
    def configure(self, model: BaseEstimator, X: np.ndarray) -> None:
        model.set_params(priors="paper")


#: Every candidate but the first two differs from the default in what its name says.
CANDIDATES: dict[str, Candidate] = {
    "default": Candidate(),
    "paper": _Papers(),
    "length: Stan": Candidate(length=lambda X: inverse_gamma_between(*spacing_and_width(X))),
    "length: inverse gamma": Candidate(length=lambda X: stats.invgamma(3.0, scale=3.0 * root(X))),
    "length: neighbors, inverse gamma": Candidate(
        length=lambda X: inverse_gamma_between(*length_bounds(X))
    ),
    "length: shorter": Candidate(length=lambda X: lognormal_between(X, 0.5, 0.01)),
    "length: wider": Candidate(length=lambda X: lognormal_between(X, 1.0, 0.05)),
    "length: of papers": Candidate(length=lambda X: stats.gamma(1.0, scale=root(X))),
    "length: Hvarfner": Candidate(
        length=lambda X: stats.lognorm(np.sqrt(3.0), scale=np.exp(np.sqrt(2.0)) * root(X))
    ),
    "length: penalized": Candidate(length=penalized_range),
    "sd: gamma of papers": Candidate(variance=stats.gamma(1.1, scale=10.0)),
    "sd: wider log-normal": Candidate(variance=stats.lognorm(3.0, scale=4.0)),
    "sd: larger log-normal": Candidate(variance=stats.lognorm(3.0, scale=10.0)),
    "sd: half-normal": Candidate(variance=half_normal_sd(5.0)),
    "sd: larger half-normal": Candidate(variance=half_normal_sd(20.0)),
    "sd: half-Cauchy": Candidate(variance=half_cauchy_sd(3.0)),
    "sd: penalized": Candidate(variance=exponential_sd(10.0, 0.01)),
    "noise: narrower": Candidate(noise=stats.lognorm(1.0, scale=0.3)),
    "noise: of papers": Candidate(noise=stats.lognorm(1.0)),
    "noise: half-normal": Candidate(noise=stats.halfnorm()),
    "dispersion: of papers": Candidate(shape=stats.lognorm(1.0)),
    "dispersion: wider": Candidate(shape=stats.lognorm(3.0, scale=10.0)),
    "kernel: Matern 5/2": Candidate(kernel=ConstantKernel() * Matern(nu=2.5)),
}
# --- one fit --------------------------------------------------------------------------------------

MEASURES = ("loss", "coverage", "covered_function", "capacity", "deviance", "roughness")
ROWS = Rows(
    RESULTS / "priors.csv",
    key=("problem", "candidate", "split"),
    columns=(*MEASURES, "r_hat", "per_evaluation", "seconds", "failed"),
    words=("problem", "candidate", "failed"),
    whole=("split",),
)


def measure(model: BaseEstimator, data: Sample) -> dict[str, float]:
    """How well a fitted model predicts the test rows."""
    found: dict[str, float] = {}
    if is_classifier(model):
        proba = model.predict_proba(data.X_test)
        if isinstance(model, BayesianGPOrdinalClassifier):  # a class may be missing in training
            known = np.isin(data.y_test, model.classes_)
            column = np.searchsorted(model.classes_, data.y_test[known])
            chosen = proba[known][np.arange(known.sum()), column]
            found["loss"] = float(-np.log(np.maximum(chosen, 1e-15)).mean())
        else:
            found["loss"] = log_loss(data.y_test, proba, labels=model.classes_)
            if len(model.classes_) == 2:
                found["capacity"] = capacity_accuracy_score(
                    data.y_test == model.classes_[1], proba[:, 1]
                )
    elif isinstance(model, BayesianGPRegressor):
        found["loss"] = float(-model.log_predictive_density(data.X_test, data.y_test).mean())
        low, high = model.predict(data.X_test, return_quantiles=[0.05, 0.95])[1]
        found["coverage"] = float(((low <= data.y_test) & (data.y_test <= high)).mean())
    else:
        found["loss"] = float(-model.log_predictive_density(data.X_test, data.y_test).mean())
        found["deviance"] = deviance(data.y_test, model.predict(data.X_test))
    if data.f_test is not None and isinstance(model, BayesianGPRegressor | BayesianGPClassifier):
        draws = model.sample_latent(data.X_test, n_draws=400, random_state=0)
        low, high = np.quantile(draws, [0.05, 0.95], axis=1)
        found["covered_function"] = float(((low <= data.f_test) & (data.f_test <= high)).mean())
    if data.X.shape[1] == 1:
        found["roughness"] = roughness(model.latent_mean_and_variance(GRID[:, None])[0])
    return found


def deviance(y: np.ndarray, mean: np.ndarray) -> float:
    """Mean Poisson deviance."""
    ratio = np.where(y > 0.0, y, mean) / mean
    return float(2.0 * np.mean(y * np.log(ratio) - y + mean))


def roughness(curve: np.ndarray) -> float:
    """Root mean square of a curve minus its moving quadratic over seven points."""
    return float(np.sqrt(np.mean((curve - savgol_filter(curve, 7, 2)) ** 2)))


def fit_candidate(
    problem: Problem, candidate: Candidate, data: Sample, seed: int
) -> dict[str, Any]:
    """Fit with the priors of a candidate, and measure."""
    model = problem.estimator(**QUICK, random_state=seed)
    candidate.configure(model, data.X)
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
        seconds = time.process_time() - clock
        found = measure(model, data)
    of = model.diagnostics_
    ess = min(np.min(of.ess_bulk), np.min(of.ess_tail))
    n_models = max(1, len(of.emulators))
    return {
        **found,
        "seconds": seconds,
        "r_hat": float(np.max(of.r_hat)),
        "per_evaluation": float(ess * n_models / of.n_sampling_evaluations),
    }


class _Mean(BaseEstimator):
    """Predicts the mean of the training counts."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> _Mean:
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.mean_)


def _maximum_likelihood_regression(X: np.ndarray) -> BaseEstimator:
    kernel = ConstantKernel() * RBF(root(X)) + WhiteKernel()
    return GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2)


PEERS: dict[str, tuple[type, Callable[[np.ndarray], BaseEstimator]]] = {
    "EP ML": (BayesianGPClassifier, lambda X: EPMLClassifier()),
    "scikit-learn GPC": (
        BayesianGPClassifier,
        lambda X: GaussianProcessClassifier(ConstantKernel() * RBF(root(X))),
    ),
    "SVM": (BayesianGPClassifier, lambda X: svm_platt_classifier(random_state=0)),
    "scikit-learn GPR": (BayesianGPRegressor, _maximum_likelihood_regression),
    "mean": (BayesianGPCountRegressor, lambda X: _Mean()),
    "linear Poisson": (BayesianGPCountRegressor, lambda X: PoissonRegressor(alpha=1e-3)),
}


def fit_peer(
    make: Callable[[np.ndarray], BaseEstimator], data: Sample, seed: int
) -> dict[str, Any]:
    """Fit a method without priors, and measure what it can."""
    model = make(data.X)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    clock = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y)
        seconds = time.process_time() - clock
    if is_classifier(model):
        found = measure(model, dataclasses.replace(data, X=np.empty((0, 0))))
    elif isinstance(model, GaussianProcessRegressor):
        mean, sd = model.predict(data.X_test, return_std=True)
        inside = np.abs(data.y_test - mean) <= stats.norm.ppf(0.95) * sd
        found = {
            "loss": float(-stats.norm.logpdf(data.y_test, mean, sd).mean()),
            "coverage": float(inside.mean()),
        }
    else:
        mean = np.maximum(model.predict(data.X_test), 1e-9)
        found = {
            "loss": float(-stats.poisson.logpmf(data.y_test, mean).mean()),
            "deviance": deviance(data.y_test, mean),
        }
    return {**found, "seconds": seconds}


def one(problem: str, candidate: str, split: int) -> dict[str, Any]:
    """One row of the file, but for its key."""
    what = PROBLEMS[problem]
    data = standardized(what.load(what.n, split))
    with threadpool_limits(1):
        try:
            if candidate in PEERS:
                return fit_peer(PEERS[candidate][1], data, split)
            return fit_candidate(what, CANDIDATES[candidate], data, split)
        except (RuntimeError, ValueError) as error:
            return {"failed": str(error)[:80]}


def methods(problem: str, candidates: Iterable[str]) -> list[str]:
    """Candidates and the peers that can be tried on a problem."""
    model = PROBLEMS[problem].estimator()
    dispersed = getattr(model, "likelihood", None) == "negative_binomial"
    silent = {"noise": not isinstance(model, BayesianGPRegressor), "dispersion": not dispersed}
    peers = [name for name, (of, _) in PEERS.items() if type(model) is of]
    if problem.split("-")[0] in MANY_CLASSES:
        peers.remove("EP ML")
    return [*(name for name in candidates if not silent.get(name.split(":")[0])), *peers]


# --- the table ------------------------------------------------------------------------------------


def summarize(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, Any]]]:
    """By problem and method: means over splits, and the loss compared with the defaults'."""
    of: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        of.setdefault(row["problem"], {}).setdefault(row["candidate"], []).append(row)
    return {
        problem: {
            name: _summary(fits, of_problem.get("default", []))
            for name, fits in sorted(of_problem.items())
        }
        for problem, of_problem in sorted(of.items())
    }


def _summary(fits: list[Mapping[str, Any]], defaults: list[Mapping[str, Any]]) -> dict[str, Any]:
    base = {row["split"]: row["loss"] for row in defaults}
    gap = np.array([row["loss"] - base.get(row["split"], np.nan) for row in fits])
    gap = gap[np.isfinite(gap)]
    measures = {name: _average([row[name] for row in fits]) for name in MEASURES}
    r_hat = np.array([row["r_hat"] for row in fits])
    return {
        "splits": len(fits),
        "failed": sum(bool(row["failed"]) for row in fits),
        **{name: value for name, value in measures.items() if value is not None},
        "difference": _average(gap),
        "error": float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else None,
        "not_converged": float(np.mean(r_hat > 1.01)) if np.isfinite(r_hat).all() else None,
        "per_evaluation": _average([row["per_evaluation"] for row in fits]),
        "seconds": _average([row["seconds"] for row in fits]),
    }


def _average(values: Iterable[float]) -> float | None:
    each = np.asarray([value for value in values if np.isfinite(value)])
    return float(each.mean()) if len(each) else None


def show(results: dict[str, dict[str, dict[str, Any]]], measure: str) -> None:
    """Print a measure, one row per problem."""
    names = list(dict.fromkeys(name for of in results.values() for name in of))
    body = []
    for problem, of in results.items():
        cells = [of.get(name, {}).get(measure) for name in names]
        if any(cell is not None for cell in cells):
            body.append([problem, *("" if cell is None else f"{cell:.3f}" for cell in cells)])
    print(f"\n{measure}")
    print_table(["problem", *names], body)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="first split")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--picture", action="store_true", help="draw from priors, run nothing")
    parser.add_argument("--table", action="store_true", help="print the tables, run nothing")
    args = parser.parse_args()
    if args.picture:
        draw_picture()
        return
    if not args.table:
        tasks = [
            (problem, method, split)
            for split in range(args.first, args.splits)
            for problem in args.problems
            for method in methods(problem, args.candidates)
        ]
        ROWS.run(tasks, one, args.jobs)
    results = summarize(ROWS.read())
    for name in (*MEASURES, "difference", "error", "not_converged", "per_evaluation", "seconds"):
        show(results, name)
    save("priors", QUICK, results)


def draw_picture() -> None:
    """Functions drawn from the papers' priors, and from the defaults, given 20 and 100 inputs."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(9, 5.5), sharex=True, layout="constrained")
    for row, n in zip(axes, (20, 100), strict=True):
        X = np.random.default_rng(0).standard_normal((n, 1))
        covariance = make_covariance(smooth_kernel(1), X)
        for ax, given, title in zip(
            row, ("paper", None), ("papers' priors", "defaults"), strict=True
        ):
            laws = default_hyperprior(covariance, Probit(), given).distributions
            rng = np.random.default_rng(1)
            for _ in range(8):
                variance, length = (
                    laws[name].rvs(random_state=rng)
                    for name in ("k1__constant_value", "k2__length_scale")
                )
                f = draw_function(variance * RBF(length), GRID[:, None], rng)
                ax.plot(GRID, f, linewidth=1.0)
            ax.plot(X[:, 0], np.full(n, -7.5), "k|")
            ax.set(title=f"{title}, n = {n}", ylim=(-8.0, 8.0))
    fig.supylabel("f")
    fig.supxlabel("x (ticks: training inputs)")
    fig.savefig(RESULTS / "priors.png", dpi=110)


if __name__ == "__main__":
    main()
