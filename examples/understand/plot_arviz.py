"""
ArviZ: chains, length-scales and simulated targets
==================================================

The draws of every estimator can be converted to the data structure of ArviZ, by `to_arviz`. This
example draws three of its plots for a regression with one length-scale for each feature: do the
chains agree, which features matter, and are data simulated from the model like the observed ones?
"""

import arviz_base
import arviz_plots
import matplotlib.pyplot as plt
import numpy as np
from arviz_base.labels import MapLabeller
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor

# %%
# The progression of diabetes in 150 patients, and four features. ArviZ takes their names from the
# columns of the data frame.

X, y = load_diabetes(return_X_y=True, as_frame=True)
X, y = X[["age", "bmi", "bp", "s5"]].iloc[:150], y[:150]
X.columns = ["age", "body mass index", "blood pressure", "log triglycerides"]
X = StandardScaler().set_output(transform="pandas").fit_transform(X)

model = BayesianGPRegressor(ard=True, random_state=0).fit(X, y)
tree = model.to_arviz(posterior_predictive=True)

# %%
# **Do the chains agree?** Each chain has a color. On the left are the densities of its draws. On
# the right are the ranks of its draws among the draws of all chains: their distribution function
# minus a uniform one. If the chains sample the same distribution, the lines stay in the gray area.

arviz_plots.style.use("arviz-variat")
names = MapLabeller({"log_k1__constant_value": "log variance", "log_noise_scale": "log noise"})
arviz_plots.plot_rank_dist(
    tree,
    var_names=["log_k1__constant_value", "log_noise_scale"],
    labeller=names,
    compact=False,
    figure_kwargs={"figsize": (8, 4.5)},
)
plt.suptitle("Densities and ranks of the draws, by chain")
plt.show()

# %%
# **Which features matter?** The longer the length-scale of a feature, the less the function depends
# on it. The body mass index and the triglycerides have short length-scales, of about three standard
# deviations of the feature. For age and blood pressure the data have moved the draws away from the
# short length-scales of the prior: the function hardly changes with them.

# sphinx_gallery_thumbnail_number = 2
shape = tree["posterior"]["log_k2__length_scale"].shape
length_scale = model.priors_["length_scale"].rvs(shape, random_state=0)
prior = arviz_base.from_dict(
    {"posterior": {"log_k2__length_scale": np.log(length_scale)}},
    dims={"log_k2__length_scale": ["feature"]},
    coords={"feature": X.columns},
)
ridges = arviz_plots.plot_ridge(
    {"posterior": tree, "prior": prior},
    var_names=["log_k2__length_scale"],
    labels=["feature"],
    ridge_height=0.8,
    figure_kwargs={"figsize": (8, 4.8)},
)
ridges.add_legend("model", title="")
plt.gcf().axes[-1].set_xlabel("log length-scale, in standard deviations of the feature")
plt.suptitle("Length-scales before and after the data")
plt.show()

# %%
# **Are simulated data like the observed ones?** Each blue line is the distribution of 150 simulated
# targets, for one draw of the posterior. The model simulates negative values. The observed ones
# begin at about 40, and their distribution is skewed to the right. A model of their logarithm is
# worth a try (scikit-learn's `TransformedTargetRegressor`).

checks = arviz_plots.plot_ppc_dist(
    tree, kind="ecdf", visuals={"title": False}, figure_kwargs={"figsize": (8, 4.2)}
)
observed = checks.viz["observed_dist"]["y"].item()
simulated = checks.viz["predictive_dist"]["y"].values[0]
ax = plt.gca()
ax.legend([observed, simulated], ["observed", "simulated"], loc="lower right")
ax.set(xlabel="progression of diabetes after one year", ylabel="share of the patients below")
plt.suptitle("Observed targets and fifty simulated sets")
plt.show()
