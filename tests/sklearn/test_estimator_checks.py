"""scikit-learn's own checks: all of them once per estimator, some with other settings."""

from functools import partial
from unittest import SkipTest

import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.baselines import EPMLClassifier
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

# The targets of the checks have a mean, which a model of volatility remarks, and are no Poisson
# counts.
pytestmark = [
    pytest.mark.filterwarnings("ignore:y has mean .* subtract it from y:UserWarning"),
    pytest.mark.filterwarnings("ignore:The counts vary more than Poisson counts do:UserWarning"),
]

# The checks look at the skin, and some fit hundreds of rows many times: a few draws of a sampler
# that needs no set-up and no integrals are enough. Other samplers take the checks of `BY_SETTING`.
QUICK = {
    "sampler": "sa",
    "priors": "paper",  # two steps of a chain go nowhere from a start under wider ones
    "n_chains": 1,
    "n_warmup": 1,
    "n_draws": 3,
}
WALK = {
    **QUICK,
    "sampler": PseudoMarginal(moves="random_walk"),
    "approximation": "laplace",
    "n_importance": 2,
    "max_predict_draws": 2,
}
ESTIMATORS = [
    BayesianGPClassifier(**QUICK),
    BayesianGPRegressor(**QUICK),
    BayesianGPCountRegressor(fractional_counts="allow", **QUICK),
    BayesianGPPoissonRegressor(fractional_counts="allow", **QUICK),
    BayesianGPOrdinalClassifier(**QUICK),
    BayesianGPVolatilityRegressor(**QUICK),
    EPMLClassifier(ConstantKernel(4.0, "fixed") * RBF(), approximation="laplace", n_restarts=0),
]


def expected_failures(estimator):
    """Why a check cannot apply, by its name."""
    if isinstance(estimator, BayesianGPOrdinalClassifier):
        return {"check_classifiers_classes": "strings need class_order"}
    return {}


def takes_longer(estimator, name):
    """Its thresholds take longer to come from where a chain begins: these ask for accuracy."""
    ordinal = isinstance(estimator, BayesianGPOrdinalClassifier)
    return ordinal and name.startswith("check_classifiers_train")


def name_of(check):
    """Of a function or a partial one, with its arguments."""
    if not isinstance(check, partial):
        return check.__name__
    return "-".join([name_of(check.func), *(f"{k}={v}" for k, v in check.keywords.items())])


def by_name(estimators):
    """Every estimator and check, those of the same name together."""
    found = {}
    for estimator in estimators:
        for own, check in estimator_checks_generator(estimator):
            name = name_of(check)
            if takes_longer(own, name):
                own = clone(own).set_params(sampler="asis", n_warmup=30)
            found.setdefault(name, []).append((own, check))
    return found


def failures_of(pairs):
    """What fails and should not, and what passes and should not.

    What every estimator skips is skipped.
    """
    found, skipped = [], []
    for estimator, check in pairs:
        cannot_pass = expected_failures(estimator).get(name_of(check))
        try:
            check(estimator)
        except SkipTest as skip:
            skipped.append(skip)
        except (Exception, pytest.fail.Exception) as error:
            if cannot_pass is None:
                found.append(f"{estimator!r}: {type(error).__name__}: {error}")
        else:
            if cannot_pass is not None:
                found.append(f"{estimator!r} passes now, though {cannot_pass}")
    if len(skipped) == len(pairs):
        raise skipped[0]
    return found


CHECKS = by_name(ESTIMATORS)


@pytest.mark.parametrize("name", CHECKS)
@short_chains()
def test_estimators_pass_the_checks_of_scikit_learn(name):
    """Of every estimator that has the check; whoever cannot pass it must fail."""
    pairs = [(own, check) for own, check in CHECKS[name] if not takes_longer(own, name)]
    assert failures_of(pairs) == []


@pytest.mark.statistical
@short_chains()
def test_estimators_pass_the_longer_checks_of_scikit_learn():
    pairs = [(own, check, name) for name, some in CHECKS.items() for own, check in some]
    longer = [(own, check) for own, check, name in pairs if takes_longer(own, name)]
    assert len(longer) == 3
    assert failures_of(longer) == []


#: The checks that depend on what a fit stores, on odd data, and on how predictions are made.
BY_SETTING = [
    estimator_checks.check_estimators_pickle,
    estimator_checks.check_dict_unchanged,
    estimator_checks.check_dont_overwrite_parameters,
    estimator_checks.check_fit_idempotent,
    estimator_checks.check_fit2d_1feature,
    estimator_checks.check_fit2d_1sample,
    estimator_checks.check_methods_sample_order_invariance,
    estimator_checks.check_methods_subset_invariance,
]
OF_CLASSES = [
    estimator_checks.check_classifiers_one_label,
    estimator_checks.check_classifiers_classes,
]


def failures_of_settings(estimator, checks):
    pairs = [(estimator, partial(check, type(estimator).__name__)) for check in checks]
    return failures_of(pairs)


@pytest.mark.parametrize(
    "estimator",
    [
        BayesianGPClassifier(**WALK),
        BayesianGPClassifier(multi_class="softmax", **WALK),
        BayesianGPRegressor(likelihood="student_t", **WALK),
    ],
    ids=["classifier", "softmax", "student_t"],
)
@short_chains()
def test_estimators_pass_checks_that_depend_on_settings_by_a_random_walk(estimator):
    assert failures_of_settings(estimator, BY_SETTING) == []


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("estimator", "checks"),
    [
        (BayesianGPClassifier(n_chains=2, n_warmup=5, n_draws=10), BY_SETTING),
        (BayesianGPRegressor(n_chains=1, n_warmup=2, n_draws=6), BY_SETTING),
        (EPMLClassifier(), [*BY_SETTING, *OF_CLASSES]),
        (
            BayesianGPClassifier(multi_class="softmax", **WALK),
            [*OF_CLASSES, estimator_checks.check_classifiers_train],
        ),
    ],
    ids=["classifier", "regressor", "baseline", "softmax"],
)
@short_chains()
def test_estimators_pass_checks_that_depend_on_settings_by_default(estimator, checks):
    assert failures_of_settings(estimator, checks) == []
