"""Chains on the exact evidence, whatever leads them, against quadrature of the posterior.

Trajectories on the evidence itself lead, or an emulator of it, on a grid or by chains. Means and
quantiles of the hyper-parameters' logs must agree within four standard errors.
`tests/planted_bugs/test_trajectories.py` runs wrong twins by the same functions.
"""

from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import Exact
from skgpmcmc.chain import InProcessExecutor, sample
from skgpmcmc.chain.segment import count_work
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.model import LatentGP, Observations, default_hyperprior, make_covariance
from skgpmcmc.setup import Request, emulated
from skgpmcmc.setup.emulated import set_up_emulated
from skgpmcmc.testing import Reference, exact_answer_test

from ..helpers import Z_LIMIT, seeded
from .test_grid_posterior import Answer, Grid, check_against
from .test_joint import without_grids

#: Draws of each of four chains: in the statistical tests, and in the plain run.
N_DRAWS, N_FEW = 1500, 400
GRID = Grid((*2 * [np.arange(-2.8, 3.31, 0.3)], np.arange(-4.2, 1.61, 0.25)))


@cache
def few_rows():
    """Eight rows, two features with a length-scale each, and noise to be inferred."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, size=(8, 2))
    y = np.sin(1.5 * X[:, 0]) + 0.3 * X[:, 1] + 0.3 * rng.standard_normal(8)
    priors = {
        "k2__length_scale": stats.lognorm(0.6, scale=1.2),
        "noise_scale": stats.lognorm(0.6, scale=0.3),
    }
    covariance = make_covariance(ConstantKernel(1.0, "fixed") * RBF(np.ones(2)), X)
    likelihood = Gaussian(0.3)
    hyperprior = default_hyperprior(covariance, likelihood, priors)
    return LatentGP(covariance, Observations(likelihood, y), hyperprior)


@cache
def answer():
    """By quadrature, without an error."""
    model = few_rows()
    with count_work():
        evidence = [Exact().fit(model, theta).log_evidence for theta in GRID.nodes]
    return Answer.on(GRID, np.array(evidence) + model.hyperprior.log_prob(GRID.nodes))


#: What leads the chains: whether trajectories pay, and whether there are grids.
LED = {"trajectory": (True, True), "rotation": (False, True), "surrogate": (False, False)}


@cache
def ready(led):
    """Four chains, which have settled."""
    model, (pays, grids) = few_rows(), LED[led]
    *rngs, own = [np.random.default_rng(s) for s in np.random.SeedSequence(seeded()).spawn(5)]
    starts = [model.hyperprior.sample(rng) for rng in rngs]
    request = Request(model, Exact(), starts, rngs, own, None, 20)
    with pytest.MonkeyPatch.context() as patch, nullcontext() if grids else without_grids():
        patch.setattr(emulated, "trajectories_are_cheaper", lambda model, options: pays)
        prepared = set_up_emulated(request, InProcessExecutor(), None, draws_latent=False)
    transition = prepared.transition
    assert led == getattr(transition, "moves", (transition,))[0].name
    return prepared


def draws_of(led, transition_for, n_draws):
    """Draws (4, n_draws, 3) of the chains with ``transition_for(transition)``."""
    prepared = ready(led)
    transition = transition_for(prepared.transition)
    segments = [
        sample(few_rows(), transition, state, rng, n_draws)
        for state, rng in zip(prepared.states, prepared.rngs, strict=True)
    ]
    return np.stack([segment.theta for segment in segments])


def worst(led, transition_for, n_draws=N_DRAWS):
    """The worst z-score of means, quantiles and variances."""
    theta, known = draws_of(led, transition_for, n_draws), answer()
    p = theta.shape[2]
    squares = known.tails.at(theta)[..., :p], Reference(known.of_tails.mean[:p])
    return max(exact_answer_test(theta, known.theta).worst, exact_answer_test(*squares).worst)


def test_chains_on_the_exact_evidence_agree_with_quadrature_short_run():
    """Trajectories take longer; moves of f have them in the plain run (`test_within_gibbs`)."""
    assert worst("rotation", lambda transition: transition, N_FEW) < Z_LIMIT


@pytest.mark.statistical
@pytest.mark.parametrize("led", LED)
def test_chains_on_the_exact_evidence_agree_with_quadrature(led):
    theta = draws_of(led, lambda transition: transition, N_DRAWS)
    check_against(answer(), SimpleNamespace(theta=theta))
