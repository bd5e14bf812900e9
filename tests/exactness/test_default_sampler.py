"""The default sampler on the problems of its harness: one fit each, against the committed runs.

`benchmarks/default.py` has ten seeds of every problem, and its committed runs say what is usual.
Among 400 of its fits none had less than a sixth of the usual effective draws per evaluation, none
stayed for more than 33 iterations, and no set-up took twice the usual number of evaluations. The
limits here are wider, so that a seed may be unlucky, but a chain that is stuck is found.
"""

import numpy as np
import pytest

from benchmarks.common import load_results
from benchmarks.default import PROBLEMS, measure

from ..helpers import seeded

#: Eleven problems that take less than twenty seconds each.
NAMES = [
    "moons 50",
    "cancer 100",
    "wine, class 2",
    "simulated d = 2",
    "simulated d = 10",
    "moons 50, logit",
    "crabs, Poisson",
    "regression ARD d = 20",
    "cancer 569",
    "iris, softmax",
    "diabetes 60, default kernel",
]
LEAST_SHARE = 0.1
LONGEST_STAY = 100
LARGEST_SHARE = 3.0


def usual(name, key):
    """Mean over the committed runs."""
    runs = load_results("default")["after"][name]
    return float(np.mean([run[key] for run in runs.values()]))


@pytest.mark.statistical
@pytest.mark.parametrize("name", NAMES)
def test_default_fit_is_as_efficient_as_the_committed_runs(name, find_data):
    if name == "crabs, Poisson":
        find_data("horseshoe_crabs.csv")
    found = measure(PROBLEMS[name], seeded(50))
    assert found["warnings"] == []
    assert found["max_r_hat"] <= 1.01
    assert found["longest_stay"] <= LONGEST_STAY
    assert found["per_evaluation"] >= LEAST_SHARE * usual(name, "per_evaluation")
    before = found["n_evaluations_before"]
    assert before <= LARGEST_SHARE * usual(name, "n_evaluations_before")
