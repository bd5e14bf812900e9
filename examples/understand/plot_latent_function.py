"""
The latent function, with and without the uncertainty of the kernel
===================================================================

A Gaussian-process classifier turns a latent function f into class probabilities. With few rows the
hyper-parameters of the kernel are uncertain, too. This script compares f averaged over the
posterior of the hyper-parameters with f at their maximum-likelihood value.
"""

import matplotlib.pyplot as plt
import numpy as np

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import EPMLClassifier

# %%
# Forty points on a line; the classes change twice.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3.0, 3.0, size=40))
y = np.where(2.0 * np.cos(1.5 * x) + rng.standard_normal(40) > 0.0, "in", "out")
grid = np.linspace(-5.0, 5.0, 201)

bayes = BayesianGPClassifier(random_state=0).fit(x[:, None], y)
point = EPMLClassifier(random_state=0).fit(x[:, None], y)

# %%
# `latent_mean_and_variance` returns the total variance, over f and the hyper-parameters. Each
# function drawn by `sample_latent` belongs to one posterior draw of the hyper-parameters.

fig, (top, bottom) = plt.subplots(2, 1, figsize=(8, 6.5), sharex=True, layout="constrained")
for model, name, color in ((bayes, "MCMC", "C0"), (point, "maximum likelihood", "C1")):
    mean, var = model.latent_mean_and_variance(grid[:, None])
    sd = np.sqrt(var)
    top.plot(grid, mean, color=color, label=f"{name}: mean ± two sd")
    top.fill_between(grid, mean - 2.0 * sd, mean + 2.0 * sd, color=color, alpha=0.2)
    bottom.plot(grid, model.predict_proba(grid[:, None])[:, 1], color=color, label=name)

draws = bayes.sample_latent(grid[:, None], n_draws=10, random_state=0)
top.plot(grid, draws, color="C0", linewidth=0.5)
fig.suptitle("Averaged over hyper-parameters (MCMC), and with optimized ones")
top.set_ylabel("latent function")
top.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
bottom.plot(x, (y == bayes.classes_[1]).astype(float), "k|")
bottom.set(xlabel="x", ylabel=f'probability of the class "{bayes.classes_[1]}"')
bottom.legend()
plt.show()
