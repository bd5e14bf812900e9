"""Files of estimators: what comes back, what they hold, which are refused, and small ones."""

import io
import pickle
import re

import joblib
import numpy as np
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPOrdinalClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.baselines import EPMLClassifier, PlattSVC
from skgpmcmc.estimators import _saving
from skgpmcmc.run import records
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import short_chains
from .test_states_at_rest import N, matrices

QUICK = {"n_chains": 2, "n_warmup": 2, "n_draws": 13, "target_ess": None, "random_state": 0}
QUICK["max_predict_draws"] = 5
WALK = {**QUICK, "sampler": PseudoMarginal(moves="random_walk"), "n_importance": 4}
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, 2))
TARGETS = {
    "two": (X[:, 0] > 0.0).astype(int),
    "three": np.arange(N) % 3,
    "real": 50.0 + 7.0 * X[:, 0] + RNG.standard_normal(N),
    "counts": RNG.poisson(3.0, N),
    "returns": 0.1 * RNG.standard_normal(N),
}
CASES = {
    "classifier": (BayesianGPClassifier(**QUICK), "two"),
    "asis": (BayesianGPClassifier(**QUICK, sampler="asis"), "two"),
    "classes": (BayesianGPClassifier(**WALK), "three"),
    "softmax": (
        BayesianGPClassifier(**WALK, multi_class="softmax", approximation="laplace"),
        "three",
    ),
    "regressor": (BayesianGPRegressor(**QUICK), "real"),
    "student": (BayesianGPRegressor(**WALK, likelihood="student_t"), "real"),
    "poisson": (BayesianGPPoissonRegressor(**WALK), "counts"),
    "ordinal": (BayesianGPOrdinalClassifier(**WALK), "three"),
    "volatility": (BayesianGPVolatilityRegressor(**WALK), "returns"),
}
every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture(scope="module")
@short_chains()
def fitted():
    return {
        name: clone(estimator).fit(X, TARGETS[target])
        for name, (estimator, target) in CASES.items()
    }


def results(model):
    """All that predictions give."""
    parts = getattr(model, "estimators_", [model])
    y = TARGETS[next(target for own, target in CASES.values() if type(own) is type(model))][:5]
    found = [model.predict(X[:5]), model.score(X, np.resize(y, N))]
    found.append(model.log_predictive_density(X[:5], y))
    for part in parts:
        found += [*part.latent_mean_and_variance(X[:5]), part.sample_latent(X[:3], 2, 0)]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(X[:5]))
    if not hasattr(model, "estimators_"):
        found.append(model.sample_y(X[:3], 2, random_state=0))
    return found


def assert_same(one, other):
    for mine, theirs in zip(results(one), results(other), strict=True):
        assert_array_equal(mine, theirs)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def joblibbed(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def trusted(data):
    """The types that docs/saving.rst says may be trusted, of those that a file holds."""
    ours = ("skgpmcmc.", "sklearn.gaussian_process.kernels.", "scipy.stats._")
    types = skops.io.get_untrusted_types(data=data)
    return [name for name in types if name.startswith(ours) or name == "collections.Counter"]


def skopsed(model):
    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=trusted(data))


# --- what comes back ------------------------------------------------------------------------------


@every_case
@pytest.mark.parametrize("through", [pickled, joblibbed, skopsed])
def test_what_comes_back_is_the_same(fitted, name, through):
    model = fitted[name]
    copy = through(model)
    assert_same(copy, model)
    for part, own in zip(
        getattr(copy, "estimators_", [copy]), getattr(model, "estimators_", [model]), strict=True
    ):
        assert_array_equal(part.theta_samples_, own.theta_samples_)
        assert_array_equal(part.latent_samples_, own.latent_samples_)
        assert str(part.diagnostics_) == str(own.diagnostics_)


@short_chains()
@pytest.mark.parametrize("through", [pickled, skopsed])
def test_what_comes_back_goes_on_as_it_would_have(fitted, through):
    uncut = CASES["classifier"][0].set_params(n_draws=18).fit(X, TARGETS["two"])
    copy = through(fitted["classifier"]).set_params(warm_start=True, n_draws=18)
    assert_array_equal(copy.fit(X, TARGETS["two"]).theta_samples_, uncut.theta_samples_)


def test_a_baseline_comes_back():
    model = EPMLClassifier().fit(X, TARGETS["two"])
    assert_array_equal(pickled(model).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("estimator", [PlattSVC(), *(own for own, _ in CASES.values())])
def test_an_estimator_without_a_fit_comes_back(estimator):
    assert str(pickled(estimator)) == str(estimator)


# --- what files hold ------------------------------------------------------------------------------


def arrays_of(model):
    """Every array that a pickle of it holds."""
    found = []

    class Listing(pickle.Pickler):
        def reducer_override(self, part):
            if isinstance(part, np.ndarray):
                found.append(part)
            return NotImplemented

    Listing(io.BytesIO(), protocol=5).dump(model)
    return found


@every_case
def test_a_file_has_no_factors_and_draws_once(fitted, name):
    model = pickled(fitted[name])
    parts = getattr(model, "estimators_", [model])
    for part in parts:
        part.loo() if name not in ("softmax", "classes") else part.predict(X)
        _ = part.latent_samples_
    assert matrices(pickled(model)) == []
    arrays = arrays_of(model)
    assert not any(array.shape.count(N) > 1 for array in arrays)
    n_functions = 3 if name == "softmax" else 1
    size = 2 * 13 * N * n_functions
    held = sum(array.size == size for array in arrays)
    # Regression has the means that chains go on from, too, and draws once somebody asked for them.
    assert held == (2 if name == "regressor" else len(parts))


def test_draws_are_found_where_they_are():
    draws = np.zeros((2, 13, N))
    assert len(arrays_of([draws, draws, draws.copy()])) == 2


# --- which files are refused ----------------------------------------------------------------------


@pytest.mark.parametrize("dump", [pickle.dumps, skops.io.dumps], ids=["pickle", "skops"])
def test_a_file_of_another_format_is_refused(fitted, dump, monkeypatch):
    monkeypatch.setattr(_saving, "FORMAT", 99)
    data = dump(fitted["asis"])
    monkeypatch.undo()
    # Its parts may not even exist here.
    if dump is pickle.dumps:
        monkeypatch.delattr(records, "SamplingRun")
    load = (
        pickle.loads
        if dump is pickle.dumps
        else lambda data: skops.io.loads(data, trusted=trusted(data))
    )
    message = r"BayesianGPClassifier was saved by version .* in format 99, .* reads format 1: read"
    with pytest.raises(ValueError, match=message):
        load(data)


def test_a_file_of_another_version_and_the_same_format_is_read(fitted, monkeypatch):
    monkeypatch.setattr(_saving, "__version__", "99.0")
    data = pickle.dumps(fitted["asis"])
    monkeypatch.undo()
    assert b"99.0" in data
    assert_same(pickle.loads(data), fitted["asis"])


def test_a_state_that_does_not_say_its_format_is_refused(fitted):
    model = fitted["regressor"]
    with pytest.raises(ValueError, match="version unknown of skgpmcmc, in format None"):
        clone(model).__setstate__(dict(vars(model)))


# --- small ones -----------------------------------------------------------------------------------


@every_case
def test_a_copy_for_predictions_gives_the_same(fitted, name):
    model = fitted[name]
    small = model.for_prediction()
    assert type(small) is type(model)
    assert str(small.get_params()) == str(model.get_params())
    assert_same(pickled(small), model)
    assert str(small.diagnostics_) == str(model.diagnostics_)
    assert_same(pickled(small.for_prediction()), model)  # of a copy, too


@every_case
def test_a_copy_for_predictions_is_small(fitted, name):
    """X, and of each draw that predictions use: theta, f, what a density is made of."""
    model = fitted[name]
    parts = getattr(model, "estimators_", [model])
    numbers = sum(
        sum(a.size for a in (p.theta, p.f, p.multiplicity, *p.density_arrays, p.model.y))
        for p in (part._predictor for part in parts)
    )
    size = len(pickle.dumps(model.for_prediction()))
    assert size < 8 * (numbers + X.size) + 60_000 * len(parts)
    assert arrays_of(model.for_prediction())


def test_a_copy_for_predictions_grows_with_what_they_use_alone():
    with short_chains():
        sizes = [
            len(pickle.dumps(own.fit(X, TARGETS["two"]).for_prediction()))
            for own in (BayesianGPClassifier(**{**WALK, "n_draws": n}) for n in (10, 100))
        ]
    assert abs(sizes[1] - sizes[0]) < 1000


@every_case
def test_a_copy_for_predictions_says_what_it_cannot(fitted, name):
    small = pickled(fitted[name].for_prediction())
    target = TARGETS[CASES[name][1]]
    with pytest.raises(ValueError, match=r"warm_start=True continues .* the full estimator"):
        small.set_params(warm_start=True).fit(X, target)
    for part in getattr(small, "estimators_", [small]):
        for attribute in ("theta_samples_", "latent_samples_", "marked_samples_"):
            with pytest.raises(AttributeError, match=rf"{attribute} is not in a copy .* the full"):
                getattr(part, attribute)
        for method in (part.loo, part.log_evidence):
            with pytest.raises(ValueError, match=r"needs the posterior draws.* full estimator"):
                method()


@short_chains()
def test_a_copy_for_predictions_can_be_fitted_anew(fitted):
    small = fitted["asis"].for_prediction().set_params(random_state=1)
    assert small.fit(X, TARGETS["two"]).theta_samples_.shape == (2, 13, 2)
    assert small.latent_samples_.shape == (2, 13, N)
    assert np.isfinite(small.loo().elpd)
    assert "theta_samples_" in vars(fitted["asis"])


def test_a_copy_for_predictions_needs_a_fit():
    with pytest.raises(NotFittedError):
        BayesianGPClassifier().for_prediction()


def test_what_the_docs_trust_is_what_files_hold(fitted):
    for model in fitted.values():
        data = skops.io.dumps(model)
        assert set(trusted(data)) == set(skops.io.get_untrusted_types(data=data))
        assert not [name for name in trusted(data) if re.search("builtins|eval|os\\.", name)]
