"""
How fast is this computer? Ordered classes
==========================================

The performance of 209 computers of the 1980s, in five classes from slow to fast, is predicted from
cycle time, memory, cache and channels. Three of four are in the lowest class. An ordinal model
knows that "4 instead of 5" is a smaller mistake than "1 instead of 5": one latent function decides,
and classes are what lies between thresholds, which are inferred with it.

Data: machine CPU, with classes and training and test sets as in W. Chu and Z. Ghahramani (2005),
Gaussian processes for ordinal regression, Journal of Machine Learning Research 6; from the UCI
repository (Computer Hardware).
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skgpmcmc import BayesianGPOrdinalClassifier

# REDUCED=1 makes the script fast enough for a test; its chains are too short to be trusted.
reduced = os.environ.get("REDUCED") == "1"
n_chains, n_draws, n_rows = (2, 100, 60) if reduced else (4, 500, None)

folder = Path(os.environ.get("SKGPMCMC_DATA", ""))
if not (folder / "chu_machine_cpu.csv").is_file():
    sys.exit(
        "chu_machine_cpu.csv is not here. Set SKGPMCMC_DATA to the folder that holds it, and "
        "chu_machine_cpu_splits.csv: W. Chu's ordinal benchmark, columns myct, mmin, mmax, "
        "cach, chmin, chmax, y_continuous and target (1 to 5), and split01 to split20, with T for "
        "training and E for test."
    )

# %%
# The first of Chu's twenty splits: 150 computers for training. The features span orders of
# magnitude, and their logs do not. The last but one column is what the classes were made of, so it
# stays away.

table = np.genfromtxt(folder / "chu_machine_cpu.csv", delimiter=",", skip_header=1)
X, y = table[:, :6], table[:, -1].astype(int)
splits = np.genfromtxt(
    folder / "chu_machine_cpu_splits.csv", delimiter=",", skip_header=1, dtype=str
)
train, test = (np.flatnonzero(splits[:, 0] == letter) for letter in "TE")
train = train[:n_rows]

model = make_pipeline(
    FunctionTransformer(np.log1p),
    StandardScaler(),
    BayesianGPOrdinalClassifier(n_chains=n_chains, n_draws=n_draws, random_state=0),
).fit(X[train], y[train])
gp = model[-1]
print(gp.diagnostics_)

# %%
# The most probable class makes the fewest mistakes, the median class the smallest ones. "Always the
# most frequent class" is what a useful model has to beat.

proba = model.predict_proba(X[test])
guesses = {
    "always the most frequent class": np.full(len(test), np.bincount(y[train]).argmax()),
    "most probable class": model.predict(X[test]),
    "median class": gp.classes_[(proba.cumsum(axis=1) < 0.5).sum(axis=1)],
}
for name, guess in guesses.items():
    error = np.abs(guess - y[test])
    print(f"{name:31s} zero-one error {np.mean(error > 0):.3f}, absolute {error.mean():.3f}")
Z = model[:-1].transform(X[test])
print(
    f"log probability of the true class, average {gp.log_predictive_density(Z, y[test]).mean():.3f}"
)

# %%
# Draws of the thresholds: the first one is a number, the others follow at gaps whose logs are
# sampled. Adding the same to f and to all thresholds changes no probability, so that their common
# level is hardly known. What matters is where f lies between thresholds: draw by draw, the
# difference from their middle.

first = gp.hyperparameter_names_.index("threshold")
draws = gp.theta_samples_[:, :, first:].reshape(-1, len(gp.classes_) - 1)
thresholds = np.cumsum(np.column_stack([draws[:, :1], np.exp(draws[:, 1:])]), axis=1)
middle = thresholds.mean(axis=1, keepdims=True)
latent = gp.latent_samples_.reshape(-1, len(train)) - middle
thresholds = thresholds - middle

colors = plt.colormaps["plasma"](np.linspace(0.0, 0.85, len(gp.classes_)))
fig, axes = plt.subplot_mosaic(
    [["latent", "thresholds"], ["proba", "proba"]],
    figsize=(11, 8),
    width_ratios=[4.0, 1.0],
    height_ratios=[1.4, 1.0],
    layout="constrained",
)
ax = axes["latent"]
rank = latent.mean(axis=0).argsort().argsort()
for k, label in enumerate(gp.classes_):
    rows = y[train] == label
    low, center, high = np.quantile(latent[:, rows], [0.05, 0.5, 0.95], axis=0)
    ax.errorbar(
        rank[rows],
        center,
        [center - low, high - center],
        fmt="o",
        markersize=4,
        linewidth=1.0,
        color=colors[k],
        label=f"class {label}",
    )
ax.set(xlabel="rank of the training computer", ylabel="f - middle of the thresholds")
ax.legend(loc="lower right", title="median of f, 90 % interval")

ax = axes["thresholds"]
ax.sharey(axes["latent"])
for k, ones in enumerate(thresholds.T):
    axes["latent"].axhline(ones.mean(), color="0.6", linewidth=0.8, zorder=0)
    ax.hist(ones, bins=40, density=True, orientation="horizontal", color="0.6")
    between = " | ".join(str(label) for label in gp.classes_[k : k + 2])
    ax.annotate(between, (0.96, ones.mean()), xycoords=("axes fraction", "data"), ha="right")
ax.set_xlim(right=1.5 * ax.get_xlim()[1])
ax.tick_params(labelleft=False)
ax.set_xlabel("density of thresholds")

ax = axes["proba"]
order = np.argsort(proba @ gp.classes_)
place = np.arange(len(test))
image = ax.pcolormesh(place, gp.classes_, proba[order].T, cmap="Blues", vmin=0.0, vmax=1.0)
ax.plot(place, y[test][order], "o", color="C1", markersize=5, label="true class")
ax.set(xlabel="test computers, by expected class", ylabel="class", yticks=gp.classes_)
ax.legend(loc="upper left")
fig.colorbar(image, ax=ax, label="predictive probability", pad=0.01)
plt.show()
