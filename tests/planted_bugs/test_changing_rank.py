"""Wrong twins that a change of the rank of K shows, at the sizes of `tests/exactness`."""

from dataclasses import dataclass

import numpy as np
import pytest

from skgpmcmc.parameterizations import AncillaryAugmentation, SurrogateData
from skgpmcmc.transitions import HyperUpdate, Sweep
from skgpmcmc.transitions.gibbs import ConjugateVariance

from ..exactness.test_changing_rank import (
    F_MOVES,
    SHORT,
    SIZE,
    WALK,
    conjugate_model,
    hyper,
    report_of,
)
from ..exactness.test_joint import check, check_caught


def placed(v, prior):
    """Entries of v by column, as many as there are, and zeros for the rest."""
    entries = np.zeros(prior.rank)
    count = min(len(v), prior.rank)
    entries[:count] = v[:count]
    spread = np.zeros(prior.size)
    spread[prior.root.pivots] = entries
    return spread


@dataclass(frozen=True)
class ByColumn(AncillaryAugmentation):
    """v has the length of the rank where it is made, and is used where K has another."""

    def auxiliary(self, model, state, rng):
        return state.prior.whiten(state.f)

    def relocate(self, model, auxiliary, prior):
        return super().relocate(model, placed(auxiliary, prior), prior)


@dataclass(frozen=True)
class ZeroWhereUnused(AncillaryAugmentation):
    """Entries that f does not show are taken for zero, instead of drawn."""

    def auxiliary(self, model, state, rng):
        v = super().auxiliary(model, state, rng)
        v[np.delete(np.arange(len(v)), state.prior.root.pivots)] = 0.0
        return v


@dataclass(frozen=True)
class SurrogateZeroWhereUnused(SurrogateData):
    """The same, of eta."""

    def auxiliary(self, model, state, rng):
        found = super().auxiliary(model, state, rng)
        found.eta[np.delete(np.arange(len(found.eta)), state.prior.root.pivots)] = 0.0
        return found


@dataclass(frozen=True)
class ByRows(ConjugateVariance):
    """Counts n values of f, of which r determine the others."""

    def step(self, model, state, rng):
        n, r = state.prior.size, state.prior.rank
        wrong = ConjugateVariance(self.position, self.shape + 0.5 * (n - r), self.scale)
        return wrong.step(model, state, rng)


TWINS = {
    "ancillary, by column": hyper(ByColumn()),
    "ancillary, zero": hyper(ZeroWhereUnused()),
    "surrogate, zero": hyper(SurrogateZeroWhereUnused()),
}


def test_short_joint_test_catches_a_wrong_move_if_the_rank_changes():
    check_caught(report_of(TWINS["ancillary, by column"], SHORT))


@pytest.mark.statistical
@pytest.mark.parametrize("name", TWINS)
def test_joint_test_catches_wrong_moves_if_the_rank_changes(name):
    check_caught(report_of(TWINS[name], SIZE))


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_joint_test_catches_a_conjugate_draw_by_rows(wrong):
    draw = (ByRows if wrong else ConjugateVariance)(0, 3.0, 8.0)
    sweep = Sweep((F_MOVES, draw, HyperUpdate(AncillaryAugmentation(), WALK)), (1, 1, 1))
    report = report_of(sweep, model=conjugate_model())
    (check_caught if wrong else check)(report)
