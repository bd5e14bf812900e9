"""Fitted models that tests may read, each of them fitted when it is first asked for.

A test that needs a fitted model and no settings of its own takes one of these: `models(name)` is a
model of few rows and draws with its data beside it, by a random walk, and `models(name, sampler)`
one by another sampler. Nobody may change what is shared: a test that sets a parameter or fits again
takes `copy.copy` or `clone` of it. At the end of the session the models are what they were.
"""

from dataclasses import dataclass, field
from functools import cached_property

import joblib
import numpy as np
import pytest
from sklearn.base import clone

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains

N = 29  # a size that nothing else has, so that arrays over the rows are known by it
_RNG = np.random.default_rng(0)
X = _RNG.uniform(-2.0, 2.0, size=(N, 2))
#: Near the training rows, but for the last.
X_NEW = np.array([[0.2, 0.1], [0.4, -0.3], [-1.3, 1.1], [9.0, 9.0]])
F = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1]
EXPOSURE = _RNG.uniform(0.5, 4.0, N)
EXPOSURE_NEW = np.array([1.0, 3.0, 0.2, 2.0])
ORDER = np.array(["low", "middle", "high"])
_LEVEL = np.digitize(F + 0.4 * _RNG.standard_normal(N), [-0.5, 0.5])
#: Far from zero and of a spread that is not one, so that a forgotten unit shows.
_REAL = 20.0 + 4.0 * F + _RNG.standard_normal(N)
_COUNTS = _RNG.poisson(EXPOSURE * np.exp(2.0 + F))

#: Estimator and targets by name.
CASES = {
    "classifier": (BayesianGPClassifier(), np.where(_LEVEL > 0, "yes", "no")),
    "logit": (BayesianGPClassifier(likelihood="logit"), np.where(_LEVEL > 0, "yes", "no")),
    "one_vs_rest": (BayesianGPClassifier(), ORDER[_LEVEL]),
    "softmax": (BayesianGPClassifier(multi_class="softmax"), ORDER[_LEVEL]),
    "softmax_separate": (BayesianGPClassifier(multi_class="softmax_separate"), ORDER[_LEVEL]),
    "regressor": (BayesianGPRegressor(), _REAL),
    "student_t": (
        BayesianGPRegressor(likelihood="student_t"),
        5.0 + F + 0.1 * _RNG.standard_t(3.0, N),
    ),
    "poisson": (BayesianGPPoissonRegressor(likelihood="poisson"), _COUNTS),
    "negative_binomial": (BayesianGPPoissonRegressor(), _COUNTS),
    "ordinal": (BayesianGPOrdinalClassifier(), np.array([1, 2, 5])[_LEVEL]),
    "ordinal_names": (BayesianGPOrdinalClassifier(class_order=ORDER), ORDER[_LEVEL]),
    "volatility": (
        BayesianGPVolatilityRegressor(),
        0.01 * np.exp(F) * _RNG.standard_normal(N),
    ),
}
#: The five estimators, once each.
ESTIMATORS = ("classifier", "regressor", "negative_binomial", "ordinal", "volatility")

_SHORT = {"n_chains": 2, "n_warmup": 10, "n_draws": 19, "target_ess": None, "random_state": 0}
#: Settings by the name of a sampler.
SETTINGS = {
    # Set up at once; predictions average over importance draws of f. From the start of a chain
    # under wider priors so few steps of a walk go nowhere.
    "walk": {
        **_SHORT,
        "sampler": PseudoMarginal(moves="random_walk"),
        "approximation": "laplace",
        "priors": "paper",
        "n_importance": 4,
        "max_predict_draws": 8,
    },
    # Chains keep f itself, and predictions average over every draw of it.
    "asis": {**_SHORT, "sampler": "asis", "n_draws": 13, "max_predict_draws": None},
    # What a user gets who sets nothing but the length of the chains.
    "default": _SHORT,
}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, the data it was fitted to, and what new rows need."""

    model: object
    y: np.ndarray
    X: np.ndarray = field(default_factory=X.copy)
    X_new: np.ndarray = field(default_factory=X_NEW.copy)

    @cached_property
    def fit_arguments(self):
        """What fit was told beside X and y."""
        return {"exposure": EXPOSURE} if self._counts else {}

    @cached_property
    def new_arguments(self):
        """What a prediction at `X_new` is told besides."""
        return {"exposure": EXPOSURE_NEW} if self._counts else {}

    @property
    def parts(self):
        """The binary models of one against the rest, else the model alone."""
        return getattr(self.model, "estimators_", [self.model])

    @property
    def _counts(self):
        return isinstance(self.model, BayesianGPPoissonRegressor)

    def state(self):
        """A hash of what no test may change."""
        # Regression keeps the draws of f that somebody has asked for.
        found = [self.X, self.X_new, self.y, set(vars(self.model)) - {"latent_samples_"}]
        for own in [self.model, *self.parts]:
            found.append({name: str(value) for name, value in own.get_params().items()})
        for part in self.parts:
            predictor = part._predictor
            found += [part.theta_samples_, str(part.kernel_), str(part.diagnostics_)]
            found += [predictor.theta, predictor.f, predictor.multiplicity]
        return joblib.hash(found)


class Models:
    """The shared models of one process."""

    def __init__(self):
        self._fitted = {}

    def __call__(self, name, sampler="walk"):
        if (name, sampler) not in self._fitted:
            estimator, y = CASES[name]
            model = clone(estimator).set_params(**SETTINGS[sampler])
            own = Fitted(model, y.copy())
            with short_chains():
                model.fit(own.X, own.y, **own.fit_arguments)
            self._fitted[name, sampler] = own, own.state()
        return self._fitted[name, sampler][0]

    def changed(self):
        """Names of the models that are not what they were."""
        return [key for key, (own, before) in self._fitted.items() if own.state() != before]


@pytest.fixture(scope="session")
def models():
    """`models(name)` is a fitted model for tests that change nothing of it."""
    shared = Models()
    yield shared
    assert shared.changed() == [], "a test has changed a shared model: let it take a copy"
