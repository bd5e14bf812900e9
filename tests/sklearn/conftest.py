"""Fitted models that tests may read, each of them fitted when it is first asked for.

A test that needs a fitted model and no settings of its own takes one of these: `models(name)` is a
model of few rows and draws with its data beside it, by a random walk, and `models(name, sampler)`
one by another sampler. Nobody may change what is shared: a test that sets a parameter or fits again
takes `copy.copy` or `clone` of it. At the end of the session the models are what they were.

What several files say of a model stands here too: that it has the draws of another, or that a call
that fails has changed nothing of it.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import joblib
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import reachable, rounds_of, short_chains

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
    "poisson": (BayesianGPPoissonRegressor(), _COUNTS),
    "negative_binomial": (BayesianGPCountRegressor(), _COUNTS),
    "zero_inflated": (
        BayesianGPCountRegressor(likelihood="zero_inflated_poisson"),
        _COUNTS * (np.arange(N) % 4 > 0),
    ),
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


def parts_of(model):
    """The binary models of one against the rest, else the model alone."""
    return getattr(model, "estimators_", [model])


def assert_same_draws(one, other, first=None):
    """Two models have the same draws; with `first`, the other has so many of them at least."""
    for mine, theirs in zip(parts_of(one), parts_of(other), strict=True):
        assert_array_equal(mine.theta_samples_, theirs.theta_samples_[:, :first])
        assert_array_equal(mine.latent_samples_, theirs.latent_samples_[:, :first])


@contextmanager
def unchanged(model):
    """Every attribute is the very object that it was, apart from constructor parameters."""
    before = dict(vars(model))
    yield
    parameters = model.get_params(deep=False)
    names = [name for name in before if name not in parameters]
    assert [name for name in vars(model) if name not in parameters] == names
    assert all(vars(model)[name] is before[name] for name in names)


class Callback:
    """Hears all that callbacks hear, and does nothing."""

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass


class AtRound(Callback):
    """Does something at the end of one round of a chain, and returns what that returns."""

    def __init__(self, index, action, chain=0):
        self.where, self.action = (chain, index), action

    def on_fit_task_end(self, estimator, context):
        if not context.task_name.startswith("round"):
            return None
        here = (context.parent.task_id, context.task_id)
        return self.action() if here == self.where else None


def matrices(root, n):
    """Square arrays over n rows that an object holds, other than distances and products of X."""
    objects = list(reachable(root))
    of_inputs = {
        id(vars(o).get(name))
        for o in objects
        for name in ("_raw_distances", "_products")
        if hasattr(o, name)
    }
    arrays = [o for o in objects if isinstance(o, np.ndarray) and id(o) not in of_inputs]
    return [array for array in arrays if array.shape.count(n) > 1]


def interrupt(*arguments):
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


ROUND_LENGTH = 10  # where rounds are counted and what they hold does not matter


@pytest.fixture(scope="module")
def short_rounds():
    """Rounds of `ROUND_LENGTH` draws; files ask for them by `pytest.mark.usefixtures`."""
    with rounds_of(ROUND_LENGTH):
        yield


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
        return parts_of(self.model)

    @property
    def _counts(self):
        return isinstance(self.model, BayesianGPCountRegressor)

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
