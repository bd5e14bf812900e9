"""
Getting started
===============

This page takes about five minutes. Its code runs as it stands, and each block
is followed by its output. On your machine the last digits of the numbers can
differ.

A classifier
------------

The data are measurements of breast tumors, which come with scikit-learn. We use
two measurements, so that the result can be drawn, and train on sixty tumors:
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier

data = load_breast_cancer(as_frame=True)
X = data.data[["mean radius", "mean texture"]]
y = data.target_names[data.target]
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=60, stratify=y, random_state=0
)

model = make_pipeline(StandardScaler(), BayesianGPClassifier(random_state=0))
model.fit(X_train, y_train)
print(
    f"accuracy on {len(y_test)} other tumors: {model.score(X_test, y_test):.2f}"
)

# %%
# The estimator is used like any other classifier of scikit-learn. The
# ``StandardScaler`` gives all features a comparable scale, which the default
# kernel expects.
#
# Probabilities
# -------------
# Each row has one probability for each class:

print(model.classes_)
print(model.predict_proba(X_test[:3]).round(2))

# %%
# Each probability is an average over many Gaussian processes that are plausible
# given the training data. The figure shows the probability of
# "malignant" for all values of the two features. Near the white band both
# classes are about equally probable. The colors also become paler where there
# are no training data: the model does not claim to know the class of such
# tumors.

from sklearn.inspection import DecisionBoundaryDisplay

fig, ax = plt.subplots(figsize=(7, 4.8), layout="constrained")
display = DecisionBoundaryDisplay.from_estimator(
    model,
    X_train,
    response_method="predict_proba",
    class_of_interest="malignant",
    plot_method="pcolormesh",
    grid_resolution=80,
    eps=3.0,
    shading="gouraud",
    cmap="RdBu_r",
    vmin=0.0,
    vmax=1.0,
    ax=ax,
)
fig.colorbar(display.surface_, label='probability of "malignant"')
for name, color, marker in (("benign", "w", "o"), ("malignant", "k", "^")):
    chosen = X_train[y_train == name]
    ax.scatter(
        *chosen.T.values,
        color=color,
        marker=marker,
        edgecolor="0.5",
        label=name,
    )
ax.set_title("Probability that a tumor is malignant, from sixty training rows")
ax.legend(loc="upper left")
plt.show()

# %%
# The probabilities tell you which predictions to trust:

larger = model.predict_proba(X_test).max(axis=1)
correct = model.predict(X_test) == y_test
sure = larger > 0.9
for name, rows in {"probability above 0.9": sure, "others": ~sure}.items():
    share = 100 * correct[rows].mean()
    print(f"{name}: {rows.sum()} tumors, {share:.0f} % of them are correct")

# %%
# Did the chains converge?
# ------------------------
# The averages are computed by Markov chain Monte Carlo (MCMC). ``fit`` warns if
# the chains have not converged. There was no warning. You can also look at the
# numbers:

gp = model[-1]
print(gp.diagnostics_)

# %%
# ``R-hat`` compares four independent chains with each other: 1.00 is ideal, and
# a value slightly below it is as good. ``ESS`` is the effective sample size:
# the number of independent draws that would be as informative as the chains.
# The target is 400. You need not look at the rest; :doc:`/convergence` explains
# it.
#
# What has been inferred?
# -----------------------
# The *latent function* is the unknown function that determines the
# probabilities. Its variance and its length-scale, the hyper-parameters, are
# unknown as well, so the fit has inferred them:

print(gp.summary())

# %%
# ``theta_samples_`` has the draws themselves, as natural logarithms:

length_scale = np.exp(gp.theta_samples_[:, :, 1].ravel())
low, high = np.quantile(length_scale, [0.05, 0.95])
print(f"length-scale: 90 % of the draws between {low:.1f} and {high:.1f}")

# %%
# The histogram shows these draws, and the line shows the prior. Sixty rows
# leave the length-scale uncertain: it may well be twice or half as long as the
# median. A model with one optimized length-scale does not take this uncertainty
# into account.

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
edges = np.linspace(0.0, 12.0, 25)
ax.hist(
    length_scale,
    edges,
    density=True,
    color="C0",
    alpha=0.5,
    label="posterior draws",
)
grid = np.linspace(0.01, 12.0, 400)
ax.plot(grid, gp.priors_["length_scale"].pdf(grid), "k--", label="prior")
ax.axvspan(low, high, ymax=0.03, color="C0", label="90 % of the draws")
ax.set(
    title="Length-scale before and after the data",
    xlabel="length-scale, in standard deviations of a feature",
    ylabel="density",
    xlim=(0.0, 12.0),
)
ax.legend()
plt.show()

# %%
# A regression
# ------------
# The target is now a real number. The scale of its noise is inferred together
# with the other hyper-parameters:

from skgpmcmc import BayesianGPRegressor

rng = np.random.default_rng(0)
x = np.linspace(0.0, 10.0, 30)[:, None]
t = np.sin(x[:, 0]) + 0.2 * rng.standard_normal(30)
regressor = BayesianGPRegressor(random_state=0).fit(x, t)

at = [[2.0], [13.0]]
mean, (low, high) = regressor.predict(at, return_quantiles=[0.05, 0.95])
for k in range(2):
    interval = f"90 % interval {low[k]:.2f} to {high[k]:.2f}"
    print(f"x = {at[k][0]:.0f}: mean {mean[k]:.2f}, {interval}")

# %%
# The second point lies outside the range of the training data, so its interval
# is wide. The figure shows the intervals for all points: nine of ten new
# observations should lie in the band.

grid = np.linspace(-3.0, 14.0, 200)
mean, (low, high) = regressor.predict(
    grid[:, None], return_quantiles=[0.05, 0.95]
)
fig, ax = plt.subplots(figsize=(7, 4.0), layout="constrained")
ax.fill_between(
    grid, low, high, color="C0", alpha=0.25, label="90 % of new observations"
)
ax.plot(grid, mean, color="C0", label="mean")
ax.plot(grid, np.sin(grid), "k:", label="true function")
ax.plot(x[:, 0], t, "k.", label="training data")
ax.set(title="Regression with a 90 % band", xlabel="x", ylabel="observation")
ax.legend(loc="lower left", ncols=2)
plt.show()

# %%
# Where to go next
# ----------------
#
# * :doc:`tutorial`: a complete analysis, from the data to a decision.
# * :ref:`examples`: a figure for each kind of target.
# * :doc:`/models`: which estimator for which targets.
