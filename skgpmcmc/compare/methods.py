"""The methods of a comparison, each fitted and scored on the same splits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.callback import ProgressBar
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import accuracy_score, log_loss, roc_auc_score
from sklearn.multiclass import OneVsRestClassifier

from ..baselines.epml import EPMLClassifier
from ..baselines.svm import PlattSVC
from ..estimators.classification import BayesianGPClassifier
from ..metrics import capacity_accuracy_score, capacity_auc_score, selective_accuracy_score
from ..run.diagnostics import Diagnostics
from .data import DataSet, Split, split_data

#: All scores, as in the result file.
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

#: Columns of the table that the command prints.
SHOWN_SCORES = ("accuracy", "log_loss", "auc", "seconds")

#: Scores of which a small value is good; of all others a large one is.
SMALL_IS_GOOD = frozenset({"log_loss", "brier", "seconds"})


#: Names of the methods in the tables, by their names in result files of earlier versions.
PLAIN_NAMES = {
    "Bayesian GP (PM)": "Bayesian GP (this package)",
    "MCMC EP": "Bayesian GP, approximate (MCMC EP)",
    "EP ML": "GP, hyper-parameters optimized (EP ML)",
    "SVM + Platt": "SVM with Platt scaling",
    "sklearn GPC": "GP classifier of scikit-learn",
}

#: C and gamma of the support vector machine that are tried, by the name of the grid. The small grid
#: has twenty pairs; the full one is that of `PlattSVC`, with 110.
SVM_GRIDS: dict[str, dict[str, tuple[float, ...] | None]] = {
    "small": {
        "C": tuple(2.0**k for k in (-3, 0, 3, 6, 9)),
        "gamma": tuple(2.0**k for k in (-10, -7, -4, -1)),
    },
    "full": {"C": None, "gamma": None},
}


@dataclass(frozen=True)
class Settings:
    """Parameters of the Bayesian classifiers (see `BayesianGPClassifier`) and of their rivals."""

    n_chains: int = 4
    n_warmup: int | str = "auto"
    n_draws: int = 1000
    max_rhat: float = 1.05
    n_jobs: int = -1
    svm_grid: str = "small"  # a key of `SVM_GRIDS`


@dataclass
class MethodOutcome:
    """Result of one method on one split.

    Attributes
    ----------
    method : str
        Name of the method.
    split : int
        Number of the split, from 0.
    scores : dict of str to float
        Scores by name; NaN if a score is not defined, empty if the method failed.
    proba : ndarray of shape (n_test, n_classes) or None
        Predicted probabilities; None if the method failed.
    diagnostics : Diagnostics or None
        Diagnostics of the chains; None for methods without chains.
    notes : list of str
        Warnings of the method.
    failure : str or None
        Error of the method; None if it did not fail.
    y_test, test_rows : ndarray of shape (n_test,) or None
        True labels of the test rows, and their positions in the data; None for a result that was
        read from a file.
    """

    method: str
    split: int
    scores: dict[str, float]
    proba: np.ndarray | None
    diagnostics: Diagnostics | None = None
    notes: list[str] = field(default_factory=list)
    failure: str | None = None
    y_test: np.ndarray | None = None
    test_rows: np.ndarray | None = None


@dataclass
class Comparison:
    """The results of the methods on one data set so far, and the first split of the data."""

    data: DataSet
    first: Split
    outcomes: list[MethodOutcome] = field(default_factory=list)


def make_methods(
    settings: Settings, n_classes: int, n_features: int, random_state: int
) -> dict[str, Callable[[], Any]]:
    """Return functions that make the unfitted estimators, by the names in the table."""
    bayes = {
        "n_chains": settings.n_chains,
        "n_warmup": settings.n_warmup,
        "n_draws": settings.n_draws,
        "max_rhat": settings.max_rhat,
        "n_jobs": settings.n_jobs,
        "random_state": random_state,
    }

    def ep_ml() -> Any:
        """Return the EP ML classifier, one-vs-rest for more than two classes."""
        single = EPMLClassifier(random_state=random_state)
        return single if n_classes == 2 else OneVsRestClassifier(single)

    return {
        "Bayesian GP (this package)": lambda: BayesianGPClassifier(**bayes),
        "Bayesian GP, approximate (MCMC EP)": lambda: BayesianGPClassifier(
            sampler="marginal", **bayes
        ),
        "GP, hyper-parameters optimized (EP ML)": ep_ml,
        "SVM with Platt scaling": lambda: PlattSVC(
            **SVM_GRIDS[settings.svm_grid], random_state=random_state, n_jobs=settings.n_jobs
        ),
        # The default kernel of this classifier is fixed, so that nothing would be optimized. The
        # search starts at the mean of our default prior of the length-scale, because from 1 it
        # often ends at a bound.
        "GP classifier of scikit-learn": lambda: GaussianProcessClassifier(
            ConstantKernel() * RBF(np.sqrt(n_features)),
            n_restarts_optimizer=2,
            random_state=random_state,
        ),
    }


def run_method(name: str, estimator: Any, split: Split, index: int) -> MethodOutcome:
    """Fit, predict and score; warnings become notes, and an error becomes the failure."""
    if hasattr(estimator, "set_callbacks"):
        with suppress(ImportError):  # without rich there is no progress bar
            estimator.set_callbacks(ProgressBar())
    outcome = MethodOutcome(name, index, {}, None, y_test=split.y_test, test_rows=split.test_rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            start = time.perf_counter()
            estimator.fit(split.X_train, split.y_train)
            proba = estimator.predict_proba(split.X_test)
            seconds = time.perf_counter() - start
            scores = score(split.y_test, proba, estimator.classes_)
        except Exception as error:  # any error of one method must not stop the others
            outcome.failure = f"{type(error).__name__}: {' '.join(str(error).split())}"
        else:
            outcome.scores = {**scores, "seconds": seconds}
            outcome.proba = proba
            outcome.diagnostics = getattr(estimator, "diagnostics_", None)
    outcome.notes = list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
    return outcome


def score(y_true: np.ndarray, proba: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Compute all scores of predicted class probabilities; NaN if a score is not defined."""
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


def compare(
    data: DataSet,
    settings: Settings,
    repeats: int,
    random_state: int,
    report: Callable[[str], None],
) -> Iterator[MethodOutcome]:
    """Run every method on every split, one after the other.

    Yields
    ------
    MethodOutcome
        Each result when it is complete, so that a caller who is interrupted has all before.
    """
    for r in range(repeats):
        split = split_data(data, random_state + r)
        n_classes = len(np.unique(data.y))
        n_features = data.X.shape[1]
        methods = make_methods(settings, n_classes, n_features, random_state + r)
        for name, make in methods.items():
            report(f"[{data.name}] split {r + 1}/{repeats}: {name}")
            yield run_method(name, make(), split, r)
