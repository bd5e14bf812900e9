"""
A likelihood of your own
========================

The complementary log-log link, P(y = +1 | f) = 1 - exp(-exp(f)), suits events that happen at a
rate exp(f): the class is +1 if at least one event happened in the interval of observation. It is
not symmetric. A likelihood is a small class with four methods and two attributes; the rest of the
package can use it without changes.
"""

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.likelihoods import Derivatives, Likelihood
from skgpmcmc.testing import check_likelihood

# %%
# The class
# ---------
# Classes are encoded as -1.0 and +1.0, and every method is elementwise. Chains try extreme
# hyper-parameters, so an f of a few thousand must not overflow: exp(40) is large enough to replace
# infinity. The minimum keeps rounding errors from making the second derivative positive.


def rate_of(f):
    return np.exp(np.clip(f, -600.0, 40.0))


@dataclass(frozen=True)
class ComplementaryLogLog(Likelihood):
    """Probability 1 - exp(-exp(f)) of the class +1."""

    name = "cloglog"
    log_concave = True

    def log_prob(self, y, f):
        rate = rate_of(f)
        return np.where(y > 0, np.log(-np.expm1(-rate)), -rate)

    def derivatives(self, y, f):
        rate = rate_of(f)
        first = rate * np.exp(-rate) / -np.expm1(-rate)
        second = np.minimum(first * (1.0 - rate - first), 0.0)
        third = second * (1.0 - rate - first) - first * (rate + second)
        return Derivatives(*(np.where(y > 0, d, -rate) for d in (first, second, third)))

    def fisher_information(self, f):
        rate = rate_of(f)
        return rate**2 * np.exp(-rate) / -np.expm1(-rate)

    def sample(self, f, rng):
        rate = rate_of(f)
        return np.where(rng.random(np.shape(f)) < -np.expm1(-rate), 1.0, -1.0)


# %%
# Testing it
# ----------
# The check compares derivatives with finite differences, moments with quadrature, and samples with
# identities that hold for every density. It raises an AssertionError that says what is wrong.

check_likelihood(ComplementaryLogLog(), [-1.0, 1.0])

# %%
# Using it
# --------
# The data are simulated with this link. For comparison, the probit link is fitted to the same data.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(-3.0, 3.0, size=80))
grid = np.linspace(-4.0, 4.0, 201)


def truth(x):
    return 1.5 * np.sin(1.2 * x) - 0.5


y = ComplementaryLogLog().sample(truth(x), rng)

plt.figure(figsize=(7, 4.5), layout="constrained")
for likelihood in (ComplementaryLogLog(), "probit"):
    model = BayesianGPClassifier(likelihood=likelihood, random_state=0).fit(x[:, None], y)
    label = getattr(likelihood, "name", likelihood)
    plt.plot(grid, model.predict_proba(grid[:, None])[:, 1], label=label)
plt.plot(grid, -np.expm1(-np.exp(truth(grid))), "k:", label="truth")
plt.plot(x, (y > 0).astype(float), "k|")
plt.title("Complementary log-log and probit links")
plt.xlabel("x")
plt.ylabel("probability of +1")
plt.legend()
plt.show()
