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
#: The sum of the log densities varies by about one over theta, and each of them, with independent
#: errors in the fits without a row, by about a quarter: more than four standard errors together.
ESS, LIMIT = 500.0, 0.3


@pytest.mark.parametrize("name", list(CASES))
def test_elpd_is_that_of_fits_without_each_row(name):
    estimator, y = CASES[name]
    settings = {"target_ess": ESS, "n_draws": 5000, "max_predict_draws": None}
    estimator = clone(estimator).set_params(**settings, random_state=seeded())
    model = clone(estimator).fit(X, y)
    estimator.set_params(priors=model.priors_)
    found = model.loo()
    refitted = np.empty(N)
    for i in range(N):
        rest = np.delete(np.arange(N), i)
        # The density of a row that the others do not expect is a mean over rare draws.
        wanted = 4.0 * ESS if found.elpd_i[i] < -5.0 else ESS
        without = clone(estimator).set_params(target_ess=wanted).fit(X[rest], y[rest])
        refitted[i] = without.log_predictive_density(X[[i]], y[[i]])[0]
    reliable = found.pareto_k < 0.7
    assert reliable.mean() > 0.7
    assert abs(np.sum((found.elpd_i - refitted)[reliable])) < LIMIT
