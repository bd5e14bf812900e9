"""Data sets from CSV files: all faults of a file are found before the file is refused."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .data import MIN_MEMBERS, MIN_TRAINING_MEMBERS, DataSet

#: Cells that stand for a missing value, in lower case.
_MISSING = ("", "na", "n/a", "nan", "?")
#: Largest size of a feature, as squares of larger numbers overflow.
_LARGEST_NUMBER = 1e150
#: Most classes that are numbers; more different numbers are a quantity, unless all are whole.
_MOST_NUMERIC_CLASSES = 20
#: Most different texts of a column that is encoded; more are names rather than categories.
_MOST_CATEGORIES = 50
#: Training rows of a file by default: this share of all rows, and no more than the number.
_TRAINING_SHARE = 0.7
_MOST_TRAINING_ROWS = 500
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
#: Most faults that a message lists.
_MOST_FAULTS_LISTED = 20
#: Most classes or lines that a fault names.
_MOST_PLACES_NAMED = 5


@dataclass(frozen=True)
class _Row:
    """A row below the header, and its line in the file."""

    line: int
    cells: list[str]


def csv_data(
    path: str | Path,
    target: str,
    train_size: int | None = None,
    *,
    encode: bool = False,
    drop_missing: bool = False,
    drop_rare: bool = False,
    drop_columns: Sequence[str] = (),
) -> DataSet:
    """Read a CSV file with a header row; every column but the target is a feature.

    Parameters
    ----------
    path : str or Path
        The file, in UTF-8 with or without a byte-order mark; at most 100 MB, 10 000 columns and ten
        million cells.
    target : str
        Column with the class labels.
    train_size : int, optional
        Number of training rows; by default 70 % of the rows, and 500 at most.
    encode : bool
        Whether columns of text become columns of zeros and ones, one for each text.
    drop_missing : bool
        Whether rows with missing values are left out.
    drop_rare : bool
        Whether the rows of classes with too few members are left out.
    drop_columns : sequence of str
        Columns that are not used, such as names and numbers of rows.

    Raises
    ------
    ValueError
        If the file cannot be used; the message lists all faults, with a remedy for each.
    """
    path = Path(path)
    header, rows = _read_table(path)
    faults = _find_header_faults(header) + _find_length_faults(header, rows)
    faults += _find_absent_columns(header, target, drop_columns)
    if faults:  # cells cannot be told apart
        raise ValueError(_list_faults(path, faults))
    notes = []
    used = [j for j, name in enumerate(header) if name not in drop_columns]
    header = [header[j] for j in used]
    rows = [_Row(row.line, [row.cells[j].strip() for j in used]) for row in rows]
    if drop_missing:
        rows, notes = _leave_out_incomplete(rows, header, path)
    position = header.index(target)
    y, faults = _read_labels(rows, position, target)
    blocks = []
    for j, name in enumerate(header):
        if j != position:
            block, own_faults, own_notes = _read_feature(rows, j, name, encode)
            blocks.append(block)
            faults += own_faults
            notes += own_notes
    quantity = _find_quantity(y, target)
    kept, rare = (np.ones(len(y), bool), []) if quantity else _find_rare_classes(y, train_size)
    faults += quantity or _find_class_faults(y, kept, rare, target, drop_rare)
    if faults:
        raise ValueError(_list_faults(path, faults))
    if rare:
        notes.append(f"rows of rare classes are left out: {', '.join(rare)}")
    X, y = np.hstack(blocks)[kept], y[kept]
    train_size = _choose_train_size(y) if train_size is None else train_size
    return DataSet(path.stem, X, y, train_size, False, tuple(notes))


# --- the table ------------------------------------------------------------------------------------


def _read_table(path: Path) -> tuple[list[str], list[_Row]]:
    """Return the header and the rows; blank lines are skipped."""
    reader = csv.reader(io.StringIO(_read_text(path), newline=""), strict=True)
    try:
        # A record with quotes may take several lines; its number is that of the last line.
        rows = [
            _Row(reader.line_num, row) for row in reader if "".join(row).strip() or len(row) > 1
        ]
    except csv.Error as error:
        raise ValueError(f"{path}, line {reader.line_num}: {error}.") from error
    if not rows:
        raise ValueError(f"{path} is empty: there is no header row.")
    if len(rows) == 1:
        raise ValueError(f"{path} has a header row and nothing below it: there are no data.")
    return [name.strip() for name in rows[0].cells], rows[1:]


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


def _find_header_faults(header: list[str]) -> list[str]:
    """Describe repeated and missing names."""
    faults = []
    for name, times in Counter(header).items():
        if name and times > 1:
            faults.append(
                f"{times} columns of the header are called {_quote(name)}: give each a name of its "
                "own"
            )
    if "" in header:
        places = [str(j + 1) for j, name in enumerate(header) if not name]
        faults.append(
            f"the header has no name for column {_list_some(places)}: give it one, or leave it "
            "out of the file if it numbers the rows"
        )
    return faults


def _find_length_faults(header: list[str], rows: list[_Row]) -> list[str]:
    """Describe the rows that have more or fewer cells than the header."""
    wrong = [row for row in rows if len(row.cells) != len(header)]
    if not wrong:
        return []
    lengths = _list_some([f"line {row.line} has {len(row.cells)} cells" for row in wrong])
    return [f"{lengths}, the header {len(header)}: complete the rows, or quote cells with commas"]


def _find_absent_columns(header: list[str], target: str, drop_columns: Sequence[str]) -> list[str]:
    """Describe options that name no column, or the target as a column that is not used."""
    shown = ", ".join(_quote(name) for name in header[:_MOST_NAMES_QUOTED])
    more = f" and {left} more" if (left := len(header) - _MOST_NAMES_QUOTED) > 0 else ""
    wanted = [("--target", target), *(("--drop-columns", name) for name in drop_columns)]
    faults = [
        f"{option} {name!r} is not a column; the columns are [{shown}]{more}. Choose one of them. "
        "Commas must separate the columns"
        for option, name in wanted
        if name not in header
    ]
    if target in drop_columns:
        faults.append(f"--drop-columns holds the target {target!r}: name features only")
    elif not set(header) - {target, *drop_columns}:
        faults.append(
            f"no column but the target {target!r} is left: there is nothing to predict it from"
        )
    return faults


def _leave_out_incomplete(
    rows: list[_Row], header: list[str], path: Path
) -> tuple[list[_Row], list[str]]:
    """Return the rows without missing values, and a note if there are others."""
    complete = [row for row in rows if not any(map(_is_missing, row.cells))]
    if not complete:
        n_missing = [sum(_is_missing(row.cells[j]) for row in rows) for j in range(len(header))]
        worst = header[int(np.argmax(n_missing))]
        raise ValueError(
            f"{path}: --drop-missing leaves out every row. Column {_quote(worst)} has most missing "
            f"values, {max(n_missing)} of {len(rows)}: leave such columns out by --drop-columns."
        )
    n_left_out = len(rows) - len(complete)
    are = "is" if n_left_out == 1 else "are"
    note = f"{_count(n_left_out, 'row')} with missing values {are} left out"
    return complete, [note] if n_left_out else []


# --- its columns ----------------------------------------------------------------------------------


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING


def _parse_number(cell: str) -> float | None:
    """Return the number in a cell, or None for text."""
    # `float` also accepts 1_0 and digits of other scripts, which are not numbers in a table.
    if not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _read_labels(rows: list[_Row], position: int, target: str) -> tuple[np.ndarray, list[str]]:
    """Return the labels, and a fault if some are missing; a missing label is not returned."""
    labels = [row.cells[position] for row in rows]
    missing = [row.line for row, label in zip(rows, labels, strict=True) if _is_missing(label)]
    y = np.array([label for label in labels if not _is_missing(label)], dtype=str)
    if not missing:
        return y, []
    return y, [
        f"column {_quote(target)}: the target is missing in {_name_lines(missing)}: add "
        "--drop-missing to leave out such rows, or, if it is a class, give it another name"
    ]


def _find_quantity(y: np.ndarray, target: str) -> list[str]:
    """Describe targets that are a quantity: mostly different numbers, or many fractions."""
    try:
        values = y.astype(float)
    except ValueError:
        return []
    n_different = len(np.unique(values))
    are_whole = np.all(values == np.round(values))
    if n_different > 2 and (
        2 * n_different > len(values) or (n_different > _MOST_NUMERIC_CLASSES and not are_whole)
    ):
        return [
            f"the target {target!r} holds {n_different} different numbers in {len(values)} rows. "
            "These numbers are a quantity, and this command compares classifiers: choose a column "
            "of classes, or use a regressor such as BayesianGPRegressor"
        ]
    return []


def _read_feature(
    rows: list[_Row], j: int, name: str, encode: bool
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return a column of numbers, or an encoded one, (n, k), its faults and its notes.

    A column is text if at most half of its cells are numbers; text in other columns is a fault.
    """
    cells = [row.cells[j] for row in rows]
    lines = np.array([row.line for row in rows])
    missing = np.array([_is_missing(cell) for cell in cells], dtype=bool)
    parsed = [_parse_number(cell) for cell in cells]
    is_text = np.array([value is None for value in parsed], dtype=bool) & ~missing
    column = f"column {_quote(name)}"
    faults = []
    if missing.any():
        faults.append(
            f"{column}: the value is missing in {_name_lines(lines[missing])}: add --drop-missing "
            "to leave out such rows, or fill in values"
        )
    if 2 * is_text.sum() >= max((~missing).sum(), 1):
        block, fault, note = _encode_text(np.array(cells), is_text, lines, name, encode)
        return block, faults + fault, note
    values = np.array([0.0 if value is None else value for value in parsed])
    values[missing] = 0.0
    infinite = ~np.isfinite(values)
    too_large = np.abs(np.where(infinite, 0.0, values)) > _LARGEST_NUMBER
    for wrong, problem in [
        (is_text | infinite, "not a finite number: correct the cells, or leave out their rows"),
        (too_large, "too large to be standardized: choose another unit"),
    ]:
        if wrong.any():
            example = _quote(cells[int(wrong.argmax())])
            faults.append(f"{column}: {example} in {_name_lines(lines[wrong])} is {problem}")
    return values[:, None], faults, []


def _encode_text(
    cells: np.ndarray, is_text: np.ndarray, lines: np.ndarray, name: str, encode: bool
) -> tuple[np.ndarray, list[str], list[str]]:
    """Return zeros and ones for each text of a column, (n, k); two texts need one column only."""
    column = f"column {_quote(name)}"
    first = int(is_text.argmax())
    texts = np.unique([cell for cell in cells if not _is_missing(cell)])
    if len(texts) > min(_MOST_CATEGORIES, max(2, len(cells) // 2)):
        fault = (
            f"{column}: {_quote(str(cells[first]))} in line {lines[first]} is text, and "
            f"{len(texts)} texts in {_count(len(cells), 'row')} are too many categories: add "
            f"--drop-columns {name!r} to leave the column out"
        )
        return np.empty((len(cells), 0)), [fault], []
    if not encode:
        fault = (
            f"{column}: {_quote(str(cells[first]))} in line {lines[first]} is not a number, but "
            f"text: add --encode to use its {_count(len(texts), 'text')} as categories"
        )
        return np.empty((len(cells), 0)), [fault], []
    used = texts[1:] if len(texts) == 2 else texts
    block = (cells[:, None] == used).astype(float)
    return block, [], [f"{column} is encoded as {_count(len(used), 'column')} of zeros and ones"]


# --- its classes ----------------------------------------------------------------------------------


def _choose_train_size(y: np.ndarray) -> int:
    """Return the default number of training rows, enough for each class where possible."""
    least = MIN_TRAINING_MEMBERS * len(np.unique(y))
    return min(_MOST_TRAINING_ROWS, max(int(_TRAINING_SHARE * len(y)), least))


def _find_rare_classes(y: np.ndarray, train_size: int | None) -> tuple[np.ndarray, list[str]]:
    """Return which rows stay if rare classes are left out, and the rare classes with their sizes.

    A class is rare if it has too few rows, or if a training part that is large enough for all
    classes has too few of them, as each class has its share of the training part.
    """
    kept = np.ones(len(y), dtype=bool)
    rare = []
    while kept.any():
        classes, n_members = np.unique(y[kept], return_counts=True)
        size = _choose_train_size(y[kept]) if train_size is None else train_size
        few = n_members < MIN_MEMBERS
        if not few.any() and size >= MIN_TRAINING_MEMBERS * len(classes):
            few = n_members * min(size, kept.sum()) < MIN_TRAINING_MEMBERS * kept.sum()
        if not few.any():
            break
        rare += [
            f"{_quote(str(label))} ({_count(n, 'row')})"
            for label, n in zip(classes[few], n_members[few], strict=True)
        ]
        kept &= ~np.isin(y, classes[few])
    return kept, rare


def _find_class_faults(
    y: np.ndarray, kept: np.ndarray, rare: list[str], target: str, drop_rare: bool
) -> list[str]:
    """Describe rare classes, or, if they are left out, a lack of other classes."""
    classes = np.unique(y[kept] if drop_rare else y)
    if len(classes) < 2:
        held = f"one class only, {str(classes[0])!r}" if len(classes) else "no class"
        rest = "without its rare classes " if drop_rare and rare else ""
        return [f"{rest}the target {target!r} holds {held}: there is nothing to tell apart"]
    if not rare or drop_rare:
        return []
    number = "1 class" if len(rare) == 1 else f"{len(rare)} classes"
    return [
        f"the target {target!r} has {number} with too few rows: {_list_some(rare)}. Each class "
        f"needs {MIN_TRAINING_MEMBERS} rows for training and one for testing: add --drop-rare to "
        "leave out such classes, or merge them with others"
    ]


# --- messages -------------------------------------------------------------------------------------


def _list_faults(path: Path, faults: list[str]) -> str:
    """Return one sentence for one fault, and a list for more."""
    if len(faults) == 1:
        return f"{path}: {faults[0]}."
    shown = [f"  * {fault}." for fault in faults[:_MOST_FAULTS_LISTED]]
    if len(faults) > _MOST_FAULTS_LISTED:
        shown.append(f"  * ... and {len(faults) - _MOST_FAULTS_LISTED} more.")
    options = [o for o in ("--encode", "--drop-missing", "--drop-rare") if o in " ".join(faults)]
    if options and all(any(f"add {o}" in fault for o in options) for fault in faults):
        shown.append(f"These options mend all of them: {' '.join(options)}")
    return "\n".join([f"{path} has {len(faults)} faults:", *shown])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _list_some(places: list[str]) -> str:
    """Return the first of several places, and the number of the others."""
    more = len(places) - _MOST_PLACES_NAMED
    shown = ", ".join(places[:_MOST_PLACES_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def _name_lines(lines: list[int] | np.ndarray) -> str:
    """Return the numbers of the first few lines."""
    return f"line{'s' if len(lines) > 1 else ''} {_list_some([str(line) for line in lines])}"


def _quote(text: str) -> str:
    """Return a cell in quotes, cut if it is long."""
    most = _MOST_CHARACTERS_QUOTED
    return repr(text) if len(text) <= most else f"{text[:most]!r}..."
