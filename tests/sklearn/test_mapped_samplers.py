"""Samplers whose moves follow a cheap posterior, as estimators have them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor, BayesianGPRegressor
from skgpmcmc.approximations import EP, EigenExact, Laplace, Nystrom, SubsetOfData
from skgpmcmc.samplers import DiscretizingChain, TemperedTransitions
from skgpmcmc.transitions import UnivariateSlice

from ..helpers import in_one_test
from .conftest import assert_same_draws

# Chains this short are for the settings alone.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
N, N_DRAWS = 24, 10
X = RNG.uniform(size=(N, 2))
Y = np.sin(4.0 * X[:, 0]) + 0.2 * RNG.standard_normal(N)
CLASSES = (np.median(Y) < Y).astype(int)
SHORT = {"n_chains": 2, "n_warmup": 5, "n_draws": N_DRAWS, "random_state": 0}

SAMPLERS = {
    "discretizing": "discretizing",
    "tempered": "tempered",
    "several moves": DiscretizingChain(n_moves=3, jump=2),
    "trajectories": TemperedTransitions(n_updates=2, operator="hmc"),
    "layers": TemperedTransitions(layers=[SubsetOfData(5)]),
}
ESTIMATORS = [(BayesianGPRegressor, Y), (BayesianGPClassifier, CLASSES)]
#: Laplace is faster than EP.
_INNER = {BayesianGPRegressor: "auto", BayesianGPClassifier: "laplace"}


def fitted(estimator, y, sampler, **settings):
    settings = {"approximation": SubsetOfData(6, inner=_INNER[estimator]), **SHORT, **settings}
    return estimator(sampler=sampler, **settings).fit(X, y)


#: Every sampler, and every estimator with both names.
PAIRS = {
    "discretizing": ESTIMATORS,
    "tempered": ESTIMATORS,
    "several moves": ESTIMATORS[:1],
    "trajectories": ESTIMATORS[1:],
    "layers": ESTIMATORS[:1],
}


@pytest.mark.parametrize(
    ("name", "estimator", "y"), [(name, *case) for name, cases in PAIRS.items() for case in cases]
)
def test_mapped_chains_move_and_predictions_are_finite(name, estimator, y):
    sampler = SAMPLERS[name]
    model = fitted(estimator, y, clone(sampler) if not isinstance(sampler, str) else sampler)
    p = len(model.hyperparameter_names_)
    assert model.theta_samples_.shape == (2, N_DRAWS, p)
    assert model.latent_samples_.shape == (2, N_DRAWS, N)
    assert np.isfinite(model.predict(X[:3])).all()
    assert len(np.unique(model.theta_samples_.reshape(-1, p), axis=0)) > 2


@pytest.mark.parametrize(("estimator", "y"), ESTIMATORS)
def test_marked_samples_have_weights_and_end_with_the_draws(estimator, y):
    model = fitted(estimator, y, DiscretizingChain(n_moves=3))
    theta, weight = model.marked_samples_
    p = model.theta_samples_.shape[2]
    assert theta.shape == (2, N_DRAWS, 3 * p, p)  # each coordinate is mapped by itself
    assert weight.shape == (2, N_DRAWS, 3 * p)
    np.testing.assert_allclose(weight.sum(axis=2), 1.0)
    assert_array_equal(theta[:, :, -1], model.theta_samples_)
    model.set_params(sampler="tempered").fit(X, y)
    assert not hasattr(model, "marked_samples_")


@pytest.mark.parametrize(
    ("estimator", "y", "sampler"),
    [
        (*ESTIMATORS[0], "discretizing"),
        (*ESTIMATORS[1], "tempered"),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [(*ESTIMATORS[1], "discretizing"), (*ESTIMATORS[0], "tempered")]
        ),
    ],
)
def test_continued_mapped_fit_equals_one_longer_fit(estimator, y, sampler):
    whole = fitted(estimator, y, sampler, n_draws=6)
    begun = fitted(estimator, y, sampler, n_draws=4, n_jobs=2, warm_start=True)
    begun = pickle.loads(pickle.dumps(begun))
    begun.set_params(n_draws=6).fit(X, y)
    assert_same_draws(begun, whole)
    assert_array_equal(begun.predict(X), whole.predict(X))
    if sampler == "discretizing":
        assert_array_equal(begun.marked_samples_.theta, whole.marked_samples_.theta)


def test_size_of_the_cheap_posterior_does_not_depend_on_workers():
    sampler = DiscretizingChain(operator="mh")
    draws = [
        fitted(BayesianGPRegressor, Y, sampler, approximation="sod", n_jobs=n).theta_samples_
        for n in (1, 2)
    ]
    assert_array_equal(*draws)


def test_candidate_sizes_grow_with_the_number_of_rows():
    assert [own.m for own in SubsetOfData().candidates(24)] == [3, 5, 10]
    assert [own.m for own in Nystrom(rows="maximin").candidates(10_000)] == [1000]
    (own,) = SubsetOfData(9, rows="maximin").candidates(24)
    assert (own.m, own.rows) == (9, "maximin")


@in_one_test(
    "estimator, y, sampler, approximation, expected",
    [
        (*ESTIMATORS[0], "tempered", Nystrom(5), "nystrom"),
        (*ESTIMATORS[0], "tempered", EigenExact(6), "eigen"),
        (*ESTIMATORS[1], "discretizing", SubsetOfData(0.3, inner="laplace"), "sod"),
        (*ESTIMATORS[1], "tempered", Nystrom(5, inner="laplace"), "nystrom"),
    ],
)
def test_diagnostics_of_mapped_samplers_list_the_settings_in_use(
    estimator, y, sampler, approximation, expected
):
    model = fitted(estimator, y, sampler, approximation=approximation, n_draws=2)
    own = {} if estimator is BayesianGPRegressor else {"n_importance": "auto"}
    assert model.diagnostics_.in_use == {"sampler": sampler, "approximation": expected, **own}


def test_count_regression_uses_the_inner_approximation():
    counts = np.random.default_rng(0).poisson(np.exp(Y))
    cheap = SubsetOfData(8, inner="laplace")
    model = BayesianGPCountRegressor(sampler="discretizing", approximation=cheap, **SHORT)
    model.fit(X, counts)
    assert isinstance(model._sampling.run.models[0].reference, Laplace)
    assert np.isfinite(model.predict(X)).all()


@in_one_test(
    "estimator, y, sampler",
    [(*case, sampler) for case in ESTIMATORS for sampler in ("discretizing", "tempered")],
)
def test_mapped_samplers_accept_a_fixed_kernel(estimator, y, sampler):
    fixed = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    model = fitted(estimator, y, sampler, kernel=fixed)
    assert model.latent_samples_.shape == (2, N_DRAWS, N)


def test_one_vs_rest_has_marked_samples_and_softmax_has_predictions():
    model = fitted(BayesianGPClassifier, np.arange(N) % 3, "discretizing", n_draws=2)
    assert [own.marked_samples_.theta.shape[:3] for own in model.estimators_] == [(2, 2, 3)] * 3
    model = fitted(BayesianGPClassifier, CLASSES, "discretizing", multi_class="softmax", n_draws=2)
    assert np.isfinite(model.predict_proba(X)).all()


def test_nested_parameters_reach_sampler_and_cheap_posterior():
    model = BayesianGPRegressor(
        sampler=DiscretizingChain(operator="mh"), approximation=SubsetOfData(6), **SHORT
    )
    model = clone(model).set_params(sampler__n_moves=2, approximation__m=5)
    assert model.fit(X, Y).marked_samples_.theta.shape == (2, N_DRAWS, 2, 4)


def test_configured_operator_is_tuned_and_keeps_its_fields():
    sampler = DiscretizingChain(operator=UnivariateSlice(max_widths=2))
    model = fitted(BayesianGPRegressor, Y, sampler)
    mapped, walking = model._sampling.run.models[0].chains[0].transition.moves
    operators = [move.layer.operator for move in mapped.moves]
    assert [own.axes for own in operators] == [(0,), (1,), (2,), (3,)]
    assert {own.max_widths for own in operators} == {2}
    assert {len(own.spreads) for own in operators} == {4}
    assert walking.name == "random walk"
    assert walking.proposal.root.matrix.shape == (4, 4)


# --- what is refused ------------------------------------------------------------------------------

REFUSED = [
    ({"approximation": "ep"}, "approximation='ep' is not a cheap posterior.*SubsetOfData"),
    ({"approximation": Laplace()}, "makes its proposals: use one of"),
    ({"sampler": TemperedTransitions(layers=[EP()])}, "sampler: layers must be cheap posteriors"),
    ({"sampler": TemperedTransitions(layers=[SubsetOfData()])}, "give m a number"),
    ({"sampler": TemperedTransitions(n_updates=[1, 2])}, "n_updates=.* must have 1 numbers"),
    (
        {"sampler": "discretizing", "multi_class": "softmax", "approximation": "nystrom"},
        'approximation="sod"',
    ),
    *(
        ({"sampler": "pm", "approximation": cheap}, "is a cheap posterior of theta")
        for cheap in ("sod", SubsetOfData(9))
    ),
]


@in_one_test(("settings", "message"), REFUSED)
def test_mapped_samplers_refuse_impossible_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        BayesianGPClassifier(**{"sampler": "discretizing", **SHORT, **settings}).fit(X, CLASSES)
