"""Regression with a length-scale for every feature: the default fit beside NumPyro's NUTS.

Run as ``python -m benchmarks.many_lengths [--problem NAME ...] [--seeds 3] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``; needs ``pip install numpyro``, unless ``--no-nuts`` is
given. One core, and both in one run. Data, priors and the treatment of f, which is integrated out,
are the same; the script first makes sure that the two log densities differ by a constant. NUTS has
NumPyro's defaults (diagonal mass matrix, target acceptance 0.8) and is compiled before its clock
starts. Effective draws are the least over hyper-parameters, of bulk and tail, by the same function,
and seconds are those of the processor. Problems that are not run keep their results.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.approximations import Exact
from skgpmcmc.hyperposterior import HyperPosterior
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)

from . import nuts
from .common import fit_quietly, load_results, plain, print_table, save, seconds_to, use_core
from .default import smooth_regression

Data = tuple[np.ndarray, np.ndarray]
#: Effective draws to which seconds are scaled.
EFFECTIVE = 400.0
#: Iterations of each of four chains of NUTS.
N_WARMUP, N_DRAWS = 300, 200


def simulated(n: int, d: int) -> Data:
    """The function of `smooth_regression`, of the first six features."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    f = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 + X[:, 4] - X[:, 5]
    return X, f + 0.1 * rng.standard_normal(n)


def diabetes() -> Data:
    """Three quarters of scikit-learn's diabetes data."""
    X, y = load_diabetes(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[: 3 * len(y) // 4]
    return StandardScaler().fit_transform(X[rows]), y[rows]


PROBLEMS: dict[str, Callable[[], Data]] = {
    "n = 50, d = 6": lambda: simulated(50, 6),
    "n = 50, d = 20": smooth_regression,
    "n = 200, d = 20": lambda: simulated(200, 20),
    "diabetes, n = 331, d = 10": diabetes,
}


def model_of(X: np.ndarray, y: np.ndarray) -> LatentGP:
    """The model of the default fit with ``ard=True``."""
    covariance, likelihood = make_covariance(smooth_kernel(X.shape[1], ard=True), X), Gaussian()
    prior = default_hyperprior(covariance, likelihood, None)
    return LatentGP(covariance, Observations(likelihood, (y - y.mean()) / y.std()), prior)


def peer_of(model: LatentGP) -> Callable[[], None]:
    """NumPyro's model of the same."""
    jax = nuts.import_jax()
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp

    X, y = jnp.asarray(model.covariance.X), jnp.asarray(model.y)
    Z, identity = X - X.mean(axis=0), jnp.eye(len(y))
    laws = {name.split("__")[-1]: law for name, law in model.hyperprior.distributions.items()}

    def drawn(site: str, size: int) -> Any:
        prior = dist.LogNormal(*nuts.lognormal_parameters(laws[site])).expand([size]).to_event(1)
        return numpyro.sample(site, prior)

    def peer() -> None:
        constant, length = drawn("constant_value", 1), drawn("length_scale", X.shape[1])
        noise = drawn("noise_scale", 1)
        scaled = Z / length
        norms = jnp.sum(scaled * scaled, axis=1)
        distances = jax.nn.relu(norms[:, None] + norms - 2.0 * scaled @ scaled.T)
        K = constant[0] * jnp.exp(-0.5 * distances * (1.0 - identity))
        L = jnp.linalg.cholesky(K + noise[0] ** 2 * identity)
        whitened = jax.scipy.linalg.solve_triangular(L, y, lower=True)
        log_evidence = -0.5 * jnp.sum(whitened**2) - jnp.sum(jnp.log(jnp.diagonal(L)))
        numpyro.factor("likelihood", log_evidence)

    return peer


def check_density(model: LatentGP, peer: Callable[[], None]) -> None:
    """Both log densities differ by a constant, at random points."""
    from numpyro.infer.util import log_density

    rng, posterior, gaps = np.random.default_rng(1), HyperPosterior(model, Exact()), []
    for _ in range(4):
        theta = model.start + 0.5 * rng.standard_normal(len(model.start))
        parts = np.exp(theta[:1]), np.exp(theta[1:-1]), np.exp(theta[-1:])
        theirs, _ = log_density(peer, (), {}, dict(zip(nuts.SITES, parts, strict=True)))
        point = posterior.at(theta)
        assert point is not None
        # NumPyro's density is that of the natural scale, ours that of logs.
        gaps.append(point.log_density - theta.sum() - float(theirs))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6)


def gradient_seconds(model: LatentGP) -> float:
    """Least processor time of an evaluation with its gradient."""
    posterior, times = HyperPosterior(model, Exact()), []
    for _ in range(50):
        start = time.process_time()
        posterior.at(model.start)
        times.append(time.process_time() - start)
    return min(times)


def measure(X: np.ndarray, y: np.ndarray, seed: int) -> dict[str, Any]:
    """One default fit."""
    estimator = BayesianGPRegressor(
        smooth_kernel(X.shape[1], ard=True), random_state=seed, n_jobs=1
    )
    _, processor, warned = fit_quietly(estimator, X, y)
    d = estimator.diagnostics_
    ess = float(min(d.ess_bulk.min(), d.ess_tail.min()))
    sampling = processor * d.seconds_sampling / (d.seconds_warmup + d.seconds_sampling)
    return {
        "seconds": processor,
        "seconds_to_400": seconds_to(EFFECTIVE, processor, d),
        "ess_bulk": d.ess_bulk.min(),
        "ess_tail": d.ess_tail.min(),
        "max_r_hat": d.r_hat.max(),
        "per_second": ess / sampling,
        "evaluations_before": d.n_likelihood_evaluations - d.n_sampling_evaluations,
        "evaluations_per_effective_draw": d.n_sampling_evaluations / ess,
        "warnings": warned,
    }


def measure_peer(model: LatentGP, seed: int) -> dict[str, Any]:
    """One run of NUTS."""
    peer = peer_of(model)
    check_density(model, peer)
    found = nuts.run_nuts(peer, n_warmup=N_WARMUP, n_draws=N_DRAWS, seed=seed)
    ess = float(found["min_ess"])
    # As for the default fit, seconds are those of the processor.
    share = found["seconds_processor"] / (found["seconds_warmup"] + found["seconds_sampling"])
    warmup, sampling = share * found["seconds_warmup"], share * found["seconds_sampling"]
    return {
        "seconds_compile": found["seconds_compile"],
        "seconds_to_400": warmup + sampling * EFFECTIVE / ess,
        "ess_bulk": min(found["ess_bulk"]),
        "ess_tail": min(found["ess_tail"]),
        "max_r_hat": max(found["r_hat"]),
        "per_second": ess / sampling,
        "divergences": found["divergences"],
        "leapfrog_per_draw": found["leapfrog_per_draw"],
        "seconds_per_leapfrog": share * found["seconds_per_leapfrog"],
    }


def main() -> None:
    """Run what is asked for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problem", nargs="*", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=3, help="of the default fit")
    parser.add_argument("--nuts-seeds", type=int, default=1)
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    parser.add_argument("--no-nuts", action="store_true")
    args = parser.parse_args()
    use_core(args.core)
    measure(*simulated(20, 2 + 4), 0)  # imports, and a warm processor
    results = load_results("many_lengths")
    for name in args.problem:
        X, y = PROBLEMS[name]()
        model = model_of(X, y)
        runs = [measure(X, y, seed) for seed in range(args.seeds)]
        results[name] = {"gradient_seconds": gradient_seconds(model), "default": runs}
        if not args.no_nuts:
            results[name]["nuts"] = [measure_peer(model, seed) for seed in range(args.nuts_seeds)]
        settings = {"effective_draws": EFFECTIVE, "nuts": [N_WARMUP, N_DRAWS]}
        save("many_lengths", settings, plain(results))
    show(results)


def show(results: dict[str, Any]) -> None:
    """Print a line for each problem."""
    rows = []
    for name, found in results.items():
        keys = ("seconds", "seconds_to_400", "per_second", "max_r_hat")
        runs = [[float(run[key]) for run in found["default"]] for key in keys]
        peers = found.get("nuts", [])
        theirs = [
            np.mean([float(peer[key]) for peer in peers]) if peers else np.nan
            for key in ("seconds_to_400", "per_second")
        ]
        values = [
            1e3 * found["gradient_seconds"],
            *(np.mean(runs[i]) for i in (0, 1, 2)),
            np.max(runs[3]),
            *theirs,
            np.mean(runs[2]) / theirs[1],
        ]
        rows.append([name, *(f"{value:.3g}" for value in plain(values))])
    print_table(
        [
            *("problem", "ms a gradient", "seconds", "seconds to 400", "draws a second"),
            *("worst R-hat", "NUTS: seconds to 400", "NUTS: draws a second", "ratio"),
        ],
        rows,
    )


if __name__ == "__main__":
    main()
