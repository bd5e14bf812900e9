"""
How far will the disease progress? Ordered classes
==================================================

Physicians often record grades, not numbers. Here the progression of diabetes after one year is
known in five grades only, from 1 (least) to 5 (most), and is predicted from ten measurements. An
ordinal model takes into account that "4 instead of 5" is a smaller mistake than "1 instead of 5".
It has one latent function. The grade is given by the interval between two thresholds in which the
function lies, and the thresholds are inferred as well.

Data: the diabetes data of scikit-learn, 442 patients (B. Efron, T. Hastie, I. Johnstone and R.
Tibshirani, 2004, Least angle regression, Annals of Statistics 32).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPOrdinalClassifier

# %%
# The grades are computed from the numbers of the data set. 150 patients are used for training, 100
# for testing.

X, progression = load_diabetes(return_X_y=True)
y = 1 + np.searchsorted([75.0, 120.0, 180.0, 240.0], progression)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=150, test_size=100, stratify=y, random_state=0
)
model = make_pipeline(
    StandardScaler(),
    BayesianGPOrdinalClassifier(random_state=0),
).fit(X_train, y_train)
gp = model[-1]
print(gp.diagnostics_)

# %%
# Predicting the most probable class gives the fewest errors, predicting the median class the
# smallest absolute error. A useful model must be better than "always the most frequent class".

proba = model.predict_proba(X_test)
guesses = {
    "always the most frequent class": np.full(len(y_test), np.bincount(y_train).argmax()),
    "most probable class": model.predict(X_test),
    "median class": gp.classes_[(proba.cumsum(axis=1) < 0.5).sum(axis=1)],
}
for name, guess in guesses.items():
    error = np.abs(guess - y_test)
    print(f"{name:31s} zero-one error {np.mean(error > 0):.3f}, absolute {error.mean():.3f}")
Z = model[:-1].transform(X_test)
print(
    f"log probability of the true class, average {gp.log_predictive_density(Z, y_test).mean():.3f}"
)

# %%
# Draws of the thresholds: the first one is sampled directly, the others through the logs of the
# gaps between them. Adding the same number to f and to all thresholds does not change any
# probability, so their common level is very uncertain. Only the position of f relative to the
# thresholds matters: for each draw, we subtract the middle of the thresholds.

first = gp.hyperparameter_names_.index("threshold")
draws = gp.theta_samples_[:, :, first:].reshape(-1, len(gp.classes_) - 1)
thresholds = np.cumsum(np.column_stack([draws[:, :1], np.exp(draws[:, 1:])]), axis=1)
middle = thresholds.mean(axis=1, keepdims=True)
latent = gp.latent_samples_.reshape(-1, len(y_train)) - middle
thresholds = thresholds - middle

colors = plt.colormaps["plasma"](np.linspace(0.0, 0.85, len(gp.classes_)))
fig, axes = plt.subplot_mosaic(
    [["latent", "thresholds"], ["proba", "proba"]],
    figsize=(8, 7),
    width_ratios=[4.0, 1.0],
    height_ratios=[1.4, 1.0],
    layout="constrained",
)
ax = axes["latent"]
rank = latent.mean(axis=0).argsort().argsort()
for k, label in enumerate(gp.classes_):
    rows = y_train == label
    low, center, high = np.quantile(latent[:, rows], [0.05, 0.5, 0.95], axis=0)
    ax.errorbar(
        rank[rows],
        center,
        [center - low, high - center],
        fmt="o",
        markersize=4,
        linewidth=1.0,
        color=colors[k],
        label=f"grade {label}",
    )
ax.set(
    title="Training patients",
    xlabel="rank of the training patient",
    ylabel="f - middle of the thresholds",
)
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
ax.set(title="Thresholds", xlabel="density")

ax = axes["proba"]
order = np.argsort(proba @ gp.classes_)
place = np.arange(len(y_test))
image = ax.pcolormesh(place, gp.classes_, proba[order].T, cmap="Blues", vmin=0.0, vmax=1.0)
ax.plot(place, y_test[order], "o", color="C1", markersize=5, label="true grade")
ax.set(
    title="Test patients",
    xlabel="test patients, in the order of the expected grade",
    ylabel="grade",
    yticks=gp.classes_,
)
ax.legend(loc="upper left")
fig.colorbar(image, ax=ax, label="predictive probability", pad=0.01)
plt.show()
