"""The sparse prior: posteriors against grids over theta, tau included, and joint distributions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.likelihoods import NegativeBinomial, Probit
from skgpmcmc.model import (
    HyperPrior,
    LatentGP,
    Observations,
    column_widths,
    default_hyperprior,
    make_covariance,
)
from skgpmcmc.parameterizations import AncillaryAugmentation
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.testing import start_at_latent, start_with_particles
from skgpmcmc.transitions import HyperUpdate, RandomWalk, Trajectory
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..helpers import Z_LIMIT, OneByOne, orthant_probability, seeded
from .test_grid_posterior import Answer, Grid, check_against, run_chains
from .test_joint import check, check_caught, examined

KERNEL = ConstantKernel(2.0, "fixed") * RBF([1.0, 1.0])
#: Log length-scales and log tau. Their prior falls exponentially.
GRID = Grid(
    (np.arange(-8.0, 14.01, 0.25), np.arange(-8.0, 14.01, 0.25), np.arange(-15.0, 13.1, 0.35))
)


def log_posterior(log_lik, X):
    """At the nodes: log p(y | the two length-scales), and the log prior by its hierarchy."""
    log_lengths, log_tau = np.split(GRID.nodes, [2], axis=1)
    log_rho = 2.0 * (np.log(column_widths(X)) - log_lengths)
    log_prior = stats.halfcauchy.logpdf(np.exp(log_rho - log_tau)) - log_tau + log_rho + np.log(2.0)
    of_tau = stats.halfcauchy.logpdf(np.exp(log_tau), scale=0.1) + log_tau
    of_pairs = [log_lik(pair) for pair in Grid(GRID.axes[:2]).nodes]
    return np.repeat(of_pairs, len(GRID.axes[2])) + log_prior.sum(axis=1) + of_tau[:, 0]


@pytest.mark.statistical
def test_sparse_regression_posterior_equals_that_of_a_grid():
    """One of two inputs matters. The noise is known, and so is the variance of the function."""
    rng = np.random.default_rng(0)
    X, noise = rng.uniform(0.0, [1.0, 50.0], size=(12, 2)), 0.1
    y = np.sin(4.0 * X[:, 0]) + np.sqrt(noise) * rng.standard_normal(12)
    reg = BayesianGPRegressor(
        KERNEL, noise="known", alpha=noise, normalize_y=False, priors="sparse",
        target_ess=1500, n_draws=8000, random_state=seeded(),
    ).fit(X, y)  # fmt: skip

    def log_lik(lengths):
        K = KERNEL.clone_with_theta(lengths)(X)
        return stats.multivariate_normal(np.zeros(12), K + noise * np.eye(12)).logpdf(y)

    log_density = log_posterior(log_lik, X)
    check_against(Answer.on(GRID, log_density), SimpleNamespace(theta=reg.theta_samples_))
    steps = [axis[1] - axis[0] for axis in GRID.axes]
    evidence = reg.log_evidence()
    exact = logsumexp(log_density) + np.log(steps).sum()
    assert abs(evidence.value - exact) < Z_LIMIT * evidence.standard_error


THREE = np.array([[0.0, 3.0], [0.5, 1.0], [1.0, 7.0]])
SIGNS = np.array([1.0, -1.0, 1.0])


def small_model(likelihood, y, X=THREE):
    covariance = make_covariance(KERNEL, X)
    prior = default_hyperprior(covariance, likelihood, "sparse")
    return LatentGP(covariance, Observations(likelihood, y), prior)


@pytest.mark.statistical
def test_sparse_classification_posterior_equals_that_of_a_grid():
    """Three points, whose likelihood has a closed form."""

    def log_lik(lengths):
        return np.log(orthant_probability(KERNEL.clone_with_theta(lengths)(THREE), SIGNS))

    draws = run_chains(small_model(Probit(), SIGNS), PseudoMarginal(), EP(), 1500)
    check_against(Answer.on(GRID, log_posterior(log_lik, THREE)), draws)


# --- joint distributions --------------------------------------------------------------------------

SIZES = {"n_replicates": 300, "n_steps": 8, "n_reference": 2500}


def counts():
    """The likelihood has a parameter, which comes before tau."""
    X = np.array([[0.0, 2.0], [0.6, 0.0], [1.5, 1.0]])
    return small_model(NegativeBinomial(1.5), np.zeros(3), X)


class FromTheEnd(LatentGP):
    """Takes the last entry of theta for the parameter of the likelihood."""

    def likelihood_theta(self, theta):
        return theta[-1:]


class MistakesTau(OneByOne, PseudoMarginalMetropolis):
    def evaluate_one(self, model, theta, rng, *retained):
        wrong = FromTheEnd(model.covariance, model.observations, model.hyperprior)
        return super().evaluate_one(wrong, theta, rng, *retained)


class NoJacobian(HyperPrior):
    """The density of tau itself, and not of its log."""

    def __init__(self, right):
        vars(self).update(vars(right))

    def log_prob(self, theta):
        return super().log_prob(theta) - theta[..., -1]

    def gradient(self, theta):
        return super().gradient(theta) - np.eye(len(theta))[-1]


class WithoutJacobian(HyperUpdate):
    def step(self, model, state, rng):
        wrong = replace(model, hyperprior=NoJacobian(model.hyperprior))
        return super().step(wrong, state, rng)


def particle_test(kind):
    transition = kind(Laplace(tol=1e-4), RandomWalk(np.log(0.8)), 2, 0.1)
    rng = np.random.default_rng(seeded())
    return examined(counts(), lambda *_: transition, start_with_particles, rng, **SIZES)


def trajectory_test(kind):
    move = kind(AncillaryAugmentation(), Trajectory(np.log(0.3), max_steps=5))
    rng = np.random.default_rng(seeded())
    return examined(counts(), lambda *_: move, start_at_latent, rng, **SIZES)


@pytest.mark.statistical
def test_moves_under_the_sparse_prior_keep_the_joint_law():
    check(particle_test(PseudoMarginalMetropolis))
    check(trajectory_test(HyperUpdate))


@pytest.mark.statistical
def test_joint_test_catches_wrong_moves_under_the_sparse_prior():
    check_caught(particle_test(MistakesTau))
    check_caught(trajectory_test(WithoutJacobian))
