"""Chains on theta, and on (theta, f), against quadrature of the posterior on a grid of theta.

Means and 5, 50 and 95 % quantiles of (log sigma, log tau) must agree within four standard errors,
which are small because effective sample sizes are at least a thousand.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.chains import sample_chains
from skgpmcmc.importance import importance_estimate
from skgpmcmc.samplers import Marginal, PseudoMarginal
from skgpmcmc.testing import PROBABILITIES, Reference, exact_answer_test

from ..helpers import Z_LIMIT, make_model, orthant_probability
from .test_joint import small_model

LEAST_ESS = 1000
#: Posterior density at the edges, per unit of log sigma or log tau: less than 1e-4 of it is outside.
EDGE_DENSITY = 3e-5


# --- quadrature -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Equally spaced values of (log sigma, log tau), fine and wide enough to hold the posterior."""

    log_sigma: np.ndarray
    log_tau: np.ndarray

    @property
    def nodes(self):
        return np.array([[s, t] for s in self.log_sigma for t in self.log_tau])

    def reference(self, log_density):
        """Means and quantiles under an unnormalized log density at the nodes; exact errors of 0.

        The trapezoidal rule converges geometrically for smooth densities that vanish at the edges.
        """
        density = np.exp(log_density - log_density.max())
        density = density.reshape(len(self.log_sigma), len(self.log_tau))
        marginals = [(self.log_sigma, density.sum(axis=1)), (self.log_tau, density.sum(axis=0))]
        means, quantiles = zip(*(_mean_and_quantiles(*m) for m in marginals), strict=True)
        return Reference(np.array(means), np.array(quantiles))


def _mean_and_quantiles(values, density):
    density = density / (density.sum() * (values[1] - values[0]))
    assert max(density[0], density[-1]) < EDGE_DENSITY, "the grid is too narrow"
    log_density = CubicSpline(values, np.log(density))
    cdf = CubicSpline(fine := np.linspace(values[0], values[-1], 4001), np.exp(log_density(fine)))
    cdf = cdf.antiderivative()(fine)
    mean = values @ density / density.sum()
    return mean, np.interp(PROBABILITIES, cdf / cdf[-1], fine)


# --- forty points ---------------------------------------------------------------------------------

GRID = Grid(np.arange(-3.5, 5.6, 0.25), np.arange(-4.0, 2.5, 0.2))
N_BATCHES = 8
DRAWS_PER_BATCH = 250
#: Draws per estimate: Laplace is the coarser importance distribution.
N_IMPORTANCE = {"EP": 16, "Laplace": 64}
#: Points whose latent values are compared: at both ends and in the middle.
SOME = [0, 20, 39]


def make_forty_points():
    """Simulated data; default kernel and default priors."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 3.0, size=(40, 1)), axis=0)
    blank = make_model(X, np.ones(40))
    f = blank.prior_at(np.log([3.0, 0.5])).sample(rng)
    return replace(blank, y=blank.likelihood.sample(f, rng))


@pytest.fixture(scope="module")
def forty_points():
    return make_forty_points()


def latent_functions(theta, f):
    """Some f, the same times log sigma and log tau, and the mean square; theta (..., 2), f (..., n)."""
    some = f[..., SOME]
    products = [theta[..., [j]] * some for j in (0, 1)]
    square = (f**2).mean(axis=-1, keepdims=True)
    return np.concatenate([some, *products, square], axis=-1)


@pytest.fixture(scope="module")
def exact(forty_points):
    """References for theta and for `latent_functions`, by importance sampling at every node.

    The estimates of p(y | theta) and of integrals of f come from many draws, in batches, from
    which the error of the references is estimated.
    """
    model, rng = forty_points, np.random.default_rng(1)
    # Per node and batch: the weights' sum, and the weighted sum of the functions of f.
    log_mass, averages = [], []
    with threadpool_limits(1):
        for theta in GRID.nodes:
            q = EP().fit(model, theta).q
            n_draws = N_BATCHES * DRAWS_PER_BATCH
            estimate = importance_estimate(model, q, n_draws, rng, defensive=0.02)
            log_weights = estimate.log_weights.reshape(N_BATCHES, -1) + model.hyperprior.log_prob(
                theta
            )
            log_mass.append(logsumexp(log_weights, axis=1))
            weights = np.exp(log_weights - log_mass[-1][:, None])
            functions = latent_functions(theta, estimate.particles.T)
            averages.append(
                np.einsum("bi,bik->bk", weights, functions.reshape(N_BATCHES, -1, functions.shape[1]))
            )
    log_mass, averages = np.array(log_mass), np.array(averages)
    whole = GRID.reference(logsumexp(log_mass, axis=1))
    batches = [GRID.reference(log_mass[:, b]) for b in range(N_BATCHES)]
    mass = np.exp(log_mass - log_mass.max())[:, :, None]
    latent = Reference((mass * averages).sum(axis=(0, 1)) / mass.sum())
    parts = (mass * averages).sum(axis=0) / mass.sum(axis=0)
    return (
        Reference.from_batches(whole, batches),
        Reference.from_batches(latent, [Reference(part) for part in parts]),
    )


def run(model, sampler, approximation, n_draws, *, n_importance, seed=0):
    """Draws of four chains."""
    sampled = sample_chains(
        [model],
        sampler,
        approximation,
        n_importance=n_importance,
        n_chains=4,
        n_warmup=300,
        n_draws=n_draws,
        seed=np.random.SeedSequence(seed),
    )
    return sampled.draws[0]


@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_pseudo_marginal_is_exact(forty_points, exact, approximation):
    draws = run(forty_points, PseudoMarginal(), approximation, 6000)
    theta, latent = exact
    report = exact_answer_test(draws.theta, theta)
    assert report.ess.min() >= LEAST_ESS
    assert report.worst < Z_LIMIT, report.z
    joint = exact_answer_test(latent_functions(draws.theta, draws.f), latent)
    assert joint.worst < Z_LIMIT, joint.z


@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_marginal_follows_its_own_evidence(forty_points, approximation):
    draws = run(forty_points, Marginal(), approximation, 6000)
    with threadpool_limits(1):
        log_density = [
            approximation.fit(forty_points, theta).log_evidence
            + forty_points.hyperprior.log_prob(theta)
            for theta in GRID.nodes
        ]
    report = exact_answer_test(draws.theta, GRID.reference(np.array(log_density)))
    assert report.ess.min() >= LEAST_ESS
    assert report.worst < Z_LIMIT, report.z


def test_an_approximate_posterior_is_told_from_the_exact_one(forty_points, exact):
    draws = run(forty_points, Marginal(), Laplace(), 6000)
    assert exact_answer_test(draws.theta, exact[0]).worst > 2 * Z_LIMIT


# --- three points: p(y | theta) in closed form ----------------------------------------------------

SMALL_GRID = Grid(np.log(4.0) + np.arange(-4.0, 4.01, 0.1), np.arange(-4.0, 4.01, 0.1))


def three_point_report(sampler, approximation, seed=0):
    """Noisy estimates, of one draw, against a posterior without any error."""
    model = replace(small_model(3, 4.0), y=np.array([1.0, -1.0, 1.0]))
    log_density = [
        np.log(orthant_probability(model.prior_at(theta).K, model.y))
        + model.hyperprior.log_prob(theta)
        for theta in SMALL_GRID.nodes
    ]
    draws = run(model, sampler, approximation, 5000, n_importance=1, seed=seed)
    return exact_answer_test(draws.theta, SMALL_GRID.reference(np.array(log_density)))


def test_one_draw_is_exact_for_three_points():
    report = three_point_report(PseudoMarginal(), Laplace())
    assert report.ess.min() >= LEAST_ESS
    assert report.worst < Z_LIMIT, report.z
