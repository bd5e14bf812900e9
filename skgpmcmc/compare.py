"""The main job: a Bayesian GP classifier beside its rivals, on the same splits of real data."""

from __future__ import annotations

import csv
import io
import json
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
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
from .estimators import BayesianGPClassifier
from .metrics import capacity_accuracy_score, capacity_auc_score, selective_accuracy_score
from .run import Diagnostics

__all__ = [
    "SCORES",
    "Comparison",
    "DataSet",
    "Outcome",
    "Settings",
    "bundled_data",
    "compare",
    "csv_data",
]

#: Columns of the table: accuracy and the areas are better large, the others small.
SCORES = (
    "accuracy",
    "log_loss",
    "brier",
    "auc",
    "selective_accuracy",
    "capacity_accuracy",
    "capacity_auc",
    "seconds",
)

#: Members of each class that every method needs for training: the SVM is calibrated inside
#: cross-validation.
MIN_TRAINING_MEMBERS = 3

#: Cells that stand for a missing target, in lower case.
_MISSING = ("", "na", "n/a", "nan", "?")

#: Squares of larger numbers overflow.
_LARGEST = 1e150

#: More different numbers than these, not all of them whole, are no classes.
_MOST_NUMERIC_CLASSES = 20


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
    """One method on one split.

    Attributes
    ----------
    method : str
    split : int
        From 0.
    scores : dict
        By name; NaN where a score is not defined, empty where the method failed.
    proba : ndarray of shape (n_test, n_classes) or None
        Predicted probabilities; None where the method failed.
    diagnostics : Diagnostics or None
        Of the Bayesian classifiers.
    notes : list of str
        What the method warned of.
    failure : str or None
        Why it failed.
    """

    method: str
    split: int
    scores: dict[str, float]
    proba: np.ndarray | None
    diagnostics: Diagnostics | None = None
    notes: list[str] = field(default_factory=list)
    failure: str | None = None


class Split(NamedTuple):
    """Training and test part, standardized on the training part."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass
class Comparison:
    """What the methods did on one data set, as far as they came, and its first split."""

    data: DataSet
    first: Split
    outcomes: list[Outcome] = field(default_factory=list)


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
    header, body = _read_table(path)
    position = _target_position(header, target, path)
    features = [
        [_number(cell, header[j], line, path) for j, cell in enumerate(row) if j != position]
        for line, row in body
    ]
    y = np.array([_label(row[position], target, line, path) for line, row in body])
    _refuse_quantity(y, target, path)
    if train_size is None:
        train_size = min(500, int(0.7 * len(y)))
    return DataSet(path.stem, np.array(features), y, train_size, False)


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and the rows with the numbers of their lines; blank lines are skipped."""
    reader = csv.reader(io.StringIO(_read_text(path), newline=""))
    try:
        # A record between quotes may take several lines: the number is that of its last one.
        rows = [(reader.line_num, row) for row in reader if "".join(row).strip() or len(row) > 1]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from error
    if not rows:
        raise ValueError(f"{path} is empty: there is no header row.")
    header, body = [name.strip() for name in rows[0][1]], rows[1:]
    if not body:
        raise ValueError(f"{path} has a header row and nothing below it: there are no data.")
    for line, row in body:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line} has {len(row)} cells, the header {len(header)}.")
    return header, body


def _read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte-order mark."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give a CSV file.") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line} holds the byte {raw[error.start]:#04x}, which is not UTF-8: save "
            "the file as CSV in UTF-8."
        ) from error


def _target_position(header: list[str], target: str, path: Path) -> int:
    """Return which column is the target; the others are features."""
    repeated = next((name for name in header if header.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(
            f"{path}: {header.count(repeated)} columns of the header are called {repeated!r}: give "
            "each a name of its own."
        )
    if target not in header:
        raise ValueError(
            f"--target {target!r} is not a column of {path}; it has {header}. Commas must separate "
            "the columns."
        )
    if len(header) == 1:
        raise ValueError(
            f"{path} has no column but the target {target!r}: there is nothing to predict it from."
        )
    return header.index(target)


def _label(cell: str, column: str, line: int, path: Path) -> str:
    label = cell.strip()
    if label.lower() in _MISSING:
        raise ValueError(
            f"{path}, line {line}, column {column!r}: the target is missing "
            f"({label!r}). Drop the row, or, if it is a class, give it another name."
        )
    return label


def _number(cell: str, column: str, line: int, path: Path) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    where = f"{path}, line {line}, column {column!r}: {cell!r}"
    if not np.isfinite(value):
        raise ValueError(
            f"{where} is not a finite number. Encode categories as numbers and fill in or drop "
            "missing values first."
        )
    if abs(value) > _LARGEST:
        raise ValueError(f"{where} is too large to be standardized: choose another unit.")
    return value


def _refuse_quantity(y: np.ndarray, target: str, path: Path) -> None:
    """Refuse numbers that are mostly different, or many and not whole."""
    try:
        values = y.astype(float)
    except ValueError:
        return
    n_different = len(np.unique(values))
    are_whole = np.all(values == np.round(values))
    if n_different > 2 and (
        2 * n_different > len(values) or (n_different > _MOST_NUMERIC_CLASSES and not are_whole)
    ):
        raise ValueError(
            f"{path}: the target {target!r} holds {n_different} different numbers in {len(values)} "
            "rows. That is a quantity, and this command compares classifiers: choose a column of "
            "classes, or a regressor such as BayesianGPRegressor."
        )


def check_data(data: DataSet, repeats: int, random_state: int) -> None:
    """Refuse what a method would fail on, before any is fitted.

    Each class needs `MIN_TRAINING_MEMBERS` members in the training part of each split, and one in
    its test part, without which the AUC has no meaning.

    Raises
    ------
    ValueError
        It names the data, and the class or ``--train-size``.
    """
    classes, n_members = np.unique(data.y, return_counts=True)
    n_classes, n_rows = len(classes), len(data.y)
    if n_classes == 1:
        raise ValueError(
            f"{data.name!r} holds one class only, {str(classes[0])!r}: there is nothing to tell "
            "apart."
        )
    fewest = MIN_TRAINING_MEMBERS + 1
    rare = np.flatnonzero(n_members < fewest)
    if rare.size and data.train_size < n_rows:
        listed = ", ".join(f"{str(classes[c])!r} ({n_members[c]} row(s))" for c in rare[:5])
        raise ValueError(
            f"{data.name!r} has {rare.size} class(es) with fewer than {fewest} rows: {listed}"
            f"{', ...' if rare.size > 5 else ''}. Each class needs {MIN_TRAINING_MEMBERS} rows for "
            "training and one for testing: add rows, drop the class, or merge it with another."
        )
    least = MIN_TRAINING_MEMBERS * n_classes
    most = n_classes * (n_members.min() - 1) if data.balanced else n_rows - n_classes
    if not least <= data.train_size <= most:
        raise ValueError(
            f"--train-size must lie between {least} and {most} for the {n_rows} rows and "
            f"{n_classes} classes of {data.name!r}, so that each class has {MIN_TRAINING_MEMBERS} "
            f"rows for training and one for testing; got {data.train_size}."
        )
    for r in range(repeats):
        train, _ = _split_rows(data, random_state + r)
        n_train = np.array([np.sum(data.y[train] == label) for label in classes])
        lacking = np.flatnonzero((n_train < MIN_TRAINING_MEMBERS) | (n_train == n_members))
        if lacking.size:
            c = lacking[0]
            raise ValueError(
                f"class {str(classes[c])!r} of {data.name!r} has {n_members[c]} rows, of which "
                f"split {r + 1} has {n_train[c]} for training; each class needs "
                f"{MIN_TRAINING_MEMBERS} for training and one for testing: change --train-size "
                f"({data.train_size}), drop the class, or merge it with another."
            )


def split_data(data: DataSet, random_state: int) -> Split:
    """Split and standardize."""
    train, test = _split_rows(data, random_state)
    scaler = StandardScaler().fit(data.X[train])
    return Split(
        scaler.transform(data.X[train]), data.y[train], scaler.transform(data.X[test]), data.y[test]
    )


def _split_rows(data: DataSet, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows for training and those for testing."""
    if data.balanced:
        return _balanced_split(data, random_state)
    return train_test_split(
        np.arange(len(data.y)),
        train_size=data.train_size,
        stratify=data.y,
        random_state=random_state,
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
    """Fit, predict and score; warnings become notes, and an error the reason of a failure."""
    if watch and hasattr(estimator, "set_callbacks"):
        estimator.set_callbacks(*_progress())
    outcome = Outcome(name, index, {}, None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = time.perf_counter()
            estimator.fit(split.X_train, split.y_train)
            proba = estimator.predict_proba(split.X_test)
            seconds = time.perf_counter() - start
            scores = score(split.y_test, proba, estimator.classes_)
        except Exception as error:  # whatever one method raises, the others go on
            outcome.failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            outcome.scores, outcome.proba = {**scores, "seconds": seconds}, proba
            outcome.diagnostics = getattr(estimator, "diagnostics_", None)
    outcome.notes = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    return outcome


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
        "selective_accuracy": selective_accuracy_score(**positive) if binary else np.nan,
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
) -> Iterator[Outcome]:
    """Run every method on every split, one after the other.

    Yields
    ------
    Outcome
        As soon as it is there, so that a caller who stops has those before.
    """
    for r in range(repeats):
        split = split_data(data, random_state + r)
        n_classes, n_features = len(np.unique(data.y)), data.X.shape[1]
        methods = make_methods(settings, n_classes, n_features, random_state + r)
        for name, make in methods.items():
            report(f"[{data.name}] split {r + 1}/{repeats}: {name}")
            yield run_method(name, make(), split, r, watch=True)


def score_table(outcomes: Sequence[Outcome]) -> str:
    """One line per method: the score, or mean +- standard error over splits.

    A method that failed has dashes; one that failed on some splits has the mean over the others,
    and its name says over how many. A score that is not there, as in an older file, is a dash, too.
    """
    names = list(dict.fromkeys(o.method for o in outcomes))
    cells = [["", *(column.replace("_", " ") for column in SCORES)]]
    for name in names:
        mine = [o for o in outcomes if o.method == name]
        scores = [o.scores for o in mine if o.failure is None]
        partly = f" ({len(scores)} of {len(mine)} splits)" if 0 < len(scores) < len(mine) else ""
        row = [_cell([s.get(column, np.nan) for s in scores]) for column in SCORES]
        cells.append([name + partly, *row])
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
    if not values or np.isnan(values).any():
        return "-"
    mean = float(np.mean(values))
    if len(values) == 1:
        return f"{mean:.3f}"
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return f"{mean:.3f} ± {error:.3f}"


def convergence_report(outcomes: Sequence[Outcome], max_rhat: float) -> str:
    """The convergence table of each method's first run, and the worst figures over all splits."""
    lines = []
    for method in dict.fromkeys(o.method for o in outcomes):
        mine = [o for o in outcomes if o.method == method]
        runs = [(o.split, o.diagnostics) for o in mine if o.diagnostics is not None]
        if not runs:
            continue
        worst = max(float(d.r_hat.max()) for _, d in runs)
        fewest = min(float(d.ess_bulk.min()) for _, d in runs)
        verdict = "converged" if worst <= max_rhat else "NOT CONVERGED"
        split, first = runs[0]
        lines += [
            f"{method}: {verdict}; largest R-hat {worst:.3f} (at most {max_rhat:g} wanted),"
            f" smallest bulk ESS {fewest:.0f}, over {len(runs)} split(s); split {split + 1}:",
            str(first),
            "",
        ]
    return "\n".join(lines)


def why_no_plot(results: Sequence[Comparison]) -> str | None:
    """Say what is missing for abstention curves; None where nothing is."""
    if not any(len(np.unique(c.data.y)) == 2 for c in results):
        sizes = ", ".join(f"{c.data.name!r} has {len(np.unique(c.data.y))}" for c in results)
        return f"abstention curves are for two classes, and {sizes}"
    if not _drawable(results):
        return "no method has finished on the first split"
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return 'matplotlib is not installed: pip install "skgpmcmc[plots]"'
    return None


def _drawable(results: Sequence[Comparison]) -> list[tuple[Comparison, list[Outcome]]]:
    """Two classes, with what was predicted on the first split."""
    pairs = [(c, [o for o in c.outcomes if o.split == 0 and o.failure is None]) for c in results]
    return [(c, done) for c, done in pairs if done and len(np.unique(c.data.y)) == 2]


def save_plot(path: Path, results: Sequence[Comparison]) -> None:
    """Abstention curves of the first split, where `why_no_plot` finds nothing missing."""
    from matplotlib.figure import Figure

    from .displays import AbstentionCurveDisplay

    drawable = _drawable(results)
    figure = Figure(figsize=(12, 5.2 * len(drawable)), layout="constrained")
    axes = figure.subplots(len(drawable), 2, squeeze=False)
    for row, (comparison, outcomes) in zip(axes, drawable, strict=True):
        split = comparison.first
        title = f"{comparison.data.name}: {len(split.y_train)} training, {len(split.y_test)} test"
        for ax, kind in zip(row, ("accuracy", "auc"), strict=True):
            for outcome in outcomes:
                AbstentionCurveDisplay.from_predictions(
                    split.y_test, outcome.proba, score=kind, name=outcome.method, ax=ax
                )
            ax.set_title(f"{title} rows")
    figure.savefig(path, dpi=110)


def as_json(
    results: Sequence[Comparison], settings: Settings, random_state: int, *, complete: bool = True
) -> str:
    """Everything but the probabilities, with versions and settings; a failure has no scores."""
    from . import __version__

    runs = [
        {
            "data": comparison.data.name,
            "n_train": len(comparison.first.y_train),
            "n_test": len(comparison.first.y_test),
            "method": outcome.method,
            "split": outcome.split,
            "scores": {name: _plain(outcome.scores.get(name, np.nan)) for name in SCORES},
            "convergence": _convergence_json(outcome.diagnostics),
            "notes": outcome.notes,
            "failure": outcome.failure,
        }
        for comparison in results
        for outcome in comparison.outcomes
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
        "complete": complete,
        "runs": runs,
    }
    return json.dumps(document, indent=1)


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else value


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
