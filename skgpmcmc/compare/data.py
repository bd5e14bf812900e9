"""Data sets of a comparison, bundled or from files, and their splits."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

#: Members of each class that every method needs for training, because the SVM is calibrated inside
#: cross-validation.
MIN_TRAINING_MEMBERS = 3
#: Cells that stand for a missing target, in lower case.
_MISSING_LABELS = ("", "na", "n/a", "nan", "?")
#: Largest size of a feature, as squares of larger numbers overflow.
_LARGEST_NUMBER = 1e150
#: Most classes that are numbers; more different numbers are a quantity, unless all are whole.
_MOST_NUMERIC_CLASSES = 20
#: Largest file that is read, in bytes.
_MOST_BYTES = 10**8
#: Most columns of a file.
_MOST_COLUMNS = 10_000
#: Most cells of a file, as each takes memory of its own.
_MOST_CELLS = 10**7
#: Most characters of a cell that a message quotes.
_MOST_CHARACTERS_QUOTED = 60
#: Most column names that a message lists.
_MOST_NAMES_QUOTED = 20


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
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    train_size: int
    balanced: bool


class Split(NamedTuple):
    """A training part and a test part, both standardized by the training part."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    test_rows: np.ndarray  # (n_test,), positions of the test rows in the data


def bundled_data(train_size: int = 100) -> list[DataSet]:
    """Return breast cancer, and digits 3 against 5, from scikit-learn's bundle."""
    cancer = load_breast_cancer()
    digits = load_digits()
    pair = np.isin(digits.target, (3, 5))
    return [
        DataSet("breast cancer", cancer.data, cancer.target, train_size, True),
        DataSet("digits 3 vs 5", digits.data[pair], digits.target[pair], train_size, True),
    ]


def csv_data(path: str | Path, target: str, train_size: int | None = None) -> DataSet:
    """Read a CSV file with a header row; every column but the target must be numeric.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8 with or without a byte-order mark; at most 100 MB, 10 000 columns and ten
        million cells.
    target : str
        Column with the class labels.
    train_size : int, optional
        Number of training rows; by default 70 % of the rows, and 500 at most.

    Raises
    ------
    ValueError
        If the file cannot be used; the message names the line and the remedy.
    """
    path = Path(path)
    header, body = _read_table(path)
    position = _find_target(header, target, path)
    features = [
        [_parse_number(cell, header[j], line, path) for j, cell in enumerate(row) if j != position]
        for line, row in body
    ]
    y = np.array([_parse_label(row[position], target, line, path) for line, row in body])
    _refuse_quantity(y, target, path)
    if train_size is None:
        train_size = min(500, int(0.7 * len(y)))
    return DataSet(path.stem, np.array(features), y, train_size, False)


def _read_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header, and the rows with the numbers of their lines; blank lines are skipped."""
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    try:
        # A record with quotes may take several lines; its number is that of the last line.
        rows = [(reader.line_num, row) for row in reader if "".join(row).strip() or len(row) > 1]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from error
    if not rows:
        raise ValueError(f"{path} is empty: there is no header row.")
    header = [name.strip() for name in rows[0][1]]
    body = rows[1:]
    if not body:
        raise ValueError(f"{path} has a header row and nothing below it: there are no data.")
    for line, row in body:
        if len(row) != len(header):
            raise ValueError(f"{path}, line {line} has {len(row)} cells, the header {len(header)}.")
    return header, body


def _read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, with or without a byte-order mark."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MOST_BYTES + 1)  # no more, as the size may be unknown
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): give a CSV file.") from error
    # A file that would take too much memory is refused before it is parsed.
    remedy = "leave out rows or columns, or use the estimators from Python."
    if len(raw) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES // 10**6} MB: {remedy}")
    head, _, _ = raw.partition(b"\n")
    if (n_columns := head.count(b",") + 1) > _MOST_COLUMNS:
        raise ValueError(
            f"{path} has {n_columns} columns, and at most {_MOST_COLUMNS} are read: {remedy}"
        )
    if (n_cells := raw.count(b",") + raw.count(b"\n")) > _MOST_CELLS:
        raise ValueError(
            f"{path} has about {n_cells} cells, and at most {_MOST_CELLS} are read: {remedy}"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}, line {line} holds the byte {raw[error.start]:#04x}, which is not UTF-8: save "
            "the file as CSV in UTF-8."
        ) from error


def _find_target(header: list[str], target: str, path: Path) -> int:
    """Return the position of the target column; all other columns are features."""
    repeated, times = Counter(header).most_common(1)[0]
    if times > 1:
        raise ValueError(
            f"{path}: {times} columns of the header are called {_quote(repeated)}: give each a "
            "name of its own."
        )
    if "" in header:
        raise ValueError(
            f"{path}: column {header.index('') + 1} of the header has no name: give it one, or "
            "leave the column out if it numbers the rows."
        )
    if target not in header:
        shown = ", ".join(_quote(name) for name in header[:_MOST_NAMES_QUOTED])
        more = f" and {left} more" if (left := len(header) - _MOST_NAMES_QUOTED) > 0 else ""
        raise ValueError(
            f"--target {target!r} is not a column of {path}; it has [{shown}]{more}. Commas must "
            "separate the columns."
        )
    if len(header) == 1:
        raise ValueError(
            f"{path} has no column but the target {target!r}: there is nothing to predict it from."
        )
    return header.index(target)


def _quote(text: str) -> str:
    """Return a cell in quotes, cut if it is long."""
    most = _MOST_CHARACTERS_QUOTED
    return repr(text) if len(text) <= most else f"{text[:most]!r}..."


def _parse_label(cell: str, column: str, line: int, path: Path) -> str:
    label = cell.strip()
    if label.lower() in _MISSING_LABELS:
        raise ValueError(
            f"{path}, line {line}, column {column!r}: the target is missing "
            f"({label!r}). Drop the row, or, if it is a class, give it another name."
        )
    return label


def _parse_number(cell: str, column: str, line: int, path: Path) -> float:
    try:
        # `float` also accepts 1_0 and digits of other scripts, which are not numbers in a table.
        value = float(cell) if cell.isascii() and "_" not in cell else np.nan
    except ValueError:
        value = np.nan
    where = f"{path}, line {line}, column {_quote(column)}: {_quote(cell)}"
    if not np.isfinite(value):
        raise ValueError(
            f"{where} is not a finite number. Encode categories as numbers and fill in or drop "
            "missing values first."
        )
    if abs(value) > _LARGEST_NUMBER:
        raise ValueError(f"{where} is too large to be standardized: choose another unit.")
    return value


def _refuse_quantity(y: np.ndarray, target: str, path: Path) -> None:
    """Raise an error for targets that are a quantity: mostly different, or many fractions."""
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
