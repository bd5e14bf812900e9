"""Names and numbers that a sampler does not use have no effect; diagnostics say what is in use."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.samplers import Ancillary, Marginal, PseudoMarginal

from ..helpers import in_one_test

X, Y = make_moons(14, noise=0.3, random_state=0)
REAL = X[:, 0] + 0.3 * np.random.default_rng(0).standard_normal(len(X))
#: Of one hyper-parameter, so that emulators are soon learned.
ONE = ConstantKernel(1.0, "fixed") * RBF()
SHORT = {"n_chains": 2, "n_warmup": 4, "n_draws": 4, "random_state": 0}
WALK = PseudoMarginal(moves="random_walk")
#: Nothing has to be learned by its set-up.
MARGINAL = Marginal(moves="random_walk")
# Chains this short are for the settings alone.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def used(model):
    return model.diagnostics_.in_use


def test_grid_search_runs_over_settings_that_some_samplers_ignore():
    grid = {
        "sampler": ["asis", MARGINAL, WALK],
        "approximation": ["ep", "laplace"],
        "n_importance": ["auto", 7],
    }
    once = {"cv": ShuffleSplit(1, test_size=0.3, random_state=0), "refit": False}
    search = GridSearchCV(
        BayesianGPClassifier(**SHORT), grid, scoring="neg_log_loss", error_score="raise", **once
    )
    scores = search.fit(X, Y).cv_results_["mean_test_score"]
    assert len(scores) == 12
    assert np.isfinite(scores).all()
    # What is not in use changes nothing, and what is does.
    asis, marginal, pm = scores.reshape(2, 2, 3).T  # each n_importance by approximation
    assert_array_equal(asis, np.full((2, 2), asis[0, 0]))
    assert_array_equal(marginal[0], marginal[1])
    assert len(set(marginal[0])) == 2
    assert len(set(pm.ravel())) == 4


NOT_IN_USE = [
    ({"sampler": "asis"}, {"approximation": "ep"}),
    ({"sampler": "asis"}, {"n_importance": 7}),
    ({"sampler": MARGINAL}, {"n_importance": 7}),
    ({"sampler": Ancillary(hyper="slice")}, {"sampler__target_acceptance": 0.3}),
]


@in_one_test("settings, ignored", NOT_IN_USE)
def test_settings_not_in_use_change_no_draw(settings, ignored):
    plain = BayesianGPClassifier(**SHORT, **settings).fit(X, Y)
    draws = plain.theta_samples_
    again = BayesianGPClassifier(**SHORT, **settings).set_params(**ignored).fit(X, Y)
    assert_array_equal(again.theta_samples_, draws)
    assert used(again) == used(plain)


def test_regression_ignores_an_approximation_given_by_name():
    plain = BayesianGPRegressor(**SHORT, kernel=ONE).fit(X, REAL)
    ignored = {"approximation": "laplace", "n_importance": 7}
    named = BayesianGPRegressor(**SHORT, kernel=ONE, **ignored).fit(X, REAL)
    assert_array_equal(named.theta_samples_, plain.theta_samples_)
    assert used(named) == {"sampler": "collapsed"}


@pytest.mark.parametrize(
    ("likelihood", "chosen"),
    [("gaussian", "collapsed"), (Gaussian(0.1, fixed=True), "collapsed"), ("student_t", "pm")],
)
def test_default_regression_integrates_f_out_if_noise_is_gaussian(likelihood, chosen):
    settings = {**SHORT, "kernel": ONE, "likelihood": likelihood, "approximation": "laplace"}
    named, auto = (
        BayesianGPRegressor(**settings, sampler=sampler).fit(X, REAL)
        for sampler in (chosen, "auto")
    )
    assert BayesianGPRegressor().sampler == "auto"
    assert used(auto)["sampler"] == chosen
    assert_array_equal(auto.theta_samples_, named.theta_samples_)


IN_USE = [
    ({"sampler": "asis", "approximation": "ep", "n_importance": 7}, {"sampler": "asis"}),
    ({"sampler": "khr", "n_importance": 7}, {"sampler": "khr", "approximation": "laplace"}),
    ({"sampler": "marginal"}, {"sampler": "marginal", "approximation": "ep"}),
    (
        {"sampler": MARGINAL, "approximation": Laplace(tol=1e-3)},
        {"sampler": "marginal", "approximation": "laplace"},
    ),
    (
        {"sampler": WALK, "n_importance": 7},
        {"sampler": "pm", "approximation": "ep", "n_importance": "7"},
    ),
    (
        {"sampler": WALK},
        {"sampler": "pm", "approximation": "ep", "n_importance": "auto"},
    ),
]


@in_one_test("settings, expected", IN_USE)
def test_diagnostics_list_the_settings_in_use(settings, expected):
    model = BayesianGPClassifier(**SHORT, **settings).fit(X, Y)
    assert used(model) == expected
    line = "in use: " + ", ".join(f"{name} {value}" for name, value in expected.items())
    assert str(model.diagnostics_).splitlines()[-1] == line


def test_one_vs_rest_and_its_continuation_list_the_settings_in_use():
    model = BayesianGPClassifier(sampler="aa", warm_start=True, **SHORT).fit(
        X, np.arange(len(X)) % 3
    )
    model = pickle.loads(pickle.dumps(model)).set_params(n_draws=6).fit(X, np.arange(len(X)) % 3)
    assert used(model) == used(model.estimators_[2]) == {"sampler": "aa"}


@in_one_test("sampler", ["sa", "aa", "asis", "surr"])
def test_approximation_object_without_use_is_refused(sampler):
    message = r"approximation=EP\(.*\) has no effect.*approximation=\"auto"
    with pytest.raises(ValueError, match=message):
        BayesianGPClassifier(sampler=sampler, approximation=EP(), **SHORT).fit(X, Y)
