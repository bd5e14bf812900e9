"""Samplers that move by cheap posteriors, set-up included, against quadrature over theta.

The cheap posteriors are those of a few rows, far from the exact one, or of nearly all ranks: one
with far lighter tails than the exact one is followed too slowly for a test.
"""

from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF

from skgpmcmc.approximations import EP, Exact, Nystrom, SubsetOfData
from skgpmcmc.likelihoods import Gaussian, Poisson
from skgpmcmc.model import LatentGP, Observations, default_hyperprior, make_covariance
from skgpmcmc.samplers import DiscretizingChain, TemperedTransitions
from skgpmcmc.testing import exact_answer_test

from ..helpers import Z_LIMIT, exact_posterior, make_model
from .test_grid_posterior import (
    SMALL_GRID,
    Grid,
    check_exact,
    closed_form,
    run_chains,
    three_points,
)

pytestmark = pytest.mark.statistical
#: Fewer would not see what is wrong.
LEAST_ESS = 150
DISCRETIZING = DiscretizingChain(operator="mh", n_moves=2, jump=3)
TEMPERED = TemperedTransitions(operator="mh", n_updates=3)


def drawn(model, sampler, approximation, cheap, n_draws):
    settings = {"n_importance": 8, "n_warmup": 60, "cheap": cheap}
    return run_chains(model, sampler, approximation, n_draws, **settings)


check = partial(check_exact, least_ess=LEAST_ESS)


# --- regression: the evidence in closed form ------------------------------------------------------

LENGTH_AND_NOISE = Grid((np.arange(-3.0, 2.6, 0.1), np.arange(-3.5, 1.0, 0.1)))


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 3.0, size=(16, 1)), axis=0)
    y = np.sin(2.0 * X[:, 0]) + 0.4 * rng.standard_normal(16)
    covariance, likelihood = make_covariance(RBF(1.0), X), Gaussian(0.3)
    hyperprior = default_hyperprior(covariance, likelihood)
    model = LatentGP(covariance, Observations(likelihood, y), hyperprior)
    nodes = LENGTH_AND_NOISE.nodes
    log_density = np.array([Exact().fit(model, theta).log_evidence for theta in nodes])
    return model, LENGTH_AND_NOISE.reference(log_density + hyperprior.log_prob(nodes))


@pytest.mark.parametrize(
    ("sampler", "cheap", "n_draws"),
    [
        (DiscretizingChain(), SubsetOfData(m=6), 800),
        (DISCRETIZING, Nystrom(m=14), 400),
        (TemperedTransitions(layers=(SubsetOfData(m=4),)), SubsetOfData(m=10), 700),
    ],
    ids=["slice", "walk on a low rank", "two layers"],
)
def test_mapped_regression_agrees_with_quadrature(regression, sampler, cheap, n_draws):
    model, reference = regression
    draws = drawn(model, sampler, Exact(), cheap, n_draws)
    check(draws.theta, reference)
    if draws.marked is not None and draws.marked.shape[2] > 1:
        for i in range(draws.marked.shape[2]):
            check(draws.marked[:, :, i], reference)


def test_too_cheap_a_posterior_gives_a_low_ess_or_right_draws(regression):
    """Four ranks are far too few at short length-scales, where much of the posterior is."""
    model, reference = regression
    draws = drawn(model, DISCRETIZING, Exact(), Nystrom(m=4), 800)
    report = exact_answer_test(draws.theta, reference)
    assert report.ess.min() < 100 or report.worst < Z_LIMIT, report.z


# --- estimates of p(y | theta) --------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [DISCRETIZING, TEMPERED], ids=["discretizing", "tempered"])
def test_mapped_classification_agrees_with_quadrature(sampler):
    model = three_points()
    reference = SMALL_GRID.reference(closed_form(model, SMALL_GRID))
    check(drawn(model, sampler, EP(), SubsetOfData(m=2), 300).theta, reference)


def test_mapped_count_regression_agrees_with_quadrature():
    priors = {
        "k1__constant_value": stats.lognorm(0.7, scale=4.0),
        "k2__length_scale": stats.lognorm(0.7),
    }
    model = make_model([[0.0], [0.7]], [1.0, 4.0], Poisson(), priors=priors)
    grid = Grid(tuple(axis[::2] for axis in SMALL_GRID.axes))
    log_density = model.hyperprior.log_prob(grid.nodes) + [
        exact_posterior(model.prior_at(theta).K, model.y, model.likelihood, n_nodes=61)[0]
        for theta in grid.nodes
    ]
    draws = drawn(model, DISCRETIZING, EP(), SubsetOfData(m=1), 300)
    check(draws.theta, grid.reference(log_density))
