"""
A psychometric function, with guesses and lapses
================================================

Children say from which of two sides a sound in noise comes. Who hears nothing guesses, and is right
in half of the trials. Now and then a child does not listen, and is wrong however loud the sound is.
How loud must it be to be heard?

Data: studies of Sarah Hogan (Department of Physiology, University of Oxford), coherent sound,
summed over children; data set ``OME`` of the R package MASS.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from skgpmcmc import BayesianGPBinomialRegressor
from skgpmcmc.likelihoods import PsychometricProbit

loudness = np.array([35.0, 40.0, 45.0, 50.0, 55.0])[:, None]  # dB
trials = np.array([305, 280, 311, 334, 299])
right = np.array([140, 149, 165, 310, 288])

# %%
# The model
# ---------
# An answer is right with the probability 0.5 + (0.5 - l) Phi(f), where l is the rate of lapses,
# which is inferred, and f a Gaussian process of the loudness.

model = BayesianGPBinomialRegressor(
    ConstantKernel() * RBF(10.0),
    likelihood=PsychometricProbit(guess=0.5, lapse=0.02),
    random_state=0,
)
model.fit(loudness, right, trials=trials)
print(model.summary())

# %%
# The threshold
# -------------
# At the threshold f is zero: a child that listens and does not guess hears the sound with
# probability one half. Every draw of the function has a threshold of its own, and all of them
# together are its posterior.

grid = np.linspace(35.0, 55.0, 201)
f = model.sample_latent(grid[:, None], 1000)
threshold = grid[np.argmax(f > 0.0, axis=0)]
low, high = np.quantile(threshold, [0.05, 0.95])
print(f"threshold: {threshold.mean():.1f} dB, 90 % interval {low:.1f} to {high:.1f} dB")

fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(6, 5), height_ratios=[3, 1], sharex=True, layout="constrained"
)
mean, (lower, upper) = model.predict(grid[:, None], return_quantiles=[0.05, 0.95])
top.plot(grid, mean, label="mean")
top.fill_between(grid, lower, upper, alpha=0.3, label="90 % of the function")
top.plot(loudness, right / trials, "ko", markersize=4, label="data")
top.axhline(0.5, color="0.6", lw=0.8)
top.set_title("Right answers of children in noise, and their threshold")
top.set_ylabel("share of right answers")
top.legend(fontsize="small", loc="upper left")
bottom.hist(threshold, bins=np.arange(40.0, 55.0, 0.5), density=True)
bottom.set(xlabel="loudness [dB]", ylabel="threshold", yticks=[])
plt.show()
