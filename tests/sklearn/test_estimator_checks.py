"""scikit-learn's own checks."""

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

# The targets of the checks have a mean, which a model of volatility remarks.
pytestmark = pytest.mark.filterwarnings("ignore:y has mean .* subtract it from y:UserWarning")

# The checks look at the skin, and some fit hundreds of rows many times: a few draws of a sampler
# that is set up quickly are enough. The default sampler runs with the statistical tests.
QUICK = {
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "priors": "paper",  # two steps of a walk go nowhere from a start under wider ones
    "n_chains": 1,
    "n_warmup": 2,
    "n_draws": 6,
    "n_importance": 2,
}

#: Why a check cannot apply. Chains draw f for every row, so that other rows mean other draws; that
#: weights are repeated rows is shown exactly in tests/unit/test_approximations_of_the_papers.py.
_OTHER_DRAWS = "other rows mean other draws; the exact statement is tested on the evidence"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": _OTHER_DRAWS,
    "check_sample_weight_equivalence_on_sparse_data": _OTHER_DRAWS,
}


def expected_failures(estimator):
    if isinstance(estimator, EPMLClassifier):
        return {}
    if isinstance(estimator, BayesianGPOrdinalClassifier):
        return {**EXPECTED_FAILURES, "check_classifiers_classes": "strings need class_order"}
    return EXPECTED_FAILURES


def with_checks(estimators):
    return parametrize_with_checks(
        estimators, expected_failed_checks=expected_failures, xfail_strict=True
    )


@with_checks(
    [
        BayesianGPClassifier(**QUICK),
        BayesianGPRegressor(**QUICK),
        BayesianGPPoissonRegressor(fractional_counts="allow", **QUICK),
        BayesianGPVolatilityRegressor(**QUICK),
        EPMLClassifier(n_restarts=0),
    ]
)
@short_chains()
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.statistical
@with_checks(
    [
        BayesianGPRegressor(n_chains=1, n_warmup=2, n_draws=6),
        BayesianGPClassifier(multi_class="softmax", **QUICK),
        # Its thresholds take longer to come from where a chain begins: a check asks for accuracy.
        BayesianGPOrdinalClassifier(**{**QUICK, "n_warmup": 40}),
        EPMLClassifier(),
    ]
)
@short_chains()
def test_scikit_learn_checks_that_take_longer(estimator, check):
    check(estimator)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimators_pickle,
        estimator_checks.check_dict_unchanged,
        estimator_checks.check_dont_overwrite_parameters,
        estimator_checks.check_fit_idempotent,
        estimator_checks.check_fit2d_1feature,
        estimator_checks.check_fit2d_1sample,
        estimator_checks.check_classifiers_one_label,
        estimator_checks.check_methods_sample_order_invariance,
    ],
    ids=lambda check: check.__name__,
)
@short_chains()
def test_the_default_sampler_of_the_classifier(check):
    """Those checks that depend on what a fit stores and on odd data."""
    check("BayesianGPClassifier", BayesianGPClassifier(n_chains=2, n_warmup=5, n_draws=10))
