"""PyMC's NUTS on the default classifier, as a peer: same model, priors and data.

Run as ``python -m benchmarks.pymc_nuts --case sim2 [--seed 0] [--n-draws 500] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``; needs ``pip install pymc``. The model is written with
``pm.gp.Latent``, which whitens f, and compiled by Numba, as PyTensor advises where it was installed
by pip; everything else is PyMC's default. Four chains run one after the other; compilation is not
counted. The result goes into ``results/sampling_NAME.json``, beside that of NumPyro.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from skgpmcmc.run import summarize_convergence

from .common import CASES, Case, use_core
from .nuts import DEFAULT_JITTER
from .sampling import EFFECTIVE, MAX_RHAT, Record, run_ours

N_CHAINS = 4
SITES = ("constant_value", "length_scale")


def make_model(X: np.ndarray, y: np.ndarray, *, ard: bool) -> Any:
    """Return the default probit classifier as a PyMC model; y is -1 or +1."""
    import pymc as pm

    n, d = X.shape
    with pm.Model() as model:
        constant = pm.Gamma("constant_value", 1.1, 0.1)
        scale = pm.Gamma("length_scale", 1.0, 1.0 / np.sqrt(d), shape=d if ard else None)
        # The jitter is relative to the constant.
        shape = pm.gp.cov.ExpQuad(d, ls=scale) + pm.gp.cov.WhiteNoise(np.sqrt(DEFAULT_JITTER))
        f = pm.gp.Latent(cov_func=constant * shape).prior("f", X=X, jitter=0.0)
        pm.Potential("likelihood", pm.logcdf(pm.Normal.dist(0.0, 1.0, shape=n), y * f).sum())
    return model


def run_pymc(case: Case, seed: int, n_warmup: int, n_draws: int) -> dict[str, Any]:
    """Run NUTS, and report cost and convergence of the hyper-parameters on the log scale."""
    import pymc as pm
    import pytensor

    pytensor.config.mode = "NUMBA"
    model = make_model(*case.load(seed), ard=case.ard)
    settings = {"chains": N_CHAINS, "cores": 1, "random_seed": seed, "progressbar": False}
    settings |= {"discard_tuned_samples": False, "compute_convergence_checks": False}
    start = time.perf_counter()
    with model:
        # What is compiled at the first call is kept by PyTensor.
        pm.sample(draws=2, tune=2, **settings)
        seconds_compile = time.perf_counter() - start
        found = pm.sample(draws=n_draws, tune=n_warmup, **settings)
    theta = np.concatenate(
        [np.log(np.atleast_3d(found["posterior"][site].to_numpy())) for site in SITES], axis=2
    )
    steps = {
        phase: found[group]["n_steps"].to_numpy()
        for phase, group in {"warmup": "warmup_sample_stats", "draw": "sample_stats"}.items()
    }
    total = float(found["posterior"].attrs["sampling_time"])
    per_leapfrog = total / sum(int(own.sum()) for own in steps.values())
    summary = summarize_convergence(theta)
    min_ess = float(min(summary.ess_bulk.min(), summary.ess_tail.min()))
    max_r_hat = float(np.max(summary.r_hat))
    seconds_warmup, seconds_sampling = (per_leapfrog * float(own.sum()) for own in steps.values())
    draws = theta.reshape(-1, theta.shape[2])
    return {
        "version": pm.__version__,
        "n_chains": N_CHAINS,
        "n_warmup": n_warmup,
        "n_draws": n_draws,
        "seconds_compile": seconds_compile,
        "seconds_warmup": seconds_warmup,
        "seconds_sampling": seconds_sampling,
        "seconds_per_leapfrog": per_leapfrog,
        "leapfrog_per_draw": float(steps["draw"].mean()),
        "divergences": int(found["sample_stats"]["diverging"].sum()),
        "posterior_mean_log": draws.mean(axis=0),
        "posterior_sd_log": draws.std(axis=0, ddof=1),
        "min_ess": min_ess,
        "max_r_hat": max_r_hat,
        "seconds_to_1000": seconds_warmup + seconds_sampling * EFFECTIVE / min_ess,
        "lower_bound": max_r_hat > MAX_RHAT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, default="sim2")
    parser.add_argument("--seed", type=int, default=0, help="of simulated data and of the chains")
    parser.add_argument("--n-warmup", type=int, default=1000)
    parser.add_argument("--n-draws", type=int, default=500)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    case = CASES[args.case]
    fit = argparse.Namespace(priors="paper", n_draws=500, min_ess=0.0, max_draws=500)
    ours, _ = run_ours(case, *case.load(args.seed), args.seed, fit)
    result = run_pymc(case, args.seed, args.n_warmup, args.n_draws)
    gap = np.abs(np.subtract(result["posterior_mean_log"], ours["posterior_mean_log"]))
    result |= {
        "ours_seconds_to_1000": ours["seconds_to_1000"],
        "ratio": result["seconds_to_1000"] / ours["seconds_to_1000"],
        "difference_in_sd": (gap / ours["posterior_sd_log"]).max(),
    }
    Record(case, args.case).keep("pymc", str(args.seed), result)
    for name, value in result.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
