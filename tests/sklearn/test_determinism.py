"""Draws and predictions are functions of data and seed, and a prediction one of its row."""

import pickle
from contextlib import nullcontext

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr, logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.prediction.strategy import Integrated
from skgpmcmc.samplers import PseudoMarginal

from ..helpers import rounds_of, toy_classes
from .conftest import CASES, EXPOSURE, EXPOSURE_NEW, assert_same_draws, parts_of

# A few draws are enough here.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

WALK = PseudoMarginal(moves="random_walk")
X, Y = toy_classes(30, 2, seed=1)


def quick(**changes):
    settings = {"sampler": WALK, "approximation": "laplace", "n_importance": 8, "random_state": 0}
    settings["kernel"] = ConstantKernel() * RBF()
    return BayesianGPClassifier(
        **{"n_chains": 2, "n_warmup": 5, "n_draws": 4, **settings, **changes}
    )


def new_inputs(m):
    return np.random.default_rng(5).uniform(-0.3, 1.3, size=(m, 2))


def assert_same_model(a, b):
    assert_same_draws(a, b)
    assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    for mine, other in zip(parts_of(a), parts_of(b), strict=True):
        both = (part.latent_mean_and_variance(X) for part in (mine, other))
        assert_array_equal(*map(np.stack, both))
        assert_array_equal(*(m.sample_latent(X[:5], 7, random_state=3) for m in (mine, other)))


# --- workers --------------------------------------------------------------------------------------

#: A random walk, the default sampler, another state and several models at once.
PROBLEMS = {
    "pm": ({"sampler": "pm", "approximation": "ep"}, Y),
    "trajectories": ({"sampler": PseudoMarginal(moves="trajectories")}, Y),
    "marginal": ({"sampler": "marginal"}, Y),
    "one_vs_rest": ({}, np.arange(30) % 3),
}
LONG = pytest.mark.statistical


@pytest.mark.parametrize(
    ("name", "n_jobs"),
    [
        ("one_vs_rest", 2),
        pytest.param("trajectories", 2, marks=LONG),
        # Threads for the processes of the others.
        *(pytest.param(name, None, marks=LONG) for name in PROBLEMS),
    ],
)
def test_number_and_kind_of_workers_change_no_draw(name, n_jobs):
    """More than one round of sampling; `test_convergence` has the other samplers."""
    settings, y = PROBLEMS[name]
    model = quick(**settings, n_warmup=10, n_draws=13)
    with rounds_of(10):
        alone = pickle.loads(pickle.dumps(model.set_params(n_jobs=1).fit(X, y)))
        with nullcontext() if n_jobs else joblib.parallel_config(backend="threading", n_jobs=2):
            assert_same_model(alone, model.set_params(n_jobs=n_jobs).fit(X, y))


def test_trajectories_on_the_exact_evidence_do_not_depend_on_workers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 3))  # five hyper-parameters
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(12)
    settings = {"ard": True, "random_state": 0, "n_chains": 2, "n_draws": 8, "target_ess": None}
    one, other = (BayesianGPRegressor(n_jobs=n_jobs, **settings).fit(X, y) for n_jobs in (1, 2))
    assert list(one.diagnostics_.acceptance_rate) == ["trajectory"]
    assert_array_equal(one.theta_samples_, other.theta_samples_)
    assert_array_equal(one.latent_samples_, other.latent_samples_)
    assert_array_equal(one.predict(X), other.predict(X))


# --- seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["pm", WALK], ids=["default", "random walk"])
def test_an_integer_seed_gives_the_same_fit_twice(sampler):
    model = quick(sampler=sampler).fit(X, Y)
    before = pickle.loads(pickle.dumps(model))
    assert_same_model(model.fit(X, Y), before)


def test_seeds_and_chains_have_different_draws():
    one, other = (quick(random_state=seed, n_draws=20).fit(X, Y) for seed in (0, 1))
    assert not np.array_equal(other.theta_samples_, one.theta_samples_)
    assert not np.array_equal(other.predict_proba(X), one.predict_proba(X))
    assert not np.array_equal(one.theta_samples_[0], one.theta_samples_[1])


def test_fits_differ_with_a_generator_or_without_a_seed():
    for random_state in (np.random.RandomState(4), None):
        model = quick(random_state=random_state)
        first = model.fit(X, Y).theta_samples_
        assert not np.array_equal(first, model.fit(X, Y).theta_samples_)
        if random_state is not None:
            again = quick(random_state=np.random.RandomState(4)).fit(X, Y)
            assert_array_equal(first, again.theta_samples_)


def test_global_random_generator_is_left_alone():
    np.random.seed(8)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    quick(sampler="pm").fit(X, Y).sample_latent(new_inputs(15), 2, random_state=0)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# --- predictions are functions of the fit and of each row -----------------------------------------


def answers(own, rows):
    """What is said of some of the new and the old rows: arrays whose last dimension is rows."""
    X_new = np.concatenate([own.X_new, own.X])[rows]
    exposure = np.concatenate([EXPOSURE_NEW, EXPOSURE])[rows]
    given = {"exposure": exposure} if own.new_arguments else {}
    if hasattr(own.model, "predict_proba"):
        found = [own.model.predict_log_proba(X_new).T]
    else:
        asked = {"return_std": True, "return_quantiles": [0.02, 0.5, 0.97]}
        found = [*own.model.predict(X_new, **asked, **given)]
    if not hasattr(own.model, "estimators_"):
        found += [moment.T for moment in own.model.latent_mean_and_variance(X_new)]
    return found


@pytest.mark.parametrize(
    ("name", "sampler"),
    [
        *((name, "walk") for name in CASES),
        *((name, "default") for name in ("classifier", "regressor")),
        *((name, "asis") for name in ("ordinal", "student_t", "negative_binomial")),
    ],
)
def test_predictions_depend_on_each_row_alone(models, name, sampler):
    own = models(name, sampler)
    n = len(own.X_new) + 6
    together = answers(own, np.arange(n))
    for rows in (np.random.default_rng(0).permutation(n), [1], [3], np.arange(2, 6)):
        for found, expected in zip(answers(own, rows), together, strict=True):
            assert_allclose(found, expected[..., rows], rtol=1e-8, atol=1e-9)


def test_rows_beyond_one_batch_have_the_same_predictions():
    model = quick(n_draws=2, max_predict_draws=None).fit(X, Y)
    X_new = new_inputs(1100)
    halves = [model.predict_proba(part) for part in (X_new[:550], X_new[550:])]
    proba = model.predict_proba(np.asfortranarray(X_new))
    assert_allclose(proba, np.concatenate(halves), rtol=0.0, atol=1e-10)
    some = [0, 999, 1000, 1099]
    for every, of_some in zip(
        model.latent_mean_and_variance(X_new),
        model.latent_mean_and_variance(X_new[some]),
        strict=True,
    ):
        assert_allclose(every[some], of_some, rtol=0.0, atol=1e-10)


def test_predictions_do_not_change_the_estimator():
    model = quick().fit(X, Y)
    before, digest = dict(vars(model)), joblib.hash(model)
    model.predict(X)
    model.predict_log_proba(X)
    model.log_predictive_density(X, Y)
    model.latent_mean_and_variance(X)
    model.score(X, Y)
    # With its own seed: frozen distributions pickle the state of the global generator.
    model.sample_latent(X, 3, random_state=0)
    assert list(vars(model)) == list(before)
    assert all(vars(model)[name] is value for name, value in before.items())
    assert joblib.hash(model) == digest


def test_parameters_set_after_fit_do_not_change_predictions():
    model = quick(max_predict_draws=5).fit(X, Y)
    expected = model.predict_proba(X)
    model.set_params(random_state=9, likelihood="logit", kernel=RBF(), n_draws=50)
    model.set_params(target_ess=400.0, warm_start=True, sampler="marginal")
    assert_array_equal(model.predict_proba(X), expected)


# --- what predictions average over ----------------------------------------------------------------


@pytest.mark.parametrize("max_predict_draws", [1, 7, 20, 1000])
def test_predictions_use_joint_draws_of_theta_and_f(max_predict_draws):
    model = quick(max_predict_draws=max_predict_draws, n_draws=10).fit(X, Y)
    used = model._predictor
    assert used.theta.shape == (min(max_predict_draws, 20), 2)
    assert used.multiplicity.sum() == 20
    theta, f = np.concatenate(model.theta_samples_), np.concatenate(model._draws.f)
    for one_theta, one_f in zip(used.theta, used.f, strict=True):
        assert ((theta == one_theta).all(axis=1) & (f == one_f).all(axis=1)).any()


@pytest.mark.statistical
def test_predictions_by_a_subset_of_draws_are_near_those_by_all():
    X_new = new_inputs(60)
    settings = {"sampler": "pm", "n_warmup": 20, "n_draws": 150, "n_importance": "auto"}
    settings |= {"approximation": "auto"}
    every = quick(**settings, max_predict_draws=None).fit(X, Y)
    some = quick(**settings).fit(X, Y)
    assert_array_equal(some.theta_samples_, every.theta_samples_)
    assert len(some._predictor.theta) < 0.3 * len(every._predictor.theta)
    gap = np.abs(some.predict_proba(X_new) - every.predict_proba(X_new))
    assert gap.max() < 0.03
    assert np.sqrt(np.mean(gap**2)) < 0.0075  # the error that is allowed, and half of it
    mean, variance = every.latent_mean_and_variance(X_new)
    off = np.abs(some.latent_mean_and_variance(X_new)[0] - mean)
    assert off.max() < 0.1 * variance.max() ** 0.5


@pytest.mark.parametrize("sampler", ["pm", WALK, "marginal"])
def test_predictions_use_the_importance_density_of_the_chains(sampler):
    """What predictors hold makes the density of the reference at each theta."""
    model = quick(sampler=sampler, approximation="auto").fit(X, Y)
    used, run = model._predictor, model._sampling.run
    assert isinstance(used.strategy, Integrated) == (sampler == "marginal")
    assert sampler == "marginal" or used.strategy.defensive == 0.05
    for theta, *arrays in zip(used.theta, *used.density_arrays, strict=True):
        expected = run.models[0].reference.at(run.models[0].model, theta).arrays
        for array, other in zip(arrays, expected, strict=True):
            assert_array_equal(array, other)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
def test_log_densities_of_tiny_probabilities_are_accurate(likelihood):
    """They are averages over draws of (theta, f), each with the Gaussian of f at a new row."""
    X = np.linspace(-4.0, 4.0, 24)[:, None]
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    kernel = ConstantKernel(1e7, "fixed") * RBF(3.0, "fixed")
    settings = {"likelihood": likelihood, "kernel": kernel, "approximation": "ep"}
    model = quick(**settings, max_predict_draws=None).fit(X, y)
    X_new = np.array([[-3.0], [-2.6], [2.6], [3.0]])
    wrong = np.array([1.0, 1.0, -1.0, -1.0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    used, terms = model._predictor, []
    for group in used.groups():
        for conditional, log_weight in used.strategy.make_conditionals(group):
            mean, variance = conditional.predict(X_new)
            spread = np.sqrt(np.maximum(variance, 0.0))[:, None]  # of 1e7, with rounding errors
            if likelihood == "probit":
                log_p = log_ndtr(wrong[:, None] * mean / np.hypot(1.0, spread))
            else:
                f = mean[..., None] + spread[..., None] * nodes
                curves = -np.logaddexp(0.0, -wrong[:, None, None] * f)
                log_p = logsumexp(curves, b=weights / np.sqrt(2.0 * np.pi), axis=2)
            terms.append(log_p + log_weight)
    expected = logsumexp(np.concatenate(terms, axis=1), axis=1) - np.log(used.multiplicity.sum())
    assert np.median(expected) < -40.0  # far below what 1 - p could tell from 0
    density = model.log_predictive_density(X_new, wrong)
    assert_allclose(density, expected, rtol=1e-4)
    assert_array_equal(model.predict_log_proba(X_new)[[0, 2], [1, 0]], density[[0, 2]])
