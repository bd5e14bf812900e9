"""Jumps to multiples and fractions of a period leave the posterior as it is; a wrong twin does not.

See `tests/exactness/test_joint.py` for the examination and its level.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.gaussian_process.kernels import ConstantKernel, ExpSineSquared

from skgpmcmc.approximations import Laplace
from skgpmcmc.testing import start_with_particles
from skgpmcmc.transitions.metropolis import PERIOD_FACTORS, PeriodMultiples, multiply_period
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import P_LIMIT, make_model, seeded
from .test_joint import check, check_caught, examined

PLACES = [(1, 0)]
SHORT, LONG = ({"n_replicates": n, "n_steps": steps} for n, steps in ((300, 4), (1500, 8)))


@dataclass(frozen=True, eq=False)
class OneWay(PeriodMultiples):
    """Wrong: a third is never undone, and three times never tried."""

    def propose(self, theta, rng):
        factor = (1.0 / 3.0, 0.5, 2.0)[rng.integers(3)]
        return multiply_period(theta, self.places[0], factor), 0.0


def multiples_test(proposal, size):
    """Prior-invariance test with a few targets, and estimates of p(y | theta) by few draws."""
    priors = {
        "k2__length_scale": stats.lognorm(1.0, scale=1.0),
        "k2__periodicity": stats.lognorm(1.0, scale=2.0),
    }
    kernel = ConstantKernel(4.0, "fixed") * ExpSineSquared()
    model = make_model(np.linspace(0.0, 2.0, 4)[:, None], np.ones(4), kernel=kernel, priors=priors)
    transition = PseudoMarginalMetropolis(Laplace(), proposal, 2, 0.2)
    rng = np.random.default_rng(seeded())
    return examined(model, lambda *_: transition, start_with_particles, rng, **size)


@pytest.mark.statistical
def test_jumps_to_multiples_of_a_period_keep_the_joint_law():
    check(multiples_test(PeriodMultiples(PLACES), LONG))


@pytest.mark.statistical
def test_joint_test_catches_jumps_of_a_period_without_inverse():
    check_caught(multiples_test(OneWay(PLACES), SHORT))


@pytest.mark.parametrize("proposal", [PeriodMultiples(PLACES), OneWay(PLACES)])
def test_jumps_are_as_frequent_as_their_inverses(proposal):
    """So that the log Hastings ratio of zero is right; it is not for the wrong twin."""
    theta, rng = np.array([0.3, 1.2]), np.random.default_rng(seeded())
    moved, log_ratios = zip(*(proposal.propose(theta, rng) for _ in range(4000)), strict=True)
    assert set(log_ratios) == {0.0}
    jumps, counts = np.unique(np.round(moved - theta, 9), axis=0, return_counts=True)
    if isinstance(proposal, OneWay):
        assert not np.allclose(jumps, -jumps[::-1])
    else:
        assert_allclose(jumps, -jumps[::-1])
        assert stats.chisquare(counts).pvalue > P_LIMIT


def test_jump_of_a_period_has_an_inverse_and_keeps_covariances_of_near_inputs():
    theta, x = np.array([0.3, 1.2]), np.array([[0.0], [1e-3]])
    assert_allclose(np.prod(PERIOD_FACTORS), 1.0)
    for factor in PERIOD_FACTORS:
        moved = multiply_period(theta, PLACES[0], factor)
        assert_allclose(multiply_period(moved, PLACES[0], 1.0 / factor), theta)
        near = (1.0 - ExpSineSquared(*np.exp(t))(x)[0, 1] for t in (theta, moved))
        assert next(near) == pytest.approx(next(near), rel=1e-4)
    fixed = multiply_period(theta, (1, None), 2.0)
    assert_allclose(fixed, [theta[0], theta[1] + np.log(2.0)])
