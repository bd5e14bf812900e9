"""Fits in which estimates of p(y | theta) are noisy, with annealed draws and without.

Run as ``python -m benchmarks.annealed_fits [--cases ...]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``; results go to ``results/annealed_fits.json``, where those of other cases
stay. Data are those of `benchmarks.annealed_noise`. A fit
anneals by itself where the noise of its estimates is above a limit; without annealing the limit is
infinite. All else is the default: priors, four chains.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any
from unittest import mock

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.warmup.emulator import probe

from .annealed_noise import classes
from .common import load_results, print_table, save

N_DRAWS, SEEDS = 500, (0, 1)
#: Data, approximation, and how several classes are modelled.
FITS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "softmax, wine": ("wine", "laplace", {"multi_class": "softmax"}),
    "softmax, digits": ("digits", "laplace", {"multi_class": "softmax"}),
    "Laplace, digits 3 v 5": ("3 v 5", "laplace", {}),
    "Laplace, logit, digits 3 v 5": ("3 v 5", "laplace", {"likelihood": "logit"}),
    "Laplace, alternating labels": ("alternating", "laplace", {}),
    "EP, digits 3 v 5": ("3 v 5", "ep", {}),
    "EP, random labels": ("random", "ep", {}),
    "EP, alternating labels": ("alternating", "ep", {}),
}


def measure(case: str, anneals: bool, seed: int) -> dict[str, Any]:
    """Fit once; worst R-hat, least effective sample sizes, noise, temperatures, seconds."""
    data, approximation, more = FITS[case]
    model = BayesianGPClassifier(
        ConstantKernel() * RBF(),
        approximation=approximation,
        n_draws=N_DRAWS,
        target_ess=None,
        n_jobs=1,
        random_state=seed,
        **more,
    )
    limit = probe.TOO_NOISY if anneals else np.inf
    begun = time.process_time()
    with mock.patch.object(probe, "TOO_NOISY", limit), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*classes(data))
    found = model.diagnostics_
    emulator = found.emulators[0]
    return {
        "r_hat": float(found.r_hat.max()),
        "ess_bulk": float(found.ess_bulk.min()),
        "ess_tail": float(found.ess_tail.min()),
        "noise": emulator.noise,
        "n_temperatures": emulator.n_temperatures,
        "n_importance": emulator.n_importance,
        "seconds": time.process_time() - begun,
    }


def main() -> None:
    """Measure the fits, save and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=list(FITS), default=list(FITS))
    known = load_results("annealed_fits")
    results = {case: known.get(case, {}) for case in FITS}
    rows = []
    for case in parser.parse_args().cases:
        for name, anneals in (("importance", False), ("annealed", True)):
            with threadpool_limits(1):
                runs = [measure(case, anneals, seed) for seed in SEEDS]
            results[case][name] = runs
            rows += [
                [
                    f"{case}, {name}",
                    f"{run['r_hat']:.3f}",
                    f"{run['ess_bulk']:.0f}",
                    f"{run['ess_tail']:.0f}",
                    f"{run['noise']:.2f}",
                    f"{run['n_temperatures']}",
                    f"{run['seconds']:.0f}",
                ]
                for run in runs
            ]
            print(rows[-2:], flush=True)
    print_table(["fit", "R-hat", "ESS", "tail", "noise", "temperatures", "s"], rows)
    measured = {case: found for case, found in results.items() if found}
    save("annealed_fits", {"n_draws": N_DRAWS, "seeds": SEEDS}, measured)


if __name__ == "__main__":
    main()
