"""
Tutorial
========

This tutorial is a complete analysis, from the data to a decision: which
patients should see a specialist? It uses scikit-learn's diabetes data: ten
measurements of each of 442 patients, and a measure of how far the disease had
progressed one year later.

1. The data
-----------

Suppose that we have the measurements of all patients, but the outcome of sixty
patients only.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=60, random_state=0
)
print(f"{len(y_train)} patients to learn from, {len(y_test)} to predict")

# %%
# The outcome of most patients lies between 50 and 300. It increases with the
# body mass index, but the index alone says little about a single patient:

fig, ax = plt.subplots(figsize=(7, 4.0), layout="constrained")
ax.plot(X_train["bmi"], y_train, "o", color="C0")
ax.set(
    title="The sixty patients whose outcome is known",
    xlabel="body mass index [kg/m²]",
    ylabel="progression after one year",
)
plt.show()

# %%
# 2. A model
# ----------
# Progression is a real number, so this is a regression. The scale of the noise,
# the variance of the function and its length-scale are inferred.

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor

model = make_pipeline(StandardScaler(), BayesianGPRegressor(random_state=0))
model.fit(X_train, y_train)
gp = model[-1]
print(gp.hyperparameter_names_)

# %%
# 3. Have the chains converged?
# -----------------------------
# There was no warning. R-hat should be at most 1.01, and the effective sample
# size (ESS) at least 400:

found = gp.diagnostics_
for k, name in enumerate(gp.hyperparameter_names_):
    print(f"{name:20} R-hat {found.r_hat[k]:.3f}, ESS {found.ess_bulk[k]:.0f}")

# %%
# The traces should all look like noise around the same level, and they do:

from skgpmcmc.displays import TraceDisplay

TraceDisplay.from_estimator(model)
plt.suptitle("The draws of the four chains")
plt.show()

# %%
# If there is a warning, read :doc:`/how_to_convergence` before you continue.
#
# 4. Are the intervals calibrated?
# --------------------------------
# Nine of ten new targets should lie between the 5 % and the 95 % quantile. Here
# we can check that, because we know the outcomes of the other patients:

mean, (low, high) = model.predict(X_test, return_quantiles=[0.05, 0.95])
inside = (low < y_test) & (y_test < high)
print(
    f"{100 * inside.mean():.0f} % of the outcomes lie in their 90 % intervals"
)

# %%
# The figure shows the intervals of all test patients, in the order of their
# predicted means. The outcomes outside their intervals are few, and they are
# spread over the whole range.

order = np.argsort(mean)
rank = np.arange(len(order))
truth, hit = y_test.to_numpy()[order], inside.to_numpy()[order]
fig, ax = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
ax.vlines(rank, low[order], high[order], color="C0", alpha=0.3, linewidth=1.0)
ax.plot(rank, mean[order], color="C0", label="mean and 90 % interval")
ax.plot(rank[hit], truth[hit], ".", color="0.3", label="outcome inside")
ax.plot(
    rank[~hit],
    truth[~hit],
    "^",
    color="C1",
    markersize=5,
    label="outcome outside",
)
ax.set(
    title="Predictions and outcomes of the test patients",
    xlabel="test patients, in the order of the predicted mean",
    ylabel="progression after one year",
)
ax.legend(loc="upper left")
plt.show()

# %%
# Without test rows, ``gp.loo()`` says how well each training row is predicted
# from the others.
#
# 5. Is another model better?
# ---------------------------
# Compare models to answer one clear question. Here the question is: do a few
# outliers disturb the fit? If so, Student-t noise predicts better.
# Leave-one-out cross-validation compares both models from the two fits, without
# a further fit. ``elpd_i`` is the log predictive density of each training row
# given the others; large values are better:

student = make_pipeline(
    StandardScaler(),
    BayesianGPRegressor(likelihood="student_t", random_state=0),
).fit(X_train, y_train)
difference = student[-1].loo().elpd_i - gp.loo().elpd_i
error = difference.std(ddof=1) * np.sqrt(len(difference))
print(f"Student-t minus Gaussian noise: {difference.sum():.1f} ± {error:.1f}")

# %%
# The difference is small compared with its standard error, so we keep the
# simpler model.
#
# 6. The decision
# ---------------
# Suppose that a specialist should see the patients whose progression will
# exceed 200. We need the probability of this event for each patient. Random
# draws of new targets answer this and similar questions. A pipeline has no
# ``sample_y``, so we call the method of its last step, with transformed rows:

Z_test = model[:-1].transform(X_test)
draws = gp.sample_y(Z_test, 1000, random_state=0)  # axes: patients, draws
probability = (draws > 200.0).mean(axis=1)

# %%
# If a missed severe case costs four times as much as an unnecessary visit,
# refer every patient whose probability is above 0.2. At 0.2 both decisions have
# the same expected cost, 4 · 0.2 = 1 - 0.2. We compare this rule with three
# others, by their cost for the test patients:

severe = y_test.to_numpy() > 200.0


def cost(refer):
    """Per patient: 4 for a missed severe case, 1 for an unnecessary visit."""
    return (4.0 * (severe & ~refer) + 1.0 * (refer & ~severe)).mean()


rules = {
    "probability above 0.2": probability > 0.2,
    "mean above 200": mean > 200.0,
    "refer everybody": np.full(len(severe), True),
    "refer nobody": np.full(len(severe), False),
}
for name, refer in rules.items():
    of_all, of_severe = 100 * refer.mean(), 100 * refer[severe].mean()
    print(
        f"{name:21} cost {cost(refer):.2f}, refers {of_all:3.0f} % of all "
        f"patients, {of_severe:3.0f} % of the severe cases"
    )

# %%
# A point prediction is not enough for this decision. The predictive mean
# exceeds 200 for few patients only, because means vary less than targets do.
# The left panel shows that the probabilities separate severe cases from others.
# The right panel shows the cost for each threshold: it is small near 0.2, the
# threshold that the costs imply.

# sphinx_gallery_thumbnail_number = 4
thresholds = np.linspace(0.0, 1.0, 101)
costs = [cost(probability > threshold) for threshold in thresholds]
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
edges = np.linspace(0.0, 1.0, 21)
left.hist(
    [probability[~severe], probability[severe]],
    edges,
    stacked=True,
    color=["C0", "C1"],
    label=["at most 200", "above 200"],
)
left.set(
    title="Predicted probabilities",
    xlabel="probability of exceeding 200",
    ylabel="patients",
)
left.legend(title="outcome")
right.plot(
    thresholds, costs, color="C0", label="probability above the threshold"
)
right.axhline(
    cost(mean > 200.0), color="C1", linestyle="--", label="mean above 200"
)
right.axvline(0.2, color="k", linestyle=":", label="0.2")
right.set(
    title="Cost of the decisions",
    xlabel="threshold of the probability",
    ylabel="cost per patient",
    ylim=(0.0, None),
)
right.legend()
plt.show()

# %%
# 7. Where to go next
# -------------------
#
# * For classes instead of numbers: :class:`~skgpmcmc.BayesianGPClassifier`.
#   For ordered classes: :class:`~skgpmcmc.BayesianGPOrdinalClassifier`.
# * :doc:`/choosing_priors` and :doc:`/how_to_kernel`: how to use what you
#   already know about the function.
# * :ref:`examples`: more data sets, with figures.
