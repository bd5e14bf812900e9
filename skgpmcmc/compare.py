"""The main job: a Bayesian GP classifier beside its rivals, on the same splits of real data."""

from __future__ import annotations

import csv
import json
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from .baselines import EPMLClassifier, svm_platt_classifier
from .diagnostics import Diagnostics
from .estimators import BayesianGPClassifier
from .metrics import capacity_accuracy_score, capacity_auc_score

__all__ = ["SCORES", "DataSet", "Outcome", "Settings", "bundled_data", "compare", "csv_data"]

#: Columns of the table: accuracy and the areas are better large, the others small.
SCORES = (
    "accuracy",
    "log_loss",
    "brier",
    "auc",
    "capacity_accuracy",
    "capacity_auc",
    "seconds",
)


@dataclass(frozen=True)
class DataSet:
    """A classification problem, and how it is split.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    train_size : int
        Training rows; the rest is for testing.
    balanced : bool
        Draw equally many training rows from each class; otherwise keep the class proportions.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    train_size: int
    balanced: bool


@dataclass(frozen=True)
class Settings:
    """Of the Bayesian classifiers."""

    n_chains: int = 4
    n_warmup: int | str = "auto"
    n_draws: int = 1000
    max_rhat: float = 1.05
    n_jobs: int = -1


@dataclass
class Outcome:
    """One method on one split."""

    method: str
    split: int
    scores: dict[str, float]
    proba: np.ndarray  # (n_test, n_classes)
    diagnostics: Diagnostics | None = None
    notes: list[str] = field(default_factory=list)


class Split(NamedTuple):
    """Training and test part, standardized on the training part."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


# --- data -----------------------------------------------------------------------------------------


def bundled_data(train_size: int = 100) -> list[DataSet]:
    """Breast cancer, and digits 3 against 5, from scikit-learn's bundle."""
    cancer = load_breast_cancer()
    digits = load_digits()
    pair = np.isin(digits.target, (3, 5))
    return [
        DataSet("breast cancer", cancer.data, cancer.target, train_size, True),
        DataSet("digits 3 vs 5", digits.data[pair], digits.target[pair], train_size, True),
    ]


def csv_data(path: str | Path, target: str, train_size: int | None = None) -> DataSet:
    """Read a CSV file with a header row; every column but the target must be numeric.

    Without `train_size`, 70 % of the rows and 500 at most are for training.
    """
    path = Path(path)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    if not rows:
        raise ValueError(f"{path} is empty: there is no header row.")
    header, body = [name.strip() for name in rows[0]], [row for row in rows[1:] if row]
    if target not in header:
        raise ValueError(f"--target {target!r} is not a column of {path}; it has {header}.")
    for line, row in enumerate(body, start=2):
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line} has {len(row)} cells, the header {len(header)}.")
    position = header.index(target)
    features = [
        [_number(cell, header[j], i, path) for j, cell in enumerate(row) if j != position]
        for i, row in enumerate(body, start=2)
    ]
    y = np.array([row[position].strip() for row in body])
    default_size = min(500, int(0.7 * len(y)))
    return DataSet(path.stem, np.array(features), y, train_size or default_size, False)


def _number(cell: str, column: str, line: int, path: Path) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(
            f"{path}, line {line}, column {column!r}: {cell!r} is not a finite number. Encode "
            "categories as numbers and fill in or drop missing values first."
        )
    return value


def split_data(data: DataSet, random_state: int) -> Split:
    """Split and standardize."""
    n_classes = len(np.unique(data.y))
    if not n_classes < data.train_size < len(data.y):
        raise ValueError(
            f"--train-size must lie between the number of classes ({n_classes}) and the number of "
            f"rows ({len(data.y)}) of {data.name!r}; got {data.train_size}."
        )
    train, test = (
        _balanced_split(data, random_state)
        if data.balanced
        else train_test_split(
            np.arange(len(data.y)),
            train_size=data.train_size,
            stratify=data.y,
            random_state=random_state,
        )
    )
    scaler = StandardScaler().fit(data.X[train])
    return Split(
        scaler.transform(data.X[train]), data.y[train], scaler.transform(data.X[test]), data.y[test]
    )


def _balanced_split(data: DataSet, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Equally many training rows of each class; the rest is for testing."""
    rng = np.random.default_rng(random_state)
    classes = np.unique(data.y)
    per_class = data.train_size // len(classes)
    train = np.concatenate(
        [rng.choice(np.flatnonzero(data.y == c), per_class, replace=False) for c in classes]
    )
    return train, np.setdiff1d(np.arange(len(data.y)), train)


# --- methods --------------------------------------------------------------------------------------


def make_methods(
    settings: Settings, n_classes: int, n_features: int, random_state: int
) -> dict[str, Callable[[], Any]]:
    """Unfitted estimators by the name in the table, as factories."""
    bayes = {**asdict(settings), "random_state": random_state}

    def ep_ml() -> Any:
        single = EPMLClassifier(random_state=random_state)
        return single if n_classes == 2 else OneVsRestClassifier(single)

    return {
        "Bayesian GP (PM)": lambda: BayesianGPClassifier(**bayes),
        "MCMC EP": lambda: BayesianGPClassifier(sampler="marginal", **bayes),
        "EP ML": ep_ml,
        "SVM + Platt": lambda: svm_platt_classifier(
            random_state=random_state, n_jobs=settings.n_jobs
        ),
        # With its default kernel, which is fixed, this classifier would optimize nothing. It starts
        # at the mean of the length-scale's default prior; from 1 it often ends at a bound.
        "sklearn GPC": lambda: GaussianProcessClassifier(
            ConstantKernel() * RBF(np.sqrt(n_features)),
            n_restarts_optimizer=2,
            random_state=random_state,
        ),
    }


def run_method(name: str, estimator: Any, split: Split, index: int, watch: bool) -> Outcome:
    """Fit, predict and score; warnings become notes."""
    if watch and hasattr(estimator, "set_callbacks"):
        estimator.set_callbacks(*_progress())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        estimator.fit(split.X_train, split.y_train)
        proba = estimator.predict_proba(split.X_test)
        seconds = time.perf_counter() - start
    notes = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    scores = {**score(split.y_test, proba, estimator.classes_), "seconds": seconds}
    return Outcome(name, index, scores, proba, getattr(estimator, "diagnostics_", None), notes)


def _progress() -> list[Any]:
    """scikit-learn's progress bar, where rich is installed."""
    from sklearn.callback import ProgressBar

    try:
        return [ProgressBar()]
    except ImportError:
        return []


def score(y_true: np.ndarray, proba: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """All scores of predicted class probabilities; NaN where one is not defined."""
    binary = len(classes) == 2
    one_hot = (y_true[:, None] == classes).astype(float)
    squares = ((proba - one_hot) ** 2).sum(axis=1).mean()
    positive = {"y_true": y_true, "y_proba": proba, "pos_label": classes[1]}
    area = proba[:, 1] if binary else proba
    return {
        "accuracy": float(accuracy_score(y_true, classes[proba.argmax(axis=1)])),
        "log_loss": float(log_loss(y_true, proba, labels=classes)),
        "brier": float(squares / 2 if binary else squares),
        "auc": float(roc_auc_score(y_true, area, multi_class="ovr", labels=classes)),
        "capacity_accuracy": capacity_accuracy_score(**positive) if binary else np.nan,
        "capacity_auc": capacity_auc_score(**positive) if binary else np.nan,
    }


# --- the job --------------------------------------------------------------------------------------


def compare(
    data: DataSet,
    settings: Settings,
    *,
    repeats: int,
    random_state: int,
    report: Callable[[str], None],
) -> tuple[list[Outcome], Split]:
    """Run every method on every split; returns all outcomes and the first split."""
    outcomes: list[Outcome] = []
    first: Split | None = None
    for r in range(repeats):
        split = split_data(data, random_state + r)
        first = first or split
        n_classes, n_features = len(np.unique(data.y)), data.X.shape[1]
        methods = make_methods(settings, n_classes, n_features, random_state + r)
        for name, make in methods.items():
            report(f"[{data.name}] split {r + 1}/{repeats}: {name}")
            outcomes.append(run_method(name, make(), split, r, watch=True))
    assert first is not None
    return outcomes, first


def score_table(outcomes: Sequence[Outcome]) -> str:
    """One line per method: the score, or mean +- standard error over splits."""
    names = list(dict.fromkeys(o.method for o in outcomes))
    cells = [["", *(column.replace("_", " ") for column in SCORES)]]
    for name in names:
        mine = [o.scores for o in outcomes if o.method == name]
        cells.append([name, *(_cell([s[column] for s in mine]) for column in SCORES)])
    widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    mean = float(np.mean(values))
    if np.isnan(mean):
        return "-"
    if len(values) == 1:
        return f"{mean:.3f}"
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return f"{mean:.3f} ± {error:.3f}"


def convergence_report(outcomes: Sequence[Outcome], max_rhat: float) -> str:
    """The convergence tables of the first split, and the worst figures over all splits."""
    lines = []
    for outcome in outcomes:
        if outcome.diagnostics is None or outcome.split > 0:
            continue
        runs = [o.diagnostics for o in outcomes if o.method == outcome.method]
        worst = max(float(d.r_hat.max()) for d in runs if d is not None)
        fewest = min(float(d.ess_bulk.min()) for d in runs if d is not None)
        verdict = "converged" if worst <= max_rhat else "NOT CONVERGED"
        lines += [
            f"{outcome.method}: {verdict}; largest R-hat {worst:.3f} (at most {max_rhat:g} wanted),"
            f" smallest bulk ESS {fewest:.0f}, over {len(runs)} split(s); first split:",
            str(outcome.diagnostics),
            "",
        ]
    return "\n".join(lines)


def save_plot(path: Path, results: dict[str, tuple[Sequence[Outcome], Split]]) -> bool:
    """Abstention curves of the first split; False where there is nothing to draw."""
    from .displays import AbstentionCurveDisplay

    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    binary = {k: v for k, v in results.items() if len(np.unique(v[1].y_test)) == 2}
    if not binary:
        return False
    figure = Figure(figsize=(12, 5.2 * len(binary)), layout="constrained")
    axes = figure.subplots(len(binary), 2, squeeze=False)
    for row, (name, (outcomes, split)) in zip(axes, binary.items(), strict=True):
        for ax, kind in zip(row, ("accuracy", "auc"), strict=True):
            for outcome in outcomes:
                if outcome.split == 0:
                    AbstentionCurveDisplay.from_predictions(
                        split.y_test, outcome.proba, score=kind, name=outcome.method, ax=ax
                    )
            ax.set_title(f"{name}: {len(split.y_train)} training, {len(split.y_test)} test rows")
    figure.savefig(path, dpi=110)
    return True


def as_json(
    results: dict[str, tuple[Sequence[Outcome], Split]],
    settings: Settings,
    random_state: int,
) -> str:
    """Everything but the probabilities, with versions and settings."""
    from . import __version__

    runs = [
        {
            "data": name,
            "n_train": len(split.y_train),
            "n_test": len(split.y_test),
            "method": outcome.method,
            "split": outcome.split,
            "scores": {k: None if np.isnan(v) else v for k, v in outcome.scores.items()},
            "convergence": _convergence_json(outcome.diagnostics),
            "notes": outcome.notes,
        }
        for name, (outcomes, split) in results.items()
        for outcome in outcomes
    ]
    versions = {
        "skgpmcmc": __version__,
        "python": platform.python_version(),
        **{module.__name__: module.__version__ for module in (np, scipy, sklearn, joblib)},
    }
    machine = {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": joblib.cpu_count(),
    }
    document = {
        "versions": versions,
        "machine": machine,
        "settings": asdict(settings),
        "random_state": random_state,
        "runs": runs,
    }
    return json.dumps(document, indent=1)


def _convergence_json(diagnostics: Diagnostics | None) -> dict[str, Any] | None:
    if diagnostics is None:
        return None
    d = diagnostics
    return {
        "rows": [d.row_label(row) for row in range(len(d.names))],
        "r_hat": d.r_hat.tolist(),
        "ess_bulk": d.ess_bulk.tolist(),
        "ess_tail": d.ess_tail.tolist(),
        "acceptance_rate": {name: rate.tolist() for name, rate in d.acceptance_rate.items()},
        "log_likelihood_sd": d.log_likelihood_sd.tolist(),
        "n_cubic": d.n_cubic,
        "n_likelihood_evaluations": d.n_likelihood_evaluations,
        "seconds_warmup": d.seconds_warmup,
        "seconds_sampling": d.seconds_sampling,
    }
