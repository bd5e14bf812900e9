"""
Averaging and optimizing: twenty flowers of two kinds
=====================================================

Sepals say little about whether an iris is a versicolor or a virginica, and twenty flowers leave the
hyper-parameters of a classifier uncertain. scikit-learn's `GaussianProcessClassifier` uses their
most likely values. `BayesianGPClassifier` averages over all plausible ones.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier

data = load_iris()
X, y = data.data[50:, :2], data.target[50:] == 2  # True: virginica

# %%
# Ten random samples of twenty flowers are used for training, one after the other. The other eighty
# flowers are used for testing. Both models have the same kernel. scikit-learn's optimizer starts
# from four points. If it ends at a bound of the kernel, scikit-learn's warning is not shown: the
# bounds are so far out that others would make no difference.

warnings.filterwarnings("ignore", "The optimal value found", ConvergenceWarning)
kernel = ConstantKernel(1.0, (1e-10, 1e10)) * RBF(1.0, (1e-5, 1e5))
models = {
    "optimized (scikit-learn)": make_pipeline(
        StandardScaler(),
        GaussianProcessClassifier(kernel, n_restarts_optimizer=3, random_state=0),
    ),
    "averaged (skgpmcmc)": make_pipeline(StandardScaler(), BayesianGPClassifier(random_state=0)),
}
grid = np.stack(np.meshgrid(np.linspace(4.5, 8.3, 77), np.linspace(1.8, 4.1, 70)), axis=-1)
samples = StratifiedShuffleSplit(n_splits=10, train_size=20, random_state=0)

losses = {name: [] for name in models}
maps = {}
for train, test in samples.split(X, y):
    for name, model in models.items():
        model.fit(X[train], y[train])
        losses[name].append(log_loss(y[test], model.predict_proba(X[test])))
        if name not in maps:  # the first sample
            maps[name] = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2])
            shown = train

for name, values in losses.items():
    print(f"{name}: mean log loss {np.mean(values):.3f}")
optimized, averaged = losses.values()
print(f"averaging has the smaller log loss in {np.sum(np.less(averaged, optimized))} of 10 samples")

# %%
# The maps show the probability of a virginica after the first sample, and the range of the
# probabilities in the map. On the right, each line is one sample. A classifier that gives each
# flower the probability one half has the log loss :math:`\log 2 \approx 0.69`.

colors = LinearSegmentedColormap.from_list("kinds", ["#0072b2", "#ffffff", "#d55e00"])
fig, axes = plt.subplots(
    1, 3, figsize=(8, 4), layout="constrained", width_ratios=(3, 3, 2), dpi=150
)
for ax, (name, probability) in zip(axes, maps.items(), strict=False):
    image = ax.pcolormesh(*grid.transpose(2, 0, 1), probability, cmap=colors, vmin=0.2, vmax=0.8)
    for is_virginica, marker, kind in ((False, "o", "versicolor"), (True, "^", "virginica")):
        rows = X[shown][y[shown] == is_virginica]
        color = colors(float(is_virginica))
        ax.scatter(*rows.T, marker=marker, color=color, edgecolor="k", label=kind)
    extremes = f"from {probability.min():.2f} to {probability.max():.2f}"
    ax.text(0.97, 0.04, extremes, transform=ax.transAxes, ha="right")
    ax.set(title=name, xlabel="sepal length [cm]")
axes[0].set_ylabel("sepal width [cm]")
axes[0].legend(loc="upper left", fontsize="small")
axes[1].tick_params(labelleft=False)
label = "probability of a virginica"
fig.colorbar(image, ax=axes[:2], location="bottom", label=label, shrink=0.7, aspect=30)

axes[2].plot([0, 1], [optimized, averaged], "o-", color="0.5", markersize=4)
axes[2].axhline(np.log(2.0), color="k", linestyle=":", linewidth=1)
axes[2].set_xticks([0, 1], ["optimized", "averaged"])
axes[2].set(title="ten samples", ylabel="log loss of test flowers", xlim=(-0.4, 1.4))
plt.show()

# %%
# Why do the maps differ? In the first sample the most likely variance of the latent function is
# small and the most likely length-scale is short, so that all probabilities are close to one half:
# at the optimum, sepals say hardly anything about the kind. With a larger variance and a longer
# length-scale they say much, and the observed kinds are more than half as likely as at the optimum:

point = models["optimized (scikit-learn)"].fit(X[shown], y[shown])[-1]
other = ConstantKernel(1.0) * RBF(2.0)
ratio = np.exp(point.log_marginal_likelihood(other.theta) - point.log_marginal_likelihood_value_)
print(f"optimum: {point.kernel_}")
print(f"likelihood of {other}, relative to the optimum: {ratio:.2f}")

# %%
# The average includes such values. What to conclude: with few rows and overlapping classes one
# optimum can be a matter of chance, and averaging protects against it. With more rows the two
# models become more and more alike (:ref:`when-it-pays`).
