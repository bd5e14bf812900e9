"""
Honest intervals from a few rows, and targets that are wrong
============================================================

A Gaussian process whose hyper-parameters were optimized takes them for known. With 30 rows they are
not: on random training sets from the diabetes data, the intervals of scikit-learn's
`GaussianProcessRegressor` are compared with those of `BayesianGPRegressor`. Then some targets are
spoiled, and Student-t noise lets them be.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor

# REDUCED=1 makes the script fast enough for a test; its chains are too short to be trusted.
reduced = os.environ.get("REDUCED") == "1"
n_splits = 1 if reduced else 10
settings = (
    {"n_chains": 2, "n_draws": 100} if reduced else {"target_ess": 400, "n_draws": 4000}
) | {"random_state": 0}

# %%
# Calibration
# -----------
# Where in its predictive distribution does a held-out target lie? Quantiles for many probabilities
# say how many targets fall below each; they should be just so many.

X, y = load_diabetes(return_X_y=True)
probabilities = np.linspace(0.05, 0.95, 19)


def optimized_quantiles(X_train, y_train, X_test):
    kernel = ConstantKernel(1.0, (1e-4, 1e4)) * RBF(1.0, (1e-2, 1e4)) + WhiteKernel(1.0, (1e-8, 1e2))
    point = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=3, random_state=0
    )
    model = make_pipeline(StandardScaler(), point).fit(X_train, y_train)
    mean, std = model.predict(X_test, return_std=True)
    return stats.norm.ppf(probabilities[:, None], mean, std)


def averaged_quantiles(X_train, y_train, X_test):
    model = make_pipeline(StandardScaler(), BayesianGPRegressor(**settings)).fit(X_train, y_train)
    return model.predict(X_test, return_quantiles=probabilities)[1]


methods = {
    "optimized (scikit-learn)": optimized_quantiles,
    "averaged by MCMC": averaged_quantiles,
}
below = {name: [] for name in methods}
for train, test in ShuffleSplit(n_splits, train_size=30, random_state=0).split(X):
    for name, quantiles_of in methods.items():
        quantiles = quantiles_of(X[train], y[train], X[test])
        below[name].append((y[test] < quantiles).mean(axis=1))
for name, shares in below.items():
    coverage = np.mean(shares, axis=0)[-1] - np.mean(shares, axis=0)[0]
    print(f"{name}: 90 % intervals hold {100 * coverage:.1f} % of the held-out targets")

# %%
# Outliers
# --------
# Disease progression against body mass index for 40 patients, of whom four have lost their decimal
# point: ten times the true value. All other patients are the test.

X, y = load_diabetes(return_X_y=True, scaled=False)
bmi = (X[:, 2:3] - 25.0) / 5.0
rng = np.random.default_rng(0)
train = rng.choice(len(y), size=40, replace=False)
test = np.setdiff1d(np.arange(len(y)), train)
spoiled = train[:4]
y_seen = y.copy()
y_seen[spoiled] *= 10.0

grid = np.linspace(17.0, 43.0, 105)
fig, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
for ax, (likelihood, sampler) in zip(
    axes[1:], (("gaussian", "collapsed"), ("student_t", "pm")), strict=True
):
    model = BayesianGPRegressor(likelihood=likelihood, sampler=sampler, **settings)
    model.fit(bmi[train], y_seen[train])
    density = model.log_predictive_density(bmi[test], y[test]).mean()
    print(f"{likelihood}: log predictive density of a patient, on average, {density:.2f}")
    mean, (low, high) = model.predict((grid[:, None] - 25.0) / 5.0, return_quantiles=[0.05, 0.95])
    ax.plot(X[test, 2], y[test], ".", color="0.8", label="test")
    ax.plot(X[train, 2], y_seen[train], "k.", markersize=8, label="training")
    ax.plot(X[spoiled, 2], y_seen[spoiled], "x", color="C3", markersize=8, label="spoiled")
    ax.fill_between(grid, low, high, color="C0", alpha=0.25, label="90 % of new targets")
    ax.plot(grid, mean, color="C0", label="mean")
    ax.set(title=f'likelihood="{likelihood}"', xlabel="body mass index [kg/m²]")
axes[1].set_ylabel("disease progression")
axes[2].legend()

ax = axes[0]
ax.axline((0.0, 0.0), slope=1.0, color="k", linewidth=0.8)
for (name, shares), color in zip(below.items(), ("C1", "C0"), strict=True):
    ax.plot(probabilities, np.transpose(shares), color=color, linewidth=0.5, alpha=0.4)
    ax.plot(probabilities, np.mean(shares, axis=0), color=color, linewidth=2.0, label=name)
ax.set(xlabel="probability of the predicted quantile", ylabel="share of held-out targets below it")
ax.legend()
plt.show()
