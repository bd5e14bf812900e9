"""What an effective draw costs: evaluations, O(n^3) operations and seconds, beside the peers.

Run as ``python -m benchmarks.sampling --case NAME|all [--seeds 5] [--reference] [--papers] [--nuts]
[--sklearn] [--core 0]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core: chains run
one after the other, on one BLAS thread.

For simulated data a seed is that of the data and of the chains, for real data of the chains alone.
"Effective draws" are the least bulk or tail effective sample size over hyper-parameters. An
evaluation is every p-hat computed in the sampling phase; set-up and warm-up are apart. Priors are
the papers', unless ``--default-priors`` asks for those of the package. Everything
goes into ``results/sampling_NAME.json``; what an earlier run left there stays unless this run
measures it again.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.model import smooth_kernel
from skgpmcmc.run import Diagnostics
from skgpmcmc.samplers import Ancillary, PseudoMarginal, Sampler, Surrogate

from . import quadrature
from .common import (
    CASES,
    FEWEST_EFFECTIVE,
    Case,
    fit_quietly,
    load_results,
    min_ess,
    plain,
    print_table,
    save,
    use_core,
)
from .nuts import make_model, run_nuts

EFFECTIVE = 1000.0
MAX_RHAT = 1.01
#: Least bulk and tail effective sample size of a comparison with quadrature.
ENOUGH_TO_COMPARE = 1000.0
#: What isotropic chains are run to: at 1000, chance alone moves a 5 % quantile by 0.07 sd.
GOOD_TO_COMPARE = 3000.0


@dataclasses.dataclass(frozen=True)
class Scheme:
    """One of the papers' samplers; `longer` is how many times longer its chains are."""

    sampler: Sampler
    approximation: str | None
    longer: int = 1


#: The papers' own schemes. Iterations of AA and SURR are cheap, and it takes many of them.
PAPERS = {
    "PM EP": Scheme(PseudoMarginal(moves="random_walk"), "ep"),
    "PM LA": Scheme(PseudoMarginal(moves="random_walk"), "laplace"),
    "AA": Scheme(Ancillary(), None, longer=10),
    "SURR": Scheme(Surrogate(), None, longer=10),
}


# --- our sampler, and the papers' -----------------------------------------------------------------


def measure(
    estimator: BaseEstimator, seconds: float, processor: float, warned: Sequence[str]
) -> dict[str, Any]:
    """Cost and convergence of a fitted estimator."""
    d: Diagnostics = estimator.diagnostics_
    theta = estimator.theta_samples_
    ess = float(min(d.ess_bulk.min(), d.ess_tail.min()))
    r_hat = float(d.r_hat.max())
    scaled = d.seconds_sampling * EFFECTIVE / ess if ess > 0.0 else np.inf
    return {
        "n_chains": theta.shape[0],
        "n_draws": theta.shape[1],
        "hyperparameters": estimator.hyperparameter_names_,
        "posterior_mean_log": theta.mean(axis=(0, 1)),
        "posterior_sd_log": theta.reshape(-1, theta.shape[2]).std(axis=0, ddof=1),
        "r_hat": d.r_hat,
        "ess_bulk": d.ess_bulk,
        "ess_tail": d.ess_tail,
        "max_r_hat": r_hat,
        "min_ess": ess,
        "converged": r_hat <= MAX_RHAT and ess >= FEWEST_EFFECTIVE,
        "n_evaluations": d.n_sampling_evaluations,
        "n_operations": d.sampling_operations.total,
        "n_operations_before": d.operations.total - d.sampling_operations.total,
        "n_evaluations_before": d.n_likelihood_evaluations - d.n_sampling_evaluations,
        "operations_per_evaluation": d.sampling_operations.total / d.n_sampling_evaluations,
        "per_evaluation": ess / d.n_sampling_evaluations,
        "per_operation": ess / d.sampling_operations.total,
        "ms_per_evaluation": 1e3 * d.seconds_sampling / d.n_sampling_evaluations,
        "seconds_before": d.seconds_warmup,
        "seconds_sampling": d.seconds_sampling,
        "seconds_total": seconds,
        "seconds_processor": processor,
        "seconds_to_1000": d.seconds_warmup + scaled,
        "log_likelihood_sd": d.log_likelihood_sd,
        "acceptance_rate": d.acceptance_rate,
        "n_failed": d.n_failed,
        "emulator": dataclasses.asdict(d.emulators[0]) if d.emulators else None,
        "warnings": warned,
    }


def run_ours(
    case: Case, X: np.ndarray, y: np.ndarray, seed: int, args: argparse.Namespace
) -> tuple[dict[str, Any], BayesianGPClassifier]:
    """Fit with the defaults; the chains go on until they can be compared with quadrature."""
    classifier = BayesianGPClassifier(
        smooth_kernel(X.shape[1], ard=case.ard),
        priors=args.priors,
        n_draws=args.n_draws,
        target_ess=None,
        random_state=seed,
        n_jobs=1,
    )
    wanted = 0.0 if case.ard else args.min_ess
    return fit_until(classifier, X, y, wanted, args.max_draws), classifier


def fit_until(
    estimator: BaseEstimator, X: np.ndarray, y: np.ndarray, wanted: float, max_draws: int
) -> dict[str, Any]:
    """Fit, and double the chains until they have as many effective draws as wanted."""
    wall, processor, warned = fit_quietly(estimator, X, y)
    while (
        min_ess(estimator.theta_samples_) < wanted and estimator.theta_samples_.shape[1] < max_draws
    ):
        n_draws = min(max_draws, 2 * estimator.theta_samples_.shape[1])
        estimator.set_params(warm_start=True, n_draws=n_draws)
        more_wall, more_processor, warned = fit_quietly(estimator, X, y)
        wall, processor = wall + more_wall, processor + more_processor
    return measure(estimator, wall, processor, warned)


def run_paper(
    name: str, case: Case, X: np.ndarray, y: np.ndarray, seed: int, args: argparse.Namespace
) -> dict[str, Any]:
    """One of the papers' schemes on the same model, as the papers run it."""
    scheme = PAPERS[name]
    options: dict[str, Any] = {}
    if scheme.approximation is not None:
        options = {"approximation": scheme.approximation, "n_importance": 64}
    classifier = BayesianGPClassifier(
        ard=case.ard,
        priors="paper",
        sampler=scheme.sampler,
        n_warmup=scheme.longer * args.papers_warmup,
        n_draws=scheme.longer * args.papers_draws,
        target_ess=None,
        random_state=seed,
        n_jobs=1,
        **options,
    )
    return measure(classifier, *fit_quietly(classifier, X, y))


# --- peers ----------------------------------------------------------------------------------------


def run_numpyro(
    model: Callable[[], None],
    seed: int,
    ours: dict[str, Any],
    args: argparse.Namespace,
    *,
    dense_mass: bool = False,
) -> dict[str, Any]:
    """Run NUTS beside our fit of this very run; `ratio` is what it takes longer."""
    result = run_nuts(
        model,
        dense_mass=dense_mass,
        n_warmup=args.nuts_warmup,
        n_draws=args.nuts_draws,
        seed=seed,
        max_warmup_seconds=args.max_warmup_seconds,
        max_sampling_seconds=args.max_sampling_seconds,
    )
    # Where too little was drawn for an effective sample size, the time spent is a lower bound.
    seconds = result["seconds_to_1000"]
    if not np.isfinite(seconds):
        seconds = result["seconds_warmup"] + result["seconds_sampling"]
    # On a core that others use, too, the shares that we and NUTS got of it may differ.
    share = result["seconds_processor"] / (result["seconds_warmup"] + result["seconds_sampling"])
    ratio = seconds / ours["seconds_to_1000"]
    return {
        **result,
        "seconds_to_1000": seconds,
        "max_r_hat": max(result["r_hat"]),
        "max_warmup_seconds": args.max_warmup_seconds,
        "max_sampling_seconds": args.max_sampling_seconds,
        "n_warmup_wanted": args.nuts_warmup,
        "ours_seconds_to_1000": ours["seconds_to_1000"],
        "ours_converged": ours["converged"],
        "ratio": ratio,
        "ratio_of_processor_seconds": (
            ratio * share * ours["seconds_total"] / ours["seconds_processor"]
        ),
        "difference_in_sd": (
            np.abs(np.array(result["posterior_mean_log"]) - ours["posterior_mean_log"])
            / ours["posterior_sd_log"]
        ).max(),
    }


def run_sklearn(case: Case, X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """Compare with scikit-learn's Laplace GPC, type-II maximum likelihood, on one split."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.2, stratify=y, random_state=seed
    )
    scales = np.full(X.shape[1], np.sqrt(X.shape[1])) if case.ard else np.sqrt(X.shape[1])
    peer = GaussianProcessClassifier(
        ConstantKernel(1.0, (1e-5, 1e5)) * RBF(scales, (1e-5, 1e5)), random_state=seed
    )
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        peer.fit(X_train, y_train)
        seconds = time.perf_counter() - start
    ours = BayesianGPClassifier(ard=case.ard, priors="paper", random_state=seed, n_jobs=1)
    our_seconds, _, _ = fit_quietly(ours, X_train, y_train)
    return {
        "n_train": len(y_train),
        "n_test": len(y_test),
        "seconds": seconds,
        "log_loss": log_loss(y_test, peer.predict_proba(X_test)),
        "ours_seconds": our_seconds,
        "ours_n_draws": ours.theta_samples_.shape[1],
        "ours_log_loss": log_loss(y_test, ours.predict_proba(X_test)),
    }


# --- one case -------------------------------------------------------------------------------------


class Record:
    """What is known of a case, in a file of its own.

    Attributes
    ----------
    case : Case
    results : dict
        By kind, such as "ours", and then by seed or data.
    """

    def __init__(self, case: Case, name: str, benchmark: str = "sampling") -> None:
        self.case, self._name, self._file = case, name, f"{benchmark}_{name}"
        self.results = self._stored()

    def _stored(self) -> dict[str, Any]:
        stored = load_results(self._file)
        about = {
            "case": self._name,
            "title": self.case.title,
            "ard": self.case.ard,
            "simulated": self.case.simulated,
            "targets": {
                "per_evaluation": self.case.per_evaluation,
                "per_operation": self.case.per_operation,
                "times_faster": self.case.times_faster,
            },
        }
        kinds = ("ours", "reference", "papers", "nuts", "pymc", "sklearn")
        return {**about, **{kind: stored.get(kind, {}) for kind in kinds}}

    def keep(self, kind: str, key: str, value: dict[str, Any]) -> None:
        """Add a result and save."""
        self.results = self._stored()  # another run may have added to it
        self.results[kind] = {**self.results[kind], key: plain(value)}
        save(self._file, {"seeds": sorted(self.results["ours"])}, self.results)


def run_case(name: str, args: argparse.Namespace) -> None:
    """Measure what is asked for, seed after seed, and save after each."""
    case = CASES[name]
    record = Record(case, name if args.priors else f"{name}_default_priors")
    keep = record.keep
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        X, y = case.load(seed)
        ours, classifier = run_ours(case, X, y, seed, args)
        model = classifier._sampling.run.models[0].model
        data = str(seed) if case.simulated else "all"
        if not case.ard:
            known = record.results["reference"].get(data)
            if args.reference and known is None:
                draws = classifier.theta_samples_.reshape(-1, 2)
                known = quadrature.reference(model, draws, args.reference_draws)
                keep("reference", data, known)
            if known is not None and ours["min_ess"] >= ENOUGH_TO_COMPARE:
                ours["against_quadrature"] = quadrature.compare(classifier.theta_samples_, known)
        keep("ours", str(seed), ours)
        number = seed - args.first_seed
        if args.papers and number < args.papers_seeds:
            for scheme in PAPERS:
                result = run_paper(scheme, case, X, y, seed, args)
                keep("papers", f"{scheme}, {seed}", {"scheme": scheme, "seed": seed, **result})
        if args.sklearn and number == 0:
            keep("sklearn", str(seed), run_sklearn(case, X, y, seed))
        if args.nuts and number < args.nuts_seeds:
            peer = make_model(X, y, ard=case.ard)
            keep("nuts", str(seed), run_numpyro(peer, seed, ours, args))
    show(case, record.results)


# --- tables ---------------------------------------------------------------------------------------


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.{digits}f}"


def _median_and_worst(runs: Iterable[dict[str, Any]], key: str, worst: Any) -> tuple[float, float]:
    values = [run[key] if run[key] is not None else np.inf for run in runs]
    return float(np.median(values)), float(worst(values))


def _of_emulator(run: dict[str, Any], key: str) -> float | None:
    return None if run["emulator"] is None else run["emulator"][key]


def _acceptance(run: dict[str, Any]) -> float:
    """Of the surrogate move, or of whatever the chains did instead; mean over chains."""
    rates = run["acceptance_rate"]
    rates = rates.get("surrogate", next(iter(rates.values())))
    return float(np.mean([rate for rate in rates if rate is not None]))


def show(case: Case, results: dict[str, Any]) -> None:
    """Print the tables of one case."""
    print(f"\n{case.title}")
    runs = results["ours"]
    head = ["seed", "R-hat", "ESS", "evals", "ESS/eval", "ESS/op", "ops/eval", "ms/eval"]
    head += ["before s", "sampling s", "s to 1000", "cpu/wall", "probe error", "acceptance"]
    rows = [
        [
            seed,
            _number(r["max_r_hat"]),
            _number(r["min_ess"], 0),
            _number(r["n_evaluations"], 0),
            _number(r["per_evaluation"]),
            _number(r["per_operation"]),
            _number(r["operations_per_evaluation"], 2),
            _number(r["ms_per_evaluation"], 2),
            _number(r["seconds_before"], 1),
            _number(r["seconds_sampling"], 1),
            _number(r["seconds_to_1000"], 1),
            _number(r["seconds_processor"] / r["seconds_total"], 2),
            _number(_of_emulator(r, "probe_error"), 2),
            _number(_acceptance(r), 2),
        ]
        for seed, r in sorted(runs.items())
    ]
    print_table(head, rows)
    for key, worst, target in (
        ("per_evaluation", min, case.per_evaluation),
        ("per_operation", min, case.per_operation),
        ("max_r_hat", max, MAX_RHAT),
        ("seconds_to_1000", max, None),
    ):
        median, extreme = _median_and_worst(runs.values(), key, worst)
        print(
            f"  {key}: median {_number(median)}, worst {_number(extreme)}, target {_number(target)}"
        )
    for seed, r in sorted(runs.items()):
        if "against_quadrature" in r:
            gap = r["against_quadrature"]
            print(
                f"  seed {seed} against quadrature: largest |z| {gap['largest_z']:.2f}, "
                f"largest difference {gap['largest_difference_in_sd']:.3f} sd"
            )
    for label, r in results["papers"].items():
        print(
            f"  {label}: R-hat {_number(r['max_r_hat'])}, ESS {_number(r['min_ess'], 0)}, "
            f"ESS/eval {_number(r['per_evaluation'])}, ESS/op {_number(r['per_operation'], 4)}, "
            f"s to 1000 {_number(r['seconds_to_1000'], 0)}"
        )
    for seed, r in results["nuts"].items():
        bound = ">= " if r["lower_bound"] else ""
        print(
            f"  NUTS, seed {seed}: compile {r['seconds_compile']:.0f} s, R-hat "
            f"{_number(r['max_r_hat'])}, ESS {_number(r['min_ess'], 0)}, divergences "
            f"{r['divergences']}, warm-up {r['n_warmup']} in {r['seconds_warmup']:.0f} s"
            f"{'' if r['warmup_complete'] else ' (incomplete)'}, s to 1000 {bound}"
            f"{_number(r['seconds_to_1000'], 0)}, ratio {bound}{_number(r['ratio'], 0)}"
        )
    for seed, r in results["sklearn"].items():
        print(
            f"  scikit-learn's Laplace GPC, split {seed}: {r['seconds']:.1f} s, log loss "
            f"{r['log_loss']:.4f}; ours {r['ours_seconds']:.1f} s, log loss "
            f"{r['ours_log_loss']:.4f}"
        )


def add_nuts_options(parser: argparse.ArgumentParser) -> None:
    """Add what `run_numpyro` wants to know."""
    parser.add_argument("--nuts", action="store_true", help="NumPyro's NUTS")
    parser.add_argument("--nuts-seeds", type=int, default=1)
    parser.add_argument("--nuts-warmup", type=int, default=1000)
    parser.add_argument("--nuts-draws", type=int, default=1000)
    parser.add_argument("--max-warmup-seconds", type=float, default=2400.0)
    parser.add_argument("--max-sampling-seconds", type=float, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*CASES, "all"], default="sim2")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--n-draws", type=int, default=500, help="per chain, at first")
    parser.add_argument(
        "--min-ess", type=float, default=GOOD_TO_COMPARE, help="isotropic chains go on until then"
    )
    parser.add_argument("--max-draws", type=int, default=4000, help="per chain, at most")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    parser.add_argument("--reference", action="store_true", help="grid quadrature, isotropic rows")
    parser.add_argument("--reference-draws", type=int, default=None, help="per node and batch")
    parser.add_argument("--papers", action="store_true", help="the papers' own schemes")
    parser.add_argument("--papers-seeds", type=int, default=1)
    parser.add_argument("--papers-warmup", type=int, default=500)
    parser.add_argument("--papers-draws", type=int, default=500)
    parser.add_argument("--sklearn", action="store_true", help="scikit-learn's Laplace GPC")
    parser.add_argument(
        "--default-priors",
        dest="priors",
        action="store_const",
        const=None,
        default="paper",
        help="ours alone, with the default priors; results apart",
    )
    add_nuts_options(parser)
    args = parser.parse_args()
    if args.priors is None and (args.papers or args.nuts or args.sklearn):
        parser.error("--default-priors goes with --reference alone: the others have the papers'")
    use_core(args.core)
    for name in CASES if args.case == "all" else [args.case]:
        run_case(name, args)


if __name__ == "__main__":
    main()
