"""What an effective draw costs for the models other than binary classifiers.

Run as ``python -m benchmarks.models --case NAME|all [--seeds 5] [--nuts] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core: chains run one after the other, on one BLAS
thread. A new model is one more entry of `MODELS`.

For simulated data a seed is that of the data and of the chains, for real data of the chains alone.
What is measured is what `benchmarks.sampling` measures, and goes into ``results/models_NAME.json``;
results of an earlier run stay there unless this run measures them again. Where a model integrates
f out an evaluation is one of the exact evidence.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from skgpmcmc import (
    BayesianGPClassifier,
    BayesianGPCountRegressor,
    BayesianGPOrdinalClassifier,
    BayesianGPRegressor,
    BayesianGPVolatilityRegressor,
)
from skgpmcmc.likelihoods import Gaussian, NegativeBinomial, OrdinalProbit, Poisson, StudentT
from skgpmcmc.model import LatentGP

from .common import SMOOTH, Case, load_ordinal, load_returns, simulate, use_core
from .nuts import make_marginal_model, make_poisson_model
from .sampling import Record, add_nuts_options, fit_until, run_numpyro, show

#: Each of five ordered classes has at least this share of the simulated rows.
LEAST_SHARE = 0.05


@dataclass(frozen=True)
class ModelCase(Case):
    """A case with an estimator of its own.

    Attributes
    ----------
    estimator : callable
        Gives the estimator with its defaults; priors are the papers'.
    nuts : callable or None
        The NumPyro model that is the same as a fitted one, to be compared with.
    dense_mass : bool
        Whether NUTS adapts a full mass matrix.
    """

    estimator: Callable[[], BaseEstimator]
    nuts: Callable[[LatentGP], Callable[[], None]] | None = None
    dense_mass: bool = False


def _model(
    title: str,
    load: Callable[[int], tuple[np.ndarray, np.ndarray]],
    estimator: Callable[[], BaseEstimator],
    *,
    simulated: bool = True,
    per_evaluation: float | None = None,
    times_faster: float | None = None,
    nuts: Callable[[LatentGP], Callable[[], None]] | None = None,
    dense_mass: bool = False,
) -> ModelCase:
    return ModelCase(
        title,
        load,
        simulated=simulated,
        ard=False,
        per_evaluation=per_evaluation,
        per_operation=None,
        times_faster=times_faster,
        estimator=estimator,
        nuts=nuts,
        dense_mass=dense_mass,
    )


# --- data and peers -------------------------------------------------------------------------------


def _all_classes(y: np.ndarray) -> bool:
    return bool(np.bincount(y.astype(int), minlength=5).min() >= LEAST_SHARE * len(y))


def _machine_cpu(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, y, _ = load_ordinal("chu_machine_cpu")
    return StandardScaler().fit_transform(X), y


def _iris() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def _poisson_peer(model: LatentGP) -> Callable[[], None]:
    offset = model.observations.offset
    assert offset is not None
    X = model.covariance.X[model.observations.input_of_row]
    return make_poisson_model(X, model.y, offset)


def _regression_peer(model: LatentGP) -> Callable[[], None]:
    X = model.covariance.X[model.observations.input_of_row]
    return make_marginal_model(X, model.y)


MODELS: dict[str, ModelCase] = {
    "poisson": _model(
        "Poisson counts, simulated n=200, d=1",
        lambda seed: simulate(Poisson(), 200, np.array([1.0, -1.5]), seed),
        lambda: BayesianGPCountRegressor(SMOOTH, likelihood="poisson"),
        per_evaluation=0.5,
        times_faster=60.0,
        nuts=_poisson_peer,
    ),
    "negative_binomial": _model(
        "negative binomial counts, simulated n=200, d=1",
        lambda seed: simulate(NegativeBinomial(shape=2.0), 200, np.array([1.0, -1.5]), seed),
        lambda: BayesianGPCountRegressor(SMOOTH, likelihood="negative_binomial"),
    ),
    "ordinal": _model(
        "five ordered classes, simulated n=200, d=2",
        lambda seed: simulate(
            OrdinalProbit((-2.0, -0.7, 0.7, 2.0)),
            200,
            np.array([1.5, -1.0]),
            seed,
            d=2,
            accept=_all_classes,
        ),
        lambda: BayesianGPOrdinalClassifier(SMOOTH),
        per_evaluation=0.5,
    ),
    "machine_cpu": _model(
        "five ordered classes, machine CPU, n=209",
        _machine_cpu,
        lambda: BayesianGPOrdinalClassifier(SMOOTH),
        simulated=False,
        per_evaluation=0.5,
    ),
    "softmax": _model(
        "three classes by a softmax, iris, n=150",
        lambda seed: _iris(),
        lambda: BayesianGPClassifier(SMOOTH, multi_class="softmax"),
        simulated=False,
    ),
    "volatility": _model(
        "volatility, 500 returns of GBP/USD",
        lambda seed: load_returns("gbp_usd_1980_1987", 500),
        lambda: BayesianGPVolatilityRegressor(SMOOTH),
        simulated=False,
    ),
    "student_t": _model(
        "Student-t regression, simulated n=200, d=1",
        lambda seed: simulate(StudentT(noise_scale=0.3), 200, np.array([0.0, -1.5]), seed),
        lambda: BayesianGPRegressor(SMOOTH, likelihood="student_t"),
    ),
    "regression": _model(
        "Gaussian regression, simulated n=300, d=2",
        lambda seed: simulate(Gaussian(noise_scale=0.3), 300, np.array([0.0, -1.0]), seed, d=2),
        lambda: BayesianGPRegressor(SMOOTH),
        times_faster=10.0,
        nuts=_regression_peer,
        dense_mass=True,
    ),
}


# --- one case -------------------------------------------------------------------------------------


def run_case(name: str, args: argparse.Namespace) -> None:
    """Measure what is asked for, seed after seed, and save after each."""
    case = MODELS[name]
    record = Record(case, name, "models")
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        X, y = case.load(seed)
        estimator = case.estimator().set_params(
            priors="paper", n_draws=args.n_draws, target_ess=None, random_state=seed, n_jobs=1
        )
        ours = fit_until(estimator, X, y, args.min_ess, args.max_draws)
        record.keep("ours", str(seed), ours)
        if args.nuts and case.nuts is not None and seed - args.first_seed < args.nuts_seeds:
            peer = case.nuts(estimator._sampling.run.models[0].model)
            result = run_numpyro(peer, seed, ours, args, dense_mass=case.dense_mass)
            record.keep("nuts", str(seed), result)
    show(case, record.results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=[*MODELS, "all"], default="poisson")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--n-draws", type=int, default=500, help="per chain, at first")
    parser.add_argument("--min-ess", type=float, default=1000.0, help="chains go on until then")
    parser.add_argument("--max-draws", type=int, default=2000, help="per chain, at most")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    add_nuts_options(parser)
    args = parser.parse_args()
    use_core(args.core)
    for name in MODELS if args.case == "all" else [args.case]:
        run_case(name, args)


if __name__ == "__main__":
    main()
