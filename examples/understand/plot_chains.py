"""
Chains of three samplers: traces, autocorrelation, convergence
==============================================================

All three samplers are exact, but they differ in how many draws they need. The classical one ("aa")
moves the latent function f and the hyper-parameters alternately. A pseudo-marginal random walk
integrates f out by importance sampling. The default sampler ("pm") integrates f out as well, and an
emulator makes its proposals.
"""

import time
import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.displays import AutocorrelationDisplay, PSRFDisplay, TraceDisplay
from skgpmcmc.samplers import PseudoMarginal

# %%
# Sixty rows, and the same number of draws by each sampler: four chains of 500.

X, y = load_breast_cancer(return_X_y=True)
X, _, y, _ = train_test_split(X, y, train_size=60, stratify=y, random_state=0)
samplers = {
    "classical": "aa",
    "random walk": PseudoMarginal(moves="random_walk"),
    "default": "pm",
}
models = {}
for name, sampler in samplers.items():
    gp = BayesianGPClassifier(sampler=sampler, n_draws=500, target_ess=None, random_state=0)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the figure shows it
        models[name] = make_pipeline(StandardScaler(), gp).fit(X, y)
    found = gp.diagnostics_
    print(
        f"{name}: R-hat at most {found.r_hat.max():.3f}, effective draws at least "
        f"{found.ess_bulk.min():.0f} of 2000, {time.perf_counter() - start:.1f} s"
    )

# %%
# Each sampler has one row of panels: the traces of the length-scale, the autocorrelation, and R-hat
# with its upper limit (dashed). Only the draws of the default sampler are nearly independent.

fig, axes = plt.subplots(3, 3, figsize=(8, 7), sharex="col", sharey="col", layout="constrained")
for (name, model), (trace, correlation, factor) in zip(models.items(), axes, strict=True):
    TraceDisplay.from_estimator(model, hyperparameters="length_scale", ax=trace)
    AutocorrelationDisplay.from_estimator(model, ax=correlation)
    PSRFDisplay.from_estimator(model, method="gelman_rubin", ax=factor)
    trace.set_title(f"{name}: traces", fontsize="medium")
    correlation.set_title(f"{name}: autocorrelation", fontsize="medium")
    factor.set_title(f"{name}: R-hat", fontsize="medium")
for ax in axes.flat:
    ax.set_ylabel("")
    if ax.get_legend():
        ax.get_legend().remove()
for ax in axes[:-1].flat:
    ax.set_xlabel("")
axes[0, 0].set_ylabel("log length-scale")
axes[0, 1].legend(fontsize="small")
axes[0, 2].legend(fontsize="small")
plt.show()
