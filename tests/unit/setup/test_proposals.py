"""What leads chains: proposals that know their wider tails, and starts apart from one another."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared

from skgpmcmc.setup.emulator.learn import EmulatorState, ExaminedEmulator
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.setup.estimates import EvidenceSource
from skgpmcmc.setup.proposals import (
    propose_by_emulator,
    propose_by_random_walk,
    widen_rotations,
)
from skgpmcmc.transitions.surrogate import (
    CheapPoint,
    independence_acceptance,
)

from ...helpers import P_LIMIT, in_one_test, make_model, seeded


class Normal:
    """A standard normal density, to a power: draws from it are at hand."""

    def __init__(self, power=1.0):
        self.power = power
        self.ceilings = []

    def to_power(self, power):
        return Normal(power * self.power)

    def value_and_gradient(self, theta):
        squares = np.einsum("...r,...r->...", theta, theta)
        return -0.5 * self.power * squares, -self.power * theta

    def log_prob(self, theta):
        return self.value_and_gradient(theta)[0]

    def with_ceiling(self, best):
        self.ceilings.append(best)
        return self

    def log_evidence(self, theta):
        return self.log_prob(theta)

    def at(self, theta):
        return CheapPoint.at(self, theta)


class Corrected(Normal):
    """Remembers the corrections that were asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def with_correction(self, correction):
        self.asked.append(correction)
        return Normal()


class OfADensity(EmulatorState):
    """Knowledge of a density alone, with one mode."""

    @property
    def modes(self):
        return np.zeros((1, self.dim))

    def evaluate_points(self, places, stage, workers):
        """As the emulator predicts, but for a peak that it has invented."""
        return [
            SimpleNamespace(theta=t, log_evidence=Normal().log_evidence(t) - 1e3 * (t[0] > PEAK))
            for t in places
        ]

    def with_points(self, points, n_evaluations):
        return replace(self, n_evaluations=self.n_evaluations + n_evaluations)


#: The first coordinate beyond which there is nothing of the emulated density.
PEAK = 1.0


class Visited:
    """A design of points from the density."""

    def __init__(self, theta):
        self.theta = theta
        self.best = SimpleNamespace(theta=np.zeros(theta.shape[1]))

    def above(self, depth):
        return self

    def modes(self, scale, log_prob, options):
        return np.zeros((1, len(scale)))


def propose(known, source, n_chains):
    """Proposals by the emulator, without the state after the evaluation of the starts."""
    return propose_by_emulator(known, source, n_chains, None)[1]


def was_examined(target, acceptance):
    """Without the points by which it was."""
    return ExaminedEmulator(target, acceptance, 0.0, None, None, None)


def knowledge(dim, acceptance=0.95):
    """As much of it as proposals ask for: the standard normal density was examined."""
    X = np.random.default_rng(dim).uniform(size=(3, max(dim - 1, 1)))
    variance = ConstantKernel(1.0, "fixed" if dim == 1 else (1e-5, 1e5))
    rng = np.random.default_rng(0)
    states = rng.standard_normal((200, dim))
    exploration = SimpleNamespace(states=[SimpleNamespace(position=state) for state in states])
    return OfADensity(
        model=make_model(X, np.ones(3), kernel=variance * RBF(np.ones(X.shape[1]))),
        learned=None,
        approximation=None,
        options=OPTIONS,
        rng=rng,
        design=Visited(states),
        root=np.eye(dim),
        n_evaluations=0,
        exploration=exploration,
        held_out=(SimpleNamespace(acceptance=acceptance),),
        examined=was_examined(Normal(), acceptance),
    )


OPTIONS = EmulatorOptions()
EXACT = EvidenceSource.exact(None, draws_latent=True)


# --- wider tails ----------------------------------------------------------------------------------


@in_one_test("dim", [1, 2, 3, 5])
def test_hastings_ratio_accounts_for_the_wider_tails_of_proposals(dim):
    """The Hastings ratio is that of the density to the power by which its tails are lifted."""
    proposals, rng = propose(knowledge(dim), EXACT, 4), np.random.default_rng(seeded(3))
    proposal, power = proposals.by_name[proposals.main], OPTIONS.lifted_power(dim)
    assert proposals.main == ("rotation" if dim < 4 else "surrogate")
    assert 0.8 < power < 1.0
    for _ in range(20):
        theta = rng.standard_normal(dim)
        moved, log_hastings = proposal.propose(theta, rng)
        expected = power * float(Normal().log_prob(theta) - Normal().log_prob(moved))
        assert log_hastings == pytest.approx(expected, abs=0.1)  # multilinear on a grid


def test_density_of_proposals_includes_the_correction_of_the_evidence():
    """Of the evidence, before its tails are lifted."""
    correction = object()
    estimates = EXACT._replace(correction=correction)
    for dim in (2, 5):
        target = Corrected()
        propose(replace(knowledge(dim), examined=was_examined(target, 0.95)), estimates, 4)
        assert target.asked == [correction]


@in_one_test("dim", [1, 2, 3])
def test_burn_in_rotations_do_not_depend_on_their_start(dim):
    """Draws from the density with wider tails, from wherever, by proposals of the same names."""
    proposals, rng = propose(knowledge(dim), EXACT, 4), np.random.default_rng(seeded(4))
    burn_in = widen_rotations(proposals.by_name)
    assert list(burn_in) == list(proposals.by_name)
    assert burn_in["random walk"] is proposals.by_name["random walk"]
    sd = OPTIONS.lifted_power(dim) ** -0.5
    for start in (np.zeros(dim), np.full(dim, 1.5)):
        draws = np.array([burn_in["rotation"].propose(start, rng)[0] for _ in range(400)])
        for column in draws.T:
            assert stats.kstest(column / sd, "norm").pvalue > P_LIMIT
    # Rotations of kept draws go a fixed way.
    kept = [proposals.by_name["rotation"].propose(np.zeros(dim), rng)[0] for _ in range(50)]
    assert np.std(kept, axis=0).max() < 0.3 * sd


def test_mixture_has_the_other_proposals_with_their_shares():
    kernel = ConstantKernel(4.0, "fixed") * ExpSineSquared()
    model = make_model(np.linspace(0.0, 2.0, 4)[:, None], np.ones(4), kernel=kernel)
    periodic = replace(knowledge(2), model=model)
    for known, names, shares in (
        (knowledge(2), ["rotation", "random walk"], (0.97, 0.03)),
        (periodic, ["rotation", "random walk", "multiple of a period"], (0.94, 0.03, 0.03)),
    ):
        proposals = propose(known, EXACT, 4)
        assert list(proposals.by_name) == list(widen_rotations(proposals.by_name)) == names
        mixture = EXACT.mixture(proposals.by_name, proposals.other_probability)
        assert mixture.probabilities == pytest.approx(shares)
        assert proposals.main == "rotation"


# --- where chains begin ---------------------------------------------------------------------------


@in_one_test("dim", [1, 3, 5])
def test_starts_of_chains_are_overdispersed(dim):
    starts = np.array(propose(knowledge(dim), EXACT, 100).starts)
    assert starts.shape == (100, dim)
    assert len(np.unique(starts, axis=0)) > 90  # chains of a pool may stay
    assert len(propose(knowledge(dim), EXACT, 1000).starts) == 1000
    # A hundred numbers or more: the standard error of the square is 0.35 of it at most.
    assert (starts**2).mean() == pytest.approx(OPTIONS.temperature(dim), rel=0.5)
    assert (starts**2).mean() > 1.05


def test_density_of_candidates_is_bounded_by_that_at_the_best_point():
    known = knowledge(5)
    propose(known, EXACT, 4)
    assert known.examined.posterior.ceilings == [known.design.best]


def test_few_chains_start_where_the_emulated_density_is_too_large():
    """Each start is one of a few draws that were evaluated."""
    known = knowledge(5)
    state, proposals = propose_by_emulator(known, EXACT, 50, None)
    assert state.n_evaluations == known.n_evaluations + 100
    assert np.array(proposals.starts)[:, 0].max() < PEAK
    assert len(np.unique(proposals.starts, axis=0)) == 50


def test_chains_start_at_draws_if_no_point_was_evaluated(monkeypatch):
    monkeypatch.setattr(OfADensity, "evaluate_points", lambda *_: [])
    proposals = propose(knowledge(5), EXACT, 50)
    assert len(proposals.starts) == 50
    assert np.array(proposals.starts)[:, 0].max() > PEAK


@in_one_test("dim", [1, 2, 3])
def test_no_chain_starts_beyond_the_grid_of_rotations(dim):
    """A rotation cannot leave a theta that is not on its grid."""
    near = replace(knowledge(dim), options=replace(OPTIONS, negligible_depth=3.0))
    proposals = propose(near, EXACT, 2000)
    density = proposals.by_name["rotation"].density
    assert all(density.to_cube(start) is not None for start in proposals.starts)


def test_chains_walk_from_the_best_point_if_time_is_over():
    point = SimpleNamespace(theta=np.array([3.0, -2.0]))
    known = replace(knowledge(2), design=SimpleNamespace(best=point), root=0.1 * np.eye(2))
    proposals = propose_by_random_walk(known, 5)
    assert list(proposals.by_name) == ["random walk"]
    assert len(np.unique(proposals.starts, axis=0)) == 5
    assert np.abs(np.array(proposals.starts) - point.theta).max() < 0.5


# --- what an emulator is worth --------------------------------------------------------------------


def test_predicted_acceptance_is_the_average_over_all_pairs_of_states():
    """All pairs, one by one; a place that pi* forgets counts for more than one that it invents."""
    log_weights = np.random.default_rng(seeded(5)).standard_normal(30)
    w = np.exp(log_weights)
    by_pairs = np.minimum(w[:, None], w).mean() / w.mean()
    assert independence_acceptance(log_weights) == pytest.approx(by_pairs, rel=1e-12)
    assert independence_acceptance(log_weights + 700.0) == pytest.approx(by_pairs, rel=1e-9)
    even = np.zeros(30)
    even[0] = 6.0
    assert independence_acceptance(even) < 0.15  # the chain is there most of the time, and stays
    even[0] = -6.0
    assert independence_acceptance(even) > 0.95


# --- draws ----------------------------------------------------------------------------------------


@in_one_test(
    ("acceptance", "trusted"),
    [(0.0, False), (0.2, False), (0.9, True)],
    ids=["none", "low", "high"],
)
def test_starts_far_from_modes_need_a_good_emulator(acceptance, trusted):
    """A density thirty times as wide as the scale: it is promised, and nobody has been there."""
    known = replace(knowledge(2, acceptance), exploration=None)
    draws = np.abs(known.draw(Normal(1.0 / 900.0)))
    assert draws.max() > 30.0 if trusted else draws.max() <= 5.0


@in_one_test("dim", [1, 2, 3, 5])
def test_draws_from_a_power_of_the_density_are_wider(dim):
    for power in (1.0, 0.5):
        draws = knowledge(dim).draw(Normal(), power)
        # Six hundred draws and more: the standard error of this is 0.03, and more for chains.
        assert draws[:, 0].std() == pytest.approx(power**-0.5, rel=0.15)
