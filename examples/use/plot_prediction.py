"""
Predictions along one input
===========================

Is a value uncertain because the function is, or because new targets vary around it?
`PredictionDisplay` draws both. Here the number of visitors depends on the temperature of the day:
the inner band is the interval of the rate, and the outer one that of new counts.
"""

import matplotlib.pyplot as plt
import numpy as np

from skgpmcmc import BayesianGPCountRegressor
from skgpmcmc.displays import PredictionDisplay

rng = np.random.default_rng(0)
temperature = np.sort(rng.uniform(0.0, 30.0, 60))[:, None]
rate = np.exp(1.0 + 1.5 * np.exp(-0.5 * ((temperature[:, 0] - 18.0) / 5.0) ** 2))
visitors = rng.poisson(rate * rng.gamma(4.0, 0.25, 60))

# %%
# The unit of the input is ten degrees, so that its standard deviation is about one. More draws than
# usual are used in a prediction, so that the edges of the bands are smooth.

X = temperature / 10.0
model = BayesianGPCountRegressor(max_predict_draws=200, random_state=0).fit(X, visitors)
display = PredictionDisplay.from_estimator(model, X, visitors)
display.ax_.set(xlabel="temperature [10 °C]", ylabel="visitors of a day")
display.figure_.suptitle("Visitors by temperature")
plt.show()

# %%
# The same numbers without a picture: the interval of the rate at 18 degrees, that of a new count,
# and the probability that the rate is above ten.

at = np.array([[1.8]])
print("interval of the rate:", model.predict_rate(at, return_quantiles=[0.05, 0.95])[1].ravel())
print("interval of a new count:", model.predict(at, return_quantiles=[0.05, 0.95])[1].ravel())
print("P(rate > 10):", model.exceedance_proba(at, 10.0))
