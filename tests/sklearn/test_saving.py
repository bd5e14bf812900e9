"""Files of estimators: what comes back, what they hold, which are refused, and small ones."""

import io
import pickle
import re
from functools import cache

import joblib
import numpy as np
import pytest
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import EPMLClassifier, PlattSVC
from skgpmcmc.estimators import _saving
from skgpmcmc.run import records

from ..helpers import in_one_test, short_chains
from .conftest import CASES, SETTINGS, N, matrices, parts_of

#: The fitted models that go through files: every estimator, and what chains of each kind leave.
SAVED = {
    "classifier": ("classifier", "default"),
    "asis": ("classifier", "asis"),
    "classes": ("one_vs_rest", "walk"),
    "softmax": ("softmax", "walk"),
    "regressor": ("regressor", "default"),
    "student": ("student_t", "walk"),
    "counts": ("negative_binomial", "walk"),
    "ordinal": ("ordinal", "walk"),
    "volatility": ("volatility", "walk"),
}
every_case = pytest.mark.parametrize("name", SAVED)


@pytest.fixture(scope="session")
def fitted(models):
    return lambda name: models(*SAVED[name])


def results(own, model):
    """All that predictions give."""
    X, y = own.X[:5], own.y[:5]
    given = {key: value[:5] for key, value in own.fit_arguments.items()}
    found = [model.predict(X, **given), model.score(X, y, **given)]
    found.append(model.log_predictive_density(X, y, **given))
    for part in parts_of(model):
        found += [*part.latent_mean_and_variance(X), part.sample_latent(X[:3], 2, 0)]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(X))
    if not hasattr(model, "estimators_"):
        found.append(model.sample_y(X, 2, random_state=0, **given))
    return found


@cache
def own_results(own):
    return results(own, own.model)


def assert_same(own, copy):
    """A copy gives what the model of `own` gives."""
    for theirs, mine in zip(results(own, copy), own_results(own), strict=True):
        assert_array_equal(theirs, mine)


def refitted(own, **changes):
    """The same estimator with other settings, fitted to the same data."""
    with short_chains():
        return clone(own.model).set_params(**changes).fit(own.X, own.y, **own.fit_arguments)


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


skops_file = cache(skops.io.dumps)


def skopsed(model):
    data = skops_file(model)
    return skops.io.loads(data, trusted=trusted(data))


# --- what comes back ------------------------------------------------------------------------------


@every_case
def test_saved_estimators_predict_the_same(fitted, name):
    own = fitted(name)
    for through in (pickled, joblibbed, skopsed):
        copy = through(own.model)
        if through is not joblibbed:  # pickles of another file format
            assert_same(own, copy)
        for part, mine in zip(parts_of(copy), own.parts, strict=True):
            assert_array_equal(part.theta_samples_, mine.theta_samples_)
            assert_array_equal(part.latent_samples_, mine.latent_samples_)
            assert str(part.diagnostics_) == str(mine.diagnostics_)
            assert str(part.priors_) == str(mine.priors_)


@short_chains()
def test_saved_estimators_continue_to_the_same_draws(fitted):
    own = fitted("classifier")
    uncut = refitted(own, n_draws=24)
    for through in (pickled, skopsed):
        copy = through(own.model).set_params(warm_start=True, n_draws=24)
        assert_array_equal(copy.fit(own.X, own.y).theta_samples_, uncut.theta_samples_)


def test_saved_baseline_predicts_the_same(fitted):
    own = fitted("classifier")
    model = EPMLClassifier(approximation="laplace", n_restarts=0).fit(own.X, own.y)
    assert_array_equal(pickled(model).predict_proba(own.X), model.predict_proba(own.X))


@in_one_test("estimator", [PlattSVC(), EPMLClassifier(), *(own for own, _ in CASES.values())])
def test_saved_unfitted_estimators_are_equal(estimator):
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
def test_file_has_no_factors_and_each_array_of_draws_once(fitted, name):
    own = fitted(name)
    model = pickled(own.model)
    parts = parts_of(model)
    for part in parts:
        part.loo() if name not in ("softmax", "classes") else part.predict(own.X)
        _ = part.latent_samples_
    assert matrices(pickled(model), N) == []
    arrays = arrays_of(model)
    assert not any(array.shape.count(N) > 1 for array in arrays)
    size = parts[0].latent_samples_.size
    held, used = sum(array.size == size for array in arrays), parts[0]._predictor
    # Where predictions use every draw they have them as one chain, with their sites.
    as_one_chain = sum(np.size(array) == size for array in (used.f, *used.density_arrays))
    assert as_one_chain == {"asis": 1}.get(name, 0) or name == "classifier"
    # Regression has the means that chains go on from, too, and draws once somebody asked for them.
    assert held == (2 if name == "regressor" else len(parts)) + as_one_chain


def test_array_finder_counts_shared_arrays_once():
    draws = np.zeros((2, 19, N))
    assert len(arrays_of([draws, draws, draws.copy()])) == 2


# --- which files are refused ----------------------------------------------------------------------


@pytest.mark.parametrize("dump", [pickle.dumps, skops.io.dumps], ids=["pickle", "skops"])
def test_a_file_of_another_format_is_refused(fitted, dump, monkeypatch):
    monkeypatch.setattr(_saving, "FORMAT", 99)
    data = dump(fitted("asis").model)
    monkeypatch.undo()
    message = r"BayesianGPClassifier was saved by version .* in format 99, .* reads format 3: read"
    if dump is pickle.dumps:
        monkeypatch.delattr(records, "SamplingRun")  # its parts may not even exist here
        with pytest.raises(ValueError, match=message):
            pickle.loads(data)
    else:
        with pytest.raises(ValueError, match=message):
            skops.io.loads(data, trusted=trusted(data))


def test_a_file_of_another_version_and_the_same_format_is_read(fitted, monkeypatch):
    monkeypatch.setattr(_saving, "__version__", "99.0")
    data = pickle.dumps(fitted("asis").model)
    monkeypatch.undo()
    assert b"99.0" in data
    assert_same(fitted("asis"), pickle.loads(data))


def test_state_without_a_format_is_refused(fitted):
    model = fitted("regressor").model
    with pytest.raises(ValueError, match="version unknown of skgpmcmc, in format None"):
        clone(model).__setstate__(dict(vars(model)))


# --- small ones -----------------------------------------------------------------------------------


@every_case
def test_copy_for_predictions_predicts_the_same_and_is_small(fitted, name):
    """X, and of each draw that predictions use: theta, f, what a density is made of."""
    own = fitted(name)
    small = own.model.for_prediction()
    assert type(small) is type(own.model)
    assert str(small.get_params()) == str(own.model.get_params())
    assert str(small.diagnostics_) == str(own.model.diagnostics_)
    assert_same(own, pickled(small.for_prediction()))  # a copy of a copy, too
    numbers = sum(
        sum(a.size for a in (p.theta, p.f, p.multiplicity, *p.density_arrays, p.model.y))
        for p in (part._predictor for part in own.parts)
    )
    assert len(pickle.dumps(small)) < 8 * (numbers + own.X.size) + 60_000 * len(own.parts)
    arrays = arrays_of(small)
    assert arrays
    assert not any(array.shape.count(N) > 1 for array in arrays)


def test_size_of_a_copy_for_predictions_ignores_unused_draws(fitted):
    settings = {**SETTINGS["walk"], "n_warmup": 2, "max_predict_draws": 5}
    sizes = [
        len(pickle.dumps(refitted(fitted("asis"), **{**settings, "n_draws": n}).for_prediction()))
        for n in (5, 50)
    ]
    assert abs(sizes[1] - sizes[0]) < 1000


@every_case
def test_copy_for_predictions_refuses_what_needs_all_draws(fitted, name):
    own = fitted(name)
    small = pickled(own.model.for_prediction())
    with pytest.raises(ValueError, match=r"warm_start=True continues .* the full estimator"):
        small.set_params(warm_start=True).fit(own.X, own.y, **own.fit_arguments)
    for part in parts_of(small):
        for attribute in ("theta_samples_", "latent_samples_", "marked_samples_"):
            with pytest.raises(AttributeError, match=rf"{attribute} is not in a copy .* the full"):
                getattr(part, attribute)
        for method in (part.loo, part.log_evidence):
            with pytest.raises(ValueError, match=r"needs the posterior draws.* full estimator"):
                method()


@short_chains()
def test_a_copy_for_predictions_can_be_fitted_anew(fitted):
    own = fitted("asis")
    small = own.model.for_prediction().set_params(random_state=1)
    assert small.fit(own.X, own.y).theta_samples_.shape == own.model.theta_samples_.shape
    assert small.latent_samples_.shape == own.model.latent_samples_.shape
    assert np.isfinite(small.loo().elpd)
    assert "theta_samples_" in vars(own.model)


def test_for_prediction_refuses_an_unfitted_estimator():
    with pytest.raises(NotFittedError):
        BayesianGPClassifier().for_prediction()


def test_trusted_types_of_the_docs_are_those_in_files(fitted):
    for name in SAVED:
        data = skops_file(fitted(name).model)
        assert set(trusted(data)) == set(skops.io.get_untrusted_types(data=data))
        assert not [name for name in trusted(data) if re.search("builtins|eval|os\\.", name)]
