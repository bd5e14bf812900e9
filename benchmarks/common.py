"""What the benchmark scripts share: data, the environment, and the result files."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path

import joblib
import numpy as np
import scipy
import sklearn
from sklearn.preprocessing import StandardScaler

import skgpmcmc
from skgpmcmc.covariance import default_kernel, make_covariance
from skgpmcmc.hyperpriors import HyperPrior, default_prior
from skgpmcmc.likelihoods import BERNOULLI_LIKELIHOODS
from skgpmcmc.model import LatentGP

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def data_folder() -> Path:
    """Where the papers' data sets are: $SKGPMCMC_DATA, else ../shared/data."""
    folder = Path(os.environ.get("SKGPMCMC_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"no data sets in {folder}: set SKGPMCMC_DATA to the folder that holds pima.csv")
    return folder


def load_binary(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Standardized inputs and -1 / +1 targets of one of the papers' binary data sets."""
    table = np.genfromtxt(data_folder() / f"{name}.csv", delimiter=",", skip_header=1)
    X = StandardScaler().fit_transform(table[:, :-1])
    return X, np.where(table[:, -1] > 0, 1.0, -1.0)


def default_model(X: np.ndarray, y: np.ndarray, likelihood: str = "probit") -> LatentGP:
    """The classifier's default model: isotropic RBF and the default priors."""
    covariance = make_covariance(default_kernel(X.shape[1]), X)
    priors = {name: default_prior(name, X.shape[1]) for name in covariance.names}
    hyperprior = HyperPrior(covariance.names, priors)
    return LatentGP(covariance, BERNOULLI_LIKELIHOODS[likelihood](), hyperprior, y)


def simulate_binary(
    n: int, d: int, log_sigma: float, log_tau: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """X uniform in the unit cube, f from the default kernel, y from the probit likelihood."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    model = default_model(X, np.ones(n))
    f = model.prior_at(np.array([log_sigma, log_tau])).sample(rng)
    return X, model.likelihood.sample(f, rng)


def save(name: str, settings: dict, results: object) -> Path:
    """Write results with versions, machine and settings."""
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "versions": {
            "skgpmcmc": skgpmcmc.__version__,
            "python": platform.python_version(),
            **{m.__name__: m.__version__ for m in (np, scipy, sklearn, joblib)},
        },
        "machine": {"machine": platform.machine(), "cpus": joblib.cpu_count()},
        "settings": settings,
        "results": results,
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"saved {path.relative_to(ROOT)}")
    return path
