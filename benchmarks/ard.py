"""Designs of proposals for ARD kernels: what an effective draw costs with each.

Run as ``python -m benchmarks.ard [--case ard10] [--seeds 3] [--core 0]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core. All designs have the same model, data,
approximation and diagnostics; what differs is the proposal. Results of other cases that
``results/ard.json`` has already stay there.
"""

from __future__ import annotations

import argparse
from unittest import mock

import numpy as np

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.transitions import hmc

from .common import CASES, fit_quietly, load_results, plain, print_table, save, use_core

#: Title, `moves` of the sampler, and what trajectories cover where that matters.
DESIGNS = (
    ("random walk", "random_walk", None),
    ("one leapfrog step on the approximate marginal (MALA)", "trajectories", (0.0, 0.0)),
    ("a quarter of a period on the approximate marginal (HMC)", "trajectories", None),
    ("chain on the gradient-informed emulator (the default)", "emulated", None),
)


def measure(
    case: str, moves: str, travel: tuple[float, float] | None, seed: int, n_draws: int
) -> dict[str, object]:
    """One fit; effective draws are the least over hyper-parameters, of bulk or tail."""
    X, y = CASES[case].load(seed)
    classifier = BayesianGPClassifier(
        ard=True,
        priors="paper",
        sampler=PseudoMarginal(moves=moves),
        n_draws=n_draws,
        target_ess=None,
        random_state=seed,
        n_jobs=1,
    )
    shortest, longest = travel or (hmc.SHORTEST_TRAVEL, hmc.LONGEST_TRAVEL)
    with mock.patch.multiple(hmc, SHORTEST_TRAVEL=shortest, LONGEST_TRAVEL=longest):
        fit_quietly(classifier, X, y)
    d = classifier.diagnostics_
    each = np.minimum(d.ess_bulk, d.ess_tail)
    return {
        "seed": seed,
        "n_hyperparameters": len(each),
        "max_r_hat": d.r_hat.max(),
        "min_ess": each.min(),
        "per_evaluation": each.min() / d.n_sampling_evaluations,
        "median_per_evaluation": np.median(each) / d.n_sampling_evaluations,
        "per_operation": each.min() / d.sampling_operations.total,
        "per_second": each.min() / d.seconds_sampling,
        "seconds_before": d.seconds_warmup,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=["ard10", "ionosphere"], default="ard10")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--n-draws", type=int, default=500, help="per chain, of four")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    cases = load_results("ard").get("cases", {})
    cases[args.case] = {"title": CASES[args.case].title, "designs": {}}
    for title, moves, travel in DESIGNS:
        runs = [
            plain(measure(args.case, moves, travel, seed, args.n_draws))
            for seed in range(args.seeds)
        ]
        cases[args.case]["designs"][title] = runs
        save("ard", {"n_draws": args.n_draws, "seeds": args.seeds}, {"cases": cases})
        rows = [[r["seed"], *(f"{r[k]:.4f}" for k in _SHOWN)] for r in runs]
        print(title)
        print_table(["seed", *_SHOWN], rows)


_SHOWN = ("max_r_hat", "per_evaluation", "per_operation", "per_second", "seconds_before")


if __name__ == "__main__":
    main()
