"""scikit-learn's own checks, none of them expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import EPMLClassifier

# A score of a few draws is enough for the checks; that chains converge is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks(
    [
        BayesianGPClassifier(n_chains=2, n_warmup=20, n_draws=20, n_importance=4),
        EPMLClassifier(),
    ],
    xfail_strict=True,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
