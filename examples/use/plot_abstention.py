"""
Which predictions to trust: the abstention curve
================================================

A classifier that may abstain rejects the rows whose predictive probability is nearest to one
half. The abstention curve shows the accuracy on the rows that it keeps. The capacity score in the
legend is the area under this curve divided by its width; it favors underconfident probabilities,
whose curves extend further to the right. The selective accuracy, which is printed, depends only on
the decisions and on the order of the confidences.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.baselines import EPMLClassifier, PlattSVC
from skgpmcmc.displays import AbstentionCurveDisplay
from skgpmcmc.metrics import selective_accuracy_scorer

# %%
# Sixty rows are used for training, the others for testing. The scaler is part of every model: the
# default priors assume that features have comparable scales.

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=60, stratify=y, random_state=0)
models = {
    "Bayesian GP": BayesianGPClassifier(random_state=0),
    "GP, type-II maximum likelihood": EPMLClassifier(random_state=0),
    "SVM, Platt scaling": PlattSVC(C=[0.1, 1.0, 10.0], gamma=[0.01, 0.1], random_state=0),
}

# %%
# Each display draws on the given axes.

fig, axes = plt.subplots(2, 1, figsize=(7, 7.5), sharex=True, layout="constrained")
for name, model in models.items():
    pipeline = make_pipeline(StandardScaler(), model).fit(X_train, y_train)
    for ax, score in zip(axes, ("accuracy", "auc"), strict=True):
        AbstentionCurveDisplay.from_estimator(
            pipeline, X_test, y_test, score=score, name=name, ax=ax
        )
    print(f"{name}: selective accuracy {selective_accuracy_scorer(pipeline, X_test, y_test):.3f}")

axes[0].set(title="Accuracy of the rows that a classifier keeps", xlabel="")
axes[1].set_title("Area under the ROC curve (AUC) of these rows")
print(models["Bayesian GP"].diagnostics_)
plt.show()
