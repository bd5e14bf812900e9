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
#: Posterior density at the edges, per unit of log sigma or log tau; less than 1e-4 is outside.
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
    fine = np.linspace(values[0], values[-1], 4001)
    smooth = CubicSpline(fine, np.exp(CubicSpline(values, np.log(density))(fine)))
    cdf = smooth.antiderivative()(fine)
    return values @ density / density.sum(), np.interp(PROBABILITIES, cdf / cdf[-1], fine)


# --- forty points ---------------------------------------------------------------------------------

GRID = Grid(np.arange(-3.5, 5.6, 0.25), np.arange(-4.0, 2.5, 0.2))
N_BATCHES = 8
DRAWS_PER_BATCH = 250
#: Points whose latent values are compared: at both ends and in the middle.
SOME = [0, 20, 39]


N_DRAWS = 3500


@pytest.fixture(scope="module")
def forty_points():
    """Model with simulated data, the default kernel and the default priors."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 3.0, size=(40, 1)), axis=0)
    blank = make_model(X, np.ones(40))
    f = blank.prior_at(np.log([3.0, 0.5])).sample(rng)
    return replace(blank, y=blank.likelihood.sample(f, rng))


def latent_functions(theta, f):
    """Some of f, the same times log sigma and times log tau, and the mean square of f.

    theta is (..., 2) and f (..., n); returns (..., 10).
    """
    some = f[..., SOME]
    products = [theta[..., [j]] * some for j in (0, 1)]
    square = (f**2).mean(axis=-1, keepdims=True)
    return np.concatenate([some, *products, square], axis=-1)


def importance_batches(model, theta, rng):
    """Estimates at theta of p(y, theta) and of posterior means of `latent_functions`, by batch.

    Returns logs of the first, of shape (N_BATCHES,), and the second, (N_BATCHES, 10).
    """
    q = EP().fit(model, theta).q
    n_draws = N_BATCHES * DRAWS_PER_BATCH
    estimate = importance_estimate(model, q, n_draws, rng, defensive=0.02)
    log_weights = estimate.log_weights.reshape(N_BATCHES, DRAWS_PER_BATCH)
    log_sum = logsumexp(log_weights, axis=1)
    functions = latent_functions(theta, estimate.particles.T)
    functions = functions.reshape(N_BATCHES, DRAWS_PER_BATCH, -1)
    averages = np.einsum("bi,bik->bk", np.exp(log_weights - log_sum[:, None]), functions)
    return log_sum - np.log(DRAWS_PER_BATCH) + model.hyperprior.log_prob(theta), averages


@pytest.fixture(scope="module")
def exact(forty_points):
    """References for theta and for `latent_functions`, from many importance draws at every node."""
    rng = np.random.default_rng(1)
    with threadpool_limits(1):
        parts = [importance_batches(forty_points, theta, rng) for theta in GRID.nodes]
    log_mass, averages = (np.array(part) for part in zip(*parts, strict=True))
    theta = Reference.from_batches(
        GRID.reference(logsumexp(log_mass, axis=1)), [GRID.reference(batch) for batch in log_mass.T]
    )
    mass = np.exp(log_mass - log_mass.max())[:, :, None]
    totals, masses = (mass * averages).sum(axis=0), mass.sum(axis=0)
    latent = Reference.from_batches(
        Reference(totals.sum(axis=0) / masses.sum()),
        [Reference(batch) for batch in totals / masses],
    )
    return theta, latent


def four_chains(model, sampler, approximation, n_draws, *, n_importance=1, seed=0):
    """Draws of a run of four chains."""
    run = sample_chains(
        [model],
        sampler,
        approximation,
        n_importance=n_importance,
        n_chains=4,
        n_warmup=300,
        n_draws=n_draws,
        seed=np.random.SeedSequence(seed),
    )
    return run.draws[0]


def evidence_reference(model, approximation):
    """Means and quantiles of the posterior that an approximate evidence implies."""
    with threadpool_limits(1):
        log_density = [
            approximation.fit(model, theta).log_evidence + model.hyperprior.log_prob(theta)
            for theta in GRID.nodes
        ]
    return GRID.reference(np.array(log_density))


@pytest.mark.parametrize(
    ("approximation", "n_importance"), [(EP(), 16), (Laplace(), 64)], ids=["ep", "laplace"]
)
def test_pseudo_marginal_is_exact(forty_points, exact, approximation, n_importance):
    draws = four_chains(
        forty_points, PseudoMarginal(), approximation, N_DRAWS, n_importance=n_importance
    )
    of_theta, of_latent = exact
    report = exact_answer_test(draws.theta, of_theta)
    assert report.ess.min() >= LEAST_ESS
    assert report.worst < Z_LIMIT, report.z
    joint = exact_answer_test(latent_functions(draws.theta, draws.f), of_latent)
    assert joint.worst < Z_LIMIT, joint.z


@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_marginal_follows_its_own_evidence(forty_points, approximation):
    draws = four_chains(forty_points, Marginal(), approximation, N_DRAWS)
    report = exact_answer_test(draws.theta, evidence_reference(forty_points, approximation))
    assert report.ess.min() >= LEAST_ESS
    assert report.worst < Z_LIMIT, report.z


# --- three points: p(y | theta) in closed form ----------------------------------------------------

SMALL_GRID = Grid(np.log(4.0) + np.arange(-4.0, 4.01, 0.2), np.arange(-4.0, 4.01, 0.2))


def three_point_report(sampler, approximation, seed=0):
    """Chains with estimates of one draw each, against a posterior without any error."""
    model = replace(small_model(3, 4.0), y=np.array([1.0, -1.0, 1.0]))
    log_density = [
        np.log(orthant_probability(model.prior_at(theta).K, model.y))
        + model.hyperprior.log_prob(theta)
        for theta in SMALL_GRID.nodes
    ]
    draws = four_chains(model, sampler, approximation, 5000, seed=seed)
    return exact_answer_test(draws.theta, SMALL_GRID.reference(np.array(log_density)))


def test_one_draw_is_exact_for_three_points():
    report = three_point_report(PseudoMarginal(), Laplace())
    assert report.ess.min() >= LEAST_ESS
    assert report.worst < Z_LIMIT, report.z
