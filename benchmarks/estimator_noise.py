"""Standard deviation of log p-hat(y | theta) at the posterior mode, by approximation and N.

Run as ``python -m benchmarks.estimator_noise``. Pima (standardized), and
ten simulated data sets with n = 200, X uniform in the unit square, sigma = e^2, tau = e^-1.5.
N = 1 is reported only: its variance can be infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from skgpmcmc.approximations import APPROXIMATIONS
from skgpmcmc.hyperposterior import find_mode
from skgpmcmc.importance import importance_estimate
from skgpmcmc.model import LatentGP

from .common import default_model, load_binary, save, simulate_binary

N_IMPORTANCE = (1, 16, 64)
N_REPLICATES = 200
N_SIMULATED = 10


def log_sd_at_mode(
    model: LatentGP, approximation: str, sizes: Sequence[int] = N_IMPORTANCE
) -> dict[int, float]:
    """Standard deviation of the log estimate over replicates, by number of draws.

    It is taken at the posterior mode under the approximation itself, without a defensive mixture.
    """
    method = APPROXIMATIONS[approximation]()
    starts = [model.covariance.start, np.array([1.0, 0.0])]
    theta = find_mode(model, method, starts, with_hyperprior=True).fit.q.prior.theta
    q = method.fit(model, theta).q
    rng = np.random.default_rng(20140901)
    return {
        n: float(
            np.std(
                [importance_estimate(model, q, n, rng).log_likelihood for _ in range(N_REPLICATES)],
                ddof=1,
            )
        )
        for n in sizes
    }


def main() -> None:
    models = {"pima": default_model(*load_binary("pima"))}
    for seed in range(N_SIMULATED):
        X, y = simulate_binary(200, 2, 2.0, -1.5, seed)
        models[f"simulated {seed}"] = default_model(X, y)
    results: list[dict[str, Any]] = []
    with threadpool_limits(1):
        for name, model in models.items():
            for approximation in APPROXIMATIONS:
                sds = log_sd_at_mode(model, approximation)
                results.append({"data": name, "approximation": approximation, "log_sd": sds})
    print("sd of log p-hat at the posterior mode, N =", *N_IMPORTANCE)
    for approximation in APPROXIMATIONS:
        rows = [r for r in results if r["approximation"] == approximation]
        print(f"  pima, {approximation}:", *(f"{v:.2f}" for v in rows[0]["log_sd"].values()))
        medians = [np.median([r["log_sd"][n] for r in rows[1:]]) for n in N_IMPORTANCE]
        print(f"  simulated, {approximation} (median of 10):", *(f"{v:.2f}" for v in medians))
    settings = {"n_replicates": N_REPLICATES, "defensive": 0.0, "n_simulated": N_SIMULATED}
    save("estimator_noise", settings, results)


if __name__ == "__main__":
    main()
