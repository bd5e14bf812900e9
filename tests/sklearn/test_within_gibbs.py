"""Estimators whose chains move f and theta alternately."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.approximations import Laplace
from skgpmcmc.numerics.dynamics import IDENTITY
from skgpmcmc.samplers import Ancillary, Interweaving, KnorrHeldRue, Sufficient, Surrogate
from skgpmcmc.transitions import (
    HyperUpdate,
    LatentUpdate,
    RandomWalk,
    Trajectory,
    UnivariateSlice,
)
from skgpmcmc.transitions.gibbs import PriorShape
from skgpmcmc.transitions.joint_update import JointUpdate

from ..helpers import every_pair, in_one_test, rounds_of
from .conftest import assert_same_draws

# A few draws are enough here.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The default priors expect features"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

NAMES = ("sa", "aa", "asis", "surr", "khr")
LATENT = ("mh", "mh_v1", "mh_v2", "smmala", "elliptical_slice", "hmc", "hmc_v1", "hmc_v2")
HYPER = ("mh", "hmc", "smmala", "slice")

QUICK = {"n_chains": 2, "n_warmup": 10, "n_draws": 6, "random_state": 0}
SMOOTH = {ard: ConstantKernel() * RBF(np.ones(2) if ard else 1.0) for ard in (False, True)}
BRIEF = {"n_chains": 1, "n_warmup": 2, "n_draws": 2, "random_state": 0}
N = 16
X, Y = make_moons(N, noise=0.3, random_state=0)
RNG = np.random.default_rng(0)
TARGETS = {
    BayesianGPClassifier: np.where(X[:, 0] > 1.2, 2, Y),
    BayesianGPRegressor: X[:, 0] + 0.1 * RNG.standard_normal(N),
    BayesianGPCountRegressor: RNG.poisson(np.exp(X[:, 1])),
    BayesianGPOrdinalClassifier: np.digitize(X[:, 0], [0.0, 1.0]),
    BayesianGPVolatilityRegressor: np.exp(X[:, 1]) * RNG.standard_normal(N),
}
KINDS = (Sufficient, Ancillary, Interweaving, Surrogate)


def quick(sampler, **changes):
    return BayesianGPClassifier(sampler=sampler, **{**QUICK, **changes})


@pytest.mark.parametrize("estimator", TARGETS)
@in_one_test("name", NAMES)
def test_every_estimator_runs_every_alternating_sampler(name, estimator):
    y = TARGETS[estimator]
    model = estimator(sampler=name, **BRIEF).fit(X, y)
    assert np.isfinite(model.log_predictive_density(X[:5], y[:5])).all()
    for part in getattr(model, "estimators_", [model]):
        assert part.theta_samples_.shape[:2] == (1, 2)
        assert np.isfinite(part.theta_samples_).all()
        assert part.latent_samples_.shape == (1, 2, N)


def moves():
    """Every two of a move of f, a move of theta, a parameterization and an estimator."""
    return every_pair(LATENT, HYPER, KINDS, list(TARGETS))


@pytest.mark.parametrize("latent", LATENT)
def test_every_move_of_f_runs_with_every_move_of_theta(latent):
    failures = []
    for case in moves():
        if case[0] == latent:
            _, hyper, kind, estimator = case
            sampler = kind(latent=latent, hyper=hyper, n_latent=2, max_leapfrog=3)
            model = estimator(sampler=sampler, **BRIEF).fit(X, TARGETS[estimator])
            part = getattr(model, "estimators_", [model])[0]
            counts = model._sampling.run.models[0].draws.chain_counts[0]
            found = {
                "finite": np.isfinite(model.predict(X[:3]).astype(float)).all(),
                "moves": len(part.diagnostics_.acceptance_rate) == 2 + (kind is Interweaving),
                # Two moves of f an iteration, and all are counted.
                "counts": sorted(counts.n_steps.values())[-1] == 4,
            }
            failures += [(case, what) for what, good in found.items() if not good]
    assert failures == []


@in_one_test("latent", LATENT)
def test_every_move_of_f_runs_with_joint_updates(latent):
    model = quick(KnorrHeldRue(latent=latent), **BRIEF).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_chains_use_the_configured_moves():
    own = LatentUpdate(Trajectory(-2.0, max_steps=3), PriorShape())
    sampler = Ancillary(latent=own, hyper=UnivariateSlice(max_widths=3))
    model = quick(sampler).fit(X, Y)
    latent, hyper = model._sampling.run.models[0].chains[0].transition.moves
    assert latent.operator.max_steps == 3
    assert hyper.operator.max_widths == 3


def test_grid_search_reaches_the_fields_of_moves():
    """A slice moves always and a random walk does not, so that a search for moves finds it."""

    def share_of_moves(model, X, y):
        return min(rates.mean() for rates in model.diagnostics_.acceptance_rate.values())

    sampler = Ancillary(latent="elliptical_slice")
    grid = {"sampler__hyper": ["mh", "slice"], "sampler__n_latent": [1]}
    search = GridSearchCV(quick(sampler), grid, cv=2, scoring=share_of_moves).fit(X, Y)
    assert search.best_params_["sampler__hyper"] == "slice"
    walk, slices = search.cv_results_["mean_test_score"]
    assert walk < 1.0 == slices
    assert clone(quick(Surrogate(hyper="hmc"))).sampler.hyper == "hmc"


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_predictions_condition_on_the_draws_of_f(name):
    model = quick(name, max_predict_draws=None).fit(X, Y)
    new = X[:4] + 0.1
    (own,) = model._sampling.run.models
    expected = []
    for theta, f in zip(*map(np.concatenate, (own.draws.theta, own.draws.f)), strict=True):
        mean, var = own.model.prior_at(theta).condition_on(f[:, None]).predict(new)
        expected.append(stats.norm.cdf(mean[:, 0] / np.sqrt(1.0 + var)))
    assert_allclose(model.predict_proba(new)[:, 1], np.mean(expected, axis=0), rtol=1e-8)


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler",
    [
        Interweaving(latent="smmala", hyper="smmala", n_latent=1),
        Surrogate(latent="hmc_v1", hyper="hmc", n_latent=1, max_leapfrog=2),
        KnorrHeldRue(n_latent=1),
    ],
)
def test_workers_and_continuation_change_no_draw_of_alternating_moves(sampler):
    """Whatever is made anew where a state has travelled to is what it was."""
    settings = {"n_draws": 13, "n_warmup": 4}
    with rounds_of(10):
        whole = quick(sampler, **settings).fit(X, Y)
        parallel = quick(sampler, n_jobs=2, **settings).fit(X, Y)
        half = quick(sampler, **settings | {"n_draws": 10}, warm_start=True).fit(X, Y)
        half = pickle.loads(pickle.dumps(half)).set_params(n_draws=13).fit(X, Y)
    assert_same_draws(parallel, whole)
    assert_same_draws(half, whole)


def test_warm_up_tunes_every_move():
    sampler = Ancillary(hyper="mh", latent="hmc_v2", n_latent=1)
    # Rates of single chains vary much, as theta does.
    model = quick(sampler, n_warmup=200, n_draws=150, n_chains=6, priors="paper").fit(X, Y)
    rates = model.diagnostics_.acceptance_rate
    assert 0.1 < rates["random walk on theta (ancillary)"].mean() < 0.45
    assert 0.4 < rates["trajectory on f"].mean() < 0.9
    latent, hyper = model._sampling.run.models[0].chains[0].transition.moves
    assert hyper.operator.root.matrix.shape == (2, 2)
    assert latent.log_scale != LatentUpdate(Trajectory()).log_scale


def test_warm_up_keeps_the_given_shape_and_target_acceptance():
    model = quick(Ancillary(learn_shape=False, target_acceptance=0.4), n_warmup=40).fit(X, Y)
    latent, hyper = model._sampling.run.models[0].chains[0].transition.moves
    assert isinstance(hyper, HyperUpdate)
    assert hyper.operator.root == IDENTITY
    assert (latent.target_acceptance, hyper.target_acceptance) == (0.7, 0.4)


@pytest.mark.parametrize("ard", [False, True])
def test_a_conjugate_draw_always_moves_the_variance(ard):
    priors = {"k1__constant_value": stats.invgamma(2.0, scale=3.0)}
    model = quick(Sufficient(conjugate=True), priors=priors, kernel=SMOOTH[ard]).fit(X, Y)
    assert "conjugate draw of the variance" in model.diagnostics_.acceptance_rate
    assert len(np.unique(model.theta_samples_[0, :, 0])) == 6
    alone = ConstantKernel(2.0) * RBF(0.7, "fixed")
    model = quick(Sufficient(conjugate=True), priors=priors, kernel=alone).fit(X, Y)
    assert len(np.unique(model.theta_samples_)) == 12


def test_joint_updates_use_laplace_by_default():
    for approximation, kind in {"auto": "Laplace", "ep": "EP"}.items():
        model = quick("khr", approximation=approximation).fit(X, Y)
        joint = model._sampling.run.models[0].chains[0].transition.moves[0]
        assert isinstance(joint, JointUpdate)
        assert type(joint.reference).__name__ == kind


# --- refusals -------------------------------------------------------------------------------------

GAMMA = {"k1__constant_value": stats.gamma(2.0)}


@in_one_test(
    ("changes", "message"),
    [
        ({"sampler": Ancillary(latent=RandomWalk())}, "latent must be one of"),
        (
            {"sampler": Ancillary(latent=JointUpdate(Laplace(), RandomWalk()))},
            "moves theta too.*use one of",
        ),
        (
            {"sampler": Sufficient(conjugate=True), "priors": GAMMA, "kernel": SMOOTH[False]},
            "inverse-gamma prior on 'k1__constant_value', and it has gamma.*invgamma",
        ),
        (
            {"sampler": Sufficient(conjugate=True), "kernel": RBF() + WhiteKernel()},
            "multiplies the whole kernel.*ConstantKernel",
        ),
        ({"sampler": Sufficient(conjugate=True)}, "multiplies the whole kernel.*Linear"),
    ],
)
def test_impossible_moves_are_refused_with_the_reason(changes, message):
    with pytest.raises(ValueError, match=message):
        quick(**{"sampler": "aa", **changes}).fit(X, Y)
