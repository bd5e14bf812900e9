"""Moves accept with the ratio of densities, and keep the prior where the data say nothing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import invgamma, kstest, multivariate_normal

from skgpmcmc.likelihoods import Probit
from skgpmcmc.numerics.dynamics import DenseRoot
from skgpmcmc.transitions import CrankNicolson, EllipticalSlice, Langevin, RandomWalk
from skgpmcmc.transitions.gibbs import ConjugateVariance

from ...exactness.test_within_gibbs import Bent, BentPoint
from ...helpers import THREE_THETA, three_point_model

STEP = 0.7
SHAPE = np.array([[0.8, 0.0], [0.3, 1.2]])


def walk_proposal(point):
    """Distribution of the proposals of a random walk at a point."""
    return multivariate_normal(point.position, STEP**2 * SHAPE @ SHAPE.T)


def langevin_proposal(point):
    """Distribution of the proposals of a Langevin move, from formula (10) of Filippone et al."""
    covariance = np.linalg.inv(point.metric)
    return multivariate_normal(
        point.position + 0.5 * STEP**2 * covariance @ point.gradient, STEP**2 * covariance
    )


PROPOSALS = {
    "random walk": (RandomWalk(np.log(STEP)).with_root(DenseRoot(SHAPE)), walk_proposal),
    "langevin": (Langevin(np.log(STEP)), langevin_proposal),
}


@pytest.mark.parametrize("name", PROPOSALS)
def test_acceptance_probability_is_the_ratio_of_densities(name):
    """Of every accepted move both ends are known, and hence the whole ratio."""
    operator, proposal = PROPOSALS[name]
    rng = np.random.default_rng(0)
    probabilities, expected = [], []
    for _ in range(200):
        start = BentPoint(Bent.draw(rng))
        outcome = operator.move(Bent(), start, rng)
        if not outcome.accepted:
            continue
        end = outcome.point
        log_ratio = end.log_density - start.log_density
        log_ratio += proposal(end).logpdf(start.position) - proposal(start).logpdf(end.position)
        probabilities.append(outcome.acceptance_probability)
        expected.append(min(1.0, np.exp(log_ratio)))
    assert np.count_nonzero(np.array(expected) < 0.99) >= 20
    assert_allclose(probabilities, expected, rtol=1e-8)


class Flat(Probit):
    """A likelihood that is 1 everywhere, so that the posterior of f is its prior."""

    def log_prob(self, y, f):
        return np.zeros(np.broadcast_shapes(np.shape(y), np.shape(f)))


@pytest.mark.parametrize("move", [CrankNicolson(1.0), EllipticalSlice()], ids=["mh_v2", "ellipse"])
def test_f_keeps_its_prior_variance_where_the_likelihood_is_flat(move):
    """The standard deviation of the estimate is below 0.02 for both moves."""
    model = three_point_model().with_observations(likelihood=Flat())
    rng = np.random.default_rng(0)
    state = move.start(model, THREE_THETA, rng)
    whitened = []
    for _ in range(3000):
        state, _ = move.step(model, state, rng)
        whitened.append(state.prior.whiten(state.f))
    assert_allclose(np.mean(np.square(whitened)), 1.0, atol=0.1)


def test_conjugate_variance_is_drawn_from_its_inverse_gamma_distribution():
    """Appendix A.1 of Filippone, Zhong and Girolami, with the quadratic form written out."""
    model = three_point_model()
    rng = np.random.default_rng(0)
    move = ConjugateVariance(position=0, shape=2.0, scale=0.7)
    state = move.start(model, THREE_THETA, rng)
    correlation = state.prior.K / np.exp(THREE_THETA[0])
    form = state.f @ np.linalg.solve(correlation, state.f)
    exact = invgamma(2.0 + 1.5, scale=0.7 + 0.5 * form)
    drawn = [np.exp(move.step(model, state, rng)[0].theta[0]) for _ in range(1000)]
    assert kstest(drawn, exact.cdf).pvalue > 1e-4
