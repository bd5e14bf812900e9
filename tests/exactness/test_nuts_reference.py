"""Chains against those of an independent program: NumPyro's NUTS, run once and kept.

`benchmarks.nuts_reference` made the file, and made sure that the models are the same.
"""

import numpy as np
import pytest

from benchmarks.common import load_results
from benchmarks.nuts_reference import PROBLEMS
from skgpmcmc.approximations import EP, Exact
from skgpmcmc.samplers import Collapsed, PseudoMarginal
from skgpmcmc.testing import PROBABILITIES, Reference

from .test_grid_posterior import check_exact, run_chains

SAMPLERS = {
    "probit": (PseudoMarginal(), EP()),
    "poisson": (PseudoMarginal(), EP()),
    "regression": (Collapsed(), Exact()),
}
RESULTS = load_results("nuts_reference")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.statistical) if name == "poisson" else name
        for name in PROBLEMS
    ],
)
def test_the_default_sampler_agrees_with_nuts(name):
    """Means and quantiles of the logs of hyper-parameters, with the errors of both."""
    result, model = RESULTS[name], PROBLEMS[name].model
    assert list(model.hyperprior.names) == result["hyperparameters"]
    assert tuple(result["probabilities"]) == PROBABILITIES
    assert max(result["r_hat"]) < 1.01
    reference = Reference(
        *(np.array(result[key]) for key in ("mean_log", "quantiles_log")),
        *(np.array(result[key]) for key in ("mean_log_error", "quantiles_log_error")),
    )
    draws = run_chains(model, *SAMPLERS[name], 250)
    check_exact(draws.theta, reference, 300.0)
