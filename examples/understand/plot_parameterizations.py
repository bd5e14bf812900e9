"""
Why chains are slow: what is held fixed while the hyper-parameters move
=======================================================================

Classical samplers move the latent function f and the hyper-parameters alternately, so the latter
move within their conditional posterior *given other variables*. Figure 1 of Filippone & Girolami
(2014) compares three choices of these variables: f itself (SA), the whitened f (AA), and noisy
surrogates of f together with the whitened residual (SURR). The narrower these conditional
posteriors are, compared with the marginal one, the slower the chain. Pseudo-marginal MCMC holds
nothing fixed.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.displays import AutocorrelationDisplay
from skgpmcmc.likelihoods import Probit
from skgpmcmc.model import (
    GaussianPrior,
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
)
from skgpmcmc.parameterizations import (
    AncillaryAugmentation,
    HyperConditional,
    SufficientAugmentation,
    SurrogateData,
)

n, n_grid, n_shown = 60, 401, 6

# %%
# Classes drawn from the model itself: points in the unit square, and a length-scale of 0.35. The
# variance of f is fixed, so that there is one hyper-parameter.

rng = np.random.default_rng(0)
X = rng.uniform(size=(n, 2))
kernel = ConstantKernel(8.0, "fixed") * RBF(0.35)
covariance = make_covariance(kernel, X)
likelihood = Probit()
hyperprior = default_hyperprior(covariance, likelihood, "paper")
f = GaussianPrior(covariance, covariance.start).sample(rng)
model = LatentGP(covariance, Observations(likelihood, likelihood.sample(f, rng)), hyperprior)

# %%
# The default sampler gives nearly independent draws of theta and f. Given one of these draws, each
# parameterization has a conditional density of theta.

default = BayesianGPClassifier(kernel, random_state=0).fit(X, model.y)
theta_draws = default.theta_samples_.reshape(-1, 1)
f_draws = default.latent_samples_.reshape(-1, n)
log_scale = np.linspace(theta_draws.min() - 0.3, theta_draws.max() + 0.3, n_grid)


def normalized(log_density):
    density = np.exp(log_density - np.max(log_density))
    return density / np.trapezoid(density, log_scale)


def spread(density):
    mean = np.trapezoid(log_scale * density, log_scale)
    return np.sqrt(np.trapezoid((log_scale - mean) ** 2 * density, log_scale))


print(f"given y alone: standard deviation of the log length-scale {theta_draws.std():.2f}")

# %%
# On the right are the autocorrelations of the chains. The three classical samplers use the same
# moves.

fig, axes = plt.subplots(2, 2, figsize=(8, 7), layout="constrained")
*panels, chains = axes.flat
kinds = {
    "SA: f held fixed": ("sa", SufficientAugmentation()),
    "AA: whitened f held fixed": ("aa", AncillaryAugmentation()),
    "SURR: surrogate data held fixed": ("surr", SurrogateData()),
}
rows = np.linspace(0, len(f_draws) - 1, n_shown).astype(int)
for (title, (name, parameterization)), ax in zip(kinds.items(), panels, strict=True):
    ax.hist(theta_draws[:, 0], 30, density=True, color="0.85", label="given y alone")
    spreads = []
    for k, row in enumerate(rows):
        state = model.state_at(theta_draws[row], f_draws[row])
        conditional = HyperConditional.of(model, parameterization, state, rng)
        points = [conditional.at(np.array([t])) for t in log_scale]
        density = normalized([-np.inf if p is None else p.log_density for p in points])
        spreads.append(spread(density))
        ax.plot(log_scale, density, color=f"C{k}", label="given a draw" if k == 0 else None)
        ax.plot(theta_draws[row], 0.0, "^", color=f"C{k}", clip_on=False)
    ax.set(title=title, xlabel="log length-scale", ylim=(0.0, None))
    print(f"{title}: {np.mean(spreads):.2f} on average")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # that is the point
        gp = BayesianGPClassifier(kernel, sampler=name, n_draws=500, random_state=0)
        gp.fit(X, model.y)
    AutocorrelationDisplay.from_estimator(gp, max_lag=60, ax=chains, label=name)
for ax in panels:
    ax.set_ylabel("density")
panels[0].legend()
AutocorrelationDisplay.from_estimator(default, max_lag=60, ax=chains, label="pm", color="k")
chains.set(title="chains of the log length-scale", xlabel="lag", ylabel="autocorrelation")
plt.show()
