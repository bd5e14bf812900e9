"""What every transition must satisfy: states are immutable, caches fresh, rejections harmless."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc._linalg import NotPositiveDefiniteError
from skgpmcmc.approximations import EP, Approximation, Laplace
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.transitions import (
    EllipticalSlice,
    GaussianRandomWalk,
    MarginalMetropolis,
    PseudoMarginalMetropolis,
)
from skgpmcmc.transitions.base import metropolis_accepts

from ..helpers import make_model, toy_classes

THETA = np.array([0.8, -0.9])
N = 10


@dataclass(frozen=True)
class Jump:
    """Always propose the same theta, with a Hastings ratio that decides: inf or -inf."""

    theta: np.ndarray
    log_hastings: float

    def propose(self, theta, rng):
        return self.theta, self.log_hastings


@dataclass(eq=False)
class Failing(Approximation):
    """Laplace near `THETA`; elsewhere a factorization that fails."""

    def fit(self, model, theta):
        if not np.array_equal(theta, THETA):
            raise NotPositiveDefiniteError("on purpose")
        return Laplace().fit(model, theta)

    def gradient(self, model, fit):
        raise NotImplementedError

    def check(self):
        pass

    def refined(self, tol=0.0):
        return self


def walk(dim=2, scale=0.5):
    return GaussianRandomWalk.isotropic(dim, scale)


def marginal(proposal, approximation=None, *, with_latent=True):
    return MarginalMetropolis(approximation or EP(), proposal, with_latent)


def pseudo_marginal(proposal, approximation=None):
    return PseudoMarginalMetropolis(approximation or EP(), proposal, 4, 0.05)


EVERY = {
    "elliptical slice": EllipticalSlice(),
    "marginal": marginal(walk()),
    "marginal, laplace": marginal(walk(), Laplace()),
    "marginal, theta only": marginal(walk(), with_latent=False),
    "pseudo-marginal": pseudo_marginal(walk()),
    "pseudo-marginal, laplace": pseudo_marginal(walk(), Laplace()),
    "pseudo-marginal, one draw": PseudoMarginalMetropolis(EP(), walk(), 1),
}
every_transition = pytest.mark.parametrize("transition", EVERY.values(), ids=EVERY.keys())
METROPOLIS = {"marginal": marginal, "pseudo-marginal": pseudo_marginal}
every_metropolis = pytest.mark.parametrize("make", METROPOLIS.values(), ids=METROPOLIS.keys())


@pytest.fixture
def model():
    X, y = toy_classes(N, 2, seed=1)
    return make_model(X, y)


def arrays(value):
    """Every array a state holds, factors and particles included."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays(part)
    elif hasattr(value, "theta") and hasattr(value, "covariance"):  # a GaussianPrior
        yield value.theta
        yield value.chol


def contents(state):
    return [array.copy() for array in arrays(state)]


# --- for every transition -------------------------------------------------------------------------


@every_transition
def test_a_state_is_never_changed(model, transition):
    rng = np.random.default_rng(2)
    state = transition.start(model, THETA, rng)
    for _ in range(30):
        before, scalars = contents(state), [v for v in state if isinstance(v, float)]
        for array in arrays(state):
            array.flags.writeable = False  # a write in place is an error
        after, _ = transition.step(model, state, rng)
        for array, copy in zip(arrays(state), before, strict=True):
            assert_array_equal(array, copy)
        assert [v for v in state if isinstance(v, float)] == scalars
        state = after


@every_transition
def test_equal_streams_give_equal_paths(model, transition):
    paths = []
    for _ in range(2):
        rng = np.random.default_rng(3)
        state = transition.start(model, THETA, rng)
        path, infos = [], []
        for _ in range(20):
            state, info = transition.step(model, state, rng)
            path.append(np.concatenate([state.theta, state.f]))
            infos.append(info)
        paths.append((np.array(path), infos))
    assert_array_equal(paths[0][0], paths[1][0])
    assert paths[0][1] == paths[1][1]


@every_transition
def test_a_step_depends_on_the_state_and_the_stream_alone(model, transition):
    """Not on what the transition did before: nothing adapts, nothing is remembered."""
    state = transition.start(model, THETA, np.random.default_rng(4))
    first, _ = transition.step(model, state, np.random.default_rng(5))
    other = transition.start(model, THETA + 1.0, np.random.default_rng(6))
    transition.step(model, other, np.random.default_rng(7))
    second, _ = transition.step(model, state, np.random.default_rng(5))
    assert_array_equal(second.theta, first.theta)
    assert_array_equal(second.f, first.f)


@every_transition
def test_infos_make_sense(model, transition):
    rng = np.random.default_rng(8)
    state = transition.start(model, THETA, rng)
    for _ in range(30):
        _, info = transition.step(model, state, rng)
        assert 0.0 <= info.acceptance_probability <= 1.0
        assert isinstance(info.accepted, bool)
        assert info.n_evaluations >= 1
        assert not info.failed
        if info.accepted:
            assert info.acceptance_probability > 0.0


@every_transition
def test_no_hyper_parameters(transition):
    """All of the kernel fixed, p = 0: the chain is one on f."""
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y, kernel=ConstantKernel(2.0, "fixed") * RBF(0.5, "fixed"))
    if hasattr(transition, "proposal"):
        transition = replace(transition, proposal=walk(0))
    rng = np.random.default_rng(9)
    state = transition.start(model, np.empty(0), rng)
    for _ in range(5):
        state, info = transition.step(model, state, rng)
        assert state.theta.shape == (0,)
        assert not info.failed
        if isinstance(transition, MarginalMetropolis):
            assert info.acceptance_probability == 1.0  # the target is a single point


@every_transition
def test_no_start_where_K_is_singular(transition):
    """Duplicated rows without jitter; B = I + W^1/2 K W^1/2 would not notice."""
    X, y = toy_classes(N, 2, seed=1)
    X[3] = X[7]
    X[4] = X[7]
    model = make_model(X, y, jitter=0.0)
    with pytest.raises(NotPositiveDefiniteError):
        _ = model.prior_at(THETA).chol
    state = transition.start(model, THETA, np.random.default_rng(10))
    if getattr(transition, "with_latent", True):
        assert state is None
    else:
        assert state.f.shape == (0,)  # theta alone needs no factor of K


# --- caches ---------------------------------------------------------------------------------------


def run(transition, model, n_steps=40):
    rng = np.random.default_rng(11)
    state = transition.start(model, THETA, rng)
    for _ in range(n_steps):
        state, info = transition.step(model, state, rng)
        yield state, info


def test_elliptical_slice_returns_the_likelihood_of_its_f(model):
    for state, info in run(EllipticalSlice(), model):
        assert info.accepted
        assert state.log_lik == model.log_lik(state.f)
        assert_array_equal(state.theta, THETA)


def test_elliptical_slice_needs_no_further_factorization(model):
    rng = np.random.default_rng(12)
    state = EllipticalSlice().start(model, THETA, rng)
    after, _ = EllipticalSlice().step(model, state, rng)
    assert after.prior is state.prior


@pytest.mark.parametrize("with_latent", [True, False])
def test_marginal_returns_the_target_at_its_theta(model, with_latent):
    transition = marginal(walk(), with_latent=with_latent)
    for state, _ in run(transition, model):
        fit = EP().fit(model, state.theta)
        expected = fit.log_evidence + model.hyperprior.log_prob(state.theta)
        assert state.log_target == pytest.approx(expected, abs=1e-12)
        assert_allclose(state.sites.weights, fit.q.weights, atol=1e-12)
        assert_allclose(state.sites.precision, fit.q.precision, atol=1e-12)
        assert state.f.shape == ((N,) if with_latent else (0,))


def test_pseudo_marginal_returns_an_estimate_that_belongs_to_its_theta(model):
    for state, _ in run(pseudo_marginal(walk()), model):
        estimate = state.estimate
        q = EP().fit(model, state.theta).q
        log_weights = log_importance_weights(model, q, estimate.particles, defensive=0.05)
        assert_allclose(estimate.log_weights, log_weights, atol=1e-10)
        expected = logsumexp(log_weights) - np.log(4)
        assert estimate.log_likelihood == pytest.approx(expected, abs=1e-10)
        assert state.log_hyperprior == model.hyperprior.log_prob(state.theta)
        assert (estimate.particles == state.f[:, None]).all(axis=0).any()


# --- Metropolis decisions -------------------------------------------------------------------------


@every_metropolis
def test_a_sure_acceptance_moves_to_the_proposal(model, make):
    there = THETA + 0.3
    transition = make(Jump(there, np.inf))
    rng = np.random.default_rng(13)
    state, info = transition.step(model, transition.start(model, THETA, rng), rng)
    assert info.accepted
    assert info.acceptance_probability == 1.0
    assert_array_equal(state.theta, there)


def test_a_rejection_leaves_a_marginal_state_as_it_is(model):
    transition = marginal(Jump(THETA + 0.3, -np.inf))
    rng = np.random.default_rng(14)
    state = transition.start(model, THETA, rng)
    after, info = transition.step(model, state, rng)
    assert after is state
    assert (info.accepted, info.acceptance_probability, info.failed) == (False, 0.0, False)
    assert info.n_evaluations == 1


@pytest.mark.parametrize(
    "proposal",
    [Jump(THETA + 0.3, -np.inf), Jump(THETA + 0.3, np.nan), Jump(np.array([60.0, 0.0]), np.inf)],
    ids=["rejected", "NaN", "outside the prior"],
)
def test_a_rejection_keeps_the_very_same_estimate(model, proposal):
    """Recomputing it would make the chain inexact; only the drawn particle is new."""
    transition = pseudo_marginal(proposal)
    rng = np.random.default_rng(15)
    state = start = transition.start(model, THETA, rng)
    drawn = set()
    for _ in range(40):
        state, info = transition.step(model, state, rng)
        assert not info.accepted
        assert state.estimate is start.estimate
        assert state.log_hyperprior == start.log_hyperprior
        assert_array_equal(state.theta, THETA)
        drawn.add(state.f.tobytes())
    assert len(drawn) > 1


@every_metropolis
@pytest.mark.parametrize("bad", [[60.0, 0.0], [0.0, -60.0], [np.nan, 0.0], [np.inf, 0.0]])
def test_a_proposal_without_prior_mass_is_rejected_unevaluated(model, make, bad):
    transition = make(Jump(np.array(bad), np.inf))
    rng = np.random.default_rng(16)
    state = transition.start(model, THETA, rng)
    after, info = transition.step(model, state, rng)
    assert_array_equal(after.theta, THETA)
    assert info == (False, 0.0, 0, False)


@every_metropolis
def test_a_proposal_outside_a_bounded_prior_has_not_failed(make):
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y, priors={"k1__constant_value": stats.uniform(0.1, 5.0)})
    transition = make(Jump(np.array([np.log(6.0), 0.0]), np.inf))
    rng = np.random.default_rng(17)
    after, info = transition.step(model, transition.start(model, THETA, rng), rng)
    assert_array_equal(after.theta, THETA)
    assert info == (False, 0.0, 0, False)
    assert transition.start(model, np.array([np.log(6.0), 0.0]), rng) is None


@every_metropolis
def test_a_factorization_that_fails_is_a_rejection_and_counted(model, make):
    transition = make(Jump(THETA + 0.3, np.inf), Failing())
    rng = np.random.default_rng(18)
    state = transition.start(model, THETA, rng)
    after, info = transition.step(model, state, rng)
    assert_array_equal(after.theta, THETA)
    assert info == (False, 0.0, 1, True)
    assert transition.start(model, THETA + 0.3, rng) is None


@every_metropolis
def test_a_proposal_where_K_is_singular_is_a_rejection_and_counted(make):
    """Without jitter, a long length-scale leaves K of rank one; the evidence is finite there."""
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y, jitter=0.0)
    long = np.array([0.8, 10.0])
    with pytest.raises(NotPositiveDefiniteError):
        _ = model.prior_at(long).chol
    short = np.array([0.8, -3.0])
    transition = make(Jump(long, np.inf))
    rng = np.random.default_rng(19)
    state = transition.start(model, short, rng)
    after, info = transition.step(model, state, rng)
    assert_array_equal(after.theta, short)
    assert info == (False, 0.0, 1, True)


@every_metropolis
def test_the_acceptance_probability_is_the_ratio_of_targets(model, make):
    transition = make(walk())
    rng = np.random.default_rng(20)
    state = transition.start(model, THETA, rng)

    def log_target(state):
        if hasattr(state, "log_target"):
            return state.log_target
        return state.estimate.log_likelihood + state.log_hyperprior

    seen = 0
    for _ in range(40):
        after, info = transition.step(model, state, rng)
        if info.accepted:
            expected = min(1.0, np.exp(log_target(after) - log_target(state)))
            assert info.acceptance_probability == pytest.approx(expected, rel=1e-9)
            seen += 1
        state = after
    assert 0 < seen < 40


@pytest.mark.parametrize("log_ratio", [-0.2, -2.0])
def test_metropolis_accepts_with_the_stated_probability(log_ratio):
    rng = np.random.default_rng(21)
    decisions = [metropolis_accepts(log_ratio, rng) for _ in range(5000)]
    accepted = sum(decision for decision, _ in decisions)
    assert all(probability == np.exp(log_ratio) for _, probability in decisions)
    assert stats.binomtest(accepted, 5000, np.exp(log_ratio)).pvalue > 1e-4


def test_metropolis_at_its_limits():
    rng = np.random.default_rng(22)
    assert metropolis_accepts(np.nan, rng) == (False, 0.0)
    assert metropolis_accepts(-np.inf, rng) == (False, 0.0)
    assert metropolis_accepts(np.inf, rng) == (True, 1.0)


# --- retained particles ---------------------------------------------------------------------------


def test_a_pseudo_marginal_start_can_retain_a_particle(model):
    f = np.linspace(-1.0, 1.0, N)
    state = pseudo_marginal(walk()).start(model, THETA, np.random.default_rng(23), retained=f)
    assert_array_equal(state.estimate.particles[:, 0], f)
