"""Moves under a cheap density: leapfrog, independence candidates, and the pool of chains."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats

from skgpmcmc.approximations import EP
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis
from skgpmcmc.transitions.surrogate import (
    CheapPoint,
    IndependenceMetropolis,
    SurrogateProposal,
    TMixture,
    follow_trajectories,
    run_pool,
)

from ...helpers import P_LIMIT, leapfrog, make_model, toy_classes


class Density:
    """A cheap density that gives points, too."""

    def at(self, theta):
        return CheapPoint.at(self, theta)


class Skewed(Density):
    """Two independent coordinates u, exp(u) ~ gamma(3): skewed, smooth, known in every respect."""

    shape = 3.0

    def value_and_gradient(self, theta):
        return (self.shape * theta - np.exp(theta)).sum(axis=-1), self.shape - np.exp(theta)

    def log_prob(self, theta):
        return self.value_and_gradient(theta)[0]

    def sample(self, rng, size):
        return np.log(rng.gamma(self.shape, size=(size, 2)))

    def cdf(self, u):
        return stats.gamma(self.shape).cdf(np.exp(u))


class Gaussian(Density):
    """Standard normal."""

    def value_and_gradient(self, theta):
        return -0.5 * (theta**2).sum(axis=-1), -theta

    def log_prob(self, theta):
        return self.value_and_gradient(theta)[0]


TARGET = Skewed()
ROOT = np.linalg.cholesky(np.array([[0.5, 0.2], [0.2, 0.4]]))
LEAPFROG = leapfrog(ROOT, 0.9, 3)
MIXTURE = TMixture(
    means=np.array([[1.0, 1.2], [0.0, -0.5]]),
    roots=np.array([ROOT, 2.0 * ROOT]),
    shares=np.array([0.7, 0.3]),
)


def points(theta):
    return CheapPoint.at(TARGET, theta)


# --- invariance -----------------------------------------------------------------------------------


def keeps_the_law(move, size=4000, seed=0):
    """Kolmogorov-Smirnov p-values of both coordinates after a move from independent exact draws."""
    rng = np.random.default_rng(seed)
    begin = TARGET.sample(rng, size)
    end = np.array([move(theta, rng) for theta in begin])
    assert np.mean(np.any(end != begin, axis=1)) > 0.3
    return [stats.kstest(TARGET.cdf(end[:, j]), "uniform").pvalue for j in (0, 1)]


@pytest.mark.parametrize("step_size", [0.4, 1.3])
def test_leapfrog_leaves_the_target_invariant(step_size):
    rng = np.random.default_rng(0)
    begin = TARGET.sample(rng, 20_000)
    end, probability = follow_trajectories(leapfrog(ROOT, step_size, 3), TARGET, points(begin), rng)
    assert 0.1 < probability.mean() < 1.0
    for j in (0, 1):
        assert stats.kstest(TARGET.cdf(end.position[:, j]), "uniform").pvalue > P_LIMIT


def test_independence_jump_leaves_the_target_invariant():
    jump = IndependenceMetropolis(MIXTURE, 3)
    p_values = keeps_the_law(
        lambda theta, rng: jump.move(TARGET, points(theta), rng).point.position
    )
    assert min(p_values) > P_LIMIT


@pytest.mark.parametrize("move", [LEAPFROG, IndependenceMetropolis(MIXTURE, 4)])
def test_surrogate_chain_is_reversible(move):
    """Pairs (theta, theta') have the law of (theta', theta) where theta is a draw from pi*."""
    proposal = SurrogateProposal(TARGET, move)
    rng = np.random.default_rng(1)
    begin = TARGET.sample(rng, 1500)
    proposed = [proposal.propose(theta, rng) for theta in begin]
    end = np.array([theta for theta, _ in proposed])
    for function in (
        lambda a, b: a[:, 0] * b[:, 0] ** 2,
        lambda a, b: a[:, 0] * b[:, 1] ** 2,
        lambda a, b: np.exp(0.3 * a[:, 0] - 0.2 * b[:, 1]),
    ):
        difference = function(begin, end) - function(end, begin)
        assert stats.ttest_1samp(difference, 0.0).pvalue > P_LIMIT


@pytest.mark.parametrize("move", [LEAPFROG, IndependenceMetropolis(MIXTURE, 4)])
def test_hastings_ratio_of_the_surrogate_equals_that_of_its_target(move):
    proposal = SurrogateProposal(TARGET, move)
    rng = np.random.default_rng(2)
    theta = np.array([0.4, 1.6])
    for _ in range(20):
        new, log_hastings = proposal.propose(theta, rng)
        both, _ = TARGET.value_and_gradient(np.array([theta, new]))
        assert log_hastings == pytest.approx(both[0] - both[1], abs=1e-12)
        theta = new


class Staying:
    """A proposal whose chain under pi* has accepted nothing."""

    def propose(self, theta, rng):
        return theta, 0.0


def test_a_proposal_that_has_stayed_makes_no_evaluation():
    model, rng = make_model(*toy_classes(8, 2, 1)), np.random.default_rng(3)
    transition = PseudoMarginalMetropolis(EP(), Staying(), 4)
    state = transition.start(model, model.start, rng)
    after, info = transition.step(model, state, rng)
    assert after.estimate is state.estimate
    assert info.n_evaluations == 0.0
    assert not info.accepted


# --- leapfrog -------------------------------------------------------------------------------------


class Scripted:
    """A generator whose draws are given: the factor of the step, the momentum, no rejection."""

    def __init__(self, factor, momentum):
        self.factor, self.momentum, self.n_uniforms = factor, momentum, 0

    def uniform(self, *bounds, size):
        self.n_uniforms += 1
        return np.full(size, self.factor if bounds else 1.0 - 2.0**-40)

    def standard_normal(self, shape):
        return np.broadcast_to(self.momentum, shape)

    def integers(self, low, high):
        return low


def trajectory(theta, momentum, factor=1.1):
    """Where a trajectory ends when it is accepted."""
    end, _ = follow_trajectories(LEAPFROG, TARGET, points(theta), Scripted(factor, momentum))
    return end


def leapfrog_by_hand(theta, p, step, root, n_steps):
    """Position and momentum after textbook steps with the inverse mass C C'."""
    for _ in range(n_steps):
        p = p + 0.5 * step * root.T @ TARGET.value_and_gradient(theta)[1]
        theta = theta + step * root @ p
        p = p + 0.5 * step * root.T @ TARGET.value_and_gradient(theta)[1]
    return theta, p


def test_trajectory_equals_the_textbook_leapfrog_and_is_reversible():
    theta, momentum = np.array([0.5, 1.4]), np.array([0.3, -0.7])
    expected, p = leapfrog_by_hand(theta, momentum, 0.9 * 1.1, ROOT, 3)
    end = trajectory(theta, momentum)
    assert_allclose(end.position, expected, atol=1e-12)
    assert_allclose(trajectory(end.position, -p).position, theta, atol=1e-12)


def test_surrogate_move_returns_value_and_gradient_at_its_end():
    rng = np.random.default_rng(3)
    for theta in (np.array([0.5, 1.4]), TARGET.sample(rng, 7)):
        point = points(theta)
        for _ in range(10):
            point, probability = follow_trajectories(leapfrog(ROOT, 1.3, 2), TARGET, point, rng)
            assert_allclose(point.log_density, points(point.position).log_density, atol=1e-12)
            assert_allclose(point.gradient, points(point.position).gradient, atol=1e-12)
            assert probability.shape == theta.shape[:-1]
            assert np.all((probability >= 0.0) & (probability <= 1.0))


def test_surrogate_moves_never_enter_points_without_density():
    class Half(Gaussian):
        def value_and_gradient(self, theta):
            value, gradient = super().value_and_gradient(theta)
            return np.where(theta[..., 0] > 0.0, value, -np.inf), gradient

    rng = np.random.default_rng(5)
    begin = np.abs(rng.standard_normal((500, 1)))
    point = CheapPoint.at(Half(), begin)
    for _ in range(5):
        point, _ = follow_trajectories(leapfrog(np.eye(1), 1.0, 2), Half(), point, rng)
    assert np.all(point.position > 0.0)
    assert stats.kstest(point.position[:, 0], stats.halfnorm.cdf).pvalue > P_LIMIT


def test_rows_of_a_batch_are_accepted_independently():
    rng = np.random.default_rng(6)
    begin = TARGET.sample(rng, 200)
    end, probability = follow_trajectories(leapfrog(ROOT, 2.0, 3), TARGET, points(begin), rng)
    moved = np.any(end.position != begin, axis=1)
    assert 0 < moved.sum() < 200
    assert np.all(probability[moved] > 0.0)


class WithConstant(Skewed):
    """The same density, times a constant that nobody knows."""

    def value_and_gradient(self, theta):
        value, gradient = super().value_and_gradient(theta)
        return value + 800.0, gradient


def test_candidates_are_accepted_by_ratios_of_the_density():
    move = IndependenceMetropolis(MIXTURE, 1)
    n_moved = 0
    for seed in range(40):
        (theta,) = TARGET.sample(np.random.default_rng(seed), 1)
        ends = [
            move.move(target, target.at(theta), np.random.default_rng(seed)).point.position
            for target in (TARGET, WithConstant())
        ]
        assert_array_equal(*ends)
        n_moved += not np.array_equal(ends[0], theta)
    assert 5 < n_moved < 40


# --- t mixture and jump ---------------------------------------------------------------------------


def test_density_of_the_t_mixture_integrates_to_one():
    one = TMixture(np.array([[0.3], [4.0]]), np.array([[[0.5]], [[2.0]]]), np.array([0.6, 0.4]))

    def density(x):
        return float(np.exp(one.log_prob(np.array([[x]])))[0])

    mass, _ = integrate.quad(density, -np.inf, np.inf)
    assert mass == pytest.approx(1.0, abs=1e-6)
    x = np.linspace(-3.0, 9.0, 25)
    expected = 0.6 * stats.t.pdf(x, 6, 0.3, 0.5) + 0.4 * stats.t.pdf(x, 6, 4.0, 2.0)
    assert_allclose(np.exp(one.log_prob(x[:, None])), expected, rtol=1e-10)


def test_density_of_the_t_mixture_equals_scipys_in_two_dimensions():
    theta = np.random.default_rng(7).normal(size=(20, 2))
    parts = [
        share * stats.multivariate_t(mean, root @ root.T, df=6).pdf(theta)
        for mean, root, share in zip(MIXTURE.means, MIXTURE.roots, MIXTURE.shares, strict=True)
    ]
    assert_allclose(np.exp(MIXTURE.log_prob(theta)), np.sum(parts, axis=0), rtol=1e-10)


def test_draws_of_the_t_mixture_have_its_density():
    one = TMixture(np.array([[0.3], [4.0]]), np.array([[[0.5]], [[2.0]]]), np.array([0.6, 0.4]))
    draws = one.sample(np.random.default_rng(8), 5000)[:, 0]

    def cdf(x):
        return 0.6 * stats.t.cdf(x, 6, 0.3, 0.5) + 0.4 * stats.t.cdf(x, 6, 4.0, 2.0)

    assert stats.kstest(draws, cdf).pvalue > P_LIMIT
    first = TMixture(MIXTURE.means[:1], MIXTURE.roots[:1], np.ones(1))
    draws = first.sample(np.random.default_rng(9), 5000) - MIXTURE.means[0]
    whitened = np.linalg.solve(ROOT, draws.T)
    assert all(stats.kstest(z, stats.t(6).cdf).pvalue > P_LIMIT for z in whitened)


def test_every_mode_has_a_component_also_one_that_hardly_any_draw_is_near():
    """Else a chain near the mode would have a candidate there once in millions."""
    rng = np.random.default_rng(12)
    modes = np.array([[0.0, 0.0], [8.0, 8.0], [-9.0, 5.0]])
    many = rng.standard_normal((500, 2)) * [1.0, 0.5]
    few = np.array([[8.2, 7.9], [7.9, 8.3]])
    mixture = TMixture.of_draws(np.concatenate([many, few]), modes, np.ones(2))
    assert_allclose(mixture.shares, np.array([501.0, 3.0, 1.0]) / 505.0)
    assert_allclose(mixture.means, [many.mean(axis=0), few.mean(axis=0), modes[2]])
    # Without draws of their own, components are as wide as the draws are around the other modes.
    sd = np.sqrt((mixture.roots**2).sum(axis=2))
    assert_allclose(sd[2], [1.0, 0.5], rtol=0.1)
    assert (sd[1] > [0.7, 0.35]).all()
    # The target is the law of the draws: nowhere is it much larger than the mixture.
    target = stats.multivariate_normal(modes[1], np.diag([1.0, 0.25])).logpdf(few) + np.log(2 / 502)
    assert (target - mixture.log_prob(few) < np.log(10.0)).all()


def test_a_mixture_of_one_mode_has_the_moments_of_all_draws():
    draws = np.random.default_rng(13).standard_normal((300, 2)) @ ROOT.T
    mixture = TMixture.of_draws(draws, draws.mean(axis=0)[None], np.ones(2))
    assert_allclose(mixture.means[0], draws.mean(axis=0))
    covariance = mixture.roots[0] @ mixture.roots[0].T
    assert_allclose(covariance, np.cov(draws.T), rtol=0.03)
    assert_allclose(mixture.shares, 1.0)


def test_independence_jump_returns_the_value_and_whether_it_moved():
    rng = np.random.default_rng(10)
    point, moves = points(np.array([5.0, 5.0])), []
    for _ in range(30):
        new, moved, _, _, *_ = IndependenceMetropolis(MIXTURE, 2).move(TARGET, point, rng)
        assert float(moved) == float(not np.array_equal(new.position, point.position))
        assert_allclose(new.log_density, points(new.position).log_density, atol=1e-12)
        assert new.gradient is None or new is point  # made where a trajectory wants it
        moves.append(float(moved))
        point = new
    assert 0 < sum(moves) < 30


# --- pool -----------------------------------------------------------------------------------------


def test_pool_of_chains_finds_the_target_from_elsewhere():
    rng = np.random.default_rng(11)
    begin = rng.uniform(-2.0, 4.0, size=(64, 2))
    pool = run_pool(TARGET, begin, ROOT, 60, rng, 0.9)
    assert pool.shape == (30, 64, 2)
    last = pool[-1]
    assert all(stats.kstest(TARGET.cdf(last[:, j]), "uniform").pvalue > P_LIMIT for j in (0, 1))


def test_pool_of_chains_tunes_its_step_size():
    rng = np.random.default_rng(12)
    begin = rng.standard_normal((64, 3))
    for scale in (0.05, 20.0):
        pool = run_pool(Gaussian(), begin, scale * np.eye(3), 60, rng, 0.9)
        assert np.mean(np.any(pool[1:] != pool[:-1], axis=2)) > 0.7


def test_random_numbers_of_leapfrog_steps_keep_the_target():
    """Between the fewest and the most, and the target stays invariant."""
    counts = []

    class Counting(Density):
        n = 0

        def value_and_gradient(self, theta):
            self.n += 1
            return TARGET.value_and_gradient(theta)

    rng = np.random.default_rng(8)
    some = leapfrog(ROOT, 0.9, 5, fewest_steps=2)
    for _ in range(200):
        target = Counting()
        some.move(target, points(np.array([0.5, 1.4])), rng)
        counts.append(target.n)
    assert set(counts) == {2, 3, 4, 5}
    p_values = keeps_the_law(
        lambda theta, rng: some.move(TARGET, points(theta), rng).point.position
    )
    assert min(p_values) > P_LIMIT
