"""Rows of a study that is made piece by piece: a file that can be continued."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib


@dataclass(frozen=True)
class Rows:
    """A file of comma-separated values, to which rows are appended as they come.

    Attributes
    ----------
    path : Path
    key : sequence of str
        Columns that say what a row is of, in the order of a task.
    columns : sequence of str
        All other columns; those not in `words` hold numbers.
    words : sequence of str
        Columns of text.
    whole : sequence of str
        Columns of integers.
    """

    path: Path
    key: Sequence[str]
    columns: Sequence[str]
    words: Sequence[str]
    whole: Sequence[str]

    def read(self) -> list[dict[str, Any]]:
        """All rows so far; numbers as floats, nothing as NaN."""
        if not self.path.exists():
            return []
        with self.path.open(newline="", encoding="utf-8") as file:
            return [{k: self._value(k, v) for k, v in row.items()} for row in csv.DictReader(file)]

    def _value(self, column: str, text: str) -> Any:
        if column in self.words:
            return text
        return int(text) if column in self.whole else float(text or "nan")

    def run(
        self, tasks: Iterable[tuple[Any, ...]], one: Callable[..., dict[str, Any]], n_jobs: int
    ) -> None:
        """Make the rows that are missing; `one` is given a task and returns the other columns."""
        done = {tuple(row[name] for name in self.key) for row in self.read()}
        missing = [task for task in tasks if task not in done]
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, (*self.key, *self.columns), lineterminator="\n")
            if new:
                writer.writeheader()
            results = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(
                joblib.delayed(_row)(self.key, task, one) for task in missing
            )
            for row in results:
                writer.writerow(
                    {k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()}
                )
                file.flush()


def _row(
    key: Sequence[str], task: tuple[Any, ...], one: Callable[..., dict[str, Any]]
) -> dict[str, Any]:
    return {**dict(zip(key, task, strict=True)), **one(*task)}
