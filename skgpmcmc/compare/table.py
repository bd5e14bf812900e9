"""The table of a comparison, and what may be concluded from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .._table_repr import text_table
from .methods import SCORES, SMALL_IS_GOOD, MethodOutcome

#: Meaning of the arrows in a table.
ARROWS = "↑ large is good; ↓ small is good"
#: Meaning of all signs in a table.
KEY = f"{ARROWS}; * best mean of the column, as shown"

#: Decimals of a score in the table.
_DECIMALS_SHOWN = 3
#: Fewest splits whose standard error is itself known well enough to rank methods.
_FEWEST_SPLITS = 5


def can_rank(outcomes: Sequence[MethodOutcome]) -> bool:
    """Tell whether there are enough splits to say which method is best."""
    return _count_splits(outcomes) >= _FEWEST_SPLITS


def _count_splits(outcomes: Sequence[MethodOutcome]) -> int:
    return len({o.split for o in outcomes})


def score_table(outcomes: Sequence[MethodOutcome], scores: Sequence[str] = SCORES) -> str:
    """Return one line per method, with the mean +- standard error of each score over the splits.

    The best mean of each column is marked if there are enough splits. A method that failed has
    dashes. A method that failed on some splits has the mean over the others, and their number
    beside its name. A score that a result does not contain, because it is from an older file, is a
    dash, too.
    """
    names = list_methods(outcomes)
    head = [""]
    columns = [[_row_label(name, outcomes) for name in names]]
    for score in scores:
        values = [_get_scores(select_outcomes(name, outcomes), score) for name in names]
        head.append(f"{score.replace('_', ' ')} {'↓' if score in SMALL_IS_GOOD else '↑'}")
        marks = _mark_best(values, score) if can_rank(outcomes) else [""] * len(values)
        columns.append([_format_cell(v) + mark for v, mark in zip(values, marks, strict=True)])
    table = text_table(head, list(zip(*columns, strict=True)))
    return "\n".join(line.rstrip() for line in table.split("\n"))


def list_methods(outcomes: Sequence[MethodOutcome]) -> list[str]:
    """Return the names of the methods in the order of their first outcomes."""
    return list(dict.fromkeys(o.method for o in outcomes))


def select_outcomes(name: str, outcomes: Sequence[MethodOutcome]) -> list[MethodOutcome]:
    """Return the outcomes of one method."""
    return [o for o in outcomes if o.method == name]


def _row_label(name: str, outcomes: Sequence[MethodOutcome]) -> str:
    mine = select_outcomes(name, outcomes)
    done = sum(o.failure is None for o in mine)
    return f"{name} ({done} of {len(mine)} splits)" if 0 < done < len(mine) else name


def _get_scores(outcomes: Sequence[MethodOutcome], score: str) -> list[float]:
    return [o.scores.get(score, np.nan) for o in outcomes if o.failure is None]


def _format_cell(values: Sequence[float]) -> str:
    if not values or np.isnan(values).any():
        return "-"
    mean = f"{np.mean(values):.{_DECIMALS_SHOWN}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.{_DECIMALS_SHOWN}f}"


def _mark_best(values: Sequence[Sequence[float]], score: str) -> list[str]:
    """Return a star for the best of a column, as rounded in the table; none if all are equal.

    A method that failed on some splits is not compared, as these may be the hard splits.
    """
    most = max(map(len, values), default=0)
    means = [
        round(float(np.mean(v)), _DECIMALS_SHOWN) if len(v) == most > 0 else float("nan")
        for v in values
    ]
    compared = {mean for mean in means if not np.isnan(mean)}
    if len(compared) < 2:
        return [""] * len(values)
    best = min(compared) if score in SMALL_IS_GOOD else max(compared)
    return ["*" if mean == best else " " for mean in means]


def loss_differences(outcomes: Sequence[MethodOutcome]) -> str:
    """Return the log loss of each method minus that of the first, with paired standard errors.

    Losses are paired split by split, or, with one split, test row by test row. The text is empty
    for a single method.
    """
    losses = _paired_losses(outcomes)
    if len(losses) < 2:
        return ""
    first, *others = losses
    width = max(map(len, others))
    lines = [f"Log loss minus that of {first}, paired over {_name_pairs(outcomes, losses[first])}:"]
    for name in others:
        mean, error = _mean_and_error(losses[name] - losses[first])
        decimals = _DECIMALS_SHOWN
        lines.append(f"  {name.ljust(width)}  {mean:+.{decimals}f} ± {error:.{decimals}f}")
    return "\n".join(lines)


def conclusion(outcomes: Sequence[MethodOutcome]) -> str:
    """Say which methods are best by log loss, within a standard error; empty for a single method.

    Losses are paired as in `loss_differences`. A method is within a standard error of the best if
    the mean of the differences is at most their standard error. Few splits give no such sentence.
    """
    losses = _paired_losses(outcomes)
    if len(losses) < 2:
        return ""
    if not can_rank(outcomes):
        return _say_too_few(_count_splits(outcomes))
    best = min(losses, key=lambda name: float(np.mean(losses[name])))
    others = [name for name in losses if name != best]
    near = []
    for name in others:
        mean, error = _mean_and_error(losses[name] - losses[best])
        if mean <= error:
            near.append(name)
    subject = " and ".join([", ".join(near[:-1]), near[-1]] if len(near) > 1 else near)
    subject = subject or "no other method"
    verb = "are" if len(near) > 1 else "is"
    return (
        f"By log loss {best} is best, and {subject} {verb} within one standard error of it "
        f"(paired over {_name_pairs(outcomes, losses[best])})."
    )


def _say_too_few(n_splits: int) -> str:
    """Say why a comparison with few splits ranks no methods, and what to do."""
    remedy = f"Use more splits (at least --repeats {_FEWEST_SPLITS}) before you choose a method."
    if n_splits == 1:
        return (
            "One split is too few to say which method is best: another training set may change "
            f"the order. {remedy}"
        )
    return (
        f"{n_splits} splits are too few to say which method is best: a difference of a few "
        f"standard errors may be chance. {remedy}"
    )


def _name_pairs(outcomes: Sequence[MethodOutcome], losses: np.ndarray) -> str:
    """Name the units over which losses are paired."""
    n_splits = _count_splits(outcomes)
    return f"{n_splits} splits" if n_splits > 1 else f"{len(losses)} test rows of one split"


def _mean_and_error(values: np.ndarray) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _paired_losses(outcomes: Sequence[MethodOutcome]) -> dict[str, np.ndarray]:
    """Return the log losses, by split or by row, of the methods that finished all splits."""
    n_splits = _count_splits(outcomes)
    losses = {}
    for name in list_methods(outcomes):
        mine = select_outcomes(name, outcomes)
        if len(mine) == n_splits and all(o.failure is None for o in mine):
            by_split = np.array(_get_scores(mine, "log_loss"))
            losses[name] = by_split if n_splits > 1 else _row_losses(mine[0])
    return {name: loss for name, loss in losses.items() if len(loss) > 1}


def _row_losses(outcome: MethodOutcome) -> np.ndarray:
    """Return minus the log probability of each test label; empty if the labels are unknown."""
    if outcome.y_test is None or outcome.proba is None:
        return np.empty(0)
    column = np.searchsorted(np.unique(outcome.y_test), outcome.y_test)
    p = outcome.proba[np.arange(len(column)), column]
    return -np.log(np.maximum(p, np.finfo(float).eps))  # clipped as in scikit-learn's log_loss
