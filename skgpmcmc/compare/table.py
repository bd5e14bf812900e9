"""The table of a comparison, and the sentence below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .methods import SCORES, SMALL_IS_GOOD, Outcome

#: What the signs in a table mean.
KEY = "↑ large is good; ↓ small is good; * best mean of the column, as shown"

#: Decimals of a score.
_DIGITS = 3

#: Of fewer splits a standard error is itself hardly known.
_FEW_SPLITS = 5


def score_table(outcomes: Sequence[Outcome]) -> str:
    """One line per method: the score, or mean +- standard error over splits; the best marked.

    A method that failed has dashes; one that failed on some splits has the mean over the others,
    and its name says over how many. A score that is not there, as in an older file, is a dash, too.
    """
    names = _methods(outcomes)
    columns = [["", *(_row_label(name, outcomes) for name in names)]]
    for score in SCORES:
        values = [_values(_of(name, outcomes), score) for name in names]
        head = f"{score.replace('_', ' ')} {'↓' if score in SMALL_IS_GOOD else '↑'}"
        marks = _marks(values, score)
        columns.append([head, *(_cell(v) + mark for v, mark in zip(values, marks, strict=True))])
    widths = [max(map(len, column)) for column in columns]
    lines = [
        "  ".join(
            cell.ljust(width) if j == 0 else cell.rjust(width)
            for j, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in zip(*columns, strict=True)
    ]
    return "\n".join(line.rstrip() for line in lines)


def _methods(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(o.method for o in outcomes))


def _of(name: str, outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [o for o in outcomes if o.method == name]


def _row_label(name: str, outcomes: Sequence[Outcome]) -> str:
    mine = _of(name, outcomes)
    done = sum(o.failure is None for o in mine)
    return f"{name} ({done} of {len(mine)} splits)" if 0 < done < len(mine) else name


def _values(outcomes: Sequence[Outcome], score: str) -> list[float]:
    return [o.scores.get(score, np.nan) for o in outcomes if o.failure is None]


def _cell(values: Sequence[float]) -> str:
    if not values or np.isnan(values).any():
        return "-"
    mean = f"{np.mean(values):.{_DIGITS}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{_DIGITS}f}"


def _marks(values: Sequence[Sequence[float]], score: str) -> list[str]:
    """Stars for the best of a column, as rounded in the table; blanks where all are alike.

    A method that failed on some splits is not compared: those may have been the hard ones.
    """
    most = max(map(len, values), default=0)
    means = [
        round(float(np.mean(v)), _DIGITS) if len(v) == most > 0 else float("nan") for v in values
    ]
    found = {mean for mean in means if not np.isnan(mean)}
    if len(found) < 2:
        return [""] * len(values)
    best = min(found) if score in SMALL_IS_GOOD else max(found)
    return ["*" if mean == best else " " for mean in means]


def conclusion(outcomes: Sequence[Outcome]) -> str:
    """Say which methods are best by log loss, within a standard error; empty if nothing compares.

    A method counts as within a standard error of the best if the mean of its losses less those of
    the best is at most the standard error of that mean. Losses are paired: split by split, or, with
    one split, test row by test row, which leaves out what another training set would change.
    """
    n_splits = len({o.split for o in outcomes})
    losses = _paired_losses(outcomes, n_splits)
    if len(losses) < 2:
        return ""
    best = min(losses, key=lambda name: float(np.mean(losses[name])))
    others = [name for name in losses if name != best]
    near = [name for name in others if _is_within_one_error(losses[name] - losses[best])]
    subject = _in_words(near) if near else "no other method"
    verb = "are" if len(near) > 1 else "is"
    units = f"{n_splits} splits" if n_splits > 1 else f"{len(losses[best])} test rows of one split"
    if 1 < n_splits < _FEW_SPLITS:
        units += ", which are few to judge by"
    return (
        f"By log loss {best} is best, and {subject} {verb} within one standard error of it "
        f"(paired over {units})."
    )


def _paired_losses(outcomes: Sequence[Outcome], n_splits: int) -> dict[str, np.ndarray]:
    """Log losses of the methods that did all splits: of each split, or of each row of the one."""
    losses = {}
    for name in _methods(outcomes):
        mine = _of(name, outcomes)
        if len(mine) == n_splits and all(o.failure is None for o in mine):
            by_split = np.array(_values(mine, "log_loss"))
            losses[name] = by_split if n_splits > 1 else _row_losses(mine[0])
    return {name: loss for name, loss in losses.items() if len(loss) > 1}


def _row_losses(outcome: Outcome) -> np.ndarray:
    """Minus log probability of the label of each test row; empty where labels are not kept."""
    if outcome.y_test is None or outcome.proba is None:
        return np.empty(0)
    column = np.searchsorted(np.unique(outcome.y_test), outcome.y_test)
    p = outcome.proba[np.arange(len(column)), column]
    return -np.log(np.maximum(p, np.finfo(float).eps))  # as scikit-learn's log_loss does


def _is_within_one_error(differences: np.ndarray) -> bool:
    error = np.std(differences, ddof=1) / np.sqrt(len(differences))
    return bool(np.mean(differences) <= error)


def _in_words(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
