"""What moves do with points that are no use, and what exactly they accept with."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.importance import importance_estimate
from skgpmcmc.likelihoods import Probit
from skgpmcmc.parameterizations import HyperConditional, SufficientAugmentation
from skgpmcmc.transitions import EllipticalSlice, RandomWalk
from skgpmcmc.transitions.joint_update import JointUpdate
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ...helpers import THREE_THETA, in_one_test, make_model, three_point_model, toy_classes


class Impossible(Probit):
    """No target has a density where f is not far above zero."""

    def log_prob(self, y, f):
        return np.where(np.asarray(f) > 1e3, 0.0, -np.inf)


def test_elliptical_slice_does_not_start_where_the_density_is_zero():
    """Its level would be minus infinity, and every point above it."""
    model = three_point_model().with_observations(likelihood=Impossible())
    assert EllipticalSlice().start(model, THREE_THETA, np.random.default_rng(0)) is None


def test_elliptical_slice_does_not_start_outside_the_prior():
    model = three_point_model()
    outside = np.full(3, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        assert EllipticalSlice().start(model, outside, np.random.default_rng(0)) is None


@in_one_test("free", [None, np.array([1])], ids=["all", "some"])
@in_one_test("value", [np.nan, np.inf, -1.0], ids=str)
def test_useless_metric_is_replaced_by_the_identity(free, value):
    """Also where only some components move: a metric without a factor is no error of the chain."""
    model = make_model(*toy_classes(8, 2, seed=0))
    rng = np.random.default_rng(1)
    state = EllipticalSlice().start(model, model.start, rng)
    point = HyperConditional.of(model, SufficientAugmentation(), state, rng, free).begin
    useless = np.array([1.0, value])[-len(point.position) :]
    vars(point)["metric"] = np.diag(useless)  # overrides the cached property
    assert_array_equal(point.metric_root.matrix, np.eye(len(point.position)))


def test_usable_metric_is_used():
    model = make_model(*toy_classes(8, 2, seed=0))
    rng = np.random.default_rng(1)
    state = EllipticalSlice().start(model, model.start, rng)
    point = HyperConditional.of(model, SufficientAugmentation(), state, rng, np.array([1])).begin
    root = point.metric_root.matrix
    assert_allclose(root @ root.T, 1.0 / point.metric, rtol=1e-12)


def log_target_over_proposal(model, update, state):
    """Log p(y | f) N(f; 0, K) p(theta) / [(1 - c) q(f) + c N(f; 0, K)], by dense matrices."""
    K = model.prior_at(state.theta).K
    q = update.reference.fit(model, state.theta).q
    covariance = np.linalg.inv(np.linalg.inv(K) + np.diag(q.precision))
    log_prior = stats.multivariate_normal(np.zeros(len(K)), K).logpdf(state.f)
    log_q = stats.multivariate_normal(q.mean, covariance).logpdf(state.f)
    c = update.defensive
    log_proposal = np.logaddexp(np.log1p(-c) + log_q, np.log(c) + log_prior) if c else log_q
    log_lik = model.likelihood.log_prob(model.y, state.f).sum()
    return log_lik + log_prior + model.hyperprior.log_prob(state.theta) - log_proposal


@pytest.mark.parametrize("defensive", [0.0, 0.4])
def test_a_joint_update_accepts_by_the_exact_ratio(defensive):
    """Both f are weighed with the mixture that they are drawn from, each with that of its theta."""
    model = three_point_model(nugget=1e-3)
    update = JointUpdate(Laplace(tol=1e-10), RandomWalk(0.3), defensive)
    rng = np.random.default_rng(2)
    state = update.start(model, THREE_THETA, rng)
    informative = 0
    for _ in range(80):
        new, info = update.step(model, state, rng)
        if info.accepted:
            log_ratio = log_target_over_proposal(model, update, new) - log_target_over_proposal(
                model, update, state
            )
            assert info.acceptance_probability == pytest.approx(np.exp(min(log_ratio, 0.0)), 1e-6)
            informative += info.acceptance_probability < 0.99
        # Another move of f comes in between, so that f is no draw from q.
        state, _ = EllipticalSlice().step(model, new, rng)
    assert informative >= 5


@pytest.mark.parametrize("n_importance", [2, 8])
def test_log_likelihood_sd_is_the_deviation_of_repeated_estimates(n_importance):
    model = make_model(*toy_classes(12, 2, seed=3))
    theta = np.array([2.0, -1.0])
    estimator = PseudoMarginalMetropolis(EP(), RandomWalk(), n_importance)
    found = estimator.log_likelihood_sd(model, theta, np.random.default_rng(4), n_replicates=2000)
    rng, density = np.random.default_rng(5), EP().at(model, theta)
    logs = [
        importance_estimate(model, density, n_importance, rng).log_likelihood for _ in range(2000)
    ]
    assert found == pytest.approx(np.std(logs, ddof=1), rel=0.1)
    assert not 0.9 < found < 1.1  # where a variance would be told apart


class Steep(Probit):
    """Its log density varies by more than the root of the largest number."""

    def log_prob(self, y, f):
        return 1e200 * np.asarray(f)


def test_log_likelihood_sd_beyond_doubles_is_infinite():
    model = three_point_model().with_observations(likelihood=Steep())
    estimator = PseudoMarginalMetropolis(EP(), RandomWalk(), 2)
    assert estimator.log_likelihood_sd(model, THREE_THETA, np.random.default_rng(0)) == np.inf
