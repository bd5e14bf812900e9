"""What every transition must satisfy: states are immutable, caches fresh, rejections harmless."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP, Approximation, Laplace
from skgpmcmc.importance import log_importance_weights
from skgpmcmc.model.nugget import NuggetCovariance
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.transitions import EllipticalSlice, Mixture, RandomWalk, StepInfo, metropolis_accepts
from skgpmcmc.transitions.compose import DirectedPair
from skgpmcmc.transitions.metropolis import MarginalMetropolis
from skgpmcmc.transitions.particles import ParticleRefresh, RetainedParticle
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis
from skgpmcmc.transitions.rotation import GridDensity, Rotation
from skgpmcmc.transitions.surrogate import (
    CheapPoint,
    IndependenceMetropolis,
    SurrogateProposal,
    TMixture,
)

from ..helpers import in_one_test, leapfrog, make_model, toy_classes

THETA = np.array([0.8, -0.9])
N = 10


@dataclass(frozen=True)
class Fixed:
    """Always propose the same theta, with a Hastings ratio that decides: inf or -inf."""

    theta: np.ndarray
    log_hastings: float

    def propose(self, theta, rng):
        return self.theta, self.log_hastings


@dataclass(frozen=True)
class Pulled:
    """theta' ~ N(theta / 2, 0.7^2 I): not symmetric."""

    def propose(self, theta, rng):
        new = 0.5 * theta + 0.7 * rng.standard_normal(len(theta))
        return new, self.log_density(new, theta) - self.log_density(theta, new)

    @staticmethod
    def log_density(start, end):
        """Of going from the first to the second."""
        return stats.norm(0.5 * start, 0.7).logpdf(end).sum()


@dataclass(eq=False)
class Failing(Approximation):
    """Laplace near `THETA`; elsewhere a factorization that fails."""

    def fit(self, model, theta, start=None):
        if not np.array_equal(theta, THETA):
            raise NotPositiveDefiniteError("on purpose")
        return Laplace().fit(model, theta, start)

    def gradient(self, model, fit):
        raise NotImplementedError

    def check(self):
        pass

    def with_tolerance(self, tol=0.0):
        return self


@dataclass(frozen=True)
class Bell:
    """Independent normals around `THETA`, unnormalized: what an emulator might be."""

    def value_and_gradient(self, theta):
        z = theta - THETA[: theta.shape[-1]]
        return -0.5 * np.einsum("...i,...i->...", z, z), -z

    def log_prob(self, theta):
        return self.value_and_gradient(theta)[0]

    def at(self, theta):
        return CheapPoint.at(self, theta)


def walk(dim=2, scale=0.5):
    return RandomWalk(np.log(scale))


def jump(dim=2):
    return IndependenceMetropolis(
        TMixture(THETA[None, :dim], 1.2 * np.eye(dim)[None], np.ones(1)), 3
    )


def surrogate(dim=2):
    return SurrogateProposal(Bell(), leapfrog(np.eye(dim), 0.7, 3))


def candidates(dim=2):
    return SurrogateProposal(Bell(), jump(dim))


def rotation(dim=2):
    return Rotation(GridDensity.of(Bell(), THETA[None, :dim], np.eye(dim), 12.0))


def directed(make):
    """Ahead and back."""
    return DirectedPair(make(rotation()), make(rotation().reverse()))


def marginal(proposal, approximation=None, *, with_latent=True):
    return MarginalMetropolis(approximation or EP(), proposal, with_latent)


def pseudo_marginal(proposal, approximation=None):
    return PseudoMarginalMetropolis(approximation or EP(), proposal, 4, 0.05)


def of_particles(transition):
    """Moves of the particles alone, started by a pseudo-marginal transition."""
    return Mixture((pseudo_marginal(walk()), transition), (0.0, 1.0))


def emulated():
    """What the emulated sampler makes."""
    parts = (pseudo_marginal(surrogate()), pseudo_marginal(walk()), ParticleRefresh(0.05))
    return Mixture(parts, (0.5, 0.25, 0.25), RetainedParticle(0.05))


EVERY = {
    "elliptical slice": EllipticalSlice(),
    "marginal": marginal(walk()),
    "marginal, laplace": marginal(walk(), Laplace()),
    "marginal, theta only": marginal(walk(), with_latent=False),
    "pseudo-marginal": pseudo_marginal(walk()),
    "pseudo-marginal, laplace": pseudo_marginal(walk(), Laplace()),
    "pseudo-marginal, one draw": PseudoMarginalMetropolis(EP(), walk(), 1),
    "surrogate": pseudo_marginal(surrogate()),
    "surrogate by candidates": pseudo_marginal(candidates()),
    "rotation": directed(pseudo_marginal),
    "rotation, marginal": directed(marginal),
    "refresh": of_particles(ParticleRefresh(0.05)),
    "retained particle": of_particles(RetainedParticle(0.05)),
    "emulated": emulated(),
}
every_transition = in_one_test("transition", EVERY.values(), ids=EVERY)
METROPOLIS = {"marginal": marginal, "pseudo-marginal": pseudo_marginal}
every_metropolis = in_one_test("make", METROPOLIS.values(), ids=METROPOLIS)


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
        yield value.K
        yield value.root.factor
    elif hasattr(value, "chol_B"):  # a GaussianApproximation
        yield from (value.weights, value.precision, value.mean, value.root_precision, value.chol_B)
        yield from arrays(value.prior)


def contents(state):
    return [array.copy() for array in arrays(state)]


# --- for every transition -------------------------------------------------------------------------


@every_transition
def test_step_never_changes_its_state(model, transition):
    rng = np.random.default_rng(2)
    state = transition.start(model, THETA, rng)
    for _ in range(12):
        before, scalars = contents(state), [v for v in state if isinstance(v, float)]
        for array in arrays(state):
            array.flags.writeable = False  # a write in place is an error
        after, _ = transition.step(model, state, rng)
        for array, copy in zip(arrays(state), before, strict=True):
            assert_array_equal(array, copy)
        assert [v for v in state if isinstance(v, float)] == scalars
        state = after


@every_transition
def test_step_depends_on_the_state_and_the_random_stream_alone(model, transition):
    """Not on what the transition did before: nothing adapts, nothing is remembered."""
    state, other = (
        transition.start(model, theta, np.random.default_rng(4)) for theta in (THETA, THETA + 1.0)
    )
    for seed in range(5):
        first, info = transition.step(model, state, np.random.default_rng(seed))
        transition.step(model, other, np.random.default_rng(7))
        second, again = transition.step(model, state, np.random.default_rng(seed))
        assert_array_equal(second.theta, first.theta)
        assert_array_equal(second.f, first.f)
        assert info == again
        state = first


@every_transition
def test_infos_have_acceptance_probabilities_names_and_costs(model, transition):
    moves = getattr(transition, "moves", (transition,))
    names = {move.name for move in moves}
    metropolis = {move.name for move in moves if hasattr(move, "proposal")}
    rng = np.random.default_rng(8)
    state = transition.start(model, THETA, rng)
    for _ in range(15):
        _, info = transition.step(model, state, rng)
        assert 0.0 <= info.acceptance_probability <= 1.0
        assert isinstance(info.accepted, bool)
        assert info.move in names
        # A move of the particles alone costs a share of an evaluation, and a proposal that stays
        # nothing.
        assert info.n_evaluations >= (info.accepted if info.move in metropolis else 1 / N)
        assert not info.failed
        if info.accepted:
            assert info.acceptance_probability > 0.0


def without_hyperparameters(transition):
    if hasattr(transition, "moves"):
        return replace(transition, moves=[without_hyperparameters(p) for p in transition.moves])
    if isinstance(transition, DirectedPair):  # there is nothing to rotate
        transition = replace(transition.ahead, proposal=walk())
    if not hasattr(transition, "proposal"):
        return transition
    by_surrogate = isinstance(transition.proposal, SurrogateProposal)
    return replace(transition, proposal=surrogate(0) if by_surrogate else walk(0))


@every_transition
def test_a_chain_without_hyper_parameters_moves_f(transition):
    """All of the kernel fixed, p = 0: the chain is one on f."""
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y, kernel=ConstantKernel(2.0, "fixed") * RBF(0.5, "fixed"))
    transition = without_hyperparameters(transition)
    rng = np.random.default_rng(9)
    state = transition.start(model, np.empty(0), rng)
    for _ in range(5):
        state, info = transition.step(model, state, rng)
        assert state.theta.shape == (0,)
        assert not info.failed
        if isinstance(transition, MarginalMetropolis):
            assert info.acceptance_probability == 1.0  # the target is a single point


@every_transition
@in_one_test("n_inputs", [N - 2, 2])
def test_rows_with_equal_inputs_have_equal_latent_values(transition, n_inputs):
    """K is singular there, of next to full rank or of a low one, and f is in its range."""
    X, y = toy_classes(N, 2, seed=1)
    which = np.arange(N) % n_inputs
    model = make_model(X[which], y)
    rng = np.random.default_rng(10)
    state = transition.start(model, THETA, rng)
    assert state.f.shape == ((N,) if getattr(transition, "with_latent", True) else (0,))
    n_accepted = 0
    for _ in range(20):
        state, info = transition.step(model, state, rng)
        assert not info.failed
        n_accepted += info.accepted
        if len(state.f):
            assert_allclose(state.f, state.f[:n_inputs][which], rtol=1e-6, atol=1e-6)
    assert n_accepted > 0


@every_transition
def test_transitions_do_not_start_where_K_is_no_covariance(model, transition):
    """Its eigenvalues are negative; B = I + W^1/2 K W^1/2 would not notice."""
    wrong = model.with_nugget(-0.1)
    with pytest.raises(NotPositiveDefiniteError):
        wrong.prior_at(THETA).factorize()
    state = transition.start(wrong, THETA, np.random.default_rng(10))
    if getattr(transition, "with_latent", True):
        assert state is None
    else:
        assert state.f.shape == (0,)  # theta alone needs no root of K


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
        assert state.log_lik == model.observations.total(state.f)
        assert_array_equal(state.theta, THETA)


@in_one_test("with_latent", [True, False])
def test_marginal_state_holds_the_target_at_its_theta(model, with_latent):
    transition = marginal(walk(), with_latent=with_latent)
    for state, _ in run(transition, model):
        fit = EP().fit(model, state.theta)
        expected = fit.log_evidence + model.hyperprior.log_prob(state.theta)
        assert state.log_target == pytest.approx(expected, abs=1e-12)
        assert state.f.shape == ((N,) if with_latent else (0,))


@pytest.mark.parametrize("name", ["pseudo-marginal", "refresh", "retained particle", "emulated"])
def test_estimate_of_a_state_equals_the_one_from_its_theta_and_particles(model, name):
    for state, _ in run(EVERY[name], model):
        estimate = state.estimate
        q = EP().fit(model, state.theta).q
        assert_allclose(state.density.weights, q.weights, atol=1e-12)
        assert_allclose(state.density.precision, q.precision, atol=1e-12)
        assert_array_equal(state.density.prior.theta, state.theta)
        log_weights = log_importance_weights(model, q, estimate.particles, defensive=0.05)
        assert_allclose(estimate.log_weights, log_weights, atol=1e-10)
        expected = logsumexp(log_weights) - np.log(4)
        assert estimate.log_likelihood == pytest.approx(expected, abs=1e-10)
        assert state.log_hyperprior == model.hyperprior.log_prob(state.theta)
        assert (estimate.particles == state.f[:, None]).all(axis=0).any()


# --- Metropolis decisions -------------------------------------------------------------------------


@in_one_test(
    "proposal",
    [Fixed(THETA + 0.3, -np.inf), Fixed(THETA + 0.3, np.nan), Fixed(np.array([60.0, 0.0]), np.inf)],
    ids=["rejected", "NaN", "outside the prior"],
)
def test_rejected_move_keeps_the_same_estimate(model, proposal):
    """Recomputing it would make the chain inexact; only the drawn particle is new."""
    transition, rng = pseudo_marginal(proposal), np.random.default_rng(15)
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
    start = marginal(proposal).start(model, THETA, rng)
    after, info = marginal(proposal).step(model, start, rng)
    assert after is start
    assert (info.accepted, info.acceptance_probability, info.failed) == (False, 0.0, False)


@every_metropolis
@in_one_test("direction", [1, -1])
def test_accepted_move_clears_the_direction_of_a_rotation(model, make, direction):
    """And nowhere else, as moves of the particles alone do: see `DirectedPair`."""
    rng = np.random.default_rng(22)
    for log_hastings, expected in ((np.inf, 0), (-np.inf, direction)):
        transition = make(Fixed(THETA + 0.3, log_hastings))
        state = transition.start(model, THETA, rng)._replace(direction=direction)
        after, info = transition.step(model, state, rng)
        assert info.accepted == (expected == 0)
        assert after.direction == expected
    state = pseudo_marginal(walk()).start(model, THETA, rng)._replace(direction=direction)
    for move in (ParticleRefresh(0.05), RetainedParticle(0.05)):
        assert move.step(model, state, rng)[0].direction == direction


def step_to(model, make, theta, *settings, start=THETA):
    """The states before and after a step to theta that the ratio accepts, and its info."""
    transition, rng = make(Fixed(np.array(theta), np.inf), *settings), np.random.default_rng(16)
    state = transition.start(model, start, rng)
    return state, *transition.step(model, state, rng)


@every_metropolis
@in_one_test("bad", [[60.0, 0.0], [0.0, -60.0], [np.nan, 0.0], [np.inf, 0.0], [np.log(6.0), 0.0]])
def test_proposal_without_prior_mass_is_rejected_without_evaluation(make, bad):
    """It has not failed."""
    X, y = toy_classes(N, 2, seed=1)
    model = make_model(X, y, priors={"k1__constant_value": stats.uniform(0.1, 5.0)})
    _, after, info = step_to(model, make, bad)
    assert_array_equal(after.theta, THETA)
    assert info == StepInfo(make(walk()).name, False, 0.0, 0, False)
    assert make(walk()).start(model, np.array(bad), np.random.default_rng(0)) is None


class NotEverywhere(NuggetCovariance):
    """No covariance at long length-scales, where the nugget is negative."""

    def matrix(self, theta):
        return super().matrix(theta) if theta[1] > 0.0 else self.plain.matrix(theta)


SHORT, LONG = np.array([0.8, -3.0]), np.array([0.8, 10.0])


@every_metropolis
@in_one_test("what", ["fit", "K"])
def test_a_factorization_that_fails_is_a_rejection_and_counted(model, make, what):
    if what == "fit":
        start, there, settings = THETA, THETA + 0.3, [Failing()]
    else:
        start, there, settings = SHORT, LONG, []
        model = replace(model, covariance=NotEverywhere(model.covariance, -0.1))
        with pytest.raises(NotPositiveDefiniteError):
            model.prior_at(LONG).factorize()
    before, after, info = step_to(model, make, there, *settings, start=start)
    assert_array_equal(after.theta, before.theta)
    assert info == StepInfo(make(walk()).name, False, 0.0, 1, True)
    transition = make(walk(), *settings)
    assert transition.start(model, there, np.random.default_rng(0)) is None


@every_metropolis
def test_a_proposal_where_K_has_lost_its_rank_is_accepted(model, make):
    """A long length-scale leaves two columns of K, and all rows have nearly the same value."""
    _, after, info = step_to(model, make, LONG, start=SHORT)
    assert_array_equal(after.theta, LONG)
    assert info == StepInfo(make(walk()).name, True, 1.0, 1, False)
    assert model.prior_at(LONG).rank < N / 2
    assert_allclose(after.f, after.f.mean(), atol=1e-2)


@every_metropolis
@in_one_test("proposal", [walk(), Pulled()], ids=["symmetric", "asymmetric"])
def test_acceptance_probability_is_the_hastings_ratio(model, make, proposal):
    """Times that of the densities of the way back and of the way there."""
    transition = make(proposal)
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
            log_ratio = log_target(after) - log_target(state)
            if isinstance(proposal, Pulled):
                log_ratio += proposal.log_density(after.theta, state.theta)
                log_ratio -= proposal.log_density(state.theta, after.theta)
            expected = min(1.0, np.exp(log_ratio))
            assert info.acceptance_probability == pytest.approx(expected, rel=1e-9)
            seen += 1
        state = after
    assert 0 < seen < 40


@in_one_test("log_ratio", [-0.2, -2.0])
def test_metropolis_accepts_with_the_stated_probability(log_ratio):
    rng = np.random.default_rng(21)
    decisions = [metropolis_accepts(log_ratio, rng) for _ in range(5000)]
    accepted = sum(decision for decision, _ in decisions)
    assert all(probability == np.exp(log_ratio) for _, probability in decisions)
    assert stats.binomtest(accepted, 5000, np.exp(log_ratio)).pvalue > 1e-4
    for certain in (np.nan, -np.inf):
        assert metropolis_accepts(certain, rng) == (False, 0.0)
    assert metropolis_accepts(np.inf, rng) == (True, 1.0)


# --- retained particles ---------------------------------------------------------------------------


@in_one_test("transition", [pseudo_marginal(walk()), emulated()])
def test_a_start_can_retain_a_particle(model, transition):
    f = np.linspace(-1.0, 1.0, N)
    state = transition.start(model, THETA, np.random.default_rng(23), retained=f)
    assert_array_equal(state.estimate.particles[:, 0], f)


@in_one_test("transition", [ParticleRefresh(), RetainedParticle()])
def test_moves_of_particles_refuse_to_start_a_chain(model, transition):
    with pytest.raises(TypeError, match="started by a PseudoMarginalMetropolis"):
        transition.start(model, THETA, np.random.default_rng(0))


@pytest.mark.parametrize("probabilities", [(1.0, 0.0), (0.0, 1.0), (0.3, 0.7)])
def test_a_mixture_chooses_with_its_probabilities_and_last_moves_always(model, probabilities):
    parts = (pseudo_marginal(Fixed(THETA, 0.0)), ParticleRefresh(0.05))
    plain = Mixture(parts, probabilities)
    with_last = replace(plain, last=RetainedParticle(0.05))
    rng = np.random.default_rng(26)
    state = plain.start(model, THETA, rng)
    infos = [plain.step(model, state, rng)[1] for _ in range(200)]
    refresh = [info for info in infos if info.move == "refresh"]
    assert all(info == StepInfo("refresh", True, 1.0, 4 / N, False) for info in refresh)
    share = len(refresh) / 200
    error = np.sqrt(probabilities[0] * probabilities[1] / 200)
    assert abs(share - probabilities[1]) <= 4.0 * error
    # The last one leaves the name of the first, and adds its own cost.
    for seed in range(5):
        alone, info = plain.step(model, state, np.random.default_rng(seed))
        after, both = with_last.step(model, state, np.random.default_rng(seed))
        assert both.move == info.move
        assert both.n_evaluations == pytest.approx(info.n_evaluations + 1 / N)
        changed = (after.estimate.particles != alone.estimate.particles).any(axis=0)
        assert changed.sum() == 1


# --- proposals from a cheap chain -----------------------------------------------------------------


def test_rotation_beyond_the_grid_makes_no_evaluation(model):
    transition, rng = marginal(rotation()), np.random.default_rng(29)
    state = transition.start(model, THETA + np.array([0.0, 7.0]), rng)
    moved, info = transition.step(model, state, rng)
    np.testing.assert_array_equal(moved.theta, state.theta)
    assert (info.accepted, info.failed, info.n_evaluations) == (False, False, 0.0)
