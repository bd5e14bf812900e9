"""Comparison of probabilistic classifiers: Filippone & Girolami (2014), section 5, and beyond it.

Run as ``python -m benchmarks.papers.classifiers [--data pima ...] [--repeats 40] [--jobs 2]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. It takes many hours: every fit is one row of
``results/classifiers.csv``, those that are there are not made again, and sizes beyond `FULL` have
`FEWER` training sets. ``--table`` prints what there is and draws figures 6 and 7, ``--curves``
figure 5, ``--picture`` the first figure of the page, from the committed results.

As in the paper, features are standardized once on all rows, training sets have as many rows of each
class, and are the same for all methods. All other rows are tested.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import EPMLClassifier, svm_platt_classifier
from skgpmcmc.compare.methods import score
from skgpmcmc.displays import AbstentionCurveDisplay

from ..common import (
    RESULTS,
    SMOOTH,
    data_folder,
    load_binary,
    load_results,
    mean_and_error,
    print_table,
    save,
)
from ..rows import Rows

#: Rows of a training set, for each data set: as many as leave rows of both classes to test on.
SIZES = {
    "pima": (20, 50, 100, 200, 400),
    "thyroid": (20, 50, 100),
    "ionosphere": (20, 50, 100, 200),
    "glass": (20, 50, 80),
    "usps": (20, 50, 100, 200, 400),
}
#: Largest size with all training sets, and how many larger ones have.
FULL, FEWER = 100, 10
#: Bins of the calibration error.
N_BINS = 10
#: A fit beyond these has not converged.
LARGEST_R_HAT, SMALLEST_ESS = 1.05, 100.0


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardized features, and classes 0 and 1."""
    if name in ("pima", "ionosphere"):
        X, y = load_binary(name)
        return X, (y > 0.0).astype(int)
    if name == "usps":
        file = np.load(data_folder() / "usps_3v5.npz")
        return StandardScaler().fit_transform(file["X"] / 1000.0), (file["target"] == 5).astype(int)
    path = data_folder() / f"{'thyroid_new' if name == 'thyroid' else name}.csv"
    table = np.genfromtxt(path, delimiter=",", skip_header=1)
    X, target = table[:, :-1], table[:, -1]
    # Thyroid: normal or not; glass: of windows or not.
    y = target > 1 if name == "thyroid" else target >= 5
    return StandardScaler().fit_transform(X), y.astype(int)


def training_rows(y: np.ndarray, n: int, repeat: int) -> np.ndarray:
    """As many rows of each class, at random."""
    rng = np.random.default_rng([n, repeat])
    return np.concatenate([rng.choice(np.flatnonzero(y == k), n // 2, False) for k in (0, 1)])


# --- methods --------------------------------------------------------------------------------------


def _bayes(**settings: Any) -> Callable[[int, int], BaseEstimator]:
    return lambda seed, d: BayesianGPClassifier(random_state=seed, **settings)


def _calibrated(model: BaseEstimator, method: str) -> CalibratedClassifierCV:
    return CalibratedClassifierCV(model, method=method, cv=5)


def _boosting(seed: int) -> BaseEstimator:
    # With the 20 rows that a leaf has by default, trees of 20 rows would have no branch.
    return HistGradientBoostingClassifier(min_samples_leaf=5, random_state=seed)


METHODS: dict[str, Callable[[int, int], BaseEstimator]] = {
    "default": _bayes(),
    "RBF": _bayes(kernel=SMOOTH),
    "papers' priors": _bayes(priors="paper"),
    "PM EP (64)": _bayes(priors="paper", approximation="ep", n_importance=64),
    "ARD": _bayes(ard=True),
    "MCMC EP": _bayes(priors="paper", sampler="marginal", approximation="ep", target_ess=100),
    "EP ML": lambda seed, d: EPMLClassifier(random_state=seed),
    "SVM": lambda seed, d: svm_platt_classifier(random_state=seed),
    "scikit-learn GPC": lambda seed, d: GaussianProcessClassifier(
        ConstantKernel() * RBF(np.sqrt(d)), n_restarts_optimizer=2, random_state=seed
    ),
    "logistic regression": lambda seed, d: LogisticRegressionCV(
        scoring="neg_log_loss", l1_ratios=(0.0,), use_legacy_attributes=False, max_iter=1000
    ),
    "random forest": lambda seed, d: RandomForestClassifier(500, random_state=seed),
    "random forest, isotonic": lambda seed, d: _calibrated(
        RandomForestClassifier(500, random_state=seed), "isotonic"
    ),
    "boosting": lambda seed, d: _boosting(seed),
    "boosting, sigmoid": lambda seed, d: _calibrated(_boosting(seed), "sigmoid"),
}
#: Method that others are compared with: the default, but for the plane of its kernel, which came
#: later. `NEW` is the default itself, compared on fewer training sets.
REFERENCE = "RBF"
NEW = "default"
#: Methods beside the default where it is compared.
BESIDE_NEW = (REFERENCE, "MCMC EP", "EP ML", "SVM")
#: Gaussian process methods: the reference is to be as good as the best of them.
GP = (REFERENCE, "papers' priors", "PM EP (64)", "ARD", "MCMC EP", "EP ML", "scikit-learn GPC")


def is_tried(data: str, method: str) -> bool:
    """A length-scale for each of 256 pixels is left out: such chains are long."""
    return not (data == "usps" and method == "ARD")


# --- one fit --------------------------------------------------------------------------------------

SCORES = (
    *("accuracy", "auc", "capacity_accuracy", "capacity_auc", "selective_accuracy"),
    *("log_loss", "brier", "calibration_error"),
)
#: Of which more is better.
LARGE = SCORES[:5]
ROWS = Rows(
    RESULTS / "classifiers.csv",
    key=("data", "n", "repeat", "method"),
    columns=(*SCORES, "r_hat", "ess", "seconds", "failed"),
    words=("data", "method", "failed"),
    whole=("n", "repeat"),
)


def calibration_error(y: np.ndarray, proba: np.ndarray) -> float:
    """Expected calibration error: confidence minus accuracy, over bins of equal width."""
    confidence = np.maximum(proba, 1.0 - proba)
    right = (proba > 0.5) == y
    bins = np.minimum((2.0 * N_BINS * (confidence - 0.5)).astype(int), N_BINS - 1)
    gaps = np.bincount(bins, weights=confidence - right, minlength=N_BINS)
    return float(np.abs(gaps).sum() / len(y))


def fit(data: str, n: int, repeat: int, method: str) -> tuple[BaseEstimator, Any, Any, float]:
    """A fitted method, test rows and their classes, and processor seconds."""
    X, y = load(data)
    rows = training_rows(y, n, repeat)
    tested = np.setdiff1d(np.arange(len(y)), rows)
    model = METHODS[method](repeat, X.shape[1])
    start = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model.fit(X[rows], y[rows])
    return model, X[tested], y[tested], time.process_time() - start


def one(data: str, n: int, repeat: int, method: str) -> dict[str, Any]:
    """One row of the file, but for its key."""
    try:
        model, X, y, seconds = fit(data, n, repeat, method)
    except (RuntimeError, ValueError) as error:
        return {"failed": str(error)[:80]}
    proba = model.predict_proba(X)
    found = {k: v for k, v in score(y, proba, model.classes_).items() if k in SCORES}
    found |= {"calibration_error": calibration_error(y, proba[:, 1]), "seconds": seconds}
    if hasattr(model, "diagnostics_"):
        of = model.diagnostics_
        found["r_hat"] = float(of.r_hat.max())
        found["ess"] = float(min(of.ess_bulk.min(), of.ess_tail.min()))
    return found


def tasks(
    data: Iterable[str], methods: Iterable[str], repeats: int
) -> Iterator[tuple[str, int, int, str]]:
    """All fits, such that a study that ends early has as many training sets of every size.

    Yields
    ------
    tuple
        Data set, size, number of the training set, method.
    """
    for repeat in range(repeats):
        for name in data:
            for n in SIZES[name]:
                if n <= FULL or repeat < FEWER:
                    yield from ((name, n, repeat, m) for m in methods if is_tried(name, m))


# --- tables and figures ---------------------------------------------------------------------------


def summarize(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """By data set, size and method: means, and what is left of the reference's in pairs."""
    groups: dict[tuple[str, int, str], dict[int, dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["data"], row["n"], row["method"]), {})[row["repeat"]] = row
    found = []
    for (data, n, method), fits in sorted(groups.items()):
        of_reference = groups.get((data, n, REFERENCE), {})
        shared = [r for r in fits if r in of_reference]
        summary: dict[str, Any] = {"data": data, "n": n, "method": method, "repeats": len(fits)}
        summary["failed"] = sum(bool(row["failed"]) for row in fits.values())
        for name in (*SCORES, "seconds"):
            summary[name] = _mean([row[name] for row in fits.values()])
        summary |= _convergence([(row["r_hat"], row["ess"]) for row in fits.values()])
        for name in SCORES:
            summary[f"{name}_error"] = _error([row[name] for row in fits.values()])
            gaps = [fits[r][name] - of_reference[r][name] for r in shared]
            summary[f"{name}_difference"], summary[f"{name}_interval"] = _interval(gaps)
        found.append(summary)
    return found


def compare_default(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean log losses of the default and of others, on the training sets that it has; up to `FULL`.

    The last row is the mean over data sets and sizes, with standard errors of differences from the
    default, in pairs over training sets.
    """
    loss: dict[tuple[str, int], dict[str, dict[int, float]]] = {}
    for row in rows:
        if row["n"] <= FULL and not row["failed"]:
            place = loss.setdefault((row["data"], row["n"]), {})
            place.setdefault(row["method"], {})[row["repeat"]] = row["log_loss"]
    found: list[dict[str, Any]] = []
    squares: dict[str, list[float]] = {method: [] for method in BESIDE_NEW}
    for (data, n), of in sorted(loss.items()):
        sets = [r for r in of.get(NEW, {}) if all(r in of[method] for method in BESIDE_NEW)]
        if len(sets) < 2:
            continue
        each = {method: np.array([of[method][r] for r in sets]) for method in (NEW, *BESIDE_NEW)}
        means = {method: float(values.mean()) for method, values in each.items()}
        for method in BESIDE_NEW:
            squares[method].append((each[method] - each[NEW]).var(ddof=1) / len(sets))
        found.append({"data": data, "n": n, "repeats": len(sets), "log_loss": means})
    whole = {m: float(np.mean([row["log_loss"][m] for row in found])) for m in (NEW, *BESIDE_NEW)}
    errors = {m: float(np.sqrt(np.sum(own)) / len(own)) for m, own in squares.items()}
    return [*found, {"data": "mean", "n": None, "log_loss": whole, "errors": errors}]


def _convergence(chains: list[tuple[float, float]]) -> dict[str, float]:
    """Return the worst R-hat and effective sample size, and how many fits are poor."""
    r_hat, ess = np.array(chains, dtype=float).reshape(-1, 2).T
    has_chains = np.isfinite(r_hat) & np.isfinite(ess)
    if not has_chains.any():
        return {}
    r_hat, ess = r_hat[has_chains], ess[has_chains]
    poor = (r_hat > LARGEST_R_HAT) | (ess < SMALLEST_ESS)
    return {"r_hat": float(r_hat.max()), "ess": float(ess.min()), "poor": int(poor.sum())}


def _mean(values: list[float]) -> float:
    each = np.array(values)[np.isfinite(values)]
    return float(each.mean()) if len(each) else float("nan")


def _error(values: list[float]) -> float:
    """Standard error of the mean over training sets."""
    each = np.array(values)[np.isfinite(values)]
    return float(each.std(ddof=1) / np.sqrt(len(each))) if len(each) > 1 else float("nan")


def _interval(gaps: list[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % confidence interval by Student's t."""
    each = np.array(gaps, dtype=float)
    each = each[np.isfinite(each)]
    if len(each) < 2:
        return _mean(gaps) if gaps else float("nan"), float("nan")
    error = each.std(ddof=1) / np.sqrt(len(each))
    return float(each.mean()), float(stats.t.ppf(0.975, len(each) - 1) * error)


def show(rows: list[dict[str, Any]], name: str) -> None:
    """Print a score: means and standard errors, a row for each data set and size."""
    places = sorted({(row["data"], row["n"]) for row in rows})
    body = []
    for place in places:
        of = {m: [r[name] for r in rows if (r["data"], r["n"], r["method"]) == (*place, m)]
              for m in METHODS}  # fmt: skip
        cells = [mean_and_error([v for v in of[m] if np.isfinite(v)]) if of[m] else "" for m in of]
        body.append([*place, *cells])
    print(f"\n{name}")
    print_table(["data", "n", *METHODS], body)


def draw_scores(summary: list[dict[str, Any]]) -> None:
    """Figures 6 and 7: scores against the size of the training set."""
    import matplotlib.pyplot as plt

    shown = ("accuracy", "auc", "capacity_accuracy", "capacity_auc", "log_loss")
    names = [name for name in SIZES if any(row["data"] == name for row in summary)]
    fig, axes = plt.subplots(
        len(names), len(shown), figsize=(15, 2.6 * len(names)), squeeze=False, layout="constrained"
    )
    methods = (REFERENCE, "PM EP (64)", "MCMC EP", "EP ML", "SVM", "scikit-learn GPC",
               "random forest")  # fmt: skip
    for line, name in zip(axes, names, strict=True):
        for ax, measure in zip(line, shown, strict=True):
            for method in methods:
                points = [r for r in summary if (r["data"], r["method"]) == (name, method)]
                points.sort(key=lambda r: r["n"])
                ax.errorbar([r["n"] for r in points], [r[measure] for r in points],
                            [r[f"{measure}_error"] for r in points], fmt="o-", ms=3, elinewidth=0.7,
                            lw=2.0 if method == REFERENCE else 1.0, label=method)  # fmt: skip
            ax.set(xscale="log", title=f"{name}: {measure.replace('_', ' ')}")
            ax.set_xticks(SIZES[name], [str(n) for n in SIZES[name]], minor=False)
            ax.minorticks_off()
    fig.supxlabel("rows of the training set; bars: a standard error to each side", fontsize=11)
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=7)
    fig.savefig(RESULTS / "classifiers.png", dpi=100)


def draw_differences(summary: list[dict[str, Any]]) -> None:
    """Draw two scores of five methods minus those of the reference, by data set and size."""
    import matplotlib.pyplot as plt

    # Colors of Okabe and Ito.
    methods = {"EP ML": "#E69F00", "SVM": "#D55E00", "scikit-learn GPC": "#009E73",
               "MCMC EP": "#0072B2", NEW: "#CC79A7"}  # fmt: skip
    scores = {"log_loss": "log loss", "capacity_accuracy": "capacity accuracy"}
    fig, axes = plt.subplots(
        2, len(SIZES), figsize=(8, 4.6), sharex="col", sharey="row", layout="constrained"
    )
    for line, (score_name, label) in zip(axes, scores.items(), strict=True):
        for ax, (name, sizes) in zip(line, SIZES.items(), strict=True):
            ax.axhline(0.0, color="black", lw=0.8)
            for method, color in methods.items():
                points = [r for r in summary if (r["data"], r["method"]) == (name, method)]
                points.sort(key=lambda r: r["n"])
                sizes_of_method, *ends = zip(
                    *((r["n"], r[f"{score_name}_difference"], r[f"{score_name}_interval"])
                      for r in points), strict=True
                )  # fmt: skip
                ax.errorbar(sizes_of_method, *ends, fmt="o-", ms=3, lw=1.2, elinewidth=0.8,
                            color=color, label=method)  # fmt: skip
            ax.set(xscale="log", xlim=(0.8 * sizes[0], 1.25 * sizes[-1]))
            ax.set_xticks(sizes, [str(n) for n in sizes], minor=False, fontsize="x-small")
            ax.minorticks_off()
        line[0].set_ylabel(f"{label},\nminus that of RBF")
    for ax, name in zip(axes[0], SIZES, strict=True):
        ax.set_title(name)
    fig.supxlabel("training rows", fontsize="medium")
    fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    fig.savefig(RESULTS / "classifiers_differences.png", dpi=120)


def draw_curves() -> None:
    """Figure 5: accuracy and AUC against abstention, one training set each."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for ax, (name, n, kind) in zip(
        axes, (("glass", 50, "accuracy"), ("pima", 20, "auc")), strict=True
    ):
        for method in (REFERENCE, "PM EP (64)", "MCMC EP", "EP ML", "SVM"):
            model, X, y, _ = fit(name, n, 0, method)
            AbstentionCurveDisplay.from_predictions(
                y, model.predict_proba(X), score=kind, name=method, ax=ax
            )
        ax.set_title(f"{name}, {n} rows")
    fig.savefig(RESULTS / "classifiers_curves.png", dpi=100)


def main() -> None:
    """Run what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--repeats", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print the tables, run nothing")
    parser.add_argument("--curves", action="store_true", help="draw figure 5, run nothing else")
    parser.add_argument("--picture", action="store_true", help="draw the page's first figure")
    args = parser.parse_args()
    if args.picture:
        draw_differences(load_results("classifiers"))
        return
    if args.curves:
        draw_curves()
        return
    if not args.table:
        ROWS.run(tasks(args.data, args.methods, args.repeats), one, args.jobs)
    rows = ROWS.read()
    for name in (*SCORES, "seconds"):
        show(rows, name)
    save("classifiers_default", {"full": FULL}, compare_default(rows))
    rows = [row for row in rows if row["method"] != NEW or row["n"] <= FULL]
    summary = summarize(rows)
    draw_scores(summary)
    draw_differences(summary)
    save("classifiers", {"repeats": args.repeats, "fewer": FEWER, "full": FULL}, summary)


if __name__ == "__main__":
    main()
