"""Operators backwards, and the places of a discretizing chain: who makes them, and how often."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skgpmcmc.transitions import (
    Langevin,
    MetropolisHastings,
    Outcome,
    RandomWalk,
    Trajectory,
    UnivariateSlice,
)
from skgpmcmc.transitions.mapping import DiscretizingMap, Layer, TemperedProposal
from skgpmcmc.transitions.metropolis import EvaluatedState

from ...helpers import in_one_test

SLICE = UnivariateSlice()


class Place(NamedTuple):
    """A state, and a point of a cheap posterior, of the same density everywhere."""

    theta: np.ndarray
    log_density: float = 0.0

    @property
    def position(self):
        return self.theta


class Flat(MetropolisHastings):
    """A target of one everywhere, where it can be evaluated; counts."""

    def __init__(self, can_be_completed=True):
        self.n_evaluations, self._can_be_completed = 0, can_be_completed

    def start(self, model, theta, rng):
        return Place(theta)

    def evaluate(self, model, theta, rng):
        self.n_evaluations += 1
        return EvaluatedState(Place(theta), 0.0)

    def log_target(self, state):
        return 0.0

    def complete(self, found, rng):
        return found.state if self._can_be_completed else None


class FlatLayer:
    """No density to the left of a number; keeps where it was asked."""

    def __init__(self, left=-np.inf):
        self.left, self.asked = left, []

    def at(self, position):
        self.asked.append(position)
        return Place(position) if position[0] > self.left else None


#: All that is asked of a model where nothing can be evaluated.
BARE = SimpleNamespace(hyperprior=SimpleNamespace(log_prob=lambda theta: 0.0))


@in_one_test("operator", [RandomWalk(), Trajectory(), Langevin()])
def test_reversible_operators_are_their_own_reverse(operator):
    assert operator.reverse() is operator


@in_one_test("backwards", [False, True])
def test_reversed_slices_begin_with_the_last_coordinate(backwards):
    operator = SLICE.reverse() if backwards else SLICE
    assert operator == replace(SLICE, backwards=backwards)
    assert operator.reverse().reverse() == operator
    begin, layer = np.array([0.3, -0.2]), FlatLayer()
    operator.move(layer, Place(begin), np.random.default_rng(0))
    assert_array_equal(layer.asked[0] != begin, [not backwards, backwards])


@dataclass(frozen=True)
class Step(RandomWalk):
    """Goes to the right, and its reverse to the left by a hundred times as much.

    Who has made a place shows.
    """

    by: float = 1.0

    def reverse(self):
        return Step(by=-100.0 * self.by)

    def move(self, conditional, point, rng):
        return Outcome(conditional.at(point.position + self.by), True, 1.0, 1)


class Script:
    """Random numbers that send the mark to the right or to the left, where it is accepted."""

    def __init__(self, directions):
        pairs = [(0.2 if direction > 0 else 0.8, 0.5) for direction in directions]
        self._numbers = (number for pair in pairs for number in pair)

    def uniform(self):
        return next(self._numbers)


@in_one_test(
    ("directions", "jump", "places", "n_evaluations"),
    [
        ([1], 1, [1], 1),
        ([-1], 1, [-100], 1),
        ([1, 1, 1], 1, [1, 2, 3], 3),
        ([1, -1, -1, 1, 1], 1, [1, 0, -100, 0, 1], 2),
        ([1, -1, -1], 2, [2, 0, -200], 2),
    ],
)
def test_mapping_makes_places_by_R_and_its_reverse_and_evaluates_once(
    directions, jump, places, n_evaluations
):
    target = Flat()
    chain = DiscretizingMap(target, Layer(FlatLayer(), Step()), len(directions), jump)
    state, info = chain.step(BARE, Place(np.zeros(1)), Script(directions))
    assert_array_equal(info.marked[:, 0], places)
    assert_array_equal(state.theta, info.marked[-1])
    assert info.n_evaluations == target.n_evaluations == n_evaluations
    assert info.accepted == (places[-1] != 0)


def test_mapped_chain_advances_by_several_updates():
    chain = DiscretizingMap(Flat(), Layer(FlatLayer(), Step(), 3), 3)
    _, info = chain.step(BARE, Place(np.zeros(1)), Script([1, -1, -1]))
    assert_array_equal(info.marked[:, 0], [3, 0, -300])


@dataclass
class Bowl:
    """A cheap posterior whose log density is a multiple of the square."""

    by: float

    def at(self, position):
        return Place(position, self.value(position[0]))

    def value(self, x):
        return self.by * x**2


def test_tempered_transitions_go_up_and_down_through_the_same_layers():
    """The way down is that of the reverses, from the cheapest layer back to the first."""
    first, second = Bowl(1.0), Bowl(1e-3)
    layers = [Layer(first, Step()), Layer(second, Step(by=10.0), 2)]
    theta, log_hastings = TemperedProposal(layers).propose(np.full(1, 0.5), None)
    passes = [(first, 0.5, 1.5), (second, 1.5, 21.5), (second, 21.5, -1978.5),
              (first, -1978.5, -2078.5)]  # fmt: skip
    assert_array_equal(theta, [-2078.5])
    expected = sum(layer.value(begin) - layer.value(end) for layer, begin, end in passes)
    assert log_hastings == pytest.approx(expected)


@in_one_test("max_widths", [1, 4, 8])
def test_slice_bracket_is_stepped_out_up_to_max_widths(max_widths):
    """Both sides share what is left of it: where the slice has no end, nothing else stops them."""
    operator = UnivariateSlice(max_widths=max_widths)
    for seed in range(20):
        layer = FlatLayer()
        outcome = operator.move(layer, Place(np.zeros(1)), np.random.default_rng(seed))
        assert outcome.n_evaluations == len(layer.asked) == max_widths
        assert np.ptp(layer.asked) < max_widths * np.exp(operator.log_scale)


def test_mapped_move_stays_where_the_cheap_posterior_has_no_density():
    target, layer, rng = Flat(), Layer(FlatLayer(0.0), RandomWalk()), np.random.default_rng(0)
    left = np.array([-1.0])
    state, info = DiscretizingMap(target, layer, 2).step(BARE, Place(left), rng)
    assert (info.accepted, target.n_evaluations) == (False, 0)
    assert_array_equal(info.marked, [left] * 2)
    assert_array_equal(state.theta, left)
    assert TemperedProposal([layer]).propose(left, rng)[1] == -np.inf


def test_mapped_move_rejects_a_place_without_a_state():
    """The mark has moved by then: it is put back, as draws of theta must not be where none is."""
    chain = DiscretizingMap(Flat(False), Layer(FlatLayer(), Step()), n_moves=3)
    state = Place(np.full(1, 0.5))
    again, info = chain.step(BARE, state, Script([1, 1, -1]))
    assert again is state
    assert not info.accepted
    assert_array_equal(info.marked, [state.theta] * 3)
