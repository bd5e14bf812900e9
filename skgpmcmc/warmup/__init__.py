"""Set-ups and warm-up: all work before the first kept draw."""

from . import time_limit
from .emulated import set_up_emulated
from .emulator.cheap import Emulated
from .executor import ITERATIONS_PER_EVALUATION, Done, Executor, InProcess, perform
from .mapped import Mapped, set_up_mapped
from .report import EmulatorReport, EmulatorSettings
from .schedule import Schedule
from .time_limit import TimeLimit, until
from .tuner import set_up_random_walk, set_up_sweep
from .work import (
    N_IMPORTANCE,
    Counts,
    Prepared,
    Request,
    Segment,
    acceptance_rates,
    at_work,
    joined_segments,
    sample,
    sample_all,
    sum_counts,
    switch,
    switch_all,
)

__all__ = [
    "ITERATIONS_PER_EVALUATION",
    "N_IMPORTANCE",
    "Counts",
    "Done",
    "Emulated",
    "EmulatorReport",
    "EmulatorSettings",
    "Executor",
    "InProcess",
    "Mapped",
    "Prepared",
    "Request",
    "Schedule",
    "Segment",
    "TimeLimit",
    "acceptance_rates",
    "at_work",
    "joined_segments",
    "perform",
    "sample",
    "sample_all",
    "set_up_emulated",
    "set_up_mapped",
    "set_up_random_walk",
    "set_up_sweep",
    "sum_counts",
    "switch",
    "switch_all",
    "time_limit",
    "until",
]
