"""Densities on a grid, rotations on them, and chains that keep their direction."""

import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from skgpmcmc.transitions import MetropolisHastings, Mixture, RandomWalk
from skgpmcmc.transitions.compose import DirectedPair
from skgpmcmc.transitions.metropolis import EvaluatedState
from skgpmcmc.transitions.rotation import MOST_ROTATED, GridDensity, Rotation

from ...helpers import P_LIMIT, in_one_test, seeded

#: As where chains run.
QUIET = {"over": "ignore", "invalid": "ignore"}
DEPTH = 12.0
DIMENSIONS = range(1, MOST_ROTATED + 1)
ROOTS = [np.eye(3)[:p, :p] + np.tril(np.full((p, p), 0.6), -1) for p in DIMENSIONS]


@dataclass(frozen=True)
class Bell:
    """A normal density with mean `shift` and covariance root root', skewed."""

    root: np.ndarray
    shift: float = 0.0
    skew: float = 0.0

    def log_prob(self, theta):
        z = np.linalg.solve(self.root, (theta - self.shift).T).T
        return -0.5 * (z**2).sum(axis=-1) + self.skew * np.tanh(z[..., 0] + z[..., -1])


def grid_of(target, *, fine=True):
    p = len(target.root)
    return GridDensity.of(target, np.full((1, p), target.shift), target.root, DEPTH, fine=fine)


def rough_grid(p, rng):
    """Few cells, and values that have nothing to do with one another."""
    values = rng.uniform(size=(5, 6, 4)[:p])
    return GridDensity(rng.normal(size=p), ROOTS[p - 1], np.full(p, -1.0), np.full(p, 0.5), values)


# --- the map to the cube --------------------------------------------------------------------------


@in_one_test("p", DIMENSIONS)
def test_the_map_to_the_cube_has_an_inverse(p):
    rng = np.random.default_rng(p)
    grid = rough_grid(p, rng)
    for u in rng.uniform(size=(50, p)):
        theta, log_density = grid.from_cube(u)
        back, same = grid.to_cube(theta)
        assert_allclose(back, u, rtol=0.0, atol=1e-12)
        assert same == pytest.approx(log_density, abs=1e-10)


@in_one_test("p", DIMENSIONS)
def test_map_to_the_cube_makes_the_density_uniform(p):
    """Its Jacobian is the density, up to the constant that is the same everywhere."""
    rng = np.random.default_rng(10 + p)
    grid, step, constants = rough_grid(p, rng), 1e-6, []
    for u in rng.uniform(0.02, 0.98, size=(30, p)):
        theta, log_density = grid.from_cube(u)
        ends = [grid.to_cube(theta + sign * step * e) for e in np.eye(p) for sign in (1.0, -1.0)]
        jacobian = np.array(
            [(a[0] - b[0]) / (2 * step) for a, b in zip(ends[::2], ends[1::2], strict=True)]
        )
        constants.append(np.log(np.abs(np.linalg.det(jacobian))) - log_density)
    # The density has kinks between cells: a difference across one is off.
    middle = np.abs(np.array(constants) - np.median(constants))
    assert np.quantile(middle, 0.8) < 1e-5


def test_map_of_a_normal_density_equals_its_distribution_functions():
    grid = grid_of(Bell(ROOTS[1], shift=2.0))
    for z in np.random.default_rng(0).standard_normal((50, 2)):
        u, log_density = grid.to_cube(2.0 + ROOTS[1] @ z)
        assert_allclose(u, stats.norm.cdf(z), atol=2e-3)
        assert log_density == pytest.approx(-0.5 * z @ z, abs=0.02 * (1.0 + z @ z))


@pytest.mark.parametrize("p", DIMENSIONS)
def test_draws_from_a_grid_follow_the_density(p):
    rng = np.random.default_rng(seeded(p))
    grid = grid_of(Bell(ROOTS[p - 1], skew=1.0))
    u = np.array([grid.to_cube(theta)[0] for theta in grid.sample(rng, 1000)])
    for column in u.T:  # uniform but for what draws uniform in a cell make of it
        assert stats.kstest(column, "uniform").pvalue > P_LIMIT


@in_one_test("p", DIMENSIONS)
def test_draws_from_a_grid_hit_each_cell_by_its_mass(p):
    """Where values differ as they like; within a cell draws are uniform."""
    rng = np.random.default_rng(seeded(40 + p))
    grid, n_draws = rough_grid(p, rng), 5000
    z = np.linalg.solve(grid.root, (grid.sample(rng, n_draws) - grid.center).T).T
    cells, within = np.divmod((z - grid.low) / grid.step, 1.0)
    counts, _ = np.histogramdd(cells, [np.arange(m) - 0.5 for m in grid.values.shape])
    places = np.ndindex((2,) * p)
    corners = [grid.values[tuple(slice(i, i - 1 or None) for i in at)] for at in places]
    mass = np.sum(corners, axis=0)  # of a multilinear function: the mean of the corners
    assert counts.sum() == n_draws
    assert stats.chisquare(counts.ravel(), n_draws * mass.ravel() / mass.sum()).pvalue > P_LIMIT
    for column in within.T:
        assert stats.kstest(column, "uniform").pvalue > P_LIMIT


def test_tempered_grid_density_is_wider():
    """To the power of a half, a normal density has twice the variance."""
    grid, rng = grid_of(Bell(ROOTS[1])), np.random.default_rng(seeded(44))
    cooled = grid.temper(2.0)
    assert_allclose(cooled.values, np.sqrt(grid.values), rtol=1e-6)
    z = np.linalg.solve(ROOTS[1], cooled.sample(rng, 2000).T)
    for row in z:
        # The grid ends 3.3 of its standard deviations out: a thousandth is beyond.
        assert stats.kstest(row / np.sqrt(2.0), "norm").pvalue > P_LIMIT


def test_density_beyond_the_grid_is_zero():
    grid = grid_of(Bell(ROOTS[1]))
    assert grid.to_cube(np.array([50.0, 0.0])) is None
    theta, log_hastings = Rotation(grid).propose(np.array([50.0, 0.0]), np.random.default_rng(0))
    assert_array_equal(theta, [50.0, 0.0])
    assert log_hastings == -np.inf


def test_density_on_the_grid_between_distant_modes_is_zero():
    """Between two modes, where a margin vanishes too."""
    modes = np.array([[0.0, 0.0], [14.0, 0.0]])
    grid = GridDensity.of(Bells(modes, np.ones(2), np.zeros(2)), modes, np.eye(2), DEPTH)
    with np.errstate(**QUIET):
        for theta in ([7.0, 0.0], [7.0, 2.0], [7.0, grid.low[1] + 0.01]):
            assert grid.to_cube(np.array(theta)) is None


def test_pickled_grid_leaves_out_derived_tables():
    grid = grid_of(Bell(ROOTS[2]))
    before = grid.to_cube(np.zeros(3))
    stored = pickle.dumps(grid)
    assert len(stored) < 4 * grid.values.size + 2000
    assert_array_equal(pickle.loads(stored).to_cube(np.zeros(3))[0], before[0])


# --- where the grid is ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Bells:
    """Normal densities around several points."""

    means: np.ndarray
    sds: np.ndarray
    log_shares: np.ndarray

    def log_prob(self, theta):
        z = (theta[..., None, :] - self.means) / self.sds[:, None]
        each = self.log_shares - 0.5 * (z**2).sum(axis=-1)
        return np.logaddexp.reduce(each, axis=-1)


def moments(grid):
    draws = grid.sample(np.random.default_rng(1), 20_000)
    return draws.mean(axis=0), draws.std(axis=0)


@in_one_test("scale", [0.01, 1.0, 30.0])
def test_grid_is_fitted_to_the_scale_of_the_density(scale):
    """Whatever scale it is told to begin with."""
    target = Bells(np.array([[5.0, -3.0]]), np.array([scale]), np.zeros(1))
    grid = GridDensity.of(target, np.array([[5.0, -3.0]]), np.eye(2), DEPTH)
    mean, sd = moments(grid)
    assert_allclose(mean, [5.0, -3.0], atol=0.1 * scale)
    assert_allclose(sd, scale, rtol=0.1)


@in_one_test("offset", [[2.5, 0.0], [20.0, -30.0]])
def test_a_grid_follows_the_density_away_from_its_seed(offset):
    """The seed is on a flank, and most of the density far beyond where the grid begins."""
    sd = 0.25 * np.max(np.abs(offset))
    target = Bells(np.array([offset]), np.array([sd]), np.zeros(1))
    grid = GridDensity.of(target, np.zeros((1, 2)), 0.3 * np.eye(2), DEPTH)
    mean, found = moments(grid)
    assert_allclose(mean, offset, atol=0.1 * sd)
    assert_allclose(found, sd, rtol=0.1)


def test_grid_that_may_not_grow_keeps_its_size():
    target = Bells(np.zeros((1, 2)), np.array([30.0]), np.zeros(1))
    grid = GridDensity.of(target, np.zeros((1, 2)), np.eye(2), DEPTH, grows=False)
    assert grid.low.min() >= -np.sqrt(2.0 * DEPTH)
    assert (grid.low + grid.step * (np.array(grid.values.shape) - 1)).max() <= np.sqrt(2.0 * DEPTH)


def test_grid_from_two_seeds_has_both_modes():
    modes = np.array([[0.0, 0.0], [9.0, 0.0]])
    grid = GridDensity.of(Bells(modes, np.ones(2), np.zeros(2)), modes, np.eye(2), DEPTH)
    draws = grid.sample(np.random.default_rng(2), 2000)
    assert 0.4 < np.mean(draws[:, 0] > 4.5) < 0.6


def test_grid_leaves_out_modes_that_no_seed_reaches():
    """An emulator can promise anything where nobody has been."""
    modes = np.array([[0.0, 0.0], [14.0, 0.0]])
    target = Bells(modes, np.ones(2), np.array([0.0, 20.0]))
    grid = GridDensity.of(target, modes[:1], 3.0 * np.eye(2), DEPTH)
    assert grid.sample(np.random.default_rng(3), 2000)[:, 0].max() < 7.0


# --- rotations ------------------------------------------------------------------------------------


class Repeated:
    """A stream that gives the same normals again and again."""

    def __init__(self, z):
        self.z = np.asarray(z)

    def standard_normal(self, size):
        return self.z


@in_one_test("p", DIMENSIONS)
def test_rotation_back_undoes_a_rotation_ahead(p):
    grid, rng = grid_of(Bell(ROOTS[p - 1], skew=1.0)), np.random.default_rng(20 + p)
    ahead = Rotation(grid)
    for theta in grid.sample(rng, 20):
        noise = Repeated(rng.standard_normal(p))
        there, log_hastings = ahead.propose(theta, noise)
        back, log_return = ahead.reverse().propose(there, noise)
        assert_allclose(back, theta, atol=1e-8)
        assert log_return == pytest.approx(-log_hastings, abs=1e-10)
        ratio = grid.to_cube(theta)[1] - grid.to_cube(there)[1]
        assert log_hastings == pytest.approx(ratio, abs=1e-10)


# --- chains that keep their direction -------------------------------------------------------------


class Place(NamedTuple):
    theta: np.ndarray
    log_density: float
    f: np.ndarray = np.empty(0)
    direction: int = 0


@dataclass(frozen=True, eq=False)
class Known(MetropolisHastings):
    """Metropolis-Hastings on a density that is known."""

    target: object
    proposal: object
    name: str = "known"

    def start(self, model, theta, rng):
        return self.evaluate(model, theta, rng).state

    def evaluate(self, model, theta, rng):
        value = float(self.target.log_prob(theta))
        return EvaluatedState(Place(theta, value), value)

    def log_target(self, state):
        return state.log_density

    def complete(self, found, rng):
        return found.state


class Boundless:
    """A prior with density everywhere."""

    class hyperprior:
        @staticmethod
        def log_prob(theta):
            return 0.0


#: The law that chains must keep, and a grid that is wrong about it: it is wider, and to one side.
TARGET, GUIDE = Bell(ROOTS[1], skew=1.5), Bell(1.2 * ROOTS[1], shift=1.0)


def directed():
    rotation = Rotation(grid_of(GUIDE, fine=False))
    return DirectedPair(Known(TARGET, rotation, "ahead"), Known(TARGET, rotation.reverse(), "back"))


def after_some_steps(transition, n_replicates, rng, n_steps=3):
    """p-value of the law after some steps from draws of the target, which are without direction.

    The target is drawn from by rejection of draws of a wider normal. The steps are few, as later
    the direction in which a chain began is forgotten.
    """
    z = rng.standard_normal((20 * n_replicates, 2))
    kept = np.log(rng.uniform(size=len(z))) < TARGET.skew * (np.tanh(z.sum(axis=1)) - 1.0)
    begun = (z[kept] @ TARGET.root.T)[: 2 * n_replicates]
    ends, directions = [], []
    for theta in begun[:n_replicates]:
        state = transition.start(Boundless, theta, rng)
        for _ in range(n_steps):
            with np.errstate(**QUIET):
                state, _ = transition.step(Boundless, state, rng)
        ends.append(state.theta)
        directions.append(state.direction)
    ends, other = np.array(ends), begun[n_replicates:]
    functions = (lambda t: t[:, 0], lambda t: t[:, 1], TARGET.log_prob)
    p_values = [stats.ks_2samp(g(ends), g(other)).pvalue for g in functions]
    # The direction says nothing of the place, nor is one more frequent.
    ahead = np.array(directions) > 0
    known = np.array(directions) != 0
    p_values.append(stats.binomtest(int(ahead.sum()), int(known.sum())).pvalue)
    p_values.append(stats.ks_2samp(ends[ahead, 0], ends[known & ~ahead, 0]).pvalue)
    return len(p_values) * min(p_values)


@pytest.mark.parametrize(("with_a_walk", "n_steps"), [(False, 3), (True, 5)])
def test_directed_rotations_keep_the_law(with_a_walk, n_steps):
    move = directed()
    if with_a_walk:
        move = Mixture((move, Known(TARGET, RandomWalk())), (0.7, 0.3))
    assert after_some_steps(move, 1400, np.random.default_rng(seeded(30)), n_steps) > P_LIMIT


def test_state_without_direction_gets_either_direction_equally_often():
    """With walks in between, which take the direction away, laws alone would not tell."""
    move, rng = directed(), np.random.default_rng(seeded(33))
    begun = move.start(Boundless, np.zeros(2), rng)
    n_ahead = sum(move.step(Boundless, begun, rng)[1].move == "ahead" for _ in range(400))
    assert stats.binomtest(n_ahead, 400).pvalue > P_LIMIT


def test_direction_is_kept_if_accepted_and_turned_if_rejected():
    move, rng, seen = directed(), np.random.default_rng(34), set()
    state = move.start(Boundless, np.zeros(2), rng)
    for _ in range(60):
        before, (state, info) = state, move.step(Boundless, state, rng)
        went = 1 if info.move == "ahead" else -1
        assert went == (before.direction or went)
        assert state.direction == (went if info.accepted else -went)
        assert info.accepted or state.theta is before.theta
        seen.add((went, info.accepted))
    assert len(seen) == 4


def test_averages_have_less_error_than_those_of_independent_draws():
    """With a tenth rejected, as the guide is a little wrong; their variance is about 0.4 of it.

    Chains begin on the grid: beyond it rotations alone stay for ever.
    """
    target, n_draws = Bell(ROOTS[1]), 60
    rotation = Rotation(grid_of(Bell(1.05 * ROOTS[1], shift=0.1)))
    move = DirectedPair(Known(target, rotation), Known(target, rotation.reverse()))
    rng, means, n_accepted = np.random.default_rng(seeded(32)), [], 0
    draws = rng.standard_normal((220, 2)) @ ROOTS[1].T
    with np.errstate(**QUIET):
        begun = [theta for theta in draws if rotation.density.to_cube(theta) is not None][:200]
    for theta in begun:
        state, total = move.start(Boundless, theta, rng), np.zeros(2)
        for _ in range(n_draws):
            state, info = move.step(Boundless, state, rng)
            total += state.theta
            n_accepted += info.accepted
        means.append(total / n_draws)
    assert 0.85 < n_accepted / (200 * n_draws) < 0.95
    for r, variance in enumerate((ROOTS[1] @ ROOTS[1].T).diagonal()):
        ratio = np.var(np.array(means)[:, r], ddof=1) / (variance / n_draws)
        assert stats.chi2(199).cdf(199 * ratio) < P_LIMIT  # were it that, or more
