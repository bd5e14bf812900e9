"""What the warning of convergence says of chains at different multiples of a period."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    ExpSineSquared,
    Kernel,
)

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor
from skgpmcmc.estimators._periods import periods_message
from skgpmcmc.samplers import PseudoMarginal

PERIODIC = ConstantKernel() * ExpSineSquared()


def fitted(kernel, medians, r_hat, position=2, n_parameters=3):
    """What is left of a fitted model whose chains have these medians at one position of theta."""
    theta = np.random.default_rng(0).normal(0.0, 1e-5, (len(medians), 50, n_parameters))
    theta[:, :, position] += np.log(medians)[:, None]
    r_hats = np.ones(n_parameters)
    r_hats[position] = r_hat
    diagnostics = SimpleNamespace(r_hat=r_hats)
    return SimpleNamespace(
        kernel_=kernel, theta_samples_=theta, diagnostics_=diagnostics, max_rhat=1.01
    )


def test_convergence_note_names_multiples_of_a_period_and_a_remedy():
    note = periods_message(fitted(PERIODIC, [6.28, 6.28, 12.6, 6.28], 1.7))
    assert "median periods 6.28, 6.28, 12.6 and 6.28 ('k2__periodicity')" in note
    assert "a period and its multiples can explain the same data" in note
    assert "priors={'k2__periodicity': scipy.stats.lognorm(0.1, scale=6.28)}" in note
    assert 'periodicity_bounds="fixed"' in note


def test_convergence_note_is_silent_if_chains_agree_in_the_period():
    assert periods_message(fitted(PERIODIC, [6.28, 6.28, 6.3, 6.28], 1.7)) is None
    assert periods_message(fitted(PERIODIC, [6.28, 12.6], 1.005)) is None


class NotPeriodic(RBF):
    """A kernel with a hyper-parameter that only sounds like a period."""

    def __init__(self, periodicity=1.0, periodicity_bounds=(1e-5, 1e5)):
        super().__init__(1.0, "fixed")
        self.periodicity = periodicity
        self.periodicity_bounds = periodicity_bounds

    hyperparameter_periodicity = ExpSineSquared.hyperparameter_periodicity

    def get_params(self, deep=True):
        return Kernel.get_params(self, deep)


def test_convergence_note_regards_only_free_periods_of_periodic_kernels():
    fixed = ConstantKernel() * ExpSineSquared(periodicity_bounds="fixed") + RBF()
    assert periods_message(fitted(fixed, [6.28, 12.6], 1.7)) is None
    assert periods_message(fitted(NotPeriodic(), [6.28, 12.6], 1.7, 0, 1)) is None


def test_convergence_note_regards_the_periods_of_every_class():
    alike, other = (fitted(PERIODIC, [6.28, last], 1.7) for last in (6.28, 12.6))
    r_hat = np.concatenate([alike.diagnostics_.r_hat, other.diagnostics_.r_hat])
    whole = SimpleNamespace(
        estimators_=[alike, other], diagnostics_=SimpleNamespace(r_hat=r_hat), max_rhat=1.01
    )
    assert "6.28 and 12.6" in periods_message(whole)
    stacked = fitted(CompoundKernel([PERIODIC] * 2), [6.28, 12.6], 1.7, 5, 6)
    assert "6.28 and 12.6" in periods_message(stacked)


QUICK = {
    **{"n_chains": 4, "n_warmup": 0, "n_draws": 5, "n_importance": 4, "random_state": 0},
    **{"sampler": PseudoMarginal(moves="random_walk"), "approximation": "laplace"},
}


@pytest.mark.parametrize("estimator", [BayesianGPClassifier, BayesianGPCountRegressor])
def test_convergence_warning_of_a_fit_names_multiples_of_a_period(estimator):
    x = np.linspace(0.0, 20.0, 20)[:, None]
    priors = {"k2__periodicity": stats.loguniform(0.5, 40.0)}  # chains begin far apart
    with pytest.warns(ConvergenceWarning, match="period and its multiples can explain") as caught:
        estimator(PERIODIC, priors=priors, **QUICK).fit(x, np.arange(20) % 3)
    assert len(caught) == 1
