"""Draws and predictions are functions of data and seed; predictions against slow references."""

import pickle
import time
from dataclasses import replace

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.special import expit, log_ndtr, logsumexp, ndtr
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_info, threadpool_limits

from skgpmcmc import BayesianGPClassifier, BayesianGPRegressor
from skgpmcmc.approximations import EP
from skgpmcmc.importance import importance_estimate, log_importance_weights
from skgpmcmc.importance.interpolated import make_density
from skgpmcmc.prediction import Integrated, OwnLatent
from skgpmcmc.samplers import Marginal, PseudoMarginal
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import (
    Z_LIMIT,
    in_one_test,
    make_model,
    rounds_of,
    short_chains,
    toy_classes,
    z_score,
)

WALK = PseudoMarginal(moves="random_walk")


def quick(**changes):
    settings = {"sampler": WALK, "n_chains": 2, "n_warmup": 20, "n_draws": 20, "n_importance": 8}
    return BayesianGPClassifier(**{**settings, "random_state": 0, **changes})


def brief(**changes):
    """Where it does not matter what the draws are."""
    return quick(**{"approximation": "laplace", "n_warmup": 5, "n_draws": 4, **changes})


def binary_data():
    return toy_classes(30, 2, seed=1)


def three_classes():
    iris = load_iris()
    return iris.data[::10], iris.target[::10]


def new_inputs(m=15, d=2, seed=5):
    return np.random.default_rng(seed).uniform(-0.3, 1.3, size=(m, d))


@pytest.fixture(scope="module")
@short_chains()
def fitted():
    return quick(max_predict_draws=None).fit(*binary_data())


@pytest.fixture(scope="module")
@short_chains()
def fitted_marginal():
    walk = Marginal(moves="random_walk")
    return quick(sampler=walk, max_predict_draws=None).fit(*binary_data())


def draws_of(model):
    parts = getattr(model, "estimators_", [model])
    return [array for part in parts for array in (part.theta_samples_, part.latent_samples_)]


def assert_same_model(a, b, X):
    for mine, other in zip(draws_of(a), draws_of(b), strict=True):
        assert_array_equal(mine, other)
    assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    if not hasattr(a, "estimators_"):
        moments = zip(a.latent_mean_and_variance(X), b.latent_mean_and_variance(X), strict=True)
        for mine, other in moments:
            assert_array_equal(mine, other)
        paths = [m.sample_latent(X[:5], 7, random_state=3) for m in (a, b)]
        assert_array_equal(*paths)


# --- workers --------------------------------------------------------------------------------------

#: In every run the default sampler, a random walk, another state and several models at once.
PROBLEMS = {
    "pm": ({"sampler": "pm", "approximation": "ep", "likelihood": "probit"}, binary_data),
    "random walk": ({}, binary_data),
    "trajectories": ({"sampler": PseudoMarginal(moves="trajectories")}, binary_data),
    "marginal": ({"sampler": "marginal", "approximation": "laplace"}, binary_data),
    "one_vs_rest": ({"approximation": "laplace"}, three_classes),
}
ROUND_LENGTH = 10


@pytest.fixture(
    scope="module",
    params=[
        *("pm", "random walk", "marginal", "one_vs_rest"),
        pytest.param("trajectories", marks=pytest.mark.statistical),
    ],
)
@short_chains()
def problem(request):
    """Settings of more than one round of sampling, data, and the fit by one worker."""
    settings, data = PROBLEMS[request.param]
    settings = {**settings, "n_warmup": 10, "n_draws": ROUND_LENGTH + 3}
    X, y = data()
    with rounds_of(ROUND_LENGTH):
        return settings, X, y, quick(**settings, n_jobs=1).fit(X, y)


@short_chains()
def test_number_of_workers_changes_nothing(problem):
    settings, X, y, alone = problem
    with rounds_of(ROUND_LENGTH):
        assert_same_model(alone, quick(**settings, n_jobs=2).fit(X, y), X)


@pytest.mark.statistical
@short_chains()
def test_the_backend_changes_nothing(problem):
    """Threads for the processes of above."""
    settings, X, y, alone = problem
    with rounds_of(ROUND_LENGTH), joblib.parallel_config(backend="threading", n_jobs=2):
        assert_same_model(alone, quick(**settings, n_jobs=None).fit(X, y), X)


def blas_threads():
    return {d["num_threads"] for d in threadpool_info() if d["user_api"] == "blas"}


@short_chains()
def test_trajectories_on_the_exact_evidence_do_not_depend_on_workers():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(12)
    settings = {"ard": True, "random_state": 0, "n_chains": 2, "n_draws": 8, "target_ess": None}
    one, other = (BayesianGPRegressor(n_jobs=n_jobs, **settings).fit(X, y) for n_jobs in (1, 2))
    assert list(one.diagnostics_.acceptance_rate) == ["trajectory"]
    assert_array_equal(one.theta_samples_, other.theta_samples_)
    assert_array_equal(one.latent_samples_, other.latent_samples_)
    assert_array_equal(one.predict(X), other.predict(X))


@short_chains()
def test_threads_share_one_limit_on_blas(monkeypatch):
    # A worker that is done must not lift the limit of those that are not.
    seen = set()
    step_many = PseudoMarginalMetropolis.step_many

    def watched(self, model, states, rngs):
        time.sleep(rngs[0].choice([0.0, 0.01]))
        seen.update(blas_threads())
        return step_many(self, model, states, rngs)

    monkeypatch.setattr(PseudoMarginalMetropolis, "step_many", watched)
    with threadpool_limits(2), joblib.parallel_config(backend="threading", n_jobs=2):
        before = blas_threads()
        brief(n_chains=4).fit(*binary_data())
        assert blas_threads() == before
    assert seen == {1}


# --- seeds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["pm", WALK], ids=["default", "random walk"])
@short_chains()
def test_an_integer_seed_gives_the_same_fit_twice(sampler):
    X, y = binary_data()
    model = brief(sampler=sampler).fit(X, y)
    before = pickle.loads(pickle.dumps(model))
    assert_same_model(model.fit(X, y), before, X)


@short_chains()
def test_seeds_differ(fitted):
    X, y = binary_data()
    other = quick(random_state=1, max_predict_draws=None).fit(X, y)
    assert not np.array_equal(other.theta_samples_, fitted.theta_samples_)
    assert not np.array_equal(other.predict_proba(X), fitted.predict_proba(X))
    # Chains of one fit differ, too.
    assert not np.array_equal(fitted.theta_samples_[0], fitted.theta_samples_[1])


@short_chains()
def test_a_generator_moves_on():
    X, y = binary_data()
    model = brief(random_state=np.random.RandomState(4))
    first = model.fit(X, y).theta_samples_
    second = model.fit(X, y).theta_samples_
    again = brief(random_state=np.random.RandomState(4)).fit(X, y).theta_samples_
    assert not np.array_equal(first, second)
    assert_array_equal(first, again)


@short_chains()
def test_without_a_seed_fits_differ():
    X, y = binary_data()
    model = brief(random_state=None)
    first = model.fit(X, y).theta_samples_
    assert not np.array_equal(first, model.fit(X, y).theta_samples_)


@short_chains()
def test_the_global_generator_is_left_alone():
    np.random.seed(8)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    brief(sampler="pm").fit(*binary_data()).sample_latent(new_inputs(), 2, random_state=0)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# --- predictions are functions of the fit and of each row -----------------------------------------

METHODS = {
    "predict_proba": lambda model, X: model.predict_proba(X),
    "predict_log_proba": lambda model, X: model.predict_log_proba(X),
    "log_predictive_density": lambda model, X: model.log_predictive_density(X, np.ones(len(X))),
    "latent_mean": lambda model, X: model.latent_mean_and_variance(X)[0],
    "latent_variance": lambda model, X: model.latent_mean_and_variance(X)[1],
}


@pytest.mark.parametrize("name", ["fitted", "fitted_marginal"])
@in_one_test("method", METHODS)
def test_rows_do_not_see_one_another(method, name, request):
    model = request.getfixturevalue(name)
    predict = METHODS[method]
    X = np.concatenate([new_inputs(40), binary_data()[0]])
    together = predict(model, X)
    order = np.random.default_rng(0).permutation(len(X))
    assert_allclose(predict(model, X[order]), together[order], rtol=0.0, atol=1e-9)
    pieces = [predict(model, part) for part in np.array_split(X, [1, 2, 33])]
    assert_allclose(np.concatenate(pieces), together, rtol=0.0, atol=1e-9)
    assert_allclose(predict(model, np.asfortranarray(X)), together, rtol=0.0, atol=1e-9)


@short_chains()
def test_rows_beyond_one_batch():
    model = brief(n_draws=2, max_predict_draws=None).fit(*binary_data())
    X = new_inputs(1100)
    proba = model.predict_proba(X)
    halves = [model.predict_proba(part) for part in (X[:550], X[550:])]
    assert_allclose(proba, np.concatenate(halves), rtol=0.0, atol=1e-10)
    mean, variance = model.latent_mean_and_variance(X)
    some = [0, 999, 1000, 1099]
    mean_some, variance_some = model.latent_mean_and_variance(X[some])
    assert_allclose(mean[some], mean_some, rtol=0.0, atol=1e-10)
    assert_allclose(variance[some], variance_some, rtol=0.0, atol=1e-10)


@short_chains()
def test_rows_of_one_vs_rest_do_not_see_one_another():
    X, y = three_classes()
    model = brief().fit(X, y)
    together = model.predict_proba(X)
    pieces = [model.predict_proba(part) for part in np.array_split(X, [1, 7])]
    assert_allclose(np.concatenate(pieces), together, rtol=0.0, atol=1e-10)


@short_chains()
def test_predictions_store_nothing():
    X, y = binary_data()
    model = brief().fit(X, y)
    before, digest = dict(vars(model)), joblib.hash(model)
    for predict in METHODS.values():
        predict(model, X)
    model.predict(X)
    model.score(X, y)
    # With its own seed: frozen distributions pickle the state of the global generator.
    model.sample_latent(X, 3, random_state=0)
    assert list(vars(model)) == list(before)
    assert all(vars(model)[name] is value for name, value in before.items())
    assert joblib.hash(model) == digest


@short_chains()
def test_predictions_do_not_use_the_parameters_of_a_later_day():
    X, y = binary_data()
    model = brief(max_predict_draws=5).fit(X, y)
    expected = model.predict_proba(X)
    model.set_params(max_predict_draws=None, random_state=9, likelihood="logit", kernel=RBF())
    model.set_params(n_draws=50, target_ess=400.0, warm_start=True, sampler="marginal")
    with pytest.warns(UserWarning, match="max_predict_draws=None has no effect"):
        assert_array_equal(model.predict_proba(X), expected)


# --- slow references ------------------------------------------------------------------------------


def inputs(model):
    """Distinct training inputs, in the order of the model."""
    return model._predictor.model.covariance.X


def latent(model):
    """Draws of f at `inputs`, those of one chain after another; (S, n)."""
    return np.concatenate(model._draws.f)


def given(kernel, rows, X, X_new, f):
    """Mean (g, m) and covariance (m, m) of f* given f (n, g), by the textbook formulas.

    Of `rows` that determine all others in double precision: of those alone K has an inverse.
    """
    L = np.linalg.cholesky(kernel(X[rows]))
    half = solve_triangular(L, kernel(X[rows], X_new), lower=True)
    mean = solve_triangular(L, f[rows], lower=True).T @ half
    return mean, kernel(X_new) - half.T @ half


def conditionals(model, X_new):
    """Mean (S, m) and covariance (S, m, m) of f* given each draw, by the textbook formulas."""
    theta, f, X = np.concatenate(model.theta_samples_), latent(model), inputs(model)
    means, covariances = [], []
    for s in range(len(theta)):
        kernel = model.kernel_.clone_with_theta(theta[s])
        rows = model._predictor.model.prior_at(theta[s]).root.pivots
        mean, covariance = given(kernel, rows, X, X_new, f[s][:, None])
        means.append(mean[0])
        covariances.append(covariance)
    return np.array(means), np.array(covariances)


def diagonals(covariances):
    return np.einsum("sii->si", covariances)


class Averaged:
    """What predictions average over, by hand: every draw stands beside fresh importance draws.

    Means (S, g, m), covariances (S, m, m) and the logs of weights (S, g) that add up to one; where
    a draw has less than g, what is missing has no weight.
    """

    def __init__(self, model, X_new):
        used, X = model._predictor, inputs(model)
        means, covariances, log_shares = [], [], []
        for theta, f, weight, *arrays in zip(
            used.theta, used.f, used.multiplicity, *used.density_arrays, strict=True
        ):
            q = make_density(used.model, used.model.prior_at(theta), *arrays)
            rng = np.random.default_rng([used.strategy.seed, *theta.view(np.uint32).tolist()])
            share = used.strategy.defensive
            together = used.multiplicity[(used.theta == theta).all(axis=1)].sum()
            n_fresh = used.strategy.n_fresh(together)
            fresh = importance_estimate(used.model, q, n_fresh, rng, defensive=share)
            own = log_importance_weights(used.model, q, f[:, None], defensive=share)
            log_weights = np.concatenate([own, fresh.log_weights])
            log_shares.append(np.log(weight) + log_weights - logsumexp(log_weights))
            kernel = model.kernel_.clone_with_theta(theta)
            f = np.column_stack([f, fresh.particles])
            mean, covariance = given(kernel, q.q.prior.root.pivots, X, X_new, f)
            means.append(mean)
            covariances.append(covariance)
        most = max(len(mean) for mean in means)
        self.mean = np.zeros((len(means), most, len(X_new)))
        self.log_weight = np.full((len(means), most), -np.inf)
        for s, (mean, log_share) in enumerate(zip(means, log_shares, strict=True)):
            self.mean[s, : len(mean)] = mean
            self.log_weight[s, : len(mean)] = log_share - np.log(used.multiplicity.sum())
        self.covariance = np.array(covariances)

    @property
    def var(self):
        """(S, 1, m)."""
        return diagonals(self.covariance)[:, None, :]

    def of(self, values):
        """Average of something for every particle; (S, g, m)."""
        return np.einsum("sg,sgm->m", np.exp(self.log_weight), values)


def test_probabilities_are_averages_over_all_draws(fitted):
    X_new = new_inputs()
    averaged = Averaged(fitted, X_new)
    assert len(averaged.mean) == 40
    assert averaged.mean.shape[1] >= 49
    expected = averaged.of(ndtr(averaged.mean / np.sqrt(1.0 + averaged.var)))
    assert_allclose(fitted.predict_proba(X_new)[:, 1], expected, rtol=1e-6)
    assert_allclose(fitted.predict_proba(X_new)[:, 0], 1.0 - expected, rtol=1e-6)


@short_chains()
def test_probabilities_of_the_logit():
    X, y = binary_data()
    X_new = new_inputs(5)
    model = brief(likelihood="logit", ard=True, max_predict_draws=None).fit(X, y)
    averaged = Averaged(model, X_new)
    nodes, step = np.linspace(-9.0, 9.0, 601, retstep=True)
    points = averaged.mean[..., None] + np.sqrt(averaged.var)[..., None] * nodes
    expected = averaged.of(expit(points) @ stats.norm.pdf(nodes) * step)
    assert_allclose(model.predict_proba(X_new)[:, 1], expected, rtol=1e-5)


def test_latent_moments_follow_the_law_of_total_variance(fitted):
    X_new = new_inputs()
    averaged = Averaged(fitted, X_new)
    latent_mean, latent_variance = fitted.latent_mean_and_variance(X_new)
    expected = averaged.of(averaged.mean)
    assert_allclose(latent_mean, expected, rtol=1e-5, atol=1e-6)
    within = averaged.of(np.broadcast_to(averaged.var, averaged.mean.shape))
    between = averaged.of((averaged.mean - expected) ** 2)
    assert_allclose(latent_variance, within + between, rtol=1e-5)


@pytest.mark.parametrize("max_predict_draws", [1, 7, 20, 1000])
@short_chains()
def test_a_limited_number_of_draws(max_predict_draws):
    X, y = binary_data()
    X_new = new_inputs(5)
    model = quick(max_predict_draws=max_predict_draws, n_draws=10).fit(X, y)
    used = model._predictor
    assert used.theta.shape == (min(max_predict_draws, 20), 2)
    assert used.multiplicity.sum() == 20
    # They are draws of the chains, each with its own f.
    theta, f = np.concatenate(model.theta_samples_), latent(model)
    for one_theta, one_f in zip(used.theta, used.f, strict=True):
        assert ((theta == one_theta).all(axis=1) & (f == one_f).all(axis=1)).any()
    averaged = Averaged(model, X_new)
    expected = averaged.of(ndtr(averaged.mean / np.sqrt(1.0 + averaged.var)))
    assert_allclose(model.predict_proba(X_new)[:, 1], expected, rtol=1e-6)


@pytest.mark.statistical
@short_chains()
def test_a_subset_of_the_draws_predicts_nearly_as_all_do():
    X, y = binary_data()
    X_new = new_inputs(60)
    settings = {"sampler": "pm", "n_draws": 150, "n_importance": "auto"}
    every = quick(**settings, max_predict_draws=None).fit(X, y)
    some = quick(**settings).fit(X, y)
    assert_array_equal(some.theta_samples_, every.theta_samples_)
    assert len(some._predictor.theta) < 0.3 * len(every._predictor.theta)
    gap = np.abs(some.predict_proba(X_new) - every.predict_proba(X_new))
    assert gap.max() < 0.03
    assert np.sqrt(np.mean(gap**2)) < 0.0075  # the error that is allowed, and half of it
    mean, variance = every.latent_mean_and_variance(X_new)
    assert (
        np.abs(some.latent_mean_and_variance(X_new)[0] - mean).max() < 0.1 * variance.max() ** 0.5
    )


@pytest.mark.parametrize("sampler", ["pm", WALK, "marginal"])
@short_chains()
def test_predictions_use_the_density_of_the_chains(sampler):
    """What predictors hold makes the density of the reference at each theta."""
    X, y = binary_data()
    model = quick(sampler=sampler, n_warmup=5, n_draws=4).fit(X, y)
    used, run = model._predictor, model._sampling.run
    assert isinstance(used.strategy, Integrated) == (sampler == "marginal")
    assert sampler == "marginal" or used.strategy.defensive == 0.05
    for theta, *arrays in zip(used.theta, *used.density_arrays, strict=True):
        expected = run.models[0].reference.at(run.models[0].model, theta).arrays
        for array, other in zip(arrays, expected, strict=True):
            assert_array_equal(array, other)


@short_chains()
def test_marginal_predictions_average_ep_over_theta(fitted_marginal):
    X, y = binary_data()
    X_new = new_inputs()
    theta = np.concatenate(fitted_marginal.theta_samples_)
    distinct, counts = np.unique(theta, axis=0, return_counts=True)
    assert 1 < len(distinct) < len(theta)  # there are repeats to be counted
    problem = make_model(X, y)
    proba, means, variances = [], [], []
    for point in distinct:
        q = EP().fit(problem, point).q
        mean, variance = q.conditional().predict(X_new)
        proba.append(ndtr(mean[:, 0] / np.sqrt(1.0 + variance)))
        means.append(mean[:, 0])
        variances.append(variance)
    weights = counts / counts.sum()
    assert_allclose(fitted_marginal.predict_proba(X_new)[:, 1], weights @ proba, rtol=1e-9)
    latent_mean, latent_variance = fitted_marginal.latent_mean_and_variance(X_new)
    center = weights @ np.array(means)
    assert_allclose(latent_mean, center, rtol=1e-8, atol=1e-9)
    total = weights @ (np.array(variances) + (np.array(means) - center) ** 2)
    assert_allclose(latent_variance, total, rtol=1e-8)


# --- draws of the latent function -----------------------------------------------------------------


@pytest.mark.parametrize("sampler", ["pm", "marginal"])
def test_latent_draws_have_the_latent_moments(sampler, request):
    model = request.getfixturevalue("fitted" if sampler == "pm" else "fitted_marginal")
    X_new = np.concatenate([new_inputs(3), binary_data()[0][:2]])
    mean, variance = model.latent_mean_and_variance(X_new)
    draws = model.sample_latent(X_new, n_draws=8000, random_state=2)
    assert draws.shape == (5, 8000)
    for j in range(5):
        assert abs(z_score(draws[j], mean[j])) < Z_LIMIT
        assert abs(z_score((draws[j] - mean[j]) ** 2, variance[j])) < Z_LIMIT
    assert len(np.unique(draws[0])) == draws.shape[1]


def own_latent(fitted):
    """Predictions by the draws' own f alone, without importance draws beside them."""
    return replace(fitted._predictor, strategy=OwnLatent())


def test_latent_draws_are_joint(fitted):
    X, _ = binary_data()
    X_new = np.concatenate([new_inputs(3), X[:2]])
    used = own_latent(fitted)
    means, covariances = conditionals(fitted, X_new)
    center = means.mean(axis=0)
    expected = covariances.mean(axis=0) + np.cov(means.T, bias=True)
    deviations = used.sample_latent(X_new, 8000, np.random.default_rng(4)) - center
    for i in range(5):
        for j in range(i):
            products = deviations[:, i] * deviations[:, j]
            assert abs(z_score(products, expected[i, j])) < Z_LIMIT


def test_latent_draws_pass_through_the_sampled_values(fitted):
    # Given f at the training inputs there is nothing left to draw there.
    X, _ = binary_data()
    f = np.concatenate(fitted.latent_samples_)
    draws = own_latent(fitted).sample_latent(X, len(f), np.random.default_rng(0))
    scale = np.abs(f).max()
    # Every draw is used once; sorting undoes the order.
    assert_allclose(np.sort(draws, axis=0), np.sort(f, axis=0), atol=1e-5 * scale)


def test_latent_draws_of_the_marginal_sampler_at_the_training_inputs(fitted_marginal):
    # Fresh draws from q, of which latent_samples_ holds one per visited theta.
    X, _ = binary_data()
    f = np.concatenate(fitted_marginal.latent_samples_)
    mean, variance = fitted_marginal.latent_mean_and_variance(X)
    scaled = (f - mean) / np.sqrt(variance)
    _, firsts = np.unique(f[:, 0], return_index=True)
    assert abs(z_score(scaled[firsts].mean(axis=1), 0.0)) < Z_LIMIT


def test_seed_of_the_latent_draws(fitted):
    X = new_inputs(4)
    first = fitted.sample_latent(X, 3, random_state=1)
    assert_array_equal(fitted.sample_latent(X, 3, random_state=1), first)
    assert not np.array_equal(fitted.sample_latent(X, 3, random_state=2), first)
    assert fitted.sample_latent(X).shape == (4, 1)


# --- log densities --------------------------------------------------------------------------------


def test_log_predictive_density_is_the_log_of_the_probability_of_the_label(fitted):
    X, y = binary_data()
    proba = fitted.predict_proba(X)
    expected = np.log(proba[np.arange(len(X)), (y > 0).astype(int)])
    assert_allclose(fitted.log_predictive_density(X, y), expected, rtol=1e-12)
    assert_allclose(np.exp(fitted.predict_log_proba(X)), proba, rtol=1e-14)


@pytest.mark.parametrize("likelihood", ["probit", "logit"])
@short_chains()
def test_log_densities_of_tiny_probabilities(likelihood):
    X = np.linspace(-4.0, 4.0, 24)[:, None]
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    kernel = ConstantKernel(1e7, "fixed") * RBF(3.0, "fixed")
    settings = {"likelihood": likelihood, "kernel": kernel, "approximation": "ep"}
    model = brief(**settings, max_predict_draws=None).fit(X, y)
    X_new = np.array([[-3.0], [-2.6], [2.6], [3.0]])
    wrong = np.array([1.0, 1.0, -1.0, -1.0])
    averaged = Averaged(model, X_new)
    mean, variance = averaged.mean, np.maximum(averaged.var, 0.0)  # of 1e7, with rounding errors
    if likelihood == "probit":
        terms = log_ndtr(wrong * mean / np.sqrt(1.0 + variance))
    else:
        nodes, weights = np.polynomial.hermite_e.hermegauss(150)
        f = mean[..., None] + np.sqrt(variance)[..., None] * nodes
        curves = -np.logaddexp(0.0, -wrong[:, None] * f)
        terms = logsumexp(curves, b=weights / np.sqrt(2.0 * np.pi), axis=3)
    expected = logsumexp(terms + averaged.log_weight[..., None], axis=(0, 1))
    assert np.median(expected) < -40.0  # far below what 1 - p could tell from 0
    density = model.log_predictive_density(X_new, wrong)
    assert_allclose(density, expected, rtol=1e-4)
    assert_array_equal(model.predict_log_proba(X_new)[[0, 2], [1, 0]], density[[0, 2]])
