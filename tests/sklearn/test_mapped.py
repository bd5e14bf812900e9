"""Estimators whose chains move by a cheap posterior: settings, draws, attributes, refusals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF

from skgpmcmc import BayesianGPClassifier, BayesianGPPoissonRegressor, BayesianGPRegressor
from skgpmcmc.approximations import EP, EigenExact, Nystrom, SubsetOfData
from skgpmcmc.samplers import DiscretizingChain, TemperedTransitions
from skgpmcmc.transitions import Langevin, UnivariateSlice

X, Y = make_moons(24, noise=0.3, random_state=0)
T = X[:, 0] + 0.1 * np.random.default_rng(0).standard_normal(24)
COUNTS = np.round(4.0 * np.abs(T))
SHORT = {"n_chains": 2, "n_warmup": 10, "n_draws": 8, "random_state": 0}
SOME = SubsetOfData(m=8)
MARKS = DiscretizingChain(operator="mh", n_moves=3, jump=2)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def regressor(**settings):
    return BayesianGPRegressor(**{**SHORT, "sampler": MARKS, "approximation": SOME, **settings})


def fitted(**settings):
    return regressor(**settings).fit(X, T)


@pytest.mark.parametrize("sampler", ["discretizing", "tempered"])
@pytest.mark.parametrize("approximation", [SOME, Nystrom(m=6), EigenExact(m=5)])
@pytest.mark.parametrize(
    ("kind", "y"),
    [(BayesianGPRegressor, T), (BayesianGPClassifier, Y), (BayesianGPPoissonRegressor, COUNTS)],
)
def test_every_cheap_posterior_serves_every_kind_of_model(kind, y, sampler, approximation):
    model = kind(**SHORT, sampler=sampler, approximation=approximation).fit(X, y)
    assert np.isfinite(model.theta_samples_).all()
    assert np.ptp(model.theta_samples_) > 0.0
    assert np.isfinite(model.predict(X[:3])).all()
    assert model.diagnostics_.in_use["sampler"] == sampler
    assert ("n_importance" in model.diagnostics_.in_use) == (kind is not BayesianGPRegressor)


def test_names_stand_for_cheap_posteriors_and_auto_for_a_subset():
    for name, expected in [("auto", "sod"), ("sod", "sod"), ("nystrom", "nystrom")]:
        model = fitted(approximation=name, n_draws=2, n_warmup=2)
        assert model.diagnostics_.in_use["approximation"] == expected


def test_marked_samples():
    model = fitted()
    theta, weights = model.marked_samples_
    assert theta.shape == (2, 8, 3, 3)
    assert weights.shape == (2, 8, 3)
    assert_allclose(weights.sum(axis=2), 1.0)
    # An iteration ends where the mark was last.
    assert_array_equal(theta[:, :, -1], model.theta_samples_)
    assert len(np.unique(theta[:, :, 0], axis=1)) > 0


def test_marks_of_estimates_end_where_iterations_do():
    model = BayesianGPClassifier(**SHORT, sampler=MARKS, approximation=SOME).fit(X, Y)
    assert_array_equal(model.marked_samples_.theta[:, :, -1], model.theta_samples_)


def test_no_marks_elsewhere():
    for model in (fitted(sampler="tempered"), fitted(sampler="collapsed", approximation="auto")):
        assert not hasattr(model, "marked_samples_")


def test_a_new_fit_forgets_the_marks():
    model = fitted().set_params(sampler="tempered").fit(X, T)
    assert not hasattr(model, "marked_samples_")


def test_classes_against_the_rest_have_their_own_marks():
    three = np.where(X[:, 0] > 1.0, 2, Y)
    model = BayesianGPClassifier(**SHORT, sampler=MARKS, approximation=SOME).fit(X, three)
    with pytest.raises(AttributeError, match=r"estimators_\[k\].marked_samples_"):
        _ = model.marked_samples_
    assert model.estimators_[0].marked_samples_.theta.shape == (2, 8, 3, 2)


def test_softmax_moves_by_a_subset():
    settings = {"multi_class": "softmax", "sampler": MARKS, "approximation": SOME}
    model = BayesianGPClassifier(**SHORT, **settings).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("approximation", [SOME, "sod"], ids=["some", "auto"])
def test_draws_do_not_depend_on_the_number_of_workers(approximation):
    one, two = (fitted(approximation=approximation, n_jobs=n) for n in (1, 2))
    assert_array_equal(one.theta_samples_, two.theta_samples_)
    assert_array_equal(one.latent_samples_, two.latent_samples_)
    assert_array_equal(one.marked_samples_.theta, two.marked_samples_.theta)


@pytest.mark.parametrize("sampler", [MARKS, TemperedTransitions(operator="mh")])
def test_warm_start_continues(sampler):
    long = fitted(sampler=sampler, n_draws=70)
    model = fitted(sampler=sampler, n_draws=50, warm_start=True)
    model = pickle.loads(pickle.dumps(model)).set_params(n_draws=70).fit(X, T)
    assert_array_equal(model.theta_samples_, long.theta_samples_)
    if sampler is MARKS:
        assert_array_equal(model.marked_samples_.theta, long.marked_samples_.theta)


def test_all_hyperparameters_fixed():
    kernel = RBF(1.0, "fixed")
    model = BayesianGPClassifier(kernel, **SHORT, sampler=MARKS, approximation="sod").fit(X, Y)
    assert model.marked_samples_.theta.shape == (2, 8, 3, 0)


def test_clones_and_nested_parameters():
    model = clone(regressor()).set_params(sampler__n_moves=2, approximation__m=5)
    assert model.fit(X, T).marked_samples_.theta.shape == (2, 8, 2, 3)


def test_several_layers():
    sampler = TemperedTransitions(operator="mh", n_updates=(1, 2), layers=(SubsetOfData(m=4),))
    assert np.isfinite(fitted(sampler=sampler).theta_samples_).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"approximation": "ep"}, "no posterior that is cheaper"),
        ({"approximation": EP()}, "no posterior that is cheaper"),
        ({"approximation": "best"}, "approximation must be one of"),
        ({"approximation": SubsetOfData(m=0)}, "approximation: m must be an integer"),
        ({"sampler": "collapsed"}, "is a cheap posterior of theta"),
        ({"sampler": DiscretizingChain(n_moves=0)}, "sampler: n_moves must be"),
        ({"sampler": DiscretizingChain(jump=0)}, "sampler: jump must be"),
        ({"sampler": DiscretizingChain(operator="smmala")}, "sampler: operator must be"),
        ({"sampler": DiscretizingChain(operator=Langevin())}, "sampler: operator must be"),
        ({"sampler": DiscretizingChain(target_acceptance=2.0)}, "sampler: target_acceptance"),
        ({"sampler": TemperedTransitions(layers=("sod",))}, "layers must be cheap posteriors"),
        ({"sampler": TemperedTransitions(layers=(SubsetOfData(),))}, "give m a number"),
        ({"sampler": TemperedTransitions(n_updates=0)}, "n_updates must be an integer"),
        ({"sampler": TemperedTransitions(n_updates=(1, 1))}, "must have 1 numbers"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises(ValueError, match=message):
        fitted(**settings)


def test_a_softmax_has_no_low_rank():
    model = BayesianGPClassifier(
        **SHORT, multi_class="softmax", sampler="discretizing", approximation="nystrom"
    )
    with pytest.raises(ValueError, match='approximation="sod"'):
        model.fit(X, Y)


def test_a_configured_operator_is_used():
    sampler = DiscretizingChain(operator=UnivariateSlice(max_widths=2))
    model = fitted(sampler=sampler)
    tuned = model._sampling.run.models[0].chains[0].transition.layer.operator
    assert tuned.max_widths == 2
    assert len(tuned.spreads) == 3
