"""
How nervous was the market? Volatility of an exchange rate
==========================================================

Daily returns of the pound against the dollar have a mean near zero; what changes is their scale.
Here its log is a Gaussian process over time. The data are 500 trading days from July 1984 on, with
the pound's fall to little more than a dollar, and the Plaza agreement of September 22, 1985.

Data: M. Verbeek (2004), A Guide to Modern Econometrics; series "bp" of the data set "Garch" in the
R package Ecdat, 1980 to 1987.
"""

import os
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats
from sklearn.gaussian_process.kernels import ConstantKernel, Matern

from skgpmcmc import BayesianGPVolatilityRegressor

# REDUCED=1 makes the script fast enough for a test; its chains are too short to be trusted.
reduced = os.environ.get("REDUCED") == "1"
n_chains, n_draws, target_ess, n_days = (2, 100, None, 60) if reduced else (4, 1000, 400, 500)

# %%
# The file has one line per trading day: date, dollars per pound, and 100 times the log of the rate
# over that of the day before.

path = Path(os.environ.get("SKGPMCMC_DATA", ""), "gbp_usd_1980_1987.csv")
if not path.is_file():
    sys.exit(
        f"{path.name} is not here. Set SKGPMCMC_DATA to the folder that holds it; its columns are "
        "date, rate (dollars per pound: bp of Garch in the R package Ecdat) and target (return in "
        "per cent)."
    )
table = np.genfromtxt(path, delimiter=",", names=True, dtype=None, encoding="utf-8")
table = table[table["date"] >= "1984-07-01"][:n_days]
dates = table["date"].astype("datetime64[D]")
returns = table["target"]

# %%
# Time is in months. Volatility is rougher than the draws of an RBF covariance, hence the Matérn
# one; the prior of its length-scale is centered at two months. Sampling stops at 400 effective
# draws.

months = (dates - dates[0]).astype(float)[:, None] / 30.4
model = BayesianGPVolatilityRegressor(
    kernel=ConstantKernel() * Matern(nu=1.5),
    priors={"k2__length_scale": stats.lognorm(1.0, scale=2.0)},
    n_chains=n_chains,
    n_draws=n_draws,
    target_ess=target_ess,
    random_state=0,
).fit(months, returns)
print(model.diagnostics_)

# %%
# Leave-one-out densities of the days, against normal returns whose standard deviation never
# changes. Of a few days the draws know too little (Pareto k above 0.7), so that their densities are
# rough; the figure marks these days.

loo = model.loo()
print(loo)
others = (np.sum(returns**2) - returns**2) / (len(returns) - 1)
gain = loo.elpd_i - stats.norm.logpdf(returns, scale=np.sqrt(others))
print(f"gain over a constant volatility: {gain.sum():.1f} in {len(returns)} days")

# %%
# The volatility of one day is known to within a factor of about one and a half. A moving standard
# deviation does not say so; it lags behind besides, and drops an extreme day when its time is up.

volatility = np.exp(model.latent_samples_).reshape(-1, len(dates))
band = np.quantile(volatility, [0.05, 0.95], axis=0)
window = 20
moving = np.sqrt(np.convolve(returns**2, np.full(window, 1.0 / window), mode="valid"))

fig, (top, middle, bottom) = plt.subplots(
    3, 1, figsize=(10, 8), sharex=True, height_ratios=[1.0, 1.3, 0.8], layout="constrained"
)
top.vlines(dates, 0.0, returns, color="0.4", linewidth=1.0)
top.set_ylabel("daily return [%]")
events = {
    f"lowest: {table['rate'].min():.3f} dollars": dates[table["rate"].argmin()],
    "after the Plaza agreement": np.datetime64("1985-09-23"),
}
for event, day in events.items():
    for ax in (top, middle, bottom):
        ax.axvline(day, color="C3", linewidth=1.0, linestyle=":")
    top.annotate(event, (day, 1.02), xycoords=("data", "axes fraction"), color="C3", ha="center")
middle.fill_between(dates, *band, color="C0", alpha=0.3, label="90 % credible band")
middle.plot(dates, model.predict(months), color="C0", label="posterior mean")
middle.plot(
    dates[window - 1 :], moving, color="C1", linewidth=1.0, label=f"of the last {window} days"
)
middle.set_ylabel("standard deviation [%]")
middle.set_ylim(bottom=0.0)
middle.legend(loc="upper right")
gained = np.cumsum(gain)
rough = loo.pareto_k > 0.7
bottom.plot(dates, gained, color="C0")
bottom.plot(dates[rough], gained[rough], "o", color="C3", label="day with Pareto k > 0.7")
bottom.axhline(0.0, color="k", linewidth=0.8)
bottom.set_ylabel("gain in log density,\nfrom the first day on")
bottom.legend(loc="lower right")
plt.show()
