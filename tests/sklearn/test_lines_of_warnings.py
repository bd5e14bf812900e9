"""Warnings point at the line of the user, whoever calls the estimator for him."""

import warnings
from dataclasses import replace

import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skgpmcmc import BayesianGPClassifier, BayesianGPVolatilityRegressor
from skgpmcmc._warnings import warn
from skgpmcmc.baselines import EPMLClassifier, epml
from skgpmcmc.chain import time_limit
from skgpmcmc.estimators import _base
from skgpmcmc.parallel.workers import Workers
from skgpmcmc.run import evidence, set_ups
from skgpmcmc.run.checkpoint import Checkpoint
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import rounds_of

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


def interrupted(*arguments):
    raise KeyboardInterrupt


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

    def full(self, on_failure):
        if next(left, None) is None:
            on_failure(OSError(28, "No space left on device"))
        else:
            write(self, on_failure)

    patch.setattr(Checkpoint, "_write", full)
    quick(checkpoint=folder / "file").fit(X, Y)


def ctrl_c_while_sampling(patch, folder):
    class Interrupting:
        def setup(self, estimator, context):
            pass

        teardown = on_fit_task_begin = setup

        def on_fit_task_end(self, estimator, context):
            if estimator.n_draws and context.task_id == WALK.n_set_up_rounds(6):
                raise KeyboardInterrupt

    quick().set_callbacks(Interrupting()).fit(X, Y)


def ctrl_c_after_the_last_draw(patch, folder):
    patch.setattr(_base, "find_density_arrays", interrupted)
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


def an_evidence_of_few_draws(patch, folder):
    patch.setattr(evidence, "_HARMLESS_SHARE", -1.0)
    patch.setattr(evidence, "MAX_PARETO_K", -100.0)
    quick(n_draws=20).fit(X, Y).log_evidence("is")


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
    an_evidence_of_few_draws: "the weights have a Pareto k",
}


def places(caught, message):
    """Files that warnings of a message point at."""
    return {record.filename for record in caught if message in str(record.message)}


def test_every_warning_points_at_the_line_of_the_user(tmp_path):
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
def test_who_calls_the_estimator_is_passed_over(call):
    with pytest.warns(ConvergenceWarning) as caught:
        call(quick())
    assert places(caught, "Chains ") == {__file__}


def test_each_line_is_warned_of_once_by_default():
    """Python tells warnings apart by their lines: those of a package would be one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            warn("here")
        warn("here")
    assert [str(record.message) for record in caught] == ["here", "here"]


def test_where_nobody_else_is_the_outermost_call_is_named():
    """As in a worker that is nothing but this package."""
    scope = {"__name__": "skgpmcmc.somewhere", "warn": warn}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile("def inner():\n    warn('there')\ninner()", "inside", "exec"), scope)
    assert [record.filename for record in caught] == [__file__]
