"""
Groups: k of n with a random effect
===================================

In 15 herds of zebu cattle, new cases of a disease were counted in four periods. Each row has the
number of cases among the animals at risk. Periods differ, and so do herds: a herd that had many
cases in one period tends to have many in others. A model needs both.

Data: M. Lesnoff et al. (2004), Within-herd spread of contagious bovine pleuropneumonia in Ethiopian
highlands, Preventive Veterinary Medicine 64; data set ``cbpp`` of the R package lme4.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel

from skgpmcmc import BayesianGPBinomialRegressor
from skgpmcmc.kernels import Categorical

HERD = """
    1 1 1 1 2 2 2 3 3 3 3 4 4 4 4 5 5 5 5 6 6 6 6 7 7 7 7 8 9 9 9 9 10 10 10 10 11 11 11 11 12 12 12
    12 13 13 13 13 14 14 14 14 15 15 15 15
"""
PERIOD = """
    1 2 3 4 1 2 3 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4
    1 2 3 4 1 2 3 4
"""
ANIMALS = """
    14 12 9 5 22 18 21 22 16 16 20 10 10 9 6 18 25 24 4 17 17 18 20 16 10 9 5 34 9 6 8 6 22 22 18 22
    25 27 22 22 10 8 6 5 21 24 19 23 19 2 3 2 19 15 15 15
"""
CASES = """
    2 3 4 0 3 1 1 8 2 0 2 2 0 2 0 5 0 0 1 3 0 0 1 8 1 3 0 12 2 0 0 0 1 1 0 2 0 5 3 1 2 1 0 0 1 2 0 0
    11 0 0 0 1 1 1 0
"""

herd, period, animals, cases = (
    np.array(text.split(), dtype=int) for text in (HERD, PERIOD, ANIMALS, CASES)
)
X = np.column_stack([herd, period])

# %%
# The model
# ---------
# The log odds of a case are the sum of a function of the period and one of the herd. Periods have
# something in common, which is the overall level: their correlation is inferred. Herds are
# independent of one another, as their distance is infinite and fixed: this is what is called a
# random intercept. The variances of both functions are inferred too, and averaged over.

kernel = ConstantKernel() * Categorical(1) + ConstantKernel() * Categorical(0, np.inf, "fixed")
model = BayesianGPBinomialRegressor(kernel, likelihood="binomial_logit", random_state=0)
model.fit(X, cases, trials=animals)
print(model.summary())

# %%
# A new herd
# ----------
# A herd that was not among the data is as far as any other from the known ones. Predictions for it
# have the whole variation between herds.

new = np.column_stack([np.full(4, 99), np.arange(1, 5)])
rate, (low, high) = model.predict(new, return_quantiles=[0.05, 0.95])
for k in range(4):
    print(f"period {k + 1}: rate {rate[k]:.2f}, 90 % interval {low[k]:.2f} to {high[k]:.2f}")

# %%
# The effects of herds
# --------------------
# ``terms`` selects one term of the sum of kernels. Effects are drawn towards zero, and the more so
# the fewer animals a herd has.

herds = np.unique(herd)
effect, variance = model.latent_mean_and_variance(
    np.column_stack([herds, np.ones_like(herds)]), terms=[1]
)
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
shift = 0.3 * (herd - herds.mean()) / len(herds)
left.scatter(
    period + shift, cases / animals, s=3 * animals, color="0.6", label="herds, area: animals"
)
left.errorbar(
    new[:, 1], rate, [rate - low, high - rate], fmt="o", color="C0", capsize=3, label="a new herd"
)
left.set(title="Rate of new cases", xlabel="period", ylabel="cases per animal", xticks=range(1, 5))
left.legend(fontsize="small")
order = np.argsort(effect)
right.errorbar(
    np.arange(len(herds)), effect[order], 1.64 * np.sqrt(variance[order]), fmt="o", color="C0"
)
right.axhline(0.0, color="0.6", lw=0.8)
right.set(title="Effects of herds, with 90 % intervals", xlabel="herd", ylabel="log odds")
right.set_xticks(np.arange(len(herds)), herds[order])
plt.show()
