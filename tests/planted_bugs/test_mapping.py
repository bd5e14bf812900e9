"""Wrong twins of the moves that a cheap posterior leads, each of which replicates must catch."""

from itertools import chain

import numpy as np
import pytest

from skgpmcmc.transitions import UnivariateSlice
from skgpmcmc.transitions.mapping import DiscretizingMap, Layer, TemperedProposal

from ..exactness.test_joint import LEVEL
from ..exactness.test_mapping import (
    OPERATORS,
    CheapNormal,
    Noisy,
    discretizing,
    least_p_value,
    tempered,
    two_layers,
)

# --- the map --------------------------------------------------------------------------------------


class WithoutRatio(DiscretizingMap):
    """Accepts every move of the mark, as if pi* were the target."""

    def _ratio(self, model, realization, position, known):
        super()._ratio(model, realization, position, known)
        return 0.0


class TargetAlone(DiscretizingMap):
    """Compares values of the target, without those of pi*."""

    def _ratio(self, model, realization, position, known):
        ratio = super()._ratio(model, realization, position, known)
        return ratio + realization.at(position).log_density


class EstimatedAtEveryVisit(DiscretizingMap):
    """Makes a new estimate where the mark comes back to."""

    def _ratio(self, model, realization, position, known):
        known.pop(position, None)
        return super()._ratio(model, realization, position, known)


class CachedByDistance(DiscretizingMap):
    """Takes a point to the left for the one as far to the right."""

    def _ratio(self, model, realization, position, known):
        if -position in known:
            known.setdefault(position, known[-position])
        return super()._ratio(model, realization, position, known)


class Forgetful(UnivariateSlice):
    """Forgets that its way back begins with the last coordinate."""

    def reverse(self):
        return self


FORGETFUL = Forgetful(0.0, 3)
#: Those under which the order of the coordinates, and of layers, matters much.
TIGHT = CheapNormal(np.array([[1.3, 1.2], [1.2, 1.3]]))
NARROW = CheapNormal(np.array([[2.0, 1.9], [1.9, 2.0]]))

MAPS = {
    "ratio": discretizing(OPERATORS["slice"], 3, 1, kind=WithoutRatio),
    "pi*": discretizing(OPERATORS["slice"], 3, 1, kind=TargetAlone),
    "estimate": discretizing(OPERATORS["slice"], 4, 1, kind=EstimatedAtEveryVisit),
    "cache": discretizing(OPERATORS["slice"], 4, 1, Noisy(noise=0.0), CachedByDistance),
    "reverse": DiscretizingMap(Noisy(noise=0.0), Layer(TIGHT, FORGETFUL), 4, 1),
}

# --- tempered transitions -------------------------------------------------------------------------


#: Layers whose order matters much.
DIFFERENT = (Layer(NARROW, UnivariateSlice(0.0, 3)), Layer(CheapNormal(), UnivariateSlice(0.0, 3)))


class SameWayDown(TemperedProposal):
    """Goes through the layers in the same order again."""

    def propose(self, theta, rng):
        down = ((layer, layer.operator.reverse()) for layer in self.layers)
        log_hastings = 0.0
        for layer, operator in chain(((layer, layer.operator) for layer in self.layers), down):
            point = layer.target.at(theta)
            log_hastings += point.log_density
            point = operator.move(layer.target, point, rng).point
            log_hastings -= point.log_density
            theta = point.position
        return theta, log_hastings


class WithoutLayers(TemperedProposal):
    """Forgets the densities of the layers."""

    def propose(self, theta, rng):
        return super().propose(theta, rng)[0], 0.0


TEMPERED = {
    "order": Noisy(noise=0.0, proposal=SameWayDown(DIFFERENT)),
    "densities": tempered(two_layers(OPERATORS["slice"]), WithoutLayers),
    "reverse": Noisy(noise=0.0, proposal=TemperedProposal((Layer(TIGHT, FORGETFUL),))),
}


#: The right twins of those that need layers, or a target, of their own.
SLICE = UnivariateSlice(0.0, 3)
RIGHT = {
    "map, reverse": DiscretizingMap(Noisy(noise=0.0), Layer(TIGHT, SLICE), 4, 1),
    "tempered, order": Noisy(noise=0.0, proposal=TemperedProposal(DIFFERENT)),
    "tempered, reverse": Noisy(noise=0.0, proposal=TemperedProposal((Layer(TIGHT, SLICE),))),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", RIGHT)
def test_right_mapped_moves_keep_their_target(name):
    assert least_p_value(RIGHT[name], "long", n_steps=8) > LEVEL


WRONG = {f"map, {name}": move for name, move in MAPS.items()}
WRONG |= {f"tempered, {name}": move for name, move in TEMPERED.items()}


@pytest.mark.statistical
@pytest.mark.parametrize("bug", WRONG)
def test_replicates_catch_each_wrong_mapped_move(bug):
    """At the size at which the right one passes, or already at a part of it."""
    if least_p_value(WRONG[bug], "short", n_steps=8) >= LEVEL:
        assert least_p_value(WRONG[bug], "long", n_steps=8) < LEVEL
