"""
Measurements below a limit of detection
=======================================

A laboratory reports the log of a concentration only if it is above a limit; of all other samples it
says that they are below. Leaving these out, or putting the limit in their place, makes the function
too high where it is low. Here the data are simulated, so that the true function is known.
"""

import matplotlib.pyplot as plt
import numpy as np

from skgpmcmc import BayesianGPRegressor

rng = np.random.default_rng(0)
n, limit, noise = 60, -0.5, 0.25
x = np.sort(rng.uniform(0.0, 10.0, n))[:, None]
truth = 1.2 * np.cos(0.9 * x[:, 0])
measured = truth + noise * rng.standard_normal(n)
below = measured < limit
y = np.where(below, limit, measured)

# %%
# Two fits
# --------
# Rows below the limit have the limit as y, and ``censored_to`` says how far their true values may
# be from it: down to minus infinity. NaN marks exact rows. The likelihood of a censored row is the
# probability to be below the limit.

censored = BayesianGPRegressor(random_state=0)
censored.fit(x, y, censored_to=np.where(below, -np.inf, np.nan))
replaced = BayesianGPRegressor(random_state=0).fit(x, y)

# %%
# With the limit in place of the values, the function stays near it. With censored rows, it goes
# below, and is less certain there, as it should be.

grid = np.linspace(0.0, 10.0, 200)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for ax, model, title in zip(
    axes, (replaced, censored), ("The limit as the value", "Below the limit"), strict=True
):
    mean, variance = model.latent_mean_and_variance(grid)
    sd = np.sqrt(variance)
    ax.plot(grid, 1.2 * np.cos(0.9 * grid), color="k", lw=1.0, label="truth")
    ax.plot(grid, mean, label="posterior mean")
    ax.fill_between(grid[:, 0], mean - 1.64 * sd, mean + 1.64 * sd, alpha=0.3, label="90 %")
    ax.plot(x[~below], y[~below], "k.", label="measured")
    ax.plot(x[below], y[below], "kv", markersize=4, label="below the limit")
    ax.axhline(limit, color="0.6", lw=0.8)
    ax.set(title=title, xlabel="place")
axes[0].set_ylabel("log of the concentration")
axes[0].legend(fontsize="small", loc="upper center")
for name, model in (("limit as the value", replaced), ("censored", censored)):
    error = model.latent_mean_and_variance(x)[0] - truth
    print(f"{name}: root mean square error {np.sqrt(np.mean(error**2)):.2f}")
plt.show()
