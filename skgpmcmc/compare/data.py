"""Data sets of a comparison, those that come with scikit-learn, and splits of any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

#: Members of each class that every method needs for training, because the SVM is calibrated inside
#: cross-validation.
MIN_TRAINING_MEMBERS = 3
#: Members of each class in the training part and the test part together.
MIN_MEMBERS = MIN_TRAINING_MEMBERS + 1


@dataclass(frozen=True)
class DataSet:
    """A classification problem, and how it is split.

    Attributes
    ----------
    name : str
        Name in the table.
    X : ndarray of shape (n, d)
        Features.
    y : ndarray of shape (n,)
        Class labels.
    train_size : int
        Number of training rows; the rest is for testing.
    balanced : bool
        Whether each class has equally many training rows, or its share of them.
    notes : tuple of str
        What was left out or encoded when the data were read.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    train_size: int
    balanced: bool
    notes: tuple[str, ...] = ()


class Split(NamedTuple):
    """A training part and a test part, both standardized by the training part."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    test_rows: np.ndarray  # (n_test,), positions of the test rows in the data


def _load_digit_pair() -> tuple[np.ndarray, np.ndarray]:
    """Return the images of threes and fives, and their digits."""
    X, y = load_digits(return_X_y=True)
    pair = np.isin(y, (3, 5))
    return X[pair], y[pair]


#: Name in the table, and loader, of the data sets that come with scikit-learn, by their option.
BUNDLED: dict[str, tuple[str, Callable[[], tuple[np.ndarray, np.ndarray]]]] = {
    "breast-cancer": ("breast cancer", lambda: load_breast_cancer(return_X_y=True)),
    "digits": ("digits 3 vs 5", _load_digit_pair),
}


def bundled_data(train_size: int = 100, options: Sequence[str] = tuple(BUNDLED)) -> list[DataSet]:
    """Return data sets from scikit-learn's bundle, by default breast cancer, and digits 3 and 5."""
    data_sets = []
    for name, load in (BUNDLED[option] for option in options):
        X, y = load()
        data_sets.append(DataSet(name, X, y, train_size, balanced=True))
    return data_sets


def check_data(data: DataSet, repeats: int, random_state: int) -> None:
    """Raise an error for data on which a method would fail, before any method is fitted.

    Each class needs `MIN_TRAINING_MEMBERS` members in the training part of each split, and one in
    its test part, because the AUC is undefined otherwise.

    Raises
    ------
    ValueError
        The message names the data, and the class or ``--train-size``.
    """
    classes, n_members = np.unique(data.y, return_counts=True)
    n_classes = len(classes)
    n_rows = len(data.y)
    if n_classes == 1:
        raise ValueError(
            f"{data.name!r} holds one class only, {str(classes[0])!r}: there is nothing to tell "
            "apart."
        )
    rare = np.flatnonzero(n_members < MIN_MEMBERS)
    if rare.size and data.train_size < n_rows:
        listed = ", ".join(f"{str(classes[c])!r} ({n_members[c]} row(s))" for c in rare[:5])
        raise ValueError(
            f"{data.name!r} has {rare.size} class(es) with fewer than {MIN_MEMBERS} rows: {listed}"
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
    """Split the data, and standardize both parts by the training part."""
    train, test = _split_rows(data, random_state)
    scaler = StandardScaler().fit(data.X[train])
    X_train = scaler.transform(data.X[train])
    X_test = scaler.transform(data.X[test])
    return Split(X_train, data.y[train], X_test, data.y[test], test)


def _split_rows(data: DataSet, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the training rows and of the test rows."""
    rows = np.arange(len(data.y))
    if not data.balanced:
        return train_test_split(
            rows, train_size=data.train_size, stratify=data.y, random_state=random_state
        )
    rng = np.random.default_rng(random_state)
    classes = np.unique(data.y)
    n = data.train_size // len(classes)
    train = [rng.choice(np.flatnonzero(data.y == c), n, replace=False) for c in classes]
    return np.concatenate(train), np.setdiff1d(rows, np.concatenate(train))
