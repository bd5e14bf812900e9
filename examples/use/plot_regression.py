"""
Calibrated intervals from a few rows, and outliers
==================================================

A Gaussian process with optimized hyper-parameters treats them as known. With 30 rows they are
uncertain. On random training sets from the diabetes data, this example compares the intervals of
scikit-learn's `GaussianProcessRegressor` and of `BayesianGPRegressor`. Then some targets are
replaced by wrong values, and Student-t noise makes the fit robust to them.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor

# %%
# Calibration
# -----------
# The interval between two quantiles should contain a certain share of the held-out targets, its
# nominal coverage: nine of ten targets should lie between the 5 % and the 95 % quantile.

X, y = load_diabetes(return_X_y=True)
probabilities = np.linspace(0.025, 0.975, 39)
half = len(probabilities) // 2
nominal = (probabilities[::-1] - probabilities)[:half]


def optimized_quantiles(X_train, y_train, X_test):
    signal = ConstantKernel(1.0, (1e-8, 1e4)) * RBF(1.0, (1e-2, 1e4))
    point = GaussianProcessRegressor(
        signal + WhiteKernel(1.0, (1e-8, 1e2)),
        normalize_y=True,
        n_restarts_optimizer=3,
        random_state=0,
    )
    model = make_pipeline(StandardScaler(), point).fit(X_train, y_train)
    mean, std = model.predict(X_test, return_std=True)
    return stats.norm.ppf(probabilities[:, None], mean, std)


def averaged_quantiles(X_train, y_train, X_test):
    model = make_pipeline(StandardScaler(), BayesianGPRegressor(random_state=0)).fit(
        X_train, y_train
    )
    return model.predict(X_test, return_quantiles=probabilities)[1]


methods = {"optimized (scikit-learn)": optimized_quantiles, "averaged by MCMC": averaged_quantiles}
excess = {name: [] for name in methods}
with warnings.catch_warnings():
    # Where a training set looks like pure noise to it, scikit-learn's optimum is at a bound.
    warnings.filterwarnings(
        "ignore", category=ConvergenceWarning, module="sklearn.gaussian_process"
    )
    for train, test in ShuffleSplit(10, train_size=30, random_state=0).split(X):
        for name, quantiles_of in methods.items():
            below = y[test] < quantiles_of(X[train], y[train], X[test])
            coverage = (below[::-1] & ~below)[:half].mean(axis=1)
            excess[name].append(100.0 * (coverage - nominal))
for name, points in excess.items():
    at = np.argmin(np.abs(nominal - 0.9))
    print(f"{name}: 90 % intervals contain {90.0 + np.mean(points, axis=0)[at]:.1f} %")

# %%
# Each thin line is one of ten random training sets. On average, both kinds of intervals contain
# fewer targets than they should, the optimized ones more so. Averaged intervals with a nominal
# coverage of 90 % contain about as many as they should.

fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
ax.axhline(0.0, color="k", linewidth=0.8)
for (name, points), color in zip(excess.items(), ("C1", "C0"), strict=True):
    ax.plot(100.0 * nominal, np.transpose(points), color=color, linewidth=0.6, alpha=0.5)
    ax.plot(100.0 * nominal, np.mean(points, axis=0), color=color, linewidth=3.0, label=name)
ax.set(
    title="Coverage of intervals after 30 training rows",
    xlabel="nominal coverage [%]",
    ylabel="coverage minus nominal coverage\n[percentage points]",
    ylim=(-23.0, 23.0),
)
ax.legend(title="bold: mean of the ten sets", loc="upper left")
plt.show()

# %%
# Outliers
# --------
# Disease progression against body mass index for 60 patients. In three targets the decimal point is
# lost, so they are ten times the true value. All other patients are used for testing. The scaled
# index has a standard deviation of one. The prior of the length-scale, with a median of about two,
# says that progression is a smooth function of the index.

X, y = load_diabetes(return_X_y=True, scaled=False)
bmi = X[:, 2:3]
train, test = train_test_split(np.arange(len(y)), train_size=60, random_state=0)
spoiled = train[:3]
y_seen = y.copy()
y_seen[spoiled] *= 10.0

grid = np.linspace(17.0, 43.0, 105)
fig, axes = plt.subplots(1, 2, figsize=(8, 4.6), sharey=True, layout="constrained")
for ax, likelihood in zip(axes, ("gaussian", "student_t"), strict=True):
    model = make_pipeline(
        StandardScaler(),
        BayesianGPRegressor(
            likelihood=likelihood,
            priors={"length_scale": stats.lognorm(0.5, scale=2.0)},
            random_state=0,
        ),
    ).fit(bmi[train], y_seen[train])
    density = model[-1].log_predictive_density(model[:-1].transform(bmi[test]), y[test])
    print(f"{likelihood}: log predictive density of a test patient {density.mean():.2f} on average")
    mean, (low, high) = model.predict(grid[:, None], return_quantiles=[0.05, 0.95])
    ax.plot(bmi[test], y[test], ".", color="0.75", label="test")
    ax.plot(bmi[train], y_seen[train], "k.", markersize=8, label="training")
    top = np.full(len(spoiled), 790.0)
    ax.plot(bmi[spoiled], top, "^", color="C3", label="spoiled, off the scale")
    ax.fill_between(grid, low, high, color="C0", alpha=0.25, label="90 % of new targets")
    ax.plot(grid, mean, color="C0", label="mean")
    ax.set(title=f'likelihood="{likelihood}"', xlabel="body mass index [kg/m²]")
    ax.set_ylim(-500.0, 820.0)
axes[0].set_ylabel("disease progression after a year")
axes[1].legend(loc="lower right", fontsize="small")
plt.show()
