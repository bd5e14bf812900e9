"""Comparison of a Bayesian GP classifier with its rivals on the same splits of real data."""

from .data import DataSet, bundled_data, check_data, csv_data, split_data
from .methods import SCORES, Comparison, MethodOutcome, Settings, compare, make_methods, score
from .picture import no_plot_message, save_plot
from .report import as_json, convergence_report
from .table import KEY, conclusion, score_table

__all__ = [
    "KEY",
    "SCORES",
    "Comparison",
    "DataSet",
    "MethodOutcome",
    "Settings",
    "as_json",
    "bundled_data",
    "check_data",
    "compare",
    "conclusion",
    "convergence_report",
    "csv_data",
    "make_methods",
    "no_plot_message",
    "save_plot",
    "score",
    "score_table",
    "split_data",
]
