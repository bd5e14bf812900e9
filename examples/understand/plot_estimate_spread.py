"""
How much estimates of the marginal likelihood vary
==================================================

Pseudo-marginal MCMC needs an unbiased estimate of p(y | theta), by importance sampling of the
latent function f from a Gaussian approximation of its posterior. Any approximation, and any number
of importance draws, leads to the exact posterior of theta. But if the estimates vary much, chains
reject nearly all proposals. As in figure 2 of Filippone & Girolami (2014), the figure shows
estimates of the posterior of a length-scale, by Laplace's approximation and by expectation
propagation (EP), for 1 and for 64 draws.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.importance import importance_estimate
from skgpmcmc.likelihoods import Probit
from skgpmcmc.model import (
    GaussianPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
)

sizes, n_repetitions, n_grid = (50, 200), 200, 25
N_DRAWS = (1, 64)
COLORS = ("C1", "C0")
APPROXIMATIONS = {"Laplace": Laplace(), "EP": EP()}
length_scales = np.linspace(0.04, 1.4, n_grid)

# %%
# The data are simulated from the model as in the paper: points in the unit square, a length-scale
# of 0.35, and a variance of f of 2.08, which is then held fixed.


def simulated_model(n, rng):
    X = rng.uniform(size=(n, 2))
    covariance = make_covariance(ConstantKernel(2.08, "fixed") * RBF(0.35), X)
    f = GaussianPrior(covariance, covariance.start).sample(rng)
    likelihood = Probit()
    hyperprior = default_hyperprior(covariance, likelihood, "paper")  # Gamma(1, rate 1 / sqrt 2)
    return LatentGP(covariance, Observations(likelihood, likelihood.sample(f, rng)), hyperprior)


# %%
# Importance draws are independent, so many small sets of weights can be taken from one large set:
# an estimate is the mean of N weights.


def log_estimates(model, approximation, length_scale, rng):
    """Log estimates of p(y | length-scale), one per repetition, for each number of draws."""
    q = approximation.fit(model, np.log([length_scale])).q
    log_weights = importance_estimate(model, q, max(N_DRAWS) * n_repetitions, rng).log_weights
    groups = [log_weights[: N * n_repetitions].reshape(n_repetitions, N) for N in N_DRAWS]
    return [logsumexp(group, axis=1) - np.log(group.shape[1]) for group in groups]


def log_prior(model, length_scale):
    """Log density of the length-scale: the package has the density of its log; and the Jacobian."""
    return model.hyperprior.log_prob(np.log([length_scale])) - np.log(length_scale)


# %%
# All estimates of a panel are divided by the same constant, for which the mean of the most accurate
# ones is a density.

fig, axes = plt.subplots(2, 2, figsize=(8, 6.5), sharex=True, sharey="row", layout="constrained")
for n, row in zip(sizes, axes, strict=True):
    rng = np.random.default_rng(0)
    model = simulated_model(n, rng)
    prior = np.array([log_prior(model, length_scale) for length_scale in length_scales])
    for ax, (name, approximation) in zip(row, APPROXIMATIONS.items(), strict=True):
        estimates = np.array(
            [log_estimates(model, approximation, t, rng) for t in length_scales]
        )  # (n_grid, sizes of N, n_repetitions)
        density = np.exp(estimates - estimates.max() + prior[:, None, None])
        density /= np.trapezoid(density[:, -1].mean(axis=1), length_scales)
        for k, N in enumerate(N_DRAWS):
            band = np.quantile(density[:, k], [0.025, 0.975], axis=1)
            label = f"N = {N}: mean, and 95 % of the estimates"
            ax.fill_between(length_scales, *band, color=COLORS[k], alpha=0.35)
            ax.plot(length_scales, density[:, k].mean(axis=1), color=COLORS[k], label=label)
            noise = np.median(estimates[:, k].std(axis=1))
            print(f"n = {n}, {name}, N = {N}: standard deviation of the log estimate {noise:.2f}")
        ax.plot(length_scales, np.exp(prior), color="C3", linestyle=":", label="prior")
        ax.set_title(f"{name}, n = {n}")
    row[0].set_ylabel("estimated posterior density")
for ax in axes[1]:
    ax.set_xlabel("length-scale")
axes[0, 1].legend(fontsize="small")
plt.show()
