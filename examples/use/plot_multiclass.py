"""
Three kinds of iris: probabilities where classes overlap
========================================================

Two of the three kinds of iris cannot be distinguished by their sepals only, so probabilities
matter more than labels. A classifier with optimized hyper-parameters is compared with classifiers
that average over all plausible ones: 60 flowers are used for training, 90 for testing.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier

# Ways to handle more than two classes.
METHODS = ("one_vs_rest", "softmax")

data = load_iris()
X, y = data.data[:, :2], data.target
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=60, stratify=y, random_state=0)

models = {"optimized (scikit-learn)": GaussianProcessClassifier(ConstantKernel() * RBF())}
for method in METHODS:
    models[f"averaged by MCMC, {method}"] = BayesianGPClassifier(multi_class=method, random_state=0)

# %%
# Maps mix the colors of the three kinds in proportion to their probabilities. Gray means that all
# kinds are about equally probable, as far from all flowers. Where two kinds overlap, their colors
# mix. Where all flowers nearby are of one kind, averaging is more confident, and its smaller log
# loss on the test flowers shows that this is justified.

colors = np.array([[0.9, 0.6, 0.0], [0.0, 0.45, 0.7], [0.8, 0.3, 0.6]])
markers = "os^"
x0, x1 = np.linspace(3.8, 8.5, 95), np.linspace(1.5, 5.0, 71)
extent = (x0[0], x0[-1], x1[0], x1[-1])
grid = np.stack(np.meshgrid(x0, x1), axis=-1)

fig, axes = plt.subplots(2, 2, figsize=(8, 7.5), layout="constrained")
*maps, curves = axes.flat
for (name, model), ax in zip(models.items(), maps, strict=True):
    pipeline = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
    image = pipeline.predict_proba(grid.reshape(-1, 2)) @ colors
    image = image.reshape(*grid.shape[:2], 3)
    ax.imshow(image, extent=extent, origin="lower", aspect="auto", interpolation="bilinear")
    for label, kind in enumerate(data.target_names):
        rows = X_train[y_train == label].T
        ax.scatter(*rows, color=colors[label], marker=markers[label], edgecolor="w", label=kind)
    ax.set(title=name, xlabel="sepal length [cm]", ylabel="sepal width [cm]")

    proba = pipeline.predict_proba(X_test)
    loss = log_loss(y_test, proba)
    accuracy = accuracy_score(y_test, proba.argmax(axis=1))
    print(f"{name}: log loss {loss:.3f}, accuracy {accuracy:.3f}")
    of_truth = np.sort(proba[np.arange(len(y_test)), y_test])
    share = (np.arange(len(y_test)) + 0.5) / len(y_test)
    curves.plot(of_truth, share, label=f"{name}\nlog loss {loss:.2f}")
maps[0].legend(loc="upper right", facecolor="0.4", labelcolor="w")
curves.set(
    title="test flowers",
    xlabel="predicted probability of the true kind",
    ylabel="share of flowers with a smaller one",
    xlim=(0.0, 1.0),
    ylim=(0.0, 1.0),
)
curves.legend(loc="upper left")
plt.show()
