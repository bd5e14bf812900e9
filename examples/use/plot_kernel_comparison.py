"""
Which kernel? Evidence, leave-one-out and test rows
===================================================

Four kernels are fitted to the same 100 rows and compared in three ways.

* The *evidence* is the probability of all training classes under a model and its priors, before any
  class is observed. It rewards priors with much mass on functions that fit the data.
* *Leave-one-out* measures how well one row is predicted from all other rows.
* The *log loss* of test rows measures how well the model predicts rows that were not used at all.

The three need not agree. A kernel with one length-scale per column (ARD) spreads its prior over
many functions, most of which are wrong.

Data: the breast cancer data of scikit-learn, the ten columns of means.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.model_selection import compare_evidence

# %%
# 100 rows are used for training, the others for testing.

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X[:, :10], y, train_size=100, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
X, X_test = scaler.transform(X), scaler.transform(X_test)

# %%
# All four kernels have a variance and the default priors. The evidence is estimated by importance
# sampling from a density that is fitted to the draws of theta; its standard error is reported.

kernels = {
    "RBF": RBF(),
    "RBF, ARD": RBF(np.ones(X.shape[1])),
    "Matern 3/2": Matern(nu=1.5),
    "rational quadratic": RationalQuadratic(),
}
models = {
    name: BayesianGPClassifier(ConstantKernel() * kernel, random_state=0).fit(X, y)
    for name, kernel in kernels.items()
}
comparison = compare_evidence(models)
print(comparison)

# %%
# The log loss of test rows. The errors of elpd and of the loss are standard errors over rows.

losses = {}
for name, model in models.items():
    probability = model.predict_proba(X_test)
    own = -np.log(probability[np.arange(len(y_test)), np.searchsorted(model.classes_, y_test)])
    losses[name] = log_loss(y_test, probability), own.std(ddof=1) / np.sqrt(len(own))
    print(f"{name:20} test log loss {losses[name][0]:.3f} +- {losses[name][1]:.3f}")

# %%
# In each panel, better models are further to the right.

names = [record.name for record in comparison.records]
columns = {
    "log evidence": [(r.log_evidence, r.log_evidence_error) for r in comparison.records],
    "elpd, leave-one-out": [(r.elpd, r.elpd_error) for r in comparison.records],
    "minus test log loss": [(-losses[name][0], losses[name][1]) for name in names],
}
fig, axes = plt.subplots(1, 3, figsize=(8, 2.6), sharey=True, layout="constrained")
for axis, (title, values) in zip(axes, columns.items(), strict=True):
    middle, error = np.transpose(values)
    axis.errorbar(middle, names, xerr=error, fmt="o", capsize=3)
    axis.set_xlabel(title)
    axis.margins(x=0.15, y=0.2)
axes[0].invert_yaxis()
fig.suptitle("Four kernels: estimates and their standard errors")
plt.show()

# %%
# Instead of a choice, predictions can be an average over kernels, weighted by their posterior
# probabilities. ``kernel="auto"`` is a list of three: an RBF kernel, a Matern kernel, and the sum
# of an RBF kernel and a linear one. A list of your own is as good.

average = BayesianGPClassifier(kernel="auto", random_state=0).fit(X, y)
print("weights:", average.kernel_weights_.round(2))
print(f"test log loss {log_loss(y_test, average.predict_proba(X_test)):.3f}")
