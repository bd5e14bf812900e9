"""Noise of the likelihood estimate at the posterior mode, against figures from a prototype."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks.common import default_model, simulate_binary
from benchmarks.estimator_noise import log_sd_at_mode

from ..helpers import seeded

pytestmark = pytest.mark.statistical

# Standard deviation of log p-hat(y | theta) on Pima that an independent prototype measured.
PROTOTYPE_PIMA = {("laplace", 16): 0.22, ("laplace", 64): 0.07, ("ep", 16): 0.07, ("ep", 64): 0.03}


def test_noise_of_estimates_on_pima_is_within_twice_the_prototypes(find_data):
    table = np.genfromtxt(find_data("pima.csv"), delimiter=",", skip_header=1)
    X = (table[:, :-1] - table[:, :-1].mean(axis=0)) / table[:, :-1].std(axis=0)
    model = default_model(X, np.where(table[:, -1] > 0, 1.0, -1.0))
    with threadpool_limits(1):
        measured = {name: log_sd_at_mode(model, name, (16, 64)) for name in ("laplace", "ep")}
    for (name, n_importance), expected in PROTOTYPE_PIMA.items():
        ratio = measured[name][n_importance] / expected
        assert 0.5 < ratio < 2.0, (name, n_importance, measured)


def test_estimates_around_ep_are_less_noisy_than_around_laplace():
    models = [default_model(*simulate_binary(200, 2, 2.0, -1.5, seeded(k))) for k in range(5)]
    medians = {}
    with threadpool_limits(1):
        for name in ("ep", "laplace"):
            runs = [log_sd_at_mode(model, name, (16, 64)) for model in models]
            medians[name] = [np.median([run[n] for run in runs]) for n in (16, 64)]
    assert np.all(np.less(medians["ep"], medians["laplace"])), medians
