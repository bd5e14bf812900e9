"""Constructor parameters: names, order, defaults, types; and that each is declared once."""

import inspect
import typing

import pytest
from numpydoc.docscrape import NumpyDocString
from sklearn.base import clone

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)

#: Before and after the parameters that only one estimator has.
OF_THE_MODEL = {"kernel": None, "ard": False, "priors": None, "weights": "evidence"}
OF_THE_RUN = {
    "random_state": None,
    "n_jobs": None,
    "verbose": 0,
    "n_chains": 4,
    "n_draws": 2000,
    "target_ess": 400.0,
    "max_rhat": 1.01,
    "n_warmup": "auto",
    "max_time": None,
    "checkpoint": None,
    "warm_start": False,
    "sampler": "pm",
    "approximation": "auto",
    "n_importance": "auto",
    "covariance": "exact",
    "n_inducing": 500,
    "max_predict_draws": "auto",
    "predict_cache_bytes": 2**29,
}
#: Those that only one estimator has, and where its default is another one.
OWN = {
    BayesianGPClassifier: {"likelihood": "probit", "multi_class": "one_vs_rest"},
    BayesianGPRegressor: {
        "likelihood": "gaussian",
        "alpha": 0.0,
        "noise": "inferred",
        "normalize_y": True,
    },
    BayesianGPCountRegressor: {
        "likelihood": "negative_binomial",
        "center": True,
        "fractional_counts": "error",
    },
    BayesianGPPoissonRegressor: {
        "likelihood": "poisson",
        "center": True,
        "fractional_counts": "error",
    },
    BayesianGPOrdinalClassifier: {"class_order": None, "thresholds": None},
    BayesianGPVolatilityRegressor: {"center": True},
}
OTHER_DEFAULTS = {BayesianGPRegressor: {"sampler": "auto"}}

every_estimator = pytest.mark.parametrize("cls", OWN)


def expected_parameters(cls):
    return {**OF_THE_MODEL, **OWN[cls], **OF_THE_RUN, **OTHER_DEFAULTS.get(cls, {})}


@every_estimator
def test_signature_has_the_documented_order_and_defaults(cls):
    """What a user changes first stands first, and all but the kernel are given by name."""
    parameters = inspect.signature(cls).parameters
    assert {name: p.default for name, p in parameters.items()} == expected_parameters(cls)
    assert list(parameters) == list(expected_parameters(cls))
    kernel, *others = parameters.values()
    assert kernel.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {p.kind for p in others} == {inspect.Parameter.KEYWORD_ONLY}
    with pytest.raises(TypeError, match="positional argument"):
        cls(None, True)


@every_estimator
def test_docstring_has_the_order_and_defaults_of_the_signature(cls):
    documented = {p.name: p.type for p in NumpyDocString(inspect.getdoc(cls))["Parameters"]}
    expected = expected_parameters(cls)
    assert list(documented) == list(expected)
    shown = {name: text.rpartition("default=")[2] for name, text in documented.items()}
    assert shown.pop("predict_cache_bytes") == f"{expected.pop('predict_cache_bytes') // 2**20} MiB"
    assert shown.pop("target_ess") == f"{expected.pop('target_ess'):g}"
    assert shown == {
        name: f'"{value}"' if isinstance(value, str) else str(value)
        for name, value in expected.items()
    }


@every_estimator
def test_estimator_holds_its_parameters_unchanged_and_nothing_else(cls):
    assert vars(cls()) == cls().get_params() == expected_parameters(cls)
    given = {name: object() for name in expected_parameters(cls)}
    estimator = cls(**given)
    assert all(estimator.get_params(deep=False)[name] is value for name, value in given.items())
    assert vars(estimator).keys() == given.keys()


@every_estimator
def test_clone_equality_and_repr_follow_scikit_learn(cls):
    estimator = cls(n_draws=7, priors={"k1__constant_value": "sparse"})
    copied = clone(estimator)
    assert copied.get_params() == estimator.get_params()
    assert copied.priors is not estimator.priors
    assert copied != estimator  # two estimators, as others of scikit-learn
    assert hash(copied) != hash(estimator)
    assert repr(cls(n_draws=7)) == f"{cls.__name__}(n_draws=7)"
    page = estimator._repr_html_()
    assert [name for name in expected_parameters(cls) if f'class="param">{name}' not in page] == []


@every_estimator
def test_every_parameter_has_a_type_hint(cls):
    hints = typing.get_type_hints(cls)
    assert [name for name in expected_parameters(cls) if hints[name] is typing.Any] == []
    none = [name for name, default in expected_parameters(cls).items() if default is None]
    assert [name for name in none if type(None) not in typing.get_args(hints[name])] == []


@every_estimator
def test_common_parameters_are_declared_once_unless_defaults_differ(cls):
    """An estimator repeats one only for another default."""
    common = OF_THE_MODEL.keys() | OF_THE_RUN.keys()
    own = [base for base in cls.__mro__ if base.__module__ == cls.__module__]
    declared = set().union(*(inspect.get_annotations(base) for base in own))
    assert declared & common == OTHER_DEFAULTS.get(cls, {}).keys()
    assert declared & OWN[cls].keys() == OWN[cls].keys()
