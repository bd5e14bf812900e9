"""
When was the market nervous? Volatility over time
=================================================

Daily returns of an exchange rate have a mean near zero; what changes is their standard deviation,
the *volatility*. In this model its logarithm is a Gaussian process over time. The returns are
simulated, so the estimate can be compared with the truth: a low volatility that increases slowly,
and a sudden shock in the middle that decays.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgpmcmc import BayesianGPVolatilityRegressor

# %%
# Returns in per cent. Their standard deviation rises from 0.3 to 0.6, and jumps by the shock to
# about 1.8.

rng = np.random.default_rng(0)
n_days = 300
days = np.arange(n_days)
shock = n_days // 2
after = np.where(days >= shock, np.exp(-(days - shock) / 25.0), 0.0)
truth = 0.3 + 0.3 * days / n_days + 1.3 * after
returns = truth * rng.standard_normal(n_days)

# %%
# Time is in months of 21 trading days. Volatility changes more abruptly than functions with an RBF
# kernel, so we use a Matern kernel. The prior of its length-scale has a median of two months.
# Sampling stops at 400 effective draws.

months = days[:, None] / 21.0
model = BayesianGPVolatilityRegressor(
    kernel=ConstantKernel() * Matern(nu=1.5),
    priors={"length_scale": stats.lognorm(1.0, scale=2.0)},
    random_state=0,
).fit(months, returns)
print(model.diagnostics_)

# %%
# The leave-one-out density of each day is compared with the density under a normal distribution
# with a constant standard deviation. If the Pareto k of a day is above 0.7, its density is only
# estimated roughly; the figure marks such days.

loo = model.loo()
print(loo)
others = (np.sum(returns**2) - returns**2) / (len(returns) - 1)
gain = loo.elpd_i - stats.norm.logpdf(returns, scale=np.sqrt(others))
print(f"gain over a constant volatility: {gain.sum():.1f} in {len(returns)} days")

# %%
# A moving standard deviation has no interval. It reacts with a delay, and it changes abruptly when
# an extreme day leaves its window. The posterior has a mean, and a band that should contain the
# truth on nine days of ten. At the shock it does not: functions with this kernel are continuous, so
# the jump within a day is spread over a few weeks.

volatility = np.exp(model.latent_samples_).reshape(-1, n_days)
low, high = np.quantile(volatility, [0.05, 0.95], axis=0)
held = np.mean((low < truth) & (truth < high))
print(f"days whose true volatility lies in the 90 % band: {held:.0%}")
window = 20
moving = np.sqrt(np.convolve(returns**2, np.full(window, 1.0 / window), mode="valid"))

fig, (top, middle, bottom) = plt.subplots(
    3, 1, figsize=(8, 7.5), sharex=True, height_ratios=[1.0, 1.5, 0.8], layout="constrained"
)
top.vlines(days, 0.0, returns, color="0.4", linewidth=1.0)
top.set_title("Daily returns")
top.set_ylabel("return [%]")
middle.fill_between(days, low, high, color="C0", alpha=0.3, label="90 % credible band")
middle.plot(days, model.predict(months), color="C0", label="posterior mean")
middle.plot(days, truth, "k:", label="truth")
middle.plot(
    days[window - 1 :], moving, color="C1", linewidth=1.0, label=f"of the last {window} days"
)
middle.set_title("Their standard deviation (volatility)")
middle.set_ylabel("volatility [%]")
middle.set_ylim(bottom=0.0)
middle.legend(loc="upper left")
gained = np.cumsum(gain)
rough = loo.pareto_k > 0.7
bottom.set_title("Gain over a constant volatility")
bottom.plot(days, gained, color="C0")
bottom.plot(days[rough], gained[rough], "o", color="C3", label="day with Pareto k > 0.7")
bottom.axhline(0.0, color="k", linewidth=0.8)
bottom.set(xlabel="trading day", ylabel="sum of the gains\nin log density")
if rough.any():
    bottom.legend(loc="upper left")
plt.show()
