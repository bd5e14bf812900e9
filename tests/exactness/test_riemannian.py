"""Riemannian trajectories with steps so long that many ways back lead elsewhere."""

import numpy as np
import pytest
from scipy import stats

from skgpmcmc.transitions import RiemannianTrajectory
from skgpmcmc.transitions.annealed import RiemannianKernel

from ..helpers import NO_THETA, Z_LIMIT, given_model, seeded
from ..unit.importance.test_annealed import beginning, particles_at
from .test_joint import LEAST_ACCEPTANCE

#: Prior standard deviation of f, the step and its most repetitions: one of 25 ends that the ratio
#: accepts does not lead back.
SCALE, STEP, MAX_STEPS = 8.0, 0.6, 2
#: The wrong twin in `tests/planted_bugs` changes the probability below the first decile by a third
#: of its standard deviation for a single draw: a score of eight.
N_DRAWS, N_MOVES = 600, 12


def score_of_trajectories(cls):
    """Largest z-score after moves of exact draws, and the acceptance rate.

    Of the mean, the mean square, and the probability below each decile of ``v = f / scale``. Given
    one row of a probit its density is that of a skew normal variable.
    """
    rng = np.random.default_rng(seeded())
    law = stats.skewnorm(SCALE)
    model = given_model(np.array([[SCALE**2]]), [1.0])
    v = law.rvs((1, N_DRAWS), random_state=rng)
    draws = particles_at(model, beginning(model, NO_THETA, "prior"), SCALE * v)
    kernel = RiemannianKernel(cls(max_steps=MAX_STEPS))
    rates = [kernel.move(draws, 1.0, np.log(STEP), rng) for _ in range(N_MOVES)]
    v = draws.f[0] / SCALE
    share = np.linspace(0.1, 0.9, 9)
    found = np.array([v.mean(), (v**2).mean(), *(v[:, None] < law.ppf(share)).mean(axis=0)])
    wanted = np.array([law.mean(), law.moment(2), *share])
    variance = np.array([law.var(), law.moment(4) - law.moment(2) ** 2, *(share * (1.0 - share))])
    return (np.abs(found - wanted) / np.sqrt(variance / N_DRAWS)).max(), np.mean(rates)


@pytest.mark.statistical
def test_riemannian_trajectories_keep_the_posterior_of_a_row():
    score, rate = score_of_trajectories(RiemannianTrajectory)
    assert score < Z_LIMIT
    assert rate > LEAST_ACCEPTANCE
