"""
Posterior predictive check: does the model make data like ours?
===============================================================

A model that fits the data should be able to simulate similar data. `to_arviz` draws new
targets for the training rows, one set for each posterior draw. Any statistic of these sets can be
compared with its value for the observed targets. Here counts vary more than Poisson counts do. The
Poisson model cannot reproduce their variance and their maximum, unless f follows every single row.
"""

import arviz_stats
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from skgpmcmc import BayesianGPCountRegressor

# %%
# Sixty counts whose mean changes slowly. The prior says that the length-scale is long.

rng = np.random.default_rng(0)
x = np.linspace(0.0, 4.0, 60)
y = rng.negative_binomial(1.5, 1.5 / (1.5 + np.exp(1.2 + np.sin(1.5 * x))))
slow = {"length_scale": stats.lognorm(0.3, scale=1.5)}

trees = {}
for name in ("poisson", "negative_binomial"):
    model = BayesianGPCountRegressor(likelihood=name, priors=slow, random_state=0).fit(
        x[:, None], y
    )
    trees[name] = model.to_arviz(posterior_predictive=True)
    loo = arviz_stats.loo(trees[name])
    print(f"{name}: expected log predictive density {loo.elpd:.1f} +- {loo.se:.1f}")

# %%
# The statistics of the observed counts, and of the counts that each model simulates.

features = {
    "variance of the counts, in units of their mean": lambda counts: (
        counts.var(axis=-1) / counts.mean(axis=-1)
    ),
    "largest count": lambda counts: counts.max(axis=-1),
}
fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
for ax, (title, feature) in zip(axes, features.items(), strict=True):
    for name, tree in trees.items():
        made = feature(tree["posterior_predictive"]["y"].values).ravel()
        width = 0.5 if "variance" in title else 2.0
        edges = np.arange(0.0, made.max() + 2.0 * width, width)
        ax.hist(made, edges, density=True, alpha=0.5, label=name.replace("_", " "))
    ax.axvline(feature(y), color="k", label="observed")
    ax.set(xlabel=title, ylabel="posterior predictive density")
    ax.set_xlim(right=np.quantile(made, 0.995))
axes[0].legend()
fig.suptitle("Observed counts against counts that the models simulate")
plt.show()
