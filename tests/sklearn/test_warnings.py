"""What users are warned of, once and with a remedy; and the line that a warning points at."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor, BayesianGPVolatilityRegressor
from skgpmcmc._warnings import warn
from skgpmcmc.baselines import EPMLClassifier, epml
from skgpmcmc.chain import time_limit
from skgpmcmc.estimators import _base
from skgpmcmc.parallel.workers import Workers
from skgpmcmc.run import set_ups
from skgpmcmc.run.checkpoint import Checkpoint
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import in_one_test, make_model, rounds_of, short_chains
from .conftest import AtRound, interrupt

X, Y = make_moons(16, noise=0.2, random_state=0)
WALK = PseudoMarginal(moves="random_walk")
QUICK = {"n_chains": 2, "n_warmup": 6, "n_draws": 8, "target_ess": None, "random_state": 0}
QUICK |= {"sampler": WALK, "approximation": "laplace", "n_importance": 4, "max_predict_draws": 4}


@pytest.fixture(autouse=True)
def _short_rounds():
    with rounds_of(4):
        yield


def quick(**changes):
    return BayesianGPClassifier(**{**QUICK, **changes})


def few_draws(patch, folder):
    quick().fit(X, Y)


def max_time(patch, folder):
    patch.setattr(time_limit, "clock", iter(range(10_000)).__next__)
    quick(max_time=3.0).fit(X, Y)


def odd_scales(patch, folder):
    quick().fit(X * [1.0, 1e4], Y)


def nothing_to_add(patch, folder):
    quick(warm_start=True).fit(X, Y).fit(X, Y)


def a_full_disk(patch, folder):
    write, left = Checkpoint._write, iter(range(3))

    def full(self):
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        write(self)

    patch.setattr(Checkpoint, "_write", full)
    quick(checkpoint=folder / "file").fit(X, Y)


def ctrl_c_while_sampling(patch, folder):
    quick().set_callbacks(AtRound(WALK.n_set_up_rounds(6), interrupt)).fit(X, Y)


def ctrl_c_after_the_last_draw(patch, folder):
    patch.setattr(_base, "find_density_arrays", interrupt)
    quick().fit(X, Y)


def a_long_fit(patch, folder):
    run = set_ups.perform
    patch.setattr(set_ups, "perform", lambda *call: run(*call)._replace(seconds=1e5))
    quick().fit(X, Y)


def a_lost_worker(patch, folder):
    with Workers(1) as workers:
        workers._replace_pool(1)


def a_mean_that_is_not_zero(patch, folder):
    BayesianGPVolatilityRegressor(**QUICK).fit(X, 5.0 + 0.1 * Y)


def an_evidence_that_is_not_maximized(patch, folder):
    find_mode = epml.find_mode

    def not_found(*arguments, **settings):
        return replace(find_mode(*arguments, **settings), converged=False)

    patch.setattr(epml, "find_mode", not_found)
    EPMLClassifier(n_restarts=0).fit(X, Y)


def a_parameter_that_only_fit_takes_up(patch, folder):
    quick().fit(X, Y).set_params(max_predict_draws=3).predict(X)


def an_evidence_of_heavy_weights(patch, folder):
    quick().fit(X, Y).log_evidence("is", theta=[1e8, 0.3, 1.0])


#: What provokes a warning, and what it says.
CASES = {
    few_draws: "Chains ",
    max_time: "max_time=3 seconds are over",
    odd_scales: "The default priors expect features with similar scales",
    nothing_to_add: "nothing was added",
    a_full_disk: "cannot be written",
    ctrl_c_while_sampling: "Sampling was interrupted",
    ctrl_c_after_the_last_draw: "Interrupted after the last draw",
    a_long_fit: "This fit will be long",
    a_lost_worker: "A worker was lost",
    a_mean_that_is_not_zero: "subtract it from y",
    an_evidence_that_is_not_maximized: "The evidence was not maximized",
    a_parameter_that_only_fit_takes_up: "has no effect before the next fit",
    an_evidence_of_heavy_weights: "the weights have a Pareto k",
}


def places(caught, message):
    """Files that warnings of a message point at."""
    return {record.filename for record in caught if message in str(record.message)}


def test_warnings_point_at_the_line_of_the_user(tmp_path):
    wrong = {}
    for provoke, message in CASES.items():
        folder = tmp_path / provoke.__name__
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            provoke(patch, folder)
        found = places(caught, message)
        if found != {__file__}:
            wrong[provoke.__name__] = found
    assert wrong == {}


@pytest.mark.parametrize(
    "call",
    [
        lambda model: make_pipeline(FunctionTransformer(), model).fit(X, Y),
        lambda model: cross_val_score(model, X, Y, cv=2),
        lambda model: GridSearchCV(model, {"n_draws": [8]}, cv=2).fit(X, Y),
    ],
    ids=["pipeline", "cross-validation", "search"],
)
def test_warnings_skip_frames_of_scikit_learn_and_joblib(call):
    with pytest.warns(ConvergenceWarning) as caught:
        call(quick())
    assert places(caught, "Chains ") == {__file__}


def test_warnings_appear_once_per_line_by_default():
    """Python tells warnings apart by their lines: those of a package would be one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            warn("here")
        warn("here")
    assert [str(record.message) for record in caught] == ["here", "here"]


def test_warning_without_user_code_points_at_the_outermost_call():
    """As in a worker that is nothing but this package."""
    scope = {"__name__": "skgpmcmc.somewhere", "warn": warn}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile("def inner():\n    warn('there')\ninner()", "inside", "exec"), scope)
    assert [record.filename for record in caught] == [__file__]


# --- scales ---------------------------------------------------------------------------------------


def scaled(*scales):
    X = np.random.default_rng(0).standard_normal((40, len(scales)))
    return X / X.std(axis=0) * np.array(scales), (X[:, 0] > 0.0).astype(int)


def scale_warnings(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in caught if w.category is UserWarning]


@in_one_test(
    "settings, scales, named",
    [
        ({}, (1.0, 31.0, 1e-3, 29.0), "columns [1, 2] "),
        ({"ard": True}, (1.0, 31.0, 1e-3, 29.0), "columns [1, 2] "),
        ({"priors": {}}, (1.0, 100.0), "columns [1] "),
        ({"priors": "paper"}, (1e3, 2e4), "columns [0, 1] "),
        ({}, (1e3, 2e4), None),  # a scale that features share
        ({}, (1.0, 29.0, 1.0 / 29.0), None),
        ({"kernel": ConstantKernel() * RBF()}, (1.0, 100.0), None),
        ({"priors": {"k2__length_scale": stats.gamma(1.0, scale=100.0)}}, (1.0, 100.0), None),
    ],
)
def test_unexpected_scales_of_columns_cause_a_warning(settings, scales, named):
    said = scale_warnings(quick(**{"priors": None, **settings}), *scaled(*scales))
    assert len(said) == (named is not None)
    assert named is None or named in said[0]


def test_the_warning_of_scales_comes_once_and_names_columns_and_a_remedy():
    X, y = scaled(1.0, 1e4)
    X = pd.DataFrame(X, columns=["age", "income"])
    (message,) = scale_warnings(quick(), X, np.where(np.arange(40) < 10, 2, y))
    assert "columns ['income'] " in message
    assert "make_pipeline(StandardScaler(), BayesianGPClassifier(...))" in message
    assert "[1/30, 30]" in message
    assert scale_warnings(make_pipeline(StandardScaler(), quick()), X, y) == []


def test_constant_columns_cause_no_scale_warning():
    """The standard deviation of many of them is not zero but rounding error."""
    X, y = scaled(1.0, 2.0)
    constants = np.tile([0.0, 0.1, 1e5 + 0.1, -7.0, 1e-9], (40, 1))
    assert constants.std(axis=0).max() > 0.0
    assert scale_warnings(quick(), np.hstack([X, constants]), y) == []


MANY = _base._MANY_LENGTH_SCALES + 1


@pytest.mark.parametrize(
    "settings",
    [
        {"ard": True},
        {"ard": True, "priors": "sparse"},
        {"kernel": ConstantKernel() * RBF(np.ones(MANY))},
    ],
    ids=["default kernel", "sparse prior", "kernel of the user"],
)
@pytest.mark.parametrize("sampler", ["pm", "asis"])
def test_many_length_scales_cause_a_warning_before_any_evaluation(settings, sampler, monkeypatch):
    """The warning is an error here. It names the sparse prior, where that is not the one."""
    monkeypatch.setattr(set_ups, "perform", None)
    wide = np.random.default_rng(0).standard_normal((16, MANY))
    match = rf"The kernel has {MANY} length-scales to be sampled.*ard=False.*PCA"
    with pytest.raises(UserWarning, match=match) as caught:
        BayesianGPClassifier(sampler=sampler, **settings).fit(wide, Y)
    assert ('priors="sparse"' in str(caught.value)) == ("priors" not in settings)


def test_usual_numbers_of_length_scales_cause_no_warning():
    for kernel in (RBF(np.ones(MANY - 1)), RBF(np.ones(MANY), "fixed"), RBF()):
        width = max(np.size(kernel.length_scale), 2)
        _base._warn_about_length_scales(make_model(np.zeros((3, width)), np.ones(3), kernel=kernel))


# --- convergence ----------------------------------------------------------------------------------


def test_the_warning_of_convergence_names_the_hyper_parameter_and_the_remedy():
    with pytest.warns(ConvergenceWarning) as caught:
        model = quick(n_draws=20).fit(X, Y)
    (warning,) = caught
    message = str(warning.message)
    worst = np.argmax(model.diagnostics_.r_hat)
    r_hat, row = model.diagnostics_.r_hat[worst], model.hyperparameter_names_[worst]
    assert f"R-hat {r_hat:.3f} (wanted: at most 1.01) of {row!r}" in message
    assert "k1__constant_value" in message
    assert "use sampler='pm'" in message
    assert "diagnostics_" in message


def test_the_warning_of_convergence_comes_once_and_names_the_class():
    y = np.where(np.arange(16) < 5, 2, Y)
    with pytest.warns(ConvergenceWarning, match=r"\(class [012]\)") as caught:
        quick().fit(X, y)
    assert len(caught) == 1


def test_the_warning_of_convergence_names_n_importance_where_estimates_are_noisy():
    X, y = make_moons(100, noise=0.3, random_state=0)
    kernel = ConstantKernel(1e4, "fixed") * RBF([0.02, 0.02])
    priors = {"k2__length_scale": stats.uniform(0.01, 0.02)}
    # Around Laplace's own Gaussian, not around one that the set-up has chosen with care.
    model = quick(kernel=kernel, priors=priors, n_importance=1, n_warmup=10, n_draws=10)
    with pytest.warns(ConvergenceWarning, match="n_importance: the log-likelihood noise is"):
        model.fit(X, y)
    assert model.diagnostics_.log_likelihood_sd > 2.0


def test_convergence_warning_advises_no_sampler_that_lacks_a_gradient():
    class WithoutGradient(RBF):
        def __call__(self, X, Y=None, eval_gradient=False):
            if eval_gradient:
                raise NotImplementedError
            return super().__call__(X, Y)

    own = {"kernel": WithoutGradient(), "priors": {"length_scale": stats.lognorm(1.0)}}
    with pytest.warns(ConvergenceWarning, match="do better, increase n_draws") as caught:
        quick(sampler="asis", approximation="auto", **own).fit(X, Y)
    assert "sampler=" not in str(caught[0].message)
    with pytest.warns(ConvergenceWarning, match="use sampler='auto', which needs far fewer"):
        BayesianGPRegressor(**{**QUICK, "sampler": "asis", "approximation": "auto"}).fit(X, Y)


def test_converged_chains_cause_no_warning():
    X, y = make_moons(30, noise=0.15, random_state=0)
    priors = {"k1__constant_value": stats.lognorm(0.3), "k2__length_scale": stats.lognorm(0.3)}
    settings = {"n_chains": 2, "n_warmup": 10, "n_draws": 300, "max_rhat": 1.05, "random_state": 0}
    model = BayesianGPClassifier(priors=priors, **settings).fit(X, y)  # a warning is an error here
    assert model.diagnostics_.converged(1.05)


# --- parameters that only a fit takes up ----------------------------------------------------------


@pytest.mark.parametrize("y", [Y, np.arange(16) % 3], ids=["two classes", "three classes"])
@short_chains()
def test_changed_max_predict_draws_warns_until_the_next_fit(y):
    model = quick(warm_start=True).fit(X, y)
    expected = model.predict_proba(X)
    model.set_params(max_predict_draws=7)
    message = "max_predict_draws=7 has no effect before the next fit.*max_predict_draws=4"
    with pytest.warns(UserWarning, match=message) as caught:
        assert_array_equal(model.predict_proba(X), expected)
    assert len(caught) == 1
    model.set_params(max_predict_draws=4).predict_proba(X)  # no warning: that is an error here
    message = "predict_cache_bytes=0 has no effect before the next fit"
    with pytest.warns(UserWarning, match=message) as caught:
        model.set_params(predict_cache_bytes=0).predict_proba(X)
    assert len(caught) == 1
    for binary in getattr(model, "estimators_", []):
        binary.predict_proba(X)
    model.set_params(max_predict_draws=7, n_draws=9).fit(X, y).predict_proba(X)  # nor after it
