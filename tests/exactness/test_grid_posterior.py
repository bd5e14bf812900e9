"""Chains on theta, and on (theta, f), against quadrature of the posterior on a grid of theta.

Means, variances and 1, 5, 50, 95 and 99 % quantiles of the hyper-parameters' logs must agree within
four standard errors, which are small because effective sample sizes are at least five hundred.
"""

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, RationalQuadratic
from threadpoolctl import threadpool_limits

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.importance import importance_estimate
from skgpmcmc.model import HyperPrior
from skgpmcmc.run.chains import sample_chains
from skgpmcmc.samplers import Marginal, PseudoMarginal
from skgpmcmc.setup import emulated
from skgpmcmc.setup.proposals import propose_by_emulator
from skgpmcmc.testing import PROBABILITIES, Reference, exact_answer_test

from ..helpers import P_LIMIT, Z_LIMIT, make_model, orthant_probability, seeded
from .test_joint import prepared, small_model, without_grids

LEAST_ESS = 500
#: Posterior density at the edges, per unit of a log; less than 1e-4 is outside.
EDGE_DENSITY = 3e-5
TAILS = (0.01, 0.99)
RANDOM_WALK = PseudoMarginal(moves="random_walk")


# --- quadrature -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Marginal1D:
    """Density of one hyper-parameter at equally spaced values of its log."""

    values: np.ndarray
    density: np.ndarray

    @classmethod
    def of(cls, values, density):
        density = density / (density.sum() * (values[1] - values[0]))
        assert max(density[0], density[-1]) < EDGE_DENSITY, "the grid is too narrow"
        return cls(values, density)

    def mean(self, function):
        return function(self.values) @ self.density / self.density.sum()

    def _cdf(self):
        fine = np.linspace(self.values[0], self.values[-1], 4001)
        smooth = CubicSpline(
            fine, np.exp(CubicSpline(self.values, np.log(np.maximum(self.density, 1e-300)))(fine))
        )
        cdf = smooth.antiderivative()(fine)
        return fine, cdf / cdf[-1]

    def quantiles(self, probabilities):
        fine, cdf = self._cdf()
        return np.interp(probabilities, cdf, fine)

    def below(self, points):
        fine, cdf = self._cdf()
        return np.interp(points, fine, cdf)


@dataclass(frozen=True)
class Grid:
    """Equally spaced logs of hyper-parameters, fine and wide enough to hold the posterior.

    The trapezoidal rule converges geometrically for smooth densities that vanish at the edges.
    """

    axes: tuple

    @property
    def nodes(self):
        return np.stack([axis.ravel() for axis in np.meshgrid(*self.axes, indexing="ij")], axis=1)

    def marginals(self, log_density):
        """From an unnormalized log density at the nodes."""
        density = np.exp(log_density - log_density.max())
        density = density.reshape([len(axis) for axis in self.axes])
        every = range(len(self.axes))
        return [
            Marginal1D.of(axis, density.sum(axis=tuple(j for j in every if j != i)))
            for i, axis in enumerate(self.axes)
        ]

    def reference(self, log_density):
        """Means and quantiles, without an error."""
        marginals = self.marginals(log_density)
        return Reference(
            np.array([m.mean(lambda x: x) for m in marginals]),
            np.array([m.quantiles(PROBABILITIES) for m in marginals]),
        )


@dataclass(frozen=True)
class Tails:
    """Squared deviations, and whether the extreme quantiles are exceeded: functions of theta.

    Their means are the variance and the probabilities of the tails.
    """

    center: np.ndarray  # (p,)
    extremes: np.ndarray  # (p, 2)

    @classmethod
    def of(cls, marginals):
        return cls(
            np.array([m.mean(lambda x: x) for m in marginals]),
            np.array([m.quantiles(TAILS) for m in marginals]),
        )

    def at(self, theta):
        """(..., 3 p) at theta (..., p)."""
        low, high = self.extremes.T
        parts = [(theta - self.center) ** 2, theta < low, theta < high]
        return np.concatenate(parts, axis=-1, dtype=float)

    def reference(self, marginals):
        squares = [
            m.mean(lambda x, c=c: (x - c) ** 2) for m, c in zip(marginals, self.center, strict=True)
        ]
        below = [m.below(points) for m, points in zip(marginals, self.extremes, strict=True)]
        return Reference(np.concatenate([squares, *np.transpose(below)]))


# --- forty points ---------------------------------------------------------------------------------

GRID = Grid((np.arange(-3.5, 5.6, 0.25), np.arange(-4.0, 2.5, 0.2)))
N_BATCHES = 8
DRAWS_PER_BATCH = 250
#: Points whose latent values are compared: at both ends and in the middle.
SOME = [0, 20, 39]


N_DRAWS = 1800
#: Errors of quantiles are known well enough from a thousand draws, as chains stay now and then.
N_EMULATED_DRAWS = 1000


@pytest.fixture(scope="module")
def forty_points():
    """Model with simulated data, the default kernel and the default priors."""
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 3.0, size=(40, 1)), axis=0)
    blank = make_model(X, np.ones(40))
    f = blank.prior_at(np.log([3.0, 0.5])).sample(rng)
    return blank.with_observations(y=blank.likelihood.sample(f, rng))


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


def check_exact(samples, reference, least_ess=LEAST_ESS):
    """Means and quantiles agree, and so many effective draws say so."""
    report = exact_answer_test(samples, reference)
    assert report.ess.min() >= least_ess
    assert report.worst < Z_LIMIT, report.z


@dataclass(frozen=True)
class Answer:
    """What is known of the posterior: of theta, of its tails, of `latent_functions`."""

    theta: Reference
    tails: Tails
    of_tails: Reference
    latent: Reference | None = None

    @classmethod
    def on(cls, grid, log_density):
        """Without an error, from an unnormalized log density at the nodes."""
        marginals = grid.marginals(log_density)
        tails = Tails.of(marginals)
        return cls(grid.reference(log_density), tails, tails.reference(marginals))


def answer_on(grid, model):
    """Answer from many importance draws at every node."""
    rng = np.random.default_rng(1)
    with threadpool_limits(1):
        parts = [importance_batches(model, theta, rng) for theta in grid.nodes]
    log_mass, averages = (np.array(part) for part in zip(*parts, strict=True))
    whole, batches = logsumexp(log_mass, axis=1), log_mass.T
    tails = Tails.of(grid.marginals(whole))
    mass = np.exp(log_mass - log_mass.max())[:, :, None]
    totals, masses = (mass * averages).sum(axis=0), mass.sum(axis=0)
    return Answer(
        Reference.from_batches(grid.reference(whole), [grid.reference(b) for b in batches]),
        tails,
        Reference.from_batches(
            tails.reference(grid.marginals(whole)),
            [tails.reference(grid.marginals(b)) for b in batches],
        ),
        Reference.from_batches(
            Reference(totals.sum(axis=0) / masses.sum()),
            [Reference(batch) for batch in totals / masses],
        ),
    )


@pytest.fixture(scope="module")
def exact(forty_points):
    return answer_on(GRID, forty_points)


def run_chains(model, sampler, approximation, n_draws, **changes):
    """Draws of a run."""
    settings = {"n_chains": 4, "n_importance": None, "n_warmup": 50} | changes
    seed = np.random.SeedSequence(seeded())
    run = sample_chains([model], sampler, approximation, n_draws=n_draws, seed=seed, **settings)
    return run.models[0].draws


def check_against(answer, draws):
    """Theta and its tails."""
    check_exact(draws.theta, answer.theta)
    squares = draws.theta.shape[2]
    tails, known = answer.tails.at(draws.theta), answer.of_tails
    of_tails = exact_answer_test(tails, known)
    assert np.abs(of_tails.z[:squares]).max() < Z_LIMIT, of_tails.z
    # Where chance leaves few draws in a tail, their own estimate of its error is too small as well:
    # the probability is known, and so is the error that goes with it.
    share, ess = known.mean[squares:], of_tails.ess[squares:]
    own = np.broadcast_to(known.mean_error, known.mean.shape)[squares:]
    error = np.sqrt(share * (1.0 - share) / ess + own**2)
    z = (tails[..., squares:].mean(axis=(0, 1)) - share) / error
    assert np.abs(z).max() < Z_LIMIT, z
    if answer.latent is not None:
        joint = exact_answer_test(latent_functions(draws.theta, draws.f), answer.latent)
        assert joint.worst < Z_LIMIT, joint.z


@pytest.mark.statistical
@pytest.mark.parametrize("approximation", [EP(), Laplace()], ids=["ep", "laplace"])
def test_emulated_sampler_agrees_with_the_grid_posterior(forty_points, exact, approximation):
    draws = run_chains(forty_points, PseudoMarginal(), approximation, N_EMULATED_DRAWS)
    check_against(exact, draws)


@pytest.mark.statistical
def test_emulated_sampler_by_chains_agrees_with_the_grid_posterior(forty_points, exact):
    with without_grids():
        draws = run_chains(forty_points, PseudoMarginal(), EP(), N_EMULATED_DRAWS)
    check_against(replace(exact, latent=None), draws)  # of theta, which is what grids lead


@pytest.mark.statistical
def test_random_walk_agrees_with_the_grid_posterior(forty_points, exact):
    draws = run_chains(forty_points, RANDOM_WALK, EP(), N_DRAWS, n_importance=16, n_warmup=300)
    check_against(exact, draws)


@pytest.mark.statistical
@pytest.mark.parametrize("grids", [True, False])
def test_marginal_sampler_agrees_with_the_grid_posterior_of_its_evidence(forty_points, grids):
    """The posterior that an approximate evidence implies."""
    with nullcontext() if grids else without_grids():
        draws = run_chains(forty_points, Marginal(), Laplace(), N_EMULATED_DRAWS)
    with threadpool_limits(1):
        evidence = [Laplace().fit(forty_points, theta).log_evidence for theta in GRID.nodes]
    log_prior = forty_points.hyperprior.log_prob(GRID.nodes)
    check_exact(draws.theta, GRID.reference(np.array(evidence) + log_prior))


# --- tails of the emulated posterior --------------------------------------------------------------

#: Log p-hat + log p(theta) - log pi*(theta), beyond its value at the center: at most this where the
#: log posterior is less than eight below its largest value.
MOST_OVER_EMULATED = 3.0
REACHED = -8.0


@pytest.mark.statistical
@pytest.mark.parametrize("offset", [0, 1])
def test_emulated_posterior_is_never_far_below_the_exact_one(
    forty_points, exact, offset, monkeypatch
):
    """A ratio that grew as fast as the posterior falls would let chains stay there for ever.

    Where the posterior is, the two are alike. In its far tails the emulated one may be lower, but
    by much less than the posterior itself has fallen.
    """
    rng = np.random.default_rng(seeded(offset))
    believed = []

    def noted(known, estimates, n_chains, workers):
        believed.append(known.examined.posterior.with_correction(estimates.correction))
        return propose_by_emulator(known, estimates, n_chains, workers)

    monkeypatch.setattr(emulated, "propose_by_emulator", noted)
    prepared(PseudoMarginal(), forty_points, EP(), rng)
    center, sd = exact.theta.mean, np.sqrt(exact.of_tails.mean[:2])
    steps = np.linspace(-8.0, 8.0, 17)
    places = np.array([center + sd * [a, b] for b in steps for a in steps])
    target = np.array([log_target(forty_points, theta, rng) for theta in places]).reshape(17, 17)
    gaps = target - believed[-1].log_prob(places).reshape(17, 17)
    height = target - target.max()
    gaps -= gaps[8, 8]
    assert np.isfinite(gaps).all()
    assert np.abs(gaps[6:11, 6:11]).max() < 1.0, np.round(gaps, 1)
    assert gaps[height > REACHED].max() < MOST_OVER_EMULATED, np.round(gaps, 1)
    assert np.all(gaps < MOST_OVER_EMULATED - 0.25 * height), np.round(gaps, 1)


def log_target(model, theta, rng):
    """log p-hat + log p(theta), with log p-hat of many draws."""
    estimate = importance_estimate(model, EP().fit(model, theta).q, 1000, rng, defensive=0.05)
    return estimate.log_likelihood + model.hyperprior.log_prob(theta)


# --- three points: p(y | theta) in closed form ----------------------------------------------------

AROUND = np.arange(-4.0, 4.01, 0.2)
SMALL_GRID = Grid((np.log(4.0) + AROUND, AROUND))


def closed_form(model, grid):
    """Log of p(y | theta) p(theta) at the nodes, without any error."""
    log_lik = [np.log(orthant_probability(model.prior_at(t).K, model.y)) for t in grid.nodes]
    return np.array(log_lik) + model.hyperprior.log_prob(grid.nodes)


def three_points():
    return small_model(3, 4.0).with_observations(y=np.array([1.0, -1.0, 1.0]))


def three_point_draws(sampler, approximation, *, n_importance=None, n_draws=2500):
    """Chains with estimates of few draws, and a posterior without any error."""
    model = three_points()
    reference = SMALL_GRID.reference(closed_form(model, SMALL_GRID))
    n_warmup = 300 if sampler.moves == "random_walk" else 50
    options = {"n_importance": n_importance, "n_warmup": n_warmup}
    return run_chains(model, sampler, approximation, n_draws, **options).theta, reference


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("sampler", "n_draws"),
    [(RANDOM_WALK, 2500), (PseudoMarginal(), 500)],
    ids=["random walk", "emulated"],
)
def test_samplers_are_exact_with_a_single_importance_draw(sampler, n_draws):
    check_exact(*three_point_draws(sampler, Laplace(), n_importance=1, n_draws=n_draws))


class TwoBumps(HyperPrior):
    """The length-scale is near 1/6 or near 6: a mixture of two log-normal distributions."""

    center, sd = np.log(6.0), 0.4

    def _bumps(self, u):
        """Log densities of the two, and their derivatives; (2, ...)."""
        z = (u - np.multiply.outer([-self.center, self.center], np.ones(np.shape(u)))) / self.sd
        return -0.5 * z**2 - np.log(2.0 * self.sd * np.sqrt(2.0 * np.pi)), -z / self.sd

    def log_prob(self, theta):
        return self.value_and_gradient(theta)[0]

    def value_and_gradient(self, theta):
        # The density of the length-scale replaces the log-normal(0.7) one of the parent.
        value, gradient = super().value_and_gradient(theta)
        u = theta[..., 1]
        log_density, slopes = self._bumps(u)
        total = np.logaddexp(*log_density)
        gradient = gradient.copy()
        gradient[..., 1] = (np.exp(log_density - total) * slopes).sum(axis=0)
        return value + total - stats.norm.logpdf(u, scale=0.7), gradient

    def sample(self, rng):
        theta = super().sample(rng)
        theta[1] = rng.choice([-self.center, self.center]) + self.sd * rng.standard_normal()
        return theta


def check_closed_form(model, grid, **options):
    draws = run_chains(model, PseudoMarginal(), EP(), **({"n_draws": 350} | options))
    check_against(Answer.on(grid, closed_form(model, grid)), draws)
    return draws


@pytest.mark.statistical
def test_default_chains_visit_both_of_two_modes():
    model = three_points()
    prior = model.hyperprior
    model = replace(model, hyperprior=TwoBumps(prior.names, prior.distributions))
    grid = Grid((np.log(4.0) + np.arange(-4.0, 4.01, 0.25), np.arange(-4.0, 4.01, 0.1)))
    # Eight searches from the prior all but surely find both.
    draws = check_closed_form(model, grid, n_draws=180, n_chains=8)
    crossings = np.diff(np.sign(draws.theta[:, :, 1]), axis=1) != 0.0
    assert crossings.mean() > 0.1


MILD = stats.lognorm(0.7, scale=1.0)
TREES = {
    "matern": (
        ConstantKernel(4.0) * Matern(1.0, nu=1.5),
        {"k1__constant_value": stats.lognorm(0.7, scale=4.0), "k2__length_scale": MILD},
        SMALL_GRID,
    ),
    "rational quadratic": (
        ConstantKernel(4.0) * RationalQuadratic(1.0, 1.0),
        {
            "k1__constant_value": stats.lognorm(0.7, scale=4.0),
            "k2__alpha": MILD,
            "k2__length_scale": MILD,
        },
        Grid((np.log(4.0) + np.arange(-3.6, 3.61, 0.4), *2 * [np.arange(-3.6, 3.61, 0.4)])),
    ),
}


@pytest.mark.statistical
@pytest.mark.parametrize("tree", TREES)
def test_emulated_sampler_agrees_with_the_grid_for_other_kernels(tree):
    kernel, priors, grid = TREES[tree]
    model = make_model([[0.0], [1.0], [2.0]], [1.0, -1.0, 1.0], kernel=kernel, priors=priors)
    check_closed_form(model, grid)


@pytest.mark.statistical
def test_emulated_sampler_agrees_with_the_grid_where_the_prior_dominates():
    """Three points under the default priors, whose logs have one long tail."""
    model = make_model([[0.0], [0.4], [1.0]], [1.0, 1.0, -1.0])
    grid = Grid((np.arange(-11.0, 5.01, 0.2), np.arange(-12.0, 4.01, 0.2)))
    check_closed_form(model, grid, n_draws=600)


@pytest.mark.statistical
def test_first_draws_after_burn_in_have_the_law_of_the_posterior(monkeypatch):
    """Of many chains, after as few iterations as they need to settle; their starts do not."""
    model = three_points()
    marginals = SMALL_GRID.marginals(closed_form(model, SMALL_GRID))
    starts = []

    def propose(*args):
        state, proposals = propose_by_emulator(*args)
        starts.extend(proposals.starts)
        return state, proposals

    monkeypatch.setattr(emulated, "propose_by_emulator", propose)
    draws = run_chains(model, PseudoMarginal(), EP(), 1, n_chains=800, n_warmup=None)

    def least_p_value(theta):
        return min(
            stats.kstest(marginal.below(theta[:, r]), "uniform").pvalue
            for r, marginal in enumerate(marginals)
        )

    assert least_p_value(np.array(starts)) < P_LIMIT < least_p_value(draws.theta[:, 0])
