"""Moves that a cheap posterior leads: by replicates of a known law, and against quadrature.

`tests/planted_bugs/test_mapping.py` runs wrong twins by the same functions.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP, Exact
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.model import HyperPrior, LatentGP, Observations, make_covariance
from skgpmcmc.setup.mapped import by_coordinate
from skgpmcmc.testing import Reference, exact_answer_test, start_with_particles
from skgpmcmc.transitions import MetropolisHastings, RandomWalk, Trajectory, UnivariateSlice
from skgpmcmc.transitions.mapping import DiscretizingMap, Layer, TemperedProposal, count_marked
from skgpmcmc.transitions.metropolis import EvaluatedState, MarginalMetropolis
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import seeded
from .test_grid_posterior import Grid
from .test_joint import LEVEL, check, examined, small_model

# --- a target in the plane, with estimates as noisy as those of few particles ---------------------

#: Standard deviation of the log of an estimate; the covariances of pi and pi*.
NOISE = 0.7
TARGET = np.array([[1.0, 0.6], [0.6, 1.0]])
CHEAP = np.array([[2.0, -1.0], [-1.0, 1.5]])
SHIFT = np.array([0.5, -0.3])
N_REPLICATES = {"short": 1200, "long": 6000}


class Place(NamedTuple):
    """A point of the plane, with its estimate; f is of no interest."""

    theta: np.ndarray
    estimate: float
    f: np.ndarray = np.empty(0)


def normal_log_density(x, precision):
    """Of two coordinates, without its constant."""
    (a, b), (_, c) = precision
    return -0.5 * (a * x[0] * x[0] + 2.0 * b * x[0] * x[1] + c * x[1] * x[1])


PRECISION = np.linalg.inv(TARGET).tolist()


@dataclass(frozen=True, eq=False)
class Noisy(MetropolisHastings[Place]):
    """A normal target that is estimated without bias, by a log-normal factor.

    Its noise is four times larger on the right than on the left, so that noise shows in theta.
    """

    noise: float = NOISE
    proposal: object = None
    name: str = "noisy"

    def start(self, model, theta, rng):
        sd = self._noise_at(theta)
        weighted = 0.5 * sd**2 + sd * rng.standard_normal()
        return Place(theta, normal_log_density(theta, PRECISION) + weighted)

    def evaluate(self, model, theta, rng):
        sd = self._noise_at(theta)
        noise = -0.5 * sd**2 + sd * rng.standard_normal()
        place = Place(theta, normal_log_density(theta, PRECISION) + noise)
        return EvaluatedState(place, place.estimate)

    def log_target(self, state):
        return state.estimate

    def complete(self, found, rng):
        return found.state

    def _noise_at(self, theta):
        return self.noise * (1.6 if theta[0] > 0.0 else 0.4)


class Spot(NamedTuple):
    """A point; the gradient need not be right for a trajectory to be reversible."""

    position: np.ndarray
    log_density: float

    @property
    def gradient(self):
        return -np.linalg.solve(CHEAP, self.position - SHIFT)


class CheapNormal:
    """A normal pi* that is shifted, wider and correlated the other way."""

    cost = 1.0

    def __init__(self, covariance=CHEAP):
        self.precision = np.linalg.inv(covariance).tolist()

    def at(self, position):
        return Spot(position, normal_log_density((position - SHIFT).tolist(), self.precision))


OPERATORS = {
    "slice": UnivariateSlice(log_scale=np.log(2.0), max_widths=3),
    "random walk": RandomWalk(log_scale=0.0),
    "trajectory": Trajectory(log_scale=-0.5, max_steps=3),
}


class Layered(NamedTuple):
    """Densities that grow wider from layer to layer."""

    power: float

    def at(self, position):
        spot = CheapNormal().at(position)
        return Spot(position, self.power * spot.log_density)


#: What a target in the plane needs of a model.
PLANE = SimpleNamespace(hyperprior=SimpleNamespace(log_prob=lambda theta: 0.0))


def two_layers(operator):
    return (Layer(CheapNormal(), operator), Layer(Layered(0.4), operator))


def tempered(layers, kind=TemperedProposal):
    return Noisy(proposal=kind(layers))


def discretizing(operator, n_moves, jump, exact=None, kind=DiscretizingMap):
    return kind(exact or Noisy(), Layer(CheapNormal(), operator), n_moves, jump)


def least_p_value(transition, length, n_steps=2):
    """Smallest p-value of what replicates end at, that have begun with the target.

    Times three, as there are so many, and times the two looks: half of the replicates are enough
    where their answer is clear.
    """
    rng = np.random.default_rng(seeded())
    root = np.linalg.cholesky(TARGET)
    ends = []
    for n_replicates in (N_REPLICATES[length] // 2, N_REPLICATES[length]):
        while len(ends) < n_replicates:
            theta = root @ rng.standard_normal(2)
            state = transition.start(PLANE, theta, rng)
            for _ in range(n_steps):
                state, _ = transition.step(PLANE, state, rng)
            ends.append(state.theta)
        first, second = np.array(ends).T
        along = (first + second) / np.sqrt(2.0 * 1.6)  # standard normal
        p_value = 3.0 * min(stats.kstest(x, "norm").pvalue for x in (first, second, along))
        if p_value > 0.1 or 2.0 * p_value < LEVEL:
            break
    return 2.0 * p_value


def one_coordinate_after_the_other(scheme):
    """The move that set-up makes of slices."""
    if scheme == "tempered":
        return by_coordinate(tempered, two_layers(OPERATORS["slice"]), 2)

    def make(layers):
        return DiscretizingMap(Noisy(), *layers, n_moves=3, jump=2)

    return by_coordinate(make, [Layer(CheapNormal(), OPERATORS["slice"])], 2)


CASES = [("slice", 1, 1), ("slice", 4, 1), ("slice", 3, 2), ("random walk", 4, 2),
         ("trajectory", 3, 1)]  # fmt: skip
#: Moves, and as many steps as a short test makes.
MOVES = (
    {f"map, {case}": (discretizing(OPERATORS[case[0]], *case[1:]), 2) for case in CASES}
    | {f"tempered, {name}": (tempered(two_layers(op)), 2) for name, op in OPERATORS.items()}
    | {
        f"{scheme} by coordinate": (one_coordinate_after_the_other(scheme), 1)
        for scheme in ("discretizing", "tempered")
    }
)


@pytest.mark.parametrize("name", MOVES)
def test_mapped_moves_keep_their_target_short_run(name):
    move, n_steps = MOVES[name]
    assert least_p_value(move, "short", n_steps) > LEVEL


@pytest.mark.statistical
@pytest.mark.parametrize("name", MOVES)
def test_mapped_moves_keep_their_target(name):
    assert least_p_value(MOVES[name][0], "long") > LEVEL


@pytest.mark.parametrize(("scheme", "n_marked"), [("discretizing", 3), ("tempered", 0)])
def test_mapped_moves_of_each_coordinate_mark_equally_many_points(scheme, n_marked):
    move = one_coordinate_after_the_other(scheme)
    assert [count_marked(part) for part in move.moves] == [n_marked] * 2


def test_marked_points_have_the_law_of_the_target():
    """All points at which the mark was, of replicates that begin with the target."""
    rng = np.random.default_rng(seeded())
    root = np.linalg.cholesky(TARGET)
    transition = discretizing(OPERATORS["random walk"], 4, 1)
    marked = []
    for _ in range(1500):
        state = transition.start(PLANE, root @ rng.standard_normal(2), rng)
        _, info = transition.step(PLANE, state, rng)
        assert info.marked.shape == (4, 2)
        marked.append(info.marked[rng.integers(4)])
    for x in np.transpose(marked):
        assert stats.kstest(x, "norm").pvalue > LEVEL


# --- the schemes are one where the paper says so --------------------------------------------------


def test_mapping_with_one_move_equals_a_tempered_transition():
    """r = 1, s = 2 k, a reversible R: the same law of where a step leads; Wang & Neal, section 4.

    From one point, with an exact target: both propose 2 k updates by R and accept alike.
    """
    walk, exact = OPERATORS["random walk"], Noisy(noise=0.0)
    one = DiscretizingMap(exact, Layer(CheapNormal(), walk), 1, 4)
    other = Noisy(noise=0.0, proposal=TemperedProposal((Layer(CheapNormal(), walk, 2),)))
    rng = np.random.default_rng(seeded())
    begin = Place(np.array([0.8, -0.4]), normal_log_density((0.8, -0.4), PRECISION))
    ends = [
        np.array([transition.step(PLANE, begin, rng)[0].theta for _ in range(3000)])
        for transition in (one, other)
    ]
    for x, y in zip(*(end.T for end in ends), strict=True):
        assert stats.ks_2samp(x, y, method="asymp").pvalue > LEVEL
    moved = [np.mean(np.any(end != begin.theta, axis=1)) for end in ends]
    assert abs(moved[0] - moved[1]) < 4.0 * np.sqrt(2.0 * 0.25 / 3000)


# --- models ---------------------------------------------------------------------------------------


def posterior_of_another(model, factor=3.0):
    """A deliberately poor pi*: the evidence at length-scales that are wrong by a factor."""
    shift = np.zeros(len(model.start))
    shift[1] = np.log(factor)

    class Shifted:
        cost = 1.0

        def at(self, position):
            log_prior = model.hyperprior.log_prob(position)
            if not np.isfinite(log_prior):
                return None
            approximation = Exact() if model.likelihood.quadratic else EP()
            log_evidence = approximation.fit(model, position + shift).log_evidence
            return Spot(position, log_evidence + log_prior)

    return Shifted()


def schemes(exact_kind, model, **settings):
    """Both schemes for a model, with a poor pi*."""
    target = posterior_of_another(model)
    operator = UnivariateSlice(log_scale=np.log(1.5), max_widths=2)
    exact = exact_kind(proposal=None, **settings)  # the map proposes by itself
    layers = (Layer(target, operator),)
    return {
        "map": DiscretizingMap(exact, layers[0], 2, 1),
        "tempered": exact_kind(proposal=TemperedProposal(layers), **settings),
    }


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", ["map", "tempered"])
def test_moves_by_a_poor_cheap_posterior_keep_the_joint_law(scheme):
    """Particles are renewed with theta, and kept with it."""

    def set_up(model: LatentGP, rng):
        settings = {"reference": EP(), "n_importance": 3, "defensive": 0.05}
        return schemes(PseudoMarginalMetropolis, model, **settings)[scheme]

    rng = np.random.default_rng(seeded())
    size = {"n_replicates": 300, "n_steps": 3}
    check(examined(small_model(3, 4.0), set_up, start_with_particles, rng, **size))


def settled(transition, model, seed, n_steps):
    """Draws of theta by one chain, after it has settled; (n_steps, p)."""
    rng, thetas = np.random.default_rng(seed), []
    state = transition.start(model, model.start, rng)
    for _ in range(n_steps + 50):
        state, _ = transition.step(model, state, rng)
        thetas.append(state.theta)
    return np.array(thetas[50:])


@pytest.mark.statistical
@pytest.mark.parametrize("scheme", ["map", "tempered"])
def test_chains_led_by_a_poor_cheap_posterior_agree_with_quadrature(scheme):
    """Chains with a poor pi* against a grid over three hyper-parameters."""
    rng = np.random.default_rng(3)
    X = np.linspace(0.0, 3.0, 12)[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(12)
    priors = {
        "k1__constant_value": stats.lognorm(0.7),
        "k2__length_scale": stats.lognorm(0.7),
        "noise_scale": stats.lognorm(0.7, scale=0.3),
    }
    covariance = make_covariance(ConstantKernel() * RBF(), X)
    hyperprior = HyperPrior((*covariance.names, "noise_scale"), priors)
    model = LatentGP(covariance, Observations(Gaussian(), y), hyperprior)
    grid = Grid(tuple(np.log(priors[n].median()) + np.linspace(-2.45, 2.45, 24) for n in priors))
    log_density = model.hyperprior.log_prob(grid.nodes) + [
        Exact().fit(model, theta).log_evidence for theta in grid.nodes
    ]
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ grid.nodes
    sd = np.sqrt(weights @ (grid.nodes - mean) ** 2)
    transition = schemes(MarginalMetropolis, model, approximation=Exact())[scheme]
    draws = np.array([settled(transition, model, seeded(chain), 900) for chain in range(6)])
    report = exact_answer_test(draws, Reference(mean))
    assert report.ess.min() > 50
    assert report.worst < 4.0, report
    assert np.abs(draws.std(axis=(0, 1)) / sd - 1.0).max() < 0.35
