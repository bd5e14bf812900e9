"""
Chains of three samplers: traces, autocorrelation, convergence
==============================================================

All three samplers are exact, but they differ in how many draws they need. The classical one ("aa")
moves the latent function f and the hyper-parameters alternately. A pseudo-marginal random walk
integrates f out by importance sampling. The default sampler does that, too, and an emulator makes
its proposals.
"""

import os
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

# REDUCED=1 makes the script fast enough for a test; its chains are too short to be trusted.
reduced = os.environ.get("REDUCED") == "1"
n_chains, n_draws = (2, 100) if reduced else (4, 500)

# %%
# Sixty rows, and the same number of draws by each sampler.

X, y = load_breast_cancer(return_X_y=True)
X, _, y, _ = train_test_split(X, y, train_size=60, stratify=y, random_state=0)
samplers = {
    '"aa"': "aa",
    'PseudoMarginal(moves="random_walk")': PseudoMarginal(moves="random_walk"),
    '"pm", the default': "pm",
}
models = {}
for name, sampler in samplers.items():
    gp = BayesianGPClassifier(
        sampler=sampler, n_chains=n_chains, n_draws=n_draws, target_ess=None, random_state=0
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # to be seen in the figure
        models[name] = make_pipeline(StandardScaler(), gp).fit(X, y)
    found = gp.diagnostics_
    print(
        f"{name}: R-hat at most {found.r_hat.max():.3f}, effective draws at least "
        f"{found.ess_bulk.min():.0f} of {n_chains * n_draws}, {time.perf_counter() - start:.1f} s"
    )

# %%
# Each sampler has one row of panels: the traces of the length-scale, and the two other displays for
# all hyper-parameters.

fig, axes = plt.subplots(3, 3, figsize=(13, 8), sharex="col", sharey="col", layout="constrained")
for (name, model), (trace, correlation, factor) in zip(models.items(), axes, strict=True):
    TraceDisplay.from_estimator(model, hyperparameters="k2__length_scale", ax=trace)
    AutocorrelationDisplay.from_estimator(model, ax=correlation)
    PSRFDisplay.from_estimator(model, method="gelman_rubin", ax=factor)
    trace.set_title(name)
axes[0, 2].set_ylim(0.95, 2.0)
for ax in axes[:-1].flat:
    ax.set_xlabel("")
plt.show()
