"""Random cases of `tests.fuzz`, and that it would notice a fault."""

import numpy as np
import pytest

from skgpmcmc import BayesianGPRegressor

from .. import fuzz
from ..helpers import seeded

_CASES = 20


@pytest.mark.statistical
@pytest.mark.parametrize("block", range(3))
def test_nothing_odd_comes_out(block):
    cases = range(block * _CASES, (block + 1) * _CASES)
    assert [fault for case in cases for fault in fuzz.run_case(seeded(0), case)] == []


def test_an_error_from_elsewhere_is_a_fault():
    with pytest.raises(np.linalg.LinAlgError) as raw:
        np.linalg.cholesky(-np.eye(2))
    assert fuzz.judged_error(0, "fit", raw.value, []).kind == "raw error"


def test_an_error_that_names_no_argument_is_a_fault():
    with pytest.raises(ValueError, match="n_draws") as good:
        BayesianGPRegressor(n_draws=0).fit([[0.0], [1.0]], [0.0, 1.0])
    assert fuzz.judged_error(0, "fit", good.value, ["n_draws"]) is None
    good.value.args = ("something is wrong, nobody knows what",)
    assert fuzz.judged_error(0, "fit", good.value, ["n_draws"]).kind == "unhelpful message"


def test_results_that_are_not_finite_are_faults():
    assert fuzz.finite(np.ones(3), "predict")
    assert not fuzz.finite((np.ones(3), np.array([np.nan])), "predict")
    assert not fuzz.finite(np.array([1.1]), "predict_proba")
    assert fuzz.finite(np.array([-np.inf]), "log_predictive_density")
    assert not fuzz.finite(np.array([np.inf]), "log_predictive_density")
