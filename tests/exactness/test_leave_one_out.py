"""Leave-one-out without refitting against fits without each row."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor, BayesianGPVolatilityRegressor

from ..helpers import seeded

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

N = 12
X = np.linspace(-2.0, 2.0, N)[:, None]
_RNG = np.random.default_rng(0)
F = np.sin(2.0 * X[:, 0])
_RETURNS = np.exp(0.5 * F) * _RNG.standard_normal(N)
_RETURNS[4] = 8.0  # which the others do not expect
#: Chains of few hyper-parameters are short.
_KERNEL = ConstantKernel() * RBF(1.0, "fixed")
#: The sites of all rows are wrong without the large return.
CASES = {
    "regressor": (
        BayesianGPRegressor(_KERNEL, normalize_y=False),
        F + 0.4 * _RNG.standard_normal(N),
    ),
    "classifier": (BayesianGPClassifier(_KERNEL), F + 0.6 * _RNG.standard_normal(N) > 0.0),
    "volatility": (BayesianGPVolatilityRegressor(_KERNEL, center=False), _RETURNS),
}
#: Effective draws of a fit without one row, and how many times as many the fit of all rows has: its
#: weights for a fit without a row have heavy tails. Over ten seeds the difference of the sums has a
#: standard deviation of 0.14 for the regressor; with the row itself left in, the sum is larger by
#: three to nine.
ESS, TIMES, LIMIT = 500.0, 4.0, 0.5


@pytest.mark.parametrize("name", list(CASES))
def test_elpd_agrees_with_fits_without_each_row(name):
    estimator, y = CASES[name]
    settings = {"target_ess": ESS, "n_draws": 20_000, "max_predict_draws": None}
    estimator = clone(estimator).set_params(**settings, random_state=seeded())
    model = clone(estimator).set_params(target_ess=TIMES * ESS).fit(X, y)
    estimator.set_params(priors=model.priors_)
    found = model.loo()
    refitted = np.empty(N)
    for i in range(N):
        rest = np.delete(np.arange(N), i)
        # The density of a row that the others do not expect is a mean over rare draws.
        wanted = TIMES * ESS if found.elpd_i[i] < -5.0 else ESS
        own = {"target_ess": wanted, "random_state": seeded() + i + 1}
        without = clone(estimator).set_params(**own).fit(X[rest], y[rest])
        refitted[i] = without.log_predictive_density(X[[i]], y[[i]])[0]
    reliable = found.pareto_k < 0.7
    assert reliable.mean() > 0.7
    assert abs(np.sum((found.elpd_i - refitted)[reliable])) < LIMIT
