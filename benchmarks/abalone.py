"""A fit of 2835 rows: Abalone, male or female, until 400 effective draws, on two cores.

Run as ``python -m benchmarks.abalone``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Other
data and settings (``--data pima --target-ess 400``) are for the same question elsewhere.
"""

from __future__ import annotations

import argparse
import resource

from joblib.externals.loky import get_reusable_executor

from skgpmcmc import BayesianGPClassifier

from .common import fit_quietly, load_binary, peak_mebibytes, save, watched_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=["abalone_mf", "pima", "cancer"], default="abalone_mf")
    parser.add_argument("--target-ess", type=float, default=400.0)
    parser.add_argument("--n-draws", type=int, default=500, help="per chain, at most")
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-rows", type=int, default=None, help="for a trial")
    args = parser.parse_args()
    X, y = load_binary(args.data)
    X, y = X[: args.max_rows], y[: args.max_rows]
    classifier = BayesianGPClassifier(
        priors="paper",
        target_ess=args.target_ess,
        n_draws=args.n_draws,
        n_jobs=args.n_jobs,
        random_state=args.seed,
    )
    with watched_memory() as peak:
        wall, _, warned = fit_quietly(classifier, X, y)
    d = classifier.diagnostics_
    parent = peak_mebibytes()
    get_reusable_executor().shutdown(wait=True)  # children count once they have ended
    child = peak_mebibytes(resource.RUSAGE_CHILDREN)
    print(d)
    result = {
        "n": len(y),
        "seconds_total": wall,
        "seconds_before": d.seconds_warmup,
        "seconds_sampling": d.seconds_sampling,
        "n_draws": classifier.theta_samples_.shape[1],
        "r_hat": d.r_hat,
        "ess_bulk": d.ess_bulk,
        "ess_tail": d.ess_tail,
        "max_r_hat": d.r_hat.max(),
        "min_ess": min(d.ess_bulk.min(), d.ess_tail.min()),
        "n_evaluations": d.n_sampling_evaluations,
        "operations_per_evaluation": d.sampling_operations.total / d.n_sampling_evaluations,
        "mebibytes_parent": parent,
        "mebibytes_largest_child": child,
        "mebibytes_at_most": parent + args.n_jobs * child,
        "mebibytes_at_once": max(peak, default=None),
        "warnings": warned,
    }
    print(
        f"{wall:.0f} s; peak memory: parent {parent:.0f} MiB, largest worker {child:.0f} MiB, "
        f"together at most {result['mebibytes_at_most']:.0f} MiB, at once {max(peak):.0f} MiB"
    )
    settings = {**vars(args), "n_chains": 4}
    save(f"target_ess_{args.data}", settings, result)


if __name__ == "__main__":
    main()
