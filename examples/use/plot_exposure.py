"""
Counts with exposure, and overdispersed counts
==============================================

Male horseshoe crabs, called satellites, gather around nesting pairs. The width of the shell and the
number of satellites are known for 173 females. Here all females of the same width are one row: its
count is the number of their satellites, and its exposure the number of females. If the counts have
a Poisson distribution, no information is lost by adding them up. But do they?

Data: H. J. Brockmann (1996), Satellite male groups in horseshoe crabs, Limulus polyphemus, Ethology
102; A. Agresti, Categorical Data Analysis, table 4.3.
"""

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from scipy import stats
from sklearn.model_selection import KFold, cross_validate

from skgpmcmc import BayesianGPCountRegressor

# Widths in cm, the number of females of each width, and of all their satellites.
WIDTHS = """
    21.0 22.0 22.5 22.9 23.0 23.1 23.2 23.4 23.5 23.7 23.8 23.9 24.0 24.1 24.2 24.3 24.5 24.7 24.8
    24.9 25.0 25.1 25.2 25.3 25.4 25.5 25.6 25.7 25.8 25.9 26.0 26.1 26.2 26.3 26.5 26.7 26.8 27.0
    27.1 27.2 27.3 27.4 27.5 27.6 27.7 27.8 27.9 28.0 28.2 28.3 28.4 28.5 28.7 28.9 29.0 29.3 29.5
    29.7 29.8 30.0 30.2 30.3 30.5 31.7 31.9 33.5
"""
FEMALES = """
    1 1 3 3 2 3 1 1 1 3 3 1 2 1 2 2 7 5 1 3 6 2 2 1 3 3 2 6 7 1 6 2 8 1 6 3 3 5 2 2 1 3 6 1 2 2 2
    3 4 3 2 4 2 1 6 2 1 1 1 3 1 1 1 1 1 1
"""
SATELLITES = """
    0 0 5 4 1 0 4 0 0 0 6 2 10 0 2 0 13 13 0 6 28 5 2 2 10 0 7 13 13 4 38 8 10 1 16 7 5 18 8 8 1
    14 16 4 11 3 13 5 26 23 8 13 3 4 20 16 4 5 4 22 2 3 3 4 2 7
"""

widths = np.array(WIDTHS.split(), dtype=float)[:, None]
females = np.array(FEMALES.split(), dtype=int)
satellites = np.array(SATELLITES.split(), dtype=int)

# %%
# Two distributions of the counts
# -------------------------------
# In both, the mean is the number of females times a rate exp(f(width)). The negative binomial
# distribution multiplies it by a random factor, one per row, whose variance is one over the
# inferred "shape". More draws than usual are used in a prediction, so that the edges of the bands
# are smooth.
#
# The prior of the length-scale says: four centimeters, up to a factor of two. It matters. Poisson
# counts cannot be overdispersed, so under a wide prior the Poisson model has a second explanation:
# a length-scale of one or two millimeters, with a rate of its own for nearly every width. The
# posterior then has two modes, far apart, and no chain moves from one to the other. R-hat shows
# this only if chains happen to start in both.

models = {
    likelihood: BayesianGPCountRegressor(
        likelihood=likelihood,
        priors={"length_scale": stats.lognorm(0.4, scale=4.0)},
        max_predict_draws=100,
        random_state=0,
    ).fit(widths, satellites, exposure=females)
    for likelihood in ("poisson", "negative_binomial")
}

# %%
# `loo` estimates how well each row is predicted from the others, without another fit. The estimate
# is not reliable for rows whose Pareto k is above 0.7.

for name, model in models.items():
    print(f"{name}: {model.loo()}")

# %%
# Cross-validation with exposure
# ------------------------------
# A cross-validation checks these estimates. Exposures are metadata, which scikit-learn splits into
# folds and passes to the methods that request them: here `fit` and `score`. The score is the share
# of the deviance that the mean explains, with the exposures. Unlike the log density, it does not
# depend on the variance of the counts.

folds = KFold(4, shuffle=True, random_state=0)
with sklearn.config_context(enable_metadata_routing=True):
    for name, model in models.items():
        routed = model.set_fit_request(exposure=True).set_score_request(exposure=True)
        result = cross_validate(
            routed,
            widths,
            satellites,
            cv=folds,
            params={"exposure": females},
            return_estimator=True,
            return_indices=True,
        )
        density = sum(
            fitted.log_predictive_density(widths[i], satellites[i], exposure=females[i]).sum()
            for fitted, i in zip(result["estimator"], result["indices"]["test"], strict=True)
        )
        explained = result["test_score"].mean()
        print(f"{name}: held-out log density {density:.1f}, explained deviance {explained:.2f}")

# %%
# The inferred rates are similar, but their uncertainties differ. The predicted counts differ even
# more: zeros and large counts are more frequent than in a Poisson distribution.

grid = np.linspace(20.5, 34.0, 200)[:, None]
counts = np.arange(51)
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained")
left.scatter(
    widths[:, 0], satellites / females, s=14 * females, color="0.6", label="data, area: females"
)
for (name, model), color in zip(models.items(), ("C1", "C0"), strict=True):
    label = name.capitalize().replace("_", " ")
    rates = np.exp(model.sample_latent(grid, n_draws=2000, random_state=0))
    band = np.quantile(rates, [0.05, 0.95], axis=1)
    left.fill_between(grid[:, 0], *band, color=color, alpha=0.25)
    left.plot(grid[:, 0], model.predict(grid), color=color, label=f"{label}: mean and 90 % band")
    expected = model.predict_count_proba([[26.0]], counts, exposure=[6])[0]
    right.step(counts, expected, where="mid", color=color, label=label)
near = (females == 6) & (np.abs(widths[:, 0] - 26.0) <= 1.5)
observed = "observed: six females\n24.5 to 27.5 cm wide"
right.plot(satellites[near], np.zeros(near.sum()), "k^", clip_on=False, label=observed)
left.set(title="Rates", xlabel="width of the female [cm]", ylabel="satellites per female")
left.legend(fontsize="small")
right.set(
    title="Counts", xlabel="satellites of six females 26 cm wide", ylabel="predictive probability"
)
right.set_ylim(bottom=0.0)
right.legend(loc="upper right", fontsize="small")
plt.show()
