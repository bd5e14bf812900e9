"""
When did coal mines become safer? A rate that changes over time
===============================================================

The data are the 191 explosions in British coal mines that killed ten or more people, from March
1851 to March 1962. Classical analyses look for one change point. A log-Gaussian Cox process assumes
only that the log of the rate is a smooth function of time; its smoothness is inferred as well.

Data: R. G. Jarrett (1979), A note on the intervals between coal-mining disasters, Biometrika 66.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from skgpmcmc import BayesianGPPoissonRegressor

# The count of each year from 1851 on, one digit each.
counts_by_year = (
    "45410434063340263354531441553425223421322111130010110031"
    "03220111010100021000110233112111123300014000100000100101"
)
disasters = np.array([int(digit) for digit in counts_by_year])
years = 1851 + np.arange(len(disasters))
exposure = np.ones(len(years))
exposure[[0, -1]] = 0.80, 0.22  # from March 15, and until March 22

# %%
# Time is in decades, which makes the prior of the length-scale easy to interpret: rates are
# correlated over one or two decades, up to a factor of three. The variance has the default prior.


def decades(year):
    return (np.asarray(year, dtype=float)[:, None] - 1900.0) / 10.0


model = BayesianGPPoissonRegressor(
    priors={"length_scale": stats.lognorm(0.7, scale=1.5)},
    random_state=0,
).fit(decades(years), disasters, exposure=exposure)
print(model.diagnostics_)

# %%
# Draws of the log rate are whole functions. So any function of the rate has a posterior
# distribution: here, how much the rate decreased, and in which year it decreased fastest. In
# disasters per year, the fastest decrease was most likely between 1875 and 1900. In per cent of the
# current rate, it may also have been about 1947, when the mines were nationalized.

log_rate = model.latent_samples_.reshape(-1, len(years))
rate = np.exp(log_rate)
ratio = rate[:, years < 1890].mean(axis=1) / rate[:, years >= 1890].mean(axis=1)
low, middle, high = np.quantile(ratio, [0.05, 0.5, 0.95])
print(f"rate before 1890 / rate since: {middle:.1f} (90 % between {low:.1f} and {high:.1f})")
between = 0.5 * (years[1:] + years[:-1])
steepest = between[np.diff(rate, axis=1).argmin(axis=1)]
steepest_log = between[np.diff(log_rate, axis=1).argmin(axis=1)]
for year, quantity in ((steepest, "rate"), (steepest_log, "log rate")):
    share = np.mean((year > 1875) & (year < 1900))
    print(f"P(steepest fall of the {quantity} between 1875 and 1900) = {share:.2f}")

# %%
# Replicated data check the model: they are Poisson counts of every year, given a draw of the rate.
# Do they have as many years with no disaster, one, two, ... as the observed data? They do, except
# that there are few observed years with exactly two. One of eight 90 % intervals
# may miss by chance.

replicates = np.random.default_rng(0).poisson(rate * exposure)
counts = np.arange(8)
years_with = (replicates[:, :, None] == counts).sum(axis=1)

fig, axes = plt.subplot_mosaic(
    [["rate", "rate"], ["change", "check"]],
    figsize=(8, 6.5),
    height_ratios=[1.3, 1.0],
    layout="constrained",
)
ax = axes["rate"]
ax.bar(years, disasters, color="0.8", width=1.0, label="disasters in the year")
band = np.quantile(rate, [0.05, 0.95], axis=0)
ax.fill_between(years, *band, color="C0", alpha=0.3, label="rate: 90 % credible band")
ax.plot(years, model.predict(decades(years)), color="C0", label="rate: posterior mean")
ax.set(
    title="Disasters, and the rate of the model",
    xlabel="year",
    ylabel="disasters per year",
    xlim=(1850, 1963),
)
ax.legend(loc="upper right")

ax = axes["change"]
bins = np.arange(1850, 1966, 4)
for year, quantity, color in ((steepest, "rate", "C0"), (steepest_log, "log rate", "C1")):
    ax.hist(year, bins, density=True, histtype="step", linewidth=2, color=color, label=quantity)
ax.set(
    title="When did the rate decrease fastest?",
    xlabel="year of the steepest decrease",
    ylabel="posterior density, per year",
)
ax.legend()

ax = axes["check"]
middle = np.median(years_with, axis=0)
low, high = np.quantile(years_with, [0.05, 0.95], axis=0)
ax.errorbar(counts, middle, [middle - low, high - middle], fmt="none", capsize=4, color="C0")
ax.plot(counts, middle, "o", color="C0", label="replicated: median and 90 %")
observed = (disasters[:, None] == counts).sum(axis=0)
ax.plot(counts, observed, "kx", markersize=8, label="observed")
ax.set(title="Replicated and observed data", xlabel="disasters in a year", ylabel="number of years")
ax.legend()
plt.show()
