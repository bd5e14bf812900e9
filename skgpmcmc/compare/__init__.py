"""The main job: a Bayesian GP classifier beside its rivals, on the same splits of real data."""

from .data import DataSet, bundled_data, check_data, csv_data, split_data
from .methods import SCORES, Comparison, Outcome, Settings, compare, make_methods, score
from .picture import save_plot, why_no_plot
from .report import as_json, convergence_report
from .table import KEY, conclusion, score_table

__all__ = [
    "KEY",
    "SCORES",
    "Comparison",
    "DataSet",
    "Outcome",
    "Settings",
    "as_json",
    "bundled_data",
    "check_data",
    "compare",
    "conclusion",
    "convergence_report",
    "csv_data",
    "make_methods",
    "save_plot",
    "score",
    "score_table",
    "split_data",
    "why_no_plot",
]
