"""Posteriors by NumPyro's NUTS on three small problems, for the tests to compare with.

Run as ``python -m benchmarks.nuts_reference``; needs ``pip install numpyro``. The models are those
of `benchmarks.nuts`, and the script first makes sure that their densities are those of the package.
NumPyro's defaults leave a few divergent transitions (1 % for counts), which are reported.
``tests/exactness/test_nuts_reference.py`` compares the default sampler with the result.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from skgpmcmc.approximations import Exact
from skgpmcmc.likelihoods import Gaussian, Likelihood, Poisson, Probit
from skgpmcmc.model import (
    LatentGP,
    Observations,
    default_hyperprior,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.testing import PROBABILITIES

from . import nuts
from .common import print_table, save

N = 30
JITTER = 1e-6


@dataclass(frozen=True)
class Problem:
    """Data of a model with the default kernel and the papers' priors."""

    likelihood: Likelihood
    y: np.ndarray
    offset: np.ndarray | None = None

    @property
    def model(self) -> LatentGP:
        """The model of the package."""
        covariance = make_covariance(smooth_kernel(1), INPUTS)
        hyperprior = default_hyperprior(covariance, self.likelihood, "paper")
        observations = Observations(self.likelihood, self.y, self.offset)
        return LatentGP(covariance, observations, hyperprior).with_nugget(JITTER)

    def peer(self) -> Callable[[], None]:
        """NumPyro's model of the same; regression has f integrated out."""
        if isinstance(self.likelihood, Probit):
            return nuts.make_model(INPUTS, self.y, jitter=JITTER)
        if isinstance(self.likelihood, Poisson):
            assert self.offset is not None
            return nuts.make_poisson_model(INPUTS, self.y, self.offset, jitter=JITTER)
        return nuts.make_marginal_model(INPUTS, self.y, jitter=JITTER)


def _problems() -> tuple[np.ndarray, dict[str, Problem]]:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 3.0, N))[:, None]
    f, offset = 1.5 * np.sin(3.0 * X[:, 0]), rng.uniform(-0.5, 0.5, N)
    return X, {
        "probit": Problem(Probit(), np.where(f + rng.standard_normal(N) > 0.0, 1.0, -1.0)),
        "poisson": Problem(Poisson(), rng.poisson(np.exp(f + offset)).astype(float), offset),
        "regression": Problem(Gaussian(0.3), f + 0.4 * rng.standard_normal(N)),
    }


INPUTS, PROBLEMS = _problems()


def check_density(problem: Problem) -> None:
    """Both densities differ by a constant, at random points."""
    from numpyro.infer.util import log_density

    model, peer, rng = problem.model, problem.peer(), np.random.default_rng(1)
    gaps = []
    for _ in range(4):
        theta = model.start + 0.5 * rng.standard_normal(len(model.start))
        v = rng.standard_normal(N)
        sites = {name: np.exp(theta[[j]]) for j, name in enumerate(nuts.SITES) if j < len(theta)}
        theirs, _ = log_density(peer, (), {}, {**sites, "v": v})
        if isinstance(problem.likelihood, Gaussian):
            log_likelihood = Exact().fit(model, theta).log_evidence
        else:
            f = model.prior_at(theta).unwhiten(v)
            log_likelihood = model.observations_at(theta).total(f) - 0.5 * float(v @ v)
        # NumPyro's density is that of the natural scale, ours that of logs.
        ours = log_likelihood + model.hyperprior.log_prob(theta) - theta.sum()
        gaps.append(ours - float(theirs))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-6)


def run(problem: Problem, n_chains: int, n_warmup: int, n_draws: int, seed: int) -> dict[str, Any]:
    """Means and quantiles of log theta, each with its Monte Carlo error."""
    from arviz_stats.base.array import array_stats

    peer = problem.peer()
    check_density(problem)
    chains = nuts.Chains(peer, n_chains, n_warmup, seed)
    nuts.warm_up(chains, n_warmup, np.inf)
    theta, _, diverging = nuts.sample(chains, n_draws, None)
    axes = {"chain_axis": 0, "draw_axis": 1}
    by_quantile = [
        array_stats.mcse(theta, method="quantile", prob=p, **axes) for p in PROBABILITIES
    ]
    return {
        "hyperparameters": list(problem.model.hyperprior.names),
        "mean_log": theta.mean(axis=(0, 1)),
        "mean_log_error": array_stats.mcse(theta, method="mean", **axes),
        "sd_log": theta.std(axis=(0, 1)),
        "probabilities": PROBABILITIES,
        "quantiles_log": np.quantile(theta, PROBABILITIES, axis=(0, 1)).T,
        "quantiles_log_error": np.transpose(by_quantile),
        "r_hat": array_stats.rhat(theta, **axes),
        "ess_bulk": array_stats.ess(theta, method="bulk", **axes),
        "divergences": int(diverging.sum()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-chains", type=int, default=4)
    parser.add_argument("--n-warmup", type=int, default=1000)
    parser.add_argument("--n-draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    settings = vars(parser.parse_args())
    nuts.import_jax()
    import jax
    import numpyro

    results = {name: run(problem, **settings) for name, problem in PROBLEMS.items()}
    print_table(
        ["problem", "mean", "sd", "R-hat", "ESS", "divergences"],
        [
            [name]
            + [np.round(r[key], 3) for key in ("mean_log", "sd_log", "r_hat", "ess_bulk")]
            + [r["divergences"]]
            for name, r in results.items()
        ],
    )
    versions = {"numpyro": numpyro.__version__, "jax": jax.__version__}
    save("nuts_reference", settings | versions | {"jitter": JITTER}, results)


if __name__ == "__main__":
    main()
