"""The prior-invariance test itself: when it stops, and how often it is wrong about a correct chain.

`tests/exactness` uses it for the transitions of the package.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.testing import Statistic, prior_invariance_test, start_at_latent
from skgpmcmc.transitions import EllipticalSlice, RandomWalk, StepInfo

from ...helpers import make_model, seeded

LEVEL = 0.05


@dataclass(frozen=True)
class Shifts:
    """A step by so much in the first hyper-parameter; with no shift it is correct, and idle."""

    by: float = 0.0

    def step(self, model, state, rng):
        theta = state.theta + np.array([self.by, 0.0])
        return model.state_at(theta, state.f), StepInfo("shift", True, 1.0, 0, False)


#: Its law is known, so that p-values are exact.
FIRST = Statistic("first", lambda draws: draws.theta[:, 0], stats.norm(0.0, 0.7).cdf)


def examined(shift, seed, n_replicates=64, **options):
    laws = {"k1__constant_value": stats.lognorm(0.7), "k2__length_scale": stats.lognorm(0.7)}
    model = make_model(np.array([[0.0], [1.0]]), np.ones(2), priors=laws)
    return prior_invariance_test(
        model,
        lambda *_: Shifts(shift),
        start_at_latent,
        n_replicates=n_replicates,
        n_steps=1,
        rng=np.random.default_rng(seed),
        **options,
    )


def test_invariance_test_without_level_makes_all_replicates():
    report = examined(9.0, seed=0)
    assert (report.n_replicates, report.n_looks) == (64, 1)
    assert report.p_value == len(report.p_values) * min(report.p_values.values())
    assert "64 replicates" in str(report)


def test_invariance_test_finds_a_plain_mistake_with_half_of_the_replicates():
    report = examined(9.0, seed=0, level=LEVEL)
    assert (report.n_replicates, report.n_looks) == (32, 2)
    assert report.p_value < LEVEL


def test_invariance_test_passes_a_right_transition_with_half_of_the_replicates():
    report = examined(0.0, seed=0, level=LEVEL)
    assert report.n_replicates == 32
    assert report.p_value > LEVEL


def test_looks_change_only_when_the_invariance_test_stops():
    """Looks change when the test stops, and nothing else."""
    whole, parts = examined(0.4, seed=3), examined(0.4, seed=3, level=1e-9)
    assert parts.n_replicates == 64
    assert parts.p_values == whole.p_values
    assert parts.acceptance_rate == whole.acceptance_rate == 1.0
    assert parts.p_value == min(1.0, 2 * whole.p_value)


def test_invariance_test_accepts_an_odd_number_of_replicates():
    assert examined(0.0, seed=1, n_replicates=13, level=1e-9).n_replicates in (7, 13)


def examined_by(set_up):
    model = make_model(np.array([[0.0], [1.0]]), np.ones(2))
    return prior_invariance_test(
        model,
        set_up,
        start_at_latent,
        n_replicates=2,
        n_steps=1,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize("given", [EllipticalSlice(), RandomWalk()], ids=["transition", "operator"])
def test_invariance_test_asks_for_a_function_in_place_of_a_transition(given):
    with pytest.raises(TypeError, match=f"got {type(given).__name__}.* lambda model, rng: transi"):
        examined_by(given)


def test_invariance_test_asks_for_a_transition_in_place_of_an_operator():
    with pytest.raises(TypeError, match=r"the operator RandomWalk.* return HyperUpdate\(Ancillary"):
        examined_by(lambda model, rng: RandomWalk())


@pytest.mark.statistical
def test_invariance_test_has_the_stated_error_rate_and_power():
    """With two looks as with one; a mistake that shows with all replicates is found."""
    repeats = range(150)
    options = {"statistics": [FIRST], "n_reference": 1, "n_replicates": 32, "level": LEVEL}
    right = [examined(0.0, seeded(s), **options) for s in repeats]
    n_wrong = sum(report.p_value < LEVEL for report in right)
    assert n_wrong <= stats.binom.ppf(0.9999, len(repeats), LEVEL)
    assert np.mean([report.n_replicates for report in right]) < 18
    wrong = [examined(0.8, seeded(s), **options) for s in repeats]
    assert np.mean([report.p_value < LEVEL for report in wrong]) > 0.97
