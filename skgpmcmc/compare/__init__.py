"""Comparison of a Bayesian GP classifier with its rivals on the same splits of real data."""

from .csv_file import csv_data
from .data import BUNDLED, DataSet, bundled_data, check_data, split_data
from .methods import (
    PLAIN_NAMES,
    SCORES,
    SHOWN_SCORES,
    SVM_GRIDS,
    Comparison,
    MethodOutcome,
    Settings,
    compare,
    make_methods,
    score,
)
from .picture import no_plot_message, save_plot
from .report import as_json, convergence_report
from .table import ARROWS, KEY, can_rank, conclusion, loss_differences, score_table

__all__ = [
    "ARROWS",
    "BUNDLED",
    "KEY",
    "PLAIN_NAMES",
    "SCORES",
    "SHOWN_SCORES",
    "SVM_GRIDS",
    "Comparison",
    "DataSet",
    "MethodOutcome",
    "Settings",
    "as_json",
    "bundled_data",
    "can_rank",
    "check_data",
    "compare",
    "conclusion",
    "convergence_report",
    "csv_data",
    "loss_differences",
    "make_methods",
    "no_plot_message",
    "save_plot",
    "score",
    "score_table",
    "split_data",
]
