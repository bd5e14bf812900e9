"""Convergence of the default classifier on standardized Pima: isotropic, the papers' priors.

Run as ``python -m benchmarks.convergence [--sampler pm] [--approximation ep] [--n-jobs 2]``.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from skgpmcmc import BayesianGPClassifier

from .common import load_binary, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sampler", default="pm")
    parser.add_argument("--approximation", default="ep")
    parser.add_argument("--n-warmup", type=int, default=None, help="the sampler's own if not given")
    parser.add_argument("--n-draws", type=int, default=1000)
    parser.add_argument("--n-jobs", type=int, default=2)
    args = parser.parse_args()
    X, y = load_binary("pima")
    classifier = BayesianGPClassifier(
        priors="paper",
        sampler=args.sampler,
        approximation=args.approximation,
        n_warmup="auto" if args.n_warmup is None else args.n_warmup,
        n_draws=args.n_draws,
        target_ess=None,
        n_jobs=args.n_jobs,
        random_state=0,
        max_rhat=1.05,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        classifier.fit(X, y)
    diagnostics = classifier.diagnostics_
    n_warmup = classifier.n_iter_ - classifier.theta_samples_.shape[1]
    settings = {**vars(args), "n_warmup": n_warmup, "n_chains": 4, "random_state": 0}
    print(diagnostics)
    start = time.perf_counter()
    classifier.predict_proba(X[:200])
    predict_seconds = time.perf_counter() - start
    theta = classifier.theta_samples_.reshape(-1, classifier.theta_samples_.shape[2])
    result = {
        "hyperparameters": classifier.hyperparameter_names_,
        "posterior_mean_log": theta.mean(axis=0).tolist(),
        "posterior_sd_log": theta.std(axis=0, ddof=1).tolist(),
        "r_hat": diagnostics.r_hat.tolist(),
        "ess_bulk": diagnostics.ess_bulk.tolist(),
        "ess_tail": diagnostics.ess_tail.tolist(),
        "acceptance_rate": {
            k: np.round(v, 3).tolist() for k, v in diagnostics.acceptance_rate.items()
        },
        "log_likelihood_sd": diagnostics.log_likelihood_sd.tolist(),
        "n_cubic": diagnostics.n_cubic,
        "n_likelihood_evaluations": diagnostics.n_likelihood_evaluations,
        "seconds_warmup": diagnostics.seconds_warmup,
        "seconds_sampling": diagnostics.seconds_sampling,
        "seconds_predict_200_rows": predict_seconds,
        "warnings": [str(w.message) for w in caught],
    }
    save(f"convergence_pima_{args.sampler}_{args.approximation}", settings, result)


if __name__ == "__main__":
    main()
